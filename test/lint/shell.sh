# shell: what shellcheck finds in the shell scripts; what is accepted has a
# comment.
. test/run/tap.sh

# Scripts, and what they source
shell_files() {
	all_files | grep '\.sh$'
	all_files | tr '\n' '\0' | xargs -0 awk \
		'FNR == 1 {if (/^#!.*[\/ ](ba)?sh$/) print FILENAME; nextfile}'
}

# Files know each other's variables, and shellcheck one file at a time: where
# a variable is set or used, or a file lies, is not its matter.
across='SC1090,SC1091,SC2034,SC2154'

for file in $(shell_files | sort -u); do
	none "$file" "$(shellcheck -s bash -S warning -e $across -f gcc "$file" 2>&1)"
done

done_testing

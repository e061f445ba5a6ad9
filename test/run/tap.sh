# tap.sh: for the lints, which print TAP. They run in the root directory of
# the sources, which may be a copy without .git.

tap_cases=0

# none WHAT FINDINGS: a case that passes if nothing was found
none() {
	tap_cases=$((tap_cases + 1))
	if [ -z "$2" ]; then
		printf 'ok %d - %s\n' "$tap_cases" "$1"
	else
		printf 'not ok %d - %s\n' "$tap_cases" "$1"
		printf '%s\n' "$2" | sed 's/^/# /' | head -n 40
	fi
}

done_testing() { printf '1..%d\n' "$tap_cases"; }

# every file of the project, in lines without "./"
all_files() {
	find . \( -name .git -o -path ./.build \) -prune -o -type f ! -name .check-passed -print |
		sed 's,^\./,,' | sort
}

text_files() { all_files | tr '\n' '\0' | xargs -0 grep -lI '' ; }

c_files() { find src -name '*.[ch]' | sort; }

# The targets of the Makefile that a user calls, a line each
make_targets() {
	printf '%s\n' all install uninstall installcheck clean
	awk '{line = line $0} /\\$/ {sub(/\\$/, " ", line); next}
		{print line; line = ""}' Makefile |
		sed -n 's/^[A-Z]*_GOALS *= *//p' | tr -s ' \t' '\n' | grep '^[a-z]'
}

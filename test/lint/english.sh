# english: words that the project does not use, in code, documents and tests.
# english.tsv lists them, each with what to write instead.
. test/run/tap.sh

list=test/lint/english.tsv
own='^(test/lint/english\.|LICENSE$|doc/pictures/|bench/RESULTS)'

# found PATTERN: lines that have it
found() {
	text_files | grep -vE "$own" | tr '\n' '\0' | xargs -0 grep -nEiw "$1" | cut -c1-160
}

tab=$(printf '\t')
while IFS=$tab read -r pattern instead; do
	case $pattern in '#'*) continue ;; esac
	none "not \"$pattern\", but: $instead" "$(found "$pattern")"
done <$list

done_testing

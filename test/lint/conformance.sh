# conformance: the tests that doc/conformance.md names exist.
# A row: | promise | tests in back quotes | shown or open |
. test/run/tap.sh

page=doc/conformance.md
rows=$(grep -nE '^\|' "$page" |
	grep -vE '^[0-9]+:\|[- :|]+\|$|^[0-9]+:\| *promise *\|')

# exists NAME: "family:test"
exists() {
	local name=${1#*:}
	case $1 in
		regress:*) [ -f "test/sql/$name.sql" ] ;;
		isolation:*) [ -f "test/isolation/specs/$name.spec" ] ;;
		pgtap:*) [ -f "test/pgtap/$name.sql" ] ;;
		tap:*) [ -f "test/t/$name.pl" ] ;;
		lint:*) [ -f "test/lint/$name.sh" ] ;;
		hostile:*) grep -q "{\"$name\", " test/hostile/main.c ;;
		mutant:*) [ -n "$(find test/mutants -name "$name.patch")" ] ;;
		cmd:make\ *) make_targets | grep -qxF -e "$(printf '%s' "$name" | cut -d' ' -f2)" ;;
		cmd:*) [ -x "${name%% *}" ] ;;
		*) false ;;
	esac
}

quoted() { printf '%s\n' "$1" | grep -oE '`(regress|isolation|pgtap|tap|lint|hostile|mutant|cmd):[^`]*`' | tr -d '`'; }

none 'there are rows' "$([ -n "$rows" ] || echo "$page has none")"
none 'every row has a promise, tests and a state' "$(
	printf '%s\n' "$rows" | grep -vE '^[0-9]+:\|[^|]+\|[^|]*\| *(shown|open)[^|]* *\|$')"
none 'every row that is shown names a test' "$(
	printf '%s\n' "$rows" | grep -E '\| *shown[^|]*\|$' |
		grep -vE '`(regress|isolation|pgtap|tap|lint|hostile|mutant|cmd):')"
none 'every test that is named exists' "$(
	quoted "$rows" | sort -u | while IFS= read -r test; do
		exists "$test" || echo "$test"
	done)"

done_testing

#!/bin/bash
# Every test stands in its schedule and has what it needs to run, every name
# in doc/conformance.md is a test, and no test sleeps for a fixed time.
cd "$TASKQ_SRC" || exit 1
n=0
report() { # report PROBLEMS WORDS
	n=$((n + 1))
	[ -z "$1" ] && echo "ok $n - $2" || { echo "not ok $n - $2:" $1; }
}

scheduled=$(sed -n 's/^test: *//p' test/regress_schedule | tr ' ' '\n')
report "$(for f in test/sql/*.sql; do b=$(basename "$f" .sql)
	echo "$scheduled" | grep -qx "$b" || echo "$b"; done)" "every regression test is scheduled"
report "$(for t in $scheduled; do
	[ -e "test/sql/$t.sql" ] && [ -e "expected/$t.out" ] || echo "$t"; done)" \
	"every scheduled regression test exists, with its result"
scheduled=$(sed -n 's/^test: *//p' test/isolation/schedule | tr ' ' '\n')
report "$(for f in test/isolation/specs/*.spec; do b=$(basename "$f" .spec)
	echo "$scheduled" | grep -qx "$b" || echo "$b"; done)" "every isolation test is scheduled"
report "$(for t in $scheduled; do
	[ -e "test/isolation/specs/$t.spec" ] && [ -e "test/isolation/expected/$t.out" ] ||
		echo "$t"; done)" "every scheduled isolation test exists, with its result"

exists() { # exists FAMILY:NAME
	local name=${1#*:}
	case $1 in
		regress:*) [ -e "test/sql/$name.sql" ] ;;
		isolation:*) [ -e "test/isolation/specs/$name.spec" ] ;;
		pgtap:*) [ -e "test/pgtap/$name.sql" ] ;;
		tap:*) [ -e "test/t/$name.pl" ] ;;
		lint:*) [ -e "test/lint/$name.sh" ] ;;
		mutant:*) [ -e "test/mutants/$name.patch" ] ;;
		*) false ;;
	esac
}
named=$(grep -oE '`(regress|isolation|pgtap|tap|lint|mutant):[a-z0-9_]+`' doc/*.md |
	sed 's/^[^`]*`//; s/`$//' | sort -u)
report "$(for t in $named; do exists "$t" || echo "$t"; done)" \
	"every test that doc/ names exists"
report "$(grep -E '^\|' doc/conformance.md | grep -vE '^\| *(promise|-)' |
	grep -vE '\| (shown|open) *\|$' | cut -c1-60)" \
	"every promise is called shown or open"
report "$(grep -E '^\|.*\| shown *\|$' doc/conformance.md |
	grep -vE '`(regress|isolation|pgtap|tap|lint|mutant|make)[: ]' | cut -c1-60)" \
	"every promise called shown names a test"
report "$(grep -nE '\b(pg_sleep\(|sleep\(?[ 0-9]|usleep)' -r test/sql test/isolation/specs \
	test/pgtap test/t | grep -vE 'poll|pg_sleep\(0\.0' | cut -d: -f1,2)" \
	"no test sleeps for a fixed time"
echo "1..$n"

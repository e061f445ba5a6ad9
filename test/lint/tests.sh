# tests: every existing test is run, and every test to be run exists.
. test/run/tap.sh

scheduled() {
	sed -n 's/^test:[[:space:]]*//p' "$1" | tr -s ' \t' '\n' | sort
}

# names DIRECTORY SUFFIX
names() {
	find "$1" -maxdepth 1 -name "*$2" 2>/dev/null |
		sed "s,.*/,,; s,\\$2\$,," | sort
}

# compare WHAT SCHEDULE DIRECTORY SUFFIX
compare() {
	local listed present
	listed=$(scheduled "$2")
	present=$(names "$3" "$4")
	none "$1: every test is in $2" "$(
		printf '%s\n' "$present" | grep -vxF -e "$listed")"
	none "$1: every name in $2 is a test" "$(
		printf '%s\n' "$listed" | grep -vxF -e "$present")"
	none "$1: no name is there twice" "$(printf '%s\n' "$listed" | uniq -d)"
}

# without_expected TESTS DIRECTORY: names without an expected result;
# alternatives are NAME_0.out to NAME_9.out
without_expected() {
	local name
	for name in $1; do
		[ -f "$2/$name.out" ] || ls "$2/$name"_[0-9].out >/dev/null 2>&1 ||
			echo "$name"
	done
}

# orphans TESTS DIRECTORY
orphans() {
	local name
	for name in $(names "$2" .out); do
		printf '%s\n' "$1" | grep -qxF -e "$name" -e "${name%_[0-9]}" ||
			echo "$2/$name.out"
	done
}

regress=$(names test/sql .sql)
isolation=$(names test/isolation/specs .spec)
compare regress test/regress_schedule test/sql .sql
compare isolation test/isolation/schedule test/isolation/specs .spec
none 'every regression test has an expected result' \
	"$(without_expected "$regress" expected)"
none 'every isolation test has an expected result' \
	"$(without_expected "$isolation" test/isolation/expected)"
none 'every expected result has a test' \
	"$(orphans "$regress" expected; orphans "$isolation" test/isolation/expected)"
none 'every patch for a run without preloading has a regression test' \
	"$({ names test/unloaded .patch; cat test/unloaded/left_out; } |
		grep -vxF -e "$regress")"
none 'no regression test has the name of a part' \
	"$(find sql -maxdepth 1 -name '*.sql' ! -name 'taskq--*')"
none 'every file of TAP or pgTAP tests is in the folder that is run' \
	"$(find test/t test/pgtap -mindepth 1 \( -name '*.sql' -o -name '*.pl' \) |
		grep -vE '^test/(t/[^/]+\.pl|pgtap/[^/]+\.sql)$')"
# a server's log is named TEST_NODE.log
none 'no TAP test has the name of another one and "_..."' "$(
	for name in $(names test/t .pl); do
		names test/t .pl | grep "^${name}_"
	done)"
none 'every pgTAP test rolls back' \
	"$(grep -LiE '^ROLLBACK;' test/pgtap/*.sql)"
none 'the Makefile lists every part, in the order of their numbers' \
	"$(diff <(sed -n '/^SQL_PARTS/,/[^\\]$/p' Makefile |
		grep -oE '\b[0-9]{2}_[a-z_]+') <(names sql/parts .sql))"
none 'no two parts have the same number' \
	"$(names sql/parts .sql | cut -d _ -f 1 | uniq -d)"
none 'every mutant names a test' \
	"$(find test/mutants -name '*.patch' \
		-exec grep -LE '^# test: [a-z]+ .' {} + 2>/dev/null)"
none 'no two mutants break the same for the same tests' \
	"$(find test/mutants -name '*.patch' | sort | while read -r patch; do
		printf '%s %s\n' "$(grep -E '^# (test|rule):|^[-+ ]' "$patch" | cksum)" "$patch"
	done | awk '{key = $1 " " $2; if (key in seen) print seen[key] ", " $3; seen[key] = $3}')"
none 'no two mutants have the same name, and none has the name of an area' \
	"$({ find test/mutants -name '*.patch'; find test/mutants -mindepth 1 -type d; } |
		sed 's,.*/,,; s,\.patch$,,' | sort | uniq -d)"

done_testing

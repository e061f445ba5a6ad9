# mutants.sh: proof that the tests can fail.
#
# Each test/mutants/NAME.patch breaks the code in one way.  Lines at its head,
# "# test: FAMILY NAME", tell which tests must notice; each of them is a case.
# A mutant of the chaos test names the rules that must be broken, "# rule: 8".

run_mutants() {
	local patch files passed=0 failed=0
	pick_files "$TASKQ_SRC/test/mutants" .patch "$(asked_for mutants)"
	for patch in "${files[@]}"; do
		run_mutant "$patch"
	done
	count mutants $passed $failed 0
}

mutant_passed() {
	say "ok - $1"
	passed=$((passed + 1))
}

mutant_failed() {
	say "not ok - $1"
	failed=$((failed + 1))
}

run_mutant() {
	local patch=$1 name dir tests rules family test
	name=$(basename "$patch" .patch)
	dir=$TASKQ_TMP/mutant
	tests=$(sed -n 's/^# test: *//p' "$patch" 2>/dev/null)
	rules=$(sed -n 's/^# rule: *//p' "$patch" 2>/dev/null)
	rm -rf "$dir"
	mkdir -p "$dir"
	cp -R "$TASKQ_SRC" "$dir/src"
	if [ -z "$tests" ]; then
		mutant_failed "$name: it names no test"
	elif ! patch -s -p1 -d "$dir/src" <"$patch"; then
		mutant_failed "$name: the patch does not apply"
	else
		while read -r family test; do
			run_mutant_test "$name" "$dir" "$family" "$test" "$rules"
		done <<<"$tests"
	fi
	rm -rf "$dir"
}

# noticed, by the rules that it names
mutant_noticed() {
	local name=$1 dir=$2 test=$3 rules=$4 rule
	for rule in $rules; do
		if ! grep -qE "rule +$rule [^:]*: [1-9][0-9]* violation" "$dir/output"
		then
			grep -E 'violation|not ok|^ +[0-9]+ ' "$dir/output"
			mutant_failed "$name: noticed by $test, but not by its rule $rule"
			return
		fi
	done
	mutant_passed "$name: noticed by $test${rules:+, rule }${rules//$'\n'/ and }"
}

# A build that fails, or a server that does not start, is no answer.
run_mutant_test() {
	local name=$1 dir=$2 family=$3 test=$4 rules=$5 status
	TASKQ_TMP=$dir TASKQ_SRC=$dir/src TESTS=$test SPECS='' FILES='' CI='' \
		bash "$dir/src/test/run/inner" "$family" >"$dir/output" 2>&1 </dev/null
	status=$?
	rm -rf "${dir:?}/$family"
	case $status in
		"$FAILED_TEST") mutant_noticed "$name" "$dir" "$family $test" "$rules" ;;
		0) mutant_failed "$name: not noticed by $family $test" ;;
		*)
			tail -n 30 "$dir/output"
			mutant_failed "$name: $family $test gave no result"
			;;
	esac
}

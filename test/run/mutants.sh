# mutants.sh: proof that the tests can fail.
#
# Each test/mutants/AREA/NAME.patch breaks the code in one way; the area is the
# folder of src that it breaks. Lines at its head, "# test: FAMILY NAME", say
# which tests must notice it; each of them is a case. A mutant of the chaos test
# names the rules that must be broken, "# rule: 8".
#
# What is not broken is built once, in TASKQ_TMP. Each mutant starts with copies
# of that in a directory of its own, so that make compiles only what the patch
# changes, and what includes a header that it changes; JOBS of them run at the
# same time. TAP tests and the model end with their first failure, unless rules
# are named: then all of them must be seen.

run_mutants() {
	local patch found files jobs=${JOBS:-2} n=0
	[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "JOBS is a number, not \"$jobs\""
	# shellcheck disable=SC2046  # a list of words
	found=$(mutant_files $(asked_for mutants)) || exit $NO_RESULT
	mapfile -t files <<<"$found"
	[ ${#files[@]} = 1 ] || make_base
	for patch in "${files[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
			wait -n
		done
		n=$((n + 1))
		run_mutant "$patch" "$TASKQ_TMP/m$n" &
	done
	wait
	count_mutants $n
}

# What all mutants start with; a single one starts with the existing objects
make_base() {
	use_build release
	use_build test
	make_template
	build_chaos_client
}

count_mutants() {
	local n=$1 i passed failed silent=0
	passed=$(cat "$TASKQ_TMP"/m*.said | grep -c '^ok - ')
	failed=$(cat "$TASKQ_TMP"/m*.said | grep -c '^not ok - ')
	for ((i = 1; i <= n; i++)); do
		grep -qsE '^(not )?ok - ' "$TASKQ_TMP/m$i.said" ||
			silent=$((silent + 1))
	done
	[ $silent = 0 ] || say "mutants: $silent came to no end, which is a failure"
	count mutants "$passed" $((failed + silent)) 0
}

# In the background; its output is printed as a whole.
run_mutant() {
	local patch=$1 dir=$2
	(break_and_test "$patch" "$dir") >"$dir.said" 2>&1 ||
		mutant_failed "$(basename "$patch" .patch): it came to no end" \
			>>"$dir.said"
	cat "$dir.said"
}

mutant_passed() { say "ok - $1"; }

mutant_failed() { say "not ok - $1"; }

break_and_test() {
	local patch=$1 dir=$2 name tests rules family test
	name=$(basename "$patch" .patch)
	tests=$(sed -n 's/^# test: *//p' "$patch")
	rules=$(sed -n 's/^# rule: *//p' "$patch")
	mkdir "$dir"
	# make compares the times of files
	cp -R --preserve=timestamps "$TASKQ_SRC" "$dir/src"
	if [ -z "$tests" ]; then
		mutant_failed "$name: it names no test"
	elif ! patch -s -p1 -d "$dir/src" <"$patch"; then
		mutant_failed "$name: the patch does not apply"
	else
		while read -r family test; do
			run_mutant_test "$name" "$dir" "$family" "$test" "$rules"
		done <<<"$tests"
	fi
	stop_servers "$dir"
	rm -rf "$dir"
}

# The message of a failed test; "void otherwise" means that it has seen too
# little.
failures() {
	sed -nE -e "s/^ *# +Failed test [0-9: ]*['\"](.*)['\"]\$/\1/p" \
		-e 's/^not ok[-: 0-9]*//p' -e 's/^([-+][^-+].*)/\1/p' "$1"
}

is_void() { failures "$1" | grep -q . && ! failures "$1" | grep -qv 'void otherwise'; }

first_failure() {
	local words
	words=$(failures "$1" | grep -v 'void otherwise' | head -n 1)
	# it died; the reason is at the end of its log
	[ -n "$words" ] ||
		words=$(grep -E ' at [^ ]+ line [0-9]+[.,]' "$1" | tail -n 1)
	[ -n "$words" ] ||
		words=$(grep -m 1 -E '^ *Dubious|which is a failure|\] XX' "$1")
	say "${words:0:90}"
}

# noticed, by the rules that it names
mutant_noticed() {
	local name=$1 output=$2 test=$3 took=$4 rules=$5 rule
	for rule in $rules; do
		if ! grep -qE "rule +$rule [^:]*: [1-9][0-9]* violation" "$output"
		then
			grep -E 'violation|not ok|^ +[0-9]+ ' "$output"
			mutant_failed "$name: noticed by $test, but not by its rule $rule"
			return
		fi
	done
	mutant_passed "$name: noticed by $test${rules:+, rule }${rules//$'\n'/ and } in $took s: $(first_failure "$output")"
}

# A failed build, a server that does not start, a skipped or void test are no
# answer. Warnings pass: a break may leave something unused.
run_mutant_test() {
	local name=$1 dir=$2 family=$3 test=$4 rules=$5 begin=$SECONDS status first=1
	local base=$TASKQ_TMP
	[ -z "$rules" ] || first=
	TASKQ_BASE=$base TASKQ_TMP=$dir TASKQ_SRC=$dir/src \
		TASKQ_FIRST_FAILURE=$first WERROR='' \
		TESTS=$test SPECS='' FILES='' CI='' \
		bash "$dir/src/test/run/inner" "$family" >"$dir/output" 2>&1 </dev/null
	status=$?
	stop_servers "$dir"
	rm -rf "${dir:?}/$family"
	if [ $status = "$FAILED_TEST" ] &&
		{ grep -q ': nothing ran' "$dir/output" || is_void "$dir/output"; }
	then
		status=$NO_RESULT
	fi
	case $status in
		"$FAILED_TEST")
			mutant_noticed "$name" "$dir/output" "$family $test" \
				$((SECONDS - begin)) "$rules"
			;;
		0) mutant_failed "$name: not noticed by $family $test" ;;
		*)
			tail -n 30 "$dir/output"
			mutant_failed "$name: $family $test gave no result"
			;;
	esac
}

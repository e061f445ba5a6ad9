# families.sh: how each family of tests is run, and its cases counted.

# count FAMILY PASSED FAILED SKIPPED: add a family's cases to the sums
count() {
	local passed=$2 failed=$3 skipped=$4
	if [ $((passed + failed)) = 0 ]; then
		say "$1: nothing ran, which is a failure"
		failed=1
	fi
	if [ -n "${CI:-}" ] && [ "$skipped" -gt 0 ]; then
		say "$1: in CI a skipped case is a failure"
		failed=$((failed + skipped))
	fi
	say "$1: $((passed + failed)) cases ran, $passed passed, $failed failed$(
		[ "$skipped" = 0 ] || say ", $skipped skipped")"
	total_passed=$((total_passed + passed))
	total_failed=$((total_failed + failed))
}

# The tests asked for; TESTS serves every family, SPECS and FILES are the
# usual words of two of them.
asked_for() {
	case $1 in
		isolation) say "${SPECS:-${TESTS:-}}" ;;
		pgtap | tap) say "${FILES:-${TESTS:-}}" ;;
		*) say "${TESTS:-}" ;;
	esac
}

# pick_files DIRECTORY SUFFIX NAMES: sets files to the files with these names,
# or to all
pick_files() {
	local name file
	files=()
	for name in ${3:-"$1"/*"$2"}; do
		file=$1/$(basename "$name" "$2")$2
		if [ -f "$file" ]; then
			files+=("$file")
		elif [ -n "$3" ]; then
			die "there is no test $name in ${1#"$TASKQ_SRC"/}"
		fi
	done
}

schedule_names() { sed -n 's/^test:[[:space:]]*//p' "$1"; }

# The first test of the schedule makes the extension: it always runs.
regress_names() {
	local first name
	first=$(schedule_names "$TASKQ_SRC/test/regress_schedule" | head -n 1)
	first=${first%% *}
	say "$first"
	for name in $1; do
		[ "$name" = "$first" ] || say "$name"
	done
}

# count_regress FAMILY OUTPUT STATUS LOG TEST...: from the lines of pg_regress,
# in the form of version 15 and in the later one
count_regress() {
	local family=$1 output=$2 status=$3 log=$4 passed failed
	shift 4
	passed=$(grep -cE '(\.\.\. ok +[0-9]+ ms$)|(^ok [0-9]+ )' "$output")
	failed=$(grep -cE '(\.\.\. FAILED)|(^not ok [0-9]+ )' "$output")
	if [ "$status" != 0 ]; then
		grep -vE '(\.\.\. ok +[0-9]+ ms$)|(^ok [0-9]+ )|^$' "$output"
		cat "${output%/*}/regression.diffs" 2>/dev/null
		[ "$failed" -gt 0 ] || failed=1
	fi
	scan_log "$log" "$@" || failed=$((failed + 1))
	count "$family" "$passed" "$failed" 0
}

# The release build, as a user would see it
run_regress() {
	regress_on regress
}

# The same on a server that does not preload the library
run_unloaded() {
	regress_on unloaded "shared_preload_libraries = ''"
}

# make_unloaded DIRECTORY: changes tests and results there to what they are
# without preloading; test/unloaded has the differences, and what is left out
make_unloaded() {
	local patch
	for patch in "$TASKQ_SRC"/test/unloaded/*.patch; do
		patch -s -F 0 -p1 -d "$1" <"$patch" ||
			die "${patch#"$TASKQ_SRC"/} no longer fits its test"
	done
	grep -vxF -f <(sed 's/^/test: /' "$TASKQ_SRC/test/unloaded/left_out") \
		"$TASKQ_SRC/test/regress_schedule" >"$1/test/regress_schedule"
}

# regress_on FAMILY [SETTING...]
regress_on() {
	local family=$1 dir=$TASKQ_TMP/$1 names status files
	names=$(asked_for "$family")
	pick_files "$TASKQ_SRC/test/sql" .sql "$names"
	use_build release
	start_server "$@"
	mkdir -p "$dir/out/test"
	cp -R "$TASKQ_SRC/expected" "$dir/out"
	cp -R "$TASKQ_SRC/test/sql" "$TASKQ_SRC/test/regress_schedule" \
		"$dir/out/test"
	[ "$family" != unloaded ] || make_unloaded "$dir/out"
	# shellcheck disable=SC2046,SC2086  # lists of words
	(cd "$dir/out" && "$PGXS/src/test/regress/pg_regress" --bindir="$BIN" \
		--host="$SOCKETS" --port=5432 --user=postgres --dbname=regression \
		--inputdir="$dir/out/test" --max-concurrent-tests=1 \
		$(if [ -n "$names" ]; then
			regress_names "$names"
		else
			say "--schedule=$dir/out/test/regress_schedule"
		fi)) >"$dir/out/output" 2>&1 </dev/null
	status=$?
	stop_server "$family"
	count_regress "$family" "$dir/out/output" $status "$dir/server.log" \
		"${files[@]}"
}

run_isolation() {
	local dir=$TASKQ_TMP/isolation names status files
	names=$(asked_for isolation)
	pick_files "$TASKQ_SRC/test/isolation/specs" .spec "$names"
	use_build test
	start_server isolation
	mkdir "$dir/out"
	# shellcheck disable=SC2086  # lists of words
	(cd "$dir/out" && "$PGXS/src/test/isolation/pg_isolation_regress" \
		--bindir="$BIN" --host="$SOCKETS" --port=5432 --user=postgres \
		--dbname=isolation_regression --load-extension=taskq \
		--inputdir="$TASKQ_SRC/test/isolation" \
		${names:---schedule="$TASKQ_SRC/test/isolation/schedule"}) \
		>"$dir/out/output" 2>&1 </dev/null
	status=$?
	stop_server isolation
	count_regress isolation "$dir/out/output" $status "$dir/server.log" \
		"${files[@]}"
}

# prove_files FAMILY JOBS FILE...: run files that speak TAP; sets PASSED,
# FAILED, SKIPPED
prove_files() {
	local result=$TASKQ_TMP/prove-$1
	PASSED=0 FAILED=1 SKIPPED=0
	rm -f "$result"
	perl "$TASKQ_SRC/test/run/prove.pl" "$result" "$2" "${@:3}" \
		</dev/null 2>&1
	[ ! -s "$result" ] || read -r PASSED FAILED SKIPPED <"$result"
}

run_pgtap() {
	local files
	pick_files "$TASKQ_SRC/test/pgtap" .sql "$(asked_for pgtap)"
	use_build test
	# plans of views that are expensive only by their size would be compiled
	start_server pgtap 'jit = off'
	"$BIN/psql" -X -q -h "$SOCKETS" -p 5432 -U postgres -d postgres \
		-v ON_ERROR_STOP=1 -c 'CREATE DATABASE pgtap' -c '\c pgtap' \
		-c 'CREATE EXTENSION pgtap' -c 'CREATE EXTENSION taskq' ||
		die "could not make the database of the pgTAP tests"
	PGHOST=$SOCKETS PGPORT=5432 PGUSER=postgres PGDATABASE=pgtap \
		PATH="$BIN:$PATH" prove_files pgtap 1 "${files[@]}"
	stop_server pgtap
	scan_log "$TASKQ_TMP/pgtap/server.log" "${files[@]}" ||
		FAILED=$((FAILED + 1))
	count pgtap $PASSED $FAILED $SKIPPED
}

# The program that the chaos test runs as its producers and workers
build_chaos_client() {
	TASKQ_CHAOS_CLIENT=$TASKQ_TMP/chaos_client
	[ ! -e "${TASKQ_BASE:-}/chaos_client" ] ||
		cp -p "$TASKQ_BASE/chaos_client" "$TASKQ_TMP"
	make -s -C "$TASKQ_SRC/test/chaos" OUT="$TASKQ_TMP" \
		PG_CONFIG="$PG_CONFIG" || die "the client of the chaos test fails"
	export TASKQ_CHAOS_CLIENT
}

# Tests with PostgreSQL::Test::Cluster, which make their own servers
run_tap() {
	local dir=$TASKQ_TMP/tap files log test
	pick_files "$TASKQ_SRC/test/t" .pl "$(asked_for tap)"
	# features that only few of them need
	! grep -q TASKQ_CHAOS_CLIENT "${files[@]}" || build_chaos_client
	if grep -q TASKQ_BIN_RELEASE "${files[@]}"; then
		use_build release
		export TASKQ_BIN_RELEASE=$BIN
	fi
	TASKQ_INCLUDE=$(config_dir --includedir) &&
		TASKQ_LIB=$(config_dir --libdir) || exit $NO_RESULT
	export TASKQ_INCLUDE TASKQ_LIB
	use_build test
	mkdir -p "$dir/tmp_check/log" "$dir/templates"
	pushd "$dir" >/dev/null || exit
	# the slowest first, so that no slow test runs alone at the end
	mapfile -t files < <(grep -l '(takes long)' "${files[@]}"
		grep -L '(takes long)' "${files[@]}")
	# several at the same time: they wait more than they work
	PATH=$BIN:$PATH PG_REGRESS=$PGXS/src/test/regress/pg_regress \
		PERL5LIB=$PGXS/src/test/perl:$TASKQ_SRC/test/t/lib:$TASKQ_SRC/test/chaos/lib \
		TEMP_CONFIG=$TASKQ_SRC/test/run/tap.conf TESTDIR=$dir \
		TESTDATADIR=$dir/tmp_check TESTLOGDIR=$dir/tmp_check/log \
		TASKQ_TEMPLATES=$dir/templates \
		PG_TEST_PORT_DIR=${TASKQ_BASE:-$dir}/ports PGCTLTIMEOUT=60 \
		PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-180} \
		prove_files tap "${TAP_JOBS:-4}" "${files[@]}"
	popd >/dev/null || exit
	for test in "${files[@]}"; do
		for log in "$dir/tmp_check/log/$(basename "$test" .pl)"_*.log; do
			[ ! -e "$log" ] || scan_log "$log" "$test" || FAILED=$((FAILED + 1))
		done
	done
	count tap $PASSED $FAILED $SKIPPED
}

# Bad input made by a program; its words for TESTS are phases
run_hostile() {
	local dir=$TASKQ_TMP/hostile database encoding seed result
	seed=${CHAOS_SEED:-$RANDOM}
	use_build release
	mkdir -p "$dir"
	make -s -C "$TASKQ_SRC/test/hostile" OUT="$dir" PG_CONFIG="$PG_CONFIG" ||
		die "the program of the family hostile fails"
	start_server hostile "$(cat "$TASKQ_SRC/test/hostile/server.conf")"
	while read -r database encoding; do
		"$BIN/psql" -X -q -h "$SOCKETS" -p 5432 -U postgres -d postgres \
			-v ON_ERROR_STOP=1 -o /dev/null -c "CREATE DATABASE $database
				TEMPLATE template0 ENCODING '$encoding'" \
			-c "\\c $database" -f "$TASKQ_SRC/test/hostile/setup.sql" ||
			die "could not make the database $database"
	done <<-LIST
		hostile UTF8
		hostile_latin1 LATIN1
		hostile_ascii SQL_ASCII
	LIST
	result=$dir/result
	PASSED=0 FAILED=1 SKIPPED=0
	# shellcheck disable=SC2046  # a list of words
	"$dir/hostile" "host=$SOCKETS port=5432 user=postgres" "$seed" "$result" \
		$(asked_for hostile)
	[ ! -s "$result" ] || read -r PASSED FAILED SKIPPED <"$result"
	stop_server hostile
	scan_log "$dir/server.log" || FAILED=$((FAILED + 1))
	count hostile $PASSED $FAILED $SKIPPED
}

# The protocol of dead ranges, in all orders of events; its words for TESTS
# are scenarios and rules
run_model() {
	local dir=$TASKQ_TMP/model form=short
	[ -z "${LONG:-}" ] || form=long
	mkdir -p "$dir"
	make -s -C "$TASKQ_SRC/test/model" OUT="$dir" PG_CONFIG="$PG_CONFIG" ||
		die "the program of the family model fails"
	PASSED=0 FAILED=1 SKIPPED=0
	# shellcheck disable=SC2046  # a list of words
	"$dir/model" "$dir/result" "$form" $(asked_for model)
	[ ! -s "$dir/result" ] || read -r PASSED FAILED SKIPPED <"$dir/result"
	count model $PASSED $FAILED $SKIPPED
}

# Only the chaos test, for the given time
run_chaos() {
	export CHAOS_SECONDS=${CHAOS_SECONDS:-60}
	TESTS=chaos FILES='' run_tap
}

# The test of lists, with many tasks
run_scale() {
	export TASKQ_SCALE=1
	TESTS=lists FILES='' run_tap
}

run_lint() {
	local files
	pick_files "$TASKQ_SRC/test/lint" .sh "$(asked_for lint)"
	# most of them read only the sources
	! grep -q TASKQ_LIBRARY "${files[@]}" || use_build release
	cd "$TASKQ_SRC" || exit
	TASKQ_LIBRARY=$TASKQ_TMP/build-release/taskq.so prove_files lint 2 "${files[@]}"
	count lint $PASSED $FAILED $SKIPPED
}

# shellcheck shell=bash
# beat: workers that send a heartbeat every second

# "nothing" is the same number of calls that do nothing: the difference is the
# heartbeat's own cost. raw updates a row for each.
part_beat() {
	local system
	interleave "$ROUNDS" "$(chosen taskq raw) nothing" beat_round
	for system in $(chosen taskq raw); do
		beat_own "$system" 'CPU, cores'
		beat_own "$system" 'WAL, B/beat'
	done
	aim "$BEATING workers beating every second: processors, beyond those of SELECT 1" \
		"beat, $BEATING workers|taskq|own CPU, cores" '<=' 0.01
	aim "$BEATING workers beating every second: WAL beyond that of SELECT 1, B per beat" \
		"beat, $BEATING workers|taskq|own WAL, B/beat" '<=' 1
}

# beat_own SYSTEM METRIC: what it costs more than SELECT 1, round by round
beat_own() {
	local round own n=0
	while read -r round own; do
		value "beat, $BEATING workers" "$1" "$round" "own $2" "$own"
		n=$((n + 1))
	done < <(awk -F '\t' -v who="$1" -v metric="$2" '
		$1 == "value" && $5 == metric && $3 == who {with[$4] = $6}
		$1 == "value" && $5 == metric && $3 == "SELECT 1" {without[$4] = $6}
		END {for (round in with) printf "%s %.4f\n", round, with[round] - without[round]}' "$out")
	[ $n = "$ROUNDS" ] || die "$1: rounds are missing"
}

# beat_round SYSTEM ROUND
beat_round() {
	local name="beat, $BEATING workers" system=$1 LABEL=$1
	[ "$1" != nothing ] || system=raw LABEL='SELECT 1'
	fresh "$system" 0
	"beat_$1"
	measure_beats "$name" "$1" "$system" "$2"
}

# measure_beats SCENARIO WHAT SYSTEM ROUND: each worker has a connection, and
# has sent some heartbeats before the measurement begins
measure_beats() {
	local cpu wal beats pid began
	sql "b_$3" -c "VACUUM ANALYZE" -c CHECKPOINT
	script "$3" "beat_$2" || die "$3 has no beat_$2"
	background run_pgbench "$3" "beat_$2" "$BEATING" -R "$BEATING" \
		-T $((BEAT_WARM + BEAT_SECONDS + 5))
	pid=$child
	sleep "$BEAT_WARM"
	wal=$(wal_position)
	cpu=$(server_cpu)
	began=$EPOCHREALTIME
	sleep "$BEAT_SECONDS"
	cpu=$(awk "BEGIN {print ($(server_cpu) - $cpu) / ($EPOCHREALTIME - $began)}")
	wal=$(($(wal_position) - wal))
	wait_child "$pid" || die "$3: beats failed"
	beats=$(awk "BEGIN {printf \"%.0f\", $(tps) * $BEAT_SECONDS}")
	value "$1" "$LABEL" "$4" 'CPU, cores' "$(awk "BEGIN {printf \"%.4f\", $cpu}")"
	value "$1" "$LABEL" "$4" 'WAL, B/beat' "$(awk "BEGIN {printf \"%.0f\", $wal / $beats}")"
	say "   $1: $LABEL, processors $cpu, $beats beats"
}

beat_taskq() {
	sql b_taskq -U bench -o /dev/null \
		-c "SELECT count(taskq_register('worker ' || i, '{bench}')) FROM generate_series(1, $BEATING) i" ||
		die 'taskq: the workers cannot be registered'
	say "SELECT next_in FROM taskq_heartbeat('worker ' || (:client_id + 1));" >"$work/taskq.beat_taskq.sql"
}

beat_raw() {
	sql b_raw -c 'CREATE TABLE beat (worker int PRIMARY KEY, at timestamptz)' \
		-c "INSERT INTO beat SELECT i, now() FROM generate_series(1, $BEATING) i" \
		-c 'GRANT ALL ON beat TO bench'
	say 'UPDATE beat SET at = clock_timestamp() WHERE worker = :client_id + 1;' >"$work/raw.beat_raw.sql"
}

beat_nothing() {
	say "SELECT 'worker ' || (:client_id + 1);" >"$work/raw.beat_nothing.sql"
}

# shellcheck shell=bash
# held: submitting, claiming and completing while a transaction holds a snapshot

# Kinds: fifo; lifo; retries, where every tenth task fails once and is due
# again after a second; peers, which is fifo for raw if it was not measured for
# as long as taskq.
part_held() {
	local held_kind
	for held_kind in $HELD_KINDS; do
		"held_$held_kind"
	done
}

held_fifo() {
	local system
	for system in $(chosen taskq raw); do
		held_run fifo cycle "$system" "$HELD_SECONDS"
	done
	held_aims fifo
}

held_lifo() {
	local TASKQ_OPTIONS='{"retention": "none", "order": "lifo"}' RAW_ORDER='id DESC' system
	for system in $(chosen taskq raw); do
		rm -f "$work/raw.cycle.sql"
		held_run lifo cycle "$system" "$HELD_OTHERS"
		rm -f "$work/raw.cycle.sql"
	done
	held_aims lifo
}

held_retries() {
	local TASKQ_OPTIONS='{"retention": "none", "max_attempts": -1}' system
	for system in $(chosen taskq raw); do
		held_run 'with 10 % retries' retry "$system" "$HELD_OTHERS"
	done
	held_aims 'with 10 % retries'
}

# Prints the systems that can submit, claim and complete one task at a time
held_peers() {
	local system
	for system in $(chosen graphile pgboss); do
		script "$system" submit && cat "$script" >"$work/$system.cycle.new" &&
			script "$system" work && cat "$script" >>"$work/$system.cycle.new" &&
			mv "$work/$system.cycle.new" "$work/$system.cycle.sql"
		held_run fifo cycle "$system" "$HELD_OTHERS"
	done
}

held_aims() {
	aim "snapshot held, $1: last against first minute" \
		"held, $1, last minute|taskq|tasks/s" '>=' 0.9 "held, $1, first minute|taskq|tasks/s"
	aim "snapshot held, $1: last minute against the speed without it" \
		"held, $1, last minute|taskq|tasks/s" '>=' 0.8 "held, $1, free|taskq|tasks/s"
}

# held_run KIND WHAT SYSTEM SECONDS
held_run() {
	local kind=$1 what=$2 system=$3 seconds=$4 SECONDS_EACH=$HELD_FREE name=${LABEL:-$3} wal
	fresh "$system" "$HELD_LOADED"
	measure "held, $kind, free" "$what" "$HELD_CLIENTS" "$system" 1
	fresh "$system" "$HELD_LOADED"
	hold_snapshot "b_$system"
	rm -f "$work"/held.log.*
	wal=$(wal_position)
	# shellcheck disable=SC2046  # two words
	run_pgbench "$system" "$what" "$HELD_CLIENTS" $(round_length "$seconds") \
		-l --log-prefix="$work/held.log"
	wal=$(($(wal_position) - wal))
	release_snapshot "$holder"
	held_series "held, $kind" "$name"
	value "held, $kind, first minute" "$name" 1 'tasks/s' "$(held_minute first)"
	value "held, $kind, last minute" "$name" 1 'tasks/s' "$(held_minute last)"
	value "held, $kind, whole run" "$name" 1 'WAL, B/task' $((wal / $(processed)))
	say "   held, $kind: $name $(held_minute first)/s, at last $(held_minute last)/s"
}

# hold_snapshot DB: sets holder, the process of a session that has one
hold_snapshot() {
	background sleep_in_snapshot "$1"
	holder=$child
	until_true 'the snapshot is held' "$1" \
		"SELECT count(*) > 0 FROM pg_stat_activity
		WHERE application_name = 'holder' AND backend_xmin IS NOT NULL"
}

# when psql ends, its session would still sleep
release_snapshot() {
	sql postgres -o /dev/null -c "SELECT pg_terminate_backend(pid, 60000)
		FROM pg_stat_activity WHERE application_name = 'holder'"
	end_child "$1" || true
}

sleep_in_snapshot() {
	PGAPPNAME=holder exec psql -X -q -d "$1" -c 'BEGIN ISOLATION LEVEL REPEATABLE READ' \
		-c 'SELECT count(*) FROM pg_class' -c 'SELECT pg_sleep(100000)' >/dev/null 2>&1
}

# Lines "second tasks p99" of the transactions in pgbench's logs, for each
# HELD_STEP seconds; pgbench writes: client, number, microseconds, script,
# second, microsecond
held_steps() {
	cat "$work"/held.log.* | awk -v step="$HELD_STEP" '
		{at = $5 + $6 / 1e6; if (!first || at < first) first = at; when[NR] = at; took[NR] = $3}
		END {for (i = 1; i <= NR; i++) printf "%d %d\n", int((when[i] - first) / step), took[i]}' |
		sort -k1,1n -k2,2n | awk -v step="$HELD_STEP" '
		function out(  p) {
			if (!n) return
			p = int(n * 0.99 + 0.5)
			if (p < 1) p = 1
			printf "%d %.1f %.3f\n", (at + 1) * step, n / step, v[p] / 1000
		}
		$1 != at {out(); n = 0; at = $1}
		{v[++n] = $2}
		END {if (n) out()}'
}

# held_series SCENARIO SYSTEM; a last step that is not whole is left out
held_series() {
	local at rate p99
	held_steps >"$work/held.steps"
	[ -s "$work/held.steps" ] || die 'pgbench wrote no log'
	[ "$(wc -l <"$work/held.steps")" = 1 ] || sed -i '$d' "$work/held.steps"
	while read -r at rate p99; do
		write series "$1" "$2" 'tasks/s' "$at" "$rate"
		write series "$1" "$2" 'p99, ms' "$at" "$p99"
	done <"$work/held.steps"
}

# held_minute first|last: the mean of the steps in that minute
held_minute() {
	local n=$((60 / HELD_STEP))
	[ $n -gt 0 ] || n=1
	if [ "$1" = first ]; then
		head -n $n "$work/held.steps"
	else
		tail -n $n "$work/held.steps"
	fi | awk '{sum += $2} END {printf "%.1f", sum / NR}'
}

# shellcheck shell=bash
# idle: what sleeping workers cost while there is nothing to do

part_idle() {
	local system
	# autovacuum would write WAL for the work that was done before
	sql postgres -c 'ALTER SYSTEM SET autovacuum = off' -c 'SELECT pg_reload_conf()' >/dev/null
	for system in $(chosen taskq raw); do
		idle_round "$system"
	done
	sql postgres -c 'ALTER SYSTEM RESET autovacuum' -c 'SELECT pg_reload_conf()' >/dev/null
	aim "$IDLE_WAITERS idle waiters: processor time, s per minute" \
		"$IDLE_WAITERS waiters|taskq|own CPU, s/min" '<=' 0.1
	aim "$IDLE_WAITERS idle waiters: queries per minute" \
		"$IDLE_WAITERS waiters|taskq|queries/min" '<=' 0
	aim "$IDLE_WAITERS idle waiters: WAL, B per minute" \
		"$IDLE_WAITERS waiters|taskq|WAL, B/min" '<=' 100
	note "Own: the processes of the waiting connections. Other values are those of the whole server with its background processes; \"no waiters\" is the same without waiting connections. autovacuum is off. Queries are those that waiters start. The server itself writes a WAL record for standbys from time to time. The waiters of raw use LISTEN."
}

# idle_queries TIME: how many waiters have sent something since then
idle_queries() {
	sql postgres -c "SELECT count(*) FROM pg_stat_activity
		WHERE usename = 'bench' AND query_start > '$1'"
}

# waiters_cpu SYSTEM: seconds of processor time of the processes that wait
waiters_cpu() {
	local pid
	sql postgres -c "SELECT pid FROM pg_stat_activity
		WHERE usename = 'bench' AND datname = 'b_$1'" >"$work/waiting.pids"
	while read -r pid; do
		cat "/proc/$pid/schedstat" || return
	done <"$work/waiting.pids" | awk '{ns += $1} END {printf "%.6f", ns / 1e9}'
}

idle_round() {
	local system=$1 kind=wait
	[ "$system" = taskq ] || kind=listen
	fresh "$system" 0
	idle_measure "$system" 'no waiters'
	start_staying hold "$kind" "$system" "$IDLE_WAITERS"
	idle_measure "$system" "$IDLE_WAITERS waiters"
	end_staying
}

# idle_measure SYSTEM SCENARIO: first let the connections come to rest
idle_measure() {
	local cpu own own_end wal queries began rest=5
	[ -z "$TRANSACTIONS" ] || rest=1
	sql postgres -c CHECKPOINT
	sleep $rest
	began=$(sql postgres -c 'SELECT clock_timestamp()')
	wal=$(wal_position)
	cpu=$(server_cpu)
	own=$(waiters_cpu "$1") || die 'the kernel does not tell processor times'
	sleep "$IDLE_SECONDS"
	own_end=$(waiters_cpu "$1") || die 'a waiter has ended'
	own=$(awk "BEGIN {print $own_end - $own}")
	cpu=$(awk "BEGIN {print $(server_cpu) - $cpu}")
	wal=$(($(wal_position) - wal))
	queries=$(idle_queries "$began")
	value "$2" "$1" 1 'CPU, s/min' "$(awk "BEGIN {printf \"%.2f\", $cpu * 60 / $IDLE_SECONDS}")"
	value "$2" "$1" 1 'own CPU, s/min' "$(awk "BEGIN {printf \"%.4f\", $own * 60 / $IDLE_SECONDS}")"
	value "$2" "$1" 1 'queries/min' "$(awk "BEGIN {printf \"%.0f\", $queries * 60 / $IDLE_SECONDS}")"
	value "$2" "$1" 1 'WAL, B/min' "$(awk "BEGIN {printf \"%.0f\", $wal * 60 / $IDLE_SECONDS}")"
	say "   $2: $1, processor $cpu s, of the waiters $own s, $queries queries, $wal bytes of WAL in $IDLE_SECONDS s"
}

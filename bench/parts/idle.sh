# shellcheck shell=bash
# idle: what sleeping workers cost while there is nothing to do

# needs: taskq_wait

part_idle() {
	local system
	for system in $(chosen taskq raw); do
		idle_round "$system"
	done
	aim "$IDLE_WAITERS idle waiters: processor time, s per minute" \
		"$IDLE_WAITERS waiters|taskq|CPU, s/min" '<=' 0.1
	aim "$IDLE_WAITERS idle waiters: queries per minute" \
		"$IDLE_WAITERS waiters|taskq|queries/min" '<=' 0
	aim "$IDLE_WAITERS idle waiters: WAL, B per minute" \
		"$IDLE_WAITERS waiters|taskq|WAL, B/min" '<=' 100
	note "The processor time of the whole server, that of its own processes included: \"no waiters\" is the same without them. Queries are those that waiters have begun. A record of WAL for the standby now and then is the server's own. raw's waiters have said LISTEN."
}

# idle_queries TIME: how many waiters have sent something since then
idle_queries() {
	sql postgres -c "SELECT count(*) FROM pg_stat_activity
		WHERE usename = 'bench' AND query_start > '$1'"
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
	local cpu wal queries began rest=5
	[ -z "$TRANSACTIONS" ] || rest=1
	sql postgres -c CHECKPOINT
	sleep $rest
	began=$(sql postgres -c 'SELECT clock_timestamp()')
	wal=$(wal_position)
	cpu=$(server_cpu)
	sleep "$IDLE_SECONDS"
	cpu=$(awk "BEGIN {print $(server_cpu) - $cpu}")
	wal=$(($(wal_position) - wal))
	queries=$(idle_queries "$began")
	value "$2" "$1" 1 'CPU, s/min' "$(awk "BEGIN {printf \"%.2f\", $cpu * 60 / $IDLE_SECONDS}")"
	value "$2" "$1" 1 'queries/min' "$(awk "BEGIN {printf \"%.0f\", $queries * 60 / $IDLE_SECONDS}")"
	value "$2" "$1" 1 'WAL, B/min' "$(awk "BEGIN {printf \"%.0f\", $wal * 60 / $IDLE_SECONDS}")"
	say "   $2: $1, processor $cpu s, $queries queries, $wal bytes of WAL in $IDLE_SECONDS s"
}

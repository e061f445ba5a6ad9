# shellcheck shell=bash
# wake: from the commit of a submit to the answer of a worker that slept

part_wake() {
	local n kind
	for n in $WAITERS; do
		if [[ " $SYSTEMS " == *" taskq "* ]]; then
			for kind in claim wait; do
				wake_round taskq "$kind" "$n" "$POLL_MS"
			done
		fi
		if [[ " $SYSTEMS " == *" raw "* ]]; then
			for kind in listen notice; do
				wake_round raw "$kind" "$n" "$POLL_MS"
			done
			# as many pollers as ask a hundred times a second, at most
			wake_round raw poll "$n" $((n * 10 > POLL_MS ? n * 10 : POLL_MS))
		fi
		if [[ " $SYSTEMS " == *" limit "* ]]; then
			wake_round limit lock "$n" "$POLL_MS"
		fi
		wake_aims "$n"
	done
	note 'claim: taskq_claim with wait; wait: CALL taskq_wait; listen: LISTEN and NOTIFY, up to the claim that follows; notice: the same, up to the notification; poll: a claim of raw each 100 ms, in all at most 100 a second. Times count from the answer to the COMMIT, which the answer of a waiter may precede; "from sent": from sending the COMMIT, so the flush of WAL is included. lock: the wake-up of the server itself from an advisory lock, which is released instead of a COMMIT: no row is written.'
}

wake_aims() {
	local n=$1 kind bound99=2
	[ "$n" = 1 ] || bound99=3
	for kind in claim wait; do
		[ "$n" != 1 ] || aim "wake-up of 1 waiter, $kind: p50, ms" \
			"wake, $kind, $(waiters "$n")|taskq|p50, ms" '<=' 0.3
		aim "wake-up of $(waiters "$n"), $kind: p99, ms" \
			"wake, $kind, $(waiters "$n")|taskq|p99, ms" '<=' $bound99
	done
}

# wake_round SYSTEM KIND WAITERS POLL_MS
wake_round() {
	local system=$1 kind=$2 n=$3 name
	name="wake, $kind, $(waiters "$n")"
	fresh "$system" 0
	"$work/client" wake "$kind" "dbname=b_$system user=bench" "$n" "$SAMPLES" "$4" \
		>"$work/wake.out" || die "$name failed"
	[ "$(grep -c . "$work/wake.out")" = "$SAMPLES" ] || die "$name: samples are missing"
	wake_values "$name" "$system"
}

# wake_values SCENARIO SYSTEM [ROUND]: of the columns of wake.out
wake_values() {
	local column suffix p50 p99 max
	for column in 1 2; do
		suffix=''
		[ $column = 1 ] || suffix=' from sent'
		read -r p50 p99 max < <(awk -v c=$column 'NF >= c {print $c}' "$work/wake.out" | sort -g | percentile_line)
		[ -n "${max:-}" ] || break
		value "$1" "$2" "${3:-1}" "p50, ms$suffix" "$p50"
		value "$1" "$2" "${3:-1}" "p99, ms$suffix" "$p99"
		value "$1" "$2" "${3:-1}" "most, ms$suffix" "$max"
		[ $column = 2 ] || say "   $1: $2 p50 $p50 ms, p99 $p99 ms"
	done
}

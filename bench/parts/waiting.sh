# shellcheck shell=bash
# waiting: submitting while workers wait for tasks, and without waiting workers

part_waiting() {
	local name
	name="submit, $(clients "$PRODUCERS")"
	interleave "$ROUNDS" "$(chosen taskq raw)" waiting_round "$name"
	aim "submitting while $WORKERS workers wait and work" \
		"$name, $WORKERS workers|taskq|tasks/s" '>=' 0.9 "$name|taskq|tasks/s"
	note "Workers take a task, work on it for $WORK_MS ms and complete it; each submit of raw sends a NOTIFY to its workers. Workers and submitters share the processors."
}

# waiting_round SCENARIO SYSTEM ROUND: without and with waiting workers
waiting_round() {
	local kind=claim what=submit
	[ "$2" = taskq ] || kind=listen what=notify
	loaded_round "$1" submit "$PRODUCERS" 0 "$2" "$3"
	fresh "$2" 0
	start_staying serve "$kind" "$2" "$WORKERS" "$WORK_MS"
	measure "$1, $WORKERS workers" $what "$PRODUCERS" "$2" "$3"
	end_staying
	[ "$stayed" -gt 0 ] || die "$2: no worker got a task"
}

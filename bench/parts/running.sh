# shellcheck shell=bash
# running: claiming and completing behind tasks that are running, and without them

part_running() {
	local name
	name="claim + complete, $(clients "$RUNNING_CLIENTS")"
	# shellcheck disable=SC2046  # a list of words
	interleave "$ROUNDS" "$(chosen taskq raw)" running_round "$name"
	aim "$RUNNING running tasks ahead of the queue" \
		"$name, behind $RUNNING|taskq|tasks/s" '>=' 0.95 "$name|taskq|tasks/s"
}

# running_round SCENARIO SYSTEM ROUND: without and with running tasks
running_round() {
	loaded_round "$1" work "$RUNNING_CLIENTS" "$LOADED" "$2" "$3"
	fresh "$2" $((LOADED + RUNNING))
	"$2_run_ahead" "$RUNNING"
	measure "$1, behind $RUNNING" work "$RUNNING_CLIENTS" "$2" "$3"
}

taskq_run_ahead() {
	[ "$(sql b_taskq -c "SELECT count(*) FROM taskq_claim('bench', max_tasks => $1, lease => '1 hour')")" = "$1" ] ||
		die "taskq: $1 tasks could not be claimed"
}

raw_run_ahead() {
	sql b_raw -c "UPDATE raw SET state = 1 WHERE id <= $1"
}

# shellcheck shell=bash
# operation: claims beside an operation that retries many tasks

part_operation() {
	local round
	for round in $(seq "$ROUNDS"); do
		operation_round "$round"
	done
	aim 'claim and complete beside an operation, against the same without it' \
		'work beside an operation|beside|tasks/s' '>=' 0.9 'work beside an operation|alone|tasks/s'
	note "One database for each round: $OPERATION_TASKS dead tasks in a queue of their own, and workers that claim and complete tasks of another queue, first alone, then while an operation retries the dead tasks. retry: tasks changed by the operation in the measured time, per second, and the same without workers, from its call to its end."
}

# operation_round ROUND
operation_round() {
	local TASKQ_OPTIONS='{"retention": "none"}' begun before after seconds
	fresh taskq "$LOADED"
	must 'making the queue' sql b_taskq -c "SELECT taskq_create_queue('failed', '{\"max_attempts\": 1}')"
	must 'filling the queue' taskq_fill b_taskq "$OPERATION_TASKS" failed
	must 'failing its tasks' sql b_taskq -c "SELECT taskq_reassign('failed', 'pending', 'dead', 0)"
	must 'vacuum' sql b_taskq -c 'VACUUM ANALYZE taskq.task'
	LABEL=alone measure 'work beside an operation' work "$OPERATION_CLIENTS" taskq "$1"
	must 'beginning the operation' sql b_taskq -c "SELECT taskq_manage_where('retry', 'failed')"
	before=$(operation_done)
	begun=$EPOCHREALTIME
	LABEL=beside measure 'work beside an operation' work "$OPERATION_CLIENTS" taskq "$1"
	after=$(operation_done)
	seconds=$(awk "BEGIN {print $EPOCHREALTIME - $begun}")
	[ "$(sql b_taskq -c 'SELECT state FROM taskq.operations')" = running ] ||
		die 'the operation ended too early: OPERATION_TASKS'
	value 'work beside an operation' retry "$1" 'tasks/s' "$(awk "BEGIN {printf \"%.1f\", ($after - $before) / $seconds}")"
	before=$after
	begun=$EPOCHREALTIME
	while [ "$(sql b_taskq -c 'SELECT state FROM taskq.operations')" != 'done' ]; do
		sleep 0.1
	done
	after=$(operation_done)
	value 'an operation alone' retry "$1" 'tasks/s' "$(awk "BEGIN {printf \"%.1f\", ($after - $before) / ($EPOCHREALTIME - $begun)}")"
	[ "$after" = "$OPERATION_TASKS" ] || die 'the operation has left out tasks'
}

operation_done() { sql b_taskq -c 'SELECT done FROM taskq.operations'; }

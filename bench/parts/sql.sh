# shellcheck shell=bash
# sql: SQL tasks by two executors, and the same work by two workers

part_sql() {
	interleave "$ROUNDS" 'workers executors' sql_round
	aim 'SQL tasks: two executors against two workers' \
		'SQL tasks|executors|tasks/s' '>=' 1.5 'SQL tasks|workers|tasks/s'
	note 'Each task is SELECT 1. workers: two connections that claim, with claim_durability flushed, and run the statement in the transaction that completes the task. executors: two background processes; from resuming the queue, with all its tasks, until none is left.'
}

# sql_round KIND ROUND
sql_round() {
	local TASKQ_OPTIONS tasks=$SQL_TASKS begun rate
	if [ "$1" = workers ]; then
		TASKQ_OPTIONS='{"retention": "none", "claim_durability": "flushed"}'
		fresh taskq "$LOADED"
		LABEL=workers measure 'SQL tasks' sql 2 taskq "$2"
		return
	fi
	TASKQ_OPTIONS='{"retention": "none", "executor": {"workers": 2}}'
	fresh taskq 0
	must 'pausing the queue' sql b_taskq -c "SELECT taskq_pause('bench')"
	PAYLOAD='{"sql": "SELECT 1"}' must 'filling the queue' taskq_fill b_taskq "$tasks"
	begun=$EPOCHREALTIME
	must 'resuming the queue' sql b_taskq -c "SELECT taskq_resume('bench')"
	while [ "$(taskq_left b_taskq)" != 0 ]; do
		sleep 0.05
	done
	rate=$(awk "BEGIN {printf \"%.1f\", $tasks / ($EPOCHREALTIME - $begun)}")
	value 'SQL tasks' executors "$2" 'tasks/s' "$rate"
	say "   SQL tasks: executors $rate/s"
}

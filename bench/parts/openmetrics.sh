# shellcheck shell=bash
# openmetrics: the text of all metrics, and the history of numbers

part_openmetrics() {
	local round
	[ -n "$(chosen taskq)" ] || return 0
	fresh taskq 0
	metrics_fill
	for ((round = 1; round <= ROUNDS; round++)); do
		metrics_round openmetrics "$round"
		metrics_round prometheus "$round"
		metrics_first "$round"
		metrics_minute "$round"
	done
	aim "text of $METRIC_QUEUES queues and $METRIC_TASKS tasks, ms" \
		"$METRIC_QUEUES queues|openmetrics|p50, ms" '<=' 50
	aim "text in the format prometheus, ms" \
		"$METRIC_QUEUES queues|prometheus|p50, ms" '<=' 50
	aim "history of numbers: share of one processor, %" \
		"$METRIC_QUEUES queues|history|CPU, %" '<=' 1
	note "The text is read by a session that has read it before. The history is the processor time that the background worker takes for the rows of a minute, measured by the statement that it executes and the gauges that it reads, as a share of a minute."
}

# A fifth of the tasks is finished, one in a hundred is not due, and one in a
# thousand is running.
metrics_fill() {
	local each=$((METRIC_TASKS / METRIC_QUEUES))
	say "   filling $METRIC_QUEUES queues with $METRIC_TASKS tasks"
	sql b_taskq >/dev/null <<-SQL || die 'filling failed'
		SELECT count(taskq_create_queue('queue ' || q)) FROM generate_series(1, $METRIC_QUEUES) q;
		SELECT count(*) FROM generate_series(1, $METRIC_QUEUES) q,
			taskq_submit_many('queue ' || q, array_fill('{"n": 1}'::jsonb, ARRAY[greatest($each, 1)]));
		SELECT count(taskq_complete(task_id, token)) FROM generate_series(1, $METRIC_QUEUES) q,
			taskq_claim('queue ' || q, max_tasks => greatest($each / 5, 1));
		SELECT count(*) FROM generate_series(1, $METRIC_QUEUES) q,
			taskq_claim('queue ' || q, 'worker ' || q, max_tasks => greatest($each / 1000, 1));
		SELECT count(*) FROM generate_series(1, $METRIC_QUEUES) q,
			taskq_submit_many('queue ' || q, array_fill('{"n": 1}'::jsonb, ARRAY[greatest($each / 100, 1)]), delay => '1 h');
		VACUUM ANALYZE taskq.task;
		SELECT count(*) FROM taskq_run_reapers();
	SQL
}

# metrics_round FORMAT ROUND: the median of twenty calls
metrics_round() {
	local ms
	ms=$(metrics_times "$1" 20 | sort -n | sed -n 10p)
	value "$METRIC_QUEUES queues" "$1" "$2" 'p50, ms' "$ms"
	say "   $1: $ms ms"
}

# metrics_first ROUND: the first call of a connection, which fills its caches
metrics_first() {
	local ms
	ms=$(metrics_times openmetrics 0)
	value "$METRIC_QUEUES queues" 'first call of a connection' "$1" 'ms' "$ms"
	say "   first call: $ms ms"
}

# metrics_times FORMAT N: milliseconds of N calls after the first; with 0 those
# of the first
metrics_times() {
	local call="SELECT clock_timestamp() AS at \\gset
SELECT octet_length(taskq_openmetrics('$1')) > 1000 AS \"text\" \\gset
SELECT round((extract(epoch FROM clock_timestamp() - :'at') * 1000)::numeric, 2);"
	local i
	{
		for ((i = 0; i <= $2; i++)); do
			say "$call"
		done
	} | sql b_taskq | { [ "$2" = 0 ] && cat || tail -n +2; }
}

# metrics_minute ROUND: the background worker's processor time over two minutes
# with the history, less that of a database without queues, which is 0 here
metrics_minute() {
	local pid before after cpu rows
	pid=$(sql postgres -c "SELECT pid FROM pg_stat_activity
		WHERE backend_type = 'taskq worker' AND datname = 'b_taskq'")
	[ -n "$pid" ] || die 'there is no background worker'
	metrics_wait
	before=$(awk '{print $1}' "/proc/$pid/schedstat") ||
		die 'the kernel does not tell processor times'
	metrics_wait
	after=$(awk '{print $1}' "/proc/$pid/schedstat")
	rows=$(sql b_taskq -c 'SELECT count(*) FROM taskq.metric_minute')
	[ "$rows" -ge "$METRIC_QUEUES" ] || die "the history has only $rows rows"
	cpu=$(awk "BEGIN {printf \"%.3f\", ($after - $before) / 60e9 * 100}")
	value "$METRIC_QUEUES queues" history "$1" 'CPU, %' "$cpu"
	say "   history: $cpu % of a processor"
}

# metrics_wait: until the rows of the next minute are there
metrics_wait() {
	local last now=0 i
	last=$(sql b_taskq -c 'SELECT coalesce(extract(epoch FROM max(at)), 0)::bigint FROM taskq.metric_minute')
	for ((i = 0; i < 150; i++)); do
		now=$(sql b_taskq -c 'SELECT coalesce(extract(epoch FROM max(at)), 0)::bigint FROM taskq.metric_minute')
		[ "$now" = "$last" ] || return 0
		sleep 1
	done
	die 'the background worker writes no history'
}

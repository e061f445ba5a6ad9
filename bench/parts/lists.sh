# shellcheck shell=bash
# lists: a list of tasks in one call beside a call for each

part_lists() {
	local what
	[ -n "$(chosen taskq)" ] || return 0
	lists_scripts
	fresh taskq $((LIST_TASKS * ROUNDS * 9))
	for what in submit complete; do
		interleave $((ROUNDS * 3)) 'calls inside list' lists_round "$what"
		aim "$what $LIST_TASKS tasks in a list, against calls in one transaction" \
			"$what $LIST_TASKS|a list|ms" '<=' 0.2 "$what $LIST_TASKS|calls in one transaction|ms"
	done
}

# lists_round WHAT HOW ROUND: milliseconds that the script says it took
lists_round() {
	local ms name='a list'
	case $2 in
		calls) name='calls in one transaction' ;;
		inside) name='calls in one statement' ;;
	esac
	ms=$(sql b_taskq -v n="$LIST_TASKS" -v payload="$PAYLOAD" -f "$work/$1_$2.sql" | tail -n 1) ||
		die "$1, $name, failed"
	value "$1 $LIST_TASKS" "$name" "$3" 'ms' "$ms"
	say "   $1 $LIST_TASKS: $name $ms ms"
}

lists_scripts() {
	local begin="SELECT clock_timestamp() AS at \\gset"
	local end="SELECT round((extract(epoch FROM clock_timestamp() - :'at') * 1000)::numeric, 2);"
	local hold="CREATE TEMP TABLE held AS SELECT task_id, token FROM taskq_claim('bench', max_tasks => :n);"
	cat >"$work/submit_calls.sql" <<-SQL
		$begin
		BEGIN;
		SELECT format('SELECT taskq_submit(%L, %L)', 'bench', :'payload') FROM generate_series(1, :n) \gexec
		COMMIT;
		$end
	SQL
	cat >"$work/submit_inside.sql" <<-SQL
		$begin
		SELECT count(taskq_submit('bench', :'payload')) FROM generate_series(1, :n);
		$end
	SQL
	cat >"$work/submit_list.sql" <<-SQL
		$begin
		SELECT count(*) FROM taskq_submit_many('bench', array_fill(:'payload'::jsonb, ARRAY[:n]));
		$end
	SQL
	cat >"$work/complete_calls.sql" <<-SQL
		$hold
		$begin
		BEGIN;
		SELECT format('SELECT taskq_complete(%s, %s)', task_id, token) FROM held \gexec
		COMMIT;
		$end
	SQL
	cat >"$work/complete_inside.sql" <<-SQL
		$hold
		$begin
		SELECT count(taskq_complete(task_id, token)::text) FROM held;
		$end
	SQL
	cat >"$work/complete_list.sql" <<-SQL
		$hold
		$begin
		SELECT count(m.ok) FROM (SELECT array_agg(task_id) AS i, array_agg(token) AS t FROM held) h,
			taskq_complete_many(h.i, h.t) AS m;
		$end
	SQL
}

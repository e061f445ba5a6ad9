# shellcheck shell=bash
# flow_cost: WAL, statements and rows of a start and of a step, by one client

# Exactly FLOW_COST transactions run from the same state, without full-page
# images.  pg_stat_statements counts statements; the server loads it in this
# part only.
part_flow_cost() {
	[ -n "$(chosen taskq)" ] || return 0
	restart_server shared_preload_libraries=taskq,pg_stat_statements \
		pg_stat_statements.track=all full_page_writes=off
	sql postgres -c 'CREATE EXTENSION pg_stat_statements'
	flow_cost_round 'start of 4 steps' start 0 flow "$FLOW_COST"
	flow_cost_round 'claim + complete of a step' work "$FLOW_COST" flow $((FLOW_COST * 4))
	flow_cost_round 'claim + complete of a plain task' work $((FLOW_COST * 4)) taskq $((FLOW_COST * 4))
	sql postgres -c 'DROP EXTENSION pg_stat_statements'
	restart_server
	flow_drop
	note "A task is a start in the first row and a step in the second: all steps of $FLOW_COST instances of linear (4 steps), and the ends of the instances. Retention and history are the defaults. Statements: those that taskq runs inside a call, counted by pg_stat_statements; taskq writes and looks up most rows without a statement. Rows: inserted, updated and deleted in taskq's tables; index scans: of their indexes. WAL and index scans include concurrent work of autovacuum and the background worker."
}

# flow_cost_round SCENARIO WHAT LOADED SYSTEM TRANSACTIONS
flow_cost_round() {
	local TRANSACTIONS=$5 TASKQ_OPTIONS=$FLOW_OPTIONS FLOW_HAS=linear before after metric n=0
	local metrics=('statements/task' 'rows/task' 'index scans/task')
	fresh "$4" "$3"
	before=$(flow_cost_counts "b_$4")
	LABEL=taskq measure "$1" "$2" 1 "$4" 1
	until_true 'the client has left' postgres "SELECT count(*) = 0 FROM pg_stat_activity
		WHERE datname = 'b_$4' AND backend_type = 'client backend'"
	after=$(flow_cost_counts "b_$4")
	for metric in "${metrics[@]}"; do
		n=$((n + 1))
		value "$1" taskq 1 "$metric" "$(awk "BEGIN {printf \"%.2f\",
			($(cut -d ' ' -f $n <<<"$after") - $(cut -d ' ' -f $n <<<"$before")) / $5}")"
	done
}

# flow_cost_counts DATABASE: statements inside calls, rows written, index scans
flow_cost_counts() {
	local inside
	inside=$(sql postgres -c "SELECT coalesce(sum(s.calls), 0)::bigint FROM pg_stat_statements s, pg_database d
		WHERE s.dbid = d.oid AND d.datname = '$1' AND NOT s.toplevel")
	sql "$1" -F ' ' -c "SELECT $inside, sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint, sum(coalesce(idx_scan, 0))::bigint
		FROM pg_stat_all_tables WHERE schemaname = 'taskq'"
}

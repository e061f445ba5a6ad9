# shellcheck shell=bash
# flow_live: what a step costs among few and among many live workflows

# The live workflows do not change, so they are started once, in databases
# b_flow_NUMBER, whose rounds are interleaved.
part_flow_live() {
	local live first=
	[ -n "$(chosen taskq)" ] || return 0
	for live in $FLOW_LIVE; do
		flow_live_load "$live"
	done
	interleave "$ROUNDS" "$FLOW_LIVE" flow_live_round
	for live in $FLOW_LIVE; do
		first=${first:-$live}
		[ "$first" = "$live" ] ||
			aim "a step among $live live workflows against $first, time, $(clients "$FLOW_CLIENTS")" \
				"$(flow_live_name "$live")|taskq|µs/step" '<=' 1.1 "$(flow_live_name "$first")|taskq|µs/step"
		flow_live_check "$live"
		sql postgres -c "DROP DATABASE b_flow_$live WITH (FORCE)"
	done
	note "A live workflow is an instance of four steps, started by taskq_start_workflow, whose first step waits for a signal. The measured steps belong to workflows of four steps (linear of examples/workflows), which are started before each round and end in it. Each step counts as a task; µs/step: the duration of the round divided by its steps."
}

flow_live_name() { say "claim + complete of a step, $(clients "$FLOW_CLIENTS"), $1 live workflows"; }

# flow_live_load NUMBER
flow_live_load() {
	local FLOW_HAS=waiting began
	began=$(date +%s.%N)
	make_database flow "b_flow_$1" "$1"
	value "starting $1 live workflows" taskq 1 's' \
		"$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")"
	value "starting $1 live workflows" taskq 1 'MB' \
		"$(($(database_size "flow_$1") / 1048576))"
}

# flow_live_check NUMBER: taskq_check finds nothing
flow_live_check() {
	local began found
	began=$(date +%s.%N)
	found=$(sql "b_flow_$1" -c 'SELECT count(*) FROM taskq_check()')
	[ "$found" = 0 ] || die "taskq_check finds $found problems"
	value "taskq_check of $1 live workflows" taskq 1 's' \
		"$(awk "BEGIN {printf \"%.1f\", $(date +%s.%N) - $began}")"
}

# flow_live_round NUMBER ROUND
flow_live_round() {
	local TRANSACTIONS=${TRANSACTIONS:-$((FLOW_STEPS / FLOW_CLIENTS))} FLOW_HAS=linear
	must 'starting workflows' flow_fill "b_flow_$1" $((TRANSACTIONS * FLOW_CLIENTS / 4 + FLOW_CLIENTS))
	sql postgres -c CHECKPOINT
	DATABASE=b_flow_$1 LABEL=taskq measure "$(flow_live_name "$1")" work "$FLOW_CLIENTS" flow "$2"
	value "$(flow_live_name "$1")" taskq "$2" 'µs/step' "$(awk "BEGIN {printf \"%.1f\", 1e6 / $(tps)}")"
}

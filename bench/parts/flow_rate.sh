# shellcheck shell=bash
# flow_rate: steps of many small workflows by many workers, beside plain tasks

part_flow_rate() {
	local name
	[ -n "$(chosen taskq)" ] || return 0
	name="claim + complete, $(clients "$FLOW_CLIENTS")"
	interleave "$ROUNDS" 'plain steps' flow_rate_round "$name"
	flow_drop
	aim "steps of small workflows beside plain tasks, $(clients "$FLOW_CLIENTS")" \
		"$name|steps|tasks/s" '>=' 0.5 "$name|plain tasks|tasks/s"
	note "Both with default retention and history. The steps belong to $FLOW_LOADED instances of linear (4 steps), diamond (4) and mixed (7) of examples/workflows in turn, which are started before the rounds and end in them."
}

# flow_rate_round SCENARIO plain|steps ROUND
flow_rate_round() {
	local TASKQ_OPTIONS=$FLOW_OPTIONS FLOW_HAS=mix
	if [ "$2" = plain ]; then
		LABEL='plain tasks' loaded_round "$1" work "$FLOW_CLIENTS" "$LOADED" taskq "$3"
	else
		LABEL=steps loaded_round "$1" work "$FLOW_CLIENTS" "$FLOW_LOADED" flow "$3"
	fi
}

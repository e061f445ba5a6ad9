# shellcheck shell=bash
# flow: workflows: a start, from step to step, small graphs, wide ones, the next steps

part_flow() {
	local round commits=''
	[ -n "$(chosen taskq)" ] || return 0
	for round in $(seq "$ROUNDS"); do
		flow_round "$round"
	done
	flow_drop
	flow_aim 'start of 4 steps: p50' 'start of 4 steps|taskq|p50, ms' 1
	flow_aim 'from the end of a step until another worker has its child: p50' 'from step to step|taskq|p50, ms' 2
	flow_aim '4 steps one after the other, start to end: p50' 'start to end, 4 steps in line, 4 workers|taskq|p50, ms' 8
	flow_aim 'a graph of 7 steps, start to end: p50' 'start to end, graph of 7 steps, 4 workers|taskq|p50, ms' 12
	aim "$FLOW_WIDE side by side and a join, start to end, ms" \
		"start to end, $FLOW_WIDE side by side, 4 workers|taskq|p50, ms" '<=' 2000
	aim "a batch of $FLOW_WIDE and a join, start to end, ms" \
		"start to end, batch of $FLOW_WIDE, 4 workers|taskq|p50, ms" '<=' 2000
	note "a commit: the commit of an INSERT of one row, on the same server, without other load; where it takes more than 0.3 ms, the first four aims are multiples of it (an aim of 1 ms: 3.33). Starts are transactions of their own. From step to step: from the answer to taskq_complete until another worker, which sleeps in taskq_claim, has the child (\"from sent\": from sending taskq_complete, so its commit is included). Start to end: from sending taskq_start_workflow to the answer of taskq_await_workflow; workers sleep in taskq_claim and complete each step immediately."
	note "next step: one claim where $FLOW_READY steps are ready, without its commit."
}

# flow_round ROUND: all of it again
flow_round() {
	FLOW_HAS=linear fresh flow 0
	flow_note_commit "$1"
	flow_starts 'start of 3 steps' three "$FLOW_SAMPLES" "$1"
	flow_starts 'start of 4 steps' linear "$FLOW_SAMPLES" "$1"
	flow_starts 'start of 7 steps' mixed "$FLOW_SAMPLES" "$1"
	flow_starts "start of $FLOW_HUGE steps" huge 1 "$1"
	FLOW_HAS=linear fresh flow 0
	flow_ask stage "$FLOW_SAMPLES" "$FLOW_SAMPLES" "SELECT $(flow_start linear)"
	wake_values 'from step to step' taskq "$1"
	flow_ends '4 steps in line' linear "$FLOW_SAMPLES" "$1"
	flow_ends 'graph of 7 steps' mixed "$FLOW_SAMPLES" "$1"
	flow_ends "$FLOW_WIDE side by side" wide 3 "$1"
	flow_ends "batch of $FLOW_WIDE" batch 3 "$1"
	FLOW_HAS=linear fresh flow "$FLOW_READY"
	flow_ask look "$FLOW_SAMPLES" "$FLOW_SAMPLES" "SELECT task_id, token, dependency_results FROM taskq_claim('bench')"
	wake_values "next step of $FLOW_READY" taskq "$1"
}

# flow_starts SCENARIO TEMPLATE SAMPLES ROUND
flow_starts() {
	flow_ask call "$3" "$3" "SELECT $(flow_start "$2")"
	wake_values "$1" taskq "$4"
}

# flow_ends WHAT TEMPLATE SAMPLES ROUND
flow_ends() {
	flow_ask flow "$3" 4 "$3" "SELECT $(flow_start "$2")"
	wake_values "start to end, $1, 4 workers" taskq "$4"
}

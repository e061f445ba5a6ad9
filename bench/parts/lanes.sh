# shellcheck shell=bash
# lanes: claiming past tasks of other tags, and among tasks of many matching tags

part_lanes() {
	local round
	[ -n "$(chosen taskq)" ] || return 0
	for round in $(seq "$ROUNDS"); do
		lanes_round 'claim + complete, no other lane' plain "$round"
		lanes_round "claim + complete, $LANES lanes of $LANE_TASKS ahead" others "$round"
		lanes_round 'claim + complete, one matching lane' one "$round"
		lanes_round "claim + complete, $MATCHING matching lanes" matching "$round"
	done
	aim "$((LANES * LANE_TASKS)) tasks of $LANES other lanes ahead" \
		"claim + complete, $LANES lanes of $LANE_TASKS ahead|taskq|tasks/s" '>=' 0.95 \
		'claim + complete, no other lane|taskq|tasks/s'
	aim "$MATCHING matching lanes: ms per claim + complete" \
		"claim + complete, $MATCHING matching lanes|taskq|ms/task" '<=' 1
	note 'One client that does not wait for the disk (synchronous_commit off), so that the cost of the claim itself is visible.'
}

# lanes_round SCENARIO WHAT ROUND
lanes_round() {
	local what=$2 tags=NULL
	fresh taskq 0
	"lanes_$what"
	[ "$what" != one ] && [ "$what" != matching ] || tags="'$(lane_tags 1023)'"
	cat >"$work/taskq.lanes_$what.sql" <<-SQL
		SELECT task_id, token, payload FROM taskq_claim('bench', tags => $tags) \\gset
		SELECT taskq_complete(:task_id, :token);
	SQL
	sql b_taskq -c 'VACUUM ANALYZE'
	PGOPTIONS='-c synchronous_commit=off' measure "$1" "lanes_$what" 1 taskq "$3"
	value "$1" taskq "$3" 'ms/task' "$(awk "BEGIN {printf \"%.4f\", 1000 / $(tps)}")"
}

# lane_tags N: of ten tags those whose bits are set in N
lane_tags() {
	local i tags=''
	for i in {0..9}; do
		[ $(($1 >> i & 1)) = 0 ] || tags+="tag$i,"
	done
	say "{${tags%,}}"
}

lanes_plain() { taskq_fill b_taskq "$LOADED"; }

lanes_others() {
	sql b_taskq -o /dev/null -c "SELECT count(*) FROM generate_series(1, $LANES) AS lane,
		taskq_submit_many('bench', array_fill('$PAYLOAD'::jsonb, ARRAY[$LANE_TASKS]),
			tags => ARRAY['other ' || lane])"
	taskq_fill b_taskq "$LOADED"
}

lanes_one() {
	sql b_taskq -o /dev/null -c "SELECT count(*) FROM taskq_submit_many('bench',
		array_fill('$PAYLOAD'::jsonb, ARRAY[$LOADED]), tags => '$(lane_tags 1023)')"
}

lanes_matching() {
	local lane
	for lane in $(seq "$MATCHING"); do
		say "SELECT count(*) FROM taskq_submit_many('bench',
			array_fill('$PAYLOAD'::jsonb, ARRAY[$MATCHING_TASKS]), tags => '$(lane_tags "$lane")');"
	done >"$work/lanes.sql"
	sql b_taskq -o /dev/null -1 -f "$work/lanes.sql"
}

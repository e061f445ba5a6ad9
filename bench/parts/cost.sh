# shellcheck shell=bash
# cost: WAL of a task, with and without full-page images, by one client

# Exactly COST_TASKS transactions run from the same state, just after a
# checkpoint.
part_cost() {
	local images how
	for images in off on; do
		how=without
		[ $images = off ] || how=with
		sql postgres -c "ALTER SYSTEM SET full_page_writes = $images" -c 'SELECT pg_reload_conf()' >/dev/null
		# shellcheck disable=SC2046  # a list of words
		interleave 1 "$(chosen taskq raw limit graphile pgboss)" cost_round "$how full-page images"
	done
	sql postgres -c 'ALTER SYSTEM RESET full_page_writes' -c 'SELECT pg_reload_conf()' >/dev/null
	aim 'WAL per claim + complete, retention none, without full-page images, B' \
		'claim + complete, without full-page images|taskq|WAL, B/task' '<=' 400
	aim 'WAL per claim + complete, default retention, without full-page images, B' \
		'claim + complete, without full-page images|taskq, default retention|WAL, B/task' '<=' 800
}

# cost_round HOW SYSTEM ROUND
cost_round() {
	local TRANSACTIONS=$COST_TASKS LABEL=$2
	loaded_round "submit, $1" submit 1 0 "$2" "$3"
	! script "$2" claim || loaded_round "claim, $1" claim 1 "$COST_TASKS" "$2" "$3"
	loaded_round "claim + complete, $1" work 1 "$COST_TASKS" "$2" "$3"
	[ "$2" = taskq ] || return 0
	LABEL='taskq, default retention'
	TASKQ_OPTIONS='{}' loaded_round "claim + complete, $1" work 1 "$COST_TASKS" taskq "$3"
}

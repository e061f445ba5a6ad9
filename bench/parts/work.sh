# shellcheck shell=bash
# work: claiming and completing, one by one, in one call, and fifty by fifty

part_work() {
	local clients
	for clients in $CLIENTS; do
		work_one "$clients"
		work_again "$clients"
		work_default "$clients"
	done
	for clients in $CLIENTS; do
		work_fifty "$clients"
	done
}

# work_one CLIENTS
work_one() {
	local name
	name="claim + complete, $(clients "$1")"
	# shellcheck disable=SC2046  # a list of words
	compare "$name" work "$1" "$LOADED" $(chosen taskq raw limit pgmq graphile pgboss)
	aim "claim + complete, one by one, $(clients "$1")" \
		"$name|taskq|tasks/s" '>=' 0.9 "$name|limit|tasks/s"
}

work_again() {
	local name
	name="complete_and_claim, $(clients "$1")"
	# shellcheck disable=SC2046  # a list of words
	compare "$name" again "$1" "$LOADED" $(chosen taskq limit)
	aim "complete_and_claim, $(clients "$1")" \
		"$name|taskq|tasks/s" '>=' 1.5 "$name|limit|tasks/s"
}

work_default() {
	local TASKQ_OPTIONS='{}' name
	name="claim + complete, default retention, $(clients "$1")"
	# shellcheck disable=SC2046  # a list of words
	compare "$name" work "$1" "$LOADED" $(chosen taskq limit)
	aim "claim + complete, default retention, $(clients "$1")" \
		"$name|taskq|tasks/s" '>=' 0.6 "$name|limit|tasks/s"
}

# A claim of fifty drains a queue fast: the queue gets as many tasks as needed.
work_fifty() {
	local name
	name="claim 50 + complete 50, $(clients "$1")"
	# shellcheck disable=SC2046  # a list of words
	compare "$name" work50 "$1" $((LOADED * 5)) $(chosen taskq raw limit pgmq pgq graphile pgboss)
	aim "claim 50 + complete 50, $(clients "$1")" \
		"$name|taskq|tasks/s" '>=' 0.9 "$name|limit|tasks/s"
}

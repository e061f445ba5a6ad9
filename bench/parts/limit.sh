# shellcheck shell=bash
# limit: claiming and completing in a queue with max_running, and without it

part_limit() {
	local clients name
	[ -n "$(chosen taskq)" ] || return 0
	for clients in $LIMIT_CLIENTS; do
		name="claim + complete, $(clients "$clients")"
		interleave "$ROUNDS" 'free limited' limit_round "$name" "$clients"
		aim "max_running against none, $(clients "$clients")" \
			"$name|taskq, max_running|tasks/s" '>=' 0.95 "$name|taskq|tasks/s"
	done
}

# limit_round SCENARIO CLIENTS free|limited ROUND
limit_round() {
	local TASKQ_OPTIONS='{"retention": "none"}' LABEL=taskq
	if [ "$3" = limited ]; then
		TASKQ_OPTIONS='{"retention": "none", "max_running": 1000}'
		LABEL='taskq, max_running'
	fi
	loaded_round "$1" work "$2" "$LOADED" taskq "$4"
}

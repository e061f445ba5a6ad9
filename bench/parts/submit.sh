# shellcheck shell=bash
# submit: submitting one task, a hundred and a thousand in a call, each call a transaction

part_submit() {
	local clients name systems
	for clients in $CLIENTS; do
		name="submit, $(clients "$clients")"
		# shellcheck disable=SC2046  # lists of words
		compare "$name" submit "$clients" 0 $(chosen taskq raw limit pgmq pgq graphile pgboss)
		aim "submit, one per transaction, $(clients "$clients")" \
			"$name|taskq|tasks/s" '>=' 0.85 "$name|limit|tasks/s"
	done
	for clients in $CLIENTS; do
		name="submit 100, $(clients "$clients")"
		# shellcheck disable=SC2046  # a list of words
		systems=$(offering submit100 "$clients" $(chosen taskq raw limit pgmq pgq graphile pgboss))
		interleave "$ROUNDS" "$systems $(chosen copy)" hundred_round "$name" "$clients"
		aim "submit, 100 per call, $(clients "$clients")" \
			"$name|taskq|tasks/s" '>=' 1.0 "$name|limit|tasks/s"
		[ -z "$(chosen copy)" ] || aim "submit, 100 per call, against COPY, $(clients "$clients")" \
			"$name|taskq|tasks/s" '>=' 0.5 "$name|copy|tasks/s"
		list_aims 100 "$clients"
	done
	for clients in $CLIENTS; do
		# shellcheck disable=SC2046  # a list of words
		compare "submit 1000, $(clients "$clients")" submit1000 "$clients" 0 \
			$(chosen taskq raw limit pgmq)
		list_aims 1000 "$clients"
	done
}

# list_aims TASKS CLIENTS: against a plain table, and a simpler queue
list_aims() {
	local name
	name="submit $1, $(clients "$2")"
	aim "submit, $1 per call, against raw, $(clients "$2")" \
		"$name|taskq|tasks/s" '>=' 1.0 "$name|raw|tasks/s"
	[ -z "$(chosen pgmq)" ] || aim "submit, $1 per call, against pgmq, $(clients "$2")" \
		"$name|taskq|tasks/s" '>=' 1.25 "$name|pgmq|tasks/s"
}

# hundred_round SCENARIO CLIENTS SYSTEM ROUND
hundred_round() {
	if [ "$3" = copy ]; then
		copy_round "$1" "$2" "$4"
	else
		loaded_round "$1" submit100 "$2" 0 "$3" "$4"
	fi
}

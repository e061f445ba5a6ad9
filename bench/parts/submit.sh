# shellcheck shell=bash
# submit: submitting, one task and a hundred in a call, each call a transaction

part_submit() {
	local clients name systems
	for clients in $CLIENTS; do
		name="submit, $(clients "$clients")"
		# shellcheck disable=SC2046  # lists of words
		compare "$name" submit "$clients" 0 $(chosen taskq raw limit pgq graphile pgboss)
		aim "submit, one per transaction, $(clients "$clients")" \
			"$name|taskq|tasks/s" '>=' 0.85 "$name|limit|tasks/s"
	done
	for clients in $CLIENTS; do
		name="submit 100, $(clients "$clients")"
		# shellcheck disable=SC2046  # a list of words
		systems=$(offering submit100 "$clients" $(chosen taskq raw limit pgq graphile pgboss))
		interleave "$ROUNDS" "$systems $(chosen copy)" hundred_round "$name" "$clients"
		aim "submit, 100 per call, $(clients "$clients")" \
			"$name|taskq|tasks/s" '>=' 1.0 "$name|limit|tasks/s"
		[ -z "$(chosen copy)" ] || aim "submit, 100 per call, against COPY, $(clients "$clients")" \
			"$name|taskq|tasks/s" '>=' 0.5 "$name|copy|tasks/s"
	done
}

# hundred_round SCENARIO CLIENTS SYSTEM ROUND
hundred_round() {
	if [ "$3" = copy ]; then
		copy_round "$1" "$2" "$4"
	else
		loaded_round "$1" submit100 "$2" 0 "$3" "$4"
	fi
}

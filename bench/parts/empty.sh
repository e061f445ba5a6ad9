# shellcheck shell=bash
# empty: a claim from an empty queue beside SELECT 1

part_empty() {
	local clients name
	for clients in $EMPTY_CLIENTS; do
		name="claim of nothing, $(clients "$clients")"
		interleave "$ROUNDS" "$(chosen taskq raw) nothing" empty_round "$name" "$clients"
		aim "a claim of nothing against SELECT 1, time, $(clients "$clients")" \
			"$name|taskq|µs/call" '<=' "$([ "$clients" = 1 ] && say 1.2 || say 1.7)" \
			"$name|SELECT 1|µs/call"
	done
	note "Each call counts as a task."
}

# empty_round SCENARIO CLIENTS SYSTEM ROUND
empty_round() {
	local LABEL=$3 name=$3
	if [ "$3" = nothing ]; then
		say 'SELECT 1;' >"$work/raw.nothing.sql"
		LABEL='SELECT 1' loaded_round "$1" nothing "$2" 0 raw "$4"
		name='SELECT 1'
	else
		loaded_round "$1" empty "$2" 0 "$3" "$4"
	fi
	value "$1" "$name" "$4" 'µs/call' "$(awk "BEGIN {printf \"%.1f\", $2 * 1e6 / $(tps)}")"
}

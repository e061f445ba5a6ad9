# shellcheck shell=bash
# fillfactor: how full the pages of live tasks may be, with and without a held snapshot

# A claim is a heap-only update if the page of its row has room for a second
# version. The fillfactor in force is one of FILLFACTORS.
part_fillfactor() {
	local clients
	for clients in $FILL_CLIENTS; do
		interleave "$ROUNDS" "$FILLFACTORS" fill_round submit100 0 \
			"submit 100, $(clients "$clients")" "$clients"
		interleave "$ROUNDS" "$FILLFACTORS" fill_round work "$LOADED" \
			"claim + complete, $(clients "$clients")" "$clients"
	done
	interleave 1 "$FILLFACTORS" fill_held
	interleave 1 "$FILLFACTORS" fill_disk
}

# fill_round WHAT TASKS SCENARIO CLIENTS FILLFACTOR ROUND
fill_round() {
	local TASKQ_FILLFACTOR=$5 LABEL="taskq, fillfactor $5"
	loaded_round "$3" "$1" "$4" "$2" taskq "$6"
}

# fill_held FILLFACTOR ROUND
fill_held() {
	local TASKQ_FILLFACTOR=$1 LABEL="taskq, fillfactor $1" HELD_FREE=$SECONDS_EACH
	held_run cycle cycle taskq "$FILL_HELD"
}

# fill_disk FILLFACTOR ROUND
fill_disk() {
	local TASKQ_FILLFACTOR=$1 LABEL="taskq, fillfactor $1"
	disk_taken taskq
}

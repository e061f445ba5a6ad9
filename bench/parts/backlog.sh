# shellcheck shell=bash
# backlog: submitting, claiming and completing while a backlog of some size waits

# The backlog stays as it is, so a system's tasks are loaded once for each
# size; the sizes' rounds come one after the other.
part_backlog() {
	local size name first=
	for size in $BACKLOGS; do
		name="backlog of $size"
		# shellcheck disable=SC2046  # a list of words
		for system in $(offering cycle "$BACKLOG_CLIENTS" $(chosen taskq raw)); do
			fresh "$system" "$size"
		done
		# shellcheck disable=SC2046  # a list of words
		interleave "$ROUNDS" "$(chosen taskq raw)" measure "$name" cycle "$BACKLOG_CLIENTS"
		first=${first:-$name}
		[ "$first" = "$name" ] ||
			aim "a backlog of $size against ${first#backlog of }, $(clients "$BACKLOG_CLIENTS")" \
				"$name|taskq|tasks/s" '>=' 0.95 "$first|taskq|tasks/s"
	done
}

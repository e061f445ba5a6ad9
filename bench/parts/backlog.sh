# shellcheck shell=bash
# backlog: submitting, claiming and completing while a backlog of some size waits

# The backlog stays as it is, so a system's tasks are loaded once for each
# size, into databases b_SYSTEM_SIZE; the sizes' rounds are interleaved.
part_backlog() {
	local size systems first=
	# shellcheck disable=SC2046  # a list of words
	systems=$(offering cycle "$BACKLOG_CLIENTS" $(chosen taskq raw))
	for size in $BACKLOGS; do
		backlog_load "$size" "$systems"
	done
	interleave "$ROUNDS" "$BACKLOGS" backlog_round "$systems"
	for size in $BACKLOGS; do
		first=${first:-$size}
		[ "$first" = "$size" ] ||
			aim "a backlog of $size against $first, $(clients "$BACKLOG_CLIENTS")" \
				"backlog of $size|taskq|tasks/s" '>=' 0.95 "backlog of $first|taskq|tasks/s"
	done
	backlog_drop "$systems"
}

# backlog_load SIZE "SYSTEM..."
backlog_load() {
	local system
	for system in $2; do
		fresh "$system" "$1"
		drop_templates "$system"
		must "$system: renaming its database" sql postgres \
			-c "ALTER DATABASE b_$system RENAME TO b_${system}_$1"
	done
}

# backlog_round "SYSTEM..." SIZE ROUND
backlog_round() {
	local system
	for system in $1; do
		DATABASE=b_${system}_$2 measure "backlog of $2" cycle "$BACKLOG_CLIENTS" "$system" "$3"
	done
}

# backlog_drop "SYSTEM..."
backlog_drop() {
	local size system
	for size in $BACKLOGS; do
		for system in $1; do
			sql postgres -c "DROP DATABASE b_${system}_$size WITH (FORCE)"
		done
	done
}

# shellcheck shell=bash
# disk: the room that waiting tasks take

part_disk() {
	local system empty full
	for system in $(chosen taskq raw pgq graphile pgboss); do
		fresh "$system" 0
		empty=$(database_size "$system")
		fresh "$system" "$DISK_TASKS"
		full=$(database_size "$system")
		value "$DISK_TASKS waiting tasks" "$system" 1 'MB per million' \
			"$(awk "BEGIN {printf \"%.0f\", ($full - $empty) / 1048576 * 1000000 / $DISK_TASKS}")"
		value "$DISK_TASKS waiting tasks" "$system" 1 'B/task' \
			"$(awk "BEGIN {printf \"%.0f\", ($full - $empty) / $DISK_TASKS}")"
		say "   $DISK_TASKS waiting tasks: $system $(((full - empty) / 1048576)) MB"
		drop_templates "$system"
	done
}

database_size() { sql postgres -c "SELECT pg_database_size('b_$1')"; }

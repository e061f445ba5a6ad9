# shellcheck shell=bash
# disk: the room that waiting tasks take

part_disk() {
	local system
	for system in $(chosen taskq raw pgmq pgq graphile pgboss); do
		disk_taken "$system"
	done
}

# disk_taken SYSTEM
disk_taken() {
	local empty full name=${LABEL:-$1}
	fresh "$1" 0
	empty=$(database_size "$1")
	fresh "$1" "$DISK_TASKS"
	full=$(database_size "$1")
	value "$DISK_TASKS waiting tasks" "$name" 1 'MB per million' \
		"$(awk "BEGIN {printf \"%.0f\", ($full - $empty) / 1048576 * 1000000 / $DISK_TASKS}")"
	value "$DISK_TASKS waiting tasks" "$name" 1 'B/task' \
		"$(awk "BEGIN {printf \"%.0f\", ($full - $empty) / $DISK_TASKS}")"
	say "   $DISK_TASKS waiting tasks: $name $(((full - empty) / 1048576)) MB"
	drop_templates "$1"
}

database_size() { sql postgres -c "SELECT pg_database_size('b_$1')"; }

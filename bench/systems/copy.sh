# shellcheck shell=bash disable=SC2034
# copy: COPY of a hundred prepared rows into a table that has the columns, defaults
# and indexes of taskq.task, which is the limit of submitting a hundred tasks.
# bench/copy.c sends them.  Only the part submit uses this system.

copy_is=

copy_make() {
	sql "$1" -c 'CREATE EXTENSION taskq' \
		-c "SELECT taskq_submit('bench', '$PAYLOAD')" \
		-c 'CREATE TABLE copied (LIKE taskq.task INCLUDING ALL)' \
		-c 'GRANT INSERT ON copied TO bench' || return
	sql "$1" -c 'COPY (SELECT * FROM taskq.task) TO STDOUT' >"$work/copy.row"
}

# copy_round SCENARIO CLIENTS ROUND
copy_round() {
	local rate
	fresh copy 0
	rate=$("$work/client" copy "dbname=b_copy user=bench" "$2" \
		"$([ -n "$TRANSACTIONS" ] && echo 0.2 || echo "$SECONDS_EACH")" "$work/copy.row") &&
		[ "$(sql b_copy -c 'SELECT count(*) > 0 FROM copied')" = t ] ||
		die 'copy failed'
	value "$1" copy "$3" 'tasks/s' "$rate"
	say "   $1: copy $rate/s"
}

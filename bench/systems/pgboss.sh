# shellcheck shell=bash disable=SC2034
# pg-boss: its own schema and exactly the statements that it sends
# (systems/npm/record.js).  It keeps finished tasks, as in normal use.

pgboss_is='template peer'

pgboss_version() { npm_version pg-boss; }

pgboss_prepare() { npm_prepare pgboss; }

pgboss_make() { npm_run install pgboss "$1"; }

# with its statement for a hundred tasks, without waiting for the disk
pgboss_fill() {
	script pgboss submit100 && definitions pgboss 1 &&
		PGOPTIONS='-c synchronous_commit=off' pgbench -n -M prepared -f "$script" \
			-t $((($2 + 99) / 100)) "${defs[@]}" -U bench "$1"
}

pgboss_left() {
	sql "$1" -c "SELECT count(*) FROM pgboss.job WHERE state IN ('created', 'active', 'retry')"
}

pgboss_script() { npm_script pgboss "$1"; }

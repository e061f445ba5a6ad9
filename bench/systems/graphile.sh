# shellcheck shell=bash disable=SC2034
# graphile-worker: its own schema and exactly the statements that it sends
# (systems/npm/record.js); it takes and completes tasks one by one.

graphile_is='template peer'

graphile_version() { npm_version graphile-worker; }

# npm_version PACKAGE: as installed
npm_version() {
	say "$1 $(sed -n 's/^  "version": "\(.*\)".*/\1/p' "$here/systems/npm/node_modules/$1/package.json"), by Node $(node --version)"
}

# npm_run COMMAND SYSTEM DB WORD...
npm_run() {
	must "$2: $1" node "$here/systems/npm/record.js" "$@"
}

# npm_prepare SYSTEM: record its statements
npm_prepare() {
	[ -d "$here/systems/npm/node_modules" ] ||
		die "$1 is not installed: npm ci in bench/systems/npm"
	sql postgres -c "CREATE DATABASE recorded OWNER bench"
	npm_run install "$1" recorded
	npm_run record "$1" recorded "$work" "$PAYLOAD"
	sql postgres -c 'DROP DATABASE recorded'
}

# npm_script SYSTEM WHAT
npm_script() {
	[ -e "$work/$1.$2.recorded" ] && cat "$work/$1.$2.recorded"
}

graphile_prepare() { npm_prepare graphile; }

graphile_make() { npm_run install graphile "$1"; }

# a thousand at a time: until the table is analyzed, each call reads all of it
graphile_fill() {
	sql "$1" -o /dev/null -c "SELECT count(*)
		FROM (SELECT array_agg(ROW('bench', '$PAYLOAD', NULL, NULL, NULL, NULL, NULL, NULL)
				::graphile_worker.job_spec) AS specs
			FROM generate_series(1, $2) i GROUP BY i / 1000) s,
			graphile_worker.add_jobs(s.specs)"
}

graphile_left() { sql "$1" -c 'SELECT count(*) FROM graphile_worker.jobs'; }

graphile_script() { npm_script graphile "$1"; }

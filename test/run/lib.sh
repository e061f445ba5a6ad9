# lib.sh: functions that the scripts of the harness share.

set -u
unset CDPATH MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES
PG_CONFIG=${PG_CONFIG:-pg_config}
# settings that would lead a client to another server; PG_CONFIG is not one of
# them
unset PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGPASSWORD PGPASSFILE \
	PGSERVICE PGSERVICEFILE PGOPTIONS PGDATA PGAPPNAME PGCLIENTENCODING \
	PGSSLMODE PGTZ PGDATESTYLE PGTARGETSESSIONATTRS
# TAP tests unset LC_ALL, and create clusters in the encoding of LANG
export LC_ALL=C LANG=C.UTF-8

FAMILIES="regress unloaded isolation pgtap hostile model tap lint"

# exit codes: a test failed; the harness could not work
FAILED_TEST=1
NO_RESULT=2

say() { printf '%s\n' "$*"; }

die() {
	printf 'check: %s\n' "$*" >&2
	exit $NO_RESULT
}

have() { command -v "$1" >/dev/null 2>&1; }

is_root() { [ "$(id -u)" = 0 ]; }

# git, also in a clone of another user
git_here() { git -c "safe.directory=$TASKQ_TOP" -C "$TASKQ_TOP" "$@"; }

# mutant_files [NAME...]: the files of these mutants, or of all.  A name is that
# of a mutant or that of a folder.
mutant_files() {
	local dir=$TASKQ_TOP/test/mutants name
	for name in "${@:-.}"; do
		if [ -d "$dir/$name" ]; then
			find "$dir/$name" -name '*.patch' | sort
		else
			find "$dir" -name "${name##*/}.patch" | grep . ||
				die "there is no mutant $name"
		fi
	done
}

# wait_gone PID SECONDS: false if the process still exists after that. The shell
# collects its own zombies.
wait_gone() {
	local n=$(($2 * 20))
	while kill -0 "$1" 2>/dev/null; do
		[ $((n -= 1)) -gt 0 ] || return 1
		sleep 0.05
	done
}

# is_server PID DATA: is it really this directory's server, and not a process
# that got the number of a dead one? Without /proc the number must be enough.
is_server() {
	kill -0 "$1" 2>/dev/null || return 1
	[ ! -e /proc/self ] || [ "$(readlink "/proc/$1/cwd")" = "$2" ]
}

# stop_servers DIRECTORY: stops the servers whose data directories are below
# it, by their pid files; immediately, without a checkpoint. A server that is
# just starting may write its file late, so this repeats until nothing is left.
stop_servers() {
	local file pid
	while file=$(find "$1" -name postmaster.pid -print -quit) &&
		[ -n "$file" ]; do
		pid=$(head -n 1 "$file" 2>/dev/null)
		if [ -n "$pid" ] && is_server "$pid" "${file%/*}"; then
			kill -QUIT "$pid" 2>/dev/null
			wait_gone "$pid" 6 || kill -KILL "$pid" 2>/dev/null
		fi
		# a server that crashed leaves it
		rm -f "$file"
	done
}

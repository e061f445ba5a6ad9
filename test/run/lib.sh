# lib.sh: what check, demo and bench share: packages, a private copy of the
# PostgreSQL installation, builds, servers, cleaning up.
#
# Everything lives below $TMP, which goes when the script ends, however it
# ends.  As root, the work is done by user postgres: the server's programs
# refuse root.

set -u
export LC_ALL=C
PGVERSION=${PGVERSION:-15}
SYSTEM_BIN=/usr/lib/postgresql/$PGVERSION/bin
PACKAGES="postgresql-$PGVERSION postgresql-server-dev-$PGVERSION
 postgresql-$PGVERSION-pgtap postgresql-$PGVERSION-cron libipc-run-perl
 libtap-parser-sourcehandler-pgtap-perl gcc make clang-format git patch
 perl libpq-dev libssl-dev libmagic-dev"

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# Install what is missing, or say what is.
need_packages() {
	local missing="" p
	for p in $PACKAGES; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
			grep -q 'ok installed' || missing="$missing $p"
	done
	[ -z "$missing" ] && return
	local sudo=""
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null ||
			die "These Debian packages are needed:$missing"
		sudo="sudo -n"
	fi
	say "installing:$missing"
	# no cluster of the system's own is wanted
	if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
		$sudo mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' |
			$sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
	fi
	if ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
		--no-install-recommends -o Dpkg::Options::=--force-confold \
		$missing >"$TMP/apt.log" 2>&1 </dev/null; then
		{ $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -q --no-install-recommends \
			-o Dpkg::Options::=--force-confold $missing; } \
			>>"$TMP/apt.log" 2>&1 </dev/null ||
			{ tail -20 "$TMP/apt.log" >&2; die "could not install:$missing"; }
	fi
}

# Make $TMP and see that it goes, with the servers below it.
make_tmp() {
	TMP=$(mktemp -d "${TMPDIR:-/tmp}/taskq.XXXXXX") || exit 1
	chmod 755 "$TMP"
	trap 'clean_up' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
}

clean_up() {
	local pidfile pid
	trap '' INT TERM HUP
	[ -n "${CHILD:-}" ] && kill -TERM -- "-$CHILD" 2>/dev/null
	for pidfile in $(find "$TMP" -name postmaster.pid 2>/dev/null); do
		pid=$(head -1 "$pidfile" 2>/dev/null)
		[ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null
	done
	for pidfile in $(find "$TMP" -name postmaster.pid 2>/dev/null); do
		pid=$(head -1 "$pidfile" 2>/dev/null)
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.05
		done
	done
	[ -n "${TASKQ_KEEP:-}" ] && { say "kept: $TMP"; return; }
	rm -rf "$TMP"
}

# Run as the user that the servers run as.
as_user() {
	if [ "$(id -u)" = 0 ]; then
		runuser -u postgres -- "$@"
	else
		"$@"
	fi
}

own() { [ "$(id -u)" != 0 ] || chown -R postgres "$@"; }

# A copy of the sources (tracked files, and new ones that are not ignored)
# that user can read.
copy_sources() {
	SRC=$TMP/src
	mkdir -p "$SRC"
	if git -c safe.directory='*' -C "$TOP" rev-parse HEAD >/dev/null 2>&1; then
		(cd "$TOP" && git -c safe.directory='*' ls-files -co --exclude-standard -z |
			while IFS= read -r -d '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done |
			tar -c --null -T - -f -) | tar -x --no-same-owner -f - -C "$SRC"
	else
		tar -c -C "$TOP" --exclude=.git -f - . | tar -x --no-same-owner -f - -C "$SRC"
	fi
	chmod -R u+rwX,go+rX "$SRC"
	own "$SRC"
}

# make_installation NAME [make arguments]: a private copy of the server's
# installation below $TMP/NAME, with this build of the extension in it.  A
# server finds its directories relative to its own program.
make_installation() {
	local name=$1 prefix="$TMP/$1/usr"
	shift
	mkdir -p "$prefix/lib/postgresql/$PGVERSION" "$prefix/share/postgresql"
	cp -r "$SYSTEM_BIN" "$prefix/lib/postgresql/$PGVERSION/bin"
	cp -rs "/usr/lib/postgresql/$PGVERSION/lib" \
		"$prefix/lib/postgresql/$PGVERSION/lib"
	cp -rs "/usr/share/postgresql/$PGVERSION" \
		"$prefix/share/postgresql/$PGVERSION"
	mkdir -p "$TMP/build-$name"
	own "$TMP/$name" "$TMP/build-$name"
	# the extension of another installation must not be taken for ours
	rm -f "$prefix/lib/postgresql/$PGVERSION/lib/taskq.so" \
		"$prefix/share/postgresql/$PGVERSION/extension/taskq"*
	if ! (cd "$TMP/build-$name" &&
		as_user make -s -f "$SRC/Makefile" with_llvm=no \
			PG_CONFIG="$SYSTEM_BIN/pg_config" "$@" -j2 &&
		as_user make -s -f "$SRC/Makefile" with_llvm=no "$@" install \
			PG_CONFIG="$prefix/lib/postgresql/$PGVERSION/bin/pg_config") \
		>"$TMP/build-$name.log" 2>&1; then
		cat "$TMP/build-$name.log" >&2
		die "the $name build failed"
	fi
	eval "BIN_$name=$prefix/lib/postgresql/$PGVERSION/bin"
}

# start_server NAME BIN [configuration lines]: a server without network, its
# socket in $TMP/NAME-s, superuser postgres.
start_server() {
	local name=$1 bin=$2
	shift 2
	mkdir -p "$TMP/$name-s"
	mkdir -p "$TMP/$name-d"
	own "$TMP/$name-s" "$TMP/$name-d"
	as_user "$bin/initdb" -D "$TMP/$name-d/data" --no-locale -E UTF8 -A trust \
		-U postgres -N >"$TMP/$name-initdb.log" 2>&1 ||
		{ cat "$TMP/$name-initdb.log" >&2; die "initdb failed"; }
	{
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$TMP/$name-s'"
		echo "shared_preload_libraries = 'taskq'"
		echo "max_worker_processes = 20"
		echo "max_prepared_transactions = 20"
		echo "log_line_prefix = '%m [%p] %e %b %d '"
		echo "cluster_name = 'taskq-$name'"
		printf '%s\n' "$@"
	} | as_user tee -a "$TMP/$name-d/data/postgresql.conf" >/dev/null
	as_user "$bin/pg_ctl" -D "$TMP/$name-d/data" -l "$TMP/$name-d/log" -w -s \
		start || { cat "$TMP/$name-d/log" >&2; die "the server did not start"; }
}

stop_server() {
	as_user "$2/pg_ctl" -D "$TMP/$1-d/data" -m fast -w -s stop
}

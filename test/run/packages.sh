# packages.sh: the needs of the tests on the machine. Each need is checked by
# itself, so that a PostgreSQL built by hand is as good as Debian's; what is
# missing is installed from Debian, or named.

# has NEED: does it exist?
has() {
	local dir
	case $1 in
		server) dir=$("$PG_CONFIG" --bindir 2>/dev/null) && [ -x "$dir/postgres" ] ;;
		pgxs) dir=$("$PG_CONFIG" --pgxs 2>/dev/null) && [ -f "$dir" ] ;;
		headers) dir=$("$PG_CONFIG" --includedir-server 2>/dev/null) &&
			[ -f "$dir/postgres.h" ] ;;
		extension:*) dir=$("$PG_CONFIG" --sharedir 2>/dev/null) &&
			[ -f "$dir/extension/${1#*:}.control" ] ;;
		perl:*) perl -M"${1#*:}" -e 1 >/dev/null 2>&1 ;;
		file:*) [ -e "${1#*:}" ] ;;
		include:*) dir=$("$PG_CONFIG" --includedir 2>/dev/null) &&
			[ -e "$dir/${1#*:}" ] ;;
		command:*) have "${1#*:}" ;;
		python:*) /usr/bin/python3 -c "import ${1#*:}" >/dev/null 2>&1 ;;
		# npm fetches what package-lock.json names; otherwise Debian's package
		# is used
		node:*) have npm || [ -d "/usr/share/nodejs/${1#*:}" ] ;;
	esac
}

# NEED PACKAGE, a line each
needs() {
	local major
	major=$("$PG_CONFIG" --version 2>/dev/null |
		sed 's/^PostgreSQL \([0-9]*\).*/\1/')
	major=${major:-15}
	cat <<-LIST
		server postgresql-$major
		pgxs postgresql-server-dev-$major
		headers postgresql-server-dev-$major
		extension:pgtap postgresql-$major-pgtap
		extension:pg_cron postgresql-$major-cron
		perl:Test::More perl
		perl:IPC::Run libipc-run-perl
		perl:TAP::Parser::SourceHandler::pgTAP libtap-parser-sourcehandler-pgtap-perl
		command:prove perl
		command:pg_prove libtap-parser-sourcehandler-pgtap-perl
		command:gcc gcc
		command:nm binutils
		command:make make
		command:patch patch
		command:git git
		command:clang-format clang-format
		command:shellcheck shellcheck
		command:setpriv util-linux
		file:/usr/include/stdlib.h libc6-dev
		include:libpq-fe.h libpq-dev
	LIST
	case $1 in
		cassert | caches)
			say command:bzip2 bzip2
			say command:flock util-linux
			;;
		pg[0-9]* | versions) say command:flock util-linux ;;
		static)
			say command:cppcheck cppcheck
			say command:clang clang
			;;
	esac
	[ "$1" != compare ] || say command:valgrind valgrind
	if [ "$1" = bench ] && wants_peers; then
		cat <<-LIST
			extension:pgq postgresql-$major-pgq3
			command:pgqd pgqd
			command:node nodejs
			command:npm npm
		LIST
	fi
	[[ $1 != demo* ]] || cat <<-LIST
		file:/usr/include/openssl/evp.h libssl-dev
		file:/usr/include/magic.h libmagic-dev
	LIST
}

# Will the benchmark measure other queues?  The short selection does not.
wants_peers() {
	[[ " ${SYSTEMS-$([ "${PART:-quick}" = quick ] || say pgq)} " =~ ' '(pgq|graphile|pgboss)' ' ]]
}

# What single tests need; without it they are skipped: the examples in other
# languages, a pooler, and the benchmark's pictures.
needs_some() {
	cat <<-LIST
		command:gnuplot gnuplot-nox
		file:/usr/sbin/pgbouncer pgbouncer
		python:psycopg python3-psycopg
		python:jsonschema python3-jsonschema
		python:prometheus_client python3-prometheus-client
		command:node nodejs
		node:pg node-pg
	LIST
	# Java's packages cannot be installed where /proc is not mounted
	[ ! -e /proc/self ] || cat <<-LIST
		command:javac default-jdk-headless
		file:/usr/share/java/postgresql.jar libpostgresql-jdbc-java
	LIST
}

# What tests and demos use without installing it, since installing would start a
# service
needs_unpacked() {
	say prometheus prometheus-sql-exporter prometheus-postgres-exporter \
		prometheus-node-exporter
}

# missing_packages LIST GOAL: LIST is needs or needs_some
missing_packages() {
	local need package
	"$@" | while read -r need package; do
		has "$need" || say "$package"
	done | sort -u | tr '\n' ' '
}

# as_admin COMMAND...
as_admin() {
	if is_root; then
		"$@"
	elif [ -t 2 ] && [ -z "${CI:-}" ]; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

apt_install() {
	as_admin env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
		--no-install-recommends -o Dpkg::Options::=--force-confold "$@"
}

# Installs packages and starts none of their services: a machine without a
# policy for that gets one for that time.
apt_install_stopped() {
	# shellcheck disable=SC2016  # for the other shell
	as_admin env DEBIAN_FRONTEND=noninteractive sh -c '
		policy=/usr/sbin/policy-rc.d
		if [ ! -e $policy ]; then
			trap "rm -f $policy" EXIT
			trap "exit 1" INT TERM HUP
			printf "#!/bin/sh\nexit 101\n" >$policy && chmod 755 $policy
		fi
		apt-get install -y -q --no-install-recommends \
			-o Dpkg::Options::=--force-confold "$@"' apt "$@"
}

# The server's package would create and start a cluster of the system.
prevent_cluster() {
	[ ! -e /etc/postgresql-common/createcluster.conf ] || return 0
	as_admin mkdir -p /etc/postgresql-common
	say 'create_main_cluster = false' |
		as_admin tee /etc/postgresql-common/createcluster.conf >/dev/null
}

# need_packages GOAL
need_packages() {
	local missing install=apt_install
	# one of its packages is a daemon
	[ "$1" != bench ] || install=apt_install_stopped
	missing=$(missing_packages needs "$1")
	[ -n "$missing" ] || return 0
	have apt-get && { is_root || have sudo; } ||
		die "these Debian packages are missing: $missing"
	say "installing $missing"
	prevent_cluster
	# shellcheck disable=SC2086  # a list of words
	{ $install $missing ||
		{ as_admin apt-get update -q && $install $missing; }; } \
		>"$TASKQ_TMP/apt.log" 2>&1 </dev/null || tail -n 20 "$TASKQ_TMP/apt.log"
	missing=$(missing_packages needs "$1")
	[ -z "$missing" ] ||
		die "these Debian packages are missing and could not be installed: $missing"
}

# some_packages: the packages of needs_some that are available
some_packages() {
	local missing
	missing=$(missing_packages needs_some)
	[ -n "$missing" ] || return 0
	if have apt-get && { is_root || have sudo; }; then
		say "installing $missing"
		# shellcheck disable=SC2086  # a list of words
		{ apt_install_stopped $missing ||
			{ as_admin apt-get update -q && apt_install_stopped $missing; }; } \
			>"$TASKQ_TMP/apt.log" 2>&1 </dev/null ||
			tail -n 20 "$TASKQ_TMP/apt.log"
		missing=$(missing_packages needs_some)
	fi
	[ -z "$missing" ] ||
		say "tests are skipped for want of the Debian packages $missing"
}

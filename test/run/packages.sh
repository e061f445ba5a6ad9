# packages.sh: what the tests need of the machine.  Each need is looked for by
# itself, so that a PostgreSQL built by hand serves as well as Debian's; what
# is missing is installed from Debian, or named.

# has NEED: is it there?
has() {
	local dir
	case $1 in
		server) dir=$("$PG_CONFIG" --bindir 2>/dev/null) && [ -x "$dir/postgres" ] ;;
		pgxs) dir=$("$PG_CONFIG" --pgxs 2>/dev/null) && [ -f "$dir" ] ;;
		extension:*) dir=$("$PG_CONFIG" --sharedir 2>/dev/null) &&
			[ -f "$dir/extension/${1#*:}.control" ] ;;
		perl:*) perl -M"${1#*:}" -e 1 >/dev/null 2>&1 ;;
		file:*) [ -e "${1#*:}" ] ;;
		include:*) dir=$("$PG_CONFIG" --includedir 2>/dev/null) &&
			[ -e "$dir/${1#*:}" ] ;;
		command:*) have "${1#*:}" ;;
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
		command:setpriv util-linux
		file:/usr/include/stdlib.h libc6-dev
		include:libpq-fe.h libpq-dev
	LIST
	case $1 in cassert | caches)
		say command:bzip2 bzip2
		say command:flock util-linux
		;;
	esac
	[ "$1" != demo ] || cat <<-LIST
		file:/usr/include/openssl/evp.h libssl-dev
		file:/usr/include/magic.h libmagic-dev
	LIST
}

missing_packages() {
	local need package
	needs "$1" | while read -r need package; do
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

# The server's package would make and start a cluster of the system's own.
prevent_cluster() {
	[ ! -e /etc/postgresql-common/createcluster.conf ] || return 0
	as_admin mkdir -p /etc/postgresql-common
	say 'create_main_cluster = false' |
		as_admin tee /etc/postgresql-common/createcluster.conf >/dev/null
}

# need_packages GOAL
need_packages() {
	local missing
	missing=$(missing_packages "$1")
	[ -n "$missing" ] || return 0
	have apt-get && { is_root || have sudo; } ||
		die "these Debian packages are missing: $missing"
	say "installing $missing"
	prevent_cluster
	# shellcheck disable=SC2086  # a list of words
	{ apt_install $missing ||
		{ as_admin apt-get update -q && apt_install $missing; }; } \
		>"$TASKQ_TMP/apt.log" 2>&1 </dev/null || tail -n 20 "$TASKQ_TMP/apt.log"
	missing=$(missing_packages "$1")
	[ -z "$missing" ] ||
		die "these Debian packages are missing and could not be installed: $missing"
}

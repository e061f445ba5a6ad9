# shellcheck shell=bash
# lib.sh: the private server, its databases, and the results.
#
# Each system has a database of its own, b_SYSTEM, which is created again with
# its tasks before each round, so a round leaves nothing for the next one. If a
# copied database works as well as a new one, the loaded database is kept as a
# template, t_SYSTEM_KIND_TASKS, until the part ends.
#
# A system, bench/systems/NAME.sh, consists of these functions:
#
#   NAME_make DB          installs it in an empty database
#   NAME_fill DB N        submits N tasks
#   NAME_left DB          prints how many tasks are left
#   NAME_script WHAT      prints the pgbench script; false: it does not offer this
#   NAME_begin, NAME_end  run before and after each round; optional
#   NAME_kind             prints the kind of database, if NAME_make makes several
#   NAME_copied DB        adapts a copied database; optional
#
# and the words in NAME_is: "template", a copied database works (see above);
# "single", only one client can take tasks; "peer", a system whose version is
# reported.

say() { printf '%s\n' "$*"; }

die() {
	printf 'bench: %s\n' "$*" >&2
	exit 2
}

have_function() { declare -F "$1" >/dev/null; }

# is SYSTEM WORD
is() {
	local words=$1_is
	[[ " ${!words:-} " == *" $2 "* ]]
}

# chosen SYSTEM...: prints the systems that SYSTEMS names
chosen() {
	local system
	for system in "$@"; do
		[[ " $SYSTEMS " != *" $system "* ]] || printf '%s ' "$system"
	done
}

# Check that the requested parts and systems exist.
is_known() {
	local name
	for name in $PART; do
		[ -f "$here/parts/$name.sh" ] || die "there is no part $name"
	done
	for name in $SYSTEMS; do
		[ -f "$here/systems/$name.sh" ] || die "there is no system $name"
	done
}

# part_title NAME: the title, on the first line of the part's file
part_title() { sed -n "s/^# $1: *//p" "$here/parts/$1.sh"; }

# ------------------------------------------------------------- results

# write WORD...: one line of the results, its words divided by tabs
write() {
	local line
	printf -v line '%s\t' "$@"
	printf '%s\n' "${line%$'\t'}" >>"$out"
}

# value SCENARIO SYSTEM ROUND METRIC NUMBER
value() {
	[[ $5 =~ ^-?[0-9.]+(e[-+]?[0-9]+)?$ ]] ||
		die "$2, $1: \"$5\" is no number of $4"
	write value "$@"
}

# aim WHAT LEFT OP BOUND [RIGHT]: LEFT, or LEFT / RIGHT, must be ">=" or "<="
# BOUND; both are "SCENARIO|SYSTEM|METRIC"
aim() { write aim "$@"; }

note() { write note "$*"; }

load_average() { cut -d ' ' -f 1-3 /proc/loadavg 2>/dev/null || say unknown; }

write_facts() {
	local name
	write fact 'PostgreSQL' "$(sql postgres -c "SELECT current_setting('server_version')")"
	write fact 'taskq' "${TASKQ_COMMIT:-unknown}"
	write fact 'date' "$(date -u '+%Y-%m-%d %H:%M UTC')"
	write fact 'processors' "$(nproc)"
	write fact 'processor' "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)"
	write fact 'memory, MB' "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null |
		awk '{printf "%d", $1 / 1024}')"
	write fact 'kernel' "$(uname -sr | cut -d- -f1)"
	write fact 'file system' "$(df -T "$work" | awk 'NR == 2 {print $2}')"
	write fact 'load average at the beginning' "$(load_average)"
	for name in ROUNDS SECONDS_EACH TRANSACTIONS CLIENTS LOADED; do
		[ -z "${!name}" ] || write setting "$name" "${!name}"
	done
	sql postgres -F $'\t' -c "SELECT 'setting', name, current_setting(name)
		FROM pg_settings WHERE source = 'configuration file'
		AND name NOT LIKE 'log%' AND name NOT LIKE '%director%'
		AND name NOT LIKE 'lc%' AND name NOT IN ('TimeZone', 'DateStyle',
			'default_text_search_config', 'dynamic_shared_memory_type',
			'listen_addresses') ORDER BY name" >>"$out"
	for name in $SYSTEMS; do
		! have_function "${name}_version" || write fact "$name" "$("${name}_version")"
	done
}

# ---------------------------------------------------------------- the server

make_directories() {
	work=$TASKQ_TMP/bench
	results=$TASKQ_TMP/results
	mkdir -p "$work" "$results"
	# the address of a socket has at most about 100 bytes
	sockets=$(mktemp -d /tmp/taskq-bench.XXXXXX) || exit 2
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	unset "${!PG@}"
	export PGHOST=$sockets PGPORT=5432 PGUSER=postgres
	# pg_config of the private installation does not find libpq
	pg_config=$(command -v "${PG_CONFIG:-pg_config}") || die 'there is no pg_config'
	PATH=$TASKQ_BIN:$PATH
	children=()
}

# shellcheck disable=SC2317  # called by trap
clean_up() {
	local status=$? pid
	trap '' INT TERM HUP
	trap - EXIT
	for pid in "${children[@]}"; do
		kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
	[ ! -e "$work/data/postmaster.pid" ] ||
		"$TASKQ_BIN/pg_ctl" -D "$work/data" -m immediate -w -s stop 2>/dev/null
	rm -rf -- "$sockets" "$work"
	exit "$status"
}

# background COMMAND...: sets child
background() {
	"$@" &
	child=$!
	children+=("$child")
}

# end_child PID: terminates it; returns its exit status
end_child() {
	kill -TERM "$1" 2>/dev/null
	wait_child "$1"
}

# wait_child PID: waits for its end; returns its exit status
wait_child() {
	local pid status
	local -a others=()
	wait "$1"
	status=$?
	for pid in "${children[@]}"; do
		[ "$pid" = "$1" ] || others+=("$pid")
	done
	children=("${others[@]}")
	return $status
}

# sql DATABASE ARGUMENT...: psql as superuser
sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 -d "$@"; }

# must WHAT COMMAND...: runs it; if it fails, prints its output and ends the run
must() {
	local what=$1
	shift
	"$@" >"$work/must.out" 2>"$work/must.err" || {
		tail -n 20 "$work/must.out" "$work/must.err" >&2
		die "$what fails"
	}
}

# Compile bench/client.c into $work; the tests set the directories of libpq.
build_client() {
	must 'building bench/client.c' make -s -C "$here" OUT="$work" \
		PG_CONFIG="$pg_config" \
		${TASKQ_INCLUDE:+INCLUDE="$TASKQ_INCLUDE" LIB="$TASKQ_LIB"}
}

start_server() {
	must initdb initdb -D "$work/data" --no-locale -E UTF8 -A trust -U postgres
	cat >>"$work/data/postgresql.conf" <<-CONF
		listen_addresses = ''
		unix_socket_directories = '$sockets'
		shared_preload_libraries = 'taskq'
		shared_buffers = $SHARED_BUFFERS
		max_wal_size = 8GB
		checkpoint_timeout = 30min
		max_connections = 1200
		fsync = $FSYNC
		synchronous_commit = on
	CONF
	must 'the server' pg_ctl -D "$work/data" -l "$work/log" -w -s start
	postmaster=$(head -n 1 "$work/data/postmaster.pid")
	cpu_before=0
	sql postgres -c 'CREATE ROLE bench LOGIN'
}

# restart_server SETTING=VALUE...: with these in addition to its configuration
# file
restart_server() {
	local setting options=''
	for setting in "$@"; do
		options="$options -c $setting"
	done
	cpu_before=$(server_cpu)
	must 'the server' pg_ctl -D "$work/data" -l "$work/log" -o "$options" -m fast -w -s restart
	postmaster=$(head -n 1 "$work/data/postmaster.pid")
}

stop_server() {
	must 'stopping the server' pg_ctl -D "$work/data" -m fast -w -s stop
}

# Seconds of processor time that the server and its processes have used,
# including those that have ended. A thousand sessions that do little need a
# finer measure than ticks: nanoseconds, if the kernel reports them.
server_cpu() {
	cat /proc/[0-9]*/stat 2>/dev/null |
		awk -v pid="$postmaster" -v before="$cpu_before" -v hertz="$(getconf CLK_TCK)" '{
			process = $1
			sub(/^.*\) /, "")
			if (process == pid)
				ticks += $14 + $15
			if (process == pid || $2 == pid) {
				if ((getline line <("/proc/" process "/schedstat")) > 0) {
					split(line, words, " ")
					ns += words[1]
				} else
					ticks += $12 + $13
				close("/proc/" process "/schedstat")
			}
		} END {printf "%.4f", before + ticks / hertz + ns / 1e9}'
}

wal_position() { sql postgres -c "SELECT pg_current_wal_insert_lsn() - '0/0'"; }

# ------------------------------------------------------------- the databases

# make_database SYSTEM DB TASKS
make_database() {
	sql postgres -c "CREATE DATABASE $2 OWNER bench STRATEGY file_copy" || die "$1: no database"
	must "$1: installing it" "$1_make" "$2"
	[ "$3" = 0 ] || must "$1: loading $3 tasks" "$1_fill" "$2" "$3"
	must "$1: vacuum" sql "$2" -c 'VACUUM ANALYZE'
}

# fresh SYSTEM TASKS: creates its database again, with that many tasks
fresh() {
	local system=$1 tasks=$2 kind=one template
	must "$system: dropping its database" sql postgres \
		-c "DROP DATABASE IF EXISTS b_$system WITH (FORCE)"
	if is "$system" template; then
		! have_function "${system}_kind" || kind=$("${system}_kind")
		template=t_${system}_${kind}_$tasks
		if [ -z "${loaded[$template]:-}" ]; then
			make_database "$system" "$template" "$tasks"
			loaded[$template]=$system
		fi
		must "$system: copying its database" sql postgres \
			-c "CREATE DATABASE b_$system OWNER bench TEMPLATE $template STRATEGY file_copy"
		! have_function "${system}_copied" ||
			must "$system: after copying" "${system}_copied" "b_$system"
	else
		make_database "$system" "b_$system" "$tasks"
	fi
	sql postgres -c CHECKPOINT
}

declare -A loaded=()	# the system of each template

# drop_templates [SYSTEM]: drops its templates, or all
# shellcheck disable=SC2120  # parts name one
drop_templates() {
	local template
	for template in "${!loaded[@]}"; do
		[ "${loaded[$template]}" = "${1:-${loaded[$template]}}" ] || continue
		sql postgres -c "DROP DATABASE $template WITH (FORCE)"
		unset "loaded[$template]"
	done
}

drop_databases() {
	local system
	drop_templates
	for system in $SYSTEMS; do
		sql postgres -c "DROP DATABASE IF EXISTS b_$system WITH (FORCE)"
	done 2>/dev/null
}

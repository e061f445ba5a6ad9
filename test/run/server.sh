# server.sh: one temporary server for each family that needs one.
#
# Its directory is TASKQ_TMP/NAME: data, the socket, the log. There is no
# network, so the port has no meaning.

# start_server NAME [SETTING...]: with the programs in BIN; sets SOCKETS
#
# Few sessions, which need much memory: in large pages, if the system gives them
# on request. On a virtual machine small ones may be most of what a test costs.
# (For a server that starts and ends many sessions they are a burden.)
start_server() {
	local dir=$TASKQ_TMP/$1
	SOCKETS=$dir
	mkdir -p "$dir"
	new_cluster "$dir/data"
	{
		cat "$TASKQ_SRC/test/run/server.conf"
		say "unix_socket_directories = '$dir'"
		say "cluster_name = 'taskq $1'"
		printf '%s\n' "${@:2}"
	} >>"$dir/data/postgresql.conf"
	if ! GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1} \
		"$BIN/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -s start \
		>"$dir/pg_ctl.log" 2>&1; then
		cat "$dir/pg_ctl.log" "$dir/server.log"
		die "the server of the family $1 does not start"
	fi
}

# make_template: a cluster to be copied; initdb runs once
make_template() {
	TEMPLATE=${TASKQ_BASE:-$TASKQ_TMP}/template
	[ ! -e "$TEMPLATE" ] || return 0
	"$BIN/initdb" -D "$TEMPLATE" --no-locale -E UTF8 -A trust -N \
		-U postgres >"$TASKQ_TMP/initdb.log" 2>&1 || {
		cat "$TASKQ_TMP/initdb.log"
		die "initdb failed"
	}
}

# new_cluster DATA
new_cluster() {
	make_template
	cp -R "$TEMPLATE" "$1"
	chmod 700 "$1"
}

stop_server() {
	"$BIN/pg_ctl" -D "$TASKQ_TMP/$1/data" -m fast -w -s stop ||
		die "the server of the family $1 does not stop"
}

# What no server may log, unless a test expects it
BAD_LOG='\] XX[0-9A-Z]{3} |PANIC:|TRAP:|was terminated by signal|was terminated by exception'

# scan_log LOG TEST...: prints the lines that should not be there; true if
# there are no such lines. A test names the lines that it expects in a line
# "expect-log: REGEX" of its own.
scan_log() {
	local log=$1 expected
	shift
	expected=$(grep -h 'expect-log: ' "$@" /dev/null 2>/dev/null |
		sed 's/.*expect-log: *//')
	grep -E "$BAD_LOG" "$log" | grep -vE "${expected:-^\$}" >"$log.bad"
	[ -s "$log.bad" ] || return 0
	say "--- ${log##*/}: lines that no test expects"
	cat "$log.bad"
	return 1
}

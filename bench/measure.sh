# shellcheck shell=bash
# measure.sh: rounds of pgbench, of all systems in turns.
#
# WHAT names a script of a system, and how many tasks one run of it takes:
#
#   submit               submit one task
#   submit100, ...1000   submit a hundred, a thousand tasks in one call
#   work, work50         claim and complete one task or fifty, in two transactions
#   again                complete a task and claim the next in one call
#   claim                claim only
#   empty                claim from an empty queue
#   cycle                submit, claim and complete: the backlog keeps its size
#   retry                the same, and every tenth task fails once

tasks_in() {
	case $1 in
		*1000) say 1000 ;;
		*100) say 100 ;;
		*50) say 50 ;;
		*) say 1 ;;
	esac
}

# script SYSTEM WHAT: sets script, the file; false if the system does not offer
# this
script() {
	local system=$1 what=$2
	script=$work/$system.$what.sql
	[ ! -e "$script" ] || return 0
	have_function "${system}_script" || return 1
	"${system}_script" "$what" >"$script.new" || return 1
	mv "$script.new" "$script"
}

# offering WHAT CLIENTS SYSTEM...: prints the systems that offer it, and notes
# the others
offering() {
	local what=$1 clients=$2 system
	shift 2
	for system in "$@"; do
		if ! script "$system" "$what"; then
			write without "$system" "$what"
		elif [ "$clients" -gt 1 ] && [[ $what == work* ]] && is "$system" single; then
			write without "$system" "$what by more than one client"
		else
			printf '%s ' "$system"
		fi
	done
}

# interleave ROUNDS "SYSTEM..." COMMAND...: COMMAND SYSTEM ROUND for each, the
# order reversed from round to round
interleave() {
	local round system order rounds=$1 systems=$2
	shift 2
	for round in $(seq "$rounds"); do
		order=$systems
		[ $((round % 2)) = 1 ] || order=$(reversed "$systems")
		for system in $order; do
			"$@" "$system" "$round"
		done
	done
}

reversed() {
	local word all=''
	for word in $1; do
		all="$word $all"
	done
	say "$all"
}

# definitions SYSTEM CLIENTS: sets the options that define a script's variables
definitions() {
	local name value
	defs=(-D "clients=$2" -D n=0 -D first=1 -D "payload=$PAYLOAD" -D "payloads=$PAYLOADS")
	[ -f "$work/$1.defs" ] || return 0
	while IFS=$'\t' read -r name value; do
		defs+=(-D "$name=$value")
	done <"$work/$1.defs"
}

# run_pgbench SYSTEM WHAT CLIENTS OPTION...: writes its output to
# $work/pgbench.out and .err; a client that gives up ends the run.  DATABASE
# replaces the database of the system.
run_pgbench() {
	local system=$1 what=$2 clients=$3 threads
	shift 3
	script "$system" "$what" || die "$system has no $what"
	definitions "$system" "$clients"
	threads=$(nproc)
	[ "$threads" -le "$clients" ] || threads=$clients
	pgbench -n -M prepared -f "$script" -c "$clients" -j "$threads" "${defs[@]}" \
		-U bench "$@" "${DATABASE:-b_$system}" >"$work/pgbench.out" 2>"$work/pgbench.err" &&
		! grep -qE 'aborted|ERROR|error:' "$work/pgbench.err" || {
		tail -n 5 "$work/pgbench.err" >&2
		die "$system: $what failed with $clients clients (if tasks ran out: LOADED)"
	}
	[ "$(processed)" -gt 0 ] || die "$system: $what did nothing"
}

processed() {
	local n
	n=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$work/pgbench.out")
	say "${n:-0}"
}

tps() { sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$work/pgbench.out"; }

# round_length [SECONDS]: the option of pgbench; default: SECONDS_EACH
# shellcheck disable=SC2120  # parts give one
round_length() {
	if [ -n "$TRANSACTIONS" ]; then
		say "-t $TRANSACTIONS"
	else
		say "-T ${1:-$SECONDS_EACH}"
	fi
}

# measure SCENARIO WHAT CLIENTS SYSTEM ROUND: a round with the existing tasks.
# LABEL replaces the system's name in the results.
measure() {
	local scenario=$1 what=$2 clients=$3 system=$4 round=$5 name=${LABEL:-$4}
	local cpu wal tasks per
	! have_function "${system}_begin" || "${system}_begin"
	wal=$(wal_position)
	cpu=$(server_cpu)
	# shellcheck disable=SC2046  # two words
	run_pgbench "$system" "$what" "$clients" $(round_length)
	cpu=$(awk "BEGIN {print $(server_cpu) - $cpu}")
	wal=$(($(wal_position) - wal))
	! have_function "${system}_end" || "${system}_end"
	per=$(tasks_in "$what")
	tasks=$(($(processed) * per))
	value "$scenario" "$name" "$round" 'tasks/s' "$(awk "BEGIN {printf \"%.1f\", $(tps) * $per}")"
	value "$scenario" "$name" "$round" 'CPU, µs/task' "$(awk "BEGIN {printf \"%.1f\", $cpu * 1e6 / $tasks}")"
	value "$scenario" "$name" "$round" 'WAL, B/task' "$(awk "BEGIN {printf \"%.0f\", $wal / $tasks}")"
	say "   $scenario: $name $(awk "BEGIN {printf \"%.0f\", $(tps) * $per}")/s"
}

# loaded_round SCENARIO WHAT CLIENTS TASKS SYSTEM ROUND: with a fresh queue
loaded_round() {
	fresh "$5" "$4"
	measure "$1" "$2" "$3" "$5" "$6"
}

# compare SCENARIO WHAT CLIENTS TASKS SYSTEM...: the rounds of one scenario
compare() {
	local scenario=$1 what=$2 clients=$3 tasks=$4
	shift 4
	interleave "$ROUNDS" "$(offering "$what" "$clients" "$@")" \
		loaded_round "$scenario" "$what" "$clients" "$tasks"
}

# --------------------------------------------------------------- checks

# check_system SYSTEM: each of 400 tasks is claimed and completed once, and all
# submitted tasks are in the queue
check_system() {
	local system=$1 what left
	for what in work work50; do
		script "$system" "$what" || continue
		fresh "$system" 400
		! have_function "${system}_begin" || "${system}_begin"
		check_work "$system" "$what"
		! have_function "${system}_end" || "${system}_end"
		left=$("${system}_left" "b_$system")
		[ "$left" = 0 ] || die "$system: $left of 400 tasks are left after $what"
	done
	for what in submit submit100 submit1000; do
		script "$system" "$what" || continue
		fresh "$system" 0
		run_pgbench "$system" "$what" 4 -t 2
		left=$("${system}_left" "b_$system")
		[ "$left" = $((8 * $(tasks_in "$what"))) ] ||
			die "$system: $left tasks after 8 times $what"
	done
}

# check_work SYSTEM WHAT: as many transactions as 400 tasks need; each must get
# its tasks
check_work() {
	local clients=4
	! is "$1" single || clients=1
	run_pgbench "$1" "$2" $clients -t $((400 / clients / $(tasks_in "$2")))
}

check_systems() {
	local system
	for system in $SYSTEMS; do
		! have_function "${system}_prepare" || "${system}_prepare"
		! have_function "${system}_script" || check_system "$system"
		say "$system works correctly"
	done
}

# ---------------------------------------------------------- for several parts

clients() { counted "$1" client; }
waiters() { counted "$1" waiter; }

counted() {
	if [ "$1" = 1 ]; then
		say "1 $2"
	else
		say "$1 $2s"
	fi
}

# median, 99th percentile and maximum of sorted lines
percentile_line() {
	awk '{v[NR] = $1} END {
		if (!NR) exit 1
		p = int(NR * 0.99 + 0.5)
		if (p < 1) p = 1
		printf "%.4f %.4f %.4f\n", v[int((NR + 1) / 2)], v[p], v[NR]
	}'
}

# until_true WHAT DATABASE SQL: polls the query for at most a minute
until_true() {
	local n
	for n in $(seq 1200); do
		[ "$(sql "$2" -c "$3")" != t ] || return 0
		sleep 0.05
	done
	die "not within a minute: $1 (polled $n times)"
}

# start_staying MODE KIND SYSTEM WORD...: connections that stay open; see
# client.c
start_staying() {
	local mode=$1 kind=$2 n=0
	shift 2
	: >"$work/staying"
	background "$work/client" "$mode" "$kind" "dbname=b_$1 user=bench" "${@:2}" >"$work/staying"
	staying=$child
	until grep -q ready "$work/staying"; do
		kill -0 "$staying" 2>/dev/null && [ $((n += 1)) -lt 2400 ] ||
			die "$mode $kind does not get ready"
		sleep 0.05
	done
}

# end_staying: closes them, and sets stayed, the number of tasks that they have
# completed
end_staying() {
	end_child "$staying" || die 'the waiting clients failed'
	stayed=$(tail -n 1 "$work/staying")
}

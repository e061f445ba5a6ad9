# demo/lib.sh: functions of the demos.
#
# A demo starts a private server, lets four workers compute size, type and
# SHA-256 of real files, kills one of them half way, and compares every result
# with sha256sum and stat.  The script that sources this file makes tasks of
# the files.
#
#   TASKQ_BIN   bin directory of a PostgreSQL installation that has taskq
#   TASKQ_TMP   where temporary files go (default: /tmp)
#   DIR         the folder (default: /usr/share/doc)
#
# Exit status: 0 all checks passed, 1 a check or the demo failed, 130
# interrupted.

set -u -o pipefail
unset CDPATH
unset "${!PG@}" MAKEFLAGS MAKELEVEL
export LC_ALL=C
umask 077

MAX_FILES=20000		# more would take longer than a demo should
SLOW_BELOW=4000		# with fewer files the workers rest before each task
QUEUE=files
WORKERS=(w1 w2 w3 w4)

home=$(cd -- "${BASH_SOURCE[0]%/*}/.." && pwd -P) || exit 1
dir=${DIR:-/usr/share/doc}
tmp=
declare -A pid=()	# of the workers that run

# ---------------------------------------------------------------- output

tty=false
bar_shown=false
columns=80
if [[ -t 1 ]]; then
	tty=true
	columns=$(stty size <&1 2>/dev/null | cut -d ' ' -f 2)
	((columns > 0)) || columns=80
fi

say() {
	if $bar_shown; then
		printf '\r\033[K'
		bar_shown=false
	fi
	printf '%s\n' "$*"
}

step() {
	say "==> $*"
}

# give up, with the last lines of all logs
die() {
	local log

	say "demo: $*" >&2
	if [[ -n $tmp ]]; then
		for log in "$tmp"/*.log; do
			[[ -s $log ]] || continue
			printf -- '--- last lines of %s\n' "${log##*/}" >&2
			tail -n 8 -- "$log" >&2
		done
	fi
	exit 1
}

# ---------------------------------------------------------------- cleanup

running_pid() {
	[[ -n ${pid[$1]:-} ]] && kill -0 "${pid[$1]}" 2>/dev/null
}

# shellcheck disable=SC2317  # called by trap
cleanup() {
	local status=$?
	local w

	trap '' INT TERM HUP
	trap - EXIT
	$bar_shown && printf '\n'
	for w in "${!pid[@]}"; do
		kill -KILL "${pid[$w]}" 2>/dev/null
		wait "${pid[$w]}" 2>/dev/null
	done
	if [[ -n $tmp ]]; then
		if [[ -f $tmp/data/postmaster.pid ]]; then
			"$TASKQ_BIN/pg_ctl" stop -D "$tmp/data" -m immediate -s \
				>/dev/null 2>&1
		fi
		rm -rf -- "$tmp"
	fi
	exit "$status"
}

# ---------------------------------------------------------------- database

# One psql for the whole run.  ask STATEMENT leaves its rows in $answer.
open_session() {
	coproc SESSION {
		cd -- "$tmp" && exec "$TASKQ_BIN/psql" -X -q -A -t -v ON_ERROR_STOP=1 \
			2>>"$tmp/psql.log"
	}
	# shellcheck disable=SC2034  # bash clears the array when psql ends
	session=("${SESSION[0]}" "${SESSION[1]}")
}

ask() {
	local line

	answer=
	printf '%s;\n\\echo =end=\n' "$1" >&"${session[1]}" ||
		die "the database does not answer"
	while IFS= read -r -t 60 line <&"${session[0]}"; do
		if [[ $line == =end= ]]; then
			answer=${answer%$'\n'}
			return
		fi
		answer+=$line$'\n'
	done
	die "this statement failed: $1"
}

# ask_file NAME STATEMENT: writes the sorted rows to a file, for many rows
ask_file() {
	ask "$2 \g $1.rows
"
	sort "$tmp/$1.rows" >"$tmp/$1"
}

# wait_until SECONDS WHAT STATEMENT: waits until the statement returns t
wait_until() {
	local until=$((SECONDS + $1))

	while ask "$3" && [[ $answer != t ]]; do
		((SECONDS < until)) || die "timed out after $1 s: $2"
		pause
	done
}

# a tenth of a second between two polls
pause() {
	sleep 0.1
}

# Converts NUL-separated records to lines of hexadecimal digits, which are safe
# to sort, to join and to give to COPY whatever the file names contain
to_hex() {
	od -An -v -tx1 -w1 |
		awk '$1 == "00" { print s; s = ""; next } { s = s $1 }'
}

# Converts hexadecimal digits back to text that can be printed on one line
show_hex() {
	# shellcheck disable=SC2001  # no substitution of bash repeats what it found
	printf '%b' "$(sed 's/../\\x&/g' <<<"$1")" | tr '\n' '?' | cat -v
}

# ---------------------------------------------------------------- the steps

# Makes the directory of the demo, which is removed at the end
make_place() {
	[[ -n ${TASKQ_BIN:-} && -x ${TASKQ_BIN:-}/initdb ]] ||
		die "TASKQ_BIN must name the bin directory of a PostgreSQL with taskq"
	((EUID != 0)) || die "PostgreSQL does not run as root; use \"make demo\""

	TASKQ_BIN=$(cd -- "$TASKQ_BIN" && pwd -P) || exit 1
	tmp=$(mktemp -d -- "${TASKQ_TMP:-/tmp}/demo.XXXXXX") ||
		die "cannot write to ${TASKQ_TMP:-/tmp}"
	tmp=$(cd -- "$tmp" && pwd -P) || exit 1
	outer=${TASKQ_TMP:+${tmp%/*}}
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	# a socket's address has room for some 100 bytes
	((${#tmp} < 85)) || die "the name of TASKQ_TMP is too long for a socket"
}

prepare() {
	[[ -d $dir ]] || die "there is no directory \"$dir\" (DIR=...)"
	make_place
	# no command substitution: the name may end in a newline
	cd -- "$dir" 2>/dev/null || die "cannot enter directory \"$dir\" (DIR=...)"
	dir=$PWD

	make -s -C "$home/examples/file_worker" OUT="$tmp" >"$tmp/build.log" 2>&1 ||
		die "could not build examples/file_worker"
}

find_files() {
	# exclude the files of this run
	find "$dir" -samefile "${outer:-$tmp}" ! -samefile "$dir" -prune -o \
		-samefile "$tmp" -prune -o -type f -print0 2>"$tmp/find.log" |
		head -z -n $((MAX_FILES + 1)) >"$tmp/list"
	head -z -n "$MAX_FILES" "$tmp/list" | to_hex >"$tmp/list.hex"
	total=$(wc -l <"$tmp/list.hex")
	((total > 0)) || die "there are no files below \"$dir\" (DIR=...)"
	step "$(some "$total" file) below $dir"
	if (($(tr -dc '\0' <"$tmp/list" | wc -c) > MAX_FILES)); then
		say "    there are more; the demo takes the first $MAX_FILES"
		head -z -n "$MAX_FILES" "$tmp/list" >"$tmp/list.cut"
		mv "$tmp/list.cut" "$tmp/list"
	fi
	if [[ -s $tmp/find.log ]]; then
		say "    $(some "$(wc -l <"$tmp/find.log")" folder) could not be read"
	fi
}

start_server() {
	step "starting a private server"
	"$TASKQ_BIN/initdb" -D "$tmp/data" -U demo -A trust -E UTF8 --no-locale \
		--no-sync >"$tmp/initdb.log" 2>&1 || die "initdb failed"
	rm -f "$tmp/initdb.log"
	cat >>"$tmp/data/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '${tmp//\'/\'\'}'
		shared_preload_libraries = '${PRELOAD:-taskq}'
		${SETTINGS:-}
		taskq.stale_threshold = '1s'
		taskq.dead_threshold = '2s'
		taskq.reaper_interval = '1s'
	END
	"$TASKQ_BIN/pg_ctl" start -D "$tmp/data" -l "$tmp/server.log" -w -s \
		>"$tmp/pg_ctl.log" 2>&1 || die "the server did not start"
	export PGHOST=$tmp PGPORT=5432 PGUSER=demo PGDATABASE=postgres
	export PGCLIENTENCODING=UTF8
	open_session
	ask "CREATE EXTENSION taskq"
	ask "SELECT taskq_create_queue('$QUEUE', '{\"max_attempts\": 5}')"
}

# A name that is not valid UTF-8 cannot be in JSON: it is sent as base64.
make_tables() {
	ask "CREATE SCHEMA demo;
		CREATE TABLE demo.file (n int GENERATED ALWAYS AS IDENTITY,
			path bytea NOT NULL);
		CREATE FUNCTION demo.payload(path bytea) RETURNS jsonb
		LANGUAGE plpgsql IMMUTABLE AS \$\$
		BEGIN
			RETURN jsonb_build_object('path', convert_from(path, 'UTF8'));
		EXCEPTION WHEN character_not_in_repertoire THEN
			RETURN jsonb_build_object('path_base64',
				translate(encode(path, 'base64'), E'\\n', ''));
		END \$\$;
		CREATE FUNCTION demo.path_hex(payload jsonb) RETURNS text
		LANGUAGE sql IMMUTABLE AS \$\$
			SELECT encode(coalesce(convert_to(payload->>'path', 'UTF8'),
				decode(payload->>'path_base64', 'base64')), 'hex')
		\$\$"
}

# the files as rows
store_files() {
	# the empty line ends the meta-command before the semicolon of ask
	sed 's/^/\\\\x/' "$tmp/list.hex" >"$tmp/list.copy"
	ask "\\copy demo.file (path) FROM 'list.copy'
"
	ask "CREATE UNIQUE INDEX ON demo.file (n)"
}

# some NUMBER THING: "1 task", "2 tasks"
some() {
	printf '%d %s' "$1" "$2"
	(($1 == 1)) || printf 's'
}

since() {
	local us=$((${EPOCHREALTIME/./} - ${1/./}))

	printf '%d.%02d' $((us / 1000000)) $((us % 1000000 / 10000))
}

start_workers() {
	local w rest=0

	if ((total < SLOW_BELOW)); then
		rest=$((3000 * ${#WORKERS[@]} / total))
		((rest <= 600)) || rest=600
		((rest >= 3)) || rest=3
	fi
	step "starting ${#WORKERS[@]} workers: ${WORKERS[*]}"
	((rest == 0)) ||
		say "    few files: each rests $rest ms before a task (-p $rest)"
	started=$EPOCHREALTIME
	for w in "${WORKERS[@]}"; do
		"$tmp/file_worker" -p "$rest" "$QUEUE" "$w" >"$tmp/$w.log" 2>&1 &
		pid[$w]=$!
	done
}

# ------------------------------------------------------- kill and requeue

# Kill a worker that holds tasks.  It is stopped first and checked, so that it
# cannot finish its tasks; false if it turns out to hold no tasks.
kill_worker() {
	ask "SELECT worker FROM taskq.tasks
		WHERE queue = '$QUEUE' AND state = 'running'
		GROUP BY worker ORDER BY count(*) DESC, worker <> 'w2' LIMIT 1"
	victim=$answer
	[[ -n $victim ]] && running_pid "$victim" || return 1

	local backend="FROM pg_stat_activity
		WHERE application_name = 'file_worker $victim'"
	local holds="FROM taskq.tasks WHERE queue = '$QUEUE'
		AND state = 'running' AND worker = '$victim'"

	kill -STOP "${pid[$victim]}"
	wait_until 10 "the statement of $victim to end" \
		"SELECT NOT EXISTS (SELECT $backend AND state <> 'idle')"
	ask "SELECT count(*) $holds"
	if ((answer == 0)); then
		kill -CONT "${pid[$victim]}"
		return 1
	fi
	kill -KILL "${pid[$victim]}"
	wait "${pid[$victim]}" 2>/dev/null
	unset "pid[$victim]"
	killed=$EPOCHREALTIME
	wait_until 10 "the connection of $victim to end" \
		"SELECT NOT EXISTS (SELECT $backend)"
	ask "SELECT task_id $holds"
	mapfile -t held <<<"$answer"
	say "    worker $victim killed while holding $(some ${#held[@]} task)"
}

# Prints two lines, each as soon as it is true.
watch_requeue() {
	[[ $stage == requeued ]] ||
		((${EPOCHREALTIME/./} - ${killed/./} < 30000000)) ||
		die "no requeue was seen 30 s after $victim was killed"
	if [[ $stage == killed ]]; then
		ask "SELECT NOT EXISTS (SELECT FROM taskq.workers
			WHERE worker = '$victim' AND state <> 'dead')"
		[[ $answer == t ]] || return
		say "    worker $victim declared dead after $(since "$killed") s"
		stage=dead
	fi
	if [[ $stage == dead ]]; then
		ask "SELECT count(*) FROM taskq.tasks WHERE task_id IN ($(held_ids))
			AND state = 'running' AND worker = '$victim'"
		((answer == 0)) || return
		say "    $(some ${#held[@]} task) back in the queue"
		stage=requeued
	fi
}

held_ids() {
	local IFS=,

	printf '%s' "${held[*]}"
}

# ---------------------------------------------------------------- progress

progress() {
	local rate percent width bar='' us=$((${EPOCHREALTIME/./} - ${started/./}))

	percent=$((100 * finished / total))
	if ! $tty && ((percent < next_percent)); then
		return
	fi
	next_percent=$((percent / 10 * 10 + 10))
	rate=$((finished * 1000000 / (us + 1)))
	ask "SELECT coalesce(sum(CASE WHEN state = 'pending' THEN attempt
			ELSE attempt - 1 END), 0)
		FROM taskq.tasks WHERE queue = '$QUEUE'"
	local text="$finished/$total done, $running running, $pending pending,"
	text+=" $answer requeued, $rate tasks/s"
	if $tty; then
		printf -v text '%*d/%d done %2d running %*d pending %2d requeued %5d/s' \
			${#total} "$finished" "$total" "$running" \
			${#total} "$pending" "$answer" "$rate"
		# only a text that fits on one line can be overwritten
		width=$((columns - ${#text} - 9))
		((width <= 20)) || width=20
		if ((width > 4)); then
			printf -v bar '%*s' $((percent * width / 100)) ''
			printf -v bar '[%-*s] ' "$width" "${bar// /#}"
		fi
		printf -v bar '%s%3d%% %s' "$bar" "$percent" "$text"
		printf '\r%s\033[K' "${bar:0:columns-1}"
		bar_shown=true
	else
		say "$(printf '    %3d%% %s' "$percent" "$text")"
	fi
}

work() {
	local w moved=$SECONDS before=-1

	stage=start
	next_percent=0
	while true; do
		ask "SELECT pending + coalesce(blocked, 0) + coalesce(suspended, 0), running
			FROM taskq.queues WHERE queue = '$QUEUE'"
		pending=${answer%|*}
		running=${answer#*|}
		finished=$((total - pending - running))
		progress
		if [[ $stage == start ]] && ((2 * finished >= total - 1)) &&
			kill_worker; then
			stage=killed
		fi
		[[ $stage == start ]] || watch_requeue
		((pending + running > 0)) || break

		for w in "${!pid[@]}"; do
			running_pid "$w" || die "worker $w ended by itself"
		done
		if ((finished != before)); then
			before=$finished
			moved=$SECONDS
		fi
		# a big file may take long, waiting tasks may not
		((SECONDS - moved < (running > 0 ? 600 : 30))) ||
			die "nothing has moved for $((SECONDS - moved)) s"
		pause
	done
	$bar_shown && printf '\n'
	bar_shown=false
	[[ $stage == requeued ]] ||
		die "all tasks are finished, but no requeue was seen"
}

stop_workers() {
	local w

	for w in "${!pid[@]}"; do
		kill -TERM "${pid[$w]}"
	done
	for w in "${!pid[@]}"; do
		wait "${pid[$w]}" || complain "worker $w did not exit with 0"
		unset "pid[$w]"
	done
}

# ---------------------------------------------------------------- checks

problems=0

complain() {
	say "    WRONG: $*"
	problems=$((problems + 1))
}

# complain_about WORDS: for each name (in hexadecimal) on standard input
complain_about() {
	local name count=0

	while read -r name; do
		count=$((count + 1))
		((count > 5)) || complain "$1: $(show_hex "$name")"
	done
	((count <= 5)) || complain "$1: $((count - 5)) more"
}

# Writes the output of the system's tools: lines of name, SHA-256, size
expected_results() {
	xargs -0 sha256sum -z -- <"$tmp/list" 2>"$tmp/sha256sum.log" | to_hex |
		awk '{ print substr($0, 133), substr($0, 1, 128) }' |
		sort >"$tmp/expected.sha"
	xargs -0 stat --printf '%020s %n\0' -- <"$tmp/list" 2>"$tmp/stat.log" |
		to_hex | awk '{ print substr($0, 43), substr($0, 1, 40) }' |
		sort >"$tmp/expected.size"
	join "$tmp/expected.sha" "$tmp/expected.size" >"$tmp/expected"
	cut -d ' ' -f 1 "$tmp/expected" >"$tmp/readable"
	sort "$tmp/list.hex" | comm -23 - "$tmp/readable" >"$tmp/unreadable"
}

# Writes the results of the tasks in the same form
actual_results() {
	local of="FROM taskq.tasks WHERE queue = '$QUEUE'"

	ask_file tasks "SELECT demo.path_hex(payload) $of"
	ask_file actual "SELECT demo.path_hex(payload) || ' ' ||
			encode(convert_to(result->>'sha256', 'UTF8'), 'hex') || ' ' ||
			encode(convert_to(lpad(result->>'size', 20, '0'), 'UTF8'), 'hex')
		$of AND state = 'done'"
	ask_file dead "SELECT demo.path_hex(payload) $of AND state = 'dead'"
}

# Checks that every file has one task, with the same result as the system's
# tools; sets verified and failed
check_results() {
	step "checking every result against sha256sum and stat"
	expected_results
	actual_results
	sort "$tmp/list.hex" >"$tmp/list.sorted"

	# one task for each file and no other
	complain_about "no task, or more than one" \
		< <(comm -3 "$tmp/list.sorted" "$tmp/tasks" | tr -d '\t' | sort -u)
	# each readable file has this result, and the task of each other file is dead
	complain_about "another result" \
		< <(comm -3 "$tmp/expected" "$tmp/actual" | tr -d '\t' |
			cut -d ' ' -f 1 | sort -u)
	complain_about "dead though readable, or the reverse" \
		< <(comm -3 "$tmp/unreadable" "$tmp/dead" | tr -d '\t')
	verified=$(comm -12 "$tmp/expected" "$tmp/actual" | wc -l)
	failed=$(wc -l <"$tmp/dead")
	((verified + failed == total)) ||
		complain "$verified results checked, $failed failed, of $total files"
}

# Checks that no task was finished twice, and that other workers did the tasks
# of the killed worker
check_tasks() {
	local task finishers

	# no task was finished twice, by the logs of the workers
	while read -r task; do
		complain "task $task was finished more than once"
	done < <(awk '$2 == "done" || $2 == "failed" { print $3 }' \
		"$tmp"/w?.log | sort | uniq -d)

	# the tasks of the killed worker were done by others, in a further attempt
	ask "SELECT task_id FROM taskq.tasks WHERE task_id IN ($(held_ids))
		AND (state NOT IN ('done', 'dead') OR attempt < 2)"
	[[ -z $answer ]] ||
		complain "held by $victim, but not requeued: ${answer//$'\n'/ }"
	finishers=$(printf '%s\n' "${held[@]}" |
		awk 'NR == FNR { held[$1]; next }
			$3 in held && ($2 == "done" || $2 == "failed") { print $1 }' \
			- "$tmp"/w?.log | sort -u | paste -s -d ' ')
	if [[ -z $finishers || " $finishers " == *" $victim "* ]]; then
		complain "the tasks of $victim were finished by: ${finishers:-no worker}"
	fi
	say "    what $victim held ($(some ${#held[@]} task)) was finished by" \
		"${finishers// /, }"

	ask "SELECT problem, detail FROM taskq_check()"
	[[ -z $answer ]] || complain "taskq_check: $answer"
}

say_failed() {
	if ((failed > 0)); then
		say "    $(some "$failed" file) could not be read, the tasks are dead:"
		ask "SELECT demo.path_hex(payload), error FROM taskq.tasks
			WHERE queue = '$QUEUE' AND state = 'dead'
			ORDER BY task_id LIMIT 5"
		while IFS='|' read -r name error; do
			say "      $(show_hex "$name"): $error"
		done <<<"$answer"
	fi
}

# the last lines, and the exit status
finish() {
	if ((problems > 0)); then
		step "$(some "$problems" problem), see WRONG above"
		exit 1
	fi
	step "all is well"
}

#!/bin/sh
# A complete taskq worker in shell, with psql.
#	worker.sh QUEUE WORKER		the server: PGHOST, PGPORT, PGDATABASE, PGUSER
# A task's payload is {"n": 17}; its square is written into done_work.  "ms"
# makes it take that long, "fail" makes it fail.  Each call is a psql of its own.
set -u
queue=$1 worker=$2 stop='' task='' error=error
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'stop=1' TERM
register="SELECT taskq_register(:'worker', ARRAY[:'queue'], keep => :'task' <> '',
	incarnation => :incarnation)"
incarnation=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ')

# sql TEXT [-v NAME=VALUE ...]: run it, in one transaction if there are BEGIN and
# COMMIT; the text has the values as :'NAME', which quotes them.  The answer
# is in $answer, columns between blanks.  False: the error's SQLSTATE is in $code.
sql() {
	text=$1
	shift
	answer=$(printf '%s\n' "$text" | psql -X -q -At -F ' ' -v ON_ERROR_STOP=1 \
		-v VERBOSITY=sqlstate -v worker="$worker" -v queue="$queue" -v task="$task" \
		-v incarnation="$incarnation" "$@" 2>"$tmp/$error")
	case $? in
		0) code=; return 0 ;;
		3) code=$(sed -n 's/.*ERROR:  *//p' "$tmp/$error") ;;
		*) code=lost ;;		# psql could not connect, or not to the end
	esac
	cat "$tmp/$error" >&2
	return 1
}

# again TEXT ...: repeat sql until the answer is known.  If a claim's answer was lost
# with the connection, registering again without a task requeues the claimed task.
again() {
	until sql "$@"; do
		case $code in
			40001 | 40P01) ;;	# a conflict: the same once more
			lost)
				sleep 0.2
				while last=$stop; [ -z "$task" ] && ! sql "$register"; do
					[ -z "$last" ] || exit 1
					sleep 0.2
				done
				;;
			*) return 1 ;;
		esac
	done
}

# In the background: heartbeats, however long a task takes, until our shell ends.
heartbeats() {
	pause=0.1 error=beat_error task='whatever it is'
	while sleep "$pause" && kill -0 $$ 2>/dev/null; do
		if sql "SELECT extract(epoch FROM next_in), drain, array_to_string(cancel, ' ')
			FROM taskq_heartbeat(:'worker', :incarnation)"; then
			# shellcheck disable=SC2086	# words without wildcards
			set -- $answer
			pause=$1
			[ "$2" = f ] || kill -TERM $$	# an operator drains us
			shift 2
			for id in "$@"; do
				[ ! -e "$tmp/task.$id" ] || kill "$(cat "$tmp/task.$id")"
			done
		else
			pause=0.2
			# no heartbeat for too long, but we have not ended since
			[ "$code" != TQ007 ] || ! kill -0 $$ 2>/dev/null || sql "$register" ||
				[ "$code" != TQ007 ] || kill -TERM $$	# another has our name
		fi
	done
}

# The work itself: a program, whose process a heartbeat may end
compute() {
	[ "$3" != true ] || { echo 'told to fail'; return 1; }
	[ "$1" != none ] || { echo 'n is no number'; return 2; }
	# shellcheck disable=SC2016
	sh -c 'echo $$ >"$0"; exec "$@"' "$tmp/task.$task" \
		sleep "$(printf '%d.%03d' $(($2 / 1000)) $(($2 % 1000)))" || return
	echo $(($1 * $1))
}

# do_task ID TOKEN N MS FAIL
do_task() {
	task=$1
	words=$(compute "$3" "$4" "$5")
	status=$? code=
	rm -f "$tmp/task.$task"
	# complete first, so that a worker that lost the task writes nothing
	if [ $status != 0 ] || ! again "BEGIN;
		SELECT taskq_complete(:'task', :'token',
			jsonb_build_object('square', :'square'::numeric));
		INSERT INTO done_work VALUES (:'task', :'n', :'square', :'worker');
		COMMIT" -v token="$2" -v n="$3" -v square="$words"; then
		again "SELECT taskq_fail(:'task', :'token', :'words',
			retryable => :status <> 2)" -v token="$2" -v status=$status \
			-v words="${words:-ended} (status $status${code:+, SQLSTATE $code})"
	fi	# TQ001 from either: it is no longer ours
	task=''
}

again "$register" || exit 1
heartbeats &
beating=$!
while [ -z "$stop" ]; do
	if again "SELECT task_id, token,
		coalesce(substring(payload->>'n' FROM '^[0-9]{1,9}$'), 'none'),
		coalesce(substring(payload->>'ms' FROM '^[0-9]{1,9}$'), '0'), payload->>'fail'
		FROM taskq_claim(:'queue', :'worker', incarnation => :incarnation)" &&
		[ -n "$answer" ]; then
		# shellcheck disable=SC2086	# words without blanks and wildcards
		do_task $answer ''
	else
		sleep 0.3
	fi
done
kill $beating && wait $beating
again "SELECT taskq_deregister(:'worker', :incarnation)"

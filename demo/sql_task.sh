#!/bin/bash
#
# demo/sql_task.sh: money that SQL tasks move between two accounts is moved
# exactly once, although the process that moves it is killed half way.
#
# It talks to a running server with taskq, as a superuser on the server's
# machine, by the usual PG* variables, and makes a database of its own, which
# it drops at the end.  Killing a backend restarts the server's processes: do
# not use a server that others need.
#
#   TASKQ_BIN   bin directory with psql (default: found by PATH)
#
# Exit status: 0 all checks passed, 1 otherwise.

set -u -o pipefail
export LC_ALL=C

PAYMENTS=200
psql=${TASKQ_BIN:+$TASKQ_BIN/}psql
database=taskq_demo_sql_$$

step() {
	printf '==> %s\n' "$*"
}

die() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}

# ask DATABASE STATEMENT: prints its rows
ask() {
	"$psql" -X -q -A -t -v ON_ERROR_STOP=1 -d "$1" -c "$2"
}

# shellcheck disable=SC2317  # called by trap
cleanup() {
	local status=$?

	trap - EXIT
	ask postgres "DROP DATABASE IF EXISTS $database WITH (FORCE)" 2>/dev/null
	exit "$status"
}

# wait_until SECONDS WHAT STATEMENT: waits until the statement returns t
wait_until() {
	local until=$((SECONDS + $1))

	while [[ $(ask "$database" "$3" 2>/dev/null) != t ]]; do
		((SECONDS < until)) || die "timed out after $1 s: $2"
		sleep 0.1
	done
}

trap cleanup EXIT
trap 'exit 130' INT TERM HUP

ask postgres "CREATE DATABASE $database" || die "cannot make a database"
ask "$database" "
	CREATE EXTENSION taskq;
	CREATE TABLE account (name text PRIMARY KEY, amount integer);
	INSERT INTO account VALUES ('ann', 1000), ('ben', 0);
	CREATE FUNCTION pay(price integer) RETURNS void LANGUAGE plpgsql AS \$\$
	BEGIN
		UPDATE account SET amount = amount - price WHERE name = 'ann';
		PERFORM pg_sleep(0.02); -- half way
		UPDATE account SET amount = amount + price WHERE name = 'ben';
	END \$\$" || die "cannot make the accounts"
ask "$database" "SELECT taskq_create_queue('payments',
	'{\"executor\": {\"workers\": 1}, \"max_attempts\": 5}')" >/dev/null ||
	die "cannot make the queue"
step "$PAYMENTS payments of 3 from ann to ben, each one a SQL task"
ask "$database" "SELECT count(*) FROM taskq_submit_many('payments',
	array_fill('{\"call\": \"pay\", \"args\": [3]}'::jsonb, ARRAY[$PAYMENTS]))" \
	>/dev/null || die "cannot submit"

wait_until 30 "a third of the payments" "SELECT amount >= $PAYMENTS FROM account WHERE name = 'ben'"
ask "$database" "SELECT name, amount FROM account ORDER BY name"
executor=$(ask "$database" "SELECT pid FROM pg_stat_activity
	WHERE backend_type = 'taskq executor' AND datname = '$database'")
[[ -n $executor ]] || die "there is no executor"
step "killing the executor, process $executor, while it pays"
kill -KILL "$executor" || die "cannot kill it"

wait_until 60 "the rest of the payments" "SELECT count(*) = 0 FROM taskq.tasks WHERE state IN ('pending', 'running')"
step "the server has started again, and the tasks have gone through"
ask "$database" "SELECT name, amount FROM account ORDER BY name"
ask "$database" "SELECT state, max(attempt) || ' attempts at most', count(*) FROM taskq.tasks GROUP BY state"
[[ $(ask "$database" "SELECT string_agg(amount::text, ' ' ORDER BY name) FROM account") == "400 600" ]] ||
	die "the accounts are wrong"
[[ $(ask "$database" "SELECT bool_and(state = 'done') AND max(attempt) = 2 FROM taskq.tasks") == t ]] ||
	die "the tasks are wrong"
[[ -z $(ask "$database" "SELECT problem FROM taskq_check()") ]] ||
	die "taskq_check() has found something"
step "each payment was made exactly once"

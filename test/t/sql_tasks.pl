# SQL tasks: executors run them exactly once, as their role and as nothing else,
# through errors, cancels, time limits, crashes of the process and of the server,
# stops, dropped roles, dropped queues, and copies of a database.
# expect-log: terminated by signal 9
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $LONG = 60;    # seconds: far more than anything takes
my $node = start_node('sql_tasks',
	'restart_after_crash' => 'on',
	'taskq.max_executors' => 3,
	'taskq.executor_idle_time' => 600,
	'max_worker_processes' => 8);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $crashes = 0;

# submit(ROLE, PAYLOAD, MORE): the id of a SQL task in queue s
sub submit
{
	my ($role, $payload, $more) = @_;
	my $rest = $more ? ", $more" : '';

	return $sql->("SET SESSION AUTHORIZATION $role; SELECT taskq_submit('s', \$p\$$payload\$p\$$rest)");
}

sub state_of { return $sql->("SELECT concat_ws(' ', state, reason) FROM taskq.tasks WHERE task_id = $_[0]"); }
sub error_text { return $sql->("SELECT error FROM taskq.tasks WHERE task_id = $_[0]"); }
sub detail { return $sql->("SELECT errors -> -1 -> 'detail' ->> '$_[1]' FROM taskq.tasks WHERE task_id = $_[0]"); }
sub value { return $sql->("SELECT result -> 'rows' -> 0 ->> '$_[1]' FROM taskq.tasks WHERE task_id = $_[0]"); }

sub ends
{
	my ($id, $state, $name) = @_;

	within($LONG, sub { $sql->("SELECT state IN ('done', 'dead', 'cancelled', 'suspended') FROM taskq.tasks WHERE task_id = $id") eq 't' });
	is(state_of($id), $state, $name) or diag("error: " . error_text($id) . "; context: " . detail($id, 'context'));
	return;
}

sub executors
{
	my ($role) = @_;
	my $of = $role ? " AND usename = '$role'" : '';

	return $sql->("SELECT coalesce(string_agg(pid::text, ' ' ORDER BY pid), '') FROM pg_stat_activity WHERE backend_type = 'taskq executor'$of");
}

# running(ID): the task runs, and its statement is active
sub running
{
	my ($id) = @_;
	return within($LONG, sub { state_of($id) eq 'running' && $sql->("SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND query ~ 'lasting|stubborn'") eq 't' });
}

$sql->(<<'SQL');
CREATE ROLE ann LOGIN;
CREATE ROLE ben LOGIN;
CREATE ROLE mallory LOGIN;
CREATE TABLE effect (n int);
CREATE TABLE account (name text PRIMARY KEY, amount int);
INSERT INTO account VALUES ('a', 1000), ('b', 0);
GRANT ALL ON effect, account TO ann, ben;
CREATE FUNCTION lasting(seconds float) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO effect VALUES (1);
	WHILE clock_timestamp() < now() + seconds * interval '1 s' LOOP
		PERFORM pg_sleep(0.02);
	END LOOP;
	RETURN 1;
END $$;
CREATE FUNCTION stubborn() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	LOOP
		BEGIN PERFORM pg_sleep(0.02); EXCEPTION WHEN query_canceled THEN NULL; END;
	END LOOP;
END $$;
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO effect VALUES (7); COMMIT; END $$;
SELECT taskq_create_queue('s', '{"executor": {"workers": 2}, "retry": "fixed", "retry_base": "0 s", "max_attempts": 1}');
SELECT taskq_grant('s', 'ann', '{submit}'), taskq_grant('s', 'ben', '{submit}'), taskq_grant('s', 'mallory', '{submit,work,manage,read}');
SQL

# --- each role runs as itself
my %of = map { $_ => submit($_, '{"sql": "SELECT current_user AS c, session_user AS s, $1 + 1 AS n", "args": [41]}') } qw(ann ben);
for my $role (sort keys %of)
{
	ends($of{$role}, 'done', "a task of $role ends");
	is(join(' ', map { value($of{$role}, $_) } qw(c s n)), "$role $role 42", '... and ran as that role');
}
is($sql->("SELECT result FROM taskq.tasks WHERE task_id = $of{ann}"),
	'{"rows": [{"c": "ann", "n": 42, "s": "ann"}], "command": "SELECT 1"}', 'the result has command and rows');
my $moved = submit('ann', '{"sql": "UPDATE account SET amount = amount + CASE name WHEN \'a\' THEN -$1::int ELSE $1 END", "args": [10]}');
ends($moved, 'done', 'an UPDATE ends');
is($sql->("SELECT result ->> 'command' FROM taskq.tasks WHERE task_id = $moved"), 'UPDATE 2', '... and says how many rows');
my $same = submit('ann', '{"sql": "INSERT INTO effect VALUES (5)"}');
ends($same, 'done', 'an INSERT ends');
is($sql->("SELECT e.xmin = a.xmin FROM effect e, taskq.archive a WHERE e.n = 5 AND a.task_id = $same"), 't',
	'... and its row is of the transaction that completed the task');
$sql->('DELETE FROM effect');
my $call = submit('ann', '{"call": "pg_catalog.upper", "args": ["x"]}');
ends($call, 'done', 'a call ends');
is(value($call, 'upper'), 'X', '... with the value of the function');

# --- nothing outlives a task, and no setting gains anything
for my $attempt ('SET ROLE postgres', 'SET SESSION AUTHORIZATION postgres', 'SET ROLE ben')
{
	my $id = submit('ann', qq({"sql": "$attempt"}));
	ends($id, 'dead exhausted', "$attempt fails");
	is(detail($id, 'sqlstate'), '42501', '... with 42501');
}
for my $attempt ('RESET ROLE', 'RESET SESSION AUTHORIZATION', 'SET SESSION AUTHORIZATION DEFAULT', 'RESET ALL',
	'SET search_path = pg_temp, public', 'SET default_transaction_read_only = on', 'SET statement_timeout = 1',
	'SET synchronous_commit = off', 'SELECT pg_advisory_lock(17)', 'SELECT set_config(\'my.own\', \'left\', false)')
{
	ends(submit('ann', qq({"sql": "$attempt"})), 'done', "$attempt runs");
	my $look = submit('ann', '{"sql": "SELECT concat_ws($$|$$, current_user, session_user, current_setting($$search_path$$), current_setting($$default_transaction_read_only$$), current_setting($$statement_timeout$$), current_setting($$synchronous_commit$$), (SELECT count(*) FROM pg_locks WHERE locktype = $$advisory$$ AND pid = pg_backend_pid()), current_setting($$my.own$$, true) = $$left$$) AS v"}');
	ends($look, 'done', '... and the next task looks');
	like(value($look, 'v'), qr/^ann\|ann\|"\$user", public\|off\|0\|on\|0(\|f)?$/, '... and finds nothing of it');
}
ends(submit('ann', '{"sql": "CREATE TEMP TABLE left_over AS SELECT 1 AS x"}'), 'done', 'a task makes a temporary table');
my $gone = submit('ann', '{"sql": "SELECT to_regclass($$left_over$$) IS NULL AS v"}');
ends($gone, 'done', 'the next task looks for it');
is(value($gone, 'v'), 'true', '... and does not find it');
# the same at commit, when the next task has been claimed
$sql->(<<'SQL');
SELECT taskq_create_queue('one', '{"executor": {"workers": 1}, "max_attempts": 1}'), taskq_grant('one', 'ann', '{submit}');
CREATE ROLE anns; GRANT anns TO ann;
CREATE TABLE late (x integer); GRANT INSERT ON late TO ann;
CREATE FUNCTION leave_late() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE left_late AS SELECT 1 AS x;
    PERFORM set_config('role', 'anns', false);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER leave_late AFTER INSERT ON late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION leave_late();
SQL
my ($late, $after) = split /\n/, $sql->(<<'SQL');
SET SESSION AUTHORIZATION ann;
SELECT taskq_submit_many('one', array['{"sql": "INSERT INTO late SELECT 1 FROM pg_advisory_lock(18)"}',
    '{"sql": "SELECT concat_ws($$|$$, current_user, to_regclass($$left_late$$) IS NULL) AS v"}']::jsonb[]);
SQL
ends($late, 'done', 'a deferred trigger changes the user and makes a temporary table');
ends($after, 'done', 'the task that is claimed with it looks');
is(value($after, 'v'), 'ann|t', '... and finds neither');
ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") eq '0' }), 'no lock of a task is held when the queue is empty');
is(submit('ann', '{"sql": "SET LOCAL transaction_read_only = on"}') > 0 ? 1 : 0, 1, 'a task makes its transaction read only');
ends($sql->('SELECT max(task_id) FROM taskq.tasks'), 'done', '... and is completed');

# --- the role whose right to manage is the only one
my $victim = submit('ann', '{"sql": "SELECT current_user AS c"}', 'suspended => true');
$sql->("SET SESSION AUTHORIZATION mallory; SELECT taskq_update_task($victim, '{\"payload\": {\"sql\": \"SELECT current_user AS c\"}}'); SELECT taskq_retry($victim)");
ends($victim, 'done', 'a role changes the SQL of another');
is(value($victim, 'c'), 'mallory', '... and it runs as the role that changed it');
$victim = submit('ann', '{"sql": "SELECT current_user AS c"}', "suspended => true, reference => 'r'");
is(error_of($node, q{SET SESSION AUTHORIZATION mallory; SELECT taskq_submit('s', '{"sql": "SELECT 2"}', reference => 'r', on_conflict => 'merge');}),
	'42501', 'a merge into the task of another role is refused');
$sql->("SET SESSION AUTHORIZATION mallory; SELECT count(*) FROM taskq_manage_many('recreate', '{$victim}')");
my $again = $sql->("SELECT recreated_as FROM taskq.tasks WHERE task_id = $victim");
is($sql->("SELECT run_as, submitted_by FROM taskq.tasks WHERE task_id = $again"), 'ann|mallory', 'recreated in bulk, a task runs as before');
my $single = submit('ann', '{"sql": "SELECT current_user AS c"}', 'suspended => true');
$single = $sql->("SET SESSION AUTHORIZATION mallory; SELECT taskq_recreate($single)");
is($sql->("SELECT run_as FROM taskq.tasks WHERE task_id = $single"), 'mallory', 'recreated alone, it runs as the role that recreates it');

# text that was submitted as data is never executed
$sql->("SELECT taskq_create_queue('data'), taskq_grant('data', 'ann', '{submit}'); SET SESSION AUTHORIZATION ann; SELECT taskq_submit('data', '{\"sql\": \"INSERT INTO effect VALUES (99)\"}')");
$sql->(q(SELECT taskq_alter_queue('data', '{"executor": {"workers": 1}}')));
ok(within($LONG, sub { $sql->("SELECT state || message FROM taskq.tasks WHERE queue = 'data'") =~ /^suspended.*before its queue had an executor/ }),
	'a task of before the option is suspended');
$sql->("SELECT taskq_alter_queue('s', '{\"dead_letter_queue\": \"data\"}')");
my $dying = submit('ann', '{"sql": "SELECT 1/0"}');
ends($dying, 'dead exhausted', 'a task dies');
is(error_text($dying), 'division by zero', '... with the error of its SQL');
is(detail($dying, 'sqlstate'), '22012', '... and its SQLSTATE');
ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'data' AND state = 'suspended' AND message = 'A dead letter is never executed.'") eq '1' }),
	'... and its dead letter is not executed');
$sql->(q(SELECT taskq_alter_queue('s', '{"dead_letter_queue": null}')));
is($sql->('SELECT count(*) FROM effect WHERE n = 99'), '0', 'nothing of it has run');

# --- errors
my %bad = (
	'{"sql": "SELECT $1::int", "args": [1, 2]}' => [ 'dead rejected', '22023' ],
	'{"sql": "SELECT $1::int", "args": []}' => [ 'dead rejected', '42P02' ],
	'{"sql": "SELECT $1::int", "args": ["x"]}' => [ 'dead rejected', '22P02' ],
	'{"sql": "SELECT * FROM nowhere"}' => [ 'dead exhausted', '42P01' ],
	'{"call": "commits"}' => [ 'dead exhausted', '2D000' ],
	'{"sql": "VACUUM"}' => [ 'dead exhausted', '25001' ],
	'{"sql": "DO $$BEGIN EXECUTE \'LISTEN x\'; END$$"}' => [ 'dead exhausted', '0A000' ],
	'{"sql": "SELECT repeat(\'x\', 300000000)"}' => [ 'dead rejected', 'TQ009' ],
	'{"sql": "SELECT repeat(\'x\', 1000) FROM generate_series(1, 300000)"}' => [ 'dead rejected', 'TQ009' ]);
for my $payload (sort keys %bad)
{
	my $id = submit('ann', $payload, 'max_attempts => 1');
	ends($id, $bad{$payload}[0], "$payload fails");
	is(detail($id, 'sqlstate'), $bad{$payload}[1], '... with its SQLSTATE');
}
like($sql->("SELECT errors -> -1 -> 'detail' ->> 'hint' FROM taskq.tasks WHERE payload ->> 'call' = 'commits'"),
	qr/one transaction/, 'COMMIT gets a hint');
is($sql->('SELECT count(*) FROM effect WHERE n = 7'), '0', 'what a failed task did is undone');

# --- cancel, time limit, and a task that catches the cancel
my $long = submit('ann', '{"sql": "SELECT lasting(1000)"}');
ok(running($long), 'a long task runs');
$sql->("SELECT taskq_cancel($long)");
ends($long, 'cancelled manual', 'it is cancelled');
$long = submit('ann', '{"sql": "SELECT lasting(1000)"}');
ok(running($long), 'another one runs');
$sql->("SELECT taskq_cancel($long, force => true)");
ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND state = 'active'") eq '0' }),
	'a forced cancel also ends the statement');
my $limited = submit('ann', '{"sql": "SELECT lasting(1000)"}', q(options => '{"time_limit": "300 ms"}'));
ends($limited, 'dead timeout', 'the time limit ends a task');
my $before = executors('ann');
my $stubborn = submit('ann', '{"sql": "SELECT stubborn()"}', q(options => '{"time_limit": "300 ms"}'));
ends($stubborn, 'dead timeout', 'a task that catches the cancel is dead');
ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND query ~ 'stubborn'") eq '0' }),
	'... and its process is terminated');
is($sql->('SELECT count(*) FROM effect'), '0', 'none of them left an effect');

# --- a process dies: the server restarts, and the task runs again; the third time it is dead
my $killer = submit('ann', '{"sql": "SELECT lasting(1000)"}', 'max_attempts => -1');
for my $round (1 .. 3)
{
	ok(running($killer), "the task runs, round $round");
	my $pid = $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND query ~ 'lasting' AND state = 'active'");
	ok(hit($node, $pid), '... and its process is killed');
	ok(recovered($node, ++$crashes), '... and the server starts again');
}
ends($killer, 'dead worker_dead', 'it is dead after the third crash in succession');
is($sql->("SELECT attempt FROM taskq.tasks WHERE task_id = $killer"), '3', '... although it has more attempts');
my $once = submit('ann', '{"sql": "SELECT lasting(1000)"}');
ok(running($once), 'a task with one attempt runs');
ok(hit($node, $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND query ~ 'lasting' AND state = 'active'")), '... and its process is killed');
ok(recovered($node, ++$crashes), '... and the server starts again');
ends($once, 'dead worker_dead', 'it is dead after one crash');

# --- terminated executors, and a stop of the server: the attempt does not count
my $back = submit('ann', '{"sql": "SELECT lasting(2)"}');
ok(running($back), 'a task runs');
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'taskq executor'");
ends($back, 'done', 'it runs again when its executor was terminated');
$back = submit('ann', '{"sql": "SELECT lasting(2)"}');
ok(running($back), 'a task runs');
$node->restart;
ends($back, 'done', 'it runs again after a restart');
is($sql->("SELECT attempt FROM taskq.tasks WHERE task_id = $back"), '1', '... in the same attempt');
is($sql->('SELECT count(*) FROM effect'), '2', 'each has its effect once');

my $suicide = submit('ann', '{"sql": "SELECT pg_terminate_backend(pg_backend_pid()), lasting(60)"}');
ok(within($LONG, sub { $sql->("SELECT state = 'pending' AND attempt = 0 AND run_at > created_at + interval '1 s' FROM taskq.tasks WHERE task_id = $suicide") eq 't' }),
	'a task that terminates its own process is tried again only later');
$sql->("SELECT taskq_cancel($suicide)");
ends($suicide, 'cancelled manual', '... and can be cancelled');

# --- exactly once, over kills of the server
$sql->('TRUNCATE effect');
$sql->(q(SELECT taskq_alter_queue('s', '{"max_attempts": 50}')));
$sql->(q(SET SESSION AUTHORIZATION ann; SELECT count(*) FROM (SELECT taskq_submit('s', jsonb_build_object('sql', 'INSERT INTO effect SELECT $1 FROM pg_sleep(0.002)', 'args', jsonb_build_array(n))) FROM generate_series(1, 2000) n) t));
for my $round (1 .. 3)
{
	my $done = $sql->('SELECT count(*) FROM effect');
	ok(within($LONG, sub { $sql->('SELECT count(*) FROM effect') > $done + 100 }), "tasks run, round $round");
	$node->kill9;
	ok(start_again($node), '... and the server is killed');
}
ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 's' AND state IN ('pending', 'running')") eq '0' }), 'all tasks end');
is($sql->('SELECT count(*), count(DISTINCT n) FROM effect'), '2000|2000', 'each effect is there exactly once');

# --- roles
my $waits = submit('ben', '{"sql": "SELECT 1"}', "delay => '1 s'");
$sql->('ALTER ROLE ben NOLOGIN');
ends($waits, 'dead rejected', 'a task of a role that lost LOGIN is dead');
is(error_text($waits), 'role "ben" cannot run the SQL task, because it does not have LOGIN', '... and says why');
is(error_of($node, q(SET ROLE ben; SELECT taskq_submit('s', '{"sql": "SELECT 1"}');)), '42501', '... and it can submit no other');
$sql->('CREATE ROLE cid LOGIN');
$sql->(q(SELECT taskq_grant('s', 'cid', '{submit}')));
$waits = submit('cid', '{"sql": "SELECT 1"}', "delay => '1 s'");
$sql->(q(SELECT taskq_revoke('s', 'cid', '{submit}'); DROP OWNED BY cid; DROP ROLE cid));
ends($waits, 'dead rejected', 'a task of a dropped role is dead');
like(error_text($waits), qr/does not exist/, '... and says why');

# --- the pool: limits, and room for another role
$sql->('CREATE ROLE r' . $_ . ' LOGIN; SELECT taskq_grant(\'s\', \'r' . $_ . '\', \'{submit}\')') for 1 .. 5;
my @ids = map { submit("r$_", '{"sql": "SELECT current_user AS c"}') } 1 .. 5;
ends($ids[$_ - 1], 'done', "role $_ of more roles than executors gets its turn") for 1 .. 5;
ok($sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq executor'") <= 3, 'there are never more than taskq.max_executors');
my @long = map { submit('ann', '{"sql": "SELECT lasting(1000)"}') } 1 .. 3;
ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq.running WHERE queue = 's'") eq '2' }), 'two tasks of the queue run');
ok(stays(1, sub { $sql->("SELECT count(*) FROM taskq.running WHERE queue = 's'") eq '2' }), '... and not a third');
$sql->(q(SELECT taskq_alter_queue('s', '{"executor": {"workers": 3}}')));
ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq.running WHERE queue = 's'") eq '3' }), 'with a higher limit it runs');
$sql->(q(SELECT taskq_alter_queue('s', '{"executor": null}')));
$sql->("SELECT taskq_cancel(task_id) FROM taskq.running WHERE queue = 's'");
ends($_, 'cancelled manual', 'tasks that run keep their executor when the option goes') for @long;
is(submit('ann', '{"x": 1}') > 0 ? 1 : 0, 1, 'a queue without the option takes any payload');
$sql->("SELECT taskq_purge('s', '{pending}')");
$sql->(q(SELECT taskq_alter_queue('s', '{"executor": {"workers": 1}}')));

# --- the health line
my ($ok, $text) = split /\|/, $sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'executors'");
is($ok, 't', 'the check of executors is well');
like($text, qr/of "taskq\.max_executors" \(3\)/, '... and names the limit');

# --- external workers share the queue
$sql->("SELECT taskq_pause('s')");
my $shared = submit('ann', '{"sql": "SELECT 1"}');
$sql->("SELECT taskq_resume('s'); SELECT taskq_complete(task_id, token) FROM taskq_claim('s')");
ends($shared, 'done', 'a task of a shared queue is done');

# --- a copy of the database
submit('ann', '{"sql": "INSERT INTO effect VALUES (-1)"}', "delay => '1 s'");
$sql->('TRUNCATE effect');
$node->safe_psql('template1', 'CREATE DATABASE twin TEMPLATE postgres');
ok(within($LONG, sub { $sql->('SELECT count(*) FROM effect WHERE n = -1') eq '1' }), 'the task runs in its database');
ok(stays(2, sub { $node->safe_psql('twin', 'SELECT count(*) FROM effect WHERE n = -1') eq '0' }), 'a copy runs nothing');
$node->safe_psql('twin', 'SELECT taskq_activate()');
ok(within($LONG, sub { $node->safe_psql('twin', 'SELECT count(*) FROM effect WHERE n = -1') eq '1' }), '... until it is activated');
$node->safe_psql('postgres', 'DROP DATABASE twin');
ok(1, 'a database with executors can be dropped');

# --- steps
$sql->(q(SELECT taskq_grant('s', 'ann', '{submit,read,work}')));
$sql->(<<'SQL');
SELECT taskq_define_workflow('{"name": "sums", "version": "1", "steps": [
  {"name": "one", "queue": "s", "payload": {"sql": "SELECT 40 AS n, current_user AS c"}},
  {"name": "two", "queue": "s", "depends_on": ["one"], "payload": {"sql": "SELECT $1::int + 2 AS n", "args": [{"$": "$.results.one.rows[0].n"}]}},
  {"name": "bad", "queue": "s", "depends_on": ["one"], "payload": {"sql": {"$": "$.results.one.command"}}}]}');
SQL
my $flow = $sql->("SELECT taskq_start_workflow('sums')");
ok(within($LONG, sub { $sql->("SELECT result -> 'rows' -> 0 ->> 'n' FROM taskq.tasks WHERE workflow_id = $flow AND step = 'two'") eq '42' }), 'a step is a SQL task, with the result of another one as an argument');
ok(within($LONG, sub { $sql->("SELECT concat(state, message) FROM taskq.tasks WHERE workflow_id = $flow AND step = 'bad'") =~ /^suspended.*literal/ }), 'SQL that comes from a result is not executed');

# --- drop the queue while a task runs
$sql->(q(SELECT taskq_create_queue('d', '{"executor": {"workers": 1}}'), taskq_grant('d', 'ann', '{submit}')));
$sql->(q(SET SESSION AUTHORIZATION ann; SELECT taskq_submit('d', '{"sql": "SELECT lasting(1000)"}')));
ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq.running WHERE queue = 'd'") eq '1' }), 'a task of another queue runs');
$sql->("SELECT taskq_drop_queue('d', true)");
ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND state = 'active'") eq '0' }),
	'its statement ends when the queue is dropped');

# --- the background worker meets a task that was claimed after its snapshot
my $holder = $node->background_psql('postgres');
$holder->query_safe("SELECT pg_advisory_lock($_)") for 19, 20;
my ($first, $second) = split /\n/, $sql->(<<'SQL');
SET SESSION AUTHORIZATION ann;
SELECT taskq_submit('one', jsonb_build_object('sql', format('SELECT pg_advisory_xact_lock(%s)', n))) FROM generate_series(19, 20) n;
SQL
ok(within($LONG, sub { state_of($first) eq 'running' }), 'a task waits for a lock');
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$node->append_conf('postgresql.conf', "taskq.debug_point = 'pool_served'");
$node->reload;
ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND wait_event = 'advisory'") eq '1' }),
	'the background worker has a snapshot, and stops');
$holder->query_safe('SELECT pg_advisory_unlock(19)');
ok(within($LONG, sub { state_of($second) eq 'running' }), 'the next task is claimed');
ok(stays(1.5, sub { state_of($second) eq 'running' }), '... and runs');
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
ok(stays(1.5, sub { state_of($second) eq 'running' }), 'the background worker does not cancel it');
$node->append_conf('postgresql.conf', "taskq.debug_point = ''");
$node->reload;
$holder->query_safe('SELECT pg_advisory_unlock(20)');
ends($second, 'done', 'it is done');
$holder->quit;

# --- executors exit when they are idle
$node->append_conf('postgresql.conf', 'taskq.executor_idle_time = 100ms');
$node->reload;
ends(submit('ann', '{"sql": "SELECT 1"}'), 'done', 'a task runs');
ok(within($LONG, sub { executors('ann') eq '' }), 'its executor exits');
is($sql->("SELECT count(*) FROM taskq.workers WHERE worker ~ '^taskq executor' AND state = 'active' AND last_seen > now()"), '0', '... and its worker is gone');

sound($node, crashes => $crashes);
done_testing();

# Operations change each task of theirs once, and leave out none: while the
# server is killed and restarted, over a promotion, in a copy that is activated,
# beside a transaction that has locked tasks, and after errors. They end when
# the right is revoked or the queue is dropped half way; they can be paused,
# resumed and cancelled. (takes long)
# expect-log: terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $LONG = 90;    # seconds: far more than anything takes
my $N = 2000;
my $node = start_node('operations', 'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };

# fill(QUEUE, N, STATE): a queue with that many tasks.
sub fill
{
	my ($queue, $n, $state) = @_;
	my %call = (done => 'taskq_complete(task_id, token)', dead => "taskq_fail(task_id, token, 'no')");

	$sql->("SELECT taskq_create_queue('$queue', '{\"max_attempts\": 1, \"history\": \"transitions\"}')");
	$sql->("SELECT count(*) FROM taskq_submit_many('$queue', (SELECT array_agg(to_jsonb(i)) FROM generate_series(1, $n) i))");
	return if $state eq 'pending';
	for (my $i = 0; $i < $n; $i += 1000)
	{
		$sql->("SELECT count($call{$state}) FROM taskq_claim('$queue', max_tasks => 1000)");
	}
	return;
}

sub begin_operation { return $sql->("SELECT taskq_manage_where($_[0])"); }
sub state_of { return $sql->("SELECT state FROM taskq.operations WHERE operation_id = $_[0]"); }
sub column_of { return $sql->("SELECT $_[1] FROM taskq.operations WHERE operation_id = $_[0]"); }
sub ends_as { my ($op, $state) = @_; return within($LONG, sub { state_of($op) eq $state }); }
sub changed { return $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = '$_[0]' AND state = '$_[1]'"); }

# half_way(OPERATION): it has done something.
sub half_way { my ($op) = @_; return within($LONG, sub { column_of($op, 'done') > 20 }); }

# recreated_once(NAME, QUEUE, N): each task has exactly one new task.
sub recreated_once
{
	my ($name, $queue, $n) = @_;

	is($sql->(<<"SQL"), "$n|$n|$n", $name);
SELECT count(*) FILTER (WHERE state = 'recreated'), count(*) FILTER (WHERE state = 'pending'),
       count(DISTINCT payload) FILTER (WHERE state = 'pending') FROM taskq.tasks WHERE queue = '$queue'
SQL
	return;
}

# --- kills and restarts half way, with a worker that lets the tasks die again
fill('again', $N, 'done');
fill('retried', $N, 'dead');
my $recreate = begin_operation("'recreate', 'again', '{\"state\": \"done\"}', batch_size => 5");
my $retry = begin_operation("'retry', 'retried', '{\"state\": \"dead\"}', 'again', batch_size => 5");
my $worker = start_clients($node, 1,
	"SELECT count(taskq_fail(task_id, token, 'no')) FROM taskq_claim('retried', max_tasks => 100);\n" x 20);
my $rounds = 0;
for my $round (1 .. 4)
{
	my $before = column_of($recreate, 'done') + column_of($retry, 'done');
	within($LONG, sub { column_of($recreate, 'done') + column_of($retry, 'done') > $before + 50 });
	$rounds++ if column_of($recreate, 'done') < $N && column_of($retry, 'done') < $N;
	$round == 2 ? $node->stop('fast') : $node->kill9;
	ok(start_again($node), "the server starts again, round $round");
}
is($rounds, 4, 'it stopped while both operations were running (void otherwise)');
ok(ends_as($recreate, 'done'), 'an operation ends in spite of four stops');
ok(ends_as($retry, 'done'), 'so does another one');
is(column_of($recreate, 'counted, done, refused'), "$N|$N|0", 'it has counted each task once');
recreated_once('it has recreated each task once', 'again', $N);
is(column_of($retry, 'counted, done, refused'), "$N|$N|0", 'the other one has counted each task once');
ok(within($LONG, sub { changed('retried', 'dead') eq $N }), 'all of its tasks die again');
end_clients($worker);
is($sql->(<<'SQL'), "1|1|$N", 'it has retried each task once');
SELECT min(n), max(n), count(*) FROM (SELECT count(*) AS n FROM taskq.history
 WHERE queue = 'retried' AND from_state = 'dead' AND to_state = 'pending' GROUP BY task_id) h
SQL

# --- the background worker is killed
fill('worker', 500, 'done');
my $op = begin_operation("'recreate', 'worker', '{\"state\": \"done\"}', batch_size => 1");
ok(half_way($op), 'an operation is half way');
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND datname = 'postgres'");
ok(ends_as($op, 'done'), 'it ends although the background worker was terminated');
recreated_once('it has recreated each task once', 'worker', 500);

# --- many tasks, beside a snapshot that is held: it is killed, and so is the server
my $MANY = 20_000;
fill('many', $MANY, 'done');
my $holder = open_session($node);
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.operation');
$op = begin_operation("'recreate', 'many', '{\"state\": \"done\"}', 'many'");
ok(within($LONG, sub { column_of($op, 'done') > 1000 }), 'an operation continues although a snapshot is held');
my $crashes = () = slurp_file($node->logfile) =~ /(all server processes terminated; reinitializing)/g;
ok(hit($node, worker_pid($node)), 'the background worker is killed');
ok(recovered($node, $crashes + 1, $LONG), 'the server recovers');
eval { $holder->quit };
my $done = column_of($op, 'done');
cmp_ok($done, '<', $MANY, 'half way (void otherwise)');
is(changed('many', 'recreated'), $done, 'what it has done is what it has counted');
ok(within($LONG, sub { column_of($op, 'done') > $done }), 'it continues');
$node->kill9;
ok(start_again($node), 'the server was killed, and starts again');
$done = column_of($op, 'done');
cmp_ok($done, '<', $MANY, 'half way (void otherwise)');
$holder = open_session($node);
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.operation');
ok(ends_as($op, 'done'), 'it ends, beside another snapshot');
$holder->quit;
is(column_of($op, 'counted, done, refused'), "$MANY|$MANY|0", 'it has counted each task once');
recreated_once('it has recreated each task once', 'many', $MANY);

# --- pause, resume, cancel
fill('paused', 2000, 'pending');
$op = begin_operation("'hold', 'paused', batch_size => 2");
half_way($op);
is($sql->("SELECT taskq_pause_operation($op)"), 't', 'it is paused');
$done = column_of($op, 'done');
cmp_ok($done, '<', 2000, 'half way (void otherwise)');
is(changed('paused', 'suspended'), $done, 'what it has done is what it has counted');
ok(stays(1, sub { column_of($op, 'done') eq $done && changed('paused', 'suspended') eq $done }), 'it does nothing while it is paused');
$node->restart;
ok(stays(1, sub { column_of($op, 'state, done') eq "paused|$done" }), 'nor after a restart');
is($sql->("SELECT taskq_resume_operation($op)"), 't', 'it is resumed');
ok(ends_as($op, 'done'), 'and ends');
is(changed('paused', 'suspended'), '2000', 'all tasks are held');
$op = begin_operation("'resolve', 'paused', '{\"state\": \"suspended\"}', batch_size => 2");
half_way($op);
is($sql->("SELECT taskq_cancel_operation($op)"), 't', 'an operation is cancelled');
$done = column_of($op, 'done');
cmp_ok($done, '<', 2000, 'half way (void otherwise)');
ok(stays(1, sub { changed('paused', 'done') eq $done }), 'it does nothing more');

# --- the right is revoked half way
$sql->('CREATE ROLE alice');
fill('revoked', 2000, 'pending');
$sql->("SELECT taskq_grant('revoked', 'alice', '{manage}')");
$op = $sql->("SET ROLE alice; SELECT taskq_manage_where('cancel', 'revoked', batch_size => 2)");
half_way($op);
$sql->("SELECT taskq_revoke('revoked', 'alice', '{manage}')");
ok(ends_as($op, 'failed'), 'an operation fails when the right is revoked');
is(column_of($op, 'error'), 'role "alice" has no right to manage queue "revoked"', 'and says so');
$done = column_of($op, 'done');
cmp_ok($done, '<', 2000, 'half way (void otherwise)');
is(changed('revoked', 'cancelled'), $done, 'what it has done is what it has counted');
is($sql->("SELECT DISTINCT role FROM taskq.history WHERE queue = 'revoked' AND to_state = 'cancelled'"), 'alice', 'history names its role');

# --- the membership is revoked half way
$sql->("CREATE ROLE staff; GRANT staff TO alice");
fill('staff', 2000, 'pending');
$sql->("SELECT taskq_grant('staff', 'staff', '{manage}')");
$op = $sql->("SET ROLE alice; SELECT taskq_manage_where('cancel', 'staff', batch_size => 2)");
half_way($op);
$sql->("REVOKE staff FROM alice");
ok(ends_as($op, 'failed'), 'an operation fails when its role loses the membership that gave it the right');
$done = column_of($op, 'done');
cmp_ok($done, '<', 2000, 'half way (void otherwise)');
is(changed('staff', 'cancelled'), $done, 'what it has done is what it has counted');

# --- a queue is dropped half way
fill('dropped', 2000, 'pending');
$op = begin_operation("'hold', 'dropped', batch_size => 2");
half_way($op);
$sql->("SELECT taskq_drop_queue('dropped', true)");
ok(ends_as($op, 'failed'), 'an operation fails when its queue is dropped');
is(column_of($op, 'error'), 'queue "dropped" does not exist', 'and says so');

# --- tasks that another transaction has locked
fill('locked', 100, 'pending');
fill('free', 100, 'pending');
my $session = open_session($node);
$session->query_safe(q{BEGIN; SELECT taskq_update_task(task_id, '{"priority": 1}') FROM taskq.tasks WHERE queue = 'locked' AND payload IN ('50', '60')});
$op = begin_operation("'hold', 'locked'");
ok(within($LONG, sub { changed('locked', 'suspended') eq '49' }), 'an operation comes to a locked task');
my $other = begin_operation("'hold', 'free'");
ok(ends_as($other, 'done'), 'another one does not wait');
is(column_of($op, 'state, refused'), 'running|0', 'the first one tries again');
$session->query_safe('COMMIT');
ok(ends_as($op, 'done'), 'it continues when the lock is released');
is(column_of($op, 'done, refused'), '100|0', 'and has refused none');
$session->query_safe(q{BEGIN; SELECT taskq_update_task(task_id, '{"priority": 1}') FROM taskq.tasks WHERE queue = 'locked' AND payload IN ('50', '60')});
$op = begin_operation("'resolve', 'locked', '{\"state\": \"suspended\"}'");
ok(ends_as($op, 'done'), 'an operation ends although a task stays locked');
is(column_of($op, q{done, refused, (SELECT string_agg(e ->> 'error_code', ' ') FROM jsonb_array_elements(refused_examples) e)}), '98|2|55P03 55P03', 'and has refused only these tasks');
$session->query_safe('ROLLBACK');

# --- a session that holds the row of an operation; health
$session->query_safe('BEGIN');
$op = begin_operation("'cancel', 'free', dry_run => true");
$session->query_safe("ROLLBACK; BEGIN; UPDATE taskq.operation SET due_at = due_at - interval '10 min', finished_at = NULL, state = 'running' WHERE operation_id = $op");
$other = begin_operation("'resolve', 'free', '{\"state\": \"suspended\"}'");
ok(ends_as($other, 'done'), 'an operation does not wait for the row of another one');
$session->query_safe('ROLLBACK');
my $pid = worker_pid($node);
kill 'STOP', $pid;
$sql->("UPDATE taskq.operation SET state = 'paused', finished_at = NULL, due_at = NULL WHERE operation_id = $op");
# which tells the background worker that it is due
$sql->("SELECT taskq_resume_operation($op)");
$session->query_safe("BEGIN; SELECT FROM taskq.operation WHERE operation_id = $op FOR UPDATE");
kill 'CONT', $pid;
# each batch of the background worker changes the time of its state
my ($turns, $shown, $begun_at) = (0, '', time);
for (1 .. 300)
{
	my $now = $sql->("SELECT state_change FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND datname = 'postgres'");
	$turns++ if $now ne $shown;
	$shown = $now;
}
my $most = 10 + 10 * (time - $begun_at);
note("$turns turns, fewer than $most");
cmp_ok($turns, '<', $most, 'and the background worker does not try it all the time while its row is locked');
cmp_ok($most, '<', 250, 'the machine is fast enough to tell (void otherwise)');
$session->query_safe('ROLLBACK');
$session->quit;
ok(ends_as($op, 'done'), 'it continues when its row is free');
$sql->("UPDATE taskq.operation SET finished_at = finished_at - interval '2 days' WHERE state = 'failed'");
is($sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'operations'"), 't|0 operations have not ended, 0 of them are paused.', 'health');
$sql->("UPDATE taskq.operation SET state = 'failed', error = 'no reason', finished_at = now() WHERE operation_id = $op");
like($sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'operations'"), qr/^f\|Operation $op failed within the last day/, 'health reports one that has failed');
$sql->("UPDATE taskq.operation SET finished_at = NULL, state = 'paused', error = NULL, due_at = now() + interval '1 h' WHERE operation_id = $op");
like($sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'operations'"), qr/^t\|1 operations have not ended, 1 of/, 'a paused one is no problem');
$pid = worker_pid($node);
kill 'STOP', $pid;
$sql->("UPDATE taskq.operation SET state = 'running', due_at = now() - interval '1 h' WHERE operation_id = $op");
like($sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'operations'"), qr/^f\|Operation $op has not continued for five minutes/, 'health reports one that does not continue');
$sql->("UPDATE taskq.operation SET state = 'paused' WHERE operation_id = $op");
$sql->("SELECT taskq_resume_operation($op)");
kill 'CONT', $pid;
ok(ends_as($op, 'done'), 'it ends when the background worker continues');

# --- errors: tried again, and in the end it fails
fill('faulty', 100, 'pending');
sub fault
{
	my ($point) = @_;

	$node->append_conf('postgresql.conf', "taskq.fault_point = '$point'");
	$node->reload;
	return $node->poll_query_until('postgres', "SELECT setting = '$point' FROM pg_settings WHERE name = 'taskq.fault_point'");
}
fault('operation_batch:error');
$op = begin_operation("'hold', 'faulty', batch_size => 10");
ok(within($LONG, sub { column_of($op, 'state, error') =~ /^running\|.+/ }), 'an error is shown');
like($sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'operations'"), qr/^f\|The last batch of operation $op failed/, 'and reported');
is(changed('faulty', 'suspended'), '0', 'its batch was rolled back');
fault('');
ok(ends_as($op, 'done'), 'when the cause is gone, the operation continues');
is(column_of($op, 'done, error'), '100|', 'without an error');
fault('operation_batch:error');
$op = begin_operation("'resolve', 'faulty', '{\"state\": \"suspended\"}'");
ok(ends_as($op, 'failed'), 'an error that persists ends the operation');
like(column_of($op, 'done, error'), qr/^0\|.+/, 'and is shown');
fault('');

# --- a jsonpath that needs milliseconds for each task: batches end nevertheless
$sql->("SELECT taskq_create_queue('steady'); SELECT count(*) FROM taskq_submit_many('steady', (SELECT array_agg((SELECT jsonb_agg(i) FROM generate_series(1, 30) i)) FROM generate_series(1, 1000)))");
$op = begin_operation("'hold', 'steady', jsonb_build_object('payload', '\$ ? (exists(\$[*] ? (exists(\$[*] ? (@ == -1)))))')");
my %examined;
ok(within($LONG, sub { $examined{ column_of($op, 'examined') }++; state_of($op) eq 'done' }), 'an operation that examines tasks slowly ends');
cmp_ok(scalar keys %examined, '>', 3, 'it has examined them in several batches');

# --- a jsonpath that runs for minutes: other duties wait for a batch at most
$sql->("SELECT taskq_create_queue('slow'); SELECT taskq_submit('slow', (SELECT jsonb_agg(i) FROM generate_series(1, 2000) i))");
my $path = '$ ? (exists($[*] ? (exists($[*] ? (exists($[*] ? (@ == -1)))))))';
$op = begin_operation("'hold', 'slow', jsonb_build_object('payload', '$path')");
ok(within($LONG, sub { column_of($op, 'state, error') eq 'running|a batch has taken longer than 10 s' }), 'a batch that runs long is ended');
my $quick = begin_operation("'hold', 'faulty', dry_run => true");
ok(ends_as($quick, 'done'), 'another operation continues');
is($sql->("SELECT taskq_cancel_operation($op)"), 't', 'it can be cancelled');
is(changed('slow', 'suspended'), '0', 'nothing was done');

# --- a copy
fill('copy', 100, 'done');
# paused after its first batch, which this transaction runs
$op = $sql->(<<'SQL');
BEGIN;
CREATE TEMP TABLE begun AS SELECT taskq_manage_where('recreate', 'copy', '{"state": "done"}', batch_size => 5) AS op;
SELECT FROM taskq_run_reapers() WHERE acted < 0;
SELECT op FROM begun WHERE taskq_pause_operation(op);
COMMIT;
SQL
my $begun = column_of($op, 'done');
cmp_ok($begun, '>', 0, 'it has begun (void otherwise)');
cmp_ok($begun, '<', 100, 'it has not ended (void otherwise)');
my $file = "$PostgreSQL::Test::Utils::tmp_check/operations.dump";
command_ok([ 'pg_dump', '-Fc', '-d', $node->connstr('postgres'), '-f', $file ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $file ], 'it is restored');
my $here = $sql;
$sql = sub { $node->safe_psql('restored', shift) };
$sql->("UPDATE taskq.operation SET state = 'running', due_at = called_at_dispatch WHERE operation_id = $op");
ok(stays(2, sub { column_of($op, 'done') eq $begun }), 'an operation does nothing in a copy');
# as logical replication leaves it
$sql->("SELECT setval('taskq.operation_id_seq', 1, false)");
$sql->('SELECT taskq_activate()');
ok(ends_as($op, 'done'), 'it continues when the copy is activated');
is(error_of($node, "SELECT taskq_manage_where('retry', 'copy')", 'restored'), '', 'new operations have new numbers');
recreated_once('each task was recreated once', 'copy', 100);
$sql = $here;

sound($node, crashes => 1);
$node->stop('fast');

# --- promotion of a standby: the primary is killed
my $primary = start_node('primary', init => { allows_streaming => 1 });
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$sql = sub { $primary->safe_psql('postgres', shift) };
fill('promoted', 2000, 'done');
$op = begin_operation("'recreate', 'promoted', '{\"state\": \"done\"}', batch_size => 2");
half_way($op);
ok(within($LONG, sub { $standby->safe_psql('postgres', "SELECT done > 20 FROM taskq.operations WHERE operation_id = $op") eq 't' }), 'the standby shows it');
is(error_of($standby, "SELECT taskq_manage_where('hold', 'promoted')"), '25006', 'it begins none');
$primary->kill9;
cmp_ok($standby->safe_psql('postgres', "SELECT done FROM taskq.operations WHERE operation_id = $op"), '<', 2000, 'half way (void otherwise)');
$standby->promote;
$sql = sub { $standby->safe_psql('postgres', shift) };
ok(ends_as($op, 'done'), 'the promoted standby continues');
recreated_once('no task was changed twice or left out', 'promoted', 2000);
sound($standby);
$standby->stop('fast');

# --- not preloaded
$standby->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$standby->start;
for my $call ("taskq_manage_where('hold', 'promoted')", "taskq_resume_operation($op)")
{
	my ($rc, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");
	like($err, qr/ERROR:  55000: .*HINT:  Add taskq to "shared_preload_libraries"/s, "not preloaded: $call");
}
$standby->stop('fast');
done_testing();

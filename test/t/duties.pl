# The background worker processes leases, time limits, due times, dead workers,
# deadlines and retention, and continues after errors and the loss of memory.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $node = start_node(
	'duties',
	'taskq.stale_threshold' => "'300ms'",
	'taskq.dead_threshold' => "'1s'",
	'taskq.reaper_interval' => "'500ms'",
	'taskq.deadline_interval' => "'300ms'",
	'taskq.retention_interval' => "'1s'",
	'taskq.retention' => "'7d'",
	'taskq.max_running_tracked' => 128,
	'taskq.max_workers' => 5);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $state = sub { $sql->("SELECT state FROM taskq_get($_[0])") };

# One session polls inside the server, so that the test measures the server's
# time, without the start of clients.
$sql->(<<'SQL');
CREATE FUNCTION ms_until(query text, seconds float8) RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    begin_at timestamptz := clock_timestamp();
    good boolean;
BEGIN
    LOOP
        EXECUTE query INTO good;
        IF good THEN
            RETURN extract(epoch FROM clock_timestamp() - begin_at) * 1000;
        END IF;
        IF clock_timestamp() > begin_at + seconds * interval '1 s' THEN
            RETURN NULL;
        END IF;
        PERFORM pg_sleep(0.002);
    END LOOP;
END $$;
SQL

$sql->("SELECT taskq_create_queue('q'); SELECT taskq_create_queue('dying')");

# --- the end of a lease is handled within 100 ms, and not before
my $id;
my $id2;
timely(100, "ms from a lease's end to its task's return", sub {
	$sql->("SELECT taskq_cancel(task_id) FROM taskq_list('q', 'pending'); SELECT taskq_submit('q')");
	($id2, my $lease_ms) = split /\|/, $sql->(<<'SQL');
WITH c AS MATERIALIZED (SELECT * FROM taskq_claim('q', lease => '400 ms'))
SELECT task_id, extract(epoch FROM lease_until) * 1000 FROM c
SQL
	within(20, sub { $state->($id2) eq 'pending' }) or return 'Inf';
	my $lag = $sql->("SELECT extract(epoch FROM (errors->-1->>'at')::timestamptz) * 1000 - $lease_ms"
		  . " FROM taskq_get($id2)");
	cmp_ok($lag, '>=', 0, 'a lease is not ended early');
	is($sql->("SELECT errors->-1->>'error' FROM taskq_get($id2)"), 'the lease expired', 'the error says why');
	return $lag;
});

# --- the last attempt's lease expires: dead, lease_expired
for (2, 3)
{
	$sql->("SELECT taskq_claim('q', lease => '50 ms')");
	within(20, sub { $state->($id2) ne 'running' });
}
ok(within(20, sub { $state->($id2) eq 'dead' }), 'attempts used up: dead');
is($sql->("SELECT reason, attempt, jsonb_array_length(errors) FROM taskq_get($id2)"),
	'lease_expired|3|3', 'its reason is the lease');

# --- time limit
$sql->(q{SELECT taskq_create_queue('limited', '{"time_limit": "300 ms", "retry": "fixed", "retry_base": "0 s", "max_attempts": 2}')});
timely(100, 'ms from the end of the time limit to the failure', sub {
	$sql->("SELECT taskq_cancel(task_id) FROM taskq_list('limited', 'pending')");
	$id = $sql->("SELECT taskq_submit('limited')");
	my $claimed = $sql->("SELECT extract(epoch FROM clock_timestamp()) * 1000 FROM taskq_claim('limited', lease => '1 h')");
	within(20, sub { $state->($id) eq 'pending' }) or return 'Inf';
	return $sql->("SELECT extract(epoch FROM (errors->-1->>'at')::timestamptz) * 1000 - $claimed - 300 FROM taskq_get($id)");
});
$sql->("SELECT taskq_claim('limited', lease => '1 h')");
ok(within(20, sub { $state->($id) eq 'dead' }), 'the second time the task is dead');
is($sql->("SELECT reason FROM taskq_get($id)"), 'timeout', 'its reason is the time limit');

# --- due times
my $timers = $sql->('SELECT taskq.debug_timers()');
timely(100, 'ms from run_at to the claim', sub {
	$id = $sql->("SELECT taskq_submit('due', delay => '700 ms')");
	$sql->("SELECT ms_until('SELECT count(*) = 1 FROM taskq_claim(''due'')', 20)");
	my $after_due = $sql->("SELECT extract(epoch FROM claimed_at - run_at) * 1000 FROM taskq_get($id)");
	cmp_ok($after_due, '>=', 0, 'a task is never claimed before its run_at');
	return $after_due;
});
ok(within(20, sub { $sql->('SELECT taskq.debug_timers()') > $timers }), 'the timer has fired');

# --- a worker killed without deregistering
timely(1 + 0.5 + 0.5, 's from the last heartbeat to the return: dead threshold, one reaper interval, and half a second for the check', sub {
	$sql->("SELECT taskq_cancel(task_id) FROM taskq_list('dying', 'pending')");
	$id = $sql->("SELECT taskq_submit('dying')");
	my $begin = time;
	is($sql->("SELECT taskq_register('w') IS NULL; SELECT lease_until IS NULL FROM taskq_claim('dying', 'w')"), "f\nt",
		'a registered worker holds a task while it lives');
	ok(within(20, sub { $sql->("SELECT state FROM taskq.workers WHERE worker = 'w'") =~ /stale|dead/ }), 'a worker without heartbeats is stale');
	ok(within(20, sub { $state->($id) eq 'pending' }), 'its task is returned');
	my $took = time - $begin;
	cmp_ok($took, '>=', 1, 'the worker is not dead before the threshold');
	return $took;
});
is($sql->("SELECT DISTINCT state FROM taskq.workers WHERE worker = 'w'"), 'dead', 'the worker is dead');
my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT taskq_heartbeat('w')");
like($err, qr/TQ007/, 'a heartbeat of a dead worker is refused');
($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT taskq_claim('dying', 'w')");
like($err, qr/TQ007/, 'a claim of a dead worker is refused');
is($sql->("SELECT taskq_register('w'); SELECT attempt FROM taskq_claim('dying', 'w')"), "0\n2", 'it may register again');
ok(within(20, sub { $state->($id) eq 'pending' }), 'its task is returned a second time');
is($sql->("SELECT run_at > (errors->-1->>'at')::timestamptz + interval '1 s' FROM taskq_get($id)"), 't',
	'the task then waits for its backoff');

# --- a session is changing the row of a worker that is due to be declared
# dead: other workers are declared dead
$id = $sql->("SELECT taskq_submit('freed')");
my $open = $node->background_psql('postgres');
$open->query_safe("SELECT taskq_register('changed'); BEGIN; SELECT taskq_drain('changed')");
$sql->("SELECT taskq_register('free'); SELECT taskq_claim('freed', 'free')");
ok(within(40, sub { $state->($id) eq 'pending' }), 'a task of another worker without heartbeats is requeued');
is($sql->("SELECT state FROM taskq.workers WHERE worker = 'changed'"), 'stale', 'the worker whose row is being changed is skipped');
$open->query_safe('COMMIT');
ok(within(40, sub { $sql->("SELECT state FROM taskq.workers WHERE worker = 'changed'") eq 'dead' }), 'it is dead after that');

# --- a row is locked when the end of its lease is just being written
my ($held, $other) = map { $sql->("SELECT taskq_submit('locked')") } 1 .. 2;
$open->query_safe('SELECT pg_advisory_lock(74111, 1)');
$node->append_conf('postgresql.conf', "taskq.debug_point = 'state_before_write'");
$node->reload;
$sql->("SET taskq.debug_point = ''; SELECT taskq_claim('locked', lease => '1 s')");
ok(within(40, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = " . worker_pid($node)) eq '1' }),
	'the background worker is about to return a task');
my $locker = $node->background_psql('postgres');
$locker->query_safe("BEGIN; SELECT FROM taskq.task WHERE task_id = $held FOR UPDATE");
$node->append_conf('postgresql.conf', "taskq.debug_point = ''");
$node->reload;
$open->query_safe('SELECT pg_advisory_unlock(74111, 1)');
$sql->("SELECT taskq_claim('locked', lease => '1 s')");
ok(within(40, sub { $state->($other) eq 'pending' }), 'another task is returned while the first one is locked');
is($state->($held), 'running', 'the background worker does not wait for the locked one');
$locker->query_safe('COMMIT');
$locker->quit;
ok(within(40, sub { $state->($held) eq 'pending' }), 'the locked one is returned later');
$open->quit;

# --- heartbeats keep a worker alive
$sql->("SELECT taskq_register('alive')");
$sql->("SELECT taskq_heartbeat('alive')");
my $end = time + 2.5;
within(20, sub { $sql->("SELECT taskq_heartbeat('alive')"); time > $end });
isnt($sql->("SELECT state FROM taskq.workers WHERE worker = 'alive'"), 'dead', 'a worker with heartbeats stays alive');

# --- deadlines
$id = $sql->("SELECT taskq_submit('late', deadline => clock_timestamp() + interval '200 ms')");
ok(within(20, sub { $state->($id) eq 'dead' }), 'a waiting task past its deadline is dead');
is($sql->("SELECT reason FROM taskq_get($id)"), 'deadline', 'its reason is the deadline');

# --- memory lost while tasks are running
$id = $sql->("SELECT taskq_submit('wiped')");
$sql->("SELECT taskq_claim('wiped', lease => '700 ms')");
$sql->('SELECT taskq.debug_wipe()');
ok(within(20, sub { $state->($id) eq 'pending' }), 'a lease expires although memory has lost the task');
$sql->("SELECT taskq_claim('wiped', lease => '1 h')");
$sql->('SELECT taskq.debug_wipe()');
ok(within(20, sub { $sql->('SELECT complete FROM taskq.debug_registry()') eq 't' }), 'the table of running tasks is complete again');
is($sql->('SELECT entries >= 1 FROM taskq.debug_registry()'), 't', 'it has the running task');

# --- more running tasks than the table of running tasks holds
$sql->("SELECT count(*) FROM taskq_submit_many('many', array_fill('1'::jsonb, ARRAY[500]))");
$sql->("SELECT count(*) FROM taskq_claim('many', max_tasks => 500, lease => '1 s')");
ok(within(15, sub { $sql->("SELECT running FROM taskq.queues WHERE queue = 'many'") eq '0' }),
	'leases beyond the table expire, too');
$sql->("SELECT taskq_drop_queue('many', true)");

# --- more workers than heartbeat slots
$sql->("SELECT taskq_register('w' || n) FROM generate_series(1, 3) n");
($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n" . join "\n", map { "SELECT taskq_register('x$_');" } 1 .. 5);
like($err, qr/53400/, 'a worker without a heartbeat slot is refused with 53400');

# --- duties continue after an error
$node->append_conf('postgresql.conf', "taskq.fault_point = 'duty_ends:error'");
$node->reload;
$id = $sql->("SELECT taskq_submit('faulty')");
$sql->("SELECT taskq_claim('faulty', lease => '100 ms')");
ok(within(20, sub { slurp_file($node->logfile) =~ /fault at "duty_ends"/ }), 'a duty meets an error');
like(slurp_file($node->logfile), qr/CONTEXT:.*taskq duty "expired leases"/s, 'the error is logged with its context');
my $late_id = $sql->("SELECT taskq_submit('late', deadline => clock_timestamp() + interval '100 ms')");
ok(within(20, sub { $state->($late_id) eq 'dead' }), 'other duties continue');
$node->append_conf('postgresql.conf', "taskq.fault_point = ''");
$node->reload;
ok(within(20, sub { $state->($id) eq 'pending' }), 'the duty works again when the error is gone');

# --- retention: bounded deletes, rotation, large parts
$sql->(q{SELECT taskq_create_queue('brief', '{"retention": "500 ms"}')});
$sql->(q{SELECT taskq_complete(c.task_id, c.token, to_jsonb(repeat('x', 5000)))
  FROM (SELECT taskq_submit_many('brief', array_fill('1'::jsonb, ARRAY[20]))) s,
       LATERAL (SELECT * FROM taskq_claim('brief')) c});
is($sql->("SELECT count(*) FROM taskq.archive_keep WHERE expires_at < 'infinity'") > 0, 1, 'own retention: archive_keep');
ok(within(20, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'brief'") eq '0' }), 'expired tasks are removed');
is($sql->("SELECT count(*) FROM taskq.large l WHERE NOT EXISTS (SELECT FROM taskq.tasks t WHERE t.task_id = l.task_id)"),
	'0', 'their large parts are removed, too');
$sql->("SELECT taskq_complete(c.task_id, c.token, to_jsonb(repeat('y', 5000))) FROM (SELECT taskq_submit('rotating')) s, LATERAL (SELECT * FROM taskq_claim('rotating')) c");
is($sql->("SELECT count(*) FROM taskq.archive WHERE bucket < 16 AND queue_id = (SELECT queue_id FROM taskq.queue WHERE name = 'rotating')"),
	'1', 'default retention: a leaf rotates');
$node->append_conf('postgresql.conf', "taskq.retention = '1s'");
$node->reload;
ok(within(20, sub { $sql->("SELECT bucket FROM taskq.archive_rotation") > 0 }), 'the next leaf is being filled');
ok(within(20, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'rotating'") eq '0' }), 'an old leaf is truncated');
ok(within(20, sub { $sql->("SELECT count(*) FROM taskq.large") eq '0' }), 'large parts of an old leaf are removed after it');

# --- duties by call
is($sql->("SELECT count(*) > 3 FROM taskq_run_reapers()"), 't', 'duties can be called');

sound($node);
$node->stop('fast');
done_testing();

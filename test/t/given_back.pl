# A transaction creates queues and workers, and rolls back, rolls back to a
# savepoint, or is prepared: all their entries in shared memory are freed. (Test
# suites that wrap each test in a transaction do just this.) If a prepared
# transaction removes queues and workers, the background worker frees their
# entries.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('given_back', 'autovacuum' => 'off', 'taskq.max_counters' => 20, 'taskq.max_workers' => 50,
	'taskq.max_metrics' => 20);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $rounds = 50;    # more than there is room for

# What uses one entry of each kind: a counter for a queue, one for a worker,
# a heartbeat.
my $work = <<'SQL';
PERFORM taskq_create_queue('limited', '{"max_running": 2}');
PERFORM taskq_submit('limited'), taskq_submit('created by a submit');
PERFORM taskq_register('worker', max_running => 2);
PERFORM taskq_claim('limited', 'worker');
PERFORM taskq_claim('created by a submit');
SQL
my $plain = $work =~ s/PERFORM/SELECT/gr;

# used(): entries in use
sub used { return $sql->("SELECT check_name, detail FROM taskq_health() WHERE check_name IN ('counters', 'workers') ORDER BY 1") }

$sql->("SELECT taskq_create_queue('mail', '{\"max_running\": 2}'), taskq_submit('mail'); SELECT taskq_claim('mail');"
	  . " SELECT taskq_register('keeps', max_running => 1)");
my $before = used();

$sql->("BEGIN; $plain ROLLBACK") for 1 .. $rounds;
is(used(), $before, 'after rollbacks');
$sql->("DO \$\$ BEGIN FOR i IN 1 .. $rounds LOOP BEGIN $work RAISE EXCEPTION 'undo'; EXCEPTION WHEN raise_exception THEN END; END LOOP; END \$\$");
is(used(), $before, 'after savepoints that are rolled back');
for (1 .. $rounds)
{
	$sql->("BEGIN; $plain PREPARE TRANSACTION 'given back'");
	$sql->("ROLLBACK PREPARED 'given back'");
}
is(used(), $before, 'after prepared transactions that are rolled back');

# A savepoint that is released, and a commit, keep what they have created.
$sql->("BEGIN; SAVEPOINT s; $plain RELEASE s; COMMIT");
is($sql->("SELECT count(*) FROM taskq_submit_many('limited', array_fill('{}'::jsonb, ARRAY[5])); SELECT count(*) FROM taskq_claim('limited', max_tasks => 5)"),
	"5\n1", 'the limit of a queue that was committed holds');
is($sql->("SELECT count(*) FROM taskq_submit_many('mail', array_fill('{}'::jsonb, ARRAY[5])); SELECT count(*) FROM taskq_claim('mail', max_tasks => 5)"),
	"5\n1", 'the limit of a queue from before holds');
is($sql->("SELECT count(*) FROM taskq.workers WHERE state = 'active'"), '2', 'a worker that was committed is there');

# More entries than the tables have room for, some at a time.
my $queues = 10;
my $counters = "SELECT detail FROM taskq_health() WHERE check_name = 'counters'";
$before = $sql->($counters);
for my $round (1 .. 100)
{
	$sql->("SELECT taskq_create_queue('q' || i, '{\"max_running\": 2}'), taskq_submit('q' || i) FROM generate_series(1, $queues) i;"
		  . "SELECT taskq_register('ends', max_running => 2);"
		  . "SELECT taskq_complete(task_id, token) FROM generate_series(1, $queues) i, taskq_claim('q' || i, 'ends');"
		  . "BEGIN; SELECT taskq_drop_queue('q' || i) FROM generate_series(1, $queues) i;"
		  . "SELECT taskq_deregister('ends'); PREPARE TRANSACTION 'drops'; COMMIT PREPARED 'drops'");
	within(60, sub { $sql->($counters) eq $before }) or last;
}
is($sql->($counters), $before, 'after prepared transactions that drop queues and end workers');
is($sql->("SELECT value FROM taskq.metrics WHERE name = 'metrics.not_counted'"), '0', 'metrics of dropped queues are freed, too');
$sql->("SELECT taskq_create_queue('last', '{\"max_running\": 2}'); SELECT count(*) FROM taskq_submit_many('last', array_fill('{}'::jsonb, ARRAY[5]))");
is($sql->("SELECT count(*) FROM taskq_claim('last', max_tasks => 5)"), '2', 'a limited queue afterwards');

# drop_prepared(queue): in a prepared transaction; returns its number
sub drop_prepared
{
	my $queue = shift;
	my $id = $sql->("SELECT queue_id FROM taskq.queue WHERE name = '$queue'");
	$sql->("BEGIN; SELECT taskq_drop_queue('$queue', force => true); PREPARE TRANSACTION 'drops'; COMMIT PREPARED 'drops'");
	return $id;
}

# The entry of a queue that is still being created is not one of these.
$sql->("SELECT taskq_submit('plain'); SELECT task_id FROM taskq_claim('plain')");
$before = $sql->($counters);
my $making = $node->background_psql('postgres');
$making->query_safe("BEGIN; SELECT taskq_create_queue('in the making', '{\"max_running\": 1}'), taskq_submit('in the making');"
	  . " SELECT taskq_register('in the making', max_running => 1); SELECT task_id FROM taskq_claim('in the making', 'in the making')");
my $with_it = $sql->($counters);
isnt($with_it, $before, 'a queue that is being created has a counter');
$sql->("SELECT taskq_register('goes', max_running => 1), taskq_submit('plain'); SELECT task_id FROM taskq_claim('plain', 'goes')");
isnt($sql->($counters), $with_it, 'a worker that is being created has one, too');
$sql->("BEGIN; SELECT taskq_deregister('goes'); PREPARE TRANSACTION 'ends'; COMMIT PREPARED 'ends'");
ok(within(60, sub { $sql->($counters) eq $with_it }), 'they keep their entries while the entries of others are freed');
is($sql->('SELECT problem, detail FROM taskq_check()'), '', 'they are not reported as leaked');
$making->query_safe('ROLLBACK');
$making->quit;
is($sql->($counters), $before, 'until it is rolled back');

# taskq_check() names entries that are not freed.
$sql->("SELECT taskq_create_queue('left', '{\"max_running\": 1}'), taskq_submit('left');"
	  . " SELECT taskq_register('left', max_running => 1); SELECT task_id FROM taskq_claim('left', 'left')");
my $worker = $sql->("SELECT worker_id FROM taskq.worker WHERE name = 'left'");
my $process = worker_pid($node);
ok( within(30, sub {
		# between two rounds: during one it would hold a snapshot
		kill 'STOP', $process;
		return 1 if $sql->("SELECT state FROM pg_stat_activity WHERE pid = $process") eq 'idle';
		kill 'CONT', $process;
		return 0 }),
	'the background worker is stopped');
$sql->("BEGIN; SELECT taskq_deregister('left'); PREPARE TRANSACTION 'ends'; COMMIT PREPARED 'ends'");
my $left = drop_prepared('left');
is( $sql->("SELECT problem, detail FROM taskq_check() WHERE problem LIKE 'shared memory%' ORDER BY 2"),
	join("\n", map { "shared memory has an entry of a removed object|$_" } "counter of queue $left", "counter of worker $worker", "metrics of queue $left"),
	'taskq_check() names entries that have leaked');
kill 'CONT', $process;
is($sql->('SELECT problem, detail FROM taskq_check()'), '', 'the leaked entries are freed');
is($sql->($counters), $before, 'all of them are freed');

# While an entry is being freed another queue may get its number.
my $holds = $node->background_psql('postgres');
$holds->query_safe('SELECT pg_advisory_lock(74111, 1)');
$node->append_conf('postgresql.conf', "taskq.debug_point = 'leaked_found'");
$node->reload;
$sql->("SELECT taskq_create_queue('former', '{\"max_running\": 1}'), taskq_submit('former'); SELECT task_id FROM taskq_claim('former')");
my $number = drop_prepared('former');
ok(within(30, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = " . worker_pid($node)) eq '1' }),
	'the background worker has found an entry');
$sql->("SELECT setval('taskq.queue_id_seq', $number, false); SELECT taskq_create_queue('next', '{\"max_running\": 2}');"
	  . " SELECT taskq_submit('next') FROM generate_series(1, 3)");
is($sql->("SELECT queue_id FROM taskq.queue WHERE name = 'next'"), $number, 'another queue has its number');
is($sql->("SELECT pending FROM taskq.queues WHERE queue = 'next'"), '3', 'its numbers are known');
$node->append_conf('postgresql.conf', "taskq.debug_point = ''");
$node->reload;
$holds->query_safe('SELECT pg_advisory_unlock(74111, 1)');
$holds->quit;
ok(within(30, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") eq '0' }), 'the entry is freed');
is($sql->("SELECT pending FROM taskq.queues WHERE queue = 'next'"), '3', 'its numbers are right afterwards');
is($sql->("SELECT count(*) FROM taskq_claim('next', max_tasks => 5)"), '2', 'its limit holds');
sound($node);
$node->stop('fast');
done_testing();

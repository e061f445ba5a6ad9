# The counters in shared memory are bounded: with more queues than there is room
# for, after a restart, and on a promoted standby. They are right when other
# sessions work during a count.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('counters', init => { allows_streaming => 1 }, 'taskq.max_counters' => 16, 'autovacuum' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash, or reach a standby, immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});

# How the view differs from the rows; empty if it does not.
my $differences = <<'SQL';
SELECT q.queue, q.pending, q.running, q.suspended, t.pending, t.running, t.suspended
  FROM taskq.queues q
  LEFT JOIN (SELECT queue, count(*) FILTER (WHERE state = 'pending') AS pending,
                    count(*) FILTER (WHERE state = 'running') AS running,
                    count(*) FILTER (WHERE state = 'suspended') AS suspended
               FROM taskq.tasks GROUP BY 1) t USING (queue)
 WHERE (q.pending, q.running, q.suspended)
       IS DISTINCT FROM (coalesce(t.pending, 0), coalesce(t.running, 0), coalesce(t.suspended, 0))
SQL
my $right = sub {
	my ($name, $where) = @_;
	is(($where // $node)->safe_psql('postgres', $differences), '', "$name: the numbers are right");
};

# --- forty queues, and room for fifteen
$sql->('SELECT taskq_create_queue(\'q\' || i, \'{"max_running": 2}\') FROM generate_series(1, 3) AS i');
$sql->('SELECT taskq_create_queue(\'q\' || i, \'{"max_depth": 4}\') FROM generate_series(4, 6) AS i');
$sql->('SELECT taskq_create_queue(\'q\' || i) FROM generate_series(7, 40) AS i');
$sql->("SELECT count(*) FROM generate_series(1, 15) AS i, taskq_submit_many('q' || i, array_fill('{}'::jsonb, ARRAY[3]))");
$right->('fifteen queues');
is($sql->("SELECT count(*) FROM taskq_claim('q1', max_tasks => 3, lease => '1 h')"), '2', 'max_running of the first queue is kept');

$sql->("SELECT count(*) FROM generate_series(16, 40) AS i, taskq_submit_many('q' || i, array_fill('{}'::jsonb, ARRAY[3]))");
$right->('forty queues');
$sql->("SELECT count(*) FROM generate_series(7, 40) AS i, taskq_claim('q' || i, lease => '1 h')");
$right->('after claims');

$sql->('SELECT taskq_alter_queue(\'q39\', \'{"max_running": 2}\'), taskq_alter_queue(\'q40\', \'{"max_depth": 4}\')');
is(error_of($node, "SELECT taskq_claim('q39')"), '53400', 'max_running of a queue without a counter is an error');
is(error_of($node, "SELECT taskq_submit('q40')"), '53400', 'max_depth of a queue without a counter is an error');
is(error_of($node, "SELECT taskq_register('w', max_running => 1); SELECT taskq_claim('q38', 'w')"), '53400',
	'max_running of a worker without a counter is an error');
is($sql->("SELECT count(*) FROM taskq_claim('q1', max_tasks => 3, lease => '1 h')"), '0', 'the first queue is at its limit');
is($sql->("SELECT count(*) FROM taskq_claim('q2', max_tasks => 3, lease => '1 h')"), '2', 'the second queue has its limit, too');
is(error_of($node, "SELECT taskq_submit('q4')"), '', 'a queue below max_depth takes a task');
is(error_of($node, "SELECT taskq_submit('q4')"), 'TQ008', 'max_depth is kept');
is($sql->("SELECT count(*) FROM taskq_claim('q38', max_tasks => 3, lease => '1 h')"), '2', 'queues without limits work');
$right->('after refusals');

for my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	$node->start;
	$right->("after a stop ($mode), with too many queues");
}
# which queues have a counter is different now
my ($without) = grep {
	$sql->("SELECT taskq_alter_queue('q$_', '{\"max_running\": 3}')");
	error_of($node, "SELECT taskq_claim('q$_', lease => '1 h') \\g /dev/null") eq '53400'
} 7 .. 38;
ok($without, 'a queue has no counter');
$sql->("SELECT taskq_drop_queue('q' || i, force => true) FROM generate_series(7, 38) AS i WHERE i <> $without");
# a session begins to count, and is cancelled
my $stopper = $node->background_psql('postgres');
$stopper->query_safe('SELECT pg_advisory_lock(74111, 1)');
is(error_of($node, "SET taskq.debug_point = 'live_counted'; SET statement_timeout = '500ms'; SELECT pending FROM taskq.queues"),
	'57014', 'a recount is cancelled');
$stopper->quit;
$sql->("SELECT taskq_submit('q1')");
is($sql->("SELECT pending + running FROM taskq.queues WHERE queue = 'q1'"),
	$sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q1'"), 'tasks that are submitted then are counted');
$sql->("SELECT taskq_submit('q$without')");
is($sql->("SELECT pending + running FROM taskq.queues WHERE queue = 'q$without'"),
	$sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q$without'"), 'there is room again: tasks from before are counted, too');
is($sql->("SELECT count(*) FROM taskq_claim('q39', max_tasks => 3, lease => '1 h')"), '1', 'running tasks are counted');
is(error_of($node, "SELECT taskq_submit('q40')"), '', 'a queue below max_depth takes a task');
is(error_of($node, "SELECT taskq_submit('q40')"), 'TQ008', 'max_depth is kept');
$right->('after drops');

# --- a restart, a crash
for my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	$node->start;
	$right->("after a stop ($mode)");
	is($sql->("SELECT count(*) FROM taskq_claim('q1', max_tasks => 3, lease => '1 h')"), '0', 'running tasks are counted');
	is(error_of($node, "SELECT taskq_submit('q4')"), 'TQ008', 'waiting tasks are counted');
}

# --- a standby counts rows; once promoted, it has counters
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('counters_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$right->('on a standby', $standby);
$sql->("SELECT count(*) FROM taskq_claim('q3', lease => '1 h')");
my $run = $sql->("SELECT task_id || ', ' || token FROM taskq.tasks WHERE queue = 'q1' AND state = 'running' LIMIT 1");
$sql->("SELECT taskq_complete($run)");
$node->wait_for_catchup($standby);
$right->('which follows', $standby);
$node->stop('fast');
$standby->promote;
ok(within(20, sub { worker_pid($standby) ne '' }), 'the standby is promoted');
$right->('after that', $standby);
is($standby->safe_psql('postgres', "SELECT count(*) FROM taskq_claim('q3', max_tasks => 3, lease => '1 h')"), '1',
	'tasks that ran are counted');
is($standby->safe_psql('postgres', "SELECT count(*) FROM taskq_claim('q1', max_tasks => 3, lease => '1 h')"), '1',
	'tasks that had ended are not');
sound($standby);
sound($node) if $node->start;

# --- running tasks are counted while a row moves to a page that the count has
# passed: a task before it was removed, and a new row version fits there
$sql->(<<'SQL');
SELECT taskq_drop_queue(queue, force => true) FROM taskq.queues;
VACUUM FULL taskq.task;
SELECT taskq_create_queue('m', '{"max_running": 2, "retention": "none"}');
SELECT taskq_submit('m', priority => p) FROM generate_series(4, 1, -1) AS p;
SQL
my ($first, $second, $third) = split /\n/, $sql->("SELECT task_id || ', ' || token FROM taskq_claim('m', max_tasks => 2, lease => '1 h')");
$sql->("SELECT taskq_complete($first)");
($third) = split /\n/, $sql->("SELECT task_id || ', ' || token FROM taskq_claim('m', lease => '1 h')");
$sql->('VACUUM (INDEX_CLEANUP on) taskq.task');
my $place = sub { $sql->("SELECT ctid FROM taskq.task WHERE task_id = split_part('$_[0]', ',', 1)::bigint") };
my ($at_second, $at_third) = map { $place->($_) } $second, $third;

my $counting = $node->background_psql('postgres');
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$sql->('SELECT taskq.debug_wipe()');
$counting->query_safe("SET taskq.debug_point = 'limit_scanning'");
$counting->query_until(qr/^$/, "SELECT 'claimed', count(*) FROM taskq_claim('m', max_tasks => 3, lease => '1 h');\n");
ok(within(20, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") eq '1' }),
	'a session counts, and has seen one task');
# both rows are written again; one of them has not been seen
$sql->("SELECT taskq_extend($_, '2 h')") for $second, $third;
note "second $at_second, then " . $place->($second) . "; third $at_third, then " . $place->($third);
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
my $claimed = $counting->query_until(qr/claimed\|\d+/, "\n");
is($sql->("SELECT running FROM taskq.queues WHERE queue = 'm'"), '2', 'two tasks run, and no more');
$counting->quit;
$holder->quit;
sound($node);
$node->stop('fast');
$standby->stop('fast');
done_testing();

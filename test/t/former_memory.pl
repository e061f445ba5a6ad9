# The extension is replaced: by DROP EXTENSION and CREATE EXTENSION in one
# transaction, with savepoints, by a command that also drops it, and by prepared
# transactions. Keys, limits, leases and numbers of the new extension start from
# zero in shared memory, and its background worker serves it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('former_memory', 'autovacuum' => 'off', 'taskq.max_counters' => 100);
my $name;
my $made = 0;
my $run = sub { $node->safe_psql($name, shift) };
my $other = sub { $node->safe_psql('postgres', shift) };

my $prepare = sub {
	my ($statements, $end) = @_;

	$run->("BEGIN; $statements; PREPARE TRANSACTION '$name'");
	$run->("$end PREPARED '$name'");
};
my $renew = 'DROP EXTENSION taskq; CREATE EXTENSION taskq';
my @ways = (
	[ 'in one transaction', sub { $run->("BEGIN; $renew; COMMIT") } ],
	[   'with work before and after',
		sub {
			$run->("BEGIN; SELECT taskq_submit('leases'), taskq_submit('keyed', key => 'k'); $renew; "
				  . "SELECT taskq_create_queue('keyed', '{\"key_policy\": \"serial\"}'); COMMIT");
		} ],
	[ 'after a savepoint', sub { $run->("BEGIN; SAVEPOINT s; DROP EXTENSION taskq; ROLLBACK TO s; $renew; COMMIT") } ],
	[ 'with its schema', sub { $run->('BEGIN; DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE EXTENSION taskq; COMMIT') } ],
	[ 'by a prepared drop', sub { $prepare->('DROP EXTENSION taskq', 'COMMIT'); $run->('CREATE EXTENSION taskq') } ],
	[ 'by a prepared replacement', sub { $prepare->($renew, 'COMMIT') } ]);

for my $way (@ways)
{
	begin_with($way->[0]);
	$way->[1]->();
	begins_anew($way->[0]);
}

# A replacement that is rolled back changes nothing.
begin_with('rolled back');
$run->("BEGIN; $renew; ROLLBACK; BEGIN; SAVEPOINT s; DROP EXTENSION taskq; ROLLBACK TO s; COMMIT");
is($run->("SELECT sum(value) FROM taskq.metrics WHERE name = 'tasks.submitted'"), '62', 'after a rollback: the numbers are kept');
$prepare->($renew, 'ROLLBACK');
is($run->("SELECT sum(value) FROM taskq.metrics WHERE name = 'tasks.submitted'"), '62', 'after ROLLBACK PREPARED: too');
is($run->("SELECT count(*) FROM taskq_claim('limited', max_tasks => 5)"), '0', 'the limit holds');
sound($node, database => $name);

# begin_with(NAME): a database whose extension has left something in every part
# of shared memory.
sub begin_with
{
	my ($what) = @_;

	$name = 'memory' . ++$made;
	$other->("CREATE DATABASE $name");
	$run->(<<'SQL');
CREATE EXTENSION taskq;
SELECT taskq_create_queue('keyed', '{"key_policy": "serial"}'), taskq_create_queue('limited', '{"max_running": 2}'),
       taskq_create_queue('leases');
SELECT taskq_submit('keyed', key => 'k') FROM generate_series(1, 20);
DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM taskq_complete(task_id, token) FROM taskq_claim('keyed'); END LOOP; END $$;
SELECT taskq_submit('limited'), taskq_submit('limited');
SELECT count(*) FROM taskq_claim('limited', max_tasks => 5, lease => '1 h');
SELECT taskq_submit_many('leases', array_fill('{}'::jsonb, ARRAY[40]));
SELECT count(*) FROM taskq_claim('leases', max_tasks => 100, lease => '1 h');
SELECT taskq_register('w', max_running => 1);
SQL
	for (1 .. 3)
	{
		$run->("SELECT count(*) FROM (SELECT array_agg(task_id) AS ids, array_agg(token) AS tokens FROM taskq.tasks WHERE queue = 'leases') t,"
			  . " taskq_extend_many(ids, tokens, '1 h')");
	}
	ok(within(60, sub { worker_pid($node, $name) ne '' }), "$what: a background worker");
	return;
}

# begins_anew(NAME): nothing of the former extension remains, and everything
# works.
sub begins_anew
{
	my ($what) = @_;

	$run->(<<'SQL');
SELECT taskq_create_queue('keyed', '{"key_policy": "serial"}') WHERE NOT EXISTS (SELECT FROM taskq.queues WHERE queue = 'keyed');
SELECT taskq_create_queue('limited', '{"max_running": 2}'), taskq_create_queue('leases');
SELECT taskq_submit('keyed', key => 'k'), taskq_submit('keyed', key => 'k');
SELECT taskq_submit('limited');
SELECT taskq_submit_many('leases', array_fill('{}'::jsonb, ARRAY[60]));
SQL
	is($run->("SELECT string_agg(state, ',' ORDER BY task_id) FROM taskq.tasks WHERE queue = 'keyed'"),
		'pending,blocked', "$what: one of two tasks of a key waits");
	is($run->("SELECT count(*) FROM taskq_claim('keyed', max_tasks => 5)"), '1', "$what: the other one is claimed");
	is($run->("SELECT count(*) FROM taskq_claim('limited', max_tasks => 5)"), '1', "$what: the limit has room");
	is($run->("SELECT taskq_register('w', max_running => 1); SELECT count(*) FROM taskq_claim('leases', 'w', max_tasks => 5)"),
		"0\n1", "$what: the limit of a worker has room");
	is($run->("SELECT queue, pending, running FROM taskq.queues WHERE queue = 'limited'"), 'limited|0|1', "$what: numbers");
	is($run->("SELECT sum(value) FROM taskq.metrics WHERE name = 'tasks.submitted'"), '63', "$what: metrics");
	is($run->("SELECT count(*) FROM taskq_claim('leases', max_tasks => 100, lease => '1 s')"), '59', "$what: leases can be taken");
	ok(within(60, sub { $run->("SELECT count(*) FROM taskq.tasks WHERE queue = 'leases' AND state = 'running'") eq '1' }),
		"$what: leases expire");
	sound($node, database => $name);
	$other->("DROP DATABASE $name");
	return;
}

$node->stop('fast');
done_testing();

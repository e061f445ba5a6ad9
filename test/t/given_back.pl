# Entries of shared memory for queues and workers that a transaction makes and
# that are rolled back, with it or with a savepoint, or are prepared: all of them
# are given back.  (Suites that wrap each test in a transaction do just this.)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('given_back', 'autovacuum' => 'off', 'taskq.max_counters' => 20, 'taskq.max_workers' => 20);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $rounds = 50;    # more than there is room for

# What uses one entry of each kind: a counter for a queue, one for a worker,
# a heartbeat.
my $work = <<'SQL';
PERFORM taskq_create_queue('limited', '{"max_running": 2}');
PERFORM taskq_submit('limited'), taskq_submit('made by a submit');
PERFORM taskq_register('worker', max_running => 2);
PERFORM taskq_claim('limited', 'worker');
PERFORM taskq_claim('made by a submit');
SQL
my $plain = $work =~ s/PERFORM/SELECT/gr;

# used(): entries in use
sub used { return $sql->("SELECT check_name, detail FROM taskq_health() WHERE check_name IN ('counters', 'workers') ORDER BY 1") }

$sql->("SELECT taskq_create_queue('mail', '{\"max_running\": 2}'), taskq_submit('mail'); SELECT taskq_claim('mail');"
	  . " SELECT taskq_register('keeps', max_running => 1)");
my $before = used();

$sql->("BEGIN; $plain ROLLBACK") for 1 .. $rounds;
is(used(), $before, 'after roll-backs');
$sql->("DO \$\$ BEGIN FOR i IN 1 .. $rounds LOOP BEGIN $work RAISE EXCEPTION 'undo'; EXCEPTION WHEN raise_exception THEN END; END LOOP; END \$\$");
is(used(), $before, 'after savepoints that roll back');
for (1 .. $rounds)
{
	$sql->("BEGIN; $plain PREPARE TRANSACTION 'given back'");
	$sql->("ROLLBACK PREPARED 'given back'");
}
is(used(), $before, 'after prepared transactions that roll back');

# A savepoint that stays, and a commit, keep what they have made.
$sql->("BEGIN; SAVEPOINT s; $plain RELEASE s; COMMIT");
is($sql->("SELECT count(*) FROM taskq_submit_many('limited', array_fill('{}'::jsonb, ARRAY[5])); SELECT count(*) FROM taskq_claim('limited', max_tasks => 5)"),
	"5\n1", 'the limit of a queue that was committed');
is($sql->("SELECT count(*) FROM taskq_submit_many('mail', array_fill('{}'::jsonb, ARRAY[5])); SELECT count(*) FROM taskq_claim('mail', max_tasks => 5)"),
	"5\n1", 'and that of one that was there before');
is($sql->("SELECT count(*) FROM taskq.workers WHERE state = 'active'"), '2', 'a worker that was committed');
sound($node);
$node->stop('fast');
done_testing();

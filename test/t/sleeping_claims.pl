# Maintenance commands run while sessions sleep. A waiting claim holds no lock
# on a table or index and no transaction id, so commands that need a table for
# themselves run immediately, and submits run at the same time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use TaskqWaiters;
use Time::HiRes qw(time);

my $node = start_node('sleeping', 'fsync' => 'off', 'autovacuum' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };

waiters_of($node);
$sql->("SELECT taskq_create_queue('q'), taskq_create_queue('limited', '{\"max_running\": 1}'), taskq_register('all', '{q,limited}'), taskq_register('w')");
$sql->("SELECT taskq_submit('limited'), taskq_submit('limited')");
$sql->("SELECT FROM taskq_claim('limited', lease => '1 h')");

# Sessions of each kind: one queue, tags, a new label, a registered worker, all
# queues, a queue that does not exist, a limit that is reached.
my @kinds = ("'q'", "'q', tags => '{a,b}'", "'q', 'label'", "'q', 'w'", "NULL, 'all'", "'none'", "'limited'");
my @waiters = map { claimer($kinds[ $_ % @kinds ]) } 1 .. 20;

sub held
{
	return $sql->(<<'SQL');
SELECT count(*) FROM pg_stat_activity a
 WHERE a.query LIKE '%taskq_claim%' AND a.pid <> pg_backend_pid() AND a.state = 'active'
   AND (a.backend_xid IS NOT NULL OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype NOT IN ('virtualxid')))
SQL
}
sub all_asleep { return asleep(@waiters) }

ok(within(30, \&all_asleep), 'twenty claims sleep');
is(held(), 0, 'they have no lock and no transaction number');
for my $command (
	'REINDEX TABLE taskq.task', 'VACUUM FULL taskq.task', 'CLUSTER taskq.task USING task_dispatch_idx', 'REINDEX SCHEMA taskq',
	'VACUUM FULL taskq.queue, taskq.lane, taskq.worker, taskq.role, taskq.key', 'ALTER TABLE taskq.task SET (fillfactor = 60)',
	'ALTER TABLE taskq.task SET (fillfactor = 50)', 'CREATE INDEX IF NOT EXISTS theirs ON taskq.task (task_id, queue_id)', 'DROP INDEX IF EXISTS taskq.theirs',
	'LOCK TABLE taskq.task, taskq.queue_change IN ACCESS EXCLUSIVE MODE')
{
	timely(1, "$command ends immediately", sub {
		my $begun = time;

		$sql->($command =~ /^LOCK/ ? "BEGIN; $command; COMMIT" : $command);
		return time - $begun;
	});
	timely(1, 'a submit ends immediately, too', sub {
		my $begun = time;

		$sql->("SELECT taskq_submit('theirs')");
		return time - $begun;
	});
}
my $theirs = $sql->("SELECT taskq_purge('theirs', '{pending}')");
ok(within(30, \&all_asleep), 'the claims still sleep');
is(held(), 0, 'they still have no lock');

# --- CONCURRENTLY waits for their snapshots, but no longer than they wait
my ($rc, $out, $err) = $node->psql('postgres', "SET statement_timeout = '1 s'; REINDEX TABLE CONCURRENTLY taskq.task");
like($err, qr/statement timeout/, 'REINDEX CONCURRENTLY waits for statements that sleep');
$sql->('REINDEX TABLE taskq.task');
$sql->($_) for map { "DROP INDEX IF EXISTS taskq.$_" } split /\n/, $sql->(<<'SQL');
SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid AND c.relnamespace = 'taskq'::regnamespace
SQL

# --- the sessions claim with the new objects, and keep the tasks that they
# claim
$sql->("SELECT taskq_submit_many('q', array_fill('{}'::jsonb, ARRAY[20]))");
my @got = map { answer($waiters[$_]) } grep { $kinds[ ($_ + 1) % @kinds ] ne "'none'" && $kinds[ ($_ + 1) % @kinds ] ne "'limited'" } 0 .. 19;
is(join(' ', grep { $_ ne '{}' } @got), '', 'each gets a task');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q' AND state = 'running'"), scalar @got, 'each keeps its task');
my $in = open_session($node);
$in->query_safe("BEGIN; SELECT FROM taskq_claim('q', wait => '1 min')");
is($sql->("SELECT count(*) > 0 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'task' AND l.mode = 'RowExclusiveLock'"), 't',
	'a claim that has waited in a transaction holds its locks to the end');
$in->query_safe('ROLLBACK');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q' AND state = 'pending'"), 20 - @got, 'its task is returned by the rollback');
$in->quit;

# --- taskq_claim_one, which reads documents
$sql->("SELECT taskq_purge('q', '{pending}')");
my $one = sleeper("SELECT count(*) FROM taskq_claim_one('label', '{q}', '1 h', '[]', wait => '1 min');");
ok(within(30, sub { asleep($one) }), 'taskq_claim_one sleeps');
is(held(), 0, 'it has no lock, either');
$sql->('VACUUM FULL taskq.task');
$sql->("SELECT taskq_submit('q')");
is(answer($one), 1, 'it gets a task');

# --- DROP EXTENSION ends sleeping sessions
timely(5, 'DROP EXTENSION waits for none of them', sub { my $begun = time; $sql->('DROP EXTENSION IF EXISTS taskq'); return time - $begun });
$node->stop('immediate');
unlike(slurp_file($node->logfile), qr/\] XX\w{3} |PANIC|resource was not closed/, 'no class XX and no PANIC in the log');
done_testing();

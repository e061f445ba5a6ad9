# done and dead in taskq.queues are the numbers at counted_at: a task counts if
# its transaction had committed by then.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my ($node, $sql);

# Only taskq_run_reapers() counts here.
my %settings = ('track_commit_timestamp' => 'on', 'autovacuum' => 'off', 'taskq.reaper_interval' => "'1h'");

sub finish { return "SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('many', max_tasks => $_[0])" }
sub kill_tasks { return "SELECT count(taskq_fail(task_id, token, 'e', retryable => false)) FROM taskq_claim('many', max_tasks => $_[0])" }

# is_counted(NUMBERS, NAME): done and dead of the view, which must be the tasks
# that were committed by counted_at and not removed since.
sub is_counted
{
	my ($numbers, $name, %how) = @_;

	is($sql->("SELECT done, dead FROM taskq.queues WHERE queue = 'many'"), $numbers, $name);
	is($sql->(<<'SQL'), $numbers, "$name: the numbers are those that were committed then") unless $how{purged};
SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state = 'dead')
  FROM (SELECT taskq.state_name(a.state) AS state FROM taskq.archive a JOIN taskq.queue q USING (queue_id)
         WHERE q.name = 'many' AND pg_xact_commit_timestamp(a.xmin) <= (SELECT counted_at FROM taskq.queues WHERE queue = 'many')) t
SQL
}

# Counts the leaves that have changed.
sub count_now
{
	my $since = $sql->('SELECT clock_timestamp()');

	return if within(60, sub {
		$sql->('SELECT count(*) FROM taskq_run_reapers()');
		$sql->("SELECT counted_at > '$since' FROM taskq.queues WHERE queue = 'many'") eq 't' });
	fail('the count is done in time');
}

sub begin_test
{
	($node) = @_;
	$sql = sub { $node->safe_psql('postgres', shift) };
	$sql->("SELECT count(*) FROM taskq_submit_many('many', array_fill('{}'::jsonb, ARRAY[700]))");
	$sql->(finish(120));
	is($sql->("SELECT coalesce(done, 0), coalesce(dead, 0) FROM taskq.queues WHERE queue = 'many'"), '0|0', 'a new task is not counted yet');
}

begin_test(start_node('finished_numbers', %settings));
count_now();
is_counted('120|0', 'many');
$sql->(kill_tasks(3));
is_counted('120|0', 'few dead tasks are as of the same moment as many done ones');
count_now();
is_counted('120|3', 'the next count has both');
$sql->("SELECT taskq_purge('many', '{done}', max_tasks => 60)");
is_counted('120|3', 'a purged task is in the numbers of the count before', purged => 1);
count_now();
is_counted('60|3', 'a purged task is not in the numbers of the count after');

# --- other sessions work at the same time, some without a report to the
# server's statistics
my $other = open_session($node);
$other->query_safe('SET track_counts = off');
$other->query_safe('BEGIN; ' . finish(30));
$sql->(finish(1));
count_now();
is_counted('61|3', 'an uncommitted task is not counted');
$other->query_safe('COMMIT');
is_counted('61|3', 'after its commit the numbers are still those of the previous count');
count_now();
is_counted('91|3', 'the next count has it');
$other->query_safe(finish(2));
count_now();
is_counted('93|3', 'a task of a later transaction is counted, too');
$other->query_safe("SELECT taskq_purge('many', '{done}', max_tasks => 3)");
count_now();
is_counted('90|3', 'or removed');
$other->query_safe("SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'many' AND state = 'dead' LIMIT 1");
count_now();
is_counted('90|2', 'a task that was retried is no longer counted');

# --- prepared transactions
$other->query_safe("BEGIN; " . finish(10) . "; PREPARE TRANSACTION 'p'");
$sql->(finish(1));
count_now();
is_counted('91|2', 'a prepared end is not counted');
$other->query_safe("COMMIT PREPARED 'p'");
is_counted('91|2', 'after its commit the numbers are still those of the previous count');
count_now();
is_counted('101|2', 'the next count has it');

# --- counted by a transaction that has finished tasks itself
$sql->(finish(1));
my $own = open_session($node);
$own->query_safe('BEGIN; ' . finish(20) . '; SELECT count(*) FROM taskq_run_reapers(); COMMIT');
is_counted('102|2', 'the end of a counting transaction commits later');
count_now();
is_counted('122|2', 'it is counted later');

# --- while a snapshot is held
$own = open_session($node);
$own->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
$sql->(finish(4));
is($own->query_safe("SELECT count(*) > 5 FROM taskq_run_reapers()"), 't', 'duties run in a transaction with an old snapshot');
$own->query_safe('COMMIT');
is_counted('126|2', 'they count what is committed');
$own = open_session($node);
$own->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
$sql->(finish(4));
count_now();
$sql->(finish(4));
is($own->query_safe("SELECT count(*) > 5 FROM taskq_run_reapers()"), 't', 'duties run with a snapshot that is older than the last count');
is($own->query_safe("SELECT done, dead FROM taskq.queues WHERE queue = 'many'"), '130|2', 'they count nothing, and read that count');
$own->query_safe('COMMIT');
is_counted('130|2', 'that count stays');

# --- lost memory
$sql->('SELECT taskq.debug_wipe()');
$sql->(finish(1));
count_now();
is_counted('135|2', 'after a loss of memory');
$node->stop('immediate');
$node->start;
$sql->(finish(1));
count_now();
is_counted('136|2', 'after a crash');
sound($node);
$node->stop('fast');

# --- without preloading
my $unloaded = PostgreSQL::Test::Cluster->new('finished_numbers_unloaded');
$unloaded->init;
$unloaded->append_conf('postgresql.conf', "track_commit_timestamp = on\nautovacuum = off");
$unloaded->start;
$unloaded->safe_psql('postgres', 'CREATE EXTENSION taskq');
begin_test($unloaded);
count_now();
is_counted('120|0', 'not preloaded: many');
$sql->(kill_tasks(3));
is_counted('120|0', 'not preloaded: few dead tasks are as of the count before');
count_now();
is_counted('120|3', 'not preloaded: both');
$other = open_session($node);
$other->query_safe('SET track_counts = off; ' . kill_tasks(2));
$sql->(finish(1));
count_now();
is_counted('121|5', 'not preloaded: also in a leaf that the statistics do not report');
$node->stop('fast');
done_testing();

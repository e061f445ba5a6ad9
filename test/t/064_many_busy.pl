# More tasks than one batch of a duty that an open transaction is deciding
# about: leases, deadlines, dead workers and timers of all others are seen to
# meanwhile, and of these when it is over.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $BUSY = 350;

my $node = start_node('many_busy', 'taskq.deadline_interval' => "'1s'");
my $sql = sub { $node->safe_psql('postgres', shift) };

sub holder
{
	my $session = $node->background_psql('postgres');

	$session->set_query_timer_restart;
	return $session;
}

sub count_is
{
	my ($queue, $state, $count, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT count(*) = $count FROM taskq.tasks WHERE queue = '$queue' AND state = '$state'"), $what)
	  or die 'the rest would wait as long';
}

$sql->("SELECT taskq_create_queue('busy'), taskq_create_queue('free')");
my $open = holder();

# --- leases
$sql->("SELECT taskq_submit('busy') FROM generate_series(1, $BUSY)");
$sql->("CREATE TABLE held AS SELECT task_id, token FROM taskq_claim('busy', max_tasks => $BUSY, lease => '2 s')");
$open->query_safe('BEGIN; SELECT count(*) FROM taskq_complete_many((SELECT array_agg(task_id) FROM held), (SELECT array_agg(token) FROM held))');
$sql->("SELECT taskq_submit('free') FROM generate_series(1, 20)");
is($sql->("SELECT count(*) FROM taskq_claim('free', max_tasks => 20, lease => '3 s')"), 20, 'claimed');
count_is('free', 'pending', 20, 'leases of others end');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'running'"), $BUSY, 'those that somebody is just ending do not');
$open->query_safe('ROLLBACK');
count_is('busy', 'pending', $BUSY, 'but when that is over');

# --- deadlines
$sql->("SELECT taskq_purge('busy'), taskq_purge('free')");
$sql->("SELECT taskq_submit('busy', deadline => now() + interval '2 s') FROM generate_series(1, $BUSY)");
$open->query_safe("BEGIN; SELECT count(*) FROM taskq_claim('busy', max_tasks => $BUSY)");
$sql->("SELECT taskq_submit('free', deadline => now() + interval '3 s') FROM generate_series(1, 20)");
count_is('free', 'dead', 20, 'deadlines of others');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'pending'"), $BUSY, 'and not of what somebody is about to claim');
$open->query_safe('ROLLBACK');
count_is('busy', 'dead', $BUSY, 'but when that is over');

# --- dead workers
$sql->("SELECT taskq_purge('busy', '{dead}'), taskq_purge('free', '{dead}')");
$sql->('DROP TABLE held');
$sql->("SELECT taskq_submit('busy') FROM generate_series(1, $BUSY)");
$sql->("SELECT taskq_register('holds'), taskq_register('dies')");
$sql->("CREATE TABLE held AS SELECT task_id, token FROM taskq_claim('busy', worker => 'holds', max_tasks => $BUSY)");
$open->query_safe('BEGIN; SELECT count(*) FROM taskq_complete_many((SELECT array_agg(task_id) FROM held), (SELECT array_agg(token) FROM held))');
$sql->("SELECT taskq_submit('free') FROM generate_series(1, 20)");
is($sql->("SELECT count(*) FROM taskq_claim('free', worker => 'dies', max_tasks => 20)"), 20, 'claimed');
$node->append_conf('postgresql.conf', "taskq.dead_threshold = '1s'");
$node->reload;
count_is('free', 'pending', 20, 'tasks of another dead worker go back');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'running'"), $BUSY, 'and not those that somebody is just ending');
$open->query_safe('ROLLBACK');
count_is('busy', 'pending', $BUSY, 'but when that is over');

# --- timers
$sql->("SELECT taskq_purge('busy'), taskq_purge('free')");
my $steps = join ', ', map { qq({"name": "t$_", "type": "timer", "timer": {"after": "2 s"}}) } 1 .. $BUSY;
$sql->(qq{SELECT taskq_define_workflow('{"name": "many", "version": "1", "queue": "busy", "steps": [{"name": "s", "type": "signal", "signal": {"name": "go"}}, $steps]}'),
	taskq_define_workflow('{"name": "one", "version": "1", "queue": "free", "steps": [{"name": "t", "type": "timer", "timer": {"after": "3 s"}}]}')});
my $many = $sql->("SELECT taskq_start_workflow('many')");
$open->query_safe("BEGIN; SELECT taskq_signal($many, 'go')");
$sql->("SELECT taskq_start_workflow('one')");
count_is('free', 'done', 1, 'a timer of another instance rings');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'suspended'"), $BUSY + 1, 'and not those of one that has just been given a signal');
$open->query_safe('COMMIT');
ok($node->poll_query_until('postgres', "SELECT state = 'done' FROM taskq.workflows WHERE workflow_id = $many"), 'but when that is over');
is($sql->('SELECT * FROM taskq_check()'), '', 'nothing is out of order');

$open->quit;
$node->stop;
done_testing();

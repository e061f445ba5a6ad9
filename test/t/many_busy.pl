# An open transaction is deciding about more tasks than one batch of a duty. In
# the meantime the background worker handles the leases, deadlines, dead
# workers and timers of all other tasks. It handles the events of these tasks
# when the transaction ends.
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

sub count_is
{
	my ($queue, $state, $count, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT count(*) = $count FROM taskq.tasks WHERE queue = '$queue' AND state = '$state'"), $what)
	  or die 'without this the rest would only time out';
}

$sql->("SELECT taskq_create_queue('busy'), taskq_create_queue('free')");
my $open = open_session($node);

# Removes the tasks that the previous case has left, all in this state.
sub empty
{
	my ($state) = @_;
	$sql->("SELECT taskq_purge('busy', '{$state}'), taskq_purge('free', '{$state}')");
	is($sql->('SELECT count(*) FROM taskq.tasks'), 0, 'nothing is left');
}

# A session is just finishing all tasks that are held.
sub ends_held
{
	is($open->query_safe('BEGIN; SELECT count(*) FROM held, taskq_complete(task_id, token)'), $BUSY, 'a session is finishing many tasks');
}

# --- leases
$sql->("SELECT taskq_submit('busy') FROM generate_series(1, $BUSY)");
$sql->("CREATE TABLE held AS SELECT task_id, token FROM taskq_claim('busy', max_tasks => $BUSY, lease => '2 s')");
ends_held();
$sql->("SELECT taskq_submit('free') FROM generate_series(1, 20)");
is($sql->("SELECT count(*) FROM taskq_claim('free', max_tasks => 20, lease => '3 s')"), 20, 'claimed');
count_is('free', 'pending', 20, 'leases of other tasks expire');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'running'"), $BUSY, 'leases of the tasks that are being finished do not');
$open->query_safe('ROLLBACK');
count_is('busy', 'pending', $BUSY, 'they expire when the transaction has ended');

# --- deadlines
empty('pending');
$sql->("SELECT taskq_submit('busy', deadline => now() + interval '2 s') FROM generate_series(1, $BUSY)");
is($open->query_safe("BEGIN; SELECT count(*) FROM taskq_claim('busy', max_tasks => $BUSY)"), $BUSY, 'a session is claiming many tasks');
$sql->("SELECT taskq_submit('free', deadline => now() + interval '3 s') FROM generate_series(1, 20)");
count_is('free', 'dead', 20, 'deadlines of other tasks pass');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'pending'"), $BUSY, 'deadlines of the tasks that are being claimed do not');
$open->query_safe('ROLLBACK');
count_is('busy', 'dead', $BUSY, 'they pass when the transaction has ended');

# --- dead workers
empty('dead');
$sql->('DROP TABLE held');
$sql->("SELECT taskq_submit('busy') FROM generate_series(1, $BUSY)");
$sql->("SELECT taskq_register('holds'), taskq_register('dies')");
$sql->("CREATE TABLE held AS SELECT task_id, token FROM taskq_claim('busy', worker => 'holds', max_tasks => $BUSY)");
ends_held();
$sql->("SELECT taskq_submit('free') FROM generate_series(1, 20)");
is($sql->("SELECT count(*) FROM taskq_claim('free', worker => 'dies', max_tasks => 20)"), 20, 'claimed');
$node->append_conf('postgresql.conf', "taskq.dead_threshold = '1s'");
$node->reload;
count_is('free', 'pending', 20, 'tasks of another dead worker are returned');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'running'"), $BUSY, 'the tasks that are being finished are not');
$open->query_safe('ROLLBACK');
count_is('busy', 'pending', $BUSY, 'they are returned when the transaction has ended');

# --- timers
empty('pending');
my $steps = join ', ', map { qq({"name": "t$_", "type": "timer", "timer": {"after": "2 s"}}) } 1 .. $BUSY;
$sql->(qq{SELECT taskq_define_workflow('{"name": "many", "version": "1", "queue": "busy", "steps": [{"name": "s", "type": "signal", "signal": {"name": "go"}}, $steps]}'),
	taskq_define_workflow('{"name": "one", "version": "1", "queue": "free", "steps": [{"name": "t", "type": "timer", "timer": {"after": "3 s"}}]}')});
my $many = $sql->("SELECT taskq_start_workflow('many')");
$open->query_safe("BEGIN; SELECT taskq_signal($many, 'go')");
$sql->("SELECT taskq_start_workflow('one')");
count_is('free', 'done', 1, 'a timer of another instance fires');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'suspended'"), $BUSY + 1, 'the timers of an instance that is just getting a signal do not');
$open->query_safe('COMMIT');
ok($node->poll_query_until('postgres', "SELECT state = 'done' FROM taskq.workflows WHERE workflow_id = $many"), 'they fire when the transaction has ended');
is($sql->('SELECT * FROM taskq_check()'), '', 'nothing is wrong');

$open->quit;
$node->stop;
done_testing();

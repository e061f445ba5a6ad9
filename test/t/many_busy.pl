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

sub count_is
{
	my ($queue, $state, $count, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT count(*) = $count FROM taskq.tasks WHERE queue = '$queue' AND state = '$state'"), $what)
	  or die 'the rest would wait as long';
}

$sql->("SELECT taskq_create_queue('busy'), taskq_create_queue('free')");
my $open = open_session($node);

# What the case before has left, which is all in this state, goes.
sub empty
{
	my ($state) = @_;
	$sql->("SELECT taskq_purge('busy', '{$state}'), taskq_purge('free', '{$state}')");
	is($sql->('SELECT count(*) FROM taskq.tasks'), 0, 'nothing is left');
}

# Somebody is just ending all that is held.
sub ends_held
{
	is($open->query_safe('BEGIN; SELECT count(*) FROM held, taskq_complete(task_id, token)'), $BUSY, 'somebody is just ending many');
}

# --- leases
$sql->("SELECT taskq_submit('busy') FROM generate_series(1, $BUSY)");
$sql->("CREATE TABLE held AS SELECT task_id, token FROM taskq_claim('busy', max_tasks => $BUSY, lease => '2 s')");
ends_held();
$sql->("SELECT taskq_submit('free') FROM generate_series(1, 20)");
is($sql->("SELECT count(*) FROM taskq_claim('free', max_tasks => 20, lease => '3 s')"), 20, 'claimed');
count_is('free', 'pending', 20, 'leases of others end');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'running'"), $BUSY, 'those that somebody is just ending do not');
$open->query_safe('ROLLBACK');
count_is('busy', 'pending', $BUSY, 'but when that is over');

# --- deadlines
empty('pending');
$sql->("SELECT taskq_submit('busy', deadline => now() + interval '2 s') FROM generate_series(1, $BUSY)");
is($open->query_safe("BEGIN; SELECT count(*) FROM taskq_claim('busy', max_tasks => $BUSY)"), $BUSY, 'somebody is about to claim many');
$sql->("SELECT taskq_submit('free', deadline => now() + interval '3 s') FROM generate_series(1, 20)");
count_is('free', 'dead', 20, 'deadlines of others');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'pending'"), $BUSY, 'and not of what somebody is about to claim');
$open->query_safe('ROLLBACK');
count_is('busy', 'dead', $BUSY, 'but when that is over');

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
count_is('free', 'pending', 20, 'tasks of another dead worker go back');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'busy' AND state = 'running'"), $BUSY, 'and not those that somebody is just ending');
$open->query_safe('ROLLBACK');
count_is('busy', 'pending', $BUSY, 'but when that is over');

# --- timers
empty('pending');
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

# For queues with option notify the background worker, and not the producer,
# sends NOTIFY. It sends fewer notifications than tasks, and also sends them for
# tasks that become due or are resumed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time clock_gettime CLOCK_MONOTONIC);

my $node = start_node('notify');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $long = 'x' x 100;
my $listener = $node->background_psql('postgres');
my %from;

# heard(CHANNEL): how many notifications have arrived by now; psql prints them
# after each statement
sub heard
{
	my ($channel) = @_;
	my @told = $listener->query('SELECT 1') =~ /notification "\Q$channel\E" received from server process with PID (\d+)/g;
	$from{$_} = 1 for @told;
	return scalar @told;
}

$sql->(qq{SELECT taskq_create_queue(q, '{"notify": true}') FROM unnest(ARRAY['n', '$long']) q});
$sql->(q{SELECT taskq_create_queue('limited', '{"notify": true, "max_running": 1}'), taskq_create_queue('silent')});
my $md5 = $sql->("SELECT md5('$long')");
$listener->query_safe("LISTEN $_") for 'taskq_n', "taskq_$md5", 'taskq_limited', 'taskq_silent';

$sql->("SELECT taskq_submit('n')");
ok(within(30, sub { heard('taskq_n') }), 'a task is notified');
$sql->("SELECT taskq_submit('$long')");
ok(within(30, sub { heard("taskq_$md5") }), 'a long queue name is sent as its hash');

# many commits, few notifications; and the last commit is not forgotten
my $begin = time;
$sql->(join "\n", map { "SELECT taskq_submit('n');" } 1 .. 500);
my $told = 0;
ok(within(30, sub { $told += heard('taskq_n'); $told > 0 }), 'many commits are notified');
cmp_ok($told, '<=', (time - $begin) / 0.05 + 2, 'not more than once in 50 ms');

# due times, limits, pauses
$sql->("SELECT taskq_drop_queue('n', true)");
$sql->(q{SELECT taskq_create_queue('n', '{"notify": true}')});
ok(within(30, sub { heard('taskq_n') }), 'a queue that is created again is notified immediately');

# The creation may be notified twice: when the worker has read of it, and when
# its commit raises the flag. Two notifications of another queue later, 50 ms
# apart, nothing of that is pending.
for (1 .. 2)
{
	$sql->("SELECT taskq_submit('$long')");
	within(30, sub { heard("taskq_$md5") }) or die 'no notification';
}
my $before = clock_gettime(CLOCK_MONOTONIC);
$sql->("SELECT taskq_submit('n', delay => '1 s')");
ok(within(30, sub { heard('taskq_n') }), 'a task that becomes due is notified');
cmp_ok(clock_gettime(CLOCK_MONOTONIC) - $before, '>=', 1, 'not before it is due');
$sql->("SELECT count(*) FROM taskq_submit_many('limited', '{1,2}')");
ok(within(30, sub { heard('taskq_limited') }), 'tasks of a queue with a limit are notified');
$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('limited')");
ok(within(30, sub { heard('taskq_limited') }), 'a limit that has room again is notified');
$sql->("SELECT taskq_pause('limited')");
within(2, sub { heard('taskq_limited') });
$sql->("SELECT taskq_resume('limited')");
ok(within(30, sub { heard('taskq_limited') }), 'a queue that is resumed is notified');
$sql->("SELECT taskq_pause('limited', until => clock_timestamp() + interval '1 s')");
within(0.5, sub { heard('taskq_limited') });
ok(within(30, sub { heard('taskq_limited') }), 'the end of a pause is notified');

# its memory is lost, or too small
$sql->('SELECT taskq.debug_wipe()');
$sql->("SELECT taskq_submit('n')");
ok(within(30, sub { heard('taskq_n') }), 'after a wipe notifications continue');
$sql->(q{SELECT taskq_create_queue('many ' || i, '{"notify": true}') FROM generate_series(1, 30) i});
$listener->query_safe('LISTEN "taskq_many 30"');
$sql->("SELECT taskq_submit('many 30')");
ok(within(30, sub { heard('taskq_many 30') }), 'more queues than there is room for');
$sql->("SELECT taskq_submit('many 30')");
ok(within(30, sub { heard('taskq_many 30') }), 'all of them are notified');
$sql->("SELECT taskq_submit('silent')");
$sql->("SELECT taskq_submit('n')");
ok(within(30, sub { heard('taskq_n') }), 'this queue is notified');
is(heard('taskq_silent'), 0, 'a queue without the option is not');
is(join(' ', keys %from), worker_pid($node), 'all notifications came from the background worker');
$listener->quit;
sound($node);
$node->stop('fast');
done_testing();

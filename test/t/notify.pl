# NOTIFY for queues with option notify: by the background worker, not by the
# producer; not one for each task; also for what becomes due and is resumed.
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

# heard(CHANNEL): how many have come by now; psql tells after each statement
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
ok(within(30, sub { heard('taskq_n') }), 'a task is told of');
$sql->("SELECT taskq_submit('$long')");
ok(within(30, sub { heard("taskq_$md5") }), 'a long name is told by its hash');

# many commits, few notifications; and the last commit is not forgotten
my $begin = time;
$sql->(join "\n", map { "SELECT taskq_submit('n');" } 1 .. 500);
my $told = 0;
ok(within(30, sub { $told += heard('taskq_n'); $told > 0 }), 'many commits are told of');
cmp_ok($told, '<=', (time - $begin) / 0.05 + 2, 'at most once in 50 ms');

# due times, limits, pauses
$sql->("SELECT taskq_drop_queue('n', true)");
$sql->(q{SELECT taskq_create_queue('n', '{"notify": true}')});
ok(within(30, sub { heard('taskq_n') }), 'made again, it is told of at once');

# The making may be told of twice: when the worker has read of it, and when
# its commit rings.  Two tellings of another queue later, 50 ms apart, nothing
# is left of that.
for (1 .. 2)
{
	$sql->("SELECT taskq_submit('$long')");
	within(30, sub { heard("taskq_$md5") }) or die 'not told';
}
my $before = clock_gettime(CLOCK_MONOTONIC);
$sql->("SELECT taskq_submit('n', delay => '1 s')");
ok(within(30, sub { heard('taskq_n') }), 'a task that becomes due is told of');
cmp_ok(clock_gettime(CLOCK_MONOTONIC) - $before, '>=', 1, 'and not before');
$sql->("SELECT count(*) FROM taskq_submit_many('limited', '{1,2}')");
ok(within(30, sub { heard('taskq_limited') }), 'tasks of a limited queue are told of');
$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('limited')");
ok(within(30, sub { heard('taskq_limited') }), 'so is a limit that has room again');
$sql->("SELECT taskq_pause('limited')");
within(2, sub { heard('taskq_limited') });
$sql->("SELECT taskq_resume('limited')");
ok(within(30, sub { heard('taskq_limited') }), 'so is a queue that is resumed');
$sql->("SELECT taskq_pause('limited', until => clock_timestamp() + interval '1 s')");
within(0.5, sub { heard('taskq_limited') });
ok(within(30, sub { heard('taskq_limited') }), 'so is the end of a pause');

# the memory of it is lost, or too small
$sql->('SELECT taskq.debug_wipe()');
$sql->("SELECT taskq_submit('n')");
ok(within(30, sub { heard('taskq_n') }), 'after a wipe it goes on');
$sql->(q{SELECT taskq_create_queue('many ' || i, '{"notify": true}') FROM generate_series(1, 30) i});
$listener->query_safe('LISTEN "taskq_many 30"');
$sql->("SELECT taskq_submit('many 30')");
ok(within(30, sub { heard('taskq_many 30') }), 'more queues than there is room for');
$sql->("SELECT taskq_submit('many 30')");
ok(within(30, sub { heard('taskq_many 30') }), 'are told of, too');
$sql->("SELECT taskq_submit('silent')");
$sql->("SELECT taskq_submit('n')");
ok(within(30, sub { heard('taskq_n') }), 'this one is told of');
is(heard('taskq_silent'), 0, 'a queue without the option is not');
is(join(' ', keys %from), worker_pid($node), 'all that was told was told by the background worker');
$listener->quit;
sound($node);
$node->stop('fast');
done_testing();

# The wall clock of the server steps by an hour, forward and backward: leases
# end no later than they should, tasks become due when they should, a worker
# that lost its lease early gets an error, and compensations run in the right
# order.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $LONG = 45;    # seconds: far more than it takes, far less than the step

my $node = start_node(
	'clock',
	'autovacuum' => 'off',
	'taskq.stale_threshold' => "'20s'",
	'taskq.dead_threshold' => "'600s'",
	'taskq.reaper_interval' => "'200ms'",
	'taskq.deadline_interval' => "'200ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});

# A claim as: id, token, attempt
sub claimed
{
	my ($more) = @_;
	return split /\|/, $sql->("SELECT task_id, token, attempt FROM taskq_claim('q', $more)");
}

sub step
{
	my ($seconds) = @_;

	$node->append_conf('postgresql.conf', "taskq.debug_clock_skew = $seconds");
	$node->reload;
	return $node->poll_query_until('postgres', "SELECT setting::int = $seconds FROM pg_settings WHERE name = 'taskq.debug_clock_skew'");
}

# comes_back(NAME, ID): a waiting worker gets the task as its second attempt.
sub comes_back
{
	my ($name, $id) = @_;
	my @next = claimed("wait => '$LONG s', lease => '1 h'");

	is(join(' ', @next[ 0, 2 ]), "$id 2", $name);
	return $next[1];
}

# flows(WHEN): tasks can be claimed, a lease and a delay that begin now have the
# right length, and a worker that has lost its lease is refused.
sub flows
{
	my ($when) = @_;
	my $id = $sql->("SELECT taskq_submit('q')");
	my @claim = claimed("lease => '300 ms'");

	is($claim[0], $id, "$when: a new task can be claimed immediately");
	my $token = comes_back("$when: its lease ends", $id);
	is(error_of($node, "SELECT taskq_complete($id, $claim[1])"), 'TQ001', "$when: the former worker is refused");
	is($sql->("SELECT taskq_fail($id, $token, 'e', retry_in => '300 ms')"), 'pending', "$when: the worker that has the task is not");
	@claim = claimed("wait => '$LONG s'");
	is(join(' ', @claim[ 0, 2 ]), "$id 3", "$when: a retry comes");
	is(error_of($node, "SELECT taskq_complete($id, $claim[1])"), '', "$when: the retry is completed");
	$id = $sql->("SELECT taskq_submit('q', delay => '300 ms')");
	@claim = claimed("wait => '$LONG s'");
	is($claim[0], $id, "$when: a delayed task becomes due");
	$sql->("SELECT taskq_complete($id, $claim[1])");
	return;
}

# No task is left.
sub clear
{
	$sql->("SELECT taskq_cancel(task_id, force => true) FROM taskq.tasks WHERE state IN ('pending', 'running')");
	return;
}

# begin(LEASE): a task that is claimed; its id and token
sub begin
{
	my ($lease) = @_;
	my $id = $sql->("SELECT taskq_submit('q')");

	return ($id, (claimed("lease => '$lease'"))[1]);
}

$sql->("SELECT taskq_create_queue('q', '{\"retry\": \"fixed\", \"retry_base\": \"0 s\"}')");
$sql->("SELECT taskq_register('w')");
flows('before');

# --- back by an hour
clear();
my ($id, $first) = begin('15 min');
my ($short) = begin('1 s');
ok(step(-3600), 'the clock steps back');
comes_back('a lease of a second ends all the same', $short);
flows('an hour back');
isnt($sql->("SELECT state FROM taskq.workers WHERE worker = 'w'"), 'dead', 'the worker stays alive');
is(error_of($node, "SELECT taskq_complete($id, $first)"), '', 'a long lease continues');

# --- forward by two hours: an hour ahead of the start
clear();
($id, $first) = begin('15 min');
ok(step(3600), 'the clock steps forward');
my $token = comes_back('a lease may end early', $id);
is(error_of($node, "SELECT taskq_complete($id, $first)"), 'TQ001', 'the former worker is refused');
is(error_of($node, "SELECT taskq_complete($id, $token)"), '', 'the worker that has the task is not');
flows('an hour ahead');
isnt($sql->("SELECT state FROM taskq.workers WHERE worker = 'w'"), 'dead', 'the worker stays alive');

# --- back to the right time
clear();
$sql->(q{SELECT taskq_define_workflow('{"name": "w", "version": "1", "queue": "u", "on_failure": "compensate", "steps": [
  {"name": "first", "compensate": {"handler": "h"}}, {"name": "second", "depends_on": ["first"], "compensate": {"handler": "h"}},
  {"name": "third", "depends_on": ["second"]}]}'); SELECT taskq_start_workflow('w')});
my $work = q{SELECT step, taskq_complete(task_id, token) FROM taskq_claim('u')};
is($sql->($work), 'first|', 'the first step ends');
($id, $first) = begin('15 min');
($short) = begin('1 s');
ok(step(0), 'the clock steps back again');
comes_back('a lease of a second ends all the same', $short);
flows('an hour back again');
is(error_of($node, "SELECT taskq_complete($id, $first)"), '', 'a long lease continues');
is($sql->($work), 'second|', 'a workflow continues');
is($sql->("SELECT step FROM taskq.workflow_steps WHERE finished_at IS NOT NULL ORDER BY finished_at LIMIT 1"), 'second', 'its second step ended before the first one, as the clock says');
$sql->(q{SELECT taskq_fail(task_id, token, 'e', retryable => false) FROM taskq_claim('u')});
is($sql->($work), 'compensate:second|', 'the second step is compensated first nevertheless');
is($sql->($work), 'compensate:first|', 'the first step is compensated next');
is($sql->('SELECT state, reason FROM taskq.workflows'), 'error|compensated', 'the instance is compensated');
sound($node);

# --- a step forward that is undone, then a restart: tasks that were due stay
# due
clear();
$sql->("SELECT taskq_drop_queue('u', true)");
my $days = 8 * 86400;
ok(step($days), 'the clock steps forward by days');
my @ahead = map { $sql->("SELECT taskq_submit('ahead', priority => $_)") } 1 .. 2;
$sql->("SELECT taskq_submit('running')");
$sql->("SELECT FROM taskq_claim('running', lease => '2 s')");
ok(step(0), 'the clock steps back by days');
my @behind = map { $sql->("SELECT taskq_submit('ahead', priority => -$_)") } 1 .. 2;
for my $how ('fast', 'immediate')
{
	$node->stop($how);
	$node->start;
	ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq_claim('ahead')") eq '1' }), "a task is claimed after a restart ($how)");
	is($sql->("SELECT count(*) FROM taskq_claim('ahead')"), '1', "another task is claimed after a restart ($how)");
}
is($sql->("SELECT string_agg(task_id::text, ' ' ORDER BY claimed_at) FROM taskq.tasks WHERE queue = 'ahead' AND state = 'running'"),
	join(' ', $ahead[1], $ahead[0], @behind), 'the tasks were claimed in order');
ok(within($LONG, sub { $sql->("SELECT attempt || state FROM taskq.tasks WHERE queue = 'running'") eq '1pending' }), 'a lease ends');
sound($node);
like(slurp_file($node->logfile), qr/dispatch clock is \d+ s ahead/, 'the log reports the clock');
$node->stop;
done_testing();

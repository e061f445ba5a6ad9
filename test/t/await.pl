# CALL taskq_await, taskq_call and taskq_await_workflow return when the task is
# finished by its worker, by the session that awaits it, or by the server. Cases
# with one session are in regress await and workflow_await, cases with two
# sessions in isolation await_end and workflow_await.
# expect-log: terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use TaskqWaiters;

my $node = start_node('await', 'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});

waiters_of($node);

# A task that runs: (its number, its token).
sub running_task
{
	my ($queue) = @_;

	$sql->("SELECT taskq_submit('$queue')");
	return split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('$queue', lease => '1 h')");
}

# The session sleeps until the task ends.
sub awaiter
{
	my ($id, $before) = @_;
	return sleeper(($before // '') . "CALL taskq_await($id, '5 min');");
}

# The number of sessions that wait for claims or for ends of tasks.
sub waiting
{
	my ($n) = $sql->("SELECT detail FROM taskq_health() WHERE check_name = 'waiting'") =~ /^(\d+) sessions wait/;
	return $n;
}

$sql->(q{SELECT taskq_create_queue('q'), taskq_create_queue('none', '{"retention": "none"}')});

# --- only the end of a task wakes the sessions that wait for it, and it wakes
# all of them
my ($id, $token) = running_task('q');
my ($other) = running_task('q');
my $w = awaiter($id);
my $second = awaiter($id);
my $third = awaiter($other);
my $before = numbers();
is(waiting(), 3, 'three sessions wait');
$sql->("SELECT taskq_complete($id, $token, '42')");
is(answer($w), 'done|42|', 'the end of a task is reported');
is(answer($second), 'done|42|', 'every session that awaits the task gets it');
my $after = numbers();
is($after->{wakes} - $before->{wakes}, 2, 'two sessions were woken');
is($after->{sleeps}, $before->{sleeps}, 'the sessions do not poll');
is($sql->("CALL taskq_await($id)"), 'done|42|', 'a session that asks later does not sleep');

# --- the memory of waiters is lost
$sql->('SELECT taskq.debug_wipe()');
ok(within(30, sub { waiting() == 1 }), 'memory is lost: a session that awaits a task registers again');
ok(asleep($third), 'the session sleeps again');
$sql->("SELECT taskq_cancel($other, force => true)");
is(answer($third), 'cancelled||', 'the session sleeps until the task is cancelled');

# --- instances of workflows: one wake, when the instance itself ends
my $flow = $sql->(<<'SQL') =~ s/.*\n//sr;
SELECT taskq_define_workflow('{"name": "two", "version": "1", "queue": "flow", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('two');
SQL
my $step = sub { $sql->("SELECT step, taskq_complete(task_id, token, '7') FROM taskq_claim('flow')") };
$w = sleeper("CALL taskq_await_workflow($flow, '5 min');");
$before = numbers();
is($step->(), 'a|', 'a step of an instance ends');
is($step->(), 'b|', 'the last step of the instance ends');
is(answer($w), 'done|7', 'the end of the instance is reported');
$after = numbers();
is($after->{wakes} - $before->{wakes}, 1, 'the session was woken once');
is($after->{sleeps}, $before->{sleeps}, 'the session did not poll');
$flow = $sql->("SELECT taskq_start_workflow('two')");
$w = sleeper("CALL taskq_await_workflow($flow, '5 min');");
$sql->('SELECT taskq.debug_wipe()');
ok(within(30, sub { waiting() == 1 }), 'memory is lost: a session that awaits an instance registers again');
ok(asleep($w), 'the session sleeps again');
$sql->("SELECT taskq_cancel_workflow($flow)");
is(answer($w), 'cancelled|', 'the session sleeps until the instance is cancelled');

# --- the session that waits ends before the task
($id, $token) = running_task('q');
my %ends = (
	cancelled => [ '57014', sub { give_up($_[0]) } ],
	terminated => [ '57P01', sub { $sql->('SELECT pg_terminate_backend(' . pid_of($_[0]) . ')') } ]);
for my $how (sort keys %ends)
{
	$w = awaiter($id);
	$ends{$how}[1]->($w);
	is(answer($w), $ends{$how}[0], "$how while it waits");
}
is(answer(start("SET statement_timeout = '300 ms'; CALL taskq_await($id, '5 min');")), '57014', 'statement_timeout');
$w = awaiter($id);
my $pid = pid_of($w);
$w->{run}->kill_kill;
ok(within(45, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' }), 'its client is gone');
is(waiting(), 0, 'these sessions are not listed as waiting');
$w = sleeper("CALL taskq_call('calls', '1', '5 min');");
give_up($w);
is(answer($w), '57014', 'taskq_call, cancelled while it waits');
is($sql->("SELECT state FROM taskq.tasks WHERE queue = 'calls'"), 'pending', 'its task has been submitted');

# --- the task is removed
my $gone = $sql->("SELECT taskq_submit('q', '\"purged\"')");
$w = awaiter($gone);
is($sql->("SELECT taskq_purge('q', '{pending}')"), 1, 'a task is purged while a session awaits it');
is(answer($w), '||', 'nothing is reported of the purged task');
my $holder = open_session($node);
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$w = awaiter($id, "SET taskq.debug_point = 'wait_woken';");
$sql->("SELECT taskq_complete($id, $token, '43')");
ok(at_point($w), 'a task ends, and the session is woken');
is($sql->("SELECT taskq_purge('q', '{done}', from_id => $id, to_id => $id)"), 1, 'the task is purged before the woken session reads it');
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
is(answer($w), 'done||', 'its state is reported nevertheless');
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$w = start("SET taskq.debug_point = 'call_submitted'; CALL taskq_call('none', '1', '5 min');");
ok(at_point($w), 'taskq_call has submitted its task');
$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('none')");
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
like(answer($w), qr/^\d+\|done\|\|$/, 'a task that ends and leaves no row before the session reads it is reported as done');
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
my ($rc, $out, $err) = $node->psql('postgres', <<'SQL', on_error_stop => 0);
\set VERBOSITY sqlstate
SET taskq.debug_point = 'call_submitted';
SET statement_timeout = '300 ms';
CALL taskq_call('calls', '2', '5 min');
RESET statement_timeout;
SELECT substring(detail FOR 15) FROM taskq_health() WHERE check_name = 'waiting';
SQL
like($err, qr/57014/, 'taskq_call fails immediately after its commit');
is($out, '0 sessions wait', 'the failed session is not listed as waiting');
$holder->quit;

# --- prepared ends, which another session commits after a restart
my %prepared;
for my $queue ('q', 'none')
{
	($id, $token) = running_task($queue);
	$prepared{$queue} = $id;
	$sql->("BEGIN; SELECT taskq_complete($id, $token, '\"prepared\"'); PREPARE TRANSACTION 'end in $queue'");
}
($id, $token) = running_task('q');
$sql->("BEGIN; SELECT taskq_complete($id, $token, '\"not so\"'); PREPARE TRANSACTION 'no end'");
$w = awaiter($prepared{q});
$node->stop('fast');
is(answer($w), '57P01', 'a fast shutdown ends the wait');
$node->start;
$w = awaiter($prepared{q});
$second = awaiter($prepared{none});
$third = awaiter($id);
$sql->("COMMIT PREPARED 'end in q'");
is(answer($w), 'done|"prepared"|', 'COMMIT PREPARED after a restart ends the task');
ok(asleep($second, $third), 'COMMIT PREPARED ends no other task');
$sql->("COMMIT PREPARED 'end in none'");
is(answer($second), '||', 'nothing is reported of a task that left no row');
$sql->("ROLLBACK PREPARED 'no end'");
ok(asleep($third), 'ROLLBACK PREPARED ends no task');
$sql->("SELECT taskq_fail($id, $token, 'no luck', retryable => false)");
is(answer($third), 'dead||no luck', 'the next attempt to end the task succeeds');

# --- the process that finishes the task is killed, and the server starts again
($id, $token) = running_task('q');
$holder = open_session($node);
$pid = $holder->query_safe('SELECT pg_backend_pid()');
$w = awaiter($id);
$holder->query_safe("BEGIN; SELECT taskq_complete($id, $token, '\"lost\"')");
kill 'KILL', $pid;
ok(recovered($node, 1, 60), 'the process is killed before its commit');
like(answer($w), qr/57P02|closed the connection/, 'the session that awaits the task loses its connection');
eval { $holder->quit };
$w = awaiter($id);
$sql->("SELECT taskq_complete($id, $token, '44')");
is(answer($w), 'done|44|', 'the session awaits the task again, and gets the end that was committed');
sound($node, crashes => 1);
$node->stop('fast');
done_testing();

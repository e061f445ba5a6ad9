# Eight worker processes work on 20,000 tasks. Workers that hold tasks are
# killed, the background worker is killed, and the server is restarted
# immediately. Each task ends exactly once, with exactly one effect written in
# the completing transaction; no task is lost or stays unfinished. LONG=1:
# 100,000 tasks, 20 kills.
# expect-log: terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $TASKS = $ENV{LONG} ? 100_000 : 20_000;
my $WORKERS = 8;
my $KILLS = $ENV{LONG} ? 20 : 10;
my $BOUND = $ENV{LONG} ? 600 : 90;    # seconds

my $node = start_node(
	'kills',
	'taskq.stale_threshold' => "'300ms'",
	'taskq.dead_threshold' => "'1s'",
	'taskq.reaper_interval' => "'300ms'",
	'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->('CREATE TABLE effect (task_id bigint, worker text, attempt int)');
$sql->(q{SELECT taskq_create_queue('q', '{"max_attempts": 6, "retry": "fixed", "retry_base": "10 ms"}')});
$sql->("SELECT count(*) FROM taskq_submit_many('q', array_fill('{\"n\": 1}'::jsonb, ARRAY[$TASKS]))");

# A worker is a psql in a process of its own, fed with rounds of work: claim
# some, then complete each with its effect in one transaction.
my %pid;

sub start_worker
{
	my ($name) = @_;
	my $parent = $$;
	my $pid = fork;

	if ($pid)
	{
		$pid{$name} = $pid;
		return;
	}
	setpgrp;
	my ($host, $port) = ($node->host, $node->port);
	my $round = <<"SQL";
SELECT state FROM taskq_heartbeat('$name') \\gset
SELECT array_agg(task_id) AS ids, array_agg(token) AS tokens, array_agg(attempt) AS attempts
  FROM taskq_claim('q', '$name', 12) \\gset
SELECT :'ids' <> '' AS some \\gset
\\if :some
BEGIN;
INSERT INTO effect SELECT i, '$name', a FROM unnest(:'ids'::bigint[], :'attempts'::int[]) AS x (i, a);
SELECT pg_sleep(0.01);
SELECT count(taskq_complete(x.i, x.t)::text) FROM unnest(:'ids'::bigint[], :'tokens'::bigint[]) AS x (i, t);
COMMIT;
\\else
SELECT pg_sleep(0.05);
\\endif
SQL
	# it ends with the test at the latest
	while (getppid == $parent)
	{
		my ($out, $err) = ('', '');
		my $text = "SELECT taskq_register('$name');\n" . $round x 40;
		# a client that meets a dead server must not end this process
		my $good = eval {
			IPC::Run::run(['psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-h', $host, '-p', $port, '-d', 'postgres'],
			'<', \$text, '>', \$out, '2>', \$err);
		};
		select(undef, undef, undef, 0.05) if !$good || $err ne q{};
	}
	POSIX::_exit(0);
}

sub kill_worker
{
	my ($name) = @_;
	kill 'KILL', -$pid{$name};
	waitpid $pid{$name}, 0;
	return;
}

my $begin = time;
start_worker("w$_") for 1 .. $WORKERS;
ok(within(20, sub { $sql->('SELECT count(*) > 300 FROM effect') eq 't' }), 'work continues');

my ($hits, $tries, $crashes) = (0, 0, 0);
while ($hits < $KILLS && $tries < 6 * $KILLS)
{
	my $name = 'w' . (1 + $tries++ % $WORKERS);

	# stopped first, so that it still holds its tasks when it is killed
	kill 'STOP', -$pid{$name};
	my $held = $sql->("SELECT running FROM taskq.workers WHERE worker = '$name' AND state <> 'dead'") || 0;
	if ($held == 0)
	{
		kill 'CONT', -$pid{$name};
		next;
	}
	kill_worker($name);
	$hits++;
	start_worker($name);
	if ($hits == int(0.3 * $KILLS) || $hits == int(0.7 * $KILLS))
	{
		my $worker = '';
		ok(within(15, sub { ($worker = worker_pid($node)) ne '' }) && kill('KILL', $worker),
			'the background worker is killed');
		ok(recovered($node, ++$crashes, 15), 'the server and the background worker are back within 15 s');
	}
	if ($hits == $KILLS / 2)
	{
		$node->stop('immediate');
		$node->start;
	}
}
is($hits, $KILLS, "$KILLS workers were killed holding tasks (void otherwise)");

ok(within($BOUND, sub { $sql->("SELECT pending + running + blocked + suspended FROM taskq.queues WHERE queue = 'q'") eq '0' }),
	'all tasks have ended');
note sprintf 'figure: %d tasks in %.1f s, %d kills of holders in %d tries', $TASKS, time - $begin, $hits, $tries;
kill_worker($_) for keys %pid;

is($sql->("SELECT state, count(*) FROM taskq.tasks WHERE queue = 'q' GROUP BY 1"), "done|$TASKS", 'each task is done');
is($sql->('SELECT count(*), count(DISTINCT task_id) FROM effect'), "$TASKS|$TASKS", 'each task has exactly one effect');
is($sql->("SELECT count(*) FROM taskq.tasks t LEFT JOIN effect e USING (task_id)"
	  . " WHERE t.queue = 'q' AND (e.task_id IS NULL OR e.attempt <> t.attempt)"),
	'0', 'the effect belongs to the recorded attempt');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE attempt > max_attempts OR attempt < 1"), '0', 'attempts are within bounds');
cmp_ok($sql->("SELECT count(*) FROM taskq.tasks WHERE attempt > 1"), '>=', $KILLS, 'tasks were claimed again');

sound($node, crashes => 2);
command_ok(['pg_amcheck', '-h', $node->host, '-p', $node->port, '--install-missing', '-d', 'postgres', '--heapallindexed'],
	'tables and indexes are sound');
$node->stop('fast');
done_testing();

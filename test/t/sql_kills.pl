# Schedules submit SQL tasks, and a client submits others, while executors, the
# background worker and the server are killed, terminated and restarted. Each
# planned time is one task, and each task has its effect once.
# expect-log: was terminated by signal 9
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $SECONDS = $ENV{LONG} ? 600 : 15;
my $SCHEDULES = 10;
my $seed = $ENV{SEED} || int(rand(1_000_000)) + 1;
my $node = start_node('sql_kills', 'restart_after_crash' => 'on', 'taskq.max_catch_up' => 10000);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $crashes = 0;
my %times;

srand($seed);
diag("SEED=$seed");

$sql->(<<"SQL");
CREATE ROLE ann LOGIN;
CREATE ROLE ben LOGIN;
CREATE TABLE effect (name text);
GRANT INSERT ON effect TO ann, ben;
SELECT taskq_create_queue('s', '{"executor": {"workers": 2}, "max_attempts": -1, "retry": "fixed", "retry_base": "0 s"}');
SELECT taskq_grant('s', 'ann', '{submit}'), taskq_grant('s', 'ben', '{submit}');
SET SESSION AUTHORIZATION ann;
SELECT taskq_schedule('s' || n, 'every 1 second', 's', catch_up => 'all',
    payload => jsonb_build_object('sql', 'INSERT INTO effect SELECT \$1 FROM pg_sleep(0.01)', 'args', jsonb_build_array('s' || n)))
  FROM generate_series(1, $SCHEDULES) n;
SQL

sub executor { return $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq executor' ORDER BY random() LIMIT 1"); }

my %events = (
	kill => sub {
		my $pid = executor();
		$pid ne '' && hit($node, $pid) or return;
		ok(recovered($node, ++$crashes), 'the server starts again after an executor was killed');
	},
	terminate => sub { $sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'taskq executor'"); },
	cancel => sub { my $pid = executor(); $pid ne '' && $sql->("SELECT pg_cancel_backend($pid)"); },
	kill_all => sub {
		$node->kill9;
		ok(start_again($node), 'the server starts again after it was killed');
	},
	restart => sub { $node->restart; },
	immediate => sub { $node->stop('immediate'); $node->start; });

my $until = time + $SECONDS;
my $submitted = 0;
while (time < $until)
{
	my $event = (sort keys %events)[ rand keys %events ];

	$sql->("SET SESSION AUTHORIZATION " . (rand(2) < 1 ? 'ann' : 'ben') . "; SELECT count(taskq_submit('s', jsonb_build_object('sql', 'INSERT INTO effect SELECT \$1 FROM pg_sleep(0.005)', 'args', jsonb_build_array('t' || n)))) FROM generate_series($submitted + 1, $submitted + 60) n");
	$submitted += 60;
	within(rand(1.5), sub { 0 });
	$events{$event}->();
	$times{$event}++;
}
diag(join ', ', map { "$_ $times{$_}" } sort keys %times);
$sql->("SELECT taskq_schedule(name, schedule, queue, catch_up => 'all', enabled => false) FROM taskq.schedules");
ok(within(120, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE state NOT IN ('done', 'dead')") eq '0' }), 'all tasks end');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE state <> 'done'"), '0', 'each is done')
  or diag($sql->("SELECT DISTINCT concat_ws(' ', state, reason, attempt, error) FROM taskq.tasks WHERE state <> 'done' LIMIT 5"));
is($sql->("SELECT count(*) FROM taskq.tasks WHERE headers IS NULL"), $submitted, 'no task of the client is lost');
is($sql->(<<'SQL'), "$SCHEDULES|t|t", 'each planned time is one task, and none is left out');
SELECT count(*), bool_and(tasks = times), bool_and(length = times - 1)
  FROM (SELECT count(*) AS tasks, count(DISTINCT at) AS times, extract(epoch FROM max(at) - min(at)) AS length
          FROM (SELECT headers ->> 'schedule' AS name, (headers ->> 'planned_at')::timestamptz AS at
                  FROM taskq.tasks WHERE headers IS NOT NULL) t GROUP BY name) s
SQL
is($sql->(<<'SQL'), '0', 'each task has its effect once');
SELECT count(*)
  FROM (SELECT name, count(*) AS n FROM effect GROUP BY name) e
  FULL JOIN (SELECT payload -> 'args' ->> 0 AS name, count(*) AS n FROM taskq.tasks GROUP BY 1) t USING (name)
 WHERE e.n IS DISTINCT FROM t.n
SQL
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check finds nothing');
amcheck($node);
sound($node, crashes => $crashes);
$node->stop('fast');
done_testing();

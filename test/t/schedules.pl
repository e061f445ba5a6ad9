# Schedules fire by themselves, once for each planned time: while several
# sessions process what is due, while the server is killed and restarted, after
# steps of the wall clock, and over a promotion. A copied or restored database
# fires nothing until it is activated.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $LONG = 60;    # seconds: far more than anything takes
my $node = start_node('schedules', 'taskq.max_catch_up' => 10000);
my $sql = sub { $node->safe_psql('postgres', shift) };

sub fired { return $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = '$_[0]'"); }

# once(NAME, QUEUE, SECONDS): its planned times are that far apart, each fired
# once, and none is left out.
sub once
{
	my ($name, $queue, $seconds) = @_;

	is($sql->(<<"SQL"), 't|t|t', $name);
SELECT count(*) = count(DISTINCT at), count(*) > 1,
       extract(epoch FROM max(at) - min(at)) = (count(*) - 1) * $seconds
  FROM (SELECT (headers ->> 'planned_at')::timestamptz AS at FROM taskq.tasks WHERE queue = '$queue') t
SQL
	return;
}

# --- at the planned time, without another event
$sql->("SELECT taskq_create_queue(q) FROM unnest('{second,held,many,step,copy}'::text[]) q");
$sql->("SELECT taskq_schedule('second', 'every 1 second', 'second', catch_up => 'all')");
ok(within($LONG, sub { fired('second') >= 3 }), 'a schedule fires by itself');
once('each second is fired once', 'second', 1);
timely(0.5, 'a task is submitted soon after its planned time', sub {
	my $before = fired('second');
	within($LONG, sub { fired('second') > $before });
	return $sql->(<<'SQL');
SELECT min(extract(epoch FROM created_at - (headers ->> 'planned_at')::timestamptz)) FROM
    (SELECT * FROM taskq.tasks WHERE queue = 'second' ORDER BY task_id DESC LIMIT 3) t
SQL
});

# --- a session that fires it by hand, or saves it, holds it back
my $session = open_session($node);
$sql->("SELECT taskq_schedule('held', 'every 1 second', 'held', catch_up => 'all')");
$session->query_safe("BEGIN; SELECT taskq_run_schedule('held')");
my $others = fired('second');
ok(within($LONG, sub { fired('second') > $others + 2 }), 'other schedules fire while one is locked');
is(fired('held'), '0', 'the locked one does not');
$session->query_safe('COMMIT');
ok(within($LONG, sub { fired('held') > 3 }), 'it fires after the end of the transaction');
$session->quit;
$sql->("SELECT taskq_unschedule('held')");

# --- many sessions, and the background worker, process the same schedules
$sql->(<<'SQL');
SELECT taskq_schedule('many ' || n, 'every 1 second', 'many', to_jsonb(n), catch_up => 'all') FROM generate_series(1, 5) n;
UPDATE taskq.schedule SET anchor = anchor - interval '200 s', next_run = next_run - interval '200 s', due_at = due_at - interval '200 s' WHERE queue = 'many';
SQL
my $clients = start_clients($node, 4, "SELECT count(*) FROM taskq_run_reapers() \\g /dev/null\n" x 20);
ok(within($LONG, sub { $sql->("SELECT bool_and(next_run > now() - interval '2 s') FROM taskq.schedules WHERE queue = 'many'") eq 't' }),
	'two hundred planned times of five schedules are made up for');
end_clients($clients);
$sql->("SELECT taskq_unschedule(name) FROM taskq.schedules WHERE queue = 'many'");
is($sql->(<<'SQL'), '5|0|t', 'each of them fired once');
SELECT count(*), count(*) FILTER (WHERE n <> times OR n <> seconds + 1), min(n) >= 200
  FROM (SELECT payload, count(*) AS n, count(DISTINCT reference) AS times,
               extract(epoch FROM max((headers ->> 'planned_at')::timestamptz) - min((headers ->> 'planned_at')::timestamptz)) AS seconds
          FROM taskq.tasks WHERE queue = 'many' GROUP BY payload) t
SQL
is(scalar(grep { /ERROR/ } said($clients)), 0, 'no session got an error');

# --- kills and restarts
for my $round (1 .. 4)
{
	my $before = fired('second');
	within($LONG, sub { fired('second') > $before });
	$node->kill9;
	ok(start_again($node), "the server starts after a kill, round $round");
}
$node->restart;
my $now = fired('second');
ok(within($LONG, sub { fired('second') > $now + 1 }), 'the schedule continues');
once('each second is fired once in spite of five stops', 'second', 1);
$sql->("SELECT taskq_unschedule('second')");

# --- steps of the wall clock
sub step
{
	my ($seconds) = @_;

	$node->append_conf('postgresql.conf', "taskq.debug_clock_skew = $seconds");
	$node->reload;
	return $node->poll_query_until('postgres', "SELECT setting::int = $seconds FROM pg_settings WHERE name = 'taskq.debug_clock_skew'");
}
# planned in an hour and a half
$sql->("SELECT taskq_schedule('step', 'every 90 minutes', 'step')");
ok(step(7200), 'the clock steps forward by two hours');
ok(within($LONG, sub { fired('step') eq '1' }), 'what is due then fires');
ok(step(0), 'the clock steps back');
ok(stays(2, sub { fired('step') eq '1' }), 'it does not fire again');
ok(step(-7200), 'and steps back by two hours');
ok(stays(2, sub { fired('step') eq '1' }), 'nor then');
ok(step(10_900), 'three hours after it was saved');
ok(within($LONG, sub { fired('step') eq '2' }), 'the next planned time fires');
is($sql->('SELECT misses FROM taskq.schedules'), '0', 'none was missed');
ok(step(0), 'the clock is right');
$sql->("SELECT taskq_unschedule('step')");

# --- a copy
$sql->("SELECT taskq_schedule('copy', 'every 1 second', 'copy')");
$node->safe_psql('template1', 'CREATE DATABASE twin TEMPLATE postgres');
my $base = $node->safe_psql('twin', "SELECT count(*) FROM taskq.tasks WHERE queue = 'copy'");
ok(stays(3, sub { $node->safe_psql('twin', "SELECT count(*) FROM taskq.tasks WHERE queue = 'copy'") eq $base }), 'a copy fires nothing');
$node->safe_psql('twin', 'SELECT taskq_activate()');
ok(within($LONG, sub { $node->safe_psql('twin', "SELECT count(*) FROM taskq.tasks WHERE queue = 'copy'") > $base }), 'it fires when it is activated');

# --- a dump
my $file = "$PostgreSQL::Test::Utils::tmp_check/schedules.dump";
command_ok([ 'pg_dump', '-Fc', '-d', $node->connstr('postgres'), '-f', $file ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
command_ok([ 'pg_restore', '-d', $node->connstr('restored'), $file ], 'it is restored');
my $restored = sub { $node->safe_psql('restored', shift) };
$base = $restored->("SELECT count(*) FROM taskq.tasks WHERE queue = 'copy'");
is($restored->("SELECT schedule, enabled, next_run <= now() FROM taskq.schedules"), 'every 1 second|t|t', 'the schedule is in the dump, and due');
ok(stays(3, sub { $restored->("SELECT count(*) FROM taskq.tasks WHERE queue = 'copy'") eq $base }), 'what was restored fires nothing');
$restored->('SELECT taskq_activate()');
ok(within($LONG, sub { $restored->("SELECT count(*) FROM taskq.tasks WHERE queue = 'copy'") > $base }), 'it fires when it is activated');

sound($node);
$node->stop('fast');

# --- promotion of a standby: the primary is killed
my $primary = start_node('primary', init => { allows_streaming => 1 }, 'taskq.max_catch_up' => 10000);
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$sql = sub { $primary->safe_psql('postgres', shift) };
$sql->("SELECT taskq_create_queue('second'), taskq_schedule('second', 'every 1 second', 'second', catch_up => 'all')");
ok(within($LONG, sub { fired('second') > 3 }), 'the primary fires');
$primary->wait_for_catchup($standby);
my $replayed = $standby->safe_psql('postgres', 'SELECT last_run FROM taskq.schedules');
ok(stays(2, sub { $standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'taskq%'") eq '0' }), 'the standby does not');
$primary->kill9;
$standby->promote;
$sql = sub { $standby->safe_psql('postgres', shift) };
ok(within($LONG, sub { $sql->("SELECT last_run > '$replayed'::timestamptz + interval '10 s' FROM taskq.schedules") eq 't' }), 'the promoted standby fires');
$sql->("SELECT taskq_unschedule('second')");
once('no planned time is fired twice or left out over a promotion', 'second', 1);
sound($standby);
$standby->stop('fast');
done_testing();

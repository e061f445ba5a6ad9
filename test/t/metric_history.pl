# taskq.metric_history has a row for each queue and minute: the background worker
# writes it when the minute has ended. Minutes pass here by steps of the wall
# clock. Minutes that the worker has missed have no rows. The table does not
# grow beyond a day; a clean restart keeps it, a crash empties it, and the
# numbers are never negative.
# expect-log: was terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('metric_history', init => { allows_streaming => 1 }, 'autovacuum' => 'off', 'restart_after_crash' => 'on',
	'taskq.max_metrics' => 16);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $skew = 0;

# The worker has processed its duties since now, with the configuration of now.
sub turned
{
	my $now = $sql->('SELECT clock_timestamp()');

	$node->reload;
	ok(within(60, sub {
			$sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND state = 'idle' AND state_change > '$now'") eq '1';
		}), 'the worker takes a turn');
	return;
}

sub step
{
	my ($seconds) = @_;

	$skew += $seconds;
	$node->safe_psql('postgres', "ALTER SYSTEM SET taskq.debug_clock_skew = $skew");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting::int = $skew FROM pg_settings WHERE name = 'taskq.debug_clock_skew'");
	turned();
	return;
}

# Seconds to the 15th second of the next minute: the clock itself ends no minute
# soon after a step to it.
sub to_next_minute
{
	return 75 - $sql->("SELECT ((extract(second FROM clock_timestamp())::int + $skew) % 60 + 60) % 60");
}
my $minutes = sub { $sql->('SELECT count(DISTINCT at) FROM taskq.metric_history') };

# next_minute(WHAT): this minute has rows
sub next_minute
{
	my ($what) = @_;
	my $before = $minutes->();

	step(to_next_minute());
	is($minutes->(), $before + 1, $what);
	return;
}

# missed_minute(WHAT): the worker has not seen the beginning of this minute
sub missed_minute
{
	my ($what) = @_;
	my $before = $minutes->();

	step(to_next_minute());
	is($minutes->(), $before, $what);
	return;
}

# the numbers of the last minute of a queue
sub last_of
{
	my ($queue, $columns) = @_;
	return $sql->("SELECT $columns FROM taskq.metric_history WHERE queue = '$queue' ORDER BY at DESC LIMIT 1");
}
my $counted = 'submitted, claimed, completed, failed, dead, ready, running';

$sql->(q{SELECT taskq_create_queue(q, '{"retry_base": "0 s"}') FROM unnest(ARRAY['a', 'empty']) q});
missed_minute('the minute in which the worker starts has no rows');
next_minute('rows are written when a minute ends');

# --- minutes in which nothing happens are not written, but have rows
my $stored = sub { $sql->("SELECT count(DISTINCT at), max(quiet) FROM taskq.metric_minute") };
my $quiet = "SELECT string_agg(quiet::text, ' ' ORDER BY at) FROM (SELECT DISTINCT at, quiet FROM taskq.metric_minute) m";
my $next_xid = sub { $sql->('SELECT pg_snapshot_xmax(pg_current_snapshot())') };
my $xid = $next_xid->();
next_minute("quiet minute $_") for 1 .. 3;
is($stored->(), '1|0', 'they are not stored');
is($next_xid->(), $xid, 'and no transaction has written anything');
step(to_next_minute()) for 4 .. 63;
is($minutes->(), '64', 'an hour of them');
is($stored->(), '2|60', 'is stored once');
is($next_xid->(), $xid + 1, 'by one transaction');
is($sql->("SELECT count(*), count(DISTINCT at), max(at) - min(at), count(submitted), sum(submitted + claimed + completed + failed + dead + ready + running), count(oldest_ready_age) + count(wait_p50) + count(run_p95) FROM taskq.metric_history WHERE queue = 'a'"),
	'64|64|01:03:00|64|0|0', 'their rows follow from the one before');
$node->restart;
ok(within(60, sub { worker_pid($node) ne '' }), 'the server is restarted');
is($minutes->(), '64', 'a restart keeps them');
turned();
is($sql->($quiet), '60 2', 'the next worker stores them');
is($minutes->(), '64', 'they are the same');
missed_minute('the minute of this restart has no rows');
$sql->("SELECT taskq_submit('a'), taskq_submit('empty')");
$sql->("SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('a')");
next_minute('a minute with a ready task');
next_minute('a ready task gets older');
is($sql->($quiet), '60 2 0 0', 'both are stored');
is(last_of('empty', "ready, oldest_ready_age > '1 min'"), '1|t', 'its age is right');
$sql->("SELECT taskq_cancel(task_id) FROM taskq_list('empty')");
next_minute('a minute without it');
next_minute('a quiet minute');
$sql->("SELECT taskq_create_queue('short')");
next_minute('a minute with a new queue');
like($sql->($quiet), qr/^60 2 0 0 [01] (?:0 )*0$/, 'a new queue is not quiet');
$sql->("SELECT taskq_drop_queue('short')");
is($sql->("SELECT count(*) - count(DISTINCT at) FROM taskq.metric_history WHERE queue = 'a'"), '0', 'no minute has two rows');
my $seen = $sql->("SELECT count(*) - 1 FROM taskq.metric_history WHERE queue = 'a'");
my $submitted = $sql->("SELECT sum(submitted) FROM taskq.metric_history WHERE queue = 'a'");

# --- what happened in the minute, and only that
$sql->("SELECT count(*) FROM taskq_submit_many('a', array_fill('1'::jsonb, ARRAY[100]))");
$sql->("UPDATE taskq.task SET run_at = available_at - interval '3 s' WHERE task_id IN (SELECT task_id FROM taskq_list('a', max_rows => 50))");
$sql->("SELECT count(*) FROM taskq_claim('a', 'w', max_tasks => 60, lease => '10 days')");
$sql->("UPDATE taskq.task SET claimed_at = claimed_at - interval '15 s' WHERE state = 3");
$sql->("SELECT count(taskq_complete(task_id, token)) FROM (SELECT * FROM taskq_list('a', 'running') LIMIT 40) t");
$sql->("SELECT count(taskq_fail(task_id, token, 'e')) FROM (SELECT * FROM taskq_list('a', 'running') LIMIT 5) t");
$sql->("SELECT count(taskq_fail(task_id, token, 'e', false)) FROM (SELECT * FROM taskq_list('a', 'running') LIMIT 3) t");
next_minute('the next minute');
is(last_of('a', $counted), '100|60|40|8|3|45|12', 'counters of the minute, gauges at its end');
is(last_of('a', "oldest_ready_age > '30 s' AND oldest_ready_age < '5 min'"), 't', 'the age of the oldest ready task');
is(last_of('a', "wait_p50 BETWEEN '2.5 s' AND '5 s', wait_p95 BETWEEN '2.5 s' AND '5 s'"), 't|t', 'percentiles of waits');
is(last_of('a', "run_p50 = '20 s' AND run_p95 = '29 s'"), 't', 'percentiles of attempts: evenly within the bucket from 10 s to 30 s');
is(last_of('empty', $counted), '0|0|0|0|0|0|0', 'a queue without tasks has a row');
is(last_of('empty', 'num_nulls(oldest_ready_age, wait_p50, wait_p95, run_p50, run_p95)'), '5', 'unknown times are null');
$sql->("SELECT count(taskq_complete(task_id, token)) FROM (SELECT * FROM taskq_list('a', 'running') LIMIT 2) t");
next_minute('another minute');
is(last_of('a', $counted), '0|0|2|0|0|45|10', 'it has what happened since');
is($sql->("SELECT count(*) - $seen, count(DISTINCT at) - $seen, sum(submitted) - $submitted FROM taskq.metric_history WHERE queue = 'a'"), '3|3|100', 'a row for each minute');

# --- a queue that was created, and one that was dropped and created again
$sql->("SELECT taskq_create_queue('new'), taskq_drop_queue('empty')");
$sql->("SELECT taskq_create_queue('empty')");
$sql->("SELECT count(taskq_submit(q)) FROM unnest(ARRAY['new', 'new', 'empty']) q");
next_minute('a minute with new queues');
is(last_of('new', $counted), '2|0|0|0|0|2|0', 'a new queue has its numbers');
is(last_of('empty', $counted), '1|0|0|0|0|1|0', 'so has one with an old name');
is($sql->("SELECT count(*) FROM taskq.metric_history WHERE queue = 'empty'"), '1', 'it has no rows of the one before');

# --- a queue that gets the number of another one
$sql->("SELECT count(taskq_submit('former')) FROM generate_series(1, 10)");
next_minute('a minute with the former queue');
my $number = $sql->("SELECT queue_id FROM taskq.queue WHERE name = 'former'");
$sql->("SELECT taskq_drop_queue('former', true)");
$sql->("SELECT setval('taskq.queue_id_seq', $number, false)");
$sql->("SELECT taskq_submit('reused')");
is($sql->("SELECT queue_id FROM taskq.queue WHERE name = 'reused'"), $number, 'a queue gets the number of a dropped one');
next_minute('a minute with the reused number');
is(last_of('reused', $counted), '1|0|0|0|0|1|0', 'it counts from zero');

# --- shared memory is lost: counters begin at zero
$sql->('SELECT taskq.debug_wipe()');
$sql->("SELECT taskq_submit('a')");
next_minute('a minute with a wipe');
is(last_of('a', $counted), '1|0|0|0|0|46|10', 'counters that were reset count from zero');

# --- no room for a queue's counters
$sql->("SELECT count(taskq_submit('full ' || n)) FROM generate_series(1, 20) n");
next_minute('more queues than taskq.max_metrics');
is($sql->("SELECT count(*) FILTER (WHERE submitted = 1), count(*) FILTER (WHERE submitted IS NULL AND ready = 1), count(*) FROM taskq.metric_history h WHERE queue LIKE 'full %'") =~ /^(\d+)\|(\d+)\|20$/ && $1 + $2 == 20 && $2 >= 5, 1, 'what is not known is null');
$sql->("SELECT taskq_drop_queue('full ' || n, true) FROM generate_series(1, 20) n");

# --- minutes that are missed, forward and backward
my $before = $minutes->();
step(600);
is($minutes->(), $before, 'after a step of ten minutes there is no row of them');
missed_minute('nor of the minute in which it ended');
$sql->("SELECT taskq_submit('a')");
next_minute('the minute after the step');
is(last_of('a', 'submitted'), '1', 'it has what happened since the step');
is($sql->("SELECT count(*) FROM taskq.metric_history WHERE queue = 'a' AND at > (SELECT max(at) FROM taskq.metric_history) - interval '11 min'"), '1', 'the missed minutes have no rows');
$before = $minutes->();
step(-7200);
is($minutes->(), $before, 'a step back writes nothing');
missed_minute('nor does the minute in which it ended');
$sql->("SELECT taskq_submit('a')");
step(to_next_minute());
is($sql->("SELECT submitted FROM taskq.metric_history WHERE queue = 'a' AND at <= now() + interval '$skew s' ORDER BY at DESC LIMIT 1"), '1', 'the minute after the step back');
step(7200);

# --- a clean restart keeps the rows; the minute of the start has none
my $rows = $sql->("SELECT count(*) FROM taskq.metric_history WHERE queue = 'a'");
$sql->("SELECT taskq_submit('a')");
$node->stop('fast');
$node->start;
ok(within(60, sub { worker_pid($node) ne '' }), 'the worker is back');
turned();
is($sql->("SELECT count(*) FROM taskq.metric_history WHERE queue = 'a'"), $rows, 'a restart keeps the rows');
missed_minute('the minute of the restart has no rows');
next_minute('the minute after the restart');
is(last_of('a', 'submitted'), '0', 'it has only what happened in it');

# --- a crash: the table is empty, and the counters begin at zero
$sql->("SELECT count(*) FROM taskq_submit_many('a', array_fill('1'::jsonb, ARRAY[100]))");
kill 'KILL', worker_pid($node);
ok(within(60, sub { (eval { $sql->('SELECT count(*) FROM taskq.metric_history') } // '') eq '0' }), 'a crash empties the table');
ok(within(60, sub { worker_pid($node) ne '' }), 'the worker is back after the crash');
turned();
missed_minute('the minute of the crash has no rows');
$sql->("SELECT taskq_submit('a')");
next_minute('the minute after the crash');
is($sql->("SELECT count(*) FROM taskq.metric_minute WHERE least(submitted, claimed, completed, failed, dead, ready, running) < 0"), '0', 'no number is negative');
is(last_of('a', 'submitted'), '1', 'the minute has what happened in it');

# --- the ring: a minute takes the place of the one 1,500 minutes before
my $at = $sql->('SELECT max(at) FROM taskq.metric_minute');
my $places = $sql->('SELECT count(*) FROM taskq.metric_minute');
$sql->("INSERT INTO taskq.metric_minute (queue_id, slot, at, ready, running) SELECT 12345, slot, at, 0, 0 FROM taskq.metric_minute WHERE at = '$at' LIMIT 1");
step(90000 - 120);
step(to_next_minute());
step(to_next_minute());
is($sql->("SELECT count(*) > 0 FROM taskq.metric_minute WHERE at = '$at'::timestamptz + interval '25 h'"), 't', 'it is there');
is($sql->("SELECT count(*) FROM taskq.metric_minute WHERE at = '$at'"), '0', 'the row that was there is not, nor that of a queue that is gone');
cmp_ok($sql->('SELECT count(*) FROM taskq.metric_minute'), '<=', $places + 5, 'rows are overwritten');

# --- it is not dumped; a standby has no rows, and raises no error
my ($out, $err) = run_command([ 'pg_dump', '-d', $node->connstr('postgres') ]);
unlike($out, qr/COPY taskq\.metric_minute/, 'the rows are not dumped');
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', 'SELECT count(*) FROM taskq.metric_history'), '0', 'a standby shows none');
$standby->stop('fast');
sound($node, crashes => 1);
$node->stop('fast');
done_testing();

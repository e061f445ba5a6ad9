# Metrics are exact, with clients that commit, roll back and use savepoints.
# They survive a clean restart. After a crash they start at zero and the log
# says so. Metrics of dropped queues are removed, and their room is free again.
# expect-log: was terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('metrics', 'taskq.max_metrics' => 16, 'autovacuum' => 'off', 'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});
my $file = $node->data_dir . '/pg_stat/taskq_metrics.stat';

# "claimed 3 completed 2 ..." of a queue; histograms by their counts
my $counted = sub {
	my ($queue, $where) = @_;
	return ($where // $node)->safe_psql('postgres', <<"SQL");
SELECT string_agg(name || ' ' || coalesce(labels ->> 'reason' || ' ', '') || coalesce(value::bigint, count), ', ' ORDER BY name, labels)
  FROM taskq.metrics WHERE queue = '$queue' AND kind <> 'gauge' AND (value > 0 OR count > 0)
SQL
};
my $metric = sub { $sql->("SELECT value FROM taskq.metrics WHERE name = '$_[0]'") };

# --- eight clients: the metrics count exactly the calls that were committed
$sql->('SELECT taskq_create_queue(q, \'{"retry": "fixed", "retry_base": "0 s", "max_attempts": -1}\') FROM unnest(ARRAY[\'a\', \'b\']) q');
$sql->(<<'SQL');
CREATE TABLE told (what text);
CREATE PROCEDURE work() LANGUAGE plpgsql AS $$
DECLARE
    task record;
    ending text;
    made text[];
BEGIN
    FOR i IN 1 .. 40 LOOP
        made := '{}';
        PERFORM taskq_submit(q) FROM unnest(ARRAY['a', 'b']) q;
        made := made || 'submitted a'::text || 'submitted b'::text;
        BEGIN
            SELECT * INTO task FROM taskq_claim((ARRAY['a', 'b'])[1 + i % 2]);
            IF FOUND THEN
                -- reported in the savepoint: rolled back with it
                INSERT INTO told VALUES ('claimed ' || task.queue);
                ending := (ARRAY['completed', 'failed', 'released'])[1 + floor(random() * 3)::int];
                CASE ending
                    WHEN 'completed' THEN PERFORM taskq_complete(task.task_id, task.token);
                    WHEN 'failed' THEN PERFORM taskq_fail(task.task_id, task.token, 'e');
                    ELSE PERFORM taskq_release(task.task_id, task.token);
                END CASE;
                INSERT INTO told VALUES (ending || ' ' || task.queue);
            END IF;
            IF random() < 0.3 THEN
                RAISE division_by_zero;
            END IF;
        EXCEPTION WHEN division_by_zero OR deadlock_detected OR SQLSTATE 'TQ001' THEN
            NULL;
        END;
        INSERT INTO told SELECT unnest(made);
        IF random() < 0.3 THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
    END LOOP;
END
$$;
SQL
my $clients = start_clients($node, 8, "\\set VERBOSITY sqlstate\nCALL work();\n");
ok(within(120, sub { $sql->('SELECT count(*) > 3000 FROM told') eq 't' }), 'clients work');
end_clients($clients);
my %errors = errors_of($clients);
delete $errors{'40P01'};
is(join(' ', %errors), '', 'the clients meet no error');
my $wanted = $sql->(<<'SQL');
SELECT split_part(what, ' ', 2), split_part(what, ' ', 1), count(*) FROM told
 GROUP BY 1, 2 ORDER BY 1, 2
SQL
my $got = $sql->(<<'SQL');
SELECT queue, CASE WHEN labels ->> 'reason' = 'released' THEN 'released' ELSE split_part(name, '.', 2) END AS what, value
  FROM taskq.metrics
 WHERE queue IN ('a', 'b') AND (name IN ('tasks.submitted', 'tasks.claimed', 'tasks.completed', 'tasks.failed') OR labels ->> 'reason' = 'released')
 ORDER BY 1, 2
SQL
is($got, $wanted, 'exactly what was committed was counted');
note $got;
is($sql->(<<'SQL'), '', 'histograms have the same counts');
SELECT m.queue, m.name, m.count, c.value FROM taskq.metrics m
  JOIN LATERAL (SELECT sum(n.value) AS value FROM taskq.metrics n WHERE n.queue = m.queue
                   AND n.name = ANY (CASE m.name WHEN 'tasks.queue.wait' THEN ARRAY['tasks.claimed']
                                     WHEN 'tasks.execution.duration' THEN ARRAY['tasks.completed', 'tasks.failed']
                                     ELSE ARRAY['tasks.completed', 'tasks.dead_lettered'] END)) c ON c.value <> m.count
 WHERE m.kind = 'histogram'
SQL

# --- many savepoints in one transaction
$sql->("SELECT taskq_create_queue('many', '{\"retention\": \"none\"}')");
$sql->(<<'SQL');
BEGIN;
SELECT count(*) FROM taskq_submit_many('many', array_fill('1'::jsonb, ARRAY[3000])) \g /dev/null
DO $$
BEGIN
    FOR i IN 1 .. 3000 LOOP
        BEGIN
            PERFORM taskq_complete(task_id, token) FROM taskq_claim('many');
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END
$$;
COMMIT;
SQL
is($counted->('many'), 'tasks.claimed 3000, tasks.completed 3000, tasks.end_to_end.duration 3000, tasks.execution.duration 3000, '
	  . 'tasks.queue.wait 3000, tasks.submitted 3000', 'thousands of savepoints that are released are counted');

# --- prepared transactions are not counted, and the next transaction is
$sql->("BEGIN; SELECT taskq_submit('many'); PREPARE TRANSACTION 'p'");
$sql->("COMMIT PREPARED 'p'");
like($counted->('many'), qr/tasks.submitted 3000$/, 'a prepared transaction is not counted');
$sql->("BEGIN; SELECT taskq_submit('many'); PREPARE TRANSACTION 'p'; SELECT taskq_submit('many')");
like($counted->('many'), qr/tasks.submitted 3001$/, 'the next transaction of the session is');
$sql->("ROLLBACK PREPARED 'p'");

# --- a clean restart keeps the metrics of every database
$sql->('CREATE DATABASE second');
$node->safe_psql('second', 'CREATE EXTENSION taskq');
$node->safe_psql('second', "SELECT taskq_submit('a')");
is($counted->('a') =~ /submitted (\d+)/ && $1 > 1, 1, 'one database');
is($node->safe_psql('second', "SELECT value FROM taskq.metrics WHERE name = 'tasks.submitted'"), '1', 'it does not count for the other database');
my $all = "SELECT * FROM taskq.metrics WHERE kind <> 'gauge' ORDER BY name, queue, labels";
my $before = $sql->($all);
for my $mode ('fast', 'smart')
{
	$node->stop($mode);
	ok(-s $file, "a stop ($mode) leaves a file");
	$node->start;
	is($sql->($all), $before, "a stop ($mode) keeps the metrics");
	is($node->safe_psql('second', "SELECT value FROM taskq.metrics WHERE name = 'tasks.submitted'"), '1', 'of all databases');
	ok(!-e $file, 'the file is gone');
}
$sql->("SELECT taskq_submit('many')");
like($counted->('many'), qr/tasks.submitted 3002$/, 'they continue to count');
unlike(slurp_file($node->logfile), qr/metrics start at zero(?:.|\n)*metrics start at zero/, 'they started at zero only once');

# --- metrics counted at the very end of a shutdown are kept
my $held = $node->background_psql('postgres');
$held->query_safe('BEGIN');
$held->query_safe("SELECT taskq_submit('many')");
my $offset = -s $node->logfile;
system('pg_ctl', '-D', $node->data_dir, '-m', 'smart', '-W', 'stop');
ok(within(60, sub { slurp_file($node->logfile, $offset) =~ /received smart shutdown request/ }), 'a smart shutdown waits');
$held->query_safe('COMMIT');
$held->quit;
$node->stop('fast', fail_ok => 1);
$node->start;
like($counted->('many'), qr/tasks.submitted 3003$/, 'a commit after the request is counted');

# --- a crash, and a server that is killed: the metrics start at zero, and the
# log says so
my $since = $sql->("SELECT DISTINCT since FROM taskq.metrics WHERE kind <> 'gauge'");
$offset = -s $node->logfile;
my $victim = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $victim->query('SELECT pg_backend_pid()');
kill 'KILL', $pid;
eval { $victim->quit };
ok(recovered($node, 1, 60), 'the server recovers from a crash');
like(slurp_file($node->logfile, $offset), qr/taskq: metrics start at zero/, 'the log says that metrics start at zero');
is($counted->('many'), '', 'the metrics are zero');
is($sql->("SELECT count(*) > 0 AND bool_and(since > '$since') FROM taskq.metrics WHERE kind <> 'gauge'"), 't', 'the metrics show the time since then');
$sql->("SELECT taskq_submit('many')");
$offset = -s $node->logfile;
$node->stop('immediate');
ok(!-e $file, 'an immediate stop leaves no file');
$node->start;
is($counted->('many'), '', 'the metrics are zero');
like(slurp_file($node->logfile, $offset), qr/taskq: metrics start at zero/, 'the log says so, too');

# --- a file that is damaged, or of another version
$sql->("SELECT taskq_submit('many')");
for my $damage (sub { $_[0] =~ s/(.)(.{20})$/chr(ord($1) ^ 1) . $2/se }, sub { substr($_[0], -100) = '' }, sub { $_[0] = 'x' x 10 }, sub { $_[0] = '' })
{
	$sql->("SELECT taskq_submit('many')");
	$node->stop('fast');
	my $content = slurp_file($file);
	$damage->($content);
	open my $out, '>:raw', $file or die $!;
	print $out $content;
	close $out;
	$offset = -s $node->logfile;
	$node->start;
	like(slurp_file($node->logfile, $offset), qr/metrics start at zero(?:.|\n)*damaged/, 'a damaged file is ignored');
	is($counted->('many'), '', 'all metrics are zero');
}

# --- dropped queues leave no metrics, and make room for others
$sql->("SELECT taskq_create_queue('keep')");
$sql->("SELECT taskq_submit('keep')");
for my $i (1 .. 30)
{
	$sql->("SELECT taskq_submit('drop')");
	is($counted->('drop'), 'tasks.submitted 1', 'a queue of that name begins at 0') if $i == 1 || $i == 30;
	$sql->("SELECT taskq_drop_queue('drop', true)");
}
is($metric->('metrics.not_counted'), '0', 'everything was counted');
$sql->("SELECT taskq_submit('room ' || i) FROM generate_series(1, 20) i");
cmp_ok($metric->('metrics.not_counted'), '>=', 4, 'with too many queues some are not counted, and that is reported');
is($counted->('keep'), 'tasks.submitted 1', 'earlier queues keep their metrics');
$sql->("SELECT taskq_drop_queue('room ' || i, true) FROM generate_series(1, 20) i");
$sql->("SELECT taskq_submit('drop')");
is($counted->('drop'), 'tasks.submitted 1', 'with room again all are counted');

# --- late counts are not added for a dropped extension
$sql->('DROP EXTENSION taskq CASCADE; CREATE EXTENSION taskq');
ok(within(60, sub { worker_pid($node) ne '' }), 'the extension is created again');
$sql->("SELECT taskq_create_queue('a')");
is($counted->('a'), '', 'its first queue starts at 0');
is($node->safe_psql('second', "SELECT value FROM taskq.metrics WHERE name = 'tasks.submitted'"), '0', 'another database has its own metrics');
$sql->("SELECT taskq_submit('a')");
is($counted->('a'), 'tasks.submitted 1', 'the new extension counts');
$sql->('SELECT taskq.debug_wipe()');
is($counted->('a'), '', 'lost memory loses the metrics');

# --- a leaf of the archive that is truncated
$sql->("SELECT count(*) FROM taskq_submit_many('a', array_fill('1'::jsonb, ARRAY[5]))");
$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('a', max_tasks => 3)");
$sql->("SELECT taskq_filter(task_id, token) FROM taskq_claim('a', max_tasks => 1)");
$node->append_conf('postgresql.conf', 'taskq.retention = 14s');
$node->reload;
ok( within(120, sub {
		$sql->('SELECT count(*) FROM taskq_run_reapers()');
		$counted->('a') =~ /tasks.cleaned 4,/;
	}), 'tasks of truncated leaves are counted as cleaned');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE state IN ('done', 'filtered')"), '0', 'they are removed');
sound($node, crashes => 1);
$node->stop('fast');

# --- without preloading there are only gauges
my $plain = PostgreSQL::Test::Cluster->new('plain');
$plain->init;
$plain->start;
$plain->safe_psql('postgres', 'CREATE EXTENSION taskq');
$plain->safe_psql('postgres', "SELECT taskq_submit('a')");
is($plain->safe_psql('postgres', "SELECT string_agg(DISTINCT kind, ' ') FROM taskq.metrics"), 'gauge', 'without preloading nothing is counted');
is($plain->safe_psql('postgres', "SELECT value FROM taskq.metrics WHERE queue = 'a' AND labels ->> 'state' = 'pending'"), '1', 'what there is is shown');
$plain->stop('fast');
done_testing();

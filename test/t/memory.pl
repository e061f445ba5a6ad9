# Some facts are kept in shared memory only. Heartbeats write nothing,
# taskq_check reports differences between memory and tables, and dropping a
# queue does not block other sessions for long.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node(
	'memory',
	'autovacuum' => 'off',
	'bgwriter_delay' => "'10s'",
	'checkpoint_timeout' => "'1h'",
	'taskq.reaper_interval' => "'1h'",
	'taskq.deadline_interval' => "'1h'");
my $sql = sub { $node->safe_psql('postgres', shift) };

# --- heartbeats
$sql->("SELECT taskq_register('w')");
is($sql->(<<'SQL'), 't', 'a heartbeat assigns no transaction number');
BEGIN;
SELECT state FROM taskq_heartbeat('w') \g /dev/null
SELECT pg_current_xact_id_if_assigned() IS NULL;
COMMIT;
SQL
# the server itself sometimes writes a little WAL: not every time
ok( within(
		30,
		sub {
			$sql->(<<'SQL') eq '0';
SELECT pg_current_wal_insert_lsn() AS before \gset
SELECT count(taskq_heartbeat('w')) FROM generate_series(1, 1000) \g /dev/null
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), :'before');
SQL
		}),
	'1,000 heartbeats write no WAL');

# --- a task that starts to run without memory knowing it
$sql->("SELECT taskq_submit('q')");
is($sql->("SELECT pending, running FROM taskq.queues WHERE queue = 'q'"), '1|0', 'a task waits');
is($sql->('SELECT count(*) FROM taskq_check()'), '0', 'nothing is wrong');
$sql->("UPDATE taskq.task SET state = 3, token = 1, attempt = 1, claimed_at = now(), lease_until = now() + interval '1 h'");
is($sql->('SELECT problem, detail FROM taskq_check() ORDER BY 1, 2'), join("\n",
		'number of live tasks is wrong|queue 1, pending: 1 in memory, 0 rows',
		'number of live tasks is wrong|queue 1, running: 0 in memory, 1 rows',
		'running task has no entry in shared memory|task 1'),
	'taskq_check reports what memory does not know');
$sql->('SELECT taskq.debug_wipe()');
ok(within(20, sub { $sql->('SELECT entries, complete FROM taskq.debug_registry()') eq '1|t' }),
	'lost memory is filled from the rows');
is($sql->("SELECT pending, running FROM taskq.queues WHERE queue = 'q'"), '0|1', 'the counters, too');
is($sql->('SELECT count(*) FROM taskq_check()'), '0', 'nothing is wrong then');

# --- memory of a dropped extension does not belong to its successor
$sql->("SELECT taskq_cancel(1, force => true); SELECT taskq_submit_many('q', ARRAY['1', '2']::jsonb[])");
is($sql->("SELECT pending, running FROM taskq.queues WHERE queue = 'q'"), '2|0', 'tasks wait');
$sql->('DROP EXTENSION taskq; CREATE EXTENSION taskq');
ok(within(20, sub { worker_pid($node) ne '' }), 'the extension is created again');
$sql->("SELECT taskq_create_queue('q')");
is($sql->("SELECT pending, running FROM taskq.queues WHERE queue = 'q'"), '0|0', 'its queue of the same number is empty');
is($sql->('SELECT count(*) FROM taskq_check()'), '0', 'nothing is wrong then');

# --- drop_queue waits for a submit in progress; other sessions continue
$sql->("SELECT taskq_create_queue('drop'); SELECT taskq_create_queue('busy')");
$sql->('CREATE TABLE slowest (ms double precision)');
my $open = $node->background_psql('postgres');
$open->query_safe("BEGIN; SELECT taskq_submit('drop')");
my $drop = $node->background_psql('postgres', on_error_stop => 0);
my $others = <<'SQL';
DO $$
DECLARE
    begin_at timestamptz;
    slowest interval := '0';
    task record;
BEGIN
    FOR i IN 1 .. 300 LOOP
        begin_at := clock_timestamp();
        PERFORM taskq_submit('busy');
        COMMIT;
        slowest := greatest(slowest, clock_timestamp() - begin_at);
        begin_at := clock_timestamp();
        SELECT * INTO task FROM taskq_claim('busy');
        COMMIT;
        slowest := greatest(slowest, clock_timestamp() - begin_at);
        begin_at := clock_timestamp();
        PERFORM taskq_complete(task.task_id, task.token);
        COMMIT;
        slowest := greatest(slowest, clock_timestamp() - begin_at);
    END LOOP;
    INSERT INTO slowest VALUES (extract(epoch FROM slowest) * 1000);
END
$$;
SQL
my $is_dropping = sub {
	$sql->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT taskq_drop_queue%' AND state = 'active'");
};
timely(200, 'ms of the slowest other call while drop_queue waited', sub {
	within(20, sub { !$is_dropping->() }) or return 'Inf';
	$drop->query_until(qr/begun/, "\\echo begun\nSELECT taskq_drop_queue('drop', true);\n");
	within(20, $is_dropping) or return 'Inf';
	$sql->('TRUNCATE slowest');
	$sql->($others);
	# on a slow machine it may have given up in the meantime
	return $is_dropping->() ? $sql->('SELECT round(ms) FROM slowest') : 'Inf';
});
$open->query_safe('COMMIT');
$open->quit;
ok(within(20, sub { !$is_dropping->() }), 'the submit ends');
error_of($node, "SELECT taskq_drop_queue('drop', true)");
is($sql->("SELECT count(*) FROM taskq.queues WHERE queue = 'drop'"), '0', 'then the queue is dropped');
$drop->quit;

sound($node);
$node->stop('fast');
done_testing();

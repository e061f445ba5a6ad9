# The test counts the index entries that claims read. Claims do not read dead
# entries again, even if an old snapshot keeps them. Other cases are tasks that
# are not due, restarts and prepared transactions, and what the background
# worker does when claims would skip a task by mistake.
#
# expect-log: XX000 taskq worker (LOG: .*claims skipped claimable task|DETAIL: .*The task can be claimed from now on|CONTEXT:)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('scan', 'autovacuum' => 'off', 'fsync' => 'off', 'taskq.retention' => 0);
my $sql = sub { $node->safe_psql('postgres', shift) };
my $long = $ENV{LONG} ? 10 : 1;

# how many descents of the dispatch index a claim makes; its result is rolled
# back
sub descents
{
	my ($claim) = @_;

	return $sql->("BEGIN; SELECT count(*) FROM ($claim) c \\g /dev/null\n"
		. "SELECT pg_stat_get_xact_numscans('taskq.task_dispatch_idx'::regclass); ROLLBACK");
}

# --- lifecycles while a snapshot is held
$sql->("SELECT taskq_create_queue('f', '{\"retention\": \"none\"}')");
$sql->("SELECT taskq_create_queue('l', '{\"retention\": \"none\", \"order\": \"lifo\"}')");
$sql->("SELECT taskq_create_queue('r', '{\"retention\": \"none\", \"order\": \"random\"}')");
$sql->(<<'SQL');
CREATE FUNCTION entries_read() RETURNS bigint LANGUAGE sql AS $$
SELECT pg_stat_get_xact_tuples_returned('taskq.task_dispatch_idx'::regclass)
$$;
CREATE TABLE walked (entries bigint);
CREATE PROCEDURE live(queue text, n integer, failing integer DEFAULT 0) LANGUAGE plpgsql AS $$
DECLARE
    task record;
    walked bigint := 0;
BEGIN
    FOR i IN 1 .. n LOOP
        PERFORM taskq_submit(queue, '1');
        COMMIT;
        walked := walked - entries_read();
        SELECT * INTO STRICT task FROM taskq_claim(queue);
        walked := walked + entries_read();
        COMMIT;
        IF failing > 0 AND i % failing = 0 THEN
            PERFORM taskq_fail(task.task_id, task.token, 'e', retry_in => '0 s');
            COMMIT;
            walked := walked - entries_read();
            SELECT * INTO STRICT task FROM taskq_claim(queue);
            walked := walked + entries_read();
            COMMIT;
        END IF;
        PERFORM taskq_complete(task.task_id, task.token);
        COMMIT;
    END LOOP;
    INSERT INTO walked VALUES (walked);
END
$$;
SQL
my $walked = sub { $sql->("TRUNCATE walked; CALL live(" . shift . '); SELECT entries FROM walked') };
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.task');
for (['f', 0], ['l', 0], ['r', 0], ['f', 10])
{
	my ($queue, $failing) = @$_;

	$sql->("SELECT taskq_submit_many('$queue', array_fill('1'::jsonb, ARRAY[100]))") if $queue ne 'r';
	$sql->("CALL live('$queue', 20, $failing)");
	my $early = $walked->("'$queue', 200, $failing");
	$walked->("'$queue', " . 2000 * $long . ", $failing");
	my $late = $walked->("'$queue', 200, $failing");
	note "figure: queue $queue, one in $failing fails: 200 lifecycles read $early entries, later $late";
	cmp_ok($late, '<', 200 * 10, "queue $queue, one in $failing fails: claims do not read dead entries");
	cmp_ok($late, '<', 2 * $early + 400, 'claims read no more than in the beginning');
}

# --- the candidates that one claim leaves for the next
$sql->("SELECT taskq_submit_many('ring', array_fill('1'::jsonb, ARRAY[10]))");
$sql->("SELECT taskq_claim('ring')");
is(descents("SELECT payload FROM taskq_claim('ring')"), 0, 'the next claim does not read the index');

# --- many lanes
$sql->("SELECT taskq_create_queue('lanes')");
$sql->("SELECT taskq_submit('lanes', '1', tags => ARRAY['t' || i]) FROM generate_series(1, 200) i");
my $tags = "(SELECT array_agg('t' || i) FROM generate_series(1, 16) i)";
my $claim = "SELECT payload FROM taskq_claim('lanes', tags => $tags)";
$sql->($claim) for 1 .. 3;
cmp_ok(descents($claim), '<=', 4, 'a claim reads few of the lanes that match');
is($sql->("SELECT count(*) FROM taskq_claim('lanes', max_tasks => 100, tags => $tags)"), '13', 'it gets the tasks of the other lanes');
is($sql->($claim), '', 'then the queue is empty');
is(descents($claim), 0, 'a claim from the empty queue does not read the index');
$sql->("SELECT taskq_submit('lanes', '2', tags => '{t3}')");
is($sql->($claim), '2', 'a new task is found');
$old->quit;

# --- tasks that are not due yet
$sql->("SELECT taskq_submit('due', '1', delay => '2 s'), taskq_submit('due', '2')");
is($sql->("SELECT payload FROM taskq_claim('due', max_tasks => 5)"), '2', 'one task is due');
is($sql->("SELECT payload FROM taskq_claim('due', max_tasks => 5)"), '', 'the other task is not due');
ok(within(60, sub { $sql->("SELECT payload FROM taskq_claim('due', max_tasks => 5)") eq '1' }), 'the other task becomes due');
$sql->("SELECT taskq_submit('due', '3', delay => '2 s'), taskq_submit('due', '4')");
is($sql->("SELECT payload FROM taskq_claim('due', max_tasks => 5, claim_order => 'lifo')"), '4', 'tasks that become due in reverse order: one is due');
ok(within(60, sub { $sql->("SELECT payload FROM taskq_claim('due', max_tasks => 5, claim_order => 'lifo')") eq '3' }),
	'the other one becomes due, too');

# a claim that takes long: a task that becomes due in the meantime is not
# skipped
my $lock = $node->background_psql('postgres');
my $slow = $node->background_psql('postgres');
$lock->query_safe('SELECT pg_advisory_lock(74111, 1)');
$sql->("SELECT taskq_submit('slow', '1', delay => '1 s'), taskq_submit('slow', '2')");
$slow->query_until(qr/begun/, "SET taskq.debug_point = 'scan_before_learn';\n\\echo begun\nSELECT payload FROM taskq_claim('slow', max_tasks => 5);\n");
ok(within(60, sub { $sql->("SELECT count(*) FROM taskq.task WHERE coalesce(run_at, available_at) < clock_timestamp() AND payload = '1'"
	. " AND queue_id = (SELECT queue_id FROM taskq.queue WHERE name = 'slow')") eq '1' }), 'a task has become due');
$lock->query_safe('SELECT pg_advisory_unlock(74111, 1)');
$slow->quit;
$lock->quit;
is($sql->("SELECT payload FROM taskq_claim('slow')"), '1', 'it can be claimed');

# --- memory is lost; prepared transactions that survive a start
$sql->("SELECT taskq_submit_many('p', ARRAY['1', '2', '3']::jsonb[])");
is($sql->("BEGIN; SELECT payload FROM taskq_claim('p'); PREPARE TRANSACTION 'held'"), '1', 'claimed by a prepared transaction');
$sql->("BEGIN; SELECT taskq_submit('p', '4', priority => 3); PREPARE TRANSACTION 'offered'");
$node->restart;
is($sql->("SELECT payload FROM taskq_claim('p')"), '2', 'after a start the other tasks are claimed');
$sql->('SELECT taskq.debug_wipe()');
is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '3', 'after a wipe, too');
is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '', 'then the queue is empty');
$sql->("ROLLBACK PREPARED 'held'");
is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '1', 'the claim is rolled back and its task can be claimed');
$sql->("COMMIT PREPARED 'offered'");
is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '4', 'the submit is committed and its task can be claimed');
# an error, or the end of the session, after the end of the transaction
for my $how ('error', 'fatal')
{
	$sql->("BEGIN; SELECT taskq_submit('p', '5'); PREPARE TRANSACTION 'offered'");
	$sql->("SELECT taskq_submit('p', '7')");
	is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '7', 'the other tasks are claimed');
	is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '', 'then the queue is empty');
	isnt(error_of($node, "SET taskq.fault_point = 'prepared_ended:$how'; COMMIT PREPARED 'offered'"), '', "COMMIT PREPARED ends by $how");
	is($sql->('SELECT count(*) FROM pg_prepared_xacts'), '0', 'the transaction has committed');
	is($sql->("SELECT payload FROM taskq_claim('p', max_tasks => 5)"), '5', 'its task is claimed');
}

# --- the audit
my $numbers = sub { $sql->('SELECT ' . shift . ' FROM taskq.range_numbers()') };
ok( within(60, sub { $sql->("SELECT taskq_claim('p')"); $numbers->('audited') > 0 }), 'ranges are checked');
is($numbers->('repaired'), 0, 'nothing is wrong');
sound($node);
my $id = $sql->("SELECT taskq_submit('wrong', '1')");
$sql->("SELECT taskq_submit('wrong', '2')");
$sql->("SELECT taskq.debug_dead($id)");
is($sql->("SELECT payload FROM taskq_claim('wrong', max_tasks => 5)"), '2', 'a claim skips a task by mistake');
ok(within(60, sub { $numbers->('repaired') > 0 }), 'the background worker repairs that');
is($sql->("SELECT payload FROM taskq_claim('wrong', max_tasks => 5)"), '1', 'the task is claimed');
is($numbers->('repaired'), 1, 'once');
my @lines = slurp_file($node->logfile) =~ /(XX000 .*claims skipped claimable task $id)/g;
is(scalar @lines, 1, 'the repair is logged once');

# A claim commits just while the background worker checks who has the task: it
# is not lost, and its position will never be published.
$sql->("SELECT taskq_submit('taken', '1')");
$sql->("SELECT taskq_submit('taken', '2')");
my $taker = $node->background_psql('postgres');
is($taker->query_safe("BEGIN; SELECT payload FROM taskq_claim('taken')"), '1', 'a claim is not committed yet');
$lock = $node->background_psql('postgres');
$lock->query_safe('SELECT pg_advisory_lock(74111, 1)');
$node->append_conf('postgresql.conf', "taskq.debug_point = 'row_fate'");
$node->reload;
my $looker = worker_pid($node);
ok( within(60, sub {
	$sql->("SET taskq.debug_point = ''; SELECT taskq_claim('p')");
	$sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $looker") eq '1';
}), 'the background worker has seen which transaction writes the row, which then commits');
$taker->query_safe('COMMIT');
$taker->quit;
$node->append_conf('postgresql.conf', "taskq.debug_point = ''");
$node->reload;
$lock->query_safe('SELECT pg_advisory_unlock(74111, 1)');
my $audited = $numbers->('audited');
ok(within(60, sub { $sql->("SELECT taskq_claim('p')"); $numbers->('audited') > $audited + 10 }), 'the background worker continues');
is($numbers->('repaired'), 1, 'the background worker does not report the task as lost');

# a claim of many tasks publishes its position while it reads, so that
# concurrent claims need not read what it has taken; if it is rolled back, all
# these tasks are requeued
$sql->("SELECT count(*) FROM taskq_submit_many('list', array_fill('1'::jsonb, ARRAY[200]))");
my $learned = $numbers->('learned');
is($sql->("BEGIN; SELECT count(*) FROM taskq_claim('list', max_tasks => 100); ROLLBACK"), '100', 'a claim gets a hundred tasks');
cmp_ok($numbers->('learned') - $learned, '>=', 10, 'the claim has published its position');
is($sql->("SELECT count(*) FROM taskq_claim('list', max_tasks => 300)"), '200', 'the claim was rolled back, and all tasks are there');

# many are checked together, and delay no other duty
$sql->("SELECT taskq_submit('many' || i, '1') FROM generate_series(1, 60) i");
$sql->("SELECT taskq.debug_dead(task_id) FROM taskq.tasks WHERE queue LIKE 'many%'");
is($sql->("SELECT payload FROM taskq_claim('many1')"), '', 'sixty tasks that claims pass over');
ok(within(45, sub { $numbers->('repaired') == 61 }), 'the audit finds them in less than a second for each');
is($sql->("SELECT count(c.task_id) FROM generate_series(1, 60) i, LATERAL taskq_claim('many' || i) c"), '60', 'all of them are claimed');
$lock->quit;
$node->stop('fast');
done_testing();

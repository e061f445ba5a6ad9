# taskq_explain and taskq_explain_claim report reasons that need other sessions,
# other settings or other servers, and every reason has a test. The reasons that
# one server shows are tested in test/sql/explain.sql and, for steps of
# workflows, workflow_explain.sql, which run here, too.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use TaskqWaiters ();

my $time = qr/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d/;
my $node = start_node(
	'explain',
	init => { allows_streaming => 1 },
	'datestyle' => 'iso',
	'taskq.stale_threshold' => "'100ms'",
	'taskq.dead_threshold' => "'1h'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my %given;

# answer(NODE, DATABASE, CALL): the answer; the reasons that it gives are
# recorded.
sub answer
{
	my ($server, $database, $call) = @_;
	my $said = $server->safe_psql($database,
		"SELECT $call; SELECT 'reason ' || name FROM taskq.debug_reasons() WHERE given > 0");
	my %now = map { $_ => 1 } $said =~ /^reason (\w+)$/mg;

	$said =~ s/^reason \w+\n?//mg;
	$given{$_} = 1 for keys %now;
	return ($said, \%now);
}

# says(NODE, DATABASE, CALL, WORDS, REASON, NAME)
sub says
{
	my ($server, $database, $call, $words, $reason, $name) = @_;
	my ($said, $now) = answer($server, $database, $call);

	like($said, $words, $name);
	ok($now->{$reason}, "$name: $reason") or diag(join ' ', sort keys %$now);
	return $said;
}

# the same, once it says so
sub comes_to_say
{
	my ($call, $words, $reason, $name) = @_;

	within(20, sub { $sql->("SELECT $call") =~ $words });
	return says($node, 'postgres', $call, $words, $reason, $name);
}

# --- workers without heartbeats, and dead workers
$sql->("SELECT taskq_register('w', '{q}', '{red}')");
my $id = $sql->("SELECT taskq_submit('q', tags => '{red}', max_attempts => 1)");
$sql->("SELECT taskq_claim('q', 'w')");
comes_to_say("taskq_explain($id)",
	qr/^Task $id of queue "q" has been running since $time, attempt 1 of 1: worker "w" holds it, but is silent: it was last seen at $time, and is declared dead after 01:00:00 of silence\.$/,
	'worker_stale', 'a worker without heartbeats holds it');
my $next = $sql->("SELECT taskq_submit('q', tags => '{red}')");
says($node, 'postgres', "taskq_explain($next)",
	qr/it is ready, but every worker that could claim it \(1\) is silent: "w" was last seen at $time\. Start another worker\.$/,
	'workers_stale', 'no worker sends heartbeats');
like($sql->("SELECT taskq_explain_claim('q', 'w', '{red}'); SELECT state FROM taskq.workers WHERE worker = 'w'"),
	qr/would get a task now: $next\.\nstale$/, 'asking about a worker is not a heartbeat of it');
$sql->("SELECT taskq_register('executioner', '{nothing}')");
is($sql->("SELECT taskq_expire('executioner', '50 ms')"), 1, 'the worker is declared dead');
says($node, 'postgres', "taskq_explain_claim('q', 'w')",
	qr/^A claim from queue "q" by worker "w" gets nothing now: the worker has been declared dead, so the claim raises TQ007; register it again with taskq_register\('w'\)\.$/,
	'claim_worker_dead', 'a claim by it');
says($node, 'postgres', "taskq_explain_claim(NULL, 'w')", qr/raises TQ007/, 'claim_worker_dead', 'from all queues');
says($node, 'postgres', "taskq_explain($next)",
	qr/it is ready, but the workers that could claim it are dead; "w" was declared dead at $time\. Start it again\.$/,
	'workers_dead', 'all workers are dead');
comes_to_say("taskq_explain($id)",
	qr/has been dead since $time \(worker_dead\): attempt 1 of 1 ended because its worker died; its last error: "the worker died"\. taskq_retry\($id\) runs it again/,
	'dead_worker', 'its last attempt ended with its worker');

# --- leases and time limits that expire
$id = $sql->("SELECT taskq_submit('q', max_attempts => 1)");
$sql->("SELECT taskq_claim('q', lease => '1 ms')");
comes_to_say("taskq_explain($id)", qr/\(lease_expired\): attempt 1 of 1 ended because its lease expired;/, 'dead_lease', 'its lease expired');
$id = $sql->("SELECT taskq_submit('q', max_attempts => 1, options => '{\"time_limit\": \"1 ms\"}')");
$sql->("SELECT taskq_claim('q', lease => '1 h')");
comes_to_say("taskq_explain($id)", qr/\(timeout\): attempt 1 of 1 exceeded its time_limit;/, 'dead_timeout', 'its time limit has passed');

# --- transactions that are still open
my $other = $node->background_psql('postgres');
$sql->(q{SELECT taskq_create_queue('one', '{"max_running": 1}')});
$id = $sql->("SELECT taskq_submit('one')");
$other->query_safe('BEGIN');
$other->query_safe("SELECT taskq_claim('one', lease => '1 h')");
says($node, 'postgres', "taskq_explain($id)",
	qr/is pending: an open transaction is changing it, for example one that has claimed it; try again when that transaction has ended\.$/,
	'busy', 'an open claim');
says($node, 'postgres', "taskq_explain_claim('one')",
	qr/gets nothing now: every ready task \(1\) is being changed by an open transaction, for example a claim\.$/,
	'claim_busy', 'another claim');
$next = $sql->("SELECT taskq_submit('one')");
says($node, 'postgres', "taskq_explain($next)",
	qr/queue "one" has reached its max_running of 1; open transactions hold 1\. Another task can be claimed when one finishes, or after taskq_alter_queue\('one', '\{"max_running": 2\}'\)\.$/,
	'queue_limit', 'the open claim counts');
$other->query_safe('PREPARE TRANSACTION \'p\'');
says($node, 'postgres', "taskq_explain_claim('one')", qr/max_running of 1; open transactions hold 1\./, 'queue_limit', 'and when it is prepared');
$sql->("COMMIT PREPARED 'p'");
says($node, 'postgres', "taskq_explain_claim('one')", qr/max_running of 1: claims without a name hold 1\./, 'queue_limit', 'the claim has ended');
$sql->("SELECT taskq_cancel($id, force => true)");
says($node, 'postgres', "taskq_explain_claim('one')", qr/^A claim from queue "one" would get a task now: $next\.$/, 'claim_gets', 'there is room again');
is($sql->("SELECT task_id FROM taskq_claim('one', lease => '1 h')"), $next, 'a claim gets the task');

# the rate, with claims of another session
$sql->(q{SELECT taskq_create_queue('rate', '{"rate_limit": {"count": 1, "per": "1 s"}}')});
$sql->("SELECT taskq_submit('rate')") for 1 .. 2;
ok(within(20, sub { $other->query_safe("SELECT count(*) FROM taskq_claim('rate', lease => '1 h')") eq '1' }), 'one is claimed');
my $said = says($node, 'postgres', "taskq_explain_claim('rate')",
	qr/queue "rate" has a rate_limit of 1 claims per 00:00:01, which is used up; a claim after $time gets a task\.$/,
	'rate_limit', 'the rate is used up');
my ($after) = $said =~ /after ($time)/;
ok(within(20, sub { $sql->("SELECT taskq_explain_claim('rate')") =~ /would get a task now/ }), 'the wait has an end');
cmp_ok($sql->("SELECT extract(epoch FROM clock_timestamp() - '$after')"), '>=', 0, 'no claim succeeds before the time that it named');
is($sql->("SELECT count(*) FROM taskq_claim('rate')"), 1, 'then a claim gets it');

# --- sessions that wait
TaskqWaiters::waiters_of($node);
$sql->("SELECT taskq_create_queue('awaited')");
$other->query_safe('SELECT pg_advisory_lock(74111, 1)');
my $waiter = TaskqWaiters::sleeper("SET taskq.debug_point = 'wait_woken'; SELECT task_id FROM taskq_claim('awaited', wait => '5 min');");
says($node, 'postgres', "taskq_explain_claim('awaited')",
	qr/gets nothing now: the queue is empty\. 1 session waits in the server for tasks of the queue\.$/, 'claim_waiters', 'other sessions wait already');
$id = $sql->("SELECT taskq_submit('awaited')");
ok(TaskqWaiters::at_point($waiter), 'one session is woken');
says($node, 'postgres', "taskq_explain($id)",
	qr/it is ready, but no worker is registered .*\. 1 session waits in the server for such a task\.$/, 'waiters', 'a session waits for such a task');
$other->query_safe('SELECT pg_advisory_unlock(74111, 1)');
is(TaskqWaiters::answer($waiter), $id, 'the session takes it');
$other->quit;

# --- max_running of a worker is explained with its own numbers
$sql->("SELECT taskq_register('narrow', '{narrow}', max_running => 1)");
$sql->("SELECT taskq_submit('narrow')") for 1 .. 2;
says($node, 'postgres', "taskq_explain_claim('narrow', 'narrow')", qr/would get a task/, 'claim_gets', 'a worker with a limit');
$sql->("SELECT taskq_claim('narrow', 'narrow')");
says($node, 'postgres', "taskq_explain_claim(NULL, 'narrow')", qr/queue "narrow": the worker has reached its max_running of 1;/, 'claim_worker_limit', 'a worker that has reached its limit');

# --- a claim returns the task that the explanation before it named
$sql->(q{SELECT taskq_create_queue('fifo'), taskq_create_queue('lifo', '{"order": "lifo"}')});
my $differ = $sql->(<<'SQL');
SELECT setseed(0.5);
SELECT count(taskq_submit(CASE WHEN n % 2 = 0 THEN 'fifo' ELSE 'lifo' END, priority => (random() * 3)::int,
    delay => CASE WHEN random() < 0.2 THEN interval '1 h' END,
    tags => CASE WHEN random() < 0.6 THEN (ARRAY['{a}', '{b}', '{a,b}', '{c}'])[1 + (random() * 3)::int]::text[] END))
  FROM generate_series(1, 400) n;
CREATE TEMP TABLE seen (told bigint, got bigint, words text);
DO $$
DECLARE
    q text;
    t text[];
    words text;
    got bigint;
BEGIN
    FOR i IN 1 .. 600 LOOP
        q := CASE WHEN random() < 0.5 THEN 'fifo' ELSE 'lifo' END;
        t := (ARRAY['{}', '{a}', '{a,b}', '{b,c}'])[1 + (random() * 3)::int];
        words := taskq_explain_claim(q, tags => t);
        got := NULL;
        SELECT task_id INTO got FROM taskq_claim(q, tags => t, lease => '1 h');
        INSERT INTO seen VALUES (substring(words FROM 'would get a task now: (\d+)')::bigint, got, words);
    END LOOP;
END
$$;
SELECT count(*) FILTER (WHERE told IS DISTINCT FROM got), count(got) > 200, count(*) - count(got) > 50,
       count(DISTINCT words) FILTER (WHERE got IS NULL) > 1
  FROM seen;
SQL
like($differ, qr/^0\|t\|t\|t$/m, 'claims get what was explained, or nothing where it says nothing');

# --- the scan is bounded
$sql->("SELECT taskq_submit_many('many', array_agg(to_jsonb(n))) FROM generate_series(1, 10100) n");
is($sql->("SELECT count(*) FROM taskq_claim('many', max_tasks => 10100, lease => '1 h')"), 10100, 'many tasks run');
$id = $sql->("SELECT taskq_submit('many')");
# the claim has recorded a dead range where these tasks are
$sql->('SELECT taskq.debug_wipe()');
says($node, 'postgres', "taskq_explain_claim('many')", qr/the first entries of the queue are all running or gone, and only these were checked;/, 'claim_too_many', 'a long scan ends early');
says($node, 'postgres', "taskq_explain($id)", qr/it is ready, /, 'no_worker', 'the answer says what is known');
is($sql->("SELECT taskq_drop_queue('many', force => true)"), 10101, 'the tasks are removed');

# --- the lease has expired, and the task is about to be returned
$sql->("SELECT taskq_submit('lost', tags => ARRAY[t]) FROM unnest('{a,b,c}'::text[]) t");
my %lost = map { split /\|/ } split /\n/, $sql->("SELECT tags[1], task_id FROM taskq_list('lost')");
$node->append_conf('postgresql.conf', "taskq.fault_point = 'duty_ends:error'");
$node->reload;
ok(within(20, sub { $sql->('SHOW taskq.fault_point') eq 'duty_ends:error' }), 'no task can be returned');
$sql->("SELECT taskq_claim('lost', tags => '{a}', lease => '1 ms')");
comes_to_say("taskq_explain($lost{a})",
	qr/attempt 1 of 3: its lease expired at $time; the background worker is about to reclaim it\.$/,
	'lost_lease', 'its lease has expired');
$node->append_conf('postgresql.conf', "taskq.fault_point = ''");
$node->reload;
comes_to_say("taskq_explain_claim('lost', tags => '{a}')", qr/would get a task now: $lost{a}\.$/, 'claim_gets', 'the task is returned');

# --- a standby
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
says($standby, 'postgres', "taskq_explain_claim('lost', tags => '{a}')",
	qr/gets nothing now: this server is a standby, where claims raise 25006; claim on the primary\.$/, 'claim_standby', 'on a standby');
says($standby, 'postgres', "taskq_explain($lost{a})", qr/it is ready, /, 'no_worker', 'tasks are explained there');
$standby->stop;

# --- a copy
$sql->('CREATE DATABASE source');
$node->safe_psql('source', 'CREATE EXTENSION taskq');
$node->safe_psql('source', "SELECT taskq_submit('q')");
$node->safe_psql('source', "SELECT taskq_claim('q', lease => '1 h')");
$sql->('CREATE DATABASE copied TEMPLATE source');
my $copy = qr/this database is a copy that has not been activated; a superuser must call taskq_activate\(\)\.$/;
says($node, 'copied', 'taskq_explain(1)', qr/If its worker is lost, it is not reclaimed automatically: $copy/, 'not_activated', 'a copy');
says($node, 'copied', "taskq_explain_claim('q')", qr/is running: claims without a name hold 1\. If their workers are lost, they are not reclaimed automatically: $copy/, 'claim_all_running', 'a claim in a copy');
$node->safe_psql('copied', 'UPDATE taskq.task SET lease_until = clock_timestamp()');
says($node, 'copied', 'taskq_explain(1)',
	qr/its lease expired at $time, and it is not reclaimed: this database is a copy that has not been activated; a superuser must call taskq_activate\(\)\. taskq_retry\(1, force => true\) reclaims it immediately\.$/,
	'lost_lease', 'an expired lease in a copy');
$node->safe_psql('copied', 'SELECT taskq_retry(1, force => true)');
is($node->safe_psql('copied', 'SELECT state FROM taskq_get(1)'), 'pending', 'the advice helps');
$node->safe_psql('copied', 'SELECT taskq_activate()');
ok(within(20, sub { worker_pid($node, 'copied') ne '' }), 'the other advice helps, too');
$node->safe_psql('copied', "SELECT taskq_claim('q', lease => '1 h')");
says($node, 'copied', 'taskq_explain(1)', qr/holds it until $time at the latest\.$/, 'runs_by_nobody', 'nothing is wrong then');
$sql->('DROP DATABASE copied');
$sql->('DROP DATABASE source');

# --- reasons that one server shows; even if it is slow, its workers send
# heartbeats in time
$node->adjust_conf('postgresql.conf', 'taskq.stale_threshold', "'1h'");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('taskq.stale_threshold') = '1h'") or die;
for my $name (qw(explain workflow_explain))
{
	my $script = slurp_file("$FindBin::Bin/../sql/$name.sql");
	$sql->('CREATE DATABASE words');
	$node->safe_psql('words', 'CREATE EXTENSION taskq');
	my (undef, $out, $err) = $node->psql('words', "$script\nSELECT 'reason ' || name FROM taskq.debug_reasons() WHERE given > 0;", on_error_stop => 0);
	my @shown = $out =~ /^reason (\w+)$/mg;
	$given{$_} = 1 for @shown;
	cmp_ok(scalar @shown, '>', $name eq 'explain' ? 30 : 9, "the script $name of the regression test gives most reasons");
	is($err, '', 'it raises no error');
	$sql->('DROP DATABASE words');
}
$node->adjust_conf('postgresql.conf', 'taskq.stale_threshold', "'100ms'");

# --- without a background worker
$sql->("SELECT taskq_register('gone', '{lost}', '{b}')");
$sql->("SELECT taskq_deregister('executioner')");
$node->append_conf('postgresql.conf', "max_logical_replication_workers = 0\n");
$node->stop;
# the launcher has the only slot
$node->append_conf('postgresql.conf', "max_worker_processes = 1");
$node->start;
ok(within(20, sub { $sql->("SELECT taskq_explain_claim('lost', tags => '{a}')") =~ /would get/ }), 'claims continue to work');
$sql->("SELECT taskq_claim('lost', tags => '{a}', lease => '1 ms')");
my $missing = qr/the background worker of this database is not running; increase "max_worker_processes" \(currently 1\) and restart the server\. Until then, taskq_run_reapers\(\) does its work once per call\./;
comes_to_say("taskq_explain($lost{a})", qr/its lease expired at $time, and it is not reclaimed: $missing taskq_retry\($lost{a}, force => true\)/, 'no_background_worker', 'without a background worker');
$sql->('SELECT taskq_run_reapers()');
is($sql->("SELECT state FROM taskq_get($lost{a})"), 'pending', 'the advice helps');
$sql->("SELECT taskq_register('gone', '{lost}', '{b}', keep => true)");
$sql->("SELECT taskq_claim('lost', 'gone')");
$sql->("SELECT taskq_register('executioner', '{nothing}')");
ok( within(
		20,
		sub {
			$sql->("SELECT taskq_expire('executioner', '50 ms')");
			$sql->("SELECT state FROM taskq.workers WHERE worker = 'gone'") eq 'dead';
		}),
	'the worker dies');
says($node, 'postgres', "taskq_explain($lost{b})", qr/its worker "gone" was declared dead at $time, and it is not reclaimed: $missing/, 'lost_worker', 'its tasks are not returned');
$sql->(q{SELECT taskq_alter_queue('lost', '{"time_limit": "1 ms", "max_attempts": 1}')});
$id = $sql->("SELECT taskq_submit('lost', tags => '{d}')");
$sql->("SELECT taskq_claim('lost', tags => '{d}', lease => '1 h')");
comes_to_say("taskq_explain($id)", qr/it exceeded its time_limit at $time, and it is not reclaimed: $missing taskq_retry\($id, reset_attempts => true, force => true\) reclaims it immediately\.$/, 'lost_time', 'its time limit is over');
$sql->("SELECT taskq_retry($id, reset_attempts => true, force => true)");
is($sql->("SELECT state FROM taskq_get($id)"), 'pending', 'the advice helps');
$sql->("UPDATE taskq.task SET deadline = clock_timestamp() WHERE task_id = $id");
says($node, 'postgres', "taskq_explain($id)", qr/its deadline, $time, has passed, so it cannot be claimed, and nothing processes the deadline: $missing$/, 'deadline_past', 'its deadline is over');
says($node, 'postgres', "taskq_explain_claim('lost', tags => '{d}')", qr/every ready task \(1\), such as $id, is past its deadline, and nothing processes the deadline: $missing$/, 'claim_deadline', 'the same for a claim');

# --- without preloading
$sql->(q{SELECT taskq_alter_queue('lost', '{"time_limit": null}'), taskq_create_queue('capped', '{"max_running": 1}')});
$sql->(q{SELECT taskq_alter_queue('one', '{"max_running": null}'), taskq_submit('one')});
$sql->(q{SELECT taskq_alter_queue('one', '{"max_running": 1}'), taskq_alter_queue('*', '{"rate_limit": {"count": 1, "per": "1 s"}}')});
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
my $preload = qr/add taskq to shared_preload_libraries and restart the server/;
says($node, 'postgres', "taskq_explain_claim('one')",
	qr/queue "one" has a max_running, which requires taskq to be loaded via shared_preload_libraries, so claims raise 55000; $preload, or remove the limit: taskq_alter_queue\('one', '\{"max_running": null\}'\)\.$/,
	'limit_not_preloaded', 'a limit');
is(error_of($node, "SELECT taskq_claim('one')"), '55000', 'claims from it fail');
$sql->(q{SELECT taskq_alter_queue('one', '{"max_running": null}')});
says($node, 'postgres', "taskq_explain_claim('one')", qr/has a rate_limit, .* remove the limit: taskq_alter_queue\('\*', '\{"rate_limit": null\}'\)\.$/, 'limit_not_preloaded', 'the next one');
$sql->(q{SELECT taskq_alter_queue('*', '{"rate_limit": null}')});
says($node, 'postgres', "taskq_explain_claim('one')", qr/would get a task now/, 'claim_gets', 'the advice helps');
$sql->("SELECT taskq_register('both', '{free,capped}'), taskq_submit('free')");
says($node, 'postgres', "taskq_explain_claim(NULL, 'both')", qr/gets nothing now: queue "capped" has a max_running,/, 'limit_not_preloaded', 'one of several queues has a limit');
says($node, 'postgres', "taskq_explain_claim('capped')", qr/gets nothing now: queue "capped" has a max_running,/, 'limit_not_preloaded', 'one of several empty queues has a limit');
is(error_of($node, "SELECT taskq_claim('capped')"), '55000', 'claims from them fail, too');
$sql->("SELECT taskq_register('narrow')");
$sql->("UPDATE taskq.worker SET max_running = 1 WHERE name = 'narrow' AND ended_at IS NULL");
says($node, 'postgres', "taskq_explain_claim('free', 'narrow')", qr/gets nothing now: the worker has a max_running, .* so its claims raise 55000; $preload,/, 'limit_not_preloaded', 'the limit of a worker');
is(error_of($node, "SELECT taskq_claim('free', 'narrow')"), '55000', 'claims by it fail');
$sql->("SELECT taskq_claim('one', lease => '1 ms')");
comes_to_say("taskq_explain((SELECT max(task_id) FROM taskq_list('one', 'running')))",
	qr/its lease expired at $time, and it is not reclaimed: taskq is not loaded via shared_preload_libraries, so there is no background worker; call taskq_run_reapers\(\), or $preload\. taskq_retry\(\d+, force => true\) reclaims it immediately\.$/,
	'not_preloaded', 'without preloading');

# --- every reason of the table
my @all = split /\n/, $sql->('SELECT name FROM taskq.debug_reasons() ORDER BY name');
my @untested = grep { !$given{$_} } @all;
is("@untested", '', (@all - @untested) . ' reasons explained, none is without a test');
note((@all - @untested) . ' reasons explained');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'taskq'\nmax_worker_processes = 16");
$node->restart;
ok(within(20, sub { worker_pid($node) ne '' }), 'the answers are the same as at first');
sound($node);
done_testing();

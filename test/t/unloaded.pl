# A server does not preload the library. Heartbeats and progress are stored in
# rows, duties run when they are called, and features that need memory raise an
# error. Nothing is lost when the server starts or stops to preload the library.
# expect-log: was terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $node = start_node('unloaded', 'fsync' => 'off', 'restart_after_crash' => 'on', 'taskq.dead_threshold' => "'2min'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $threshold = sub {
	my ($span) = @_;
	$node->adjust_conf('postgresql.conf', 'taskq.dead_threshold', "'$span'");
	$node->reload;
	within(20, sub { $sql->("LOAD 'taskq'; SHOW taskq.dead_threshold") eq $span }) or die;
};
my $preload = sub {
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', $_[0] ? "'taskq'" : "''");
	$node->restart;
};
my $reap = sub { $sql->("SELECT string_agg(reaper || ' ' || acted, ', ') FROM taskq_run_reapers() WHERE acted > 0") };
my $state = sub { $sql->("SELECT state FROM taskq.workers WHERE worker = '$_[0]'") };

# a claim of a new task of the queue: id and token
sub claim
{
	my ($queue, $worker) = @_;
	$sql->("SELECT taskq_submit('$queue')");
	return split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('$queue', '$worker')");
}

# --- tasks and workers from the time when the library was preloaded
$sql->("SELECT taskq_create_queue('few', '{\"max_running\": 5}'), taskq_create_queue('slow', '{\"rate_limit\": {\"count\": 1, \"per\": \"1 h\"}}'),"
	  . " taskq_create_queue('deep', '{\"max_depth\": 2}')");
$sql->("SELECT taskq_submit(q) FROM unnest('{few,slow,deep}'::text[]) q");
$sql->("SELECT taskq_register(w, tags => '{}') FROM unnest('{w,v}'::text[]) w; SELECT taskq_register('limited', max_running => 2)");
my ($w_id, $w_token) = claim('q', 'w');
my ($v_id, $v_token) = claim('q', 'v');
my ($l_id, $l_token) = claim('q', 'limited');
my ($f_id, $f_token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('few', lease => '1 h')");
is($sql->("SELECT taskq_cancel($w_id)"), 'requested', 'a task is asked to stop');
$sql->("SELECT taskq_heartbeat('w')");
is($sql->('SELECT count(*) FROM taskq.worker_sign'), '0', 'preloaded: a heartbeat writes no row');

# --- not preloaded
$preload->(0);
is($sql->("SELECT string_agg(worker || ' ' || state || ' ' || running || coalesce(' ' || last_seen, ''), ', ' ORDER BY worker) FROM taskq.workers"),
	'limited active 1, v active 1, w active 1', 'workers are shown, without the time of their last heartbeat');
is($sql->("SELECT (taskq_heartbeat('w')).cancel"), "{$w_id}", 'a heartbeat returns a request from before');
is($sql->("SELECT taskq_cancel($v_id); SELECT (taskq_heartbeat('v')).cancel"), "requested\n{$v_id}", 'a heartbeat returns a request from now');
is($sql->("SELECT clock_timestamp() - last_seen < '1 min' FROM taskq.workers WHERE worker = 'w'"), 't', 'the time of the heartbeat is shown');
is($sql->("SELECT taskq_register('new'); SELECT taskq_drain('new'); SELECT (taskq_heartbeat('new')).drain; SELECT taskq_deregister('new')"),
	"0\n\nt\n0", 'register, drain, deregister');

is($sql->("SELECT value FROM taskq.settings WHERE name = 'taskq.stale_threshold'"), '30', 'settings exist, as the first thing in a session');

# rows are updated in place
$node->psql('postgres', "SELECT taskq_heartbeat('w');\n" x 200);
is($sql->("SELECT count(*) FROM taskq.worker_sign JOIN taskq.worker USING (worker_id) WHERE name = 'w'"), '1', 'two hundred heartbeats are one row');
ok(within(20, sub { $sql->("SELECT n_tup_upd >= 200 AND n_tup_hot_upd > n_tup_upd * 0.9 FROM pg_stat_user_tables WHERE relname = 'worker_sign'") eq 't' }),
	'by heap-only updates');

# --- no heartbeat waits for the heartbeat of another transaction
my $first = $node->background_psql('postgres');
$first->query_safe("BEGIN; SELECT taskq_heartbeat('w'), taskq_progress($w_id, $w_token, 0.1, 'begun')");
is($sql->("SET lock_timeout = '5 s'; SELECT (taskq_heartbeat('w')).state"), 'active', 'a heartbeat does not wait for an open transaction');
is($sql->("SET lock_timeout = '5 s'; SELECT cancel FROM taskq_progress($w_id, $w_token, 0.2)"), 't', 'progress does not wait, either');
is($sql->("SELECT progress FROM taskq_get($w_id)"), '0.2', 'the progress is shown');
$first->query_safe('COMMIT');
is($sql->("SELECT progress FROM taskq_get($w_id)"), '0.2', 'it remains the newest');
is($sql->("SELECT * FROM taskq.task_progress($w_id, $w_token)"), '0.2|begun', 'it has the message of the other one');
is($sql->("SELECT count(*) FROM taskq.worker_sign JOIN taskq.worker USING (worker_id) WHERE name = 'w'"), '2', 'there are two rows');
$reap->();
is($sql->("SELECT count(*) FROM taskq.worker_sign JOIN taskq.worker USING (worker_id) WHERE name = 'w'"), '1', 'one row is left');
$first->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.tasks");
$sql->("SELECT taskq_heartbeat('w'), taskq_progress($w_id, $w_token, 0.3)");
is($first->query_safe("SELECT (taskq_heartbeat('w')).state, (taskq_progress($w_id, $w_token, 0.4, 'snapshot')).cancel"), 'active|t',
	'a heartbeat in REPEATABLE READ does not fail because of others');
$first->query_safe('COMMIT');
is($sql->("SELECT * FROM taskq.task_progress($w_id, $w_token)"), '0.4|snapshot', 'it counts');
$first->query_safe("BEGIN; SELECT taskq_heartbeat('w'); PREPARE TRANSACTION 'sign'");
is($first->query_safe("SET lock_timeout = '5 s'; SELECT (taskq_heartbeat('w')).state"), 'active', 'a heartbeat does not wait for a prepared transaction');
$sql->("ROLLBACK PREPARED 'sign'");
$sql->("UPDATE taskq.worker_sign SET seen_at = 'epoch'");
my $seen = "SELECT max(seen_at) > 'epoch' FROM taskq.worker_sign JOIN taskq.worker USING (worker_id) WHERE name = 'w'";
$sql->("BEGIN; SELECT taskq_heartbeat('w'); ROLLBACK");
is($sql->($seen), 'f', 'a heartbeat counts from its commit on');
$first->query_safe("BEGIN\\; SELECT taskq_heartbeat('w')\\; ROLLBACK\\; BEGIN\\; SELECT taskq_heartbeat('w')\\; COMMIT;");
is($sql->($seen), 't', 'a heartbeat after a rollback is written');
$sql->("UPDATE taskq.worker_sign SET seen_at = 'epoch'");
$first->query_safe("BEGIN; SAVEPOINT s; SELECT taskq_heartbeat('w'); ROLLBACK TO s; SELECT taskq_heartbeat('w'); COMMIT");
is($sql->($seen), 't', 'a heartbeat after the rollback of a savepoint is written');
$sql->("UPDATE taskq.worker_sign SET seen_at = 'epoch'");
$sql->("SELECT taskq_extend($w_id, $w_token)");
is($sql->($seen), 't', 'a call with a token is a heartbeat');
$sql->("UPDATE taskq.worker_sign SET seen_at = 'epoch'; SELECT count(*) FROM taskq_claim('none yet', 'w')");
is($sql->($seen), 't', 'a claim is a heartbeat');

# --- duties in a transaction with an old snapshot
$sql->("SELECT count(taskq_submit('old snapshot')) FROM generate_series(1, 3)");
my $over = $sql->("SELECT string_agg(task_id || ', ' || token, ';' ORDER BY task_id) FROM taskq_claim('old snapshot', max_tasks => 3, lease => '1 ms')");
my ($ended, $extended) = split /;/, $over;
$first->query_safe("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.tasks");
$sql->("SELECT taskq_complete($ended), taskq_extend($extended, '1 h')");
is($first->query_safe("SET statement_timeout = '30 s'; SELECT sum(acted) FROM taskq_run_reapers() WHERE reaper = 'leases'; COMMIT"), '1',
	'tasks that have changed since are left to a later call, the others are returned');
is($sql->("SELECT string_agg(state, ' ' ORDER BY task_id) FROM taskq.tasks WHERE queue = 'old snapshot'"), 'done running pending', 'as they are now');
$sql->("SELECT taskq_drop_queue('old snapshot', true)");
$first->quit;

# --- features that need shared memory raise an error
my $hint = qr/ERROR:  55000: .*HINT:  Add taskq to "shared_preload_libraries"/s;
for my $call ("taskq_create_queue('x', '{\"max_running\": 1}')", "taskq_alter_queue('q', '{\"max_running\": 1}')",
	"taskq_alter_queue('*', '{\"rate_limit\": {\"count\": 1, \"per\": \"1 s\"}}')", "taskq_alter_queue('q', '{\"max_depth\": 1}')",
	"taskq_alter_queue('q', '{\"notify\": true}')", "taskq_register('x', max_running => 1)", "taskq_register('x', bound => true)",
	"taskq_claim('few')", "taskq_claim('slow')", "taskq_submit('deep')", "taskq_claim('q', 'limited')")
{
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $call");

	like($err, $hint, $call);
}
is($sql->("SELECT string_agg(concat_ws(' ', queue, pending, running), ', ' ORDER BY queue) FROM taskq.queues"),
	'deep 1 0, few 0 1, q 0 3, slow 1 0', 'live tasks are counted from rows');
is($sql->("SELECT taskq_complete($f_id, $f_token), taskq_complete($l_id, $l_token); SELECT taskq_submit('few') > 0, taskq_submit('slow') > 0; SELECT count(*) FROM taskq_claim('deep')"),
	"|\nt|t\n1", 'ends, submits and claims to which these limits do not apply work');
is($sql->(<<'SQL'), "\n\n\n0\n1\n2\nt\n0", 'the options can be removed, and everything works');
SELECT taskq_alter_queue('few', '{"max_running": null, "priority": 3}');
SELECT taskq_alter_queue('slow', '{"rate_limit": null}');
SELECT taskq_alter_queue('deep', '{"max_depth": null}');
SELECT taskq_register('limited', keep => true);
SELECT count(*) FROM taskq_claim('few', max_tasks => 5);
SELECT count(*) FROM taskq_claim('slow', 'limited', 5);
SELECT taskq_submit('deep') > 0;
SELECT count(*) FROM taskq_check();
SQL

# --- duties, when they are called
$sql->(q{SELECT taskq_create_queue('d', '{"retry": "fixed", "retry_base": "0 s"}'), taskq_create_queue('short', '{"time_limit": "1 ms", "retention_dead": "1 ms", "max_attempts": 1}')});
$sql->("SELECT taskq_submit('d', '\"lease\"'); SELECT count(*) FROM taskq_claim('d', lease => '1 ms'); SELECT taskq_submit('short'); SELECT count(*) FROM taskq_claim('short', lease => '1 h');"
	  . " SELECT taskq_submit('d', '\"deadline\"', suspended => false, run_at => clock_timestamp() + '10 ms', deadline => clock_timestamp() + '20 ms')");
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue IN ('d', 'short') AND state IN ('running', 'pending')"), '3', 'without a call nothing happens');
ok(within(20, sub { $reap->(); $sql->("SELECT string_agg(concat_ws(' ', payload #>> '{}', state, reason), ', ' ORDER BY task_id) FROM taskq.tasks WHERE queue IN ('d', 'short')") eq 'lease pending, deadline dead deadline' }),
	'the call handles lease, time limit, deadline and retention')
  or diag $sql->("SELECT queue, payload, state, reason FROM taskq.tasks WHERE queue IN ('d', 'short')");
my @ids = split /\n/, $sql->("SELECT taskq_submit_many('d', array_fill('1'::jsonb, ARRAY[1500])); SELECT count(*) FROM taskq_claim('d', max_tasks => 2000, lease => '1 ms')");
is($ids[-1], '1501', 'the leases of many tasks have expired');
within(20, sub { $sql->("SELECT max(lease_until) < clock_timestamp() FROM taskq.task") eq 't' });
is($reap->(), 'leases 1000', 'a call handles a thousand');
is($reap->(), 'leases 501', 'the next call handles the rest');
is($sql->("SELECT taskq_drop_queue('d', true)"), '1502', 'all of them are returned');
$sql->("CREATE ROLE before; SELECT taskq_grant('q', 'before', '{work}'); ALTER ROLE before RENAME TO after");
is($reap->(), 'roles 1', 'a renamed role is noticed');

# --- workers without heartbeats
$sql->("SELECT taskq_expire('w', '1 h')");
$threshold->('2s');
$sql->("SELECT taskq_register('u'); DELETE FROM taskq.worker_sign");
my ($u_id, $u_token) = claim('q', 'u');
my ($n_id, $n_token) = claim('q', 'v');
$sql->("DELETE FROM taskq.worker_sign");
my $begun = time;
$reap->();
is($state->('v'), 'active', 'a worker without a known heartbeat is alive from the first check on');
ok(within(20, sub { $sql->("SELECT taskq_heartbeat('w'), taskq_heartbeat('u')"); $reap->(); $state->('v') eq 'dead' }), 'a worker without heartbeats dies');
cmp_ok(time - $begun, '>=', 2, 'not before its threshold');
is($state->('w') . $state->('u'), 'activeactive', 'workers that send heartbeats stay alive');
is($sql->("SELECT state, attempt, error FROM taskq_get($n_id)"), 'pending|1|the worker died', 'its task is requeued');
is(error_of($node, "SELECT taskq_heartbeat('v')"), 'TQ007', 'the worker must register again');
is($sql->("SELECT state FROM taskq_get($v_id)"), 'cancelled', 'a task that was asked to stop is cancelled');
is($sql->("SELECT taskq_register('v'); UPDATE taskq.worker_sign SET seen_at = seen_at - interval '1 h' WHERE worker_id = (SELECT max(worker_id) FROM taskq.worker WHERE name = 'v'); SELECT taskq_expire('w', '10 min')"),
	"0\n0", 'expire: heartbeats from before the start do not count');
ok(within(20, sub { $sql->("SELECT taskq_heartbeat('u'); SELECT taskq_expire('w', '1 ms')") =~ /\n[12]$/ }), 'expire: workers without heartbeats die');
$sql->("SELECT taskq_register(w) FROM unnest('{u,v}'::text[]) w");
is($sql->("SELECT count(*) FROM taskq.worker_sign s JOIN taskq.worker w USING (worker_id) WHERE w.state <> 1 AND s.seen_at IS NULL"), '0', 'without a time expire does nothing');

# --- after a start or a crash every worker has a full threshold
$threshold->('1min');
for my $how (qw(start crash))
{
	$sql->("UPDATE taskq.worker_sign SET seen_at = clock_timestamp() - interval '1 h'");
	if ($how eq 'start')
	{
		$node->restart;
	}
	else
	{
		my $log = -s $node->logfile;
		my $victim = $node->background_psql('postgres', on_error_stop => 0);
		my $pid = $victim->query_safe('SELECT pg_backend_pid()');
		kill 'KILL', $pid;
		ok($node->wait_for_log(qr/database system is ready to accept connections/, $log), 'the server starts again');
		eval { $victim->quit };
	}
	ok(within(20, sub { $sql->('SELECT 1') eq '1' }), "after a $how");
	is($reap->() =~ /liveness/ ? 'judged' : 'spared', 'spared', "after a $how no worker dies because of what was before");
	is($sql->("SELECT string_agg(worker || ' ' || state, ', ' ORDER BY worker) FROM taskq.workers WHERE last_seen IS NULL"),
		'u active, v active, w active', 'no heartbeat of them is known');
}
$sql->("SELECT taskq_heartbeat('w')");
is($state->('w'), 'active', 'heartbeats count again');

# --- preloaded again: progress is moved to memory
my ($p_id, $p_token) = claim('q', 'w');
$sql->("SELECT taskq_progress($p_id, $p_token, 0.5, 'half')");
my $tables = "SELECT (SELECT count(*) FROM taskq.worker_sign) + (SELECT count(*) FROM taskq.task_sign)";
cmp_ok($sql->($tables), '>', 1, 'there are rows');
$threshold->('2min');
$preload->(1);
ok(within(20, sub { worker_pid($node) ne '' }), 'preloaded: there is a background worker');
ok(within(20, sub { $sql->($tables) eq '0' }), 'the rows are gone');
is($sql->("SELECT * FROM taskq.task_progress($p_id, $p_token)"), '0.5|half', 'the progress is kept');
is($state->('w'), 'active', 'the worker is alive');
$sql->("SELECT taskq_heartbeat('w'), taskq_progress($p_id, $p_token, 0.6)");
is($sql->("SELECT * FROM taskq.task_progress($p_id, $p_token)"), '0.6|half', 'its heartbeats are in memory');
is($sql->($tables), '0', 'they write no row');
$sql->("SELECT taskq_alter_queue('few', '{\"max_running\": 3}'), count(taskq_submit('few')) FROM generate_series(1, 3)");
is($sql->("SELECT count(*) FROM taskq_claim('few', max_tasks => 9)"), '2', 'limits count the tasks that were claimed without them');
sound($node, crashes => 1);

# --- again not preloaded
$preload->(0);
is($sql->("SELECT taskq_complete($p_id, $p_token); SELECT state FROM taskq_get($p_id)"), "\ndone", 'a token is valid in both modes');
is($sql->("SELECT (taskq_heartbeat('w')).state"), 'active', 'a registration is valid in both modes');
is(error_of($node, "SELECT taskq_claim('few')"), '55000', 'limits need preloading again');
sound($node, crashes => 1);
$node->stop('fast');
done_testing();

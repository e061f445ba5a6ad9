# The server crashes while tasks are claimed and completed. After a claim that
# was not acknowledged the task is free or claimed. A completion and its effect
# happen together or not at all. Leases survive crashes.
# expect-log: was terminated by signal [69]
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqEffects;
use TaskqTest;

# WAL that is not flushed at commit is not flushed for a long time
my $node = start_node('crash', 'restart_after_crash' => 'on', 'wal_writer_delay' => '10s');
my $crashes = 0;
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(<<'SQL');
CREATE TABLE effect (effect_id bigserial PRIMARY KEY, task_id bigint NOT NULL);
SELECT taskq_create_queue('one', '{"max_attempts": 5}');
SELECT taskq_create_queue('held', '{"max_attempts": 5}');
SELECT taskq_create_queue('many', '{"max_attempts": -1, "lease": "500 ms", "retry": "fixed", "retry_base": "0 s"}');
SQL

# These must survive every crash: a lease, a worker's claim, a completion.
my ($leased, $leased_token, $lease_until) = split /\|/, $sql->(<<'SQL');
SELECT taskq_submit('held') \g /dev/null
SELECT task_id, token, lease_until FROM taskq_claim('held', lease => '1 h')
SQL
my ($owned, $owned_token) = split /\|/, $sql->(<<'SQL');
SELECT taskq_register('holder'), taskq_submit('held') \g /dev/null
SELECT task_id, token FROM taskq_claim('held', 'holder')
SQL
my $done = $sql->(<<'SQL');
SELECT taskq_submit('held') \g /dev/null
SELECT task_id, token FROM taskq_claim('held') \gset
BEGIN;
INSERT INTO effect (task_id) VALUES (:task_id);
SELECT taskq_complete(:task_id, :token) \g /dev/null
COMMIT;
SELECT :task_id
SQL

sub held_as_before
{
	my ($after) = @_;

	is($sql->("SELECT state, token, lease_until = '$lease_until', attempt FROM taskq_get($leased)"),
		"running|$leased_token|t|1", "$after: the lease is unchanged");
	is($sql->("SELECT state, token, worker, attempt FROM taskq_get($owned)"),
		"running|$owned_token|holder|1", "$after: the worker holds its task");
	is($sql->("SELECT state FROM taskq.workers WHERE worker = 'holder'"), 'active',
		"$after: the worker is alive");
	is($sql->("SELECT taskq_claim('held')"), '', "$after: neither task is given to another worker");
	is($sql->("SELECT (SELECT state FROM taskq_get($done)), (SELECT count(*) FROM effect WHERE task_id = $done)"),
		'done|1', "$after: an acknowledged completion stays, with its effect");
	return;
}

# A session that stops at a named place in the C code and is then killed.
sub kill_at
{
	my ($place, $before, $statement) = @_;
	my $holder = $node->background_psql('postgres');
	my $victim = $node->background_psql('postgres', on_error_stop => 0);
	my $pid;

	$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
	$pid = $victim->query_safe('SELECT pg_backend_pid()');
	$victim->query_safe($before);
	$victim->query_safe("SET taskq.debug_point = '$place'");
	$victim->query_until(qr/sent/, "\\echo sent\n$statement;\n");
	ok($node->poll_query_until('postgres',
			"SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $pid"),
		"the session has come to $place");
	kill 'KILL', $pid;
	ok(recovered($node, ++$crashes), 'the server starts again');
	eval { $_->{run}->finish } for $holder, $victim;
	return;
}

# A session that crashes at a named place.
sub crash_at
{
	my ($place, $text) = @_;

	$node->psql('postgres', "SET taskq.fault_point = '$place:crash';\n$text");
	ok(recovered($node, ++$crashes), "the server starts again after a crash at $place");
	return;
}

# --- during a claim
my $id = $sql->("SELECT taskq_submit('one')");
kill_at('claim_before_take', 'SELECT 1', "SELECT taskq_claim('one')");
is($sql->("SELECT state, attempt FROM taskq_get($id)"), 'pending|0',
	'killed before the claim was written: the task is free, no attempt used');
held_as_before('killed in a claim');
crash_at('state_after_write', "SELECT taskq_claim('one')");
is($sql->("SELECT state, attempt FROM taskq_get($id)"), 'pending|0',
	'crashed after it was written: the task is free, no attempt used');
my ($claimed, $token, $attempt) = split /\|/, $sql->("SELECT task_id, token, attempt FROM taskq_claim('one', lease => '1 h')");
is("$claimed $attempt", "$id 1", 'the task can be claimed');

# --- during a completion, an effect in the same transaction
kill_at('state_before_write',
	"BEGIN; INSERT INTO effect (task_id) VALUES ($id)",
	"SELECT taskq_complete($id, $token)");
is($sql->("SELECT (SELECT state FROM taskq_get($id)), (SELECT count(*) FROM effect WHERE task_id = $id)"),
	'running|0', 'killed before the completion was written: neither the completion nor its effect is there');
crash_at('state_after_write', "BEGIN; INSERT INTO effect (task_id) VALUES ($id);"
	  . " SELECT taskq_complete($id, $token); COMMIT;");
is($sql->("SELECT (SELECT state FROM taskq_get($id)), (SELECT count(*) FROM effect WHERE task_id = $id)"),
	'running|0', 'crashed after it was written: neither is there');
$sql->("BEGIN; INSERT INTO effect (task_id) VALUES ($id); SELECT taskq_complete($id, $token); COMMIT;");
is($sql->("SELECT (SELECT state FROM taskq_get($id)), (SELECT count(*) FROM effect WHERE task_id = $id)"),
	'done|1', 'the same token completes it afterwards: done, one effect');
is(error_of($node, "SELECT taskq_complete($id, $token)"), 'TQ001', 'it cannot be completed a second time');

# --- the whole server
my $latest = $sql->(<<'SQL');
SELECT taskq_submit('held') \g /dev/null
SELECT task_id, token FROM taskq_claim('held') \gset
SELECT taskq_complete(:task_id, :token) \g /dev/null
SELECT :task_id
SQL
$node->stop('immediate');
$node->start;
is($sql->("SELECT state FROM taskq_get($latest)"), 'done',
	'a completion that was acknowledged just before an immediate shutdown stays');
held_as_before('immediate shutdown');
$node->kill9;
ok(start_again($node), 'the server starts after kill -9 of the postmaster');
ok(within(15, sub { worker_pid($node) ne '' }), 'its background worker is there');
held_as_before('kill -9 of the postmaster');

# --- under load, wherever the kill happens
my $clients = start_effect_clients($node, 'many');
my $hit = 0;
my $tasks = 0;
for my $round (1 .. 5)
{
	# more tasks, until one of the sessions that work on them is killed
	within(20, sub {
		my $pid = $sql->(<<'SQL');
SELECT count(*) FROM taskq_submit_many('many', array_fill('1'::jsonb, ARRAY[500])) \g /dev/null
SELECT pid FROM pg_stat_activity
 WHERE pid <> pg_backend_pid() AND query ~ 'taskq_(claim|complete)\(|^COMMIT|^INSERT'
   AND EXISTS (SELECT FROM taskq.queues WHERE queue = 'many' AND pending > 100)
 ORDER BY random() LIMIT 1
SQL
		$tasks += 500;
		$pid ne '' && hit($node, $pid);
	}) or next;
	$hit++;
	recovered($node, ++$crashes) or die 'the server did not recover';
}
my $completed = check_effects($node, 'many', $clients, $tasks);
note "killed $hit backends, $completed completions acknowledged";
is($hit, 5, 'five backends were killed at work');
is($sql->("SELECT max(attempt) <= 1 + $hit FROM taskq.tasks WHERE queue = 'many'"), 't',
	'a lost claim costs one attempt at most');

held_as_before('in the end');
amcheck($node);
# immediate shutdown and kill -9 of the postmaster log no crash
sound($node, crashes => $crashes);
$node->stop('fast');
done_testing();

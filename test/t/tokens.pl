# A worker that was frozen beyond its lease can still finish its task until the
# task is reclaimed, and not afterwards. The call of a worker that died before
# it read the result has taken effect nevertheless.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('tokens');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $seen = sub { $sql->("SELECT state, attempt FROM taskq_get($_[0])") };

$sql->(<<'SQL');
CREATE TABLE effect (effect_id bigserial PRIMARY KEY, task_id bigint NOT NULL);
SELECT taskq_create_queue('q', '{"retry": "fixed", "retry_base": "0 s", "max_attempts": 9}');
SQL

# A worker is a psql session: SIGSTOP freezes the client while it works, as a
# long pause of its machine would.
sub worker
{
	my $worker = $node->background_psql('postgres', on_error_stop => 0);

	$worker->query_safe('\set VERBOSITY sqlstate');
	return $worker;
}

sub claim
{
	my ($worker, $lease, $queue) = @_;

	$queue //= 'q';
	return split /\|/, $worker->query_safe(
		"SELECT task_id, token FROM taskq_claim('$queue', lease => '$lease')");
}

# An answer: '' or the SQLSTATE.
sub answer
{
	my ($worker, $statement) = @_;
	my ($out) = $worker->query($statement);
	my $err = $worker->{stderr};

	$worker->{stderr} = '';
	return $err =~ /ERROR:\s+(\w{5})/ ? $1 : '';
}

# Keeps the background worker from reclaiming tasks: its duty fails, and the
# test has seen the failure for a task whose lease has expired.
sub let_duties_fail
{
	my ($fail) = @_;

	$sql->(q{ALTER SYSTEM SET taskq.fault_point = '} . ($fail ? 'duty_ends:error' : '') . q{'});
	$sql->('SELECT pg_reload_conf()');
	if ($fail)
	{
		within(20, sub {
			$sql->("SELECT taskq_submit('probe'); SELECT taskq_claim('probe', lease => '1 ms')");
			slurp_file($node->logfile) =~ /fault at "duty_ends"/;
		}) or die 'the duty does not fail';
		return;
	}
	$sql->('SELECT taskq.debug_wipe()');    # wakes it
	return;
}

# --- past its lease, but its task was not reclaimed: accepted
let_duties_fail(1);
my $id = $sql->("SELECT taskq_submit('complete')");
my $frozen = worker();
my (undef, $token) = claim($frozen, '200 ms', 'complete');
ok($node->poll_query_until('postgres', "SELECT clock_timestamp() > lease_until FROM taskq_get($id)"),
	'the lease has expired');
is($seen->($id), 'running|1', 'the task was not reclaimed');
is(answer($frozen, "BEGIN; INSERT INTO effect (task_id) VALUES ($id); SELECT taskq_complete($id, $token); COMMIT;"),
	'', 'a late completion is accepted');
is($seen->($id), 'done|1', 'the task is done');
is($sql->("SELECT count(*) FROM effect WHERE task_id = $id"), '1', 'with its effect');

# --- all other late calls are accepted, too
for my $late (
	[ 'fail', 'SELECT taskq_fail(ID, TOKEN, $$late$$)', 'pending|1' ],
	[ 'release', 'SELECT taskq_release(ID, TOKEN)', 'pending|0' ],
	[ 'suspend', 'SELECT taskq_suspend(ID, TOKEN)', 'suspended|0' ],
	[ 'filter', 'SELECT taskq_filter(ID, TOKEN)', 'filtered|1' ],
	[ 'extend', 'SELECT taskq_extend(ID, TOKEN, $$1 h$$)', 'running|1' ])
{
	my ($name, $call, $want) = @$late;

	$id = $sql->("SELECT taskq_submit('$name')");
	(undef, $token) = claim($frozen, '1 ms', $name);
	$node->poll_query_until('postgres', "SELECT clock_timestamp() > lease_until FROM taskq_get($id)");
	$call =~ s/ID/$id/;
	$call =~ s/TOKEN/$token/;
	is(answer($frozen, $call), '', "a late $name is accepted");
	is($seen->($id), $want, "it has its effect");
}
let_duties_fail(0);

# --- reclaimed by the server: refused, and the other writes of its transaction
# are rolled back
$id = $sql->("SELECT taskq_submit('q')");
(undef, $token) = claim($frozen, '100 ms');
my $client = $frozen->{run}{KIDS}[0]{PID};
kill 'STOP', $client;
ok($node->poll_query_until('postgres', "SELECT state = 'pending' FROM taskq_get($id)"),
	'the task of a frozen worker is reclaimed');
kill 'CONT', $client;
is(answer($frozen, "BEGIN; INSERT INTO effect (task_id) VALUES ($id); SELECT taskq_complete($id, $token)"),
	'TQ001', 'its completion is refused');
answer($frozen, 'COMMIT');
is($seen->($id), 'pending|1', 'and changes nothing');
is($sql->("SELECT count(*) FROM effect WHERE task_id = $id"), '0', 'its effect is undone with it');

# --- claimed by another worker: every answer with the old token is refused
my $other = worker();
my ($other_id, $new_token) = claim($other, '1 h');
is($other_id, $id, 'another worker has the task');
cmp_ok($new_token, '>', $token, 'the new token is greater');
for my $call (
	"taskq_complete($id, $token)", "taskq_fail($id, $token, 'late')",
	"taskq_release($id, $token)", "taskq_suspend($id, $token)",
	"taskq_filter($id, $token)", "taskq_extend($id, $token, '1 h')",
	"taskq_progress($id, $token, 0.5)", "taskq_checkpoint($id, $token, '1')")
{
	is(answer($frozen, "SELECT $call"), 'TQ001', "$call with the old token is refused");
}
is($sql->("SELECT state, attempt, token, checkpoint IS NULL, progress IS NULL FROM taskq_get($id)"),
	"running|2|$new_token|t|t", 'the refused calls have changed nothing');
is(answer($other, "SELECT taskq_complete($id, $new_token)"), '', 'the worker with the new token completes it');
is(answer($frozen, "SELECT taskq_complete($id, $token)"), 'TQ001', 'a stale answer is refused after that, too');
is($sql->("SELECT count(*) FROM effect WHERE task_id = $id"), '0', 'the stale worker has left no effect');

# --- tokens still increase when a task is retried by hand
$sql->("SELECT taskq_retry($id)");
my (undef, $third) = claim($other, '1 h');
cmp_ok($third, '>', $new_token, 'a token is never reset');
answer($other, "SELECT taskq_complete($id, $third)");

# --- a worker that dies between sending and reading: its call takes effect
# nevertheless
$id = $sql->("SELECT taskq_submit('q')");
(undef, $token) = claim($frozen, '1 h');
my $backend = $frozen->query_safe('SELECT pg_backend_pid()');
$client = $frozen->{run}{KIDS}[0]{PID};
# the server stops in the middle of the completion, until the client is dead
$other->query_safe('SELECT pg_advisory_lock(74111, 1)');
$frozen->query_safe("SET taskq.debug_point = 'state_before_write'");
$frozen->query_until(qr/sent/, "\\echo sent\n"
	  . "BEGIN\\; INSERT INTO effect (task_id) VALUES ($id)\\; SELECT taskq_complete($id, $token)\\; COMMIT;\n");
ok($node->poll_query_until('postgres', "SELECT wait_event = 'advisory' FROM pg_stat_activity WHERE pid = $backend"),
	'the server is executing a completion');
kill 'KILL', $client;
eval { $frozen->{run}->finish };
is($seen->($id), 'running|1', 'the worker dies before the call ends');
$other->query_safe('SELECT pg_advisory_unlock(74111, 1)');
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $backend"),
	'the server continues and notices that its client has gone');
is($seen->($id), 'done|1', 'the task is done');
is($sql->("SELECT count(*) FROM effect WHERE task_id = $id"), '1', 'there is exactly one effect');
is(error_of($node, "SELECT taskq_complete($id, $token)"), 'TQ001',
	'a second call says that the token was used');

# --- a worker that dies with its transaction open has changed nothing
$id = $sql->("SELECT taskq_submit('q')");
$frozen = worker();
(undef, $token) = claim($frozen, '1 h');
$backend = $frozen->query_safe('SELECT pg_backend_pid()');
$frozen->query_safe("BEGIN; INSERT INTO effect (task_id) VALUES ($id); SELECT taskq_complete($id, $token)");
kill 'KILL', $frozen->{run}{KIDS}[0]{PID};
eval { $frozen->{run}->finish };
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $backend"),
	'a worker dies before its COMMIT');
is($seen->($id) . '|' . $sql->("SELECT count(*) FROM effect WHERE task_id = $id"), 'running|1|0',
	'it still has the task, and there is no effect');
is(error_of($node, "SELECT taskq_complete($id, $token)"), '', 'the token is valid for another attempt');

$other->quit;
sound($node);
$node->stop('fast');
done_testing();

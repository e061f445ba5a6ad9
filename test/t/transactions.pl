# Calls run in prepared transactions that survive a crash, in savepoints, and
# next to open claims of other sessions. They survive deadlocks, serialization
# failures, out of memory, locks of an administrator, and the loss of all memory
# while tasks flow.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $node = start_node('transactions', 'deadlock_timeout' => "'50ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});
my $seen = sub { $sql->("SELECT state, attempt FROM taskq_get($_[0])") };
my $submit = sub { $sql->("SELECT taskq_submit('$_[0]')") };

$sql->(<<'SQL');
CREATE TABLE effect (effect_id bigserial PRIMARY KEY, task_id bigint NOT NULL);
SELECT taskq_create_queue('flow', '{"lease": "1 h", "max_attempts": -1, "retry": "fixed", "retry_base": "0 s"}');
SQL

# --- prepared transactions, through a crash
my %kept;    # by queue: what is prepared to be committed, or rolled back
for my $end ('commit', 'rollback')
{
	my $q = "prepared_$end";

	$sql->("BEGIN; INSERT INTO effect (task_id) SELECT taskq_submit('$q') RETURNING task_id \\g /dev/null\n"
		  . "PREPARE TRANSACTION '$q submit'");
	my $id = $submit->("$q claim");
	$kept{$end}{claimed} = $id;
	$sql->("BEGIN; SELECT taskq_claim('$q claim', lease => '1 h'); PREPARE TRANSACTION '$q claim'");
	$id = $submit->("$q complete");
	my $token = $sql->("SELECT token FROM taskq_claim('$q complete', lease => '1 h')");
	$sql->("BEGIN; SELECT taskq_complete($id, $token); PREPARE TRANSACTION '$q complete'");
	@{ $kept{$end} }{qw(completed token)} = ($id, $token);
}
$node->stop('immediate');
$node->start;
ok(within(15, sub { worker_pid($node) ne '' }), 'after a crash');
is($sql->('SELECT count(*) FROM pg_prepared_xacts'), '6', 'six prepared transactions are still there');
for my $end ('commit', 'rollback')
{
	my $q = "prepared_$end";
	my ($claimed, $completed, $token) = @{ $kept{$end} }{qw(claimed completed token)};

	is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = '$q'"), '0', 'a prepared submit is not visible');
	is($sql->("SET statement_timeout = '5s'; SELECT count(*) FROM taskq_claim('$q claim')"), '0',
		'a task that a prepared transaction has claimed is not claimed again, and no claim waits for it');
	is($seen->($completed), 'running|1', 'a prepared completion is not visible');
	is(error_of($node, "SET lock_timeout = '50ms'; SELECT taskq_complete($completed, $token)"), '55P03',
		'another completion waits for it');
	$sql->("$end PREPARED '$q $_'") for qw(submit claim complete);
	is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = '$q' AND state = 'pending'"),
		$end eq 'commit' ? 1 : 0, "$end: the submitted task");
	is($seen->($claimed), $end eq 'commit' ? 'running|1' : 'pending|0', "$end: the claimed task");
	is($seen->($completed), $end eq 'commit' ? 'done|1' : 'running|1', "$end: the completed task");
}
is($sql->("SELECT count(*) FROM taskq_claim('prepared_rollback claim')"), '1',
	'what a rolled back transaction had claimed is free');
is($sql->("SELECT count(*) FROM taskq_claim('prepared_commit')"), '1', 'what a committed one submitted can be claimed');
is(error_of($node, "SELECT taskq_complete($kept{rollback}{completed}, $kept{rollback}{token})"), '',
	'the token of a completion that was rolled back is still valid');

# the lease of a prepared claim expires, too, though no session has reported it
my $id = $submit->('prepared_lease');
$sql->("BEGIN; SELECT taskq_claim('prepared_lease', lease => '300 ms'); PREPARE TRANSACTION 'lease'");
$sql->("COMMIT PREPARED 'lease'");
ok(within(20, sub { $seen->($id) eq 'pending|1' }), 'the lease of a prepared claim expires');

# --- savepoints
my $one = $node->background_psql('postgres', on_error_stop => 0);
my $two = $node->background_psql('postgres', on_error_stop => 0);
my $quick = "SET statement_timeout = '5s'";
$_->query_safe('\set VERBOSITY sqlstate') for $one, $two;
$two->query_safe($quick);
$id = $submit->('savepoint');
$one->query_safe("BEGIN; SAVEPOINT s; SELECT task_id FROM taskq_claim('savepoint'); ROLLBACK TO s");
is($two->query_safe("BEGIN; SELECT task_id, attempt FROM taskq_claim('savepoint')"), "$id|1",
	'a task that a savepoint claimed is free when it was rolled back, its attempt not used');
$two->query_safe('ROLLBACK');
is($one->query_safe("SAVEPOINT t; SELECT task_id, attempt FROM taskq_claim('savepoint')"), "$id|1",
	'the same transaction can claim it, too');
$one->query_safe('RELEASE t; ROLLBACK TO s; COMMIT');
is($seen->($id), 'pending|0', 'a released savepoint is rolled back with the outer savepoint');
$one->query_safe("BEGIN; SAVEPOINT s; SELECT task_id FROM taskq_claim('savepoint', lease => '3 s'); RELEASE s; COMMIT");
is($seen->($id), 'running|1', 'a released savepoint stays with its transaction');
ok(within(20, sub { $seen->($id) eq 'pending|1' }), 'its lease expires');
my ($c_id, $token) = split /\|/, $sql->(<<'SQL');
SELECT taskq_submit('savepoint2') \g /dev/null
SELECT task_id, token FROM taskq_claim('savepoint2', lease => '1 h')
SQL
$one->query_safe("BEGIN; SAVEPOINT s; SELECT taskq_complete($c_id, $token); ROLLBACK TO s; COMMIT");
is($seen->($c_id), 'running|1', 'a completion in a savepoint that rolled back did not happen');
is($sql->("SELECT count(*) FROM taskq_check()"), '0', 'the task is still known to be running');
is(error_of($node, "SELECT taskq_complete($c_id, $token)"), '', 'its token is valid');
# a queue that a savepoint has created is removed with it, and can be created
# again
$one->query_safe("BEGIN; SAVEPOINT s; SELECT taskq_submit('fresh'); ROLLBACK TO s; SELECT taskq_submit('fresh') \\g /dev/null\nCOMMIT");
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'fresh'"), '1', 'a queue is created again after a savepoint was rolled back');

# --- an open claim of another session
$submit->('open') for 1, 2;
my $first = $one->query_safe("BEGIN; SELECT task_id FROM taskq_claim('open')");
my $second = $two->query_safe("SELECT task_id FROM taskq_claim('open')");
isnt($second, $first, 'with a claim open, others get other tasks');
is($two->query_safe("SELECT count(*) FROM taskq_claim('open')"), '0', 'if no other task is free, a claim returns immediately, without a row');
$one->query_safe('ROLLBACK');
is($two->query_safe("SELECT task_id FROM taskq_claim('open')"), $first, 'a task whose claim was rolled back is free immediately');

# --- a deadlock of two sessions that complete in opposite order
my (@ids, @tokens);
$submit->('deadlock') for 1, 2;
for (split /\n/, $sql->("SELECT task_id, token FROM taskq_claim('deadlock', max_tasks => 2, lease => '1 h')"))
{
	my ($i, $t) = split /\|/;
	push @ids, $i;
	push @tokens, $t;
}
$two->query_safe('SET statement_timeout = 0');
$one->query_safe("BEGIN; SELECT taskq_complete($ids[0], $tokens[0])");
$two->query_safe("BEGIN; SELECT taskq_complete($ids[1], $tokens[1])");
my $pid = $one->query_safe('SELECT pg_backend_pid()');
$one->query_until(qr/sent/, "\\echo sent\nSELECT taskq_complete($ids[1], $tokens[1]);\n");
ok($node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid"),
	'one session waits for the other');
$two->query("SELECT taskq_complete($ids[0], $tokens[0])");
$one->query('SELECT 1');
my $errors = join ' ', map { my $e = $_->{stderr}; $_->{stderr} = ''; $e =~ /ERROR:\s+(\w{5})/ ? $1 : () } $one, $two;
like($errors, qr/^40P01( 25P02)?$/, 'a deadlock ends with 40P01 for one session');
$_->query('COMMIT') for $one, $two;
$_->{stderr} = '' for $one, $two;
is($sql->("SELECT count(*) FILTER (WHERE state = 'done'), count(*) FROM taskq.tasks WHERE queue = 'deadlock'"),
	'2|2', 'the other session has completed both');

# --- out of memory after a write: an error, and nothing is half done
$id = $submit->('memory');
is(error_of($node, "SET taskq.fault_point = 'state_after_write:oom'; SELECT taskq_claim('memory')"), '53200',
	'no memory in a claim');
is($seen->($id), 'pending|0', 'the task is free');
is($one->query_safe("BEGIN; SELECT task_id, attempt FROM taskq_claim('memory', lease => '1 h')"), "$id|1", 'it can be claimed');
($token) = $one->query_safe("SELECT token FROM taskq_get($id)");
$one->query_safe("SAVEPOINT s; SET LOCAL taskq.fault_point = 'state_after_write:oom'");
for my $call ("taskq_complete($id, $token)", "taskq_fail($id, $token, 'x')", "taskq_release($id, $token)",
	"taskq_suspend($id, $token)", "taskq_cancel($id, force => true)")
{
	$one->query("SELECT $call");
	like($one->{stderr}, qr/ERROR:\s+53200/, "no memory in $call");
	$one->{stderr} = '';
	$one->query_safe("ROLLBACK TO s; SET LOCAL taskq.fault_point = 'state_after_write:oom'");
}
$one->query_safe("ROLLBACK TO s; COMMIT");
is($seen->($id), 'running|1', 'the session continues, and keeps the claim before it');
is($sql->('SELECT count(*) FROM taskq_check()'), '0', 'tables and memory agree');
is(error_of($node, "SELECT taskq_complete($id, $token)"), '', 'the token is valid');
# the error is not mistaken for invalid options
$id = $sql->(q[SELECT taskq_submit('memory', options => '{"retry": "fixed", "retry_base": "1 h"}')]);
$one->query_safe("SELECT token FROM taskq_claim('memory', lease => '1 h')");
($token) = $one->query_safe("SELECT token FROM taskq_get($id)");
is(error_of($node, "SET taskq.fault_point = 'task_options:oom'; SELECT taskq_fail($id, $token, 'x')"), '53200',
	'no memory for the options of a task');
is($seen->($id), 'running|1', 'the task is still running');
$sql->("SELECT taskq_fail($id, $token, 'x')");
is($sql->("SELECT state, run_at > now() + interval '50 min' FROM taskq.tasks WHERE task_id = $id"), 'pending|t',
	'its own options hold: the next attempt comes in an hour');
$id = $submit->('fatal');
like(error_of($node, "SET taskq.fault_point = 'state_after_write:fatal'; SELECT taskq_claim('fatal')"), qr/^57P01$/,
	'a session ends after it has written a claim');
is($seen->($id), 'pending|0', 'the task is free');

# --- an administrator's lock
$id = $submit->('locked');
$one->query_safe('BEGIN; LOCK taskq.task IN ACCESS EXCLUSIVE MODE');
for my $call ("taskq_submit('locked')", "taskq_claim('locked')", "taskq_get($id)", "taskq_cancel($id)")
{
	my $begin = time;
	like(error_of($node, "SET lock_timeout = '100ms'; SELECT $call"), qr/^(55P03)?$/, "$call under a lock: 55P03 or an answer");
	cmp_ok(time - $begin, '<', 3, 'in time');
}
$one->query_safe('ROLLBACK');
is($sql->("SELECT task_id FROM taskq_claim('locked')"), $id, 'everything works afterwards');

# --- SERIALIZABLE and REPEATABLE READ clients, an administrator that rewrites
# tables, and memory lost again and again, while tasks flow
my $tasks = 3000;
my $script = <<'SQL';
\unset c_task_id
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('flow') \gset
\if :{?c_task_id}
BEGIN ISOLATION LEVEL REPLACEME;
INSERT INTO effect (task_id) SELECT :c_task_id FROM taskq_complete(:c_task_id, :c_token);
\if :ERROR
ROLLBACK;
SELECT taskq_fail(:c_task_id, :c_token, 'again') \g /dev/null
\else
COMMIT;
\if :ERROR
SELECT taskq_fail(:c_task_id, :c_token, 'again') \g /dev/null
\endif
\endif
\endif
SQL
# all in one transaction: a failure leaves no changes
my $whole = <<'SQL';
\unset c_task_id
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('flow') \gset
\if :{?c_task_id}
INSERT INTO effect (task_id) SELECT :c_task_id FROM taskq_complete(:c_task_id, :c_token);
\endif
COMMIT;
SQL
my @flows = map { start_clients($node, $_->[0], "\\set VERBOSITY sqlstate\n" . $_->[1] x 100) } (
	[ 2, $script =~ s/REPLACEME/READ COMMITTED/r ],
	[ 2, $script =~ s/REPLACEME/SERIALIZABLE/r ],
	[ 2, $whole ]);
my $sent = 0;
my %admin;
while ($sent < $tasks)
{
	$sql->("SELECT count(*) FROM taskq_submit_many('flow', array_fill('1'::jsonb, ARRAY[250]))");
	$sent += 250;
	for my $command ('SELECT taskq.debug_wipe()', 'VACUUM FULL taskq.task', 'REINDEX TABLE taskq.task',
		'SELECT taskq.debug_wipe()', 'CHECKPOINT', 'VACUUM taskq.task', 'SELECT taskq.debug_wipe()')
	{
		my $code = error_of($node, $command);
		$admin{$code}++;
	}
}
ok(within(60, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'flow' AND state <> 'done'") eq '0' }),
	'all tasks are done in the end');
end_clients($_) for @flows;
my %met;
for my $flow (@flows)
{
	my %e = errors_of($flow);
	$met{$_} += $e{$_} for keys %e;
}
note 'errors: ' . join ', ', map { "$_: $met{$_}" } sort keys %met;
is(join(' ', grep { !/^(40001|40P01)$/ } sort keys %met), '', 'clients met only 40001 and 40P01');
is(join(' ', grep { !/^(|40P01)$/ } sort keys %admin), '', 'the administrator met at most 40P01');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'flow' AND state = 'done'"), $tasks, 'no task was lost');
is($sql->("SELECT count(*), count(DISTINCT task_id) FROM effect JOIN taskq.tasks USING (task_id) WHERE queue = 'flow'"),
	"$tasks|$tasks", 'each task has exactly one effect');

$_->quit for $one, $two;
ok(within(20, sub { $sql->('SELECT complete FROM taskq.debug_registry()') eq 't' }), 'the table of running tasks is complete again');
amcheck($node);
sound($node);
$node->stop('fast');
done_testing();

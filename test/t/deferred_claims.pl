# Which claims wait for the disk, and what a crash does with those that do not:
# their tasks wait again, their tokens are refused, and work that takes the
# server down still counts its attempts. LONG=1: the end of the ten minutes
# after a crash, and 200 kills under load.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqEffects;
use TaskqTest;

my $KILLS = $ENV{LONG} ? 200 : 4;

# WAL that no commit flushes is not flushed for a long time
my $node = start_node('deferred', init => { allows_streaming => 1 }, 'wal_writer_delay' => '10s');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $writer;

# The WAL writer must be stopped: it would also flush when a page is full.
sub stop_writer
{
	$writer = $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
	kill 'STOP', $writer;
	return;
}

sub continue_writer { return kill 'CONT', $writer; }

# The postmaster first: it would report that its child was killed.
sub kill_server
{
	$node->kill9;
	kill 'KILL', $writer;
	$writer = undef;
	return;
}
END { kill 'CONT', $writer if $writer; }

# Does a transaction's commit wait for the disk? Something else may flush its
# WAL in between, so a few tries may be needed to see that it does not.
sub waits
{
	my ($body, $before) = @_;
	my $text = join "\n", $before // '', 'BEGIN;', $body,
		"SELECT pg_current_wal_insert_lsn() AS written \\gset", 'COMMIT;',
		"SELECT pg_current_wal_flush_lsn() >= :'written'";

	for (1 .. 4)
	{
		my $answer = $sql->($text) =~ s/.*\n//sr;
		return $answer if $answer ne 't';
	}
	return 't';
}

# CLAIM is one statement; tasks wait in queues whose names tell their options
my %options = (
	plain => '{}', endless => '{"max_attempts": -1}', once => '{"max_attempts": 1}', twice => '{"max_attempts": 2}',
	hold => '{"on_worker_death": "hold"}', kill => '{"on_worker_death": "kill"}',
	flushed => '{"claim_durability": "flushed"}', deferred => '{"claim_durability": "deferred"}',
	history => '{"history": "transitions"}', limited => '{"max_running": 100}', own => '{}');
$sql->("SELECT taskq_create_queue('$_', '$options{$_}')") for sort keys %options;
$sql->("SELECT count(*) FROM taskq_submit_many('$_', array_fill('1'::jsonb, ARRAY[100]))") for sort keys %options;
$sql->(<<'SQL');
SELECT count(taskq_submit('own kill', options => '{"on_worker_death": "kill"}')) FROM generate_series(1, 8);
SELECT taskq_register('worker');
CREATE TABLE note (n int);
SELECT taskq_define_workflow('{"name": "w", "version": "1", "queue": "step", "steps": [{"name": "a"}]}');
SELECT count(taskq_start_workflow('w')) FROM generate_series(1, 8);
SQL

sub claim
{
	my ($queue, $more) = @_;
	return "SELECT task_id AS id, token AS tok FROM taskq_claim('$queue'" . ($more // '') . ') LIMIT 1 \\gset';
}

stop_writer();
for (
	[ 'a claim', claim('plain') ],
	[ 'a claim with a label', claim('plain', q{, 'label'}) ],
	[ 'a claim of a registered worker', claim('plain', q{, 'worker'}) ],
	[ 'a claim of several tasks', claim('plain', ', max_tasks => 3') ],
	[ 'a claim that may wait', claim('plain', q{, wait => '1 s'}) ],
	[ 'two claims', claim('plain') . "\n" . claim('endless') ],
	[ 'a claim after a query', "SELECT count(*) FROM pg_class \\g /dev/null\n" . claim('plain') ],
	[ 'a claim in a savepoint', "SAVEPOINT s;\n" . claim('plain') . "\nRELEASE s;" ],
	[ 'a claim and a heartbeat', claim('plain', q{, 'worker'}) . "\nSELECT taskq_heartbeat('worker') \\g /dev/null" ],
	[ 'a claim of a task with any number of attempts', claim('endless') ],
	[ 'a claim of the first of two attempts', claim('twice') ],
	[ 'a claim with the option deferred', claim('deferred') ],
	[ 'a claim that is recorded in the history', claim('history') ],
	[ 'a claim within max_running', claim('limited') ],
	[ 'a claim of a step', claim('step') ],
	[ 'a claim with synchronous_commit off', "SET LOCAL synchronous_commit = off;\n" . claim('plain') ],
  )
{
	is(waits($_->[1]), 'f', "$_->[0]: the commit does not wait for the disk");
}
for (
	[ 'a claim of the last attempt', claim('once') ],
	[ 'a claim of a task that is held when its worker dies', claim('hold') ],
	[ 'a claim of a task that is killed when its worker dies', claim('kill') ],
	[ 'the same by an option of the task', claim('own kill') ],
	[ 'a claim with the option flushed', claim('flushed') ],
	[ 'claims of which one must wait, first', claim('once') . "\n" . claim('plain') ],
	[ 'claims of which one must wait, last', claim('plain') . "\n" . claim('once') ],
	[ 'a submit', "SELECT taskq_submit('plain') \\g /dev/null" ],
	[ 'a claim after a submit', "SELECT taskq_submit('plain') \\g /dev/null\n" . claim('plain') ],
	[ 'a claim before a submit', claim('plain') . "\nSELECT taskq_submit('plain') \\g /dev/null" ],
	[ 'a claim after a write', "INSERT INTO note VALUES (1);\n" . claim('plain') ],
	[ 'a claim before a write', claim('plain') . "\nINSERT INTO note VALUES (1);" ],
	[ 'a write between claims', claim('plain') . "\nINSERT INTO note VALUES (1);\n" . claim('plain') ],
	[ 'a write in a savepoint that is rolled back', claim('plain') . "\nSAVEPOINT s;\nINSERT INTO note VALUES (1);\nROLLBACK TO s;" ],
	[ 'a claim and its completion', claim('plain') . "\nSELECT taskq_complete(:id, :tok) \\g /dev/null" ],
	[ 'a claim and a failure', claim('plain') . "\nSELECT taskq_fail(:id, :tok, 'no') \\g /dev/null" ],
	[ 'a claim with synchronous_commit local', "SET LOCAL synchronous_commit = local;\n" . claim('plain') ],
	[ 'a claim with synchronous_commit remote_write', "SET LOCAL synchronous_commit = remote_write;\n" . claim('plain') ],
  )
{
	is(waits($_->[1]), 't', "$_->[0]: the commit waits for the disk");
}
is(waits('INSERT INTO note VALUES (2);', claim('plain') . "\nSELECT 1 / count(*) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'on' \\g /dev/null"),
	't', 'the setting is back after a claim, and the next transaction waits');
is(waits('INSERT INTO note VALUES (3);', "BEGIN;\n" . claim('plain') . "\nROLLBACK;"), 't', 'and after a claim that is rolled back');
{
	# the commit fails after the last callback before it
	my ($reader, $claimer) = map { $node->background_psql('postgres', on_error_stop => 0) } 1, 2;

	$reader->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM taskq.task');
	$claimer->query_safe('BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM note');
	is($claimer->query_safe("SELECT count(*) FROM taskq_claim('plain')"), 1, 'a claim in a serializable transaction');
	$reader->query_safe('INSERT INTO note VALUES (4); COMMIT');
	$claimer->query('COMMIT');
	like($claimer->{stderr}, qr/could not serialize/, 'its commit fails');
	$claimer->{stderr} = '';
	is($claimer->query_safe('SHOW synchronous_commit'), 'on', 'the setting is back after a commit that failed');
	$_->quit for $reader, $claimer;
}
is(waits("SELECT task_id AS id FROM taskq_complete_and_claim(ARRAY[:first], ARRAY[:tok], queue => 'endless') \\gset",
		"SELECT task_id AS first, token AS tok FROM taskq_claim('endless') \\gset"),
	't', 'a completion that claims the next task waits for the disk');
$sql->(q{SELECT taskq_create_queue('again', '{"max_attempts": 2, "retry": "fixed", "retry_base": "0 s"}')});
$sql->(q{SELECT count(*) FROM taskq_submit_many('again', array_fill('1'::jsonb, ARRAY[5]))});
$sql->(q{SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('again', max_tasks => 5)});
is(waits(claim('again')), 't', 'a claim of the second of two attempts: the commit waits for the disk');

# --- standbys that are to confirm: a claim waits for them, too
continue_writer();
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'absent'");
$node->reload;
my $session = open_session($node);
ok(within(20, sub { $session->query_safe('SHOW synchronous_standby_names') eq 'absent' }), 'a standby is expected');
$session->query_until(qr/sent/, "\\echo sent\nSELECT task_id FROM taskq_claim('plain');\n");
ok(within(20, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ~ 'taskq_claim'") eq '1' }),
	'a claim waits for the standby');
$node->adjust_conf('postgresql.conf', 'synchronous_standby_names', undef);
$node->reload;
$session->quit;

# --- a crash
stop_writer();
my ($id, $token, $other) = split /\|/, $sql->("SELECT task_id, token, attempt FROM taskq_claim('plain')");
is($other, 1, 'a task is claimed');
kill_server();
ok(start_again($node), 'the server crashes and starts again');
is($sql->("SELECT state, attempt FROM taskq_get($id)"), 'pending|0', 'the task waits as if it had not been claimed');
is(error_of($node, "SELECT taskq_complete($id, $token)"), 'TQ001', 'the token is refused');
stop_writer();
is(waits(claim('plain')), 't', 'after a crash a claim waits for the disk');
continue_writer();
my $higher = $sql->("SELECT max(token) FROM taskq_claim('plain', max_tasks => 200) WHERE task_id = $id");
cmp_ok($higher || $sql->("SELECT token FROM taskq_get($id)"), '>', $token, 'the next token of the task is higher');

if ($ENV{LONG})
{
	ok(within(720, sub { stop_writer(); my $waits = waits(claim('endless')); continue_writer(); return $waits eq 'f' }),
		'ten minutes after the first claim, claims do not wait');
}
$node->restart;
stop_writer();
is(waits(claim('endless')), 'f', 'after a clean restart a claim does not wait');
continue_writer();

# --- work that takes the server down within a moment of its claim
$sql->(q{SELECT taskq_create_queue('bomb', '{"lease": "100 ms", "retry": "fixed", "retry_base": "0 s"}'), taskq_submit('bomb')});
my $crashes = 0;
while ($sql->("SELECT state FROM taskq.tasks WHERE queue = 'bomb'") ne 'dead' && $crashes < 8)
{
	stop_writer();
	my $got = within(30, sub { $sql->("SELECT count(*) FROM taskq_claim('bomb')") eq '1'
			|| $sql->("SELECT state FROM taskq.tasks WHERE queue = 'bomb'") eq 'dead' });
	if ($sql->("SELECT state FROM taskq.tasks WHERE queue = 'bomb'") eq 'running')
	{
		$crashes++;
		kill_server();
		start_again($node) or die 'the server does not start';
	}
	else { continue_writer(); }
	$got or last;
	within(30, sub { $sql->("SELECT state <> 'running' FROM taskq.tasks WHERE queue = 'bomb'") eq 't' });
}
is($sql->("SELECT state, attempt FROM taskq.tasks WHERE queue = 'bomb'"), 'dead|3', 'it is dead after its three attempts');
cmp_ok($crashes, '<=', 4, 'at most one crash does not count');

# --- kills of the postmaster under load, each after a clean start
$sql->(<<'SQL');
CREATE TABLE effect (task_id bigint);
SELECT taskq_create_queue('many', '{"max_attempts": -1, "lease": "500 ms", "retry": "fixed", "retry_base": "0 s"}');
SQL
$node->restart;
my $clients = start_effect_clients($node, 'many');
my $tasks = 0;
for (1 .. $KILLS)
{
	my $before = $sql->('SELECT count(*) FROM effect');
	$sql->("SELECT count(*) FROM taskq_submit_many('many', array_fill('1'::jsonb, ARRAY[300]))");
	$tasks += 300;
	within(20, sub { $sql->('SELECT count(*) FROM effect') > $before + 20 });
	$node->kill9;
	start_again($node) or die 'the server does not start';
	$node->restart;
}
cmp_ok(check_effects($node, 'many', $clients, $tasks), '>', 20 * $KILLS, 'completions were acknowledged');

amcheck($node);
sound($node);
$node->stop('fast');
done_testing();

# The table of running tasks in shared memory has every running task, even if
# the sessions that maintain it have old snapshots or roll back.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $LONG = 45;    # seconds: far more than it takes

my $node = start_node(
	'running_tasks',
	'taskq.dead_threshold' => "'1h'",
	'taskq.reaper_interval' => "'200ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $holder = open_session($node);

# claimed(LEASE): a new task that is claimed; its id and token
sub claimed
{
	my ($lease) = @_;
	my $id = $sql->("SELECT taskq_submit('q')");

	return ($id, $sql->("SELECT token FROM taskq_claim('q', lease => '$lease')"));
}

# is_over(ID): lets the lease of the task end now
sub is_over
{
	my ($id) = @_;
	return $node->poll_query_until('postgres',
		"SELECT clock_timestamp() > lease_until FROM taskq.task WHERE task_id = $id");
}

sub comes_back
{
	my ($name, $id) = @_;
	return ok(within($LONG, sub { $sql->("SELECT state FROM taskq_get($id)") eq 'pending' }), "$name: the task comes back")
	  && $sql->("SELECT taskq_cancel($id)");
}

# The background worker stops at that point, with the snapshot that it has
# there.
sub hold
{
	my ($point) = @_;

	$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
	$node->append_conf('postgresql.conf', "taskq.debug_point = '$point'");
	$node->reload;
	my ($id) = claimed('50 ms');
	my $worker = worker_pid($node);
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = $worker")
	  or die "the background worker does not come to $point";
	return $id;
}

sub let_go
{
	$node->append_conf('postgresql.conf', "taskq.debug_point = ''");
	$node->reload;
	$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
	return;
}

$sql->("SELECT taskq_create_queue('q', '{\"retry\": \"fixed\", \"retry_base\": \"0 s\"}')");

# --- claims that the background worker finds in memory, and its snapshot does
# not show
my $claimer = $node->background_psql('postgres');
my $id = $sql->("SELECT taskq_submit('q')");
$claimer->query_safe("BEGIN; SELECT taskq_claim('q', lease => '50 ms')");
ok( within($LONG, sub { $claimer->query_safe("SELECT clock_timestamp() > lease_until FROM taskq.task WHERE task_id = $id") eq 't' }),
	'a lease expires before its claim commits');
my $first = hold('ends_begun');
$claimer->query_safe('COMMIT');
let_go();
comes_back('that claim', $id);
comes_back('the task of the claim before', $first);

$sql->("SELECT taskq_register('w')");
$id = $sql->("SELECT taskq_submit('q')");
$claimer->query_safe("BEGIN; SELECT taskq_claim('q', 'w')");
$sql->("SELECT taskq_deregister('w')");
$first = hold('orphans_begun');
$claimer->query_safe('COMMIT');
let_go();
comes_back('the claim of a worker that had just ended', $id);
comes_back('the task of the claim before', $first);
$claimer->quit;

# --- a rollback: of an end that the duties of the same transaction see
my $session = $node->background_psql('postgres');
($id, my $token) = claimed('1 s');
$session->query_safe("BEGIN; SELECT taskq_complete($id, $token)");
ok(is_over($id), 'a lease expires while its task is being completed');
$session->query_safe('SELECT * FROM taskq_run_reapers()');
$session->query_safe('ROLLBACK');
comes_back('the completion is rolled back after the duties', $id);

$first = hold('ends_begun');
($id, $token) = claimed('1 h');
$session->query_safe("SET taskq.debug_point = ''");
$session->query_safe("BEGIN; SELECT taskq_complete($id, $token); SELECT taskq.debug_wipe(); SELECT * FROM taskq_run_reapers()");
$session->query_safe('ROLLBACK');
is($sql->('SELECT complete FROM taskq.debug_registry()'), 'f', 'a rollback does not complete the table of running tasks');
let_go();
ok(within($LONG, sub { $sql->('SELECT complete FROM taskq.debug_registry()') eq 't' }), 'the table is complete when the background worker has read the rows');
is($sql->("SELECT count(*) FROM taskq_check()"), '0', 'it has all running tasks');
is(error_of($node, "SELECT taskq_complete($id, $token)"), '', 'the task is completed');
comes_back('the task of the claim before', $first);

# --- an old snapshot
$first = hold('ends_begun');
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
($id) = claimed('50 ms');
ok(is_over($id), 'a lease expires whose claim the snapshot does not show');
$session->query_safe('SELECT * FROM taskq_run_reapers()');
$session->query_safe('COMMIT');
let_go();
comes_back('the task after the duties with that snapshot', $id);
comes_back('the task of the claim before', $first);
$session->quit;

# --- no connections are allowed for some time
$sql->('CREATE DATABASE app');
$node->safe_psql('app', 'CREATE EXTENSION taskq');
$node->poll_query_until('app', 'SELECT complete FROM taskq.debug_registry()') or die 'there is no background worker in app';
$id = $node->safe_psql('app', "SELECT taskq_submit('q')");
$node->safe_psql('app', "SELECT token FROM taskq_claim('q', lease => '3 s')");
$sql->('ALTER DATABASE app ALLOW_CONNECTIONS false');
ok(within($LONG, sub { worker_pid($node, 'app') eq '' }), 'the background worker of a database leaves');
$sql->('ALTER DATABASE app IS_TEMPLATE true');
ok(within($LONG, sub { $sql->('SELECT h FROM taskq_health() h') =~ /\b0 of "+taskq\.max_running_tracked/ }), 'the database is made a template, and its worker is forgotten');
$sql->('ALTER DATABASE app ALLOW_CONNECTIONS true');
$sql->('ALTER DATABASE app IS_TEMPLATE false');
ok(within($LONG, sub { $node->safe_psql('app', "SELECT state FROM taskq_get($id)") eq 'pending' }), 'the worker returns: a lease expires');

sound($node);
$node->stop;
done_testing();

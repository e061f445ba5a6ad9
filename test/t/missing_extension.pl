# The extension is missing, or partly missing: it is dropped and created again
# while workers call it, does not exist in a database, is not preloaded, or is
# used on a standby.
#
# One class XX comes from the server itself, before any of our code runs: to
# analyze or to begin a call it opens the row type that the function returns
# (taskq.claimed).  It holds no lock on the type before that.  If a transaction
# is dropping the type, it waits for that, finds nothing, and its type cache
# says so in these words, as for a function of any extension.  The test allows
# it for those types alone, and only where the backtrace in the log has no
# frame of the library: the library itself looks up its row types only after it
# has locked one of its tables, or in the session's caches.
# expect-log: XX000 .*(could not open relation with OID|BACKTRACE:|STATEMENT:)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $node = start_node('places', init => { allows_streaming => 1 }, 'fsync' => 'off', 'deadlock_timeout' => "'50ms'",
	'backtrace_functions' => "'relation_open'");
my $sql = sub { $node->safe_psql('postgres', shift) };

# Errors of class XX in the log, except the server's own one.
our %row_type;

sub bugs
{
	my @bugs;
	my @lines = split /\n/, slurp_file($_[0]->logfile);

	for my $i (grep { $lines[$_] =~ /\] XX\w{3} .*(ERROR|FATAL|PANIC):/ } 0 .. $#lines)
	{
		my $last = $i + 1;

		$last++ while ($lines[ $last + 1 ] // '') =~ /^\t/;
		my $trace = join "\n", @lines[ $i + 1 .. $last ];
		push @bugs, $lines[$i]
			unless $lines[$i] =~ /could not open relation with OID (\d+)$/ && $row_type{$1} && $trace =~ /BACKTRACE:/ && $trace !~ /taskq\.so/;
	}
	return @bugs;
}

# The row types that functions return, of the extension as it is now.
sub note_row_types
{
	$row_type{$_} = 1 for split /\n/, $sql->("SELECT typrelid FROM pg_type"
		  . " WHERE typnamespace = 'taskq'::regnamespace AND typname IN ('claimed', 'task_info', 'listed_task', 'heartbeat')");
	return;
}

# --- DROP and CREATE EXTENSION while clients work, in sessions that stay
$sql->('CREATE TABLE effect (n bigserial PRIMARY KEY, round integer NOT NULL); CREATE TABLE round AS SELECT 0 AS round');
my $clients = start_clients($node, 4, "\\set VERBOSITY sqlstate\n" . <<'SQL' x 3000);
\unset c_task_id
SELECT taskq_submit('q', '1') \g /dev/null
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('q') \gset
\if :{?c_task_id}
INSERT INTO effect (round) SELECT round FROM round, taskq_complete(:c_task_id, :c_token);
\endif
SQL
my $met_before = 0;

for my $round (1 .. 4)
{
	$sql->("UPDATE round SET round = $round");
	ok(within(20, sub { $sql->("SELECT count(*) > 50 FROM effect WHERE round = $round") eq 't' }),
		"round $round: clients are working");
	my $begin = time;
	note_row_types();
	ok(within(20, sub { error_of($node, 'DROP EXTENSION taskq') eq '' }), 'DROP EXTENSION');
	cmp_ok(time - $begin, '<', 10, 'the drop does not wait long');
	ok(within(20, sub { my %e = errors_of($clients); ($e{42883} // 0) + ($e{'3F000'} // 0) > $met_before }),
		'clients get errors that nothing is there');
	is($sql->("SELECT count(*) FROM pg_namespace WHERE nspname = 'taskq'"), '0', 'nothing is left');
	is(error_of($node, 'CREATE EXTENSION taskq'), '', 'CREATE EXTENSION');
	my %e = errors_of($clients);
	$met_before = ($e{42883} // 0) + ($e{'3F000'} // 0);
}
$sql->('UPDATE round SET round = 5');
ok(within(20, sub { $sql->('SELECT count(*) > 50 FROM effect WHERE round = 5') eq 't' }),
	'the same sessions work with the new extension');
is(error_of($node, 'ALTER EXTENSION taskq UPDATE'), '', 'ALTER EXTENSION UPDATE to the same version');
end_clients($clients);
my %met = errors_of($clients);
note 'errors: ' . join ', ', map { "$_: $met{$_}" } sort keys %met;
is(join(' ', bugs($node)), '', 'class XX occurs only where the server misses the row type of a function');
is(join(' ', grep { !/^(42883|42P01|3F000|55000|40P01|XX000)$/ } sort keys %met), '',
	'clients met only 42883, 42P01, 3F000, 55000, 40P01');
ok(within(15, sub { worker_pid($node) ne '' }), 'the background worker is there');

# --- calls that arrive while a transaction is dropping it wait, and then get an
# error
my %late = (
	'SELECT taskq_submit($$q$$)' => '55000', 'SELECT taskq_heartbeat($$w$$)' => '55000', 'SELECT taskq_get(1)' => '55000',
	'SELECT taskq_complete(1, 1)' => '55000', 'SELECT * FROM taskq_extend(1, 1)' => '55000', 'SELECT taskq_workflow(1)' => '55000',
	'SELECT taskq_explain(1)' => '55000', 'CALL taskq_wait($$q$$, $$0$$)' => '55000', 'CALL taskq_await(1, $$0$$)' => '55000',
	'SELECT * FROM taskq.queues' => '42P01',
	# the server's
	'SELECT * FROM taskq_claim($$q$$)' => 'XX000', 'SELECT taskq_claim($$q$$)' => 'XX000', 'SELECT * FROM taskq_get(1)' => 'XX000',
	'SELECT * FROM taskq_heartbeat($$w$$)' => 'XX000', 'SELECT taskq_list($$q$$)' => 'XX000');
my @late = sort keys %late;
my (@calls, @answers);
note_row_types();
$sql->("SELECT taskq_register('w')");
my $dropper = open_session($node);
$dropper->query_safe('BEGIN; DROP EXTENSION taskq');
for my $i (0 .. $#late)
{
	$answers[$i] = '';
	push @calls, IPC::Run::start([ 'psql', '-XqAt', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr('postgres'), '-c', $late[$i] ],
		'<', \undef, '>', \$answers[$i], '2>&1');
}
ok(within(30, sub { $sql->("SELECT count(*) FROM pg_locks WHERE NOT granted") >= @late }), 'calls wait for a transaction that drops the extension');
$dropper->query_safe('COMMIT');
$dropper->quit;
for my $i (0 .. $#late)
{
	$calls[$i]->finish;
	is($answers[$i], "ERROR:  $late{$late[$i]}\n", $late[$i]);
}
is(join(' ', bugs($node)), '', 'what the server says of row types has no frame of the library');
is(error_of($node, 'CREATE EXTENSION taskq'), '', 'CREATE EXTENSION');

# --- a database without it
$sql->('CREATE DATABASE bare');
ok(within(20, sub { worker_pid($node, 'bare') eq '' }), 'without the extension there is no background worker');
is(error_of($node, 'SELECT taskq_submit()', 'bare'), '42883', 'nothing is there');
my $begin = time;
is(error_of($node, 'DROP DATABASE bare'), '', 'DROP DATABASE');
cmp_ok(time - $begin, '<', 5, 'a drop there is not delayed');

# --- read-only transactions and a standby: only reading works
my $id = $sql->("SELECT taskq_submit('held')");
my $token = $sql->("SELECT token FROM taskq_claim('held', lease => '1 h')");
$sql->("SELECT taskq_register('w')");
my @writers = (
	"taskq_create_queue('new')", "taskq_alter_queue('held', '{\"priority\": 1}')",
	"taskq_drop_queue('held', true)", "taskq_pause('held')", "taskq_resume('held')",
	"taskq_submit('held')", "taskq_submit('fresh')", "taskq_submit_many('held', '{1}')",
	"taskq_claim('held')", "taskq_claim('q')", "taskq_complete($id, $token)", "taskq_fail($id, $token, 'x')",
	"taskq_release($id, $token)", "taskq_suspend($id, $token)", "taskq_filter($id, $token)",
	"taskq_extend($id, $token, '1 h')", "taskq_checkpoint($id, $token, '1')",
	"taskq_register('new')", "taskq_register('w', keep => false)", "taskq_deregister('w')",
	"taskq_cancel($id, force => true)", "taskq_retry($id, force => true)",
	"taskq_run_reapers()", "taskq_activate()", "taskq_grant('held', 'postgres', '{work}')",
	"taskq_revoke('held', 'postgres', '{work}')");
my @readers = (
	"state FROM taskq_get($id)", "count(*) FROM taskq_get_many('{$id}')",
	"count(*) FROM taskq_list('held')", 'count(*) FROM taskq.tasks', 'count(*) FROM taskq.queues',
	'count(*) FROM taskq.workers', 'count(*) FROM taskq_check()', 'taskq_version()');
for my $call (@writers)
{
	is(error_of($node, "BEGIN READ ONLY; SELECT $call"), '25006', "read-only: $call");
}
for my $look (@readers)
{
	is(error_of($node, "BEGIN READ ONLY; SELECT $look"), '', "read-only: $look");
}
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('replica');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
for my $call (@writers, "taskq_heartbeat('w')", "taskq_progress($id, $token, 0.5)")
{
	my $code = error_of($standby, "SELECT $call");

	if ($call =~ /heartbeat|progress/)
	{
		unlike($code, qr/^(XX|exit)/, "standby: $call fails with a clear error ($code)");
	}
	else
	{
		is($code, '25006', "standby: $call");
	}
}
for my $look (@readers)
{
	is(error_of($standby, "SELECT $look"), '', "standby: $look");
}
is($standby->safe_psql('postgres', "SELECT state FROM taskq_get($id)"), 'running', 'a standby shows the running task');
is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'taskq%'"), '0',
	'no background process runs there');
unlike(slurp_file($standby->logfile), qr/\] XX\w{3} |PANIC|terminated by signal|taskq worker|taskq launcher/, 'its log has no errors');
$standby->stop('fast');
is($sql->("SELECT state FROM taskq_get($id)"), 'running', 'the calls have changed nothing');

sound($node, bugs => \&bugs);

# --- not preloaded: everything that tables can do works (unloaded has the rest)
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is($sql->("SELECT taskq_complete($id, $token); SELECT state FROM taskq_get($id)"), "\ndone",
	'a token from before is valid');
my ($c_id, $c_token) = split /\|/, $sql->(<<'SQL');
SELECT taskq_create_queue('alone', '{"retry": "fixed", "retry_base": "0 s"}') \g /dev/null
SELECT taskq_submit('alone', '{"n": 1}') \g /dev/null
SELECT task_id, token FROM taskq_claim('alone', lease => '1 h')
SQL
is($sql->("SELECT taskq_fail($c_id, $c_token, 'x')"), 'pending', 'submit, claim and fail work');
(undef, $c_token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('alone')");
is($sql->("SELECT taskq_checkpoint($c_id, $c_token, '7') \\g /dev/null\nSELECT taskq_release($c_id, $c_token) \\g /dev/null\n"
		  . "SELECT attempt, checkpoint FROM taskq_claim('alone')"), '2|7', 'checkpoint and release work');
$c_token = $sql->("SELECT token FROM taskq_get($c_id)");
is($sql->("SELECT taskq_complete($c_id, $c_token) \\g /dev/null\nSELECT state FROM taskq_get($c_id)"), 'done', 'complete');
is($sql->('SELECT count(*) FROM taskq_check()'), '0', 'taskq_check');
for my $call ("taskq_register('v')", "taskq_heartbeat('v')", "taskq_claim('alone', 'v')", "taskq_drain('v')",
	"taskq_expire('v', '1 h')", "taskq_deregister('v')", 'taskq_run_reapers()')
{
	is(error_of($node, "SELECT $call"), '', "$call works");
}
is(join(' ', bugs($node)), '', 'no other class XX');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'no crash');
$node->stop('fast');
done_testing();

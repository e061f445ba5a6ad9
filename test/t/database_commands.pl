# If a command needs a database for itself, the background worker of the
# database disconnects and other databases are not affected. The worker is back
# when the command has ended, successfully or not.
use strict;
use warnings;
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} = 60; }
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use TaskqProcesses;
use TaskqTest qw(open_session);
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'taskq'
autovacuum = off
max_prepared_transactions = 2
CONF
$node->start;

for (qw(one two three))
{
	$node->safe_psql('postgres', "CREATE DATABASE $_");
	$node->safe_psql($_, 'CREATE EXTENSION taskq');
}
my %pid = map { $_ => awaits_worker($node, $_, 0, 15, "a worker in $_") }
  qw(one two three);

# The commands succeed while only the background worker is connected.

my $space = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
takes_less($node, 'postgres', 4, 'ALTER DATABASE one RENAME TO uno',
	'RENAME');
$pid{uno} = awaits_worker($node, 'uno', $pid{one}, 15, 'the worker is back');
takes_less($node, 'postgres', 5, 'ALTER DATABASE uno SET TABLESPACE space',
	'SET TABLESPACE');
$pid{uno} = awaits_worker($node, 'uno', $pid{uno}, 15, 'the worker is back');
for my $strategy (qw(wal_log file_copy))
{
	takes_less($node, 'postgres', 5,
		"CREATE DATABASE copy_$strategy TEMPLATE uno STRATEGY $strategy",
		"CREATE DATABASE, template, $strategy");
	$pid{uno} =
	  awaits_worker($node, 'uno', $pid{uno}, 15, 'the worker is back');
}
takes_less($node, 'postgres', 4, 'CREATE DATABASE plain',
	'CREATE DATABASE');

# A copy is inactive until it is activated.
awaits_no_worker($node, 'copy_wal_log', 15, 'the copy is inactive');
$node->safe_psql('copy_wal_log', 'SELECT taskq_activate()');
awaits_worker($node, 'copy_wal_log', 0, 15, 'an activated copy has a worker');
takes_less($node, 'postgres', 4, 'DROP DATABASE copy_wal_log',
	'DROP DATABASE');
takes_less($node, 'postgres', 4, 'DROP DATABASE copy_file_copy WITH (FORCE)',
	'DROP DATABASE of a copy without worker');

is(worker($node, 'two'), $pid{two}, 'other databases are not affected');

# the template by default
$node->safe_psql('template1', 'CREATE EXTENSION taskq');
takes_less($node, 'postgres', 4, 'CREATE DATABASE standard',
	'CREATE DATABASE from template1 with the extension');
$node->safe_psql('standard', 'SELECT taskq_activate()');
my $standard =
  awaits_worker($node, 'standard', 0, 15, 'the copy has a background worker when it is activated');
$node->safe_psql('template1', 'DROP EXTENSION taskq');

# Commands that fail.

sub fails
{
	my ($database, $sql, $pattern, $name) = @_;
	my $before = worker($node, $database);
	my ($code, $out, $err) = $node->psql('postgres', $sql);
	ok($code != 0 && $err =~ $pattern, $name) or diag("code $code: $err");
	return awaits_worker($node, $database, $before, 15,
		"$name: the worker is back");
}
fails('two', 'CREATE DATABASE uno TEMPLATE two', qr/already exists/,
	'CREATE DATABASE of a name that is taken');
fails('two', 'ALTER DATABASE two RENAME TO uno', qr/already exists/,
	'RENAME to a name that exists');
fails('two', 'ALTER DATABASE two SET TABLESPACE nowhere', qr/does not exist/,
	'SET TABLESPACE to one that does not exist');
fails('two', 'BEGIN; DROP DATABASE two', qr/transaction block/,
	'DROP DATABASE in a transaction');

my $other = open_session($node, 'two');
fails('two', 'SET statement_timeout = 700; DROP DATABASE two',
	qr/statement timeout/, 'a cancelled DROP DATABASE');
my $before = worker($node, 'two');
my ($stdin, $stdout, $stderr) = ('', '', '');
my $drop = IPC::Run::start(
	[ 'psql', '-X', '-d', $node->connstr('postgres'), '-c',
		'DROP DATABASE two' ],
	'<', \$stdin, '>', \$stdout, '2>', \$stderr);
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity"
		  . " WHERE datname = 'two' AND backend_type = 'taskq worker'"),
	'a DROP DATABASE waits for another session, without the worker');
is( $node->safe_psql('postgres',
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
		  . " WHERE query = 'DROP DATABASE two' AND state = 'active'"),
	't', 'it is terminated');
$drop->finish;
awaits_worker($node, 'two', $before, 15, 'the worker is back');
$other->quit;

# in a transaction: until it ends
my $session = open_session($node);
$before = worker($node, 'two');
$session->query_safe('BEGIN; ALTER DATABASE two RENAME TO deux');
is(worker($node, 'two'), '', 'no worker before the commit');
$session->query_safe('ROLLBACK');
$before = awaits_worker($node, 'two', $before, 15, 'after a rollback the worker is back');
$session->query_safe('BEGIN; ALTER DATABASE two RENAME TO deux; COMMIT');
$before = awaits_worker($node, 'deux', $before, 15, 'after the commit the worker is back');
$session->query_safe('ALTER DATABASE deux RENAME TO two');
$pid{two} = awaits_worker($node, 'two', $before, 15, 'it is connected under the old name');

# while the background worker works
my $hold = open_session($node, 'three');
$hold->query_safe(
	'BEGIN; LOCK TABLE pg_catalog.pg_extension IN ACCESS EXCLUSIVE MODE');
$node->reload;
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'three'"
		  . " AND backend_type = 'taskq worker'"
		  . " AND wait_event_type = 'Lock'"),
	'a background worker works');
takes_less($node, 'postgres', 4, 'DROP DATABASE three WITH (FORCE)',
	'DROP DATABASE WITH (FORCE)');
eval { $hold->quit };

# A role without the privilege disturbs no session.

$node->safe_psql('postgres', 'CREATE ROLE guest');
for my $sql (
	'DROP DATABASE two',
	'ALTER DATABASE two RENAME TO zwei',
	'ALTER DATABASE two SET TABLESPACE space',
	'CREATE DATABASE zwei TEMPLATE two')
{
	my ($code, $out, $err) =
	  $node->psql('postgres', "SET ROLE guest; $sql");
	like($err, qr/must be owner|permission denied/, "not allowed: $sql");
}
$node->psql('two', 'SET ROLE guest; DROP EXTENSION taskq');
$node->psql('two', 'SET ROLE guest; ALTER EXTENSION taskq UPDATE');
is(worker($node, 'two'), $pid{two}, 'the background worker is not affected');
is(worker($node, 'standard'), $standard, 'no other background worker is affected');

# Prepared transactions
$node->safe_psql('plain', "BEGIN; CREATE EXTENSION taskq;"
	  . " PREPARE TRANSACTION 'make'");
is(worker($node, 'plain'), '', 'a prepared CREATE EXTENSION starts nothing');
$node->safe_psql('plain', "COMMIT PREPARED 'make'");
awaits_worker($node, 'plain', 0, 15, 'its commit starts the worker');
$node->safe_psql('plain', "BEGIN; DROP EXTENSION taskq;"
	  . " PREPARE TRANSACTION 'drop'");
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = 'plain'"
		  . " AND backend_type = 'taskq worker'"
		  . " AND wait_event_type = 'Lock'"),
	'a prepared DROP EXTENSION makes the worker wait');
$node->safe_psql('plain', "COMMIT PREPARED 'drop'");
awaits_no_worker($node, 'plain', 15, 'its commit ends the worker');

takes_less($node, 'postgres', 4, "DROP DATABASE $_", "DROP DATABASE $_")
  for qw(two uno standard plain);
is( $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity"
		  . " WHERE backend_type = 'taskq worker'"),
	'0', 'no worker is left');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal|XX000/,
	'no process crashed');
unlike(slurp_file($node->logfile), qr/CONTEXT:  taskq|FATAL: .*database \d+/,
	'no worker or launcher logged an error');
$node->stop('fast');

done_testing();

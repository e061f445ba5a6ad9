# There is no background worker if there is no free slot or no free entry of the
# worker directory, on a standby, during a binary upgrade, and if the library is
# not preloaded. The server says why.
use strict;
use warnings;
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} = 60; }
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use TaskqProcesses;
use Test::More;

my $workers =
    "SELECT coalesce(string_agg(datname, ',' ORDER BY datname), '')"
  . " FROM pg_stat_activity WHERE backend_type = 'taskq worker'";
my $launchers = "SELECT count(*) FROM pg_stat_activity"
  . " WHERE backend_type = 'taskq launcher'";

# slots: one for the launcher, one for a worker

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'taskq'
autovacuum = off
max_logical_replication_workers = 0
max_worker_processes = 2
CONF
$node->start;
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(one two);
$node->safe_psql('one', 'CREATE EXTENSION taskq');
my $one = awaits_worker($node, 'one', 0, 15, 'the first gets the slot');
my $position = -s $node->logfile;
$node->safe_psql('two', 'CREATE EXTENSION taskq');
my $found = $node->wait_for_log(
	qr/could not start background worker for database "two": no free slot/, $position);
ok($found, 'the log says that the second gets none');
like(log_since($node, $position), qr/HINT:  Increase "max_worker_processes"/,
	'the log says what to do');
is($node->safe_psql('postgres', $workers), 'one', 'the second database has no worker');
is(worker($node, 'one'), $one, 'the first database keeps its worker');
$node->safe_psql('one', 'DROP EXTENSION taskq');
awaits_worker($node, 'two', 0, 15, 'a slot becomes free: the second database gets a worker');
is(() = log_since($node, $position) =~ /could not start background worker/g,
	1, 'the log said so once');

# entries of the worker directory

$node->append_conf('postgresql.conf', <<'CONF');
max_worker_processes = 8
taskq.max_databases = 1
CONF
$node->safe_psql('one', 'CREATE EXTENSION taskq');
$position = -s $node->logfile;
$node->restart;
ok( $node->wait_for_log(
		qr/more than 1 databases have the extension/, $position),
	'the log says that one database has no entry');
ok( $node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity"
		  . " WHERE backend_type = 'taskq worker' AND state = 'idle'"),
	'there is one worker');
my $placed = $node->safe_psql('postgres', $workers);
my $refused = $placed eq 'one' ? 'two' : 'one';
$node->safe_psql($placed, 'DROP EXTENSION taskq');
awaits_worker($node, $refused, 0, 15, 'an entry becomes free: the database gets a worker');
is(() = log_since($node, $position) =~ /more than 1 databases/g,
	1, 'the log said so once');
$node->adjust_conf('postgresql.conf', 'taskq.max_databases', '64');
$node->safe_psql($placed, 'CREATE EXTENSION taskq');
$node->restart;
awaits_worker($node, $_, 0, 15, "with entries for all: a worker in $_")
  for qw(one two);

# a standby

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', 'CREATE DATABASE later');
$node->safe_psql('later', 'CREATE EXTENSION taskq');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', $launchers) . '/'
	  . $standby->safe_psql('postgres', $workers),
	'0/', 'a standby has no launcher and no worker');
my ($code, $out, $err) = $standby->psql('postgres', 'DROP DATABASE one');
like($err, qr/read-only transaction|during recovery/,
	'commands on databases fail as usual');
$node->stop('fast');
$standby->promote;
awaits_worker($standby, $_, 0, 10, "after promotion: a worker in $_")
  for qw(one two later);
unlike(slurp_file($standby->logfile), qr/ERROR: .*taskq|CONTEXT:  taskq|PANIC/,
	'nothing else is logged');
$standby->stop('fast');

# a binary upgrade

sub pg_ctl
{
	system_or_bail('pg_ctl', '-w', '-D', $node->data_dir, '-l',
		$node->logfile, @_);
	return;
}
pg_ctl('-o', '-b', 'start');
is($node->safe_psql('postgres', $launchers) . '/'
	  . $node->safe_psql('postgres', $workers),
	'0/', 'under binary upgrade there is no launcher and no worker');
takes_less($node, 'postgres', 4, 'DROP DATABASE later',
	'commands on databases work');
pg_ctl('-m', 'fast', 'stop');

# not preloaded

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;
$position = -s $node->logfile;
is($node->safe_psql('postgres', $launchers), '0', 'not preloaded: no launcher');
$node->safe_psql('postgres', <<'SQL');
LOAD 'taskq';
CREATE DATABASE made;
ALTER DATABASE made RENAME TO remade;
DROP DATABASE remade;
SQL
$node->safe_psql('postgres',
	"LOAD 'taskq'; CREATE EXTENSION taskq; DROP EXTENSION taskq");
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_extension'
	  . " WHERE extname = 'taskq'"),
	'0', 'the library can be loaded, the extension created and dropped');
unlike(log_since($node, $position), qr/PANIC|terminated by signal|XX000/,
	'nothing crashed');
$node->stop('fast');

done_testing();

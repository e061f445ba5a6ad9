# The launcher and the background workers run where they should, and start, stop
# and restart when they should.
# expect-log: terminated by signal 9
use strict;
use warnings;
BEGIN { $ENV{PG_TEST_TIMEOUT_DEFAULT} = 60; }
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use TaskqProcesses;
use TaskqTest qw(open_session within timely);
use Test::More;
use Time::HiRes qw(time);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'taskq'
restart_after_crash = on
autovacuum = off
wal_level = minimal
max_wal_senders = 0
log_error_verbosity = verbose
CONF
$node->start;

my $workers =
    "SELECT coalesce(string_agg(datname, ',' ORDER BY datname), '')"
  . " FROM pg_stat_activity WHERE backend_type = 'taskq worker'";
my ($one, $two, $launcher, $position);

# CREATE EXTENSION, and which databases have a worker

$node->safe_psql('postgres', "CREATE DATABASE $_")
  for qw(one two none shut pattern);
like(launcher($node), qr/^\d+$/, 'there is one launcher');
takes_less($node, 'one', 4, 'CREATE EXTENSION taskq', 'CREATE EXTENSION');
$one = awaits_worker($node, 'one', 0, 15, 'CREATE EXTENSION starts a worker');
$node->safe_psql($_, 'CREATE EXTENSION taskq') for qw(two shut pattern);
awaits_worker($node, $_, 0, 15, "database $_ has a worker of its own")
  for qw(two shut pattern);
is($node->safe_psql('postgres', $workers),
	'one,pattern,shut,two', 'only databases with the extension have one');
is($node->safe_psql('postgres', "SELECT application_name || '/' || usename"
	  . " FROM pg_stat_activity WHERE pid = $one"),
	'taskq worker/' . $node->safe_psql('postgres', 'SELECT current_user'),
	'it shows its application name, and is a superuser');

$node->safe_psql('postgres', 'ALTER DATABASE shut ALLOW_CONNECTIONS false');
awaits_no_worker($node, 'shut', 15, 'no connections allowed: the worker leaves');
$node->safe_psql('postgres', 'ALTER DATABASE pattern IS_TEMPLATE true');
awaits_no_worker($node, 'pattern', 15, 'a template: the worker leaves');
$node->restart;
awaits_worker($node, $_, 0, 15, "after a restart: a worker in $_")
  for qw(one two);
is($node->safe_psql('postgres', $workers),
	'one,two', 'a template, and a database that allows no connections, have no worker');
$node->safe_psql('postgres', 'ALTER DATABASE shut ALLOW_CONNECTIONS true');
awaits_worker($node, 'shut', 0, 15, 'connections allowed: the worker returns');
$node->safe_psql('postgres', 'ALTER DATABASE pattern IS_TEMPLATE false');
awaits_worker($node, 'pattern', 0, 15, 'no longer a template: the worker returns');
$node->safe_psql($_, 'DROP EXTENSION taskq') for qw(shut pattern);

# DROP EXTENSION

$two = worker($node, 'two');
$position = -s $node->logfile;
takes_less($node, 'one', 4, 'DROP EXTENSION taskq', 'DROP EXTENSION');
awaits_no_worker($node, 'one', 15, 'the worker leaves');
takes_less($node, 'one', 4, 'CREATE EXTENSION taskq', 'the worker leaves again');
awaits_worker($node, 'one', 0, 15, 'the worker starts');

my $session = open_session($node, 'one');
$session->query_safe('BEGIN; DROP EXTENSION taskq');
is(worker($node, 'one'), '', 'no worker runs while the drop is not yet committed');
$session->query_safe('ROLLBACK');
awaits_worker($node, 'one', 0, 15, 'after a drop that is rolled back it returns');

# while the worker works: it waits for this lock
my $hold = 'BEGIN; LOCK TABLE pg_catalog.pg_extension'
  . ' IN ACCESS EXCLUSIVE MODE';
my $blocked = "SELECT count(*) = 1 FROM pg_stat_activity"
  . " WHERE datname = 'one' AND backend_type = 'taskq worker'"
  . " AND wait_event_type = 'Lock'";
$session->query_safe($hold);
$node->reload;
ok($node->poll_query_until('postgres', $blocked), 'the worker is working');
my $begin = time;
$session->query_safe('DROP EXTENSION taskq; COMMIT');
cmp_ok(time - $begin, '<', 4, 'DROP EXTENSION does not wait for its end');
awaits_no_worker($node, 'one', 15, 'the worker leaves while it works');
unlike(log_since($node, $position), qr/ERROR|FATAL|WARNING/,
	'the log has no error');
is(worker($node, 'two'), $two, 'the worker of the other database is the same');
$session->query_safe('CREATE EXTENSION taskq');
$one = awaits_worker($node, 'one', 0, 15, 'there is a worker again');

# DROP SCHEMA and DROP OWNED

$node->safe_psql('none',
	'CREATE SCHEMA box; CREATE EXTENSION taskq SCHEMA box');
awaits_worker($node, 'none', 0, 15, 'the extension in a schema');
takes_less($node, 'none', 4, 'DROP SCHEMA box CASCADE', 'the schema is dropped');
awaits_no_worker($node, 'none', 15, 'the worker leaves');
$node->safe_psql('none', 'CREATE ROLE other SUPERUSER;'
	  . ' SET ROLE other; CREATE EXTENSION taskq');
awaits_worker($node, 'none', 0, 15, 'the extension of another role');
takes_less($node, 'none', 4, 'DROP OWNED BY other', 'the objects of that role are dropped');
awaits_no_worker($node, 'none', 15, 'the worker leaves');

# an error in a round

$position = -s $node->logfile;
$session->query_safe($hold);
$node->reload;
ok($node->poll_query_until('postgres', $blocked), 'the worker is working');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($one)");
ok( $node->poll_query_until(
		'postgres',
		"SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $one"),
	'an error ends its round');
$session->query_safe('ROLLBACK');
like(
	log_since($node, $position),
	qr/57014: canceling.*\n.*CONTEXT:  .*taskq background worker of database "one"/,
	'the error is logged with its context');
ok($node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid = $one"
		  . " AND state_change > now() - interval '1 second'"
		  . " AND state = 'idle'"),
	'the next round comes');
is(worker($node, 'one'), $one, 'it is a round of the same process');

# settings for ordinary sessions do not affect it

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE weak;
ALTER DATABASE one SET role = 'weak';
ALTER DATABASE one SET lock_timeout = 1;
ALTER DATABASE one SET statement_timeout = 1;
ALTER DATABASE one SET default_transaction_read_only = on;
ALTER DATABASE one SET default_transaction_isolation = 'serializable';
ALTER DATABASE one SET search_path = 'nowhere';
SQL
$position = -s $node->logfile;
$session->query_safe($hold);
$node->safe_psql('postgres', "SELECT pg_terminate_backend($one)");
ok( $node->poll_query_until('postgres', "$blocked AND pid <> $one"),
	'a new worker, waiting for the lock');
$session->query_safe('ROLLBACK');
$one = awaits_worker($node, 'one', $one, 15, 'no timeout ended it');
ok(awaits_turn($node, 'one'), 'a round with strange settings succeeds');
unlike(log_since($node, $position), qr/ERROR|FATAL/, 'the worker ignores the settings');
$node->safe_psql('postgres', 'ALTER DATABASE one RESET ALL');

# idle

for my $try (1 .. 5)
{
	my $look = 'SELECT pg_snapshot_xmax(pg_current_snapshot()),'
	  . ' pg_current_wal_insert_lsn()';
	my $before = $node->safe_psql('postgres', $look);
	awaits_turn($node, 'one') for 1 .. 3;
	my $after = $node->safe_psql('postgres', $look);

	# at first pages may still be pruned, which writes WAL
	next if $try < 5 && $before ne $after;
	is($after, $before, 'idle rounds use no transaction id and write no WAL');
	last;
}

# SIGTERM

$launcher = launcher($node);
$two = worker($node, 'two');
$one = worker($node, 'one');
$position = -s $node->logfile;
$node->safe_psql('postgres', "SELECT pg_terminate_backend($one)");
$one = awaits_worker($node, 'one', $one, 15, 'SIGTERM: the worker is back');
unlike(log_since($node, $position), qr/ERROR|FATAL/, 'the idle worker ended without an error');

timely(1, 's until SIGTERM has ended it there', sub {
	$session->query_safe($hold);
	$node->reload;
	ok($node->poll_query_until('postgres', $blocked), 'the worker is working');
	my $begin = time;
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($one)");
	$node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $one")
	  or return 'Inf';
	my $took = time - $begin;
	$session->query_safe('ROLLBACK');
	$one = awaits_worker($node, 'one', $one, 15, 'the worker is back');
	return $took;
});
is(worker($node, 'two'), $two, 'other workers are the same');
is(launcher($node), $launcher, 'the launcher is the same');

$node->safe_psql('postgres', "SELECT pg_terminate_backend($launcher)");
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid <> $launcher"
		  . " AND backend_type = 'taskq launcher'"),
	'SIGTERM: the launcher is back');
is(worker($node, 'one') . ',' . worker($node, 'two'),
	"$one,$two", 'the workers are the same');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($one)");
$one =
  awaits_worker($node, 'one', $one, 15, 'the new launcher starts a worker');
$node->safe_psql('two', 'DROP EXTENSION taskq');
awaits_no_worker($node, 'two', 15, 'workers leave as before');
$node->safe_psql('two', 'CREATE EXTENSION taskq');
awaits_worker($node, 'two', 0, 15, 'workers start as before');

# crashes

$session->quit;
$launcher = launcher($node);
$begin = time;
$position = -s $node->logfile;
kill 'KILL', $one;
# psql would end without reading its query while the server recovers
ok( within(
		30,
		sub {
			log_since($node, $position) =~ /reinitializing/
			  && system('pg_isready', '-q', '-h', $node->host, '-p',
				$node->port) == 0;
		})
	  && $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE pid <> $launcher"
		  . " AND backend_type = 'taskq launcher'"),
	'kill -9 of a worker: the server starts again');
awaits_worker($node, $_, $one, 15 - (time - $begin), "$_ has a worker again")
  for qw(one two);
$node->stop('immediate');
$begin = time;
$node->start;
awaits_worker($node, $_, 0, 15 - (time - $begin),
	"after an immediate stop $_ has a worker again")
  for qw(one two);

# shutdown, with one worker idle and one working

$position = -s $node->logfile;
$session = open_session($node, 'one');
$session->query_safe($hold);
$node->reload;
ok($node->poll_query_until('postgres', $blocked), 'a worker is working');
$begin = time;
$node->stop('fast');
cmp_ok(time - $begin, '<', 5, 'a fast shutdown is fast');
unlike(log_since($node, $position), qr/PANIC|SIGKILL|XX000/, 'the shutdown is clean');

done_testing();

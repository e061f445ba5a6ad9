# The launcher is notified of a database while it waits for a lock. The wait
# resets its latch, but the database gets its background worker immediately, not
# a minute later.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

# less than the minute for which it sleeps without a wake
my $BOUND = 45;

my $node = start_node('launcher', 'autovacuum' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->('CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION taskq');
ok(within($BOUND, sub { worker_pid($node, 'other') ne '' }), 'a database has a worker');
$sql->('CREATE DATABASE shut ALLOW_CONNECTIONS false');
my $launcher = $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq launcher'");

# No session can connect while pg_database is locked.
my ($first, $second, $other) = map { $node->background_psql($_) } qw(postgres postgres other);
my $pid = $second->query_safe('SELECT pg_backend_pid()');
my $waits = sub {
	my ($pid, $span) = @_;
	within($BOUND, sub {
		$other->query_safe("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $pid AND relation = 1262"
			  . " AND clock_timestamp() - waitstart > interval '$span'") eq '1';
	});
};
$other->query_safe('BEGIN; DROP EXTENSION taskq');
ok(within($BOUND, sub { worker_pid($node, 'other') eq '' }), 'a command locks pg_database');
within($BOUND, sub { $sql->("SELECT state FROM pg_stat_activity WHERE pid = $launcher") eq 'idle' });

# The command makes the launcher check a database that gets no worker, and does
# not wake it again. Before the launcher is notified, the second session has the
# lock.
$first->query_safe('BEGIN; LOCK TABLE pg_catalog.pg_database IN ACCESS EXCLUSIVE MODE; ALTER DATABASE shut CONNECTION LIMIT 5');
$second->query_until(qr/sent/, "\\echo sent\nBEGIN; LOCK TABLE pg_catalog.pg_database IN ACCESS EXCLUSIVE MODE;\n");
ok($waits->($pid, '0'), 'a session waits for pg_database');
$first->query_safe('COMMIT');
# For longer than deadlock_timeout, whose alarm would wake it later.
ok($waits->($launcher, '2 s'), 'the launcher waits for it, too, in a round');
$other->query_safe('ROLLBACK');
my $begin = time;
$second->query_safe('COMMIT');
ok(within($BOUND, sub { worker_pid($node, 'other') ne '' }), 'a worker that may return in the meantime does so');
note sprintf 'figure: after %.1f s', time - $begin;
$_->quit for $first, $second, $other;
sound($node);
$node->stop('fast');
done_testing();

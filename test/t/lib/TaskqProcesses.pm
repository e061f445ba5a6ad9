# What the tests of the background processes share.
package TaskqProcesses;
use strict;
use warnings;
use Exporter 'import';
use Test::More;
use Time::HiRes qw(time);
use PostgreSQL::Test::Utils;
use TaskqClient;
use TaskqInit;

our @EXPORT = qw(worker launcher awaits_worker awaits_no_worker awaits_turn
  takes_less log_since);

# Process id of a database's worker, or an empty string.
sub worker
{
	my ($node, $database) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE datname = '$database'"
		  . " AND backend_type = 'taskq worker'");
}

sub launcher
{
	my ($node) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity"
		  . " WHERE backend_type = 'taskq launcher'");
}

# A worker starts, with another process id than the given one, within so many
# seconds: 15 are promised, and that is much less than the minute for which it
# and the launcher sleep without a wake. Returns its process id.
sub awaits_worker
{
	my ($node, $database, $not, $seconds, $name) = @_;
	my $begin = time;
	my $come = $node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity"
		  . " WHERE datname = '$database' AND pid <> $not"
		  . " AND backend_type = 'taskq worker' AND state = 'idle'");
	my $took = time - $begin;
	ok($come && $took < $seconds, $name)
	  or diag("waited $took s for the worker of $database");
	return $come ? worker($node, $database) : 0;
}

# A worker leaves within so many seconds.
sub awaits_no_worker
{
	my ($node, $database, $seconds, $name) = @_;
	my $begin = time;
	my $gone = $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity"
		  . " WHERE datname = '$database'"
		  . " AND backend_type = 'taskq worker'");
	my $took = time - $begin;
	ok($gone && $took < $seconds, $name)
	  or diag("waited $took s for the worker of $database to go");
	return;
}

# A database's worker completes another round.
sub awaits_turn
{
	my ($node, $database) = @_;
	my $last = $node->safe_psql('postgres',
		"SELECT max(state_change) FROM pg_stat_activity"
		  . " WHERE datname = '$database'"
		  . " AND backend_type = 'taskq worker'");
	$node->reload;
	return $node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity"
		  . " WHERE datname = '$database' AND state = 'idle'"
		  . " AND backend_type = 'taskq worker'"
		  . " AND state_change > '$last'");
}

# Statements succeed within so many seconds.
sub takes_less
{
	my ($node, $database, $seconds, $sql, $name) = @_;
	my $begin = time;
	my ($code, $out, $err) = $node->psql($database, $sql);
	my $took = time - $begin;
	ok($code == 0 && $took < $seconds, $name)
	  or diag("code $code after $took s: $err");
	return;
}

# The server's log from that position on.
sub log_since
{
	my ($node, $position) = @_;
	return substr(slurp_file($node->logfile), $position);
}

1;

# TaskqTest: what the TAP tests share.
package TaskqTest;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

our @EXPORT = qw(start_node within sound worker_pid connect_bg);

# start_node(NAME, SETTINGS): a server with the extension in database
# postgres, its background worker running.
sub start_node
{
	my ($name, %settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my %all = (
		'shared_preload_libraries' => "'taskq'",
		'max_worker_processes' => 16,
		'max_connections' => 60,
		'max_prepared_transactions' => 10,
		'log_statement' => 'none',
		'log_line_prefix' => "'%m [%p] %e %b '",
		%settings);

	$node->init(%{ delete $all{init} // {} });
	$node->append_conf('postgresql.conf', "$_ = $all{$_}") for sort keys %all;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION taskq');
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'taskq worker'")
	  or die 'the background worker did not start';
	return $node;
}

# within(SECONDS, CODE): polls until CODE is true; false when time is up.
sub within
{
	my ($seconds, $code) = @_;
	my $end = time + $seconds;

	while (time < $end)
	{
		return 1 if $code->();
		select(undef, undef, undef, 0.01);
	}
	return $code->() ? 1 : 0;
}

sub worker_pid
{
	my ($node, $database) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq worker'"
		  . " AND datname = '" . ($database // 'postgres') . "'");
}

# sound(NODE, crashes => N): tables and memory agree, and the log shows no
# bug, and no crash but the expected ones.
sub sound
{
	my ($node, %expected) = @_;
	my $log = slurp_file($node->logfile);
	my @crashes = $log =~ /(was terminated by signal \d+)/g;

	is($node->safe_psql($expected{database} // 'postgres',
			'SELECT problem, detail FROM taskq_check()'),
		'', 'taskq_check finds nothing');
	my @bugs = grep { /\] XX\w{3} |PANIC/ } split /\n/, $log;
	is("@bugs", '', 'no class XX and no PANIC in the log');
	is(scalar @crashes, $expected{crashes} // 0, 'crashes as expected');
	return;
}

1;

# A server that preloads the library starts, has its background worker, and
# stops within seconds.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'taskq'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION taskq');
ok( $node->poll_query_until(
		'postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity"
		  . " WHERE backend_type = 'taskq worker' AND datname = 'postgres'"),
	'the background worker of the database runs');
is($node->safe_psql('postgres', 'SELECT count(*) FROM taskq_check()'),
	'0', 'taskq_check finds nothing');
my $begin = time;
$node->stop('fast');
cmp_ok(time - $begin, '<', 5, 'a fast shutdown takes seconds');
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/,
	'no process crashed');
done_testing();

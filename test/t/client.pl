# The client that the other tests use instead of psql has the same exit codes,
# output and messages as psql.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use TaskqClient;
use TaskqInit;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('client');
$node->init;
$node->append_conf('postgresql.conf', 'client_min_messages = notice');
$node->start;

my @texts = (
	'SELECT 1', "SELECT 1;\nSELECT 2;\n", "SELECT 'a', NULL, true, 1.50, ''", "SELECT ''", 'SELECT NULL',
	'SELECT n, n * 2 FROM generate_series(1, 3) n', 'SELECT 1 WHERE false', 'SELECT FROM generate_series(1, 3)', 'SELECT',
	"SELECT E'a\\nb|c', E'it''s \\' one', 'it''s; another'", 'SELECT 1 AS "a;""b"', "SELECT \$\$a;'b\$\$, \$x\$ \$\$;\$x\$",
	"-- first; line\nSELECT 1 -- ;'\n; /* a /* nested; */ ' */ SELECT 2", "  ;;\n; SELECT 3 ;;", 'SELECT (1);SELECT 2',
	"SELECT 'caf\xc3\xa9', length('caf\xc3\xa9')", "SELECT repeat('x', 100000)", 'SELECT n FROM generate_series(1, 5000) n',
	"SELECT '2 h'::interval, ARRAY[1, 2]::text[], '{\"a\": [1, null]}'::jsonb, '\\x00ff'::bytea",
	'CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL); INSERT INTO t VALUES (1, \'x\') RETURNING *; TABLE t; DROP TABLE t',
	'CREATE PROCEDURE p(INOUT a int) LANGUAGE plpgsql AS $$BEGIN COMMIT; a := a + 1; END$$; CALL p(1); DROP PROCEDURE p',
	'SHOW server_encoding; SET work_mem = \'1MB\'; SHOW work_mem', 'EXPLAIN (COSTS OFF) SELECT 1', 'VACUUM', 'DROP TABLE IF EXISTS none',
	'BEGIN; SELECT 1; ROLLBACK; SELECT 2', 'COMMIT', 'SELECT pg_sleep(0.01)', "SELECT current_setting('application_name')",
	# errors and notices
	'SELECT 1/0', 'SELECT 1/(3 - n) FROM generate_series(1, 5) n', "SELECT 1;\nSELECT 1/0;\nSELECT 2", "BEGIN;\nSELECT 1/0;\nSELECT 2;\nROLLBACK;\nSELECT 3", "SELECT 1,\n  two\n FROM generate_series(1, 2)",
	'SELEC 1', "SELECT 'open", 'SELECT (1', 'SELECT 1)', "CREATE TEMP TABLE u (a int UNIQUE); INSERT INTO u VALUES (1), (1)",
	"DO \$\$BEGIN RAISE NOTICE 'one'; RAISE WARNING 'two' USING DETAIL = 'more', HINT = 'help'; END\$\$; SELECT 1",
	"DO \$\$BEGIN RAISE 'three' USING DETAIL = 'more', HINT = 'help', ERRCODE = 'TQ001', TABLE = 't', COLUMN = 'c'; END\$\$",
	"DO \$\$BEGIN EXECUTE 'SELECT nothing'; END\$\$", 'SELECT pg_terminate_backend(pg_backend_pid()); SELECT 1',
	# as psql does
	'PREPARE p AS SELECT $1::int; EXECUTE p(3)', 'SELECT (ARRAY[1, 2, 3])[1:2]', "SELECT 1 AS one \\gset\nSELECT :one", "COPY (SELECT 1) TO STDOUT",
	"\\echo words", 'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END; SELECT f(); DROP FUNCTION f', '');
@texts = (@texts, map { my $v = $_; map { "\\set VERBOSITY $v\n$_" } grep { /1\/0|two|RAISE|u \(a|nothing/ } @texts } 'sqlstate', 'verbose');

for my $stop (1, 0)
{
	for my $text (@texts)
	{
		my @got = $node->psql('postgres', $text, on_error_stop => $stop);
		# psql itself
		my @wanted = $node->psql('postgres', $text, on_error_stop => $stop, extra_params => []);
		# its number depends on which other sessions are connected
		s/\bpg_temp_\d+/pg_temp/ for grep { defined } @got, @wanted;
		my $words = length $text > 100 ? substr($text, 0, 100) . ' …' : $text;

		is_deeply(\@got, \@wanted, ($stop ? '' : 'without ON_ERROR_STOP: ') . $words =~ s/\n/ /gr)
		  or diag(explain([ \@got, \@wanted ]));
	}
}

# which texts need psql, and how the others are divided
is(join('|', map { $_->[0] } TaskqClient::statements("SELECT 1; -- a;\nSELECT 'a;b' ;\n")), "SELECT 1;|-- a;\nSELECT 'a;b' ;",
	'statements are divided');
is(scalar(() = TaskqClient::statements($_)), 0, "psql is needed for: $_")
  for "SELECT 1 \\g", 'SELECT :x', "SELECT :'x'", 'COPY t FROM STDIN', 'LISTEN x', "SELECT 'a", 'SELECT $1';
is(scalar(() = TaskqClient::statements($_)), 1, "psql is not needed for: $_")
  for "SELECT E'\\\\n'", "SELECT 'a:b \\ c'", 'SELECT 1::int', 'SELECT copy_it, a FROM x', "SELECT '{1,2}'::int[]", 'SELECT a := 1';

# other ways to call the client
is($node->safe_psql('postgres', "SELECT 1; SELECT 'a', NULL"), "1\na|", 'safe_psql');
ok(!eval { $node->safe_psql('postgres', 'SELECT 1/0'); 1 }, 'safe_psql dies');
like($@, qr/error running SQL: .*division by zero/, 'safe_psql dies with the error');
is($node->psql('postgres', 'SELECT 1/0'), 3, 'psql in scalar context');
my ($out, $err);
is($node->psql('postgres', 'SELECT 1/0', stdout => \$out, stderr => \$err), 3, 'psql with references');
is("$out$err", 'psql:<stdin>:1: ERROR:  division by zero', 'which are set');
{
	local $ENV{PGOPTIONS} = '-c work_mem=3MB';
	is($node->safe_psql('postgres', 'SHOW work_mem'), '3MB', 'PGOPTIONS');
}
ok($node->poll_query_until('postgres', 'SELECT 1 = 1'), 'poll_query_until');
ok($node->poll_query_until('postgres', 'SELECT 7', '7'), 'poll_query_until takes another expected answer');
my $begun = "SELECT clock_timestamp() > '" . $node->safe_psql('postgres', 'SELECT clock_timestamp()') . "'::timestamptz + '300 ms'";
ok($node->poll_query_until('postgres', $begun), 'poll_query_until asks until the answer comes');
# psql, which ends without reading, gets no input: a process that writes to it
# would get a broken pipe now and then
is_deeply([ $node->psql('none', 'SELECT 1') ], [ $node->psql('none', '', extra_params => []) ], 'a database that is not there');
ok(TaskqClient::accepts($node), 'the server accepts connections');
$node->stop('fast');
ok(!TaskqClient::accepts($node), 'after a stop the server does not accept connections');
is_deeply([ $node->psql('postgres', 'SELECT 1') ], [ $node->psql('postgres', '', extra_params => []) ], 'a server that is not there');
done_testing();

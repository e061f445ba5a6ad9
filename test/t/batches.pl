# Rows are inserted in batches. An error or a crash between the rows and their
# index entries leaves nothing, committed rows survive a crash, logical decoding
# shows all rows in order, and max_depth holds.
# expect-log: was terminated by signal 6
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('batches', init => { allows_streaming => 'logical' }, 'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $many = sub { "SELECT count(*) FROM taskq_submit_many('q', (SELECT array_agg(to_jsonb(g) ORDER BY g) FROM generate_series(1, $_[0]) g))" };
my $live = sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q' AND state <> 'done'") };

$sql->("SELECT taskq_create_queue('q')");

# --- an error between the rows and their index entries
my $in_savepoint = <<"SQL";
CREATE FUNCTION tried(call text) RETURNS text LANGUAGE plpgsql AS \$\$
BEGIN
    EXECUTE call;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END \$\$;
SQL
$sql->($in_savepoint);
is($sql->("SET taskq.fault_point = 'batch_between:error'; BEGIN; SELECT tried(\$q\$" . $many->(300) . "\$q\$); RESET taskq.fault_point; " . $many->(10) . '; COMMIT'),
	"38000\n10", 'a list fails in a savepoint');
is($live->(), '10', 'the savepoint leaves nothing of the list, and the rest stays');
$sql->("CREATE TABLE held AS SELECT task_id, token FROM taskq_claim('q', max_tasks => 10)");
my $finish = 'SELECT count(*) FROM (SELECT array_agg(task_id) AS i, array_agg(token) AS t FROM held) l, taskq_complete_many(i, t) WHERE ok';
is(error_of($node, "SET taskq.fault_point = 'batch_between:error'; $finish"), '38000', 'an error is raised while finished tasks are written');
is($live->(), '10', 'the tasks are still running');
is($sql->($finish), '10', 'the tasks can be completed');
is($live->(), '0', 'the tasks are done');
amcheck($node);

# --- crashes
$node->psql('postgres', "SET taskq.fault_point = 'batch_between:crash'; " . $many->(300));
recovered($node, 1, 60);
is($live->(), '0', 'a crash between the rows and their index entries leaves nothing');
is($sql->($many->(1000)), '1000', 'a thousand tasks are submitted');
$node->stop('immediate');
start_again($node);
is($live->(), '1000', 'the tasks survive a crash of the server');
is($sql->("SELECT count(*), min(payload::int), max(payload::int) FROM taskq_claim('q', max_tasks => 2000)"), '1000|1|1000', 'the tasks can be claimed after the crash');
is($sql->('SELECT count(*) FROM (SELECT array_agg(task_id) AS i, array_agg(token) AS t FROM taskq.task) l, taskq_complete_many(i, t) WHERE ok'), '1000', 'the tasks can be completed after the crash');
$node->stop('immediate');
start_again($node);
is($sql->("SELECT count(*), count(DISTINCT payload) FROM taskq.tasks WHERE queue = 'q' AND state = 'done' AND task_id > (SELECT max(task_id) FROM held)"),
	'1000|1000', 'tasks that were finished together survive a crash');
amcheck($node);

# --- logical decoding
$sql->("SELECT FROM pg_create_logical_replication_slot('decoded', 'test_decoding')");
my $first = $sql->("SELECT min(id) FROM taskq_submit_many('q', array_fill('1'::jsonb, ARRAY[500])) id");
my $decoded = $sql->(<<'SQL');
SELECT string_agg(id, ',' ORDER BY n)
  FROM (SELECT n, substring(data FROM '^table taskq\.task: INSERT: task_id\[bigint\]:(\d+) ') AS id
          FROM pg_logical_slot_get_changes('decoded', NULL, NULL, 'include-xids', '0') WITH ORDINALITY c (lsn, xid, data, n)) d
 WHERE id IS NOT NULL
SQL
is($decoded, join(',', $first .. $first + 499), 'each row is decoded once, in order');
$sql->("SELECT pg_drop_replication_slot('decoded')");
$sql->("SELECT taskq_drop_queue('q', true)");

# --- max_depth
$sql->("SELECT taskq_create_queue('q', '{\"max_depth\": 300}')");
is(error_of($node, $many->(301)), 'TQ008', 'one task more than max_depth is refused with all of its list');
is($live->(), '0', 'nothing of the refused list is stored');
is($sql->($many->(300)), '300', 'a list of exactly max_depth tasks is accepted');
is(error_of($node, $many->(1)), 'TQ008', 'one more task is refused');
is(error_of($node, "SELECT count(*) FROM taskq_submit_tasks('[{\"queue\": \"other\"}, {\"queue\": \"q\"}]')"), 'TQ008', 'a list for several queues is refused, too');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'other'"), '0', 'nothing of that list is stored');

sound($node, crashes => 1);
$node->stop('fast');
done_testing();

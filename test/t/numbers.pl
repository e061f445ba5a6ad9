# Sequences draw numbers of four bytes. After the last number, numbers to which
# nothing refers are used again, or the limit is reported. Numbers of workers
# are in unused_workers.pl.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $LAST = 2147483647;

my $node = start_node('numbers', 'autovacuum' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };

# next_of(sequence, number): the number that is drawn next, after the last one
sub next_of { return $sql->("SELECT setval('taskq.$_[0]', $LAST + $_[1]::bigint, false)") }
sub queue { return $sql->("SELECT queue_id FROM taskq.queue WHERE name = '$_[0]'") }

# finish_and_drop(queue): finish its task, and drop it
sub finish_and_drop
{
	$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('$_[0]'); SELECT taskq_drop_queue('$_[0]')");
}

# --- queues
$sql->("SELECT taskq_create_queue('kept'), taskq_create_queue('kept 2')");
$sql->("SELECT setval('taskq.queue_id_seq', $LAST - 1)");
$sql->("SELECT taskq_create_queue('last')");
is(queue('last'), $LAST, 'the last number of a queue');
$sql->("SELECT taskq_submit('after it')");
is(queue('after it'), queue('kept 2') + 1, 'then numbers start again, and the numbers of existing queues are skipped');

$sql->("SELECT taskq_create_queue('history', '{\"history\": \"transitions\"}'), taskq_submit('history')");
my $former = queue('history');
finish_and_drop('history');
$sql->("DELETE FROM taskq.finished_count WHERE queue_id = $former");
next_of('queue_id_seq', $former);
$sql->("SELECT taskq_create_queue('not of history')");
isnt(queue('not of history'), $former, 'that of a queue whose history is kept is left out');
is($sql->("SELECT count(*) FROM taskq.history WHERE queue = 'not of history'"), '0', 'no other queue shows that history');

$sql->("SELECT taskq_create_queue('operation'); SELECT taskq_manage_where('hold', 'operation', reason => 'secret', dry_run => true)");
$former = queue('operation');
ok($node->poll_query_until('postgres', "SELECT finished IS NOT NULL FROM taskq.operations"), 'an operation has ended');
$sql->("SELECT taskq_drop_queue('operation')");
$sql->("DELETE FROM taskq.finished_count WHERE queue_id = $former; DELETE FROM taskq.metric_minute WHERE queue_id = $former");
next_of('queue_id_seq', $former);
$sql->("SELECT taskq_create_queue('not of operation')");
isnt(queue('not of operation'), $former, 'so is that of a queue of which an operation is kept');

$sql->(q{SELECT taskq_define_workflow('{"name": "one", "version": "1", "steps": [{"name": "s", "queue": "steps"}]}')});
$sql->("SELECT taskq_start_workflow('one')");
$former = queue('steps');
finish_and_drop('steps');
next_of('queue_id_seq', $former);
$sql->("SELECT taskq_submit('not of steps')");
isnt(queue('not of steps'), $former, 'so is that of a queue of which steps are kept');

# a free number is used, and has nothing of its former queue
$sql->("SELECT taskq_create_queue('free', '{\"max_running\": 1, \"history\": \"none\"}'), taskq_submit('free'); SELECT taskq_grant('free', 'pg_monitor', '{read}')");
$former = queue('free');
finish_and_drop('free');
$sql->("DELETE FROM taskq.finished_count WHERE queue_id = $former");
next_of('queue_id_seq', $former);
$sql->("SELECT taskq_create_queue('next', '{\"max_running\": 2}')");
is(queue('next'), $former, 'a free number is used again');
is($sql->("SELECT count(*) FROM taskq.queue_grant WHERE queue_id = $former"), '0', 'without the rights of the former queue');
is($sql->("SELECT coalesce(sum(value), 0) FROM taskq.metrics WHERE queue = 'next' AND kind = 'counter'"), '0', 'without its metrics');
is($sql->("SELECT count(*) FROM taskq_submit_many('next', array_fill('{}'::jsonb, ARRAY[5])); SELECT count(*) FROM taskq_claim('next', max_tasks => 5)"),
	"5\n2", 'its limit is its own');
is($sql->("SELECT pending, running, done FROM taskq.queues WHERE queue = 'next'"), '3|2|0', 'its counters are its own');

# --- roles
$sql->('CREATE ROLE first; CREATE ROLE second; CREATE ROLE third');
$sql->("SELECT taskq_grant('kept', 'first', '{read}')");
$sql->("SELECT setval('taskq.role_id_seq', $LAST - 1)");
$sql->("SELECT taskq_grant('kept', 'second', '{read}'); SELECT taskq_grant('kept', 'third', '{read}')");
is($sql->("SELECT role_id FROM taskq.role WHERE name = 'second'"), $LAST, 'the last number of a role');
is($sql->("SELECT role_id - max FROM taskq.role, (SELECT max(role_id) FROM taskq.role WHERE role_id < $LAST AND name <> 'third') m WHERE name = 'third'"),
	'1', 'then the first free number is used');

# --- templates
my $define = sub { return qq{SELECT taskq_define_workflow('{"name": "$_[0]", "version": "$_[1]", "steps": [{"name": "s", "queue": "s"}]}')} };
$sql->("SELECT setval('taskq.template_id_seq', $LAST - 1)");
$sql->($define->('two', 1));
is(error_of($node, $define->('two', 2)), '54000', 'no more workflows than there are numbers can be defined');
is(error_of($node, $define->('two', 1)), '', 'a new version of a workflow needs no number');
$sql->("SELECT taskq_start_workflow('two')");
sound($node);
$node->stop('fast');
done_testing();

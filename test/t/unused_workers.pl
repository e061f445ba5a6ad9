# Ended registrations and labels are removed when no live task, no finished task
# and no row of the history refers to them, and not before. A label that is in
# use is not removed, and a session that uses it does not wait.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

# the background worker checks when it starts, and this test calls it itself
my $node = start_node('workers', 'taskq.retention_interval' => "'1d'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $removed = sub { $sql->("SELECT acted FROM taskq_run_reapers() WHERE reaper = 'workers'") };
my $there = sub { $sql->("SELECT string_agg(name, ',' ORDER BY name) FROM taskq.worker") };

# set the time of its last use, or its end, back by the interval
sub age
{
	my ($name, $span) = @_;
	return $sql->("UPDATE taskq.worker SET registered_at = now() - interval '$span',"
		  . " ended_at = CASE WHEN state <> 3 THEN now() - interval '$span' END WHERE name = '$name' AND state <> 1");
}

# a task that the label has completed
sub done
{
	my ($queue, $name) = @_;
	return $sql->("SELECT taskq_submit('$queue') \\g /dev/null\n"
		  . "SELECT task_id AS id, token FROM taskq_claim('$queue', '$name') \\gset\n"
		  . "SELECT taskq_complete(:id, :token) \\g /dev/null\nSELECT :id");
}
my $shown = sub { $sql->("SELECT coalesce(worker, '-') FROM taskq_get($_[0])") };

# --- a task in a leaf that rotates
$sql->(q{SELECT taskq_create_queue('none', '{"retention": "none"}'), taskq_create_queue('for ever', '{"retention": "forever"}'),
	taskq_create_queue('history', '{"history": "transitions", "retention": "none"}')});
my $task = done('q', 'rotating');
done('none', 'traceless');
age($_, '3 h') for 'rotating', 'traceless';
$sql->("UPDATE taskq.archive SET finished_at = now() - interval '3 h'");
is($removed->(), '0', 'a finished task keeps the label that it may refer to');
is($shown->($task), 'rotating', 'it shows its worker');
$sql->("UPDATE taskq.archive SET finished_at = now() - interval '30 min' WHERE task_id = $task");
age('rotating', '30 min');
is($removed->(), '1', 'a label is removed if its last use is older than all that is kept');
is($there->(), 'rotating', 'no other label is removed');
is($shown->($task), 'rotating', 'the other label is still shown');
$sql->('DELETE FROM taskq.archive');
age('rotating', '3 h');
is($removed->(), '1', 'it is removed with its task');

# --- a task with its own retention
$task = done('for ever', 'kept');
age('kept', '400 d');
is($removed->(), '0', 'a task that is kept for ever keeps its label');
is($shown->($task), 'kept', 'the label is shown');
$sql->("UPDATE taskq.archive SET finished_at = now() - interval '400 d'");
is($removed->(), '0', 'the age of both does not matter');
$sql->("SELECT taskq_purge('for ever')");
is($removed->(), '1', 'after a purge of the task the label is removed');

# --- a change of a state
done('history', 'changed');
age('changed', '3 h');
$sql->("UPDATE taskq.transition SET at = now() - interval '3 h'");
is($removed->(), '0', 'a change of a state keeps the label');
is($sql->("SELECT DISTINCT worker FROM taskq.history WHERE worker IS NOT NULL"), 'changed', 'the label is shown');
$sql->('DELETE FROM taskq.transition');
is($removed->(), '1', 'without the change it is removed');

# --- a live task
$sql->("SELECT taskq_submit('none')");
my ($id, $token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('none', 'holds', lease => '1 h')");
age('holds', '40 d');
is($removed->(), '0', 'a running task keeps its label');
is($sql->("SELECT now() - registered_at < interval '30 min' FROM taskq.worker WHERE name = 'holds'"), 't',
	'the label is in use as long as it holds a task');
$sql->("SELECT taskq_complete($id, $token)");
is($removed->(), '0', 'it stays for some time after that');
age('holds', '3 h');
age('holds', '1 h 59 min');
is($removed->(), '0', 'a label that was used less than two hours ago stays');
age('holds', '2 h 1 min');
is($removed->(), '1', 'a label that was used before that is removed');

# --- registrations
$sql->("SELECT taskq_register(w, '{none}'), taskq_deregister(w) FROM unnest(ARRAY['young', 'old']) w; SELECT taskq_register('alive')");
age('young', '6 d');
age('old', '8 d');
is($removed->(), '1', 'a registration is removed as long after its end as finished tasks are');
is($there->(), 'alive,young', 'not before, and a live one is not');
age('young', '8 d');
is($removed->(), '1', 'the other registration is removed later');
is($sql->("SELECT value FROM taskq.metrics WHERE name = 'workers.cleaned' AND queue = 'none'"), '2', 'both are counted for their queue');
$sql->("SELECT taskq_submit('for ever'); SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('for ever', 'alive')");
$sql->("SELECT taskq_deregister('alive')");
age('alive', '40 d');
is($removed->(), '0', 'a registration that has completed a kept task stays');
$sql->("SELECT taskq_purge('for ever')");
is($removed->(), '1', 'it is removed when that task is gone');

# --- using a label
done('none', 'used');
my $row = $sql->("SELECT xmin FROM taskq.worker WHERE name = 'used'");
done('none', 'used');
is($sql->("SELECT xmin FROM taskq.worker WHERE name = 'used'"), $row, 'using a label writes no row');
age('used', '90 min');
done('none', 'used');
is($sql->("SELECT count(*), bool_and(now() - registered_at < interval '30 min') FROM taskq.worker WHERE name = 'used'"), '1|t',
	'after an hour it does');

# a session that has the label in its cache
my $session = $node->background_psql('postgres');
my $claim = "SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('none', 'used')";
$sql->("SELECT taskq_submit('none')");
is($session->query_safe($claim), '1', 'a session uses the label');
$sql->("DELETE FROM taskq.worker WHERE name = 'used'");
$sql->("SELECT taskq_register('other'), taskq_deregister('other')");    # makes sessions read it again
$sql->("SELECT taskq_submit('none')");
is($session->query_safe($claim), '1', 'the label is removed');
is($there->(), 'other,used', 'it is created again');

# another session has locked its row
my $locker = $node->background_psql('postgres');
for my $case ([ '90 min', 1 ], [ '3 h', 2 ])
{
	my ($span, $rows) = @$case;

	age('used', $span);
	$locker->query_safe("BEGIN; SELECT count(*) FROM (SELECT FROM taskq.worker WHERE name = 'used' FOR UPDATE) l");
	$sql->("SELECT taskq_submit('none')");
	is($sql->("SET lock_timeout = '20 s'; $claim"), '1', "locked, last used $span ago: a claim does not wait");
	is($sql->("SELECT count(*) FROM taskq.worker WHERE name = 'used'"), $rows, "labels of the name: $rows");
	is($removed->(), '0', 'a locked label is not removed');
	$locker->query_safe('COMMIT');
}
is($removed->(), '1', 'of two labels of a name the unused one is removed');
is($there->(), 'other,used', 'the other label stays');

# --- more unused rows than a batch, and more rows in use than a batch
$sql->('DELETE FROM taskq.worker');
$sql->(<<'SQL');
INSERT INTO taskq.worker (name, state, role_id, tags, registered_at)
SELECT 'many ' || n, 3, 0, '{}', now() - interval '1 d' FROM generate_series(1, 4000) n;
SELECT taskq_submit('for ever');
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('for ever');
INSERT INTO taskq.archive SELECT (json_populate_record(a, json_build_object('task_id', -w.worker_id, 'worker_id', w.worker_id))).*
  FROM taskq.archive_keep a, taskq.worker w WHERE substr(w.name, 6)::int <= 3000;
SQL
# a session that does not know a name yet finds it by an index
is($sql->(<<'SQL'), '0', 'names are found without reading all rows');
BEGIN;
DO $$ BEGIN
	PERFORM taskq_register('one of many');
	PERFORM taskq_heartbeat('one of many');
	PERFORM taskq_claim('for ever', worker => 'many 77');
	PERFORM taskq_claim('for ever', worker => 'was never here');
END $$;
SELECT seq_scan FROM pg_stat_xact_all_tables WHERE relid = 'taskq.worker'::regclass;
ROLLBACK;
SQL
my $turns = $node->background_psql('postgres');
my $count = 0;
$count += $turns->query_safe("SELECT acted FROM taskq_run_reapers() WHERE reaper = 'workers'") for 1 .. 5;
is($count, 1000, 'all that can be removed are, behind those that cannot');

# --- numbers start again when all have been used; numbers in use are
# skipped
$sql->("SELECT taskq_create_queue('pods')");
$sql->("SELECT taskq_register('kept')");
my $kept = $sql->("SELECT worker_id FROM taskq.worker WHERE name = 'kept'");
my $number = sub { $sql->("SELECT worker_id FROM taskq.worker WHERE name = '$_[0]'") };
$sql->("SELECT count(*) FROM taskq_submit_many('pods', array_fill('{}'::jsonb, ARRAY[6]))");
$sql->("SELECT setval('taskq.worker_id_seq', 2147483645)");
$sql->("SELECT FROM taskq_claim('pods', 'pod $_')") for 1 .. 2;
is($number->('pod 2'), 2147483647, 'the last number');
$sql->("SELECT setval('taskq.worker_id_seq', 2147483647)");
$sql->("SELECT FROM taskq_claim('pods', 'pod 3')");
cmp_ok($number->('pod 3'), '<', 2147483646, 'then numbers start again');
$sql->("SELECT setval('taskq.worker_id_seq', $kept - 1)");
$sql->("SELECT FROM taskq_claim('pods', 'pod 4')");
cmp_ok($number->('pod 4'), '>', $kept, 'a label gets a free number');
$sql->("SELECT setval('taskq.worker_id_seq', $kept - 1)");
$sql->("SELECT taskq_register('pod 5')");
cmp_ok($number->('pod 5'), '>', $number->('pod 4'), 'a registration gets a free number');
$sql->("SELECT FROM taskq_claim('pods', 'pod 5')");
is($sql->("SELECT string_agg(worker, ',' ORDER BY worker) FROM taskq.tasks WHERE queue = 'pods' AND state = 'running'"),
	'pod 1,pod 2,pod 3,pod 4,pod 5', 'each number has its own task');
# the newest registration of a name does not have the highest number
$sql->("SELECT taskq_register('again'); SELECT setval('taskq.worker_id_seq', 100000)");
$sql->("UPDATE taskq.worker SET worker_id = 2000000000 WHERE name = 'again'; SELECT taskq_deregister('again'), taskq_register('again')");
$sql->("UPDATE taskq.worker SET state = 2, ended_at = now() WHERE name = 'again' AND state = 1; SELECT taskq_register('other')");
like(($node->psql('postgres', "SELECT FROM taskq_claim(NULL, 'again')"))[2],
	qr/dead/, 'a call by name uses the newest registration');
$sql->("SELECT count(*) FROM (SELECT taskq_complete(task_id, token, keep => false) FROM taskq.tasks WHERE queue = 'pods' AND state = 'running') c");
$sql->("DELETE FROM taskq.worker WHERE name NOT LIKE 'many %'");
$sql->("SELECT taskq_purge('for ever')");
$_->quit for $session, $locker, $turns;
$sql->("ALTER SYSTEM SET taskq.retention_interval = '1 s'");
$node->restart;
ok(within(60, sub { $there->() eq '' }), 'the background worker removes all in one go');
sound($node);
$node->stop('fast');
done_testing();

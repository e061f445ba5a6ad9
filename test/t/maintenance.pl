# Tables are rewritten and indexes rebuilt while tasks flow. Clients get at most
# a deadlock or a lock timeout, no task is lost, each task is done once, and the
# caches of sessions and the shared memory are right afterwards.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $node = start_node('maintenance', 'fsync' => 'off', 'taskq.retention_interval' => "'1 s'", 'deadlock_timeout' => "'200 ms'");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };
my $space = PostgreSQL::Test::Utils::tempdir;
my $seconds = $ENV{LONG} ? 60 : 6;

$sql->(<<"SQL");
CREATE TABLESPACE elsewhere LOCATION '$space';
CREATE TABLE effect (task_id bigint PRIMARY KEY);
CREATE TABLE outbox (task_id bigint PRIMARY KEY);
SELECT taskq_create_queue('flow', '{"history": "transitions", "max_attempts": -1, "max_running": 6}');
SELECT taskq_create_queue('unique', '{"retention": "none"}');
SELECT taskq_create_queue('lists');
SQL

# A session from before, which keeps its caches.
my $old = $node->background_psql('postgres');
$old->query_safe("SELECT taskq_submit('flow', '\"first\"'), taskq_submit('held')");
my ($held, $token) = split /\|/, $old->query_safe("SELECT task_id, token FROM taskq_claim('held', lease => '1 h')");

my $work = "\\set VERBOSITY sqlstate\n" . <<'SQL' x 20;
BEGIN;
INSERT INTO outbox SELECT taskq_submit('flow', to_jsonb(repeat('z', 3000)), tags => ARRAY[(ARRAY['a', 'b', 'c'])[1 + (random() * 2)::int]]);
COMMIT;
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('flow', tags => '{a,b,c}', lease => '1 h') \gset
\if :{?c_task_id}
BEGIN;
INSERT INTO effect SELECT :c_task_id FROM taskq_complete(:c_task_id, :c_token);
\if :ERROR
ROLLBACK;
SELECT taskq_fail(:c_task_id, :c_token, 'again', retry_in => '0 s') \g /dev/null
\else
COMMIT;
\endif
\endif
\unset c_task_id
SQL
# All submit the same few references, and remove them again.
my $unique = "\\set VERBOSITY sqlstate\n" . <<'SQL' x 30;
SELECT taskq_submit('unique', reference => 'r' || (random() * 2)::int, on_conflict => 'return') \g /dev/null
SELECT FROM taskq_claim('unique', max_tasks => 2) c, LATERAL taskq_complete(c.task_id, c.token) \g /dev/null
SQL
# Lists: rows that are inserted together, ids that are found together.
my $lists = "\\set VERBOSITY sqlstate\n" . <<'SQL' x 20;
SELECT count(*) FROM taskq_submit_tasks((SELECT jsonb_agg(jsonb_build_object('queue', 'lists', 'payload', g, 'key', CASE WHEN g % 3 = 0 THEN 'k' END, 'correlation_id', CASE WHEN g % 5 = 0 THEN 'c' END)) FROM generate_series(1, 150) g)) \g /dev/null
SELECT array_agg(task_id) AS ids, array_agg(token) AS tokens FROM taskq_claim('lists', max_tasks => 150, lease => '1 h') \gset
\if :{?ids}
SELECT count(*) FROM taskq_extend_many(:'ids', :'tokens', '2 h') \g /dev/null
SELECT count(*) FROM taskq_complete_many(:'ids', :'tokens') WHERE NOT ok HAVING count(*) > 0;
\endif
\unset ids
SQL
my $waits = "SET lock_timeout = '20 ms';\n" . $work;
my @clients = ((map { start_clients($node, $_->[0], $_->[1]) } [ 3, $work ], [ 1, $waits ], [ 3, $unique ], [ 2, $lists ]));
my $effects = sub { $sql->('SELECT count(*) FROM effect') };
ok(within(40, sub { $effects->() > 50 }), 'clients work');

my @commands = (
	'VACUUM FULL taskq.task', 'REINDEX TABLE taskq.task', 'REINDEX TABLE CONCURRENTLY taskq.task', 'ANALYZE',
	'CLUSTER taskq.task USING task_dispatch_idx', 'ALTER TABLE taskq.task SET (fillfactor = 70)', 'CHECKPOINT',
	'VACUUM FULL taskq.queue, taskq.lane, taskq.worker, taskq.role, taskq.queue_grant', 'VACUUM FULL taskq.large',
	'REINDEX TABLE CONCURRENTLY taskq.archive', 'REINDEX SCHEMA CONCURRENTLY taskq', 'VACUUM FULL taskq.archive_00, taskq.transition_00',
	'ALTER TABLE taskq.task SET TABLESPACE elsewhere', 'CREATE INDEX CONCURRENTLY theirs ON taskq.task (state, worker_id)',
	'REINDEX INDEX CONCURRENTLY taskq.task_reference_idx', 'ALTER INDEX taskq.task_dispatch_idx SET TABLESPACE elsewhere',
	'DROP INDEX CONCURRENTLY taskq.theirs', 'ALTER TABLE taskq.task SET TABLESPACE pg_default', 'ALTER TABLE taskq.task SET (fillfactor = 50)',
	'REINDEX SYSTEM postgres', 'VACUUM', 'REINDEX DATABASE postgres', 'VACUUM FULL taskq.task');
my %met;
my $turns = 0;
my $file = $sql->("SELECT pg_relation_filenode('taskq.task')");
my $before = $effects->();
for (my $end = time + $seconds; time < $end; $turns++)
{
	for my $command (@commands)
	{
		my $code = error_of($node, "SET lock_timeout = '5 s';\n$command");
		push @{ $met{$code} }, $command if $code ne '';
		# the second index exists only if its creation was not interrupted
		last if time > $end && $turns > 0;
	}
}
my $after = $effects->();
note "figure: $turns rounds of maintenance, " . ($after - $before) . ' tasks in the meantime';
error_of($node, 'DROP INDEX IF EXISTS taskq.theirs');
cmp_ok($turns, '>=', 1, 'all commands were run');
is(join(' ', grep { !/^(40P01|55P03)$/ } sort keys %met), '', 'the administrator met at most a deadlock or a timeout')
  or diag(explain(\%met));
cmp_ok($after, '>', $before + 50, 'tasks continued');
isnt($sql->("SELECT pg_relation_filenode('taskq.task')"), $file, 'taskq.task is in another file');

# --- the caches of the old session
is($old->query_safe("SELECT taskq_submit('flow', '\"later\"') > 0"), 't', 'a session from before submits');
$old->query_safe("SELECT taskq_extend($held, $token, '2 h')");
is($sql->("SELECT state FROM taskq.tasks WHERE task_id = $held"), 'running', 'it keeps its task');
$old->query_safe("SELECT taskq_complete($held, $token)");
is($sql->("SELECT state FROM taskq.tasks WHERE task_id = $held"), 'done', 'it completes the task');
$old->quit;

my $drained = sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'flow' AND state <> 'done' AND task_id <= $_[0]") };
end_clients($_) for @clients;
my $highest = $sql->("SELECT max(task_id) FROM outbox");
$sql->("SELECT taskq_retry(task_id, force => true) FROM taskq.tasks WHERE queue = 'flow' AND state = 'running'");
my $rest = start_clients($node, 3, $work =~ s/^BEGIN;\nINSERT INTO outbox.*?COMMIT;\n//msgr);
ok(within(30, sub { $drained->($highest) eq '0' }), 'all tasks are done in the end');
end_clients($rest);

my %errors;
for my $c (@clients, $rest)
{
	my %e = errors_of($c);
	$errors{$_} += $e{$_} for keys %e;
}
note 'errors of clients: ' . join ', ', map { "$_: $errors{$_}" } sort keys %errors;
is(join(' ', grep { !/^(40P01|55P03)$/ } sort keys %errors), '', 'clients met only these errors')
  or diag(words_of_errors($node, grep { !/^(40P01|55P03)$/ } keys %errors));
is($sql->("SELECT count(*) FROM (SELECT task_id FROM outbox EXCEPT SELECT task_id FROM taskq.tasks WHERE queue = 'flow' AND state = 'done') a"),
	'0', 'no task is lost');
is($sql->("SELECT count(*) FROM effect e FULL JOIN (SELECT task_id FROM taskq.tasks WHERE queue = 'flow' AND state = 'done') d USING (task_id) WHERE e.task_id IS NULL OR d.task_id IS NULL"),
	'0', 'each task is done once');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'lists' AND state = 'done' AND attempt <> 1"), '0', 'each task of a list is done once');
is($sql->("SELECT (count(*) > 0)::text || (count(*) % 150) FROM taskq.tasks WHERE queue = 'lists'"), 'true0', 'lists are there completely or not at all');
is(join(' ', grep { /^\s*\d+\s*$/ } said($clients[-1])), '', 'a client that holds a list completes all of it');
is($sql->("SELECT count(*) FROM (SELECT reference FROM taskq.task WHERE reference IS NOT NULL GROUP BY queue_id, reference HAVING count(*) > 1) a"), '0',
	'no reference is there twice');
is($sql->("SELECT count(*) FROM pg_index WHERE indrelid::regclass::text LIKE 'taskq.%' AND NOT (indisvalid AND indisready AND indislive) AND indexrelid::regclass::text !~ 'ccnew|ccold'"),
	'0', 'all indexes are valid');
ok(within(40, sub { $sql->('SELECT complete FROM taskq.debug_registry()') eq 't' }), 'the table of running tasks is complete');
is($sql->("SELECT pending + running + suspended + blocked FROM taskq.queues WHERE queue = 'flow'"),
	$sql->("SELECT count(*) FROM taskq.task t JOIN taskq.queue q USING (queue_id) WHERE q.name = 'flow'"), 'the counters in memory are right');
amcheck($node);
sound($node);
$node->stop('fast');
done_testing();

# taskq_check() finds nothing while sixteen clients work, memory is lost and
# leaves of the archive are truncated. It finds changes of the tables that
# shared memory does not know.
# LONG=1: half a minute
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $CLIENTS = 16;
my $CHECKS = 10;
my $SECONDS = $ENV{LONG} ? 30 : 7;

my $node = start_node(
	'check',
	'fsync' => 'off',
	'max_connections' => 80,
	'max_prepared_transactions' => 40,
	'taskq.reaper_interval' => "'100 ms'",
	'taskq.deadline_interval' => "'100 ms'",
	'taskq.retention' => "'3 s'",
	'taskq.retention_interval' => "'1 s'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $check = 'SELECT problem, detail FROM taskq_check()';

$sql->(<<'SQL');
SELECT taskq_create_queue('plain', '{"retry_base": "0 s", "history": "transitions"}');
SELECT taskq_create_queue('limited', '{"max_running": 6, "retention": "1 s", "reference_window": "2 s"}');
SELECT taskq_create_queue('kept', '{"retention": "none", "dead_letter_queue": "letters", "max_depth": 100000}');
SELECT count(*) FROM taskq.queues;
SQL

# errors of psql itself (a token that another client used up) are expected
my $clients = start_clients($node, $CLIENTS, <<'SQL');
\set VERBOSITY sqlstate
\set worker `echo $PPID`
SELECT (ARRAY['plain', 'limited', 'kept'])[1 + (random() * 2.999)::int % 3] AS q,
       CASE WHEN random() < 0.2 THEN repeat(md5(random()::text), 100) ELSE 'x' END AS big,
       CASE WHEN random() < 0.5 THEN '{a}' ELSE '{}' END AS tags,
       (random() * 5)::int AS n, random() < 0.5 AS coin \gset
SELECT taskq_submit(:'q', to_jsonb(:'big'::text), priority => :n, tags => :'tags',
    delay => CASE WHEN :n = 1 THEN interval '200 ms' END,
    deadline => CASE WHEN :n = 2 THEN now() + interval '1 s' END,
    options => CASE WHEN :n = 3 THEN '{"lease": "300 ms"}'::jsonb END,
    reference => CASE WHEN :n = 4 THEN (random() * 100)::int::text END,
    on_conflict => 'update');
SELECT count(*) FROM taskq_submit_many(:'q', array_fill(to_jsonb(:'big'::text), ARRAY[10]), tags => :'tags');
BEGIN;
SELECT task_id, token FROM taskq_claim(:'q', tags => '{a}') \gset
SELECT taskq_complete(:task_id, :token, to_jsonb(:'big'::text));
COMMIT;
SELECT task_id, token FROM taskq_claim('limited', tags => '{a}', lease => '200 ms') \gset
BEGIN;
SAVEPOINT s;
SELECT count(*) FROM taskq_claim('limited', max_tasks => 2);
ROLLBACK TO s;
SELECT taskq_extend(:task_id, :token, '400 ms');
COMMIT;
SELECT taskq_fail(:task_id, :token, 'no', retryable => :'coin');
BEGIN;
SELECT count(*) FROM taskq_claim(:'q', max_tasks => 3);
ROLLBACK;
SELECT taskq_register('w' || :n);
SELECT task_id, token FROM taskq_claim('plain', worker => 'w' || :n, tags => '{a}') \gset
SELECT taskq_release(:task_id, :token);
SELECT taskq_deregister('w' || :n);
SELECT c.task_id, c.token FROM taskq_claim(:'q', max_tasks => 5, tags => '{a}') c \gset
SELECT count(*) FROM taskq_claim('plain', max_tasks => 5, lease => '100 ms');
BEGIN;
SELECT task_id, token FROM taskq_claim('kept', tags => '{a}') \gset
SELECT taskq_fail(:task_id, :token, 'no', retryable => false);
SELECT taskq_submit('plain', reference => 'prepared' || :n, on_conflict => 'return');
PREPARE TRANSACTION :'worker';
COMMIT PREPARED :'worker';
SELECT taskq_purge(:'q', max_tasks => 20);
SELECT count(*) FROM taskq_complete_and_claim('{}', '{}', queue => 'kept', max_tasks => 10, lease => '100 ms');
SQL

my $begin = time;
my ($checks, $wipes, $found) = (0, 0, '');
while (($checks < $CHECKS || time - $begin < $SECONDS) && $found eq '')
{
	$found = $sql->($check);
	$checks++;
	if ($checks % 7 == 3)
	{
		$sql->('SELECT taskq.debug_wipe(); SELECT count(*) FROM taskq.queues');
		$wipes++;
	}
	elsif ($checks % 7 == 5)
	{
		$sql->("SELECT taskq_grant('plain', 'pg_monitor', '{read}'), taskq_revoke('plain', 'pg_monitor', '{read}')");
		$sql->("SELECT taskq_create_queue('brief'); SELECT taskq_submit('brief'); SELECT taskq_drop_queue('brief', force => true)");
	}
}
end_clients($clients);
is($found, '', 'nothing is found while sixteen clients work');
my $ids = $sql->('SELECT last_value FROM taskq.task_id_seq');
note "figure: $checks checks, $wipes wipes, $ids tasks";
cmp_ok($checks, '>=', $CHECKS, 'taskq_check() ran often enough (void otherwise)') if $found eq '';
cmp_ok($ids, '>', 500, 'the clients did enough work');
my %errors = errors_of($clients);
note 'figure: errors of clients ' . join ' ', map { "$_: $errors{$_}" } sort keys %errors;
is(join(' ', grep { /^XX/ } sort keys %errors), '', 'none of the clients\' errors was a bug');
isnt($sql->("SELECT bucket FROM taskq.archive_rotation"), '',
	'several leaves were filled');
is($sql->($check), '', 'nothing is found when the clients have ended');

# Changes of tables that shared memory does not know.

$sql->(<<'SQL');
SELECT taskq_register('holder');
SELECT taskq_create_queue('memory', '{"max_running": 10}');
SELECT taskq_submit('memory', reference => r) FROM unnest('{waits,runs,other,later}'::text[]) r;
SQL
$sql->("SELECT taskq_submit('memory', reference => '$_', priority => 9); SELECT taskq_claim('memory', lease => '1 h')")
  for qw(a b c);
$sql->('SELECT count(*) FROM taskq.queues');
is($sql->($check), '', 'nothing is wrong at first');

my $planted = sub {
	my ($change, $back, @expected) = @_;
	$sql->($change);
	my $answer = $sql->($check);
	like($answer, qr/^\Q$_\E/m, "found: $_") for @expected;
	$sql->($back);
	is($sql->($check), '', 'nothing is wrong after the repair');
	return;
};
$planted->(
	"UPDATE taskq.task SET state = 3, attempt = 1, token = 99, claimed_at = now(), lease_until = now() + interval '1 h'"
	  . " WHERE reference = 'waits'",
	"UPDATE taskq.task SET state = 1, attempt = 0, token = 0, claimed_at = '-infinity', lease_until = 'infinity'"
	  . " WHERE reference = 'waits'",
	'running task has no entry in shared memory',
	'number of live tasks is wrong',
	'number of reserved claims is wrong');
$planted->(
	"UPDATE taskq.task SET token = token + 1 WHERE reference = 'a'",
	"UPDATE taskq.task SET token = token - 1 WHERE reference = 'a'",
	'shared memory has another claim of a running task');
$planted->(
	"UPDATE taskq.task SET lease_until = lease_until - interval '1 min' WHERE reference = 'b'",
	"UPDATE taskq.task SET lease_until = lease_until + interval '1 min' WHERE reference = 'b'",
	'shared memory has a later lease end of a running task');

# A late reader of rows does not replace a new claim by an old one: the
# background worker is stopped after it has read the row.
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$sql->("ALTER SYSTEM SET taskq.debug_point = 'registry_scanning'");
$node->reload;
ok( $node->poll_query_until('postgres', 'SHOW taskq.debug_point', 'registry_scanning'),
	'the debug point is set');
my ($id, $token) = split /\|/, $sql->("SELECT task_id, token FROM taskq.tasks WHERE reference = 'c'");
$sql->('SELECT taskq.debug_wipe()');
ok( $node->poll_query_until('postgres',
		"SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"),
	'the background worker has stopped there');
$sql->("SET taskq.debug_point = ''; SELECT taskq_extend(task_id, token, '20 s') FROM taskq.tasks"
	  . " WHERE state = 'running' AND queue = 'memory'");
$sql->("ALTER SYSTEM RESET taskq.debug_point");
$node->reload;
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
$holder->quit;
ok( $node->poll_query_until('postgres', 'SELECT complete FROM taskq.debug_registry()'),
	'the table of running tasks is complete again');
is($sql->($check), '', 'it has the newest leases');

sound($node);
$node->stop('fast');
done_testing();

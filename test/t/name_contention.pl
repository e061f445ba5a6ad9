# Eight clients make single calls in autocommit that name several tasks and
# documents, in any order: lists with few references, changes that add and
# remove references, documents that are created, changed and claimed, and
# repairs of one task and of many; first in a queue without an order by key,
# then in one that has it. No client gets an undocumented error, and no deadlock
# occurs.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $CLIENTS = 8;
my $SECONDS = $ENV{LONG} ? 300 : 12;
my $seed    = $ENV{SEED} || int(rand(1_000_000)) + 1;
my $node    = start_node('names', 'fsync' => 'off', 'deadlock_timeout' => "'100ms'");
my $sql     = sub { $node->safe_psql('postgres', shift) };

diag("SEED=$seed");

$sql->(<<'SQL');
SELECT taskq_create_queue('n', '{"max_attempts": 1}');
CREATE TABLE met (call text, code text, words text);
CREATE TABLE claimed (worker text, task_id bigint, token bigint);

CREATE FUNCTION one(VARIADIC words text[]) RETURNS text LANGUAGE sql AS $$ SELECT words[ceil(random() * cardinality(words))] $$;
CREATE FUNCTION some_reference() RETURNS text LANGUAGE sql AS $$ SELECT 'r' || ceil(random() * 8) $$;

-- an object for each of some references, or documents, in a random order
CREATE FUNCTION tasks() RETURNS jsonb LANGUAGE sql AS $$
    SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('queue', 'n', 'reference', 'r' || n, 'on_conflict', one('return', 'skip', 'update', 'merge'),
             'key', CASE WHEN random() < 0.4 THEN one('k1', 'k2') END, 'payload', jsonb_build_object('n', random()))) ORDER BY random()), '[]')
      FROM generate_series(1, 8) n WHERE random() < 0.5 $$;
CREATE FUNCTION adds() RETURNS jsonb LANGUAGE sql AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('queue', 'n', 'reference', 'r' || n, 'skip_existing', random() < 0.8) ORDER BY random()), '[]')
      FROM generate_series(1, 8) n WHERE random() < 0.2 $$;
CREATE FUNCTION live(share float) RETURNS SETOF bigint LANGUAGE sql AS $$
    SELECT task_id FROM (SELECT task_id FROM taskq.task ORDER BY random() LIMIT 6) t WHERE random() < share $$;
-- most often one whose reference is free
CREATE FUNCTION a_finished(state text) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((SELECT a.task_id FROM taskq.archive a WHERE taskq.state_name(a.state) = a_finished.state AND reference IS NOT NULL
                        AND (random() < 0.2 OR NOT EXISTS (SELECT FROM taskq.task t WHERE t.reference = a.reference)) ORDER BY random() LIMIT 1), 0) $$;
CREATE FUNCTION updates(ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('task_id', id, 'reference', CASE WHEN random() < 0.8 THEN some_reference() END) ORDER BY random()), '[]') FROM unnest(ids) id $$;
CREATE FUNCTION deletes(ids bigint[]) RETURNS jsonb LANGUAGE sql AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('task_id', id) ORDER BY random()), '[]') FROM unnest(ids) id $$;
CREATE FUNCTION docs(share float, more jsonb) RETURNS jsonb LANGUAGE sql AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('namespace', 'n', 'key', k, 'secondary_key', s) || more ORDER BY random()), '[]')
      FROM unnest(array['k1', 'k2']) k, unnest(array['a', 'b', 'c']) s WHERE random() < share $$;

CREATE FUNCTION try(call text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    words text;
BEGIN
    EXECUTE 'SELECT count(*) FROM ' || call;
    INSERT INTO met VALUES (split_part(call, '(', 1), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS words = PG_EXCEPTION_DETAIL;
    INSERT INTO met VALUES (split_part(call, '(', 1), SQLSTATE, concat_ws(': ', call, SQLERRM, words));
END $$;

CREATE FUNCTION call(dice float, worker text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[] := array(SELECT live(0.5));
BEGIN
    IF dice < 0.2 THEN
        PERFORM try(format('taskq_submit_tasks(%L)', tasks()));
    ELSIF dice < 0.35 THEN
        PERFORM try(format('taskq_change(%L, adds => %L, updates => %L, deletes => %L)', worker, adds(), updates(ids), deletes(array(SELECT id FROM live(0.2) id WHERE id <> ALL (ids)))));
    ELSIF dice < 0.45 THEN
        PERFORM try(format('taskq_change(%L, doc_adds => %L, doc_updates => %L, doc_deletes => %L)', worker, docs(0.3, '{"skip_existing": true}'), docs(0.2, '{"content": 2}'), docs(0.1, '{}')));
    ELSIF dice < 0.5 THEN
        PERFORM try(format('taskq_claim_docs(%L, %L, %L, %L)', worker, 'n', one('k1', 'k2'), one('0 s', '1 ms')));
    ELSIF dice < 0.55 THEN
        PERFORM try(format('taskq_submit(%L, reference => %L, on_conflict => %L)', 'n', some_reference(), one('return', 'update')));
    ELSIF dice < 0.65 THEN
        PERFORM try(format('taskq_manage_many(%L, %L::bigint[])', one('retry', 'cancel', 'recreate'), array(SELECT task_id FROM taskq.archive WHERE queue_id = (SELECT queue_id FROM taskq.queue WHERE name = 'n') AND reference IS NOT NULL ORDER BY random() LIMIT 5) || ids));
    ELSIF dice < 0.9 THEN
        PERFORM try(one(format('taskq_retry_all(%L, %L)', 'n', one('done', 'cancelled')),
                        format('taskq_recreate_all(%L, %L)', 'n', one('done', 'cancelled', 'suspended')),
                        format('taskq_reassign(%L, %L, %L, from_id => 0)', 'n', one('done', 'cancelled', 'suspended'), 'pending'),
                        format('taskq_reassign(%L, %L, %L, from_id => 0)', 'n', 'pending', one('cancelled', 'suspended'))));
    ELSIF dice < 0.925 THEN
        PERFORM try(format('taskq_retry(%s)', a_finished('cancelled')));
    ELSIF dice < 0.95 THEN
        PERFORM try(format('taskq_recreate(%s)', a_finished(one('done', 'cancelled'))));
    ELSIF dice < 0.97 THEN
        -- completed by another call: a transaction that has claimed holds rows
        INSERT INTO claimed SELECT worker, task_id, token FROM taskq_claim('n', max_tasks => 5);
    ELSE
        PERFORM try(format('taskq_complete_many(%L::bigint[], %L::bigint[])', array_agg(task_id), array_agg(token))) FROM claimed c WHERE c.worker = call.worker HAVING count(*) > 0;
        DELETE FROM claimed c WHERE c.worker = call.worker;
    END IF;
END $$;
SQL

my $file = "$PostgreSQL::Test::Utils::tmp_check/names.sql";
append_to_file($file, "SELECT call(random(), 'w' || :client_id);\n");
my $calls = join ',', map { "taskq_$_" } qw(submit_tasks change claim_docs manage_many complete_many retry_all recreate_all reassign),
  $ENV{LONG} ? qw(retry recreate) : ();
for my $policy (qw(none serial))
{
	$sql->("SELECT taskq_alter_queue('n', '{\"key_policy\": \"$policy\"}'); TRUNCATE met");
	command_ok([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', $CLIENTS, '-j', 2, '-T', $SECONDS, "--random-seed=$seed", '-f', $file, 'postgres' ], "$policy: calls were made");
	diag("$policy: " . $sql->(q{SELECT string_agg(concat_ws(' ', call, code, n), ', ' ORDER BY call, code) FROM (SELECT call, code, count(*) AS n FROM met GROUP BY 1, 2) m}));
	is($sql->(q{SELECT words FROM met WHERE code = '40P01' LIMIT 5}), '', "$policy: there was no deadlock");
	is($sql->(q{SELECT words FROM met WHERE code <> 'ok' AND code !~ '^TQ' LIMIT 5}), '', "$policy: there was no error outside the contract");
	is($sql->("SELECT count(*) FROM unnest('{$calls}'::text[]) c WHERE NOT EXISTS (SELECT FROM met WHERE call = c AND code = 'ok')"), 0, "$policy: each call succeeded at some time");
}
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check finds nothing');
$node->stop;
done_testing();

--
-- batch: rows that are inserted together, and their index entries
--
CREATE EXTENSION amcheck SCHEMA t;
-- what is wrong with the indexes of live and finished tasks
CREATE FUNCTION t.indexes() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    i regclass;
BEGIN
    FOR i IN SELECT x.indexrelid FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid WHERE c.oid = 'taskq.task'::regclass OR c.relname IN ('archive_00', 'archive_keep') LOOP
        BEGIN
            PERFORM t.bt_index_check(i, true);
        EXCEPTION WHEN OTHERS THEN
            RETURN NEXT i::text;
        END;
    END LOOP;
END
$$;
CREATE FUNCTION t.list(a int, z int, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$SELECT jsonb_agg(jsonb_build_object('queue', 'b', 'payload', g) || more ORDER BY g) FROM generate_series(a, z) g$$;
SELECT taskq_create_queue('b', '{"retention": "none"}');
--
-- more than one batch, with and without the columns of each index
--
CREATE TABLE t.b AS SELECT n, id FROM taskq_submit_tasks((
    SELECT jsonb_agg(jsonb_build_object('queue', 'b', 'payload', g, 'key', CASE WHEN g % 2 = 0 THEN 'k' || g % 7 END, 'reference', CASE WHEN g % 3 = 0 THEN 'r' || g END, 'correlation_id', CASE WHEN g % 5 = 0 THEN 'c' || g % 11 END,
        'deadline', CASE WHEN g % 4 = 0 THEN now() + interval '1 d' END, 'delay', CASE WHEN g % 6 = 0 THEN '1 h' END, 'priority', g % 3, 'tags', CASE WHEN g % 9 = 0 THEN '["a"]'::jsonb END) ORDER BY g)
      FROM generate_series(1, 1000) g)) WITH ORDINALITY r (id, n);
SELECT count(*), count(DISTINCT id), bool_and(id > before) AS rising FROM (SELECT id, lag(id, 1, 0::bigint) OVER (ORDER BY n) AS before FROM t.b) b;
SELECT count(*), bool_and(payload = to_jsonb(n) AND (key IS NOT NULL) = (n % 2 = 0) AND (reference IS NOT NULL) = (n % 3 = 0) AND (correlation_id IS NOT NULL) = (n % 5 = 0)
    AND (deadline IS NOT NULL) = (n % 4 = 0) AND (run_at > now()) = (n % 6 = 0) AND cardinality(tags) = (n % 9 = 0)::int) AS as_submitted
  FROM t.b JOIN taskq.tasks s ON s.task_id = b.id;
SELECT * FROM t.indexes();
SELECT payload FROM taskq_claim('b', max_tasks => 7);
SELECT count(*) FROM taskq_list(key => 'k4', max_rows => 1000);
SELECT count(*) FROM taskq_list(correlation_id => 'c5', max_rows => 1000);
SELECT payload FROM taskq_list(reference => 'r999');
SELECT taskq_drop_queue('b', true);
SELECT taskq_create_queue('b', '{"retention": "none"}');
-- a transaction can claim what it has submitted, and a rollback leaves nothing
BEGIN;
SELECT count(*) FROM taskq_submit_many('b', array_fill('1'::jsonb, ARRAY[300]));
SELECT count(*) FROM taskq_claim('b', max_tasks => 1000);
SAVEPOINT s;
SELECT count(*) FROM taskq_submit_many('b', array_fill('2'::jsonb, ARRAY[300]));
ROLLBACK TO s;
SELECT count(*) FROM taskq_claim('b', max_tasks => 1000);
SELECT count(*) FROM taskq_submit_many('b', array_fill('3'::jsonb, ARRAY[129]));
COMMIT;
SELECT state, payload, count(*) FROM taskq.tasks WHERE queue = 'b' GROUP BY 1, 2 ORDER BY 1;
SELECT taskq_purge('b', '{pending}');
-- an error at a late task leaves nothing of the earlier tasks, not even their large columns
CREATE TABLE t.large AS SELECT count(*) FROM taskq.large;
SELECT t.try(format('SELECT count(*) FROM taskq_submit_many(''b'', (SELECT array_agg(to_jsonb(repeat(''x'', CASE WHEN g = 390 THEN 2000000 WHEN g %% 3 = 0 THEN 5000 ELSE 10 END)) ORDER BY g) FROM generate_series(1, 400) g))'));
SELECT t.try(format('SELECT count(*) FROM taskq_submit_tasks(%L)', t.list(1, 200) || '[{"queue": "b", "reference": ""}]'));
SELECT count(*) FROM taskq.tasks WHERE queue = 'b' AND state = 'pending';
SELECT (SELECT count(*) FROM taskq.large) = count AS as_before FROM t.large;
-- large columns
SELECT count(*) FROM taskq_submit_many('b', (SELECT array_agg(to_jsonb(repeat(chr(65 + g % 20), CASE WHEN g % 3 = 0 THEN 5000 ELSE 100 * (g % 30) END)) ORDER BY g) FROM generate_series(1, 400) g), headers => '{"h": 1}');
SELECT count(*), bool_and(payload = to_jsonb(repeat(chr(65 + n::int % 20), CASE WHEN n % 3 = 0 THEN 5000 ELSE 100 * (n::int % 30) END)) AND headers = '{"h": 1}') AS as_submitted
  FROM (SELECT payload, headers, row_number() OVER (ORDER BY task_id) AS n FROM taskq_claim('b', max_tasks => 1000)) c;
SELECT taskq_drop_queue('b', true);
SELECT taskq_create_queue('b');
-- references that occur twice, among tasks without references
SELECT count(id), count(DISTINCT id) FROM taskq_submit_tasks(t.list(1, 150) || t.list(151, 153, '{"reference": "twice", "on_conflict": "return"}') || t.list(154, 300)) id;
SELECT count(id), count(DISTINCT id) FROM taskq_submit_tasks(t.list(301, 310) || t.list(311, 313, '{"reference": "twice", "on_conflict": "skip"}')) id;
SELECT count(id), count(DISTINCT id) FROM taskq_submit_tasks(t.list(314, 320) || t.list(321, 323, '{"reference": "twice", "on_conflict": "update"}')) id;
SELECT payload FROM taskq.tasks WHERE reference = 'twice';
SELECT t.try(format('SELECT count(*) FROM taskq_submit_tasks(%L)', t.list(400, 600) || t.list(601, 601, '{"reference": "twice"}'))) LIKE 'TQ006%' AS refused;
SELECT count(*) FROM taskq_submit_many('b', array_fill('0'::jsonb, ARRAY[5]), reference => 'many', on_conflict => 'return') id;
SELECT count(*), max(payload::int) FROM taskq.tasks WHERE queue = 'b';
SELECT * FROM t.indexes();
-- indexes that a user has added
CREATE INDEX theirs ON taskq.task (priority, task_id) WHERE priority > 1 AND state = 1;
SELECT count(*) FROM taskq_submit_tasks(t.list(701, 850) || t.list(851, 1000, '{"priority": 2}'));
SELECT * FROM t.indexes();
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM taskq.task WHERE priority > 1 AND state = 1;
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE INDEX theirs_too ON taskq.task ((payload -> 0)) WHERE key IS NOT NULL;
SELECT count(*) FROM taskq_submit_tasks(t.list(1001, 1150) || t.list(1151, 1300, '{"priority": 2, "key": "k"}'));
SELECT * FROM t.indexes();
CREATE UNIQUE INDEX theirs_alone ON taskq.task (correlation_id) WHERE correlation_id IS NOT NULL;
SELECT t.try(format('SELECT count(*) FROM taskq_submit_tasks(%L)', t.list(1301, 1302, '{"correlation_id": "one"}')));
DROP INDEX taskq.theirs_too;
SELECT t.try(format('SELECT count(*) FROM taskq_submit_tasks(%L)', t.list(1301, 1302, '{"correlation_id": "one"}')));
SELECT count(*) FROM taskq_submit_tasks(t.list(1303, 1303, '{"correlation_id": "one"}'));
-- a BRIN index: after an update, a later server version may need a new entry in this index alone
CREATE INDEX theirs_of_pages ON taskq.task USING brin (claimed_at);
SELECT count(*) FROM taskq_claim('b', max_tasks => 20);
DROP INDEX taskq.theirs_of_pages;
SELECT * FROM t.indexes();
DROP INDEX taskq.theirs, taskq.theirs_alone;
-- one task at a time, while indexes are created and dropped
SELECT count(taskq_submit('b', '0', key => 'single', deadline => now() + '1 day')) FROM generate_series(1, 3);
CREATE INDEX theirs_plain ON taskq.task (max_attempts, task_id) INCLUDE (key) WHERE key IS NOT NULL;
SELECT count(taskq_submit('b', '0', key => 'single', delay => '1 day')) FROM generate_series(1, 3);
SELECT count(taskq_submit('b', '0', correlation_id => 'single')) FROM generate_series(1, 3);
SELECT * FROM t.indexes();
CREATE INDEX theirs_hash ON taskq.task USING hash (task_id);
SELECT count(taskq_submit('b', '0', key => 'single')) FROM generate_series(1, 3);
SET enable_seqscan = off;
SELECT count(*) FROM taskq.task t WHERE task_id IN (SELECT task_id FROM taskq.tasks WHERE queue = 'b' AND key = 'single');
RESET enable_seqscan;
DROP INDEX taskq.theirs_plain, taskq.theirs_hash;
SELECT count(taskq_submit('b', '0', key => 'single')) FROM generate_series(1, 3);
SELECT * FROM t.indexes();
SELECT taskq_drop_queue('b', true);
--
-- finished tasks are moved to the archive together
--
SELECT taskq_create_queue('b', '{"dead_letter_queue": "b dead", "max_attempts": 1}');
SELECT count(*) FROM taskq_submit_tasks(t.list(1, 600, '{"correlation_id": "all", "key": "k"}'));
CREATE TABLE t.held AS SELECT payload::int AS n, task_id, token FROM taskq_claim('b', max_tasks => 1000);
SELECT ok, error_code, count(*), bool_and(task_id = asked) AS in_order
  FROM (SELECT array_agg(task_id ORDER BY n DESC) AS ids, array_agg(token ORDER BY n DESC) AS tokens, array_agg(to_jsonb(repeat('r', n * 10)) ORDER BY n DESC) AS results FROM t.held WHERE n <= 300) l,
       LATERAL ROWS FROM (taskq_complete_many(ids, tokens, results), unnest(ids)) r (task_id, ok, error_code, asked) GROUP BY 1, 2;
SELECT ok, error_code, count(*) FROM (SELECT array_agg(task_id) AS ids, array_agg(token) AS tokens FROM t.held WHERE n BETWEEN 200 AND 400 AND n % 7 > 0) l, taskq_complete_many(ids, tokens) GROUP BY 1, 2 ORDER BY 1;
-- each id twice, and ids that do not exist, far away and in between
SELECT ok, error_code, count(*) FROM (SELECT array_agg(task_id) || array_agg(task_id) || array_agg(-task_id) || '{9223372036854775807,-9223372036854775808,-9223372036854775807,0}' AS ids FROM t.held WHERE n BETWEEN 401 AND 500 AND n % 10 < 7) l,
       LATERAL (SELECT array_agg(coalesce((SELECT token FROM t.held h WHERE h.task_id = i), 1) ORDER BY o) AS tokens FROM unnest(ids) WITH ORDINALITY u (i, o)) k, taskq_complete_many(ids, tokens) GROUP BY 1, 2 ORDER BY 1;
-- with dead tasks among them, each of which gets a dead letter
SELECT state, ok, count(*) FROM (SELECT jsonb_agg(jsonb_build_object('task_id', task_id, 'token', token) || CASE n % 3 WHEN 0 THEN '{"outcome": "complete"}' WHEN 1 THEN '{"outcome": "fail", "error": "e"}' ELSE '{"outcome": "suspend"}' END::jsonb ORDER BY n) AS d FROM t.held WHERE n BETWEEN 501 AND 599) l, taskq_decide_many(d) GROUP BY 1, 2 ORDER BY 1;
SELECT count(*), count(DISTINCT headers #>> '{dead_letter,task_id}') FROM taskq.tasks WHERE queue = 'b dead';
SELECT state, reason, count(*), bool_and(payload = to_jsonb(n) AND correlation_id = 'all') AS as_submitted, count(result) AS results, sum(length(result #>> '{}')) AS length FROM taskq.tasks s JOIN t.held USING (task_id) GROUP BY 1, 2 ORDER BY 1;
SELECT * FROM t.indexes();
-- an index has no superfluous entries: the scan does not check the rows again
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) AS entries FROM taskq.archive WHERE state <> 5 \gset
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT count(*) > 0 AS some, :entries - count(*) AS superfluous FROM taskq.archive WHERE state + 0 <> 5;
SELECT count(*) FROM taskq_extend_many((SELECT array_agg(task_id) FROM t.held), (SELECT array_agg(token) FROM t.held), '1 h') WHERE ok;
-- completion and claim of the next tasks in the same call
SELECT count(*) FROM (SELECT array_agg(task_id) AS ids, array_agg(token) AS tokens FROM taskq.tasks WHERE queue = 'b' AND state = 'running') l, taskq_complete_and_claim(ids, tokens, queue => 'b dead', max_tasks => 50);
SELECT queue, state, count(*) FROM taskq.tasks WHERE queue LIKE 'b%' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT * FROM t.indexes();
SELECT taskq_drop_queue('b', true) > 0 AS dropped, taskq_drop_queue('b dead', true) > 0 AS dropped_too;
SELECT * FROM taskq_check();
DROP EXTENSION amcheck;

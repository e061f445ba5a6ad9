-- Workflows: which role sees which results; the progress of batches, the total of their members;
-- the checkpoints of steps.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA ws;
GRANT USAGE ON SCHEMA ws TO PUBLIC;
SELECT coalesce(max(workflow_id), 0) AS before FROM taskq.workflow \gset
CREATE FUNCTION ws.task(wf bigint, name text) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
$$ SELECT s.task_id FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = name $$;
SELECT taskq_create_queue('open'), taskq_create_queue('secret');
CREATE ROLE ws_worker;
CREATE ROLE ws_other;
CREATE ROLE ws_reader;
SELECT taskq_grant('open', 'ws_worker', '{work}'), taskq_grant('open', 'ws_other', '{work}'), taskq_grant('open', 'ws_reader', '{read}');

-- results: the worker that holds the step sees all of its own, and of others those whose queues it
-- may read
SELECT taskq_define_workflow('{"name": "mixed", "version": "1", "queue": "open", "steps": [{"name": "first", "queue": "secret"}, {"name": "s", "queue": "secret", "depends_on": ["first"]},
  {"name": "o"}, {"name": "next", "depends_on": ["s", "o"]}, {"name": "last", "depends_on": ["next"]}]}');
SELECT taskq_start_workflow('mixed') AS w \gset
SELECT step, taskq_complete(task_id, token, to_jsonb(step || ' result')) FROM taskq_claim('secret');
SELECT step, taskq_complete(task_id, token, to_jsonb(step || ' result')) FROM taskq_claim('secret');
SELECT step, taskq_complete(task_id, token, to_jsonb(step || ' result')) FROM taskq_claim('open');
SELECT ws.task(:w, 'next') AS next \gset
SELECT ws.task(:w, 's') AS hidden \gset
CREATE FUNCTION ws.looks(task bigint) RETURNS TABLE (ancestors text, dependencies text, checkpoints text) LANGUAGE sql AS
$$ SELECT t.said(format('SELECT taskq_ancestor_results(%s)', task)), t.said(format('SELECT jsonb_object_agg(step, result) FROM taskq_dependency_results(%s)', task)),
          t.said(format('SELECT count(*) FROM taskq_checkpoints(%s)', task)) $$;
SELECT * FROM ws.looks(:next);
SET ROLE ws_reader;
SELECT * FROM ws.looks(:next);
SELECT * FROM ws.looks(:hidden);
RESET ROLE;
SET ROLE ws_worker;
-- no worker holds it
SELECT * FROM ws.looks(:next);
SELECT task_id AS t, token AS k, dependency_results FROM taskq_claim('open') \gset
SELECT :'dependency_results' AS told;
SELECT * FROM ws.looks(:t);
RESET ROLE;
SET ROLE ws_other;
SELECT * FROM ws.looks(:next);
RESET ROLE;
-- however long it holds the step: the history of its claim may have been removed
DELETE FROM taskq.transition WHERE task_id = :t;
SET ROLE ws_worker;
SELECT * FROM ws.looks(:t);
RESET ROLE;
-- which role may act as the worker that holds it
GRANT ws_worker TO ws_other;
SET ROLE ws_other;
SELECT * FROM ws.looks(:next);
RESET ROLE;
REVOKE ws_worker FROM ws_other;
SET ROLE ws_worker;
SELECT taskq_release(:t, :k);
SELECT * FROM ws.looks(:next);
-- a worker of that name, of another role
SELECT taskq_register('ws worker', '{open}');
SELECT task_id AS t, token AS k FROM taskq_claim('open', 'ws worker') \gset
SELECT * FROM ws.looks(:t);
SELECT taskq_complete(:t, :k);
SELECT * FROM ws.looks(:next);
RESET ROLE;
-- pages contain only visible rows
SELECT taskq_grant('open', 'ws_other', '{read}');
SET ROLE ws_other;
SELECT step, result FROM taskq_dependency_results(:next, max_rows => 1);
RESET ROLE;
SELECT taskq_cancel_workflow(:w);

-- checkpoints: the newest one stays with the task, the last ten of a step are kept
SELECT taskq_define_workflow('{"name": "wide", "version": "1", "queue": "open", "steps": [{"name": "a"}]}');
SELECT taskq_start_workflow('wide') AS w \gset
SELECT task_id AS t, token AS k FROM taskq_claim('open') \gset
SELECT cancel FROM taskq_checkpoint(:t, :k, '{"cursor": "page 1", "items": 10, "sum": 55}');
SELECT attempt, cursor, items, size FROM taskq_checkpoints(:t);
SELECT taskq_fail(:t, :k, 'broken', retry_in => '0');
SELECT attempt, checkpoint, token AS k FROM taskq_claim('open') \gset
SELECT :attempt AS attempt, :'checkpoint' AS checkpoint;
SELECT count(*) FROM generate_series(2, 12) i, taskq_checkpoint(:t, :k, jsonb_build_object('cursor', jsonb_build_object('page', i), 'items', i * 10));
SELECT attempt, cursor, items, size FROM taskq_checkpoints(:t);
SELECT count(*), count(DISTINCT at) > 1 AS times, max(at) < now() + interval '1 min' AS now, bool_and(at >= lag) AS ordered FROM (SELECT at, lag(at, 1, at) OVER () FROM taskq_checkpoints(:t)) c;
-- a checkpoint that is not an object, or large, is kept only with the task
SELECT count(*) FROM unnest(ARRAY['7', '[{"cursor": 1}]', '"cursor"', 'null', '{"cursor": null, "items": [1, 2]}', jsonb_build_object('cursor', repeat('x', 2000), 'items', 1)]) c, taskq_checkpoint(:t, :k, c);
SELECT attempt, cursor, items, size FROM taskq_checkpoints(:t) ORDER BY at DESC LIMIT 6;
SELECT length(checkpoint ->> 'cursor') FROM taskq_get(:t);
SELECT pg_column_size(doc) < 2000 AS small FROM taskq.large WHERE task_id = :t AND part = 7;
-- checked by token, and kept when it is retried
SELECT t.said(format('SELECT taskq_checkpoint(%s, %s, ''1'')', :t, :k - 1));
SELECT taskq_retry(:t, force => true);
SELECT attempt, checkpoint ->> 'items' AS items, token AS k FROM taskq_claim('open') \gset
SELECT :attempt AS attempt, :'items' AS items, t.said(format('SELECT taskq_checkpoint(%s, %s, ''1'')', :t, :k - 1));
SELECT taskq_complete(:t, :k);
SELECT count(*) FROM taskq_checkpoints(:t);
-- a plain task has no checkpoints of a step
SELECT taskq_submit('open') AS t \gset
SELECT token AS k FROM taskq_claim('open') \gset
SELECT cancel FROM taskq_checkpoint(:t, :k, '{"cursor": 1}');
SELECT count(*), (SELECT count(*) FROM taskq.large WHERE task_id = :t) AS parts FROM taskq_checkpoints(:t);
SELECT taskq_complete(:t, :k);
SELECT t.said(c) FROM unnest(ARRAY['SELECT taskq_checkpoints(0)', 'SELECT taskq_checkpoints(NULL)']) c;

-- the progress of a batch; null is unknown
SELECT taskq_define_workflow('{"name": "bunch", "version": "1", "queue": "open", "steps": [{"name": "split", "type": "batch", "failure_strategy": "isolate"}, {"name": "part", "type": "batch_worker", "depends_on": ["split"]},
  {"name": "join", "type": "deferred", "depends_on": ["part"]}]}');
SELECT taskq_start_workflow('bunch') AS w \gset
CREATE VIEW ws.progress AS SELECT step, members, done, failed, items, rate > 0 AS rate, eta > now() - interval '1 min' AS eta FROM taskq.batch_progress WHERE workflow_id >= :w;
SELECT * FROM ws.progress;
SELECT taskq_complete(task_id, token, '{"total": 100, "size": 25}') FROM taskq_claim('open');
SELECT * FROM ws.progress;
CREATE TABLE ws.held AS SELECT * FROM taskq_claim('open', max_tasks => 3);
SELECT * FROM ws.progress;
SELECT cancel FROM ws.held, taskq_checkpoint(task_id, token, '{"items": 5}') WHERE step = 'part_001';
SELECT * FROM ws.progress;
SELECT taskq_complete(task_id, token, '{"rows": 25}') FROM ws.held WHERE step = 'part_002';
SELECT taskq_fail(task_id, token, 'broken', false) FROM ws.held WHERE step = 'part_003';
SELECT * FROM ws.progress;
-- numbers that are not plausible
SELECT count(*) FROM ws.held, unnest(ARRAY['{"items": 1e131000}', '{"items": -1}', '{"items": "7"}', '{"items": [7]}', '[7]', '{"items": 0.5}']::jsonb[]) c, taskq_checkpoint(task_id, token, c) WHERE step = 'part_001';
SELECT * FROM ws.progress;
SELECT cancel FROM ws.held, taskq_checkpoint(task_id, token, '{"items": 1e131000}') WHERE step = 'part_001';
SELECT * FROM ws.progress;
-- large checkpoints count as well
SELECT cancel FROM ws.held, taskq_checkpoint(task_id, token, jsonb_build_object('items', 6, 'seen', repeat('x', 5000))) WHERE step = 'part_001';
SELECT * FROM ws.progress;
SELECT taskq_complete(task_id, token, '{"rows": 6}') FROM ws.held WHERE step = 'part_001';
SELECT taskq_complete(task_id, token, '{"rows": 25}') FROM taskq_claim('open');
SELECT taskq_resolve(task_id, '{"rows": 0, "by": "hand"}') FROM taskq.workflow_steps WHERE workflow_id = :w AND state = 'dead';
SELECT * FROM ws.progress;
SELECT taskq_batch_totals(r) FROM taskq_claim('open') c, jsonb_array_elements(c.dependency_results -> 'part') r;
-- no members, in objects of their own, and a batch that is never created
SELECT taskq_cancel_workflow(:w);
SELECT taskq_start_workflow('bunch') AS w \gset
SELECT taskq_complete(task_id, token, '{"total": 0, "size": 25}') FROM taskq_claim('open');
SELECT p.* FROM ws.progress p ORDER BY members DESC;
SELECT taskq_cancel_workflow(:w);
SELECT taskq_define_workflow('{"name": "chosen", "version": "1", "queue": "open", "steps": [{"name": "d", "type": "decision"}, {"name": "split", "type": "batch", "depends_on": ["d"]}, {"name": "p", "type": "batch_worker", "queue": "secret", "depends_on": ["split"]}]}');
SELECT taskq_start_workflow('chosen') AS w \gset
SELECT taskq_start_workflow('chosen') AS w2 \gset
SELECT step, members FROM taskq.batch_progress WHERE workflow_id IN (:w, :w2);
SELECT taskq_complete(task_id, token, '{"create": []}') FROM taskq_claim('open');
SELECT taskq_complete(task_id, token, '{"create": ["split"]}') FROM taskq_claim('open');
SELECT taskq_complete(task_id, token, '{"batches": [{"cursor": 1}, {"cursor": 2}]}') FROM taskq_claim('open');
SELECT workflow_id = :w2 AS second, step, members, done, failed, items, rate, eta FROM taskq.batch_progress WHERE workflow_id IN (:w, :w2);
-- which role may see it
SET ROLE ws_reader;
SELECT step, members, items FROM taskq.batch_progress WHERE workflow_id > :before ORDER BY members;
RESET ROLE;
SET ROLE ws_worker;
SELECT count(*) FROM taskq.batch_progress WHERE workflow_id > :before;
RESET ROLE;
GRANT pg_monitor TO ws_worker;
SET ROLE ws_worker;
SELECT step, members, done, failed, items, rate, eta FROM taskq.batch_progress WHERE workflow_id > :before ORDER BY members;
RESET ROLE;

-- totals: numbers by their names, and nothing else
SELECT taskq_batch_totals(r) FROM unnest(ARRAY['{"rows": 1, "sum": 1.10, "name": "x", "list": [1], "deep": {"rows": 100}, "yes": true, "none": null}', NULL, '{"rows": 2, "sum": 2.205}', '[{"rows": 9}]', '7', 'null',
  '{"": 5, "rows": -4, "ö": 1}', '{"": 1.5}', '{"rows": "3"}']::jsonb[]) r;
SELECT taskq_batch_totals(r) FROM (SELECT NULL::jsonb AS r WHERE false) x;
SELECT taskq_batch_totals(NULL), taskq_batch_totals('{}'), taskq_batch_totals('{"a": 0}');
-- exact
SELECT taskq_batch_totals(r) FROM unnest(ARRAY['{"a": 0.1, "b": 9007199254740993}', '{"a": 0.2, "b": 1e30}', '{"b": 0.000000000000000000001}']::jsonb[]) r;
SELECT (taskq_batch_totals(r) -> 'a')::numeric = 1e131000 + 1000 AS same FROM (SELECT '{"a": 1e131000}'::jsonb AS r UNION ALL SELECT '{"a": 1}' FROM generate_series(1, 1000)) x;
SELECT t.said('SELECT taskq_batch_totals(r) FROM unnest(ARRAY[''{"a": 9e131071}'', ''{"a": 9e131071}'']::jsonb[]) r');
-- in groups, in windows, of many names, of the same names
SELECT i % 2 AS g, taskq_batch_totals(jsonb_build_object('n', i)) FROM generate_series(1, 10) i GROUP BY 1 ORDER BY 1;
SELECT i, taskq_batch_totals(jsonb_build_object('n', i)) OVER (ORDER BY i) FROM generate_series(1, 3) i;
SELECT count(*), sum(value::int) FROM (SELECT taskq_batch_totals(jsonb_build_object('n' || i % 1000, i)) AS t FROM generate_series(1, 20000) i) x, jsonb_each_text(t);
SELECT t.code('SELECT taskq.batch_totals_add(NULL, ''{}'')') IN ('42883', '0A000') AS refused; -- by the server, whose versions differ
SET ROLE ws_other;
SELECT taskq_batch_totals('{"a": 1}');
RESET ROLE;
SELECT * FROM taskq_check();
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE workflow_id > :before AND finished_at IS NULL;
-- a skipped batch has no results, one without members an empty list
SELECT taskq_define_workflow('{"name": "ways", "version": "1", "queue": "ways", "steps": [{"name": "way", "type": "decision"},
  {"name": "split", "type": "batch", "depends_on": ["way"]}, {"name": "part", "type": "batch_worker", "depends_on": ["split"]},
  {"name": "other", "depends_on": ["way"]}, {"name": "join", "type": "deferred", "depends_on": ["part", "other"], "payload": {"part": {"$": "$.results.part"}}}]}');
CREATE FUNCTION ws.join(way text, split jsonb) RETURNS TABLE (join_dependencies jsonb, join_ancestors jsonb, join_payload jsonb) LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    PERFORM taskq_start_workflow('ways');
    LOOP
        SELECT * INTO STRICT c FROM taskq_claim('ways');
        EXIT WHEN c.step = 'join';
        PERFORM taskq_complete(c.task_id, c.token, CASE c.step WHEN 'way' THEN jsonb_build_object('create', jsonb_build_array(way)) WHEN 'split' THEN split ELSE to_jsonb(c.step) END);
    END LOOP;
    RETURN QUERY SELECT c.dependency_results, taskq_ancestor_results(c.task_id), c.payload;
    PERFORM taskq_complete(c.task_id, c.token);
END
$$;
SELECT * FROM ws.join('other', NULL);
SELECT * FROM ws.join('split', '{}');
SELECT * FROM ws.join('split', '{"batches": [{"n": 1}, {"n": 2}]}');
-- a dead member is in the pages, too
SELECT taskq_define_workflow('{"name": "some die", "version": "1", "queue": "some", "steps": [{"name": "b", "type": "batch", "failure_strategy": "continue_on_failure"},
  {"name": "m", "type": "batch_worker", "depends_on": ["b"]}, {"name": "j", "type": "deferred", "depends_on": ["m"]}]}');
SELECT taskq_start_workflow('some die') AS w \gset
SELECT taskq_complete(task_id, token, '{"total": 3, "size": 1}') FROM taskq_claim('some');
SELECT step, taskq_fail(task_id, token, 'no ' || step, false) FROM taskq_claim('some');
SELECT step, taskq_fail(task_id, token, repeat('long ', 1000), false) FROM taskq_claim('some');
SELECT step, taskq_complete(task_id, token, '7') FROM taskq_claim('some');
SET taskq.max_dependency_results = 0;
SELECT r.step, left(r.result::text, 20) AS result, length(r.result::text) FROM taskq_claim('some') c, taskq_dependency_results(c.task_id) r;
RESET taskq.max_dependency_results;
-- the number of done steps includes dead members that no step waits for
SELECT steps_total, steps_done, steps_dead FROM taskq.workflows WHERE workflow_id = :w;
SELECT j -> 'counts' AS counts, j -> 'percentage' AS percentage FROM taskq_workflow(:w) j;
SELECT taskq_revoke('open', r, '{submit,work,read,manage}') FROM unnest('{ws_worker,ws_other,ws_reader}'::text[]) r;
DROP SCHEMA ws CASCADE;
DROP ROLE ws_worker, ws_other, ws_reader;

-- Workflows: which steps are kept, and which are not; batches that fail; results in pages;
-- instances whose retention is over.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wm;
CREATE FUNCTION wm.work(result jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wm');
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('from', c.step)));
    RETURN c.step;
END
$$;
CREATE FUNCTION wm.fail() RETURNS text LANGUAGE sql AS
$$ SELECT step || ' ' || taskq_fail(task_id, token, 'broken', false) FROM taskq_claim('wm') $$;
CREATE FUNCTION wm.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT w.state || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf) || string_agg(s.step || ' ' || coalesce(s.state, '-'), ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;

-- a step is kept, also in a queue that keeps nothing, whatever else happens there
SELECT taskq_create_queue('wm', '{"retention": "none"}'), taskq_create_queue('elsewhere');
SELECT taskq_define_workflow('{"name": "line", "version": "1", "queue": "wm", "steps": [
  {"name": "a", "key": "k"}, {"name": "b", "key": "k", "depends_on": ["a"], "payload": {"n": 1}}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('line', '{"in": 1}') AS w \gset
SELECT task_id AS a FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'a' \gset
SELECT task_id AS b FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'b' \gset
SELECT queue, state, workflow_id = :w AS same, step, payload FROM taskq_get_many(ARRAY[:a, :b]::bigint[]);
SELECT c, t.said(format(c, :a)) FROM unnest(ARRAY['SELECT taskq_recreate(%s)', 'SELECT taskq_update_task(%s, ''{"queue": "elsewhere"}'')',
  'SELECT taskq_change(''w'', deletes => to_jsonb(ARRAY[%s]))', 'SELECT taskq_change(''w'', updates => ''[{"task_id": %s, "priority": 1}]'')',
  'SELECT error_code FROM taskq_manage_many(''delete'', ARRAY[%s]::bigint[])', 'SELECT taskq_update_task(%s, ''{"priority": 7}'')']) c;
SELECT taskq_submit('wm', key => 'k', insertion => 'delete') > 0 AS submitted;
SELECT taskq_purge('wm', '{pending,blocked}');
SELECT wm.seen(:w);
SELECT wm.work();
SELECT taskq_purge('wm'), taskq_retry_all('wm', 'done');
SELECT taskq_reassign('wm', 'done', 'pending', 0);
SELECT c, t.said(format(c, :a)) FROM unnest(ARRAY['SELECT taskq_recreate(%s)', 'SELECT error_code FROM taskq_manage_many(''delete'', ARRAY[%s]::bigint[])']) c;
SELECT wm.work();
-- results: of parents, in pages, and of all before
SELECT task_id AS c FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'c' \gset
SELECT step, result FROM taskq_dependency_results(:c);
SELECT taskq_ancestor_results(:c);
SELECT t.said(c) FROM unnest(ARRAY['SELECT taskq_ancestor_results(0)', 'SELECT taskq_ancestor_results(taskq_submit(''elsewhere''))', 'SELECT taskq_dependency_results(' || :c || ', max_rows => 0)']) c;
SET taskq.max_dependency_results = 0;
SELECT step, dependency_results IS NULL AS too_large FROM taskq_claim('wm');
RESET taskq.max_dependency_results;
SELECT taskq_complete(task_id, token) FROM taskq_get(:c);
SELECT wm.seen(:w);
SELECT * FROM taskq_step_levels(:w);
SELECT jsonb_pretty(taskq_workflow(:w) - '{workflow_id,steps}'::text[]);
SELECT count(*) AS transitions FROM taskq.history h JOIN taskq.workflow_steps s USING (task_id) WHERE s.workflow_id = :w;

-- batches with a member that dies
SELECT taskq_define_workflow(jsonb_build_object('name', 'batch ' || s, 'version', '1', 'queue', 'wm', 'steps', jsonb_build_array(
    jsonb_build_object('name', 'split', 'type', 'batch', 'failure_strategy', s), jsonb_build_object('name', 'part', 'type', 'batch_worker', 'depends_on', '["split"]'::jsonb),
    jsonb_build_object('name', 'join', 'type', 'deferred', 'depends_on', '["part"]'::jsonb)))) FROM unnest('{fail_fast,continue_on_failure,isolate}'::text[]) s;
SELECT s, wm.work('{"total": 3, "size": 1}'), wm.work(), wm.fail(), wm.seen(w), wm.work(), wm.work(), wm.seen(w)
  FROM unnest('{fail_fast,continue_on_failure,isolate}'::text[]) s, LATERAL (SELECT taskq_start_workflow('batch ' || s) AS w OFFSET 0) x \x\g\x
SELECT taskq_ancestor_results(s.task_id) FROM taskq.workflow_steps s JOIN taskq.workflows w USING (workflow_id) WHERE w.name = 'batch continue_on_failure' AND s.step = 'join';
-- a repair lets the join continue
SELECT taskq_resolve(s.task_id, '"mended"') FROM taskq.workflow_steps s JOIN taskq.workflows w USING (workflow_id) WHERE w.name = 'batch isolate' AND s.state = 'dead';
SELECT dependency_results, taskq_complete(task_id, token) FROM taskq_claim('wm');
SELECT w.state FROM taskq.workflows w WHERE w.name = 'batch isolate';

-- a member that counts as finished is not retried
SELECT t.said(format('SELECT taskq_retry(%s)', s.task_id)) FROM taskq.workflow_steps s JOIN taskq.workflows w USING (workflow_id) WHERE w.name = 'batch continue_on_failure' AND s.state = 'dead';

-- an instance is open as long as one of its steps runs, whatever was not chosen
SELECT taskq_define_workflow('{"name": "aside", "version": "1", "queue": "wm", "steps": [{"name": "choose", "type": "decision"}, {"name": "aside"},
  {"name": "both", "depends_on": ["choose", "aside"]}, {"name": "other", "depends_on": ["choose"]}]}');
SELECT taskq_start_workflow('aside') AS w \gset
SELECT wm.work('{"create": []}'), wm.seen(:w), wm.work(), wm.seen(:w);
SELECT taskq_start_workflow('aside') AS w \gset
SELECT wm.work('{"create": ["both", "other"]}'), wm.seen(:w), wm.work(), wm.work(), wm.seen(:w), wm.work(), wm.seen(:w);
-- a chosen step that waits for one that does not exist yet
SELECT taskq_define_workflow('{"name": "two", "version": "1", "queue": "wm", "steps": [{"name": "d1", "type": "decision"}, {"name": "d2", "type": "decision"},
  {"name": "y", "depends_on": ["d2"]}, {"name": "p", "type": "deferred", "depends_on": ["y"]}, {"name": "k", "depends_on": ["d1", "p"]}]}');
SELECT taskq_start_workflow('two') AS w \gset
SELECT wm.work('{"create": ["k"]}'), wm.seen(:w), wm.work('{"create": ["y"]}'), wm.seen(:w), wm.work(), wm.work(), wm.work(), wm.seen(:w);
-- a decision that was skipped has chosen nothing, and stays skipped
SELECT taskq_define_workflow('{"name": "skipped", "version": "1", "queue": "wm", "steps": [{"name": "d", "type": "decision", "when": "$.input.n == 1"}, {"name": "x", "depends_on": ["d"]},
  {"name": "j", "type": "deferred", "depends_on": ["x"]}]}');
SELECT taskq_start_workflow('skipped') AS w \gset
SELECT wm.seen(:w);
SELECT t.said(format('SELECT taskq_resolve(%s, ''{"create": ["x"]}'')', task_id)) FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'd';
SELECT wm.work(), wm.seen(:w);

-- two decisions in one call: what the second one creates is not missing when the first one is
-- handled
SELECT taskq_define_workflow('{"name": "together", "version": "1", "queue": "wm", "steps": [{"name": "d1", "type": "decision"}, {"name": "d2", "type": "decision"},
  {"name": "x", "depends_on": ["d1"]}, {"name": "y", "depends_on": ["d2"]}, {"name": "j", "type": "deferred", "depends_on": ["x"]}, {"name": "k", "depends_on": ["j", "y"]},
  {"name": "z", "type": "decision", "depends_on": ["k"]}, {"name": "u", "depends_on": ["z"]}, {"name": "v", "type": "deferred", "depends_on": ["u"]}, {"name": "t", "type": "deferred", "depends_on": ["v", "j"]}]}');
SELECT taskq_start_workflow('together') AS w \gset
SELECT count(*) FROM taskq_claim('wm', max_tasks => 2);
SELECT step, ok FROM (SELECT array_agg(task_id ORDER BY task_id) AS ids, array_agg(token ORDER BY task_id) AS tokens FROM taskq.task WHERE workflow_id = :w AND state = 3) h,
  taskq_complete_many(ids, tokens, array['{"create": ["x"]}', '{"create": ["y"]}']::jsonb[]) c JOIN taskq.workflow_steps s ON s.task_id = c.task_id ORDER BY step;
SELECT wm.seen(:w);
SELECT wm.work(), wm.work(), wm.work(), wm.work(), wm.seen(:w);
SELECT wm.work('{"create": ["u"]}'), wm.seen(:w), wm.work(), wm.work(), wm.work(), wm.seen(:w);

-- an invalid choice by hand is refused, and the instance stays as it is
SELECT taskq_define_workflow('{"name": "by hand", "version": "1", "queue": "wm", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}]}');
SELECT taskq_start_workflow('by hand') AS w \gset
\set VERBOSITY terse
SELECT wm.work('{"create": ["absent"]}'), wm.seen(:w);
\set VERBOSITY default
SELECT t.said(format('SELECT taskq_resolve(%s, ''{"create": ["absent"]}'')', task_id)) FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'd';
SELECT wm.seen(:w);
SELECT taskq_resolve(task_id, '{"create": ["x"]}') FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'd';
SELECT wm.seen(:w), wm.work(), wm.seen(:w);

-- a decision that chooses many steps: its call gets one warning; a step that is named twice counts
-- once
SELECT taskq_define_workflow(jsonb_build_object('name', 'many', 'version', '1', 'queue', 'many', 'on_failure', 'stop', 'steps', '[{"name": "d", "type": "decision"}, {"name": "f"}]'::jsonb ||
    (SELECT jsonb_agg(jsonb_build_object('name', 'x' || i, 'depends_on', '["d"]'::jsonb) ORDER BY i) FROM generate_series(1, 60) i)));
CREATE FUNCTION wm.first(steps integer, times integer) RETURNS jsonb LANGUAGE sql AS
$$ SELECT jsonb_build_object('create', jsonb_agg('x' || i)) FROM generate_series(1, steps) i, generate_series(1, times) $$;
CREATE FUNCTION wm.made(wf bigint) RETURNS bigint LANGUAGE sql AS $$ SELECT count(task_id) FROM taskq.workflow_steps WHERE workflow_id = wf AND step LIKE 'x%' $$;
CREATE FUNCTION wm.choose(result jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    w bigint := taskq_start_workflow('many');
    c taskq.claimed;
    made bigint;
BEGIN
    SELECT * INTO c FROM taskq_claim('many');
    PERFORM taskq_complete(c.task_id, c.token, result);
    made := wm.made(w);
    PERFORM taskq_cancel_workflow(workflow_id) FROM taskq.workflows WHERE workflow_id = w AND finished_at IS NULL;
    RETURN concat_ws(' ', made, 'made', (SELECT error FROM taskq.tasks WHERE task_id = c.task_id));
END
$$;
\set VERBOSITY terse
SELECT wm.choose(wm.first(50, 1));
SELECT wm.choose(wm.first(51, 1));
SELECT wm.choose(wm.first(50, 3));
SET taskq.warn_decision_steps = 0;
SELECT wm.choose(wm.first(60, 1));
SET taskq.warn_decision_steps = 4;
SET taskq.max_decision_steps = 5;
SELECT wm.choose(wm.first(4, 50));
SELECT wm.choose(wm.first(5, 2000));
SELECT wm.choose(wm.first(6, 1));
SELECT wm.choose(wm.first(5, 2001));
RESET taskq.max_decision_steps;
-- the warning about a choice by the engine, when it begins; about a choice by hand; about a choice
-- that a failure keeps from creating steps, and not again when they are created
SELECT taskq_define_workflow(jsonb_build_object('name', 'many by itself', 'version', '1', 'queue', 'many', 'steps',
    '[{"name": "d", "type": "decision", "branches": [{"steps": ["x1", "x2", "x3"]}, {"steps": ["x2", "x3", "x4", "x5"]}]}]'::jsonb ||
    (SELECT jsonb_agg(jsonb_build_object('name', 'x' || i, 'depends_on', '["d"]'::jsonb) ORDER BY i) FROM generate_series(1, 6) i)));
SELECT taskq_start_workflow('many by itself') AS w \gset
SELECT wm.made(:w);
SELECT taskq_cancel_workflow(:w);
SELECT taskq_start_workflow('many') AS w \gset
SELECT taskq_resolve(task_id, wm.first(7, 1)) FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'd';
SELECT taskq_cancel_workflow(:w);
SELECT taskq_start_workflow('many') AS w \gset
SELECT count(*) FROM taskq_claim('many', max_tasks => 2);
SELECT taskq_fail(task_id, token, 'broken', false) FROM taskq.task WHERE workflow_id = :w AND state = 3 AND step_id = 1;
SELECT taskq_complete(task_id, token, wm.first(8, 1)), wm.made(:w) FROM taskq.task WHERE workflow_id = :w AND state = 3 AND step_id = 0;
SELECT taskq_retry(task_id) FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'f';
SELECT wm.made(:w), taskq_cancel_workflow(:w);
RESET taskq.warn_decision_steps;
\set VERBOSITY default

-- input that must match its schema
SELECT taskq_define_workflow('{"name": "strict", "version": "1", "queue": "wm", "input_schema": {"type": "object", "required": ["n", "s"],
  "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}, "s": {"type": ["string", "null"], "pattern": "^a"}, "e": {"enum": [1, {"x": 2}]},
                 "l": {"type": "array", "items": {"type": "number"}}, "b": {"type": "boolean"}}}, "steps": []}');
CREATE FUNCTION wm.fits(input jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    PERFORM taskq_start_workflow('strict', input);
    RETURN 'fits';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ': ' || detail;
END
$$;
SELECT i, wm.fits(i) FROM unnest(ARRAY['{"n": 1, "s": "ab"}', '{"n": 9.0, "s": null, "e": {"x": 2.0}, "l": [1, 2.5], "b": true, "more": 1}', '{}', '[]', '1',
  '{"n": 0, "s": "b"}', '{"n": 10, "s": 1, "e": 2, "l": [1, "x", null], "b": 0}', '{"n": 1.5, "s": "ba", "l": {}}']::jsonb[]) i;
SELECT state, steps_total, finished_at IS NOT NULL AS ended, result FROM taskq.workflows WHERE name = 'strict' ORDER BY 1;

-- priorities, queues of their own, correlation ids, starts that wait
SELECT taskq_define_workflow('{"name": "places", "version": "1", "queue": "wm", "steps": [{"name": "a", "priority": 5, "tags": ["gpu"], "max_attempts": 7}, {"name": "b", "queue": "elsewhere", "retryable": false, "time_limit": "1 min"}]}');
SELECT taskq_start_workflow('places', priority => 3, correlation_id => 'c 1', run_at => now() + interval '1 h', headers => '{"h": 1}') AS w \gset
SELECT queue, state, priority, max_attempts, tags, correlation_id, headers, run_at > now() AS later, step FROM taskq.tasks WHERE workflow_id = :w ORDER BY task_id;
SELECT state FROM taskq.workflows WHERE workflow_id = :w;
SELECT t.said(c) FROM unnest(ARRAY['SELECT taskq_start_workflow(''places'', version => ''2'')', 'SELECT taskq_start_workflow(''places'', priority => 40000)', 'SELECT taskq_start_workflow(''places'', on_conflict => ''skip'')',
  'SELECT taskq_start_workflow(''places'', headers => ''[]'')', 'SELECT taskq_start_workflow(''places'', run_at => ''infinity'')', 'SELECT taskq_cancel_workflow(0)', 'SELECT taskq_workflow(0)', 'SELECT taskq_step_levels(NULL)']) c;
SELECT taskq_cancel_workflow(:w), wm.seen(:w), t.said('SELECT taskq_undefine_workflow(''places'')');

-- an instance whose retention is over is removed, with everything of its own
SELECT taskq_define_workflow('{"name": "short", "version": "1", "queue": "wm", "retention": "0 s", "identity": "key", "identity_window": "0 s", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT t.said('SELECT taskq_start_workflow(''short'')');
SELECT taskq_start_workflow('short', to_jsonb(repeat('x', 3000)), key => 'k') AS w \gset
SELECT wm.work(to_jsonb(repeat('y', 3000)));
SELECT wm.fail();
SELECT wm.seen(:w);
SELECT acted FROM taskq_run_reapers() WHERE reaper = 'workflows';
SELECT (SELECT count(*) FROM taskq.workflow WHERE workflow_id = :w) AS workflows, (SELECT count(*) FROM taskq.archive WHERE workflow_id = :w) AS steps, (SELECT count(*) FROM taskq.edge WHERE workflow_id = :w) AS edges,
       (SELECT count(*) FROM taskq.large l WHERE NOT EXISTS (SELECT FROM taskq.tasks t WHERE t.task_id = l.task_id)) AS parts;
SELECT taskq_undefine_workflow('short');
-- a path with a variable, which is never set, cannot be evaluated
SELECT taskq_define_workflow('{"name": "variable", "version": "1", "queue": "wm", "steps": [{"name": "a"},
  {"name": "b", "depends_on": ["a"], "when": "$absent > 1"}, {"name": "c", "depends_on": ["a"], "payload": {"x": {"$": "$absent"}}}]}');
SELECT taskq_start_workflow('variable') AS w \gset
SELECT wm.work();
SELECT s.step, s.state, s.reason, t.error FROM taskq.workflow_steps s JOIN taskq.tasks t USING (task_id) WHERE s.workflow_id = :w ORDER BY 1;
-- settings of a waiting step change like those of any task: also a payload in place of the input
-- or of its own payload, and the time when it will be due
SELECT taskq_define_workflow('{"name": "changed", "version": "1", "queue": "wm", "steps": [{"name": "a"}, {"name": "b", "payload": {"p": 1}}, {"name": "c", "depends_on": ["a"], "payload": {"p": {"$": "$.input.i"}}},
  {"name": "d", "depends_on": ["a"]}, {"name": "e", "depends_on": ["a"]}, {"name": "f", "depends_on": ["a"], "payload": {"p": 2}}]}');
SELECT taskq_start_workflow('changed', '{"i": 1}') AS w \gset
SELECT step, t.said(format('SELECT taskq_update_task(%s, %L)', task_id, CASE step WHEN 'e' THEN '{"delay": "1 h", "priority": 9}' WHEN 'f' THEN '{"payload": null}' ELSE '{"payload": {"u": 1}}' END))
  FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY 1;
SELECT step, payload FROM taskq.tasks WHERE workflow_id = :w ORDER BY 1;
SELECT step, payload, input, taskq_complete(task_id, token) FROM taskq_claim('wm', max_tasks => 2);
SELECT step, payload, input, taskq_release(task_id, token, '1 h') FROM taskq_claim('wm', max_tasks => 10) ORDER BY 1;
SELECT step, state, priority, run_at > now() + interval '30 min' AS later FROM taskq.tasks WHERE workflow_id = :w AND step = 'e';
-- the instance waits for a step that was released with a delay
SELECT state FROM taskq.workflows WHERE workflow_id = :w;
SELECT taskq_cancel_workflow(:w);
-- the time to live counts from when the instance may begin
SELECT taskq_define_workflow('{"name": "living", "version": "1", "queue": "wm", "steps": [{"name": "a", "deadline_in": "1 min"}]}');
SELECT taskq_start_workflow('living', run_at => now() + interval '1 h', correlation_id => 'c 2', parent_correlation_id => 'c 1') AS w \gset
SELECT j ->> 'correlation_id' AS correlation_id, j ->> 'parent_correlation_id' AS parent FROM taskq_workflow(:w) j;
SELECT deadline - run_at BETWEEN '59 s' AND '61 s' AS counts FROM taskq.tasks WHERE workflow_id = :w;
SELECT taskq_cancel_workflow(:w);
-- a part that is invalid for its member
SELECT taskq_create_queue('wm tiny', '{"max_payload": 200}');
SELECT taskq_define_workflow('{"name": "parts", "version": "1", "queue": "wm", "steps": [{"name": "b", "type": "batch", "max_attempts": 1}, {"name": "j", "type": "deferred", "depends_on": ["b", "m"]}, {"name": "m", "type": "batch_worker", "queue": "wm tiny", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('parts') AS w \gset
\set VERBOSITY terse
SELECT wm.work(jsonb_build_object('batches', jsonb_build_array(jsonb_build_object('x', 1), jsonb_build_object('x', repeat('x', 300))))), wm.seen(:w);
\set VERBOSITY default
SELECT t.error FROM taskq.workflow_steps s JOIN taskq.tasks t USING (task_id) WHERE s.workflow_id = :w AND s.state = 'dead';
SELECT * FROM taskq_check();
DROP SCHEMA wm CASCADE;

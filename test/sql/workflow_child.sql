-- Workflows that wait for other workflows.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wc;
CREATE FUNCTION wc.work(result jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wc');
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('from', c.step)));
    RETURN format('%s.%s %s %s', c.workflow, c.step, c.input, c.dependency_results);
END
$$;
CREATE FUNCTION wc.fail() RETURNS text LANGUAGE sql AS
$$ SELECT step || ' ' || taskq_fail(task_id, token, 'broken', false) FROM taskq_claim('wc') $$;
CREATE FUNCTION wc.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT w.name || ' ' || w.state || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf)
     || string_agg(s.step || ' ' || coalesce(s.state, '-') || coalesce(' (' || s.reason || ')', ''), ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
-- an instance and all that it has started, in the order of their starts
CREATE FUNCTION wc.all(wf bigint) RETURNS SETOF text LANGUAGE sql AS $$
WITH RECURSIVE r AS (SELECT workflow_id FROM taskq.workflows WHERE workflow_id = wf
  UNION ALL SELECT w.workflow_id FROM r JOIN taskq.workflows w ON w.parent_workflow_id = r.workflow_id)
SELECT wc.seen(workflow_id) FROM r ORDER BY workflow_id $$;
CREATE FUNCTION wc.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT task_id FROM taskq.workflow_steps WHERE workflow_id = wf AND step = name $$;
CREATE FUNCTION wc.child(wf bigint) RETURNS bigint LANGUAGE sql AS
$$ SELECT max(workflow_id) FROM taskq.workflows WHERE parent_workflow_id = wf $$;

SELECT taskq_define_workflow('{"name": "inner", "version": "1", "queue": "wc", "steps": [{"name": "one"}, {"name": "two", "depends_on": ["one"]}],
  "input_schema": {"type": "object", "properties": {"n": {"type": "number"}}}}');
SELECT taskq_define_workflow('{"name": "outer", "version": "1", "queue": "wc", "steps": [
  {"name": "first"},
  {"name": "sub", "type": "workflow", "depends_on": ["first"], "workflow": {"name": "inner", "input": {"n": {"$": "$.results.first.n"}, "of": {"$": "$.input.name"}}}},
  {"name": "last", "depends_on": ["sub"]}]}');
-- start and end
SELECT taskq_start_workflow('outer', '{"name": "x"}', correlation_id => 'c1', priority => 3) AS w \gset
SELECT wc.work('{"n": 7}');
SELECT * FROM wc.all(:w);
SELECT name, key, priority, correlation_id, input, parent_workflow_id = :w AS inside FROM taskq.workflows WHERE workflow_id = wc.child(:w);
SELECT wc.work();
SELECT wc.work('"inner result"');
SELECT * FROM wc.all(:w);
SELECT wc.work();
SELECT * FROM wc.all(:w);
-- a failure inside is a failure outside; a repair inside resumes the outer instance
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT wc.fail();
SELECT * FROM wc.all(:w);
SELECT regexp_replace(errors -> 0 ->> 'error', '\d+', 'ID') FROM taskq_get(wc.task(:w, 'sub'));
SELECT taskq_retry(wc.task(wc.child(:w), 'one'));
SELECT * FROM wc.all(:w);
SELECT wc.work(), wc.work(), wc.work();
SELECT wc.work();
SELECT * FROM wc.all(:w);
-- or the outer step is retried: it starts another instance
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT wc.fail();
SELECT wc.child(:w) AS old \gset
SELECT taskq_retry(wc.task(:w, 'sub'));
SELECT * FROM wc.all(:w);
-- the former instance no longer continues
SELECT t.said(format('SELECT taskq_resolve(%s)', wc.task(:old, 'one')));
SELECT wc.work(), wc.work();
SELECT * FROM wc.all(:w);
SELECT wc.work();
SELECT wc.work(), wc.work();
SELECT * FROM wc.all(:w);
-- all inner steps are resolved; or the outer step is, and then nothing inside continues
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT taskq_resolve(wc.task(wc.child(:w), 'one')), taskq_resolve(wc.task(wc.child(:w), 'two'), '"by hand"');
SELECT * FROM wc.all(:w);
SELECT wc.work();
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT taskq_resolve(wc.task(:w, 'sub'), '"enough"');
SELECT * FROM wc.all(:w);
SELECT wc.work(), wc.work();
SELECT * FROM wc.all(:w);
-- the step is resumed while it waits: it starts nothing new
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT taskq_retry(wc.task(:w, 'sub'));
SELECT * FROM wc.all(:w);
-- cancellations: of the outer instance, of the inner one, of the step
SELECT taskq_cancel_workflow(:w, 'enough');
SELECT * FROM wc.all(:w);
SELECT t.said(format('SELECT taskq_retry(%s)', wc.task(wc.child(:w), 'one')));
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT taskq_cancel_workflow(wc.child(:w));
SELECT * FROM wc.all(:w);
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT taskq_cancel(wc.task(:w, 'sub'));
SELECT * FROM wc.all(:w);
-- running steps inside are asked to stop
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT task_id AS t, token AS k FROM taskq_claim('wc') \gset
SELECT taskq_cancel_workflow(:w);
SELECT * FROM wc.all(:w);
SELECT taskq_complete(:t, :k);
SELECT * FROM wc.all(:w);
-- an instance whose outer instance is cancelled is not restored
SELECT taskq_define_workflow('{"name": "pair", "version": "1", "queue": "wc", "steps": [
  {"name": "a", "priority": 9}, {"name": "sub", "type": "workflow", "workflow": {"name": "inner"}}]}');
SELECT taskq_start_workflow('pair') AS w \gset
SELECT task_id AS t, token AS k, step FROM taskq_claim('wc') \gset
SELECT :'step' AS runs, wc.fail();
SELECT * FROM wc.all(:w);
SELECT taskq_cancel_workflow(:w);
SELECT t.said(format('SELECT taskq_retry(%s)', wc.task(wc.child(:w), 'one')));
SELECT taskq_complete(:t, :k);
SELECT * FROM wc.all(:w);

-- an instance that cannot start: its step is dead for the same reason
SELECT taskq_define_workflow('{"name": "keyed", "version": "1", "queue": "wc", "identity": "key", "steps": [{"name": "one"}]}');
SELECT taskq_define_workflow(format('{"name": "wrong", "version": %s, "queue": "wc", "steps": [{"name": "sub", "type": "workflow", "workflow": %s}]}', to_json(v::text), w)::jsonb)
  FROM unnest(ARRAY['{"name": "nowhere"}', '{"name": "inner", "input": {"n": "x"}}', '{"name": "inner", "input": {"$": "$.input.a.b[9999999999]"}}', '{"name": "inner", "version": "9"}',
    '{"name": "inner", "namespace": "other"}', '{"name": "keyed"}', '{"name": "keyed", "key": {"$": "$.input.n"}}', '{"name": "keyed", "key": {"$": "$.input.e"}}', '{"name": "keyed", "key": "k"}',
    '{"name": "keyed", "key": "k"}']) WITH ORDINALITY AS x (w, v);
SELECT v, wc.seen(w), regexp_replace(errors -> 0 ->> 'error', '\d\d+', 'ID') AS error
  FROM generate_series(1, 10) v, LATERAL (SELECT taskq_start_workflow('wrong', '{"n": 5, "e": ""}', version => v::text) OFFSET 0) s (w), taskq_get(wc.task(w, 'sub'));
SELECT wc.work(), wc.work();
-- nested, but only to a limit
SELECT taskq_define_workflow('{"name": "self", "version": "1", "queue": "wc", "steps": [{"name": "again", "type": "workflow", "workflow": {"name": "self"}}]}');
SELECT taskq_start_workflow('self') AS w \gset
SELECT count(*), min(s) AS state, max(s) FROM wc.all(:w) s;
SELECT DISTINCT regexp_replace(g.errors -> 0 ->> 'error', 'workflow \d+', 'workflow ID') FROM taskq.workflows w, taskq.workflow_steps s, taskq_get(s.task_id) g
 WHERE w.name = 'self' AND s.workflow_id = w.workflow_id ORDER BY 1;
-- an empty instance has ended when it begins
SELECT taskq_define_workflow('{"name": "empty", "version": "1", "steps": []}'), taskq_define_workflow('{"name": "around", "version": "1", "queue": "wc", "steps": [
  {"name": "sub", "type": "workflow", "workflow": {"name": "empty"}}, {"name": "then", "depends_on": ["sub"]}]}');
SELECT taskq_start_workflow('around') AS w \gset
SELECT * FROM wc.all(:w);
SELECT wc.work();
-- on_failure stop: running steps end, and the inner instance has ended
SELECT taskq_define_workflow('{"name": "stop", "version": "1", "queue": "wc", "on_failure": "stop", "steps": [
  {"name": "a"}, {"name": "sub", "type": "workflow", "workflow": {"name": "inner", "input": {"n": 1}}}, {"name": "z", "depends_on": ["sub"]}]}');
SELECT taskq_start_workflow('stop') AS w \gset
SELECT wc.fail();
SELECT * FROM wc.all(:w);
SELECT wc.work(), wc.work();
SELECT * FROM wc.all(:w);
SELECT taskq_retry(wc.task(:w, 'a'));
SELECT * FROM wc.all(:w);
SELECT wc.work(), wc.work();
SELECT wc.seen(:w);

-- the right to submit of the role that started the outer instance counts, whichever role works
CREATE ROLE wc_starter;
CREATE ROLE wc_worker;
SELECT taskq_create_queue('wc2'), taskq_grant('wc', 'wc_starter', '{submit,read}'), taskq_grant('wc', 'wc_worker', '{work,read}');
SELECT taskq_define_workflow('{"name": "there", "version": "1", "queue": "wc2", "steps": [{"name": "one"}]}'),
       taskq_define_workflow('{"name": "here", "version": "1", "queue": "wc", "steps": [{"name": "a"}, {"name": "sub", "depends_on": ["a"], "type": "workflow", "workflow": {"name": "there"}}]}');
GRANT USAGE ON SCHEMA wc TO wc_worker;
SET ROLE wc_starter;
SELECT taskq_start_workflow('here') AS w \gset
SET ROLE wc_worker;
SELECT wc.work();
RESET ROLE;
SELECT wc.seen(:w);
SELECT errors -> 0 ->> 'error' FROM taskq_get(wc.task(:w, 'sub'));
SELECT taskq_grant('wc2', 'wc_starter', '{submit}');
SET ROLE wc_starter;
SELECT taskq_start_workflow('here') AS w \gset
SET ROLE wc_worker;
SELECT wc.work();
RESET ROLE;
SELECT wc.seen(:w);
SELECT submitted_by FROM taskq.tasks WHERE queue = 'wc2';

-- an identity that is kept for some time stays taken until that time is over
SELECT taskq_define_workflow('{"name": "kept", "version": "1", "queue": "wc", "identity": "key", "identity_window": "1 hour", "steps": [{"name": "one"}]}'),
       taskq_define_workflow('{"name": "keeps", "version": "1", "queue": "wc", "steps": [{"name": "sub", "type": "workflow", "workflow": {"name": "kept", "key": "k"}}]}');
SELECT taskq_start_workflow('keeps') AS w \gset
SELECT wc.work();
SELECT taskq_start_workflow('keeps') AS v \gset
UPDATE taskq.workflow SET finished_at = finished_at - interval '2 hours' WHERE workflow_id = wc.child(:w);
SELECT taskq_start_workflow('keeps') AS x \gset
SELECT wc.seen(:w), wc.seen(:v), wc.seen(:x), wc.seen(wc.child(:x)) AS inside;
SELECT wc.work();

-- running steps inside are asked to stop when the step is declared done; a list
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT task_id AS t, token AS k, step FROM taskq_claim('wc') \gset
SELECT ok, error_code FROM taskq_manage_many('resolve', ARRAY[wc.task(:w, 'sub')]);
SELECT * FROM wc.all(:w);
SELECT cancel_requested_at IS NOT NULL AS asked FROM taskq_get(:t);
SELECT taskq_complete(:t, :k);
SELECT * FROM wc.all(:w);
SELECT wc.work();

-- nor does it continue inside a poison step; if the step is retried, it starts an instance again
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}');
SELECT taskq_poison(wc.task(:w, 'sub'));
SELECT * FROM wc.all(:w);
SELECT taskq_retry(wc.task(:w, 'sub'));
SELECT * FROM wc.all(:w);
SELECT wc.work(), wc.work(), wc.work();

-- an instance that was replaced by another one does not continue: not after its own failure, not
-- after the outer instance or its step was cancelled, and not by a list
CREATE FUNCTION wc.replaced() RETURNS TABLE (o bigint, i bigint) LANGUAGE plpgsql AS $$
BEGIN
    o := taskq_start_workflow('outer');
    PERFORM wc.work('{"n": 1}');
    PERFORM wc.fail();
    i := wc.child(o);
    PERFORM taskq_retry(wc.task(o, 'sub'));
    RETURN NEXT;
END
$$;
CREATE FUNCTION wc.back(wf bigint) RETURNS TABLE (action text, answer text) LANGUAGE sql AS $$
SELECT c, regexp_replace(t.said(format(c, wc.task(wf, CASE WHEN c LIKE '%hold%' THEN 'two' ELSE 'one' END))), '(task|workflow) \d+', '\1 ID', 'g')
  FROM unnest(ARRAY['SELECT taskq_retry(%s)', 'SELECT taskq_resolve(%s)', 'SELECT taskq_hold(%s)', 'SELECT error_code FROM taskq_manage_many(''retry'', ARRAY[%s]::bigint[])']) c $$;
SELECT o AS w, i FROM wc.replaced() \gset
SELECT * FROM wc.back(:i);
SELECT wc.fail();
SELECT * FROM wc.back(:i);
SELECT * FROM wc.all(:w);
SELECT taskq_retry(wc.task(wc.child(:w), 'one'));
SELECT wc.work(), wc.work(), wc.work(), wc.work();
SELECT * FROM wc.all(:w);
SELECT o AS w, i FROM wc.replaced() \gset
SELECT taskq_cancel(wc.task(:w, 'sub'));
SELECT * FROM wc.back(:i);
SELECT o AS w, i FROM wc.replaced() \gset
SELECT taskq_cancel_workflow(:w);
SELECT * FROM wc.back(:i);
SELECT * FROM wc.all(:w);
-- nor an instance whose step was declared done, or inside one that does not continue
SELECT taskq_start_workflow('outer') AS w \gset
SELECT wc.work('{"n": 1}'), wc.fail();
SELECT taskq_resolve(wc.task(:w, 'sub'), '"by hand"');
SELECT * FROM wc.back(wc.child(:w));
SELECT wc.work(), wc.work();
SELECT taskq_define_workflow('{"name": "wrapped", "version": "1", "queue": "wc", "steps": [{"name": "out", "type": "workflow", "workflow": {"name": "outer"}}]}');
SELECT taskq_start_workflow('wrapped') AS w \gset
SELECT wc.work('{"n": 1}'), wc.fail();
SELECT wc.child(wc.child(:w)) AS i \gset
SELECT taskq_retry(wc.task(:w, 'out'));
SELECT * FROM wc.back(:i);
SELECT * FROM taskq_check();
SELECT taskq_cancel_workflow(:w);

-- an inner instance does not begin before the outer one
SELECT taskq_start_workflow('wrapped', run_at => now() + interval '1 h') AS w \gset
SELECT taskq_define_workflow('{"name": "at once", "version": "1", "queue": "wc", "steps": [{"name": "sub", "type": "workflow", "workflow": {"name": "inner"}}]}');
SELECT taskq_start_workflow('at once', '{"n": 1}', run_at => now() + interval '1 h') AS v \gset
SELECT wc.work();
SELECT wc.all(w) FROM unnest(ARRAY[:w, :v]::bigint[]) w;
SELECT bool_and(run_at > now() + interval '59 min') AS later FROM taskq.tasks WHERE workflow_id = wc.child(:v) AND state = 'pending';
SELECT taskq_cancel_workflow(w) FROM unnest(ARRAY[:w, :v]::bigint[]) w;

-- a result that the queue of the step does not allow
SELECT taskq_create_queue('wc tiny', '{"max_payload": 200}');
SELECT taskq_define_workflow('{"name": "tiny", "version": "1", "queue": "wc", "steps": [{"name": "sub", "type": "workflow", "queue": "wc tiny", "workflow": {"name": "inner"}}]}');
SELECT taskq_start_workflow('tiny', '{"n": 1}') AS w \gset
SELECT wc.work(), wc.work(to_jsonb(repeat('x', 300)));
SELECT * FROM wc.all(:w);
SELECT regexp_replace(errors -> 0 ->> 'error', '\d+', 'ID') FROM taskq_get(wc.task(:w, 'sub'));

-- the input is a payload, and as large as all queues allow whose steps have no payload of their own
SELECT taskq_create_queue('wc wide', '{"max_payload": 4000000}');
SELECT taskq_define_workflow('{"name": "wc small", "version": "1", "queue": "wc", "steps": [{"name": "a"}, {"name": "b", "queue": "wc tiny", "depends_on": ["a"]}]}'),
       taskq_define_workflow('{"name": "wc picked", "version": "1", "queue": "wc wide", "steps": [{"name": "a"}, {"name": "b", "queue": "wc tiny", "depends_on": ["a"], "payload": {"n": {"$": "$.input.n"}}}, {"name": "go", "type": "signal", "queue": "wc tiny", "depends_on": ["b"], "signal": {"name": "go"}}]}'),
       taskq_define_workflow('{"name": "wc unread", "version": "1", "queue": "wc tiny", "steps": [{"name": "a", "payload": 1}]}'),
       taskq_define_workflow('{"name": "wc around", "version": "1", "queue": "wc", "steps": [{"name": "sub", "type": "workflow", "workflow": {"name": "wc small", "input": {"n": {"$": "$.input.n"}}}}]}');
SELECT n, chars, regexp_replace(t.try(format('SELECT taskq_start_workflow(%L, jsonb_build_object(%L, repeat(%L, %s)))', n, 'n', 'x', chars)), '^\d+$', 'started') AS answer
  FROM (VALUES ('wc small', 100), ('wc small', 300), ('wc picked', 300), ('wc picked', 2000000), ('wc picked', 5000000), ('wc unread', 300), ('wc unread', 2000000)) v (n, chars);
SELECT taskq_start_workflow('wc around', jsonb_build_object('n', repeat('x', 300))) AS w \gset
SELECT wc.seen(:w);
SELECT errors -> 0 ->> 'error' FROM taskq_get(wc.task(:w, 'sub'));
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE name IN ('wc small', 'wc picked', 'wc unread') AND finished_at IS NULL;

-- no role has the rights of a role that was dropped
CREATE ROLE wc_gone;
SELECT taskq_grant('wc', 'wc_gone', '{submit}');
SET ROLE wc_gone;
SELECT taskq_start_workflow('outer') AS w \gset
RESET ROLE;
DROP OWNED BY wc_gone;
DROP ROLE wc_gone;
SELECT wc.work('{"n": 1}');
SELECT wc.seen(:w);
SELECT errors -> 0 ->> 'error' FROM taskq_get(wc.task(:w, 'sub'));

-- a queue that does not exist, and is not created
SELECT taskq_define_workflow('{"name": "nowhere", "version": "1", "queue": "wc3", "steps": [{"name": "one"}]}'),
       taskq_define_workflow('{"name": "lost", "version": "1", "queue": "wc", "steps": [{"name": "a"}, {"name": "sub", "depends_on": ["a"], "type": "workflow", "workflow": {"name": "nowhere"}}]}');
SET taskq.auto_create_queues = off;
SELECT taskq_start_workflow('lost') AS w \gset
SELECT wc.work();
RESET taskq.auto_create_queues;
SELECT wc.seen(:w);
SELECT errors -> 0 ->> 'error' FROM taskq_get(wc.task(:w, 'sub'));
SELECT * FROM taskq_check();
DROP SCHEMA wc CASCADE;
SELECT taskq_revoke('wc', 'wc_starter', '{submit,read}'), taskq_revoke('wc', 'wc_worker', '{work,read}'), taskq_revoke('wc2', 'wc_starter', '{submit}');
DROP ROLE wc_starter;
DROP ROLE wc_worker;

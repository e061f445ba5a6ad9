-- Workflows: the choice of a decision or batch is undone.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wu;
CREATE FUNCTION wu.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    detail text;
    hint text;
BEGIN
    EXECUTE command INTO answer;
    RETURN coalesce(nullif(answer, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN regexp_replace(concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(detail, ''), nullif(hint, '')), '(task |_id": )\d+', '\1N', 'g');
END
$$;
CREATE FUNCTION wu.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT s.task_id FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = name $$;
-- each step that a worker executes has its name as its tag
CREATE FUNCTION wu.define(definition jsonb) RETURNS void LANGUAGE sql AS $$
SELECT taskq_define_workflow(definition || '{"version": "1", "queue": "wu"}' || jsonb_build_object('steps', (
    SELECT jsonb_agg(s || CASE WHEN s ? 'signal' OR s ? 'workflow' OR s ? 'timer' OR s ? 'branches' THEN '{}' ELSE jsonb_build_object('tags', jsonb_build_array(s -> 'name')) END)
      FROM jsonb_array_elements(definition -> 'steps') s)))
$$;
-- one step, by its name
CREATE FUNCTION wu.work(wf bigint, name text, result jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wu', tags => ARRAY[regexp_replace(name, '_\d+$', '')]);
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('from', c.step)));
    RETURN format('%s %s %s', c.step, c.payload, c.dependency_results);
END
$$;
-- all steps
CREATE FUNCTION wu.all() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
    steps text := '';
BEGIN
    LOOP
        SELECT * INTO c FROM taskq_claim('wu', tags => '{a,d,e,i,j,k,m,n,o,v,x,x2,y,z}');
        EXIT WHEN c.task_id IS NULL;
        PERFORM taskq_complete(c.task_id, c.token, jsonb_build_object('from', c.step));
        steps := concat_ws(' ', nullif(steps, ''), c.step);
    END LOOP;
    RETURN steps;
END
$$;
CREATE FUNCTION wu.retry(wf bigint, name text) RETURNS text LANGUAGE sql AS
$$ SELECT wu.said(format('SELECT taskq_retry(%s)', wu.task(wf, name))) $$;
CREATE FUNCTION wu.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT w.state || ' ' || w.steps_total || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf) ||
          string_agg(s.step || ' ' || coalesce(s.state, '-') || CASE WHEN s.parents_left > 0 THEN ' ' || s.parents_left ELSE '' END, ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
SELECT taskq_create_queue('wu'), taskq_create_queue('wu serial', '{"key_policy": "serial"}');

-- another choice, before any step of the first one has begun
SELECT wu.define('{"name": "wu option", "steps": [
  {"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "x2", "depends_on": ["x"]}, {"name": "y", "depends_on": ["d"]},
  {"name": "o"}, {"name": "j", "type": "deferred", "depends_on": ["x2", "y", "o"]}, {"name": "k", "depends_on": ["j"]}]}');
SELECT taskq_start_workflow('wu option') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), wu.seen(:w);
SELECT regexp_replace(text, '^.* taskq_retry\(\d+\)', '... taskq_retry(N)') FROM taskq_explain(wu.task(:w, 'd')) text;
SELECT wu.task(:w, 'x') AS x, wu.task(:w, 'j') AS j \gset
SELECT wu.retry(:w, 'd'), wu.seen(:w);
SELECT wu.said(format('SELECT state FROM taskq_get(%s)', :x)), (SELECT count(*) FROM taskq_claim('wu', max_tasks => 9, tags => '{none}'));
SELECT from_state, to_state, reason, role = current_user AS by_me FROM taskq_timeline(:x) ORDER BY at;
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'o'), wu.seen(:w), wu.work(:w, 'd', '{"create": ["y"]}'), wu.seen(:w), wu.task(:w, 'j') > :j AS made_anew;
SELECT wu.retry(:w, 'd'), wu.work(:w, 'd', '{"create": []}'), wu.seen(:w);
SELECT wu.retry(:w, 'd'), wu.work(:w, 'd', '{"create": ["x", "y"]}'), wu.all(), wu.seen(:w);
SELECT step, result FROM taskq.workflow_steps WHERE workflow_id = :w AND step IN ('j', 'k') ORDER BY 1;
-- by list, and back again
SELECT taskq_start_workflow('wu option') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}');
BEGIN;
SELECT error_code FROM taskq_manage_many('retry', ARRAY[wu.task(:w, 'd')]);
SELECT wu.seen(:w);
ROLLBACK;
SELECT wu.seen(:w);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT wu.retry(:w, 'd'), wu.seen(:w);
SELECT wu.work(:w, 'd', '{"create": ["y"]}'), wu.seen(:w);
SELECT wu.retry(:w, 'd'), wu.seen(:w);
COMMIT;
-- changes by hand to a step that has not begun are undone, too
SELECT wu.work(:w, 'd', '{"create": ["x", "y"]}'), taskq_hold(wu.task(:w, 'x')), taskq_cancel(wu.task(:w, 'y')), wu.seen(:w);
SELECT wu.retry(:w, 'd'), wu.seen(:w);
SELECT * FROM taskq_check();
-- not after one of the steps has begun, was released, or was completed by hand
SELECT wu.work(:w, 'd', '{"create": ["x"]}');
SELECT task_id AS t, token AS k FROM taskq_claim('wu', tags => '{x}') \gset
SELECT wu.retry(:w, 'd'), wu.seen(:w);
SELECT taskq_release(:t, :k), wu.retry(:w, 'd');
SELECT wu.all(), wu.seen(:w), wu.retry(:w, 'd');
SELECT taskq_start_workflow('wu option') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x", "y"]}'), taskq_resolve(wu.task(:w, 'k')), wu.retry(:w, 'd'), wu.seen(:w);
SELECT taskq_cancel_workflow(:w);

-- a decision below another one; a skipped one, after which a join was created
SELECT wu.define('{"name": "wu nested", "steps": [
  {"name": "a"}, {"name": "d", "type": "decision", "depends_on": ["a"], "when": "$.results.a.deep == true"},
  {"name": "e", "type": "decision", "depends_on": ["d"], "branches": [{"when": "$.results.d.z == 1", "steps": ["z"]}]}, {"name": "z", "depends_on": ["e"]},
  {"name": "v", "depends_on": ["d"]}, {"name": "j", "type": "deferred", "depends_on": ["z", "v"]}, {"name": "k", "depends_on": ["j"]}]}');
SELECT taskq_start_workflow('wu nested') AS w \gset
SELECT wu.work(:w, 'a', '{"deep": false}'), wu.seen(:w);
SELECT wu.retry(:w, 'a'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'a', '{"deep": true}'), wu.seen(:w);
-- a decision below it that the engine has made was not done by a worker, and is undone
SELECT wu.work(:w, 'd', '{"create": ["e", "v"], "z": 1}'), wu.seen(:w), wu.retry(:w, 'a'), wu.retry(:w, 'd'), wu.seen(:w);
SELECT wu.work(:w, 'd', '{"create": ["e", "v"], "z": 1}'), wu.seen(:w);
-- if it is retried, the engine decides again, with the same result
SELECT wu.task(:w, 'z') AS z \gset
SELECT wu.retry(:w, 'e'), wu.seen(:w), wu.task(:w, 'z') > :z AS made_anew;
SELECT * FROM taskq_check();
SELECT wu.all(), wu.seen(:w);
-- and a decision by the engine after a step is undone, as long as no step after it has begun
SELECT wu.define('{"name": "wu engine", "steps": [{"name": "a"}, {"name": "e", "type": "decision", "depends_on": ["a"], "branches": [{"when": "$.results.a.n > 1", "steps": ["x"]}, {"when": "$.results.a.n < 9", "steps": ["y"]}]},
  {"name": "x", "depends_on": ["e"]}, {"name": "y", "depends_on": ["e"]}, {"name": "j", "type": "deferred", "depends_on": ["x", "y"]}]}');
SELECT taskq_start_workflow('wu engine') AS w \gset
SELECT wu.work(:w, 'a', '{"n": 1}'), wu.seen(:w), wu.retry(:w, 'a'), wu.seen(:w);
SELECT step, result FROM taskq.workflow_steps WHERE workflow_id = :w AND result IS NOT NULL;
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'a', '{"n": 5}'), wu.seen(:w), wu.work(:w, 'x'), wu.retry(:w, 'a'), wu.retry(:w, 'e'), wu.all(), wu.seen(:w);
-- also if a join of it was reached before on another path
SELECT wu.define('{"name": "wu ways", "steps": [{"name": "a"}, {"name": "v", "depends_on": ["a"], "when": "$.results.a == 1"}, {"name": "d", "type": "decision", "depends_on": ["a"], "when": "$.results.a == 1"},
  {"name": "x", "depends_on": ["d"]}, {"name": "j", "type": "deferred", "depends_on": ["x", "v"], "when": "$.results.a == 1"}, {"name": "k", "depends_on": ["j"]}]}');
SELECT taskq_start_workflow('wu ways') AS w \gset
SELECT wu.work(:w, 'a', '2'), wu.seen(:w), wu.retry(:w, 'a'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'a', '1'), wu.work(:w, 'd', '{"create": ["x"]}'), wu.all(), wu.seen(:w);
-- but not a decision that was made by hand
SELECT taskq_start_workflow('wu engine') AS w \gset
SELECT taskq_resolve(wu.task(:w, 'e'), '{"create": []}'), wu.work(:w, 'a'), wu.retry(:w, 'a'), wu.seen(:w), wu.retry(:w, 'e'), wu.seen(:w);
SELECT taskq_cancel_workflow(:w);
-- retried after it was skipped, it is asked for a choice
SELECT taskq_start_workflow('wu nested') AS w \gset
SELECT wu.work(:w, 'a', '{"deep": false}'), wu.retry(:w, 'd'), wu.seen(:w), wu.work(:w, 'd', '{"create": ["v"]}'), wu.seen(:w), wu.all(), wu.seen(:w);

-- a step that waits only for the decision existed before the choice, and stays
SELECT wu.define('{"name": "wu alone", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]},
  {"name": "j", "type": "deferred", "depends_on": ["d"]}, {"name": "k", "type": "deferred", "depends_on": ["x", "j"]}]}');
SELECT taskq_start_workflow('wu alone') AS w \gset
SELECT wu.seen(:w);
SELECT wu.task(:w, 'j') AS j \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), wu.seen(:w), wu.retry(:w, 'd'), wu.seen(:w), wu.task(:w, 'j') = :j AS stays;
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), wu.all(), wu.seen(:w);

-- two decisions with one join: what the other one has created stays
SELECT wu.define('{"name": "wu both", "steps": [{"name": "d", "type": "decision"}, {"name": "e", "type": "decision"},
  {"name": "x", "depends_on": ["d"]}, {"name": "y", "depends_on": ["e"]}, {"name": "j", "type": "deferred", "depends_on": ["x", "y"]}]}');
SELECT taskq_start_workflow('wu both') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), wu.work(:w, 'e', '{"create": ["y"]}'), wu.work(:w, 'y'), wu.seen(:w);
SELECT wu.retry(:w, 'e'), wu.retry(:w, 'd'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'd', '{"create": []}'), wu.seen(:w), wu.work(:w, 'j'), wu.seen(:w);

-- a step that another decision has chosen stays, and waits for what is undone
SELECT wu.define('{"name": "wu other", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "o"}, {"name": "j", "type": "deferred", "depends_on": ["x", "o"]},
  {"name": "e", "type": "decision"}, {"name": "z", "depends_on": ["e", "j"]}, {"name": "k", "depends_on": ["z"]}]}');
SELECT taskq_start_workflow('wu other') AS w \gset
SELECT wu.work(:w, 'e', '{"create": ["z"]}'), wu.work(:w, 'd', '{"create": ["x"]}'), wu.seen(:w), wu.retry(:w, 'd'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), wu.seen(:w), wu.retry(:w, 'e'), wu.seen(:w), wu.work(:w, 'e', '{"create": ["z"]}'), wu.seen(:w), wu.all(), wu.seen(:w);
-- a step that was completed by hand does not need what is undone
SELECT taskq_start_workflow('wu other') AS w \gset
SELECT wu.work(:w, 'e', '{"create": ["z"]}'), wu.work(:w, 'd', '{"create": ["x"]}'), taskq_resolve(wu.task(:w, 'z')), wu.retry(:w, 'd'), wu.seen(:w);
SELECT wu.work(:w, 'd', '{"create": []}'), wu.all(), wu.seen(:w);
-- the undone step had ended: the step after it waits again, unless it has begun
SELECT wu.define('{"name": "wu passed", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "j", "type": "deferred", "depends_on": ["x"], "when": "$.results.d.j == 1"},
  {"name": "e", "type": "decision"}, {"name": "z", "depends_on": ["e", "j"]}]}');
SELECT taskq_start_workflow('wu passed') AS w \gset
SELECT wu.work(:w, 'e', '{"create": ["z"]}'), wu.work(:w, 'd', '{"create": []}'), wu.seen(:w), wu.retry(:w, 'd'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'd', '{"create": [], "j": 1}'), wu.seen(:w), wu.work(:w, 'j'), wu.seen(:w), wu.retry(:w, 'd'), wu.all(), wu.seen(:w);
SELECT taskq_start_workflow('wu passed') AS w \gset
SELECT wu.work(:w, 'e', '{"create": ["z"]}'), wu.work(:w, 'd', '{"create": []}'), taskq_hold(wu.task(:w, 'z')), wu.retry(:w, 'd'), wu.seen(:w);
SELECT wu.retry(:w, 'z'), wu.seen(:w), wu.work(:w, 'd', '{"create": []}'), wu.seen(:w);
SELECT task_id AS t, token AS k FROM taskq_claim('wu', tags => '{z}') \gset
SELECT wu.retry(:w, 'd'), taskq_complete(:t, :k), wu.seen(:w);
-- also if the undone step is a child of the retried step, and is sent back first
SELECT wu.define('{"name": "wu sent", "steps": [{"name": "a"}, {"name": "j", "type": "deferred", "depends_on": ["a", "x"], "when": "$.results.a == 1"}, {"name": "d", "type": "decision", "depends_on": ["a"], "when": "$.results.a == 1"},
  {"name": "x", "depends_on": ["d"]}, {"name": "e", "type": "decision"}, {"name": "z", "depends_on": ["e", "j"]}]}');
SELECT taskq_start_workflow('wu sent') AS w \gset
SELECT wu.work(:w, 'e', '{"create": ["z"]}'), wu.work(:w, 'a', '2'), wu.seen(:w), wu.retry(:w, 'a'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'a', '1'), wu.work(:w, 'd', '{"create": ["x"]}'), wu.seen(:w), wu.work(:w, 'x'), wu.work(:w, 'j'), wu.seen(:w), wu.all();
-- a batch instead of the decision, and a decision by the engine
SELECT wu.define('{"name": "wu mixed", "steps": [{"name": "b", "type": "batch"}, {"name": "m", "type": "batch_worker", "depends_on": ["b"]}, {"name": "j", "type": "deferred", "depends_on": ["m"]},
  {"name": "e", "type": "decision", "branches": [{"steps": ["z"]}]}, {"name": "z", "type": "decision", "depends_on": ["e", "j"]}, {"name": "k", "depends_on": ["z"]}, {"name": "n", "type": "deferred", "depends_on": ["k", "m"]}]}');
SELECT taskq_start_workflow('wu mixed') AS w \gset
SELECT wu.work(:w, 'b', '{"total": 2, "size": 1}'), wu.seen(:w), wu.retry(:w, 'b'), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'b', '{"total": 1, "size": 1}'), wu.seen(:w), wu.work(:w, 'm_001'), wu.work(:w, 'j'), wu.work(:w, 'z', '{"create": ["k"]}'), wu.all(), wu.seen(:w);

-- members of a batch, and the steps that wait for them
SELECT wu.define('{"name": "wu group", "steps": [{"name": "b", "type": "batch"},
  {"name": "m", "type": "batch_worker", "depends_on": ["b"]}, {"name": "n", "type": "deferred", "depends_on": ["m"]}]}');
SELECT taskq_start_workflow('wu group') AS w \gset
SELECT wu.work(:w, 'b', jsonb_build_object('batches', jsonb_build_array(jsonb_build_object('text', repeat('long', 5000)), '{"n": 2}'::jsonb, '{"n": 3}'::jsonb))) IS NOT NULL, wu.seen(:w);
SELECT wu.retry(:w, 'b'), wu.seen(:w), (SELECT count(*) FROM taskq.batch_progress p WHERE p.workflow_id = :w AND p.members > 0);
SELECT * FROM taskq_check();
SELECT wu.work(:w, 'b', '{"total": 3, "size": 2}'), wu.seen(:w), (SELECT members FROM taskq.batch_progress p WHERE p.workflow_id = :w);
SELECT wu.work(:w, 'm_002'), wu.retry(:w, 'b'), wu.all(), wu.seen(:w);
SELECT taskq_start_workflow('wu group') AS w \gset
SELECT wu.work(:w, 'b', '{"total": 0, "size": 2}'), wu.seen(:w), wu.retry(:w, 'b'), wu.seen(:w), wu.work(:w, 'b', '{"total": 1, "size": 2}'), wu.all(), wu.seen(:w);

-- the result of the first try is removed, also if the second one has no result; a large one, too
SELECT taskq_start_workflow('wu group') AS w \gset
SELECT wu.work(:w, 'b', '{"total": 2, "size": 1}'), wu.retry(:w, 'b');
SELECT taskq_complete(task_id, token) FROM taskq_claim('wu', tags => '{b}');
SELECT wu.seen(:w), wu.all(), wu.seen(:w);
SELECT taskq_start_workflow('wu engine') AS w \gset
SELECT wu.work(:w, 'a', '{"n": 5}'), wu.retry(:w, 'a');
SELECT taskq_complete(task_id, token) FROM taskq_claim('wu', tags => '{a}');
SELECT wu.seen(:w), (SELECT result FROM taskq_get(wu.task(:w, 'a'))), wu.retry(:w, 'e'), wu.seen(:w), taskq_cancel_workflow(:w);
-- a decision by the engine that is skipped now has not chosen anything, either
SELECT wu.define('{"name": "wu skips", "steps": [{"name": "a"}, {"name": "e", "type": "decision", "depends_on": ["a"], "when": "$.results.a == 1", "branches": [{"steps": ["x"]}]},
  {"name": "x", "depends_on": ["e"]}]}');
SELECT taskq_start_workflow('wu skips') AS w \gset
SELECT wu.work(:w, 'a', '1'), wu.seen(:w), wu.retry(:w, 'a'), wu.work(:w, 'a', '2'), wu.seen(:w);
SELECT taskq_start_workflow('wu group') AS w \gset
SELECT wu.work(:w, 'b', jsonb_build_object('batches', (SELECT jsonb_agg(jsonb_build_object('n', n, 'text', 'room')) FROM generate_series(1, 200) n))), wu.retry(:w, 'b');
SELECT taskq_complete(task_id, token) FROM taskq_claim('wu', tags => '{b}');
SELECT wu.seen(:w), wu.all(), wu.seen(:w);
-- a step that could not begin no longer counts as failed; under stop the others come back
SELECT wu.define(jsonb_build_object('name', 'wu ' || f, 'on_failure', f, 'steps', '[{"name": "d", "type": "decision"},
  {"name": "x", "depends_on": ["d"], "payload": {"n": {"$": "$.results.d.n + 1"}}}, {"name": "y", "depends_on": ["d"]}, {"name": "o"}]'::jsonb)) FROM unnest('{continue,stop,compensate}'::text[]) f;
SELECT taskq_start_workflow('wu continue') AS w, taskq_start_workflow('wu stop') AS v, taskq_start_workflow('wu compensate') AS u \gset
SELECT wu.work(w, 'd', '{"create": ["x", "y"], "n": "no"}'), wu.seen(w) FROM unnest(ARRAY[:w, :v, :u]::bigint[]) w;
SELECT wu.work(:w, 'o'), wu.work(:w, 'y'), wu.seen(:w), wu.retry(:w, 'd');
SELECT wu.retry(:v, 'd'), wu.seen(:v), wu.retry(:u, 'd'), wu.seen(:u);
SELECT * FROM taskq_check();
SELECT wu.work(:v, 'd', '{"create": ["x"], "n": 1}'), wu.all(), wu.seen(:v);
-- steps that a failure holds up were not created
SELECT taskq_start_workflow('wu stop') AS v \gset
SELECT task_id AS t, token AS k FROM taskq_claim('wu', tags => '{d}') \gset
SELECT taskq_cancel(wu.task(:v, 'o')), taskq_complete(:t, :k, '{"create": ["y"]}'), wu.seen(:v), wu.retry(:v, 'd'), wu.seen(:v);
SELECT * FROM taskq_check();
SELECT taskq_cancel_workflow(:v);

-- other tasks of its key continue
SELECT wu.define('{"name": "wu named", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"], "key": "k", "queue": "wu serial"},
  {"name": "y", "depends_on": ["d"], "key": "k", "queue": "wu serial"}]}');
SELECT taskq_start_workflow('wu named') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x", "y"]}'), wu.seen(:w);
SELECT taskq_submit('wu serial', key => 'k') AS after \gset
SELECT state FROM taskq_get(:after);
SELECT wu.retry(:w, 'd'), wu.seen(:w), (SELECT state FROM taskq_get(:after));
SELECT wu.work(:w, 'd', '{"create": ["y"]}'), wu.seen(:w), taskq_cancel(:after), wu.seen(:w);
SELECT * FROM taskq_check();
SELECT taskq_cancel_workflow(:w);

-- a step without a worker has begun when it waits; a signal that came before stays
SELECT wu.define('{"name": "wu inlet", "steps": [{"name": "i"}]}');
SELECT wu.define('{"name": "wu passive", "steps": [{"name": "d", "type": "decision"}, {"name": "s", "type": "signal", "depends_on": ["d"], "signal": {"name": "go"}},
  {"name": "i", "type": "workflow", "depends_on": ["d"], "workflow": {"name": "wu inlet"}}, {"name": "x", "depends_on": ["d"]}, {"name": "l", "type": "signal", "depends_on": ["x"], "signal": {"name": "late"}}]}');
SELECT taskq_start_workflow('wu passive') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["s"]}'), wu.seen(:w), wu.retry(:w, 'd'), taskq_signal(:w, 'go'), wu.seen(:w);
SELECT taskq_start_workflow('wu passive') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), taskq_signal(:w, 'late', '7'), wu.retry(:w, 'd'), wu.work(:w, 'd', '{"create": ["x"]}'), wu.work(:w, 'x'), wu.seen(:w);
-- also an instance that was cancelled with the step that waited for it
SELECT taskq_start_workflow('wu passive') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["i"]}'), taskq_cancel(wu.task(:w, 'i')), wu.seen(:w), wu.retry(:w, 'd');
SELECT wu.retry(:w, 'i'), wu.all(), wu.seen(:w);

-- nor any other step that has waited; a step that could not wait has not begun
SELECT wu.define('{"name": "wu waits", "steps": [{"name": "d", "type": "decision"}, {"name": "s", "type": "signal", "depends_on": ["d"], "signal": {"name": "go"}}, {"name": "t", "type": "timer", "depends_on": ["d"], "timer": {"after": {"$": "$.results.d.wait"}}},
  {"name": "i", "type": "workflow", "depends_on": ["d"], "workflow": {"name": "wu absent"}}]}');
SELECT taskq_start_workflow('wu waits') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["s"]}'), taskq_cancel(wu.task(:w, 's')), wu.retry(:w, 'd'), wu.seen(:w);
SELECT taskq_start_workflow('wu waits') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["t"], "wait": "1 hour"}'), wu.retry(:w, 'd'), taskq_cancel(wu.task(:w, 't')), wu.retry(:w, 'd'), wu.seen(:w);
SELECT taskq_start_workflow('wu waits') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["t"], "wait": "long"}'), wu.seen(:w), wu.retry(:w, 'd'), wu.seen(:w), wu.work(:w, 'd', '{"create": ["t"], "wait": "0 s"}'), wu.seen(:w);
SELECT taskq_start_workflow('wu waits') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["i"]}'), wu.seen(:w), wu.retry(:w, 'd'), wu.work(:w, 'd', '{"create": []}'), wu.seen(:w);
SELECT * FROM taskq_check();

-- no role approves with a signal what it could not have approved
CREATE ROLE wu_clerk;
CREATE ROLE wu_boss;
GRANT USAGE ON SCHEMA wu TO wu_clerk;
SELECT taskq_grant('wu', 'wu_clerk', '{submit,read}'), taskq_grant('wu', 'wu_boss', '{submit,read}');
SELECT wu.define('{"name": "wu roles", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "x2", "depends_on": ["x"]},
  {"name": "small", "type": "approval", "depends_on": ["x2"], "signal": {"name": "ok", "role": "wu_clerk"}}, {"name": "large", "type": "approval", "depends_on": ["d"], "signal": {"name": "ok", "role": "wu_boss"}}]}');
SELECT taskq_start_workflow('wu roles') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}'), wu.seen(:w);
-- no chosen step has begun: the other choice is still possible
SET ROLE wu_clerk;
SELECT wu.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :w));
RESET ROLE;
-- it is not possible after x is resolved, until x is retried
SELECT taskq_resolve(wu.task(:w, 'x')), wu.seen(:w);
SET ROLE wu_clerk;
SELECT taskq_signal(:w, 'ok', '{"approved": true}');
RESET ROLE;
SELECT wu.retry(:w, 'd'), wu.retry(:w, 'x'), wu.seen(:w), (SELECT count(*) FROM taskq.signal WHERE workflow_id = :w);
SELECT wu.retry(:w, 'd');
SELECT (SELECT count(*) FROM taskq.signal WHERE workflow_id = :w), wu.work(:w, 'd', '{"create": ["large"]}'), wu.seen(:w);
SET ROLE wu_clerk;
SELECT wu.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :w));
SET ROLE wu_boss;
SELECT taskq_signal(:w, 'ok', '{"approved": true}');
RESET ROLE;
SELECT wu.seen(:w);
-- a signal that the role could have given to all of these steps stays
GRANT wu_boss TO wu_clerk;
SELECT taskq_start_workflow('wu roles') AS w \gset
SELECT wu.work(:w, 'd', '{"create": ["x"]}');
SET ROLE wu_clerk;
SELECT taskq_signal(:w, 'ok', '{"approved": true}');
RESET ROLE;
SELECT wu.retry(:w, 'd'), wu.work(:w, 'd', '{"create": ["large"]}'), wu.seen(:w);
SELECT wu.all();
SELECT * FROM taskq_check();
REVOKE wu_boss FROM wu_clerk;
SELECT taskq_revoke('wu', r, '{submit,read}') FROM unnest(ARRAY['wu_boss', 'wu_clerk']) r;
DROP SCHEMA wu CASCADE;
DROP ROLE wu_clerk;
DROP ROLE wu_boss;

-- Running workflows: each step's end releases its children in the same transaction.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wf;
-- a worker that claims the available tasks, prints what it gets, and ends them
CREATE FUNCTION wf.work(result jsonb DEFAULT NULL, step_wanted text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wf');
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('from', c.step)));
    RETURN format('%s %s %s %s', c.workflow, c.step, c.payload, c.dependency_results);
END
$$;
CREATE FUNCTION wf.states(wf bigint) RETURNS TABLE (step text, state text, parents_left int, result jsonb) LANGUAGE sql AS
$$ SELECT s.step, s.state, s.parents_left, s.result FROM taskq.workflow_steps s WHERE s.workflow_id = wf ORDER BY s.step $$;
CREATE FUNCTION wf.state(wf bigint) RETURNS TABLE (state text, total bigint, done bigint, dead bigint, running bigint, result jsonb, ended boolean) LANGUAGE sql AS
$$ SELECT w.state, w.steps_total, w.steps_done, w.steps_dead, w.steps_running, w.result, w.finished_at IS NOT NULL FROM taskq.workflows w WHERE w.workflow_id = wf $$;

-- a diamond
SELECT taskq_define_workflow('{"name": "diamond", "version": "1", "queue": "wf", "steps": [
  {"name": "a", "handler": "h", "config": {"x": 1}}, {"name": "b", "depends_on": ["a"]},
  {"name": "c", "depends_on": ["a"]}, {"name": "d", "depends_on": ["b", "c"]}]}');
SELECT taskq_start_workflow('diamond', '{"n": 1}') AS w \gset
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
SELECT step, handler, config, input, dependency_results, workflow_id = :w AS same, task_id AS t, token AS k FROM taskq_claim('wf') \gset c_
SELECT :'c_step' AS step, :'c_handler' AS handler, :'c_config' AS config, :'c_input' AS input, :'c_dependency_results' AS results, :'c_same' AS same;
SELECT * FROM wf.state(:w);
SELECT taskq_complete(:c_t, :c_k, '{"from": "a"}');
SELECT wf.work();
SELECT * FROM wf.states(:w);
SELECT wf.work();
SELECT wf.work();
SELECT wf.work();
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
SELECT count(*) FROM taskq.edge WHERE workflow_id = :w;

-- a worker that completes and claims gets the child immediately
SELECT taskq_start_workflow('diamond') AS w \gset
SELECT task_id AS t, token AS k FROM taskq_claim('wf') \gset
SELECT step, dependency_results FROM taskq_complete_and_claim(ARRAY[:t]::bigint[], ARRAY[:k]::bigint[], ARRAY['7'::jsonb], 'wf');
SELECT taskq_cancel_workflow(:w, 'enough');
SELECT * FROM wf.state(:w);

-- conditions and payloads
SELECT taskq_define_workflow('{"name": "conditions", "version": "1", "queue": "wf", "steps": [
  {"name": "first", "payload": {"n": {"$": "$.input.n"}, "all": [1, {"$": "$.input.none"}, {"x": {"$": "$.input"}}]}},
  {"name": "large", "depends_on": ["first"], "when": "$.results.first.size > 10"},
  {"name": "small", "depends_on": ["first"], "when": "$.results.first.size <= 10", "payload": {"$": "$.results.first"}},
  {"name": "after", "depends_on": ["large", "small"], "payload": {"first": {"$": "$.results.first.size"}, "large": {"$": "$.results.large"}}},
  {"name": "bad", "depends_on": ["after"], "when": "$.results.after.a + 1"}]}');
SELECT taskq_start_workflow('conditions', '{"n": 5}') AS w \gset
SELECT wf.work('{"size": 3}');
SELECT wf.work();
SELECT wf.work('{"a": 1}');
SELECT wf.work();
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
SELECT s.step, t.reason, t.error, t.message FROM taskq.workflow_steps s JOIN taskq.tasks t USING (task_id) WHERE s.workflow_id = :w AND s.state IN ('dead', 'filtered') ORDER BY 1;

-- a decision of a worker; a deferred join
SELECT taskq_define_workflow('{"name": "choice", "version": "1", "queue": "wf", "steps": [
  {"name": "choose", "type": "decision"},
  {"name": "left", "depends_on": ["choose"]}, {"name": "left2", "depends_on": ["left"]},
  {"name": "right", "depends_on": ["choose"]}, {"name": "middle", "depends_on": ["choose"]},
  {"name": "join", "type": "deferred", "depends_on": ["left2", "right", "middle"]}, {"name": "last", "depends_on": ["join"]}]}');
SELECT taskq_start_workflow('choice') AS w \gset
SELECT * FROM wf.states(:w);
SELECT wf.work('{"create": ["left", "middle"]}');
SELECT * FROM wf.states(:w);
SELECT wf.work() FROM generate_series(1, 6);
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
-- nothing chosen
SELECT taskq_start_workflow('choice') AS w \gset
SELECT wf.work('{"create": []}');
SELECT wf.work() FROM generate_series(1, 3);
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
-- invalid choices
\set VERBOSITY terse
SELECT wf.work(r) FROM unnest(ARRAY[NULL, '{}', '{"create": "left"}', '{"create": ["left2"]}', '{"create": [1]}', '{"create": ["absent"]}']::jsonb[]) r,
  LATERAL (SELECT taskq_start_workflow('choice', to_jsonb(r)) OFFSET 0) s;
\set VERBOSITY default
SELECT t.state, t.reason, t.error FROM taskq.tasks t WHERE t.queue = 'wf' AND t.state = 'dead' AND t.step = 'choose' ORDER BY t.task_id;

-- the engine decides; a region in a region
SELECT taskq_define_workflow('{"name": "engine", "version": "1", "queue": "wf", "steps": [
  {"name": "choose", "type": "decision", "branches": [{"when": "$.input.n > 10", "steps": ["large"]}, {"when": "$.input.n <= 10", "steps": ["small"]}]},
  {"name": "large", "type": "decision", "depends_on": ["choose"], "branches": [{"steps": ["x", "y"]}]}, {"name": "small", "depends_on": ["choose"]},
  {"name": "x", "depends_on": ["large"]}, {"name": "y", "depends_on": ["large"]},
  {"name": "xy", "type": "deferred", "depends_on": ["x", "y"]},
  {"name": "all", "type": "deferred", "depends_on": ["xy", "small"]}]}');
SELECT taskq_start_workflow('engine', '{"n": 11}') AS w \gset
SELECT * FROM wf.states(:w);
SELECT wf.work() FROM generate_series(1, 5);
SELECT * FROM wf.state(:w);
SELECT taskq_start_workflow('engine', '{"n": 1}') AS w \gset
SELECT wf.work() FROM generate_series(1, 3);
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);

-- batches
SELECT taskq_define_workflow('{"name": "batch", "version": "1", "queue": "wf", "steps": [
  {"name": "split", "type": "batch"}, {"name": "part", "type": "batch_worker", "depends_on": ["split"], "handler": "p"},
  {"name": "join", "type": "deferred", "depends_on": ["part"]}]}');
SELECT taskq_start_workflow('batch') AS w \gset
SELECT wf.work('{"total": 10, "size": 3, "max_workers": 3}');
SELECT wf.work() FROM generate_series(1, 5);
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
SELECT taskq_start_workflow('batch') AS w \gset
SELECT wf.work('{"batches": [{"cursor": "a"}, {"cursor": "b"}]}');
SELECT wf.work('1') FROM generate_series(1, 4);
-- a member gets the result of its batch, but not the parts of the other members
SELECT taskq_start_workflow('batch') AS w \gset
SELECT wf.work('{"batches": [{"cursor": "a"}, {"cursor": "b"}], "of": "file"}');
SELECT task_id AS t, token AS k, dependency_results AS told, payload FROM taskq_claim('wf') \gset m_
SELECT :'m_told' AS told, :'m_payload' AS payload;
SELECT step, result FROM taskq_dependency_results(:m_t);
SELECT taskq_ancestor_results(:m_t);
SELECT taskq_complete(:m_t, :m_k), wf.work('1'), wf.work('1');
SELECT * FROM wf.state(:w);
-- no members
SELECT taskq_start_workflow('batch') AS w \gset
SELECT wf.work('{"total": 0, "size": 3}');
SELECT wf.work() FROM generate_series(1, 2);
SELECT * FROM wf.state(:w);
\set VERBOSITY terse
SELECT wf.work(r) FROM unnest(ARRAY['{"total": 5}', '{"batches": 1}', '{"batches": [1]}', '{"odd": 1}', '[]', '{"total": -1, "size": 1}', '{"total": 100000000, "size": 1}']::jsonb[]) r,
  LATERAL (SELECT taskq_start_workflow('batch', to_jsonb(r)) OFFSET 0) s;
\set VERBOSITY default
SELECT t.error FROM taskq.tasks t WHERE t.queue = 'wf' AND t.state = 'dead' AND t.step = 'split' ORDER BY t.task_id;

-- failures: steps that do not depend on the failed one continue
SELECT taskq_define_workflow('{"name": "fails", "version": "1", "queue": "wf", "steps": [
  {"name": "a", "retryable": false}, {"name": "b", "depends_on": ["a"]}, {"name": "c"}, {"name": "d", "depends_on": ["c"]}]}');
SELECT taskq_define_workflow('{"name": "stops", "version": "1", "queue": "wf", "on_failure": "stop", "steps": [
  {"name": "a", "retryable": false}, {"name": "b", "depends_on": ["a"]}, {"name": "c"}, {"name": "d", "depends_on": ["c"]}]}');
SELECT taskq_start_workflow('fails') AS w \gset
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('wf');
SELECT * FROM wf.state(:w);
SELECT wf.work() FROM generate_series(1, 3);
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
-- and again, after a retry by hand
SELECT taskq_retry(task_id) FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'a';
SELECT * FROM wf.state(:w);
SELECT wf.work() FROM generate_series(1, 3);
SELECT * FROM wf.state(:w);
-- resolved by hand
SELECT taskq_start_workflow('fails') AS w \gset
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('wf');
SELECT wf.work() FROM generate_series(1, 2);
SELECT taskq_resolve(task_id, '{"by": "hand"}') FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'a';
SELECT wf.work();
SELECT * FROM wf.state(:w);
SELECT taskq_start_workflow('stops') AS w \gset
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('wf');
SELECT * FROM wf.states(:w);
SELECT * FROM wf.state(:w);
-- cancelled steps are restored with the step that failed
SELECT taskq_retry(task_id) FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'a';
SELECT * FROM wf.states(:w);
SELECT wf.work() FROM generate_series(1, 5);
SELECT * FROM wf.state(:w);

-- identity
SELECT taskq_define_workflow('{"name": "once", "version": "1", "queue": "wf", "identity": "strict", "steps": [{"name": "a"}]}');
SELECT taskq_start_workflow('once', '{"n": 1.0}') AS w \gset
SELECT taskq_start_workflow('once', '{"n": 1.00}', on_conflict => 'return') = :w AS same;
\set VERBOSITY sqlstate
SELECT taskq_start_workflow('once', '{"n": 1}');
\set VERBOSITY default
SELECT taskq_start_workflow('once', '{"n": 2}') <> :w AS other;
SELECT taskq_start_workflow('diamond', key => 'k') AS k \gset
SELECT taskq_start_workflow('diamond', key => 'k', on_conflict => 'return') = :k AS same;
SELECT taskq_cancel_workflow(:k);
SELECT taskq_start_workflow('diamond', key => 'k') <> :k AS again;

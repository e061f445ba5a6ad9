-- Workflows: finished steps are retried, or resolved by hand.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wr;
CREATE FUNCTION wr.said(command text) RETURNS text LANGUAGE plpgsql AS $$
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
-- the next task; all tasks
CREATE FUNCTION wr.work(result jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wr');
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('from', c.step)));
    RETURN format('%s %s %s', c.step, c.payload, c.dependency_results);
END
$$;
CREATE FUNCTION wr.all() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one text;
    steps text := '';
BEGIN
    LOOP
        one := wr.work();
        EXIT WHEN one = 'nothing';
        steps := steps || split_part(one, ' ', 1) || ' ';
    END LOOP;
    RETURN steps;
END
$$;
CREATE FUNCTION wr.fail() RETURNS text LANGUAGE sql AS
$$ SELECT step || ' ' || taskq_fail(task_id, token, 'broken', false) FROM taskq_claim('wr') $$;
CREATE FUNCTION wr.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT s.task_id FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = name $$;
CREATE FUNCTION wr.retry(wf bigint, name text) RETURNS text LANGUAGE sql AS
$$ SELECT wr.said(format('SELECT taskq_retry(%s)', wr.task(wf, name))) $$;
CREATE FUNCTION wr.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT w.state || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf) ||
          string_agg(s.step || ' ' || coalesce(s.state, '-') || CASE WHEN s.parents_left > 0 THEN ' ' || s.parents_left ELSE '' END, ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
SELECT taskq_create_queue('wr'), taskq_create_queue('aside');

-- a step that has succeeded, while its child has not begun
SELECT taskq_define_workflow('{"name": "wire", "version": "1", "queue": "wr", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a"], "payload": {"a": {"$": "$.results.a"}}}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('wire') AS w \gset
SELECT wr.work('1'), wr.seen(:w);
SELECT wr.retry(:w, 'a'), wr.seen(:w);
SELECT wr.work('2'), wr.seen(:w);
SELECT wr.work(), wr.seen(:w);
-- not after the child has begun, or the instance has ended
SELECT wr.retry(:w, 'a'), wr.retry(:w, 'b'), wr.seen(:w), wr.work(), wr.seen(:w);
SELECT task_id AS t, token AS k FROM taskq_claim('wr') \gset
SELECT wr.retry(:w, 'b');
-- also after the child was released
SELECT taskq_release(:t, :k), wr.retry(:w, 'b');
SELECT wr.all(), wr.retry(:w, 'c'), wr.seen(:w);
SELECT error_code FROM taskq_manage_many('retry', ARRAY[wr.task(:w, 'c')]);

-- by list; a running step
SELECT taskq_start_workflow('wire') AS w \gset
SELECT wr.work();
SELECT error_code FROM taskq_manage_many('retry', ARRAY[wr.task(:w, 'a')]);
SELECT wr.seen(:w);
SELECT task_id AS t, token AS k FROM taskq_claim('wr') \gset
SELECT wr.said(format('SELECT taskq_retry(%s)', :t)), wr.said(format('SELECT taskq_retry(%s, force => true)', :t)), wr.seen(:w);
SELECT wr.said(format('SELECT taskq_complete(%s, %s)', :t, :k)), wr.all(), wr.seen(:w);

-- two parents; a sibling that fails: the instance continues, and fails again
SELECT taskq_define_workflow('{"name": "join", "version": "1", "queue": "wr", "steps": [
  {"name": "a"}, {"name": "b"}, {"name": "j", "depends_on": ["a", "b"]}]}');
SELECT taskq_start_workflow('join') AS w \gset
SELECT wr.work(), wr.fail(), wr.seen(:w);
SELECT finished_at IS NOT NULL AS ended FROM taskq.workflows WHERE workflow_id = :w;
SELECT wr.retry(:w, 'a'), wr.seen(:w);
SELECT finished_at IS NOT NULL AS ended FROM taskq.workflows WHERE workflow_id = :w;
SELECT wr.work(), wr.seen(:w);
SELECT finished_at IS NOT NULL AS ended FROM taskq.workflows WHERE workflow_id = :w;
SELECT wr.retry(:w, 'b'), wr.retry(:w, 'a'), wr.seen(:w), wr.work(), wr.work(), wr.seen(:w), wr.all();
SELECT wr.seen(:w), wr.all();
-- a last step, while another one keeps the instance open
SELECT taskq_define_workflow('{"name": "duo", "version": "1", "queue": "wr", "steps": [{"name": "a"}, {"name": "b"}]}');
SELECT taskq_start_workflow('duo') AS w \gset
SELECT wr.work(), wr.retry(:w, 'a'), wr.seen(:w), wr.all(), wr.seen(:w);
-- a child that is held, or was cancelled by hand, or that waits for its key
SELECT taskq_start_workflow('wire') AS w \gset
SELECT wr.work();
SELECT taskq_hold(wr.task(:w, 'b'));
SELECT wr.retry(:w, 'a'), wr.seen(:w), wr.retry(:w, 'b'), wr.seen(:w), wr.work(), wr.seen(:w);
SELECT taskq_cancel(wr.task(:w, 'b'));
SELECT wr.retry(:w, 'a'), wr.seen(:w), wr.retry(:w, 'b'), wr.seen(:w), wr.all(), wr.seen(:w);
SELECT taskq_create_queue('serial', '{"key_policy": "serial"}');
SELECT taskq_define_workflow('{"name": "named", "version": "1", "queue": "wr", "steps": [{"name": "a"}, {"name": "b", "key": "k", "queue": "serial", "depends_on": ["a"]}]}');
SELECT taskq_submit('serial', key => 'k') AS before \gset
SELECT taskq_start_workflow('named') AS w \gset
SELECT wr.work(), wr.seen(:w), wr.retry(:w, 'a'), wr.seen(:w);
SELECT taskq_cancel(:before), wr.seen(:w), wr.work(), wr.seen(:w);
SELECT wr.retry(:w, 'a'), wr.seen(:w), wr.work(), wr.seen(:w);
SELECT step, taskq_complete(task_id, token) FROM taskq_claim('serial');
SELECT wr.seen(:w);

-- conditions: a step that was skipped, or could not begin, waits again with its dependent steps
SELECT taskq_define_workflow('{"name": "when", "version": "1", "queue": "wr", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a"], "when": "$.results.a > 1", "payload": {"b": {"$": "$.results.a"}}},
  {"name": "c", "depends_on": ["b"], "when": "$.results.b != null"}, {"name": "d", "depends_on": ["c"]},
  {"name": "e", "depends_on": ["a"], "when": "$.results.a + 1 > 1"}]}');
SELECT taskq_start_workflow('when') AS w \gset
SELECT wr.work('"x"'), wr.seen(:w);
SELECT wr.retry(:w, 'a'), wr.seen(:w);
SELECT wr.work('2'), wr.seen(:w);
SELECT taskq_start_workflow('when') AS w2 \gset
SELECT wr.all(), wr.seen(:w), wr.seen(:w2);
-- a skipped step runs, whatever its condition says, with its payload
SELECT taskq_define_workflow('{"name": "skip", "version": "1", "queue": "wr", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a"], "when": "$.results.a > 1", "payload": {"b": {"$": "$.results.a"}}}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('skip') AS w \gset
SELECT wr.work('1'), wr.seen(:w), wr.retry(:w, 'b'), wr.seen(:w), wr.work(), wr.seen(:w), wr.all(), wr.seen(:w);
SELECT taskq_start_workflow('skip') AS w \gset
SELECT wr.work('1'), wr.retry(:w, 'a'), wr.seen(:w), wr.work('3'), wr.seen(:w), wr.all(), wr.seen(:w);
-- a step whose path could not be evaluated is tried with the current results
SELECT taskq_define_workflow('{"name": "path", "version": "1", "queue": "wr", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a"], "payload": {"b": {"$": "$.results.a + 1"}}}]}');
SELECT taskq_start_workflow('path') AS w \gset
SELECT wr.work('"x"'), wr.seen(:w), wr.retry(:w, 'b'), wr.seen(:w), wr.retry(:w, 'a'), wr.seen(:w), wr.work('1'), wr.seen(:w), wr.work(), wr.seen(:w);

-- decisions and batches: not after one of the created steps has begun
SELECT taskq_define_workflow('{"name": "option", "version": "1", "queue": "wr", "steps": [
  {"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "y", "depends_on": ["d"]}, {"name": "other"}]}');
SELECT taskq_start_workflow('option') AS w \gset
SELECT wr.work('{"create": ["x"]}'), wr.work(), wr.work(), wr.retry(:w, 'd'), wr.seen(:w);
SELECT taskq_start_workflow('option') AS w \gset
SELECT wr.work('{"create": []}'), wr.seen(:w), wr.retry(:w, 'd'), wr.seen(:w);
SELECT taskq_complete(task_id, token) FROM taskq_claim('wr', max_tasks => 2) WHERE step = 'other';
SELECT wr.seen(:w);
SELECT taskq_complete(task_id, token, '{"create": ["y"]}') FROM taskq_get(wr.task(:w, 'd'));
SELECT wr.seen(:w), wr.all(), wr.seen(:w);
SELECT taskq_define_workflow('{"name": "group", "version": "1", "queue": "wr", "steps": [{"name": "b", "type": "batch", "failure_strategy": "continue_on_failure"},
  {"name": "m", "type": "batch_worker", "depends_on": ["b"]}, {"name": "j", "type": "deferred", "depends_on": ["m"]}]}');
SELECT taskq_start_workflow('group') AS w \gset
SELECT wr.work('{"total": 2, "size": 1}'), wr.fail(), wr.retry(:w, 'b'), wr.work(), wr.seen(:w);
-- members: also a dead one that counts as finished, as long as the join has not begun
SELECT wr.retry(:w, 'm_001'), wr.seen(:w), wr.retry(:w, 'm_002'), wr.seen(:w), wr.all(), wr.seen(:w);

SELECT wr.all();
-- and it cannot be resolved after the instance has ended without it
SELECT taskq_start_workflow('group') AS w \gset
SELECT wr.work('{"total": 1, "size": 1}'), wr.fail(), wr.work(), wr.seen(:w);
SELECT wr.said(format('SELECT taskq_resolve(%s)', wr.task(:w, 'm_001'))), wr.retry(:w, 'm_001'), wr.seen(:w);
SELECT * FROM taskq_check();
-- steps without a worker: a signal, a timer, a workflow; as a step and as a child
SELECT taskq_define_workflow('{"name": "inlet", "version": "1", "queue": "wr", "steps": [{"name": "i"}]}');
SELECT taskq_define_workflow('{"name": "passive", "version": "1", "queue": "wr", "steps": [{"name": "a"}, {"name": "s", "type": "signal", "signal": {"name": "go"}, "depends_on": ["a"]},
  {"name": "t", "type": "timer", "timer": {"after": "0 s"}, "depends_on": ["s"]}, {"name": "w", "type": "workflow", "workflow": {"name": "inlet"}, "depends_on": ["t"]}, {"name": "z", "depends_on": ["w"]}]}');
SELECT taskq_start_workflow('passive') AS w \gset
SELECT wr.work(), wr.seen(:w), wr.retry(:w, 'a');
SELECT taskq_signal(:w, 'go', '1'), wr.seen(:w), wr.retry(:w, 's');
SELECT taskq_hold(wr.task(:w, 'z'));
SELECT wr.work(), wr.seen(:w), wr.retry(:w, 't'), wr.retry(:w, 'w'), wr.seen(:w), wr.work(), wr.seen(:w);
SELECT state, parent_workflow_id = :w AS inside FROM taskq.workflows WHERE name = 'inlet' ORDER BY workflow_id;
SELECT wr.retry(:w, 'z'), wr.all(), wr.seen(:w);
SELECT taskq_define_workflow('{"name": "signals", "version": "1", "queue": "wr", "steps": [{"name": "s", "type": "signal", "signal": {"name": "go"}}, {"name": "z", "depends_on": ["s"]}]}');
SELECT taskq_start_workflow('signals') AS w \gset
SELECT taskq_signal(:w, 'go', '1'), wr.seen(:w), wr.retry(:w, 's'), wr.seen(:w), taskq_signal(:w, 'go', '2'), wr.seen(:w), wr.work(), wr.seen(:w);

-- resolved by hand: from any state, with a result that children read
SELECT taskq_start_workflow('wire') AS w \gset
SELECT wr.said(format('SELECT taskq_resolve(%s, ''"by hand"'', ''why not'')', wr.task(:w, 'b'))), wr.seen(:w), wr.work(), wr.seen(:w), wr.work(), wr.seen(:w);
SELECT taskq_start_workflow('wire') AS w \gset
SELECT task_id AS t, token AS k FROM taskq_claim('wr') \gset
SELECT wr.said(format('SELECT taskq_resolve(%s)', :t)), wr.said(format('SELECT taskq_resolve(%s, ''7'', force => true)', :t)), wr.said(format('SELECT taskq_complete(%s, %s)', :t, :k)), wr.seen(:w), wr.work();
SELECT taskq_hold(wr.task(:w, 'c'));
SELECT wr.said(format('SELECT taskq_resolve(%s, ''8'')', wr.task(:w, 'c'))), wr.seen(:w);
SELECT state, result, finished_at IS NOT NULL AS ended FROM taskq.workflows WHERE workflow_id = :w;
SELECT taskq_start_workflow('wire') AS w \gset
SELECT wr.fail(), wr.seen(:w);
BEGIN;
SELECT taskq_resolve(wr.task(:w, 'a'), '9');
SELECT wr.seen(:w);
ROLLBACK;
SELECT wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'a'), '9', 'by hand');
SELECT wr.seen(:w), wr.work(), wr.all(), wr.seen(:w);
SELECT step, from_state, to_state, reason, message FROM taskq_timeline(workflow_id => :w) WHERE step = 'a' ORDER BY at;

-- on_failure stop: a choice creates nothing after a failure
SELECT taskq_define_workflow('{"name": "stays", "version": "1", "queue": "wr", "on_failure": "stop", "steps": [
  {"name": "d", "type": "decision"}, {"name": "e"}, {"name": "f"}, {"name": "x", "depends_on": ["d"]}, {"name": "y", "depends_on": ["d"]},
  {"name": "j", "type": "deferred", "depends_on": ["x", "y", "e"]}, {"name": "late", "depends_on": ["f"]}]}');
CREATE TABLE wr.held (step text, task_id bigint, token bigint);
SELECT taskq_start_workflow('stays') AS w \gset
INSERT INTO wr.held SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 9);
SELECT taskq_fail(task_id, token, 'broken', false) FROM wr.held WHERE step IN ('e', 'f');
SELECT wr.seen(:w);
SELECT taskq_complete(task_id, token, '{"create": ["x"]}') FROM wr.held WHERE step = 'd';
SELECT wr.seen(:w), wr.all();
-- nor if only one of two failed steps is retried
SELECT wr.retry(:w, 'e'), wr.seen(:w), wr.all(), wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'f'));
SELECT wr.seen(:w), wr.all(), wr.seen(:w);
-- a step that was cancelled by hand holds it up as well
SELECT taskq_start_workflow('stays') AS w \gset
SELECT taskq_cancel(wr.task(:w, 'e'));
SELECT wr.seen(:w), wr.retry(:w, 'e'), wr.seen(:w);
SELECT taskq_cancel_workflow(:w);
-- failure and choice in one call
TRUNCATE wr.held;
SELECT taskq_start_workflow('stays') AS w \gset
INSERT INTO wr.held SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 9);
SELECT count(*) FROM taskq_decide_many((SELECT jsonb_agg(CASE step WHEN 'd' THEN jsonb_build_object('task_id', task_id, 'token', token, 'outcome', 'complete', 'result', '{"create": ["x"]}'::jsonb)
   WHEN 'e' THEN jsonb_build_object('task_id', task_id, 'token', token, 'outcome', 'fail', 'error', 'no', 'retryable', false)
   ELSE jsonb_build_object('task_id', task_id, 'token', token, 'outcome', 'complete') END) FROM wr.held));
SELECT wr.seen(:w), wr.retry(:w, 'e'), wr.seen(:w), wr.all(), wr.seen(:w);
-- also the failure of a step that follows: x cannot begin when the second decision is made
SELECT taskq_define_workflow('{"name": "beside", "version": "1", "queue": "wr", "on_failure": "stop", "steps": [
  {"name": "d", "type": "decision", "branches": [{"steps": ["x"]}]}, {"name": "x", "depends_on": ["d"], "payload": {"$": "$.input + 1"}},
  {"name": "f", "when": "1 == 2"}, {"name": "e", "type": "decision", "depends_on": ["f"], "branches": [{"steps": ["y"]}]}, {"name": "y", "depends_on": ["e"]}]}');
SELECT wr.seen(w), taskq_resolve(wr.task(w, 'x')), w FROM taskq_start_workflow('beside', '{"n": 1}') w \gset
SELECT :'seen' AS seen, wr.seen(:w), wr.all(), wr.seen(:w);
-- members of a batch are restored if none of them is dead, whatever else has failed
SELECT taskq_define_workflow('{"name": "members", "version": "1", "queue": "wr", "steps": [{"name": "b", "type": "batch"}, {"name": "m", "type": "batch_worker", "depends_on": ["b"]},
  {"name": "j", "type": "deferred", "depends_on": ["m"]}, {"name": "o"}]}');
TRUNCATE wr.held;
SELECT taskq_start_workflow('members') AS w \gset
SELECT wr.work('{"total": 4, "size": 1}');
INSERT INTO wr.held SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 3);
SELECT taskq_fail(task_id, token, 'broken', false) FROM wr.held;
SELECT wr.seen(:w), wr.retry(:w, 'm_001'), wr.seen(:w), wr.retry(:w, 'm_002'), wr.seen(:w);
SELECT wr.all(), wr.seen(:w), wr.retry(:w, 'o'), wr.all(), wr.seen(:w);

-- identity: an instance that continues takes its identity again, or cannot continue
SELECT taskq_define_workflow('{"name": "sole", "version": "1", "queue": "wr", "identity": "strict", "steps": [{"name": "a"}]}');
SELECT taskq_start_workflow('sole', '{"n": 1.0}') AS w \gset
SELECT wr.fail(), taskq_start_workflow('sole', '{"n": 1}') > :w AS other;
SELECT wr.retry(:w, 'a'), wr.said(format('SELECT taskq_resolve(%s)', wr.task(:w, 'a'))), wr.seen(:w);
SELECT error_code FROM taskq_manage_many('retry', ARRAY[wr.task(:w, 'a')]);
SELECT wr.all(), wr.retry(:w, 'a'), wr.seen(:w), wr.said('SELECT taskq_start_workflow(''sole'', ''{"n": 1.00}'')');
SELECT taskq_start_workflow('sole', '{"n": 1}', on_conflict => 'return') = :w AS same, wr.all(), wr.seen(:w), taskq_start_workflow('sole', '{"n": 1}') > :w AS free, wr.all();
-- by key, with or without a window
SELECT taskq_start_workflow('join', key => 'k') AS w \gset
SELECT wr.fail(), wr.fail(), wr.seen(:w), taskq_start_workflow('join', key => 'k') > :w AS other, wr.retry(:w, 'a');
SELECT taskq_cancel_workflow(max(workflow_id)) FROM taskq.workflows;
SELECT wr.retry(:w, 'b'), wr.said('SELECT taskq_start_workflow(''join'', key => ''k'')'), taskq_start_workflow('join', key => 'l') > :w AS other_key;
SELECT wr.all();
SELECT taskq_define_workflow('{"name": "window", "version": "1", "queue": "wr", "identity": "key", "identity_window": "1 h", "steps": [{"name": "a"}]}');
SELECT taskq_start_workflow('window', key => 'k') AS w \gset
SELECT wr.fail(), wr.said('SELECT taskq_start_workflow(''window'', key => ''k'')'), taskq_start_workflow('window', key => 'k', on_conflict => 'return') = :w AS same, wr.retry(:w, 'a'), wr.all(), wr.seen(:w);
UPDATE taskq.workflow SET finished_at = finished_at - interval '59 min' WHERE workflow_id = :w;
SELECT wr.said('SELECT taskq_start_workflow(''window'', key => ''k'')');
UPDATE taskq.workflow SET finished_at = finished_at - interval '2 min' WHERE workflow_id = :w;
SELECT taskq_start_workflow('window', key => 'k') > :w AS free, wr.all();
-- a step that is resolved after its instance was cancelled does not change the instance
SELECT taskq_start_workflow('join', key => 'm') AS w \gset
SELECT wr.fail(), taskq_cancel_workflow(:w), wr.seen(:w);
SELECT wr.said(format('SELECT taskq_resolve(%s)', wr.task(:w, 'a'))), wr.seen(:w);
-- a retried step runs whatever its condition says, if it was filtered, or resolved after that; but
-- not a step that is dead because its condition could not be evaluated
SELECT taskq_define_workflow('{"name": "asked", "version": "1", "queue": "wr", "steps": [{"name": "f", "when": "1 == 2"}, {"name": "g", "when": "$x == 1"}, {"name": "h", "depends_on": ["f"]}]}');
SELECT taskq_start_workflow('asked') AS w \gset
SELECT wr.seen(:w), wr.said(format('SELECT taskq_resolve(%s, ''{"forced": 1}'')', wr.task(:w, 'f'))), wr.retry(:w, 'f'), wr.retry(:w, 'g'), wr.seen(:w);
SELECT step, state, result FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY 1;
SELECT wr.work(), wr.work(), wr.seen(:w);
SELECT * FROM taskq_check();
-- a blocked step that waits for nothing begins as if its last parent had ended: its condition is
-- evaluated, a signal that has arrived is taken; a step that waits for others is not retried
SELECT taskq_define_workflow('{"name": "unseen", "version": "1", "queue": "wr", "steps": [{"name": "a"}, {"name": "b"},
    {"name": "c", "depends_on": ["a", "b"]}, {"name": "d", "depends_on": ["a", "b"], "when": "1 == 2"}, {"name": "e", "type": "signal", "signal": {"name": "go"}, "depends_on": ["a", "b"]}]}');
SELECT taskq_start_workflow('unseen') AS w \gset
SELECT wr.work(), wr.retry(:w, 'c'), wr.retry(:w, 'e'), count(taskq_signal(:w, 'go', '1')) FROM (SELECT 1) one;
DELETE FROM taskq.edge WHERE workflow_id = :w AND child IN (SELECT step_id FROM taskq.task WHERE workflow_id = :w AND state = 2 /* blocked */);
SELECT problem, count(*) FROM taskq_check() GROUP BY 1 ORDER BY 1;
SELECT wr.retry(:w, 'c'), wr.retry(:w, 'd'), wr.retry(:w, 'e'), wr.seen(:w);
SELECT problem, count(*) FROM taskq_check() GROUP BY 1 ORDER BY 1;
SELECT wr.all(), wr.seen(:w);
-- a choice stands when limits are lowered, whatever is repaired
SELECT taskq_define_workflow('{"name": "lowered", "version": "1", "queue": "wr", "on_failure": "stop", "steps": [{"name": "other"}, {"name": "d", "type": "decision"},
  {"name": "x1", "depends_on": ["d"]}, {"name": "x2", "depends_on": ["d"]}, {"name": "late", "type": "decision"}, {"name": "y1", "depends_on": ["late"]}, {"name": "y2", "depends_on": ["late"]},
  {"name": "list", "type": "batch"}, {"name": "part", "type": "batch_worker", "depends_on": ["list"]}, {"name": "join", "type": "deferred", "depends_on": ["part"]}]}');
SELECT taskq_start_workflow('lowered') AS w \gset
CREATE TEMP TABLE held AS SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 10);
SELECT taskq_complete(task_id, token, result::jsonb) FROM held JOIN (VALUES ('d', '{"create": ["x1", "x2"]}'), ('list', '{"total": 3, "size": 1}')) r (step, result) USING (step);
SELECT taskq_fail(task_id, token, 'broken', false) FROM held WHERE step = 'other';
SELECT taskq_complete(task_id, token, '{"create": ["y1", "y2"]}') FROM held WHERE step = 'late';
SET taskq.max_batch_members = 2;
SET taskq.max_decision_steps = 1;
-- also for steps that are still to be created
SELECT wr.seen(:w);
SELECT wr.retry(:w, 'other'), wr.seen(:w);
SELECT wr.work(), wr.all(), wr.seen(:w);
-- but a new choice obeys them
SET client_min_messages = error;
SELECT taskq_start_workflow('lowered') AS w \gset
SELECT wr.work(), wr.work('{"create": ["x1", "x2"]}'), wr.seen(:w);
SET client_min_messages = warning;
RESET taskq.max_batch_members;
RESET taskq.max_decision_steps;
DROP TABLE held;
-- the first failure cancels steps that have not begun, the next one steps created since
SELECT taskq_define_workflow('{"name": "wr since", "version": "1", "queue": "wr", "on_failure": "stop", "steps": [
  {"name": "a", "priority": 1}, {"name": "b", "priority": 1}, {"name": "d", "type": "decision", "priority": 1}, {"name": "p"}, {"name": "x", "depends_on": ["d"]}, {"name": "y", "depends_on": ["d"]}]}');
SELECT taskq_start_workflow('wr since') AS w \gset
CREATE TEMP TABLE held AS SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 3);
CREATE FUNCTION wr.dies(name text) RETURNS text LANGUAGE sql AS $$ SELECT taskq_fail(task_id, token, 'broken', false) FROM held WHERE step = name $$;
SELECT wr.dies('a'), wr.seen(:w), wr.retry(:w, 'p'), wr.seen(:w), wr.dies('b'), wr.seen(:w);
-- steps that are chosen after the failures are repaired were created since
SELECT wr.retry(:w, 'a'), wr.retry(:w, 'b'), wr.seen(:w);
SELECT wr.fail(), wr.seen(:w), wr.retry(:w, 'p'), wr.fail(), wr.seen(:w);
SELECT taskq_cancel_workflow(:w);
TRUNCATE held;
SELECT taskq_start_workflow('wr since') AS w \gset
INSERT INTO held SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 4);
SELECT wr.dies('a'), wr.seen(:w), taskq_complete(task_id, token, '{"create": ["x"]}') FROM held WHERE step = 'd';
SELECT wr.seen(:w), wr.retry(:w, 'a'), wr.seen(:w), wr.fail(), wr.seen(:w);
SELECT taskq_cancel_workflow(:w);
SELECT taskq_complete(task_id, token) FROM held WHERE step IN ('b', 'p');
-- the same for members of a batch
TRUNCATE held;
SELECT taskq_define_workflow('{"name": "wr parts", "version": "1", "queue": "wr", "steps": [{"name": "b", "type": "batch"}, {"name": "m", "type": "batch_worker", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('wr parts') AS w \gset
SELECT wr.work('{"total": 4, "size": 1}');
INSERT INTO held SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 3);
SELECT wr.dies('m_001'), wr.seen(:w), wr.retry(:w, 'm_004'), wr.seen(:w), wr.dies('m_002'), wr.seen(:w);
SELECT taskq_cancel_workflow(:w);
SELECT taskq_complete(task_id, token) FROM held WHERE step = 'm_003';
-- a failed instance changes only when a step can begin, or no failure is left
TRUNCATE held;
SELECT taskq_define_workflow('{"name": "wr rest", "version": "1", "queue": "wr", "identity": "key", "steps": [
  {"name": "a"}, {"name": "b"}, {"name": "c", "depends_on": ["a", "b"]}, {"name": "e", "depends_on": ["b"]}, {"name": "o"}]}');
SELECT taskq_start_workflow('wr rest', key => 'k') AS w \gset
SELECT wr.fail(), wr.fail(), wr.fail(), wr.seen(:w);
CREATE TEMP TABLE ended AS SELECT * FROM taskq.workflow WHERE workflow_id = :w;
CREATE FUNCTION wr.changed() RETURNS bool LANGUAGE sql AS $$ SELECT w.state <> e.state OR w.finished_at IS DISTINCT FROM e.finished_at FROM ended e JOIN taskq.workflow w USING (workflow_id) $$;
SELECT taskq_resolve(wr.task(:w, 'a'));
SELECT wr.seen(:w), wr.changed();
SELECT taskq_start_workflow('wr rest', key => 'k') AS other \gset
SELECT wr.said(format('SELECT taskq_resolve(%s)', wr.task(:w, 'o'))), wr.seen(:w), taskq_cancel_workflow(:other);
SELECT taskq_resolve(wr.task(:w, 'o'));
SELECT wr.seen(:w), wr.changed();
SELECT taskq_resolve(wr.task(:w, 'b'));
SELECT wr.seen(:w), wr.changed(), wr.all(), wr.seen(:w);
SELECT taskq_start_workflow('wr rest', key => 'k') AS w \gset
SELECT wr.fail(), wr.work(), wr.fail(), wr.all(), wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'a'));
SELECT wr.seen(:w), wr.all(), wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'o'));
SELECT wr.seen(:w);
-- also if a decision that is resolved has chosen nothing
SELECT taskq_define_workflow('{"name": "wr none", "version": "1", "queue": "wr", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "o"}]}');
SELECT taskq_start_workflow('wr none') AS w \gset
SELECT wr.fail(), wr.fail(), wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'd'));
SELECT wr.seen(:w);
-- repair of the last failure of a batch restores its members, whatever has failed in another batch
SELECT taskq_define_workflow('{"name": "wr two", "version": "1", "queue": "wr", "steps": [{"name": "b", "type": "batch"}, {"name": "m", "type": "batch_worker", "depends_on": ["b"]},
  {"name": "c", "type": "batch", "priority": 1}, {"name": "n", "type": "batch_worker", "depends_on": ["c"]}]}');
SELECT taskq_start_workflow('wr two') AS w \gset
SELECT wr.work('{"total": 2, "size": 1}'), wr.work('{"total": 3, "size": 1}');
INSERT INTO held SELECT step, task_id, token FROM taskq_claim('wr', max_tasks => 4);
SELECT wr.seen(:w), wr.dies('m_001'), wr.dies('m_002'), wr.dies('n_001'), wr.dies('n_002'), wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'm_001'));
SELECT wr.seen(:w);
SELECT taskq_resolve(wr.task(:w, 'm_002'));
SELECT wr.seen(:w);
SELECT taskq_cancel_workflow(workflow_id) FROM taskq.workflow WHERE workflow_id = :w AND state = 0;
-- in an inner instance: the step that waits for it has ended once
SELECT taskq_define_workflow('{"name": "wr outer", "version": "1", "queue": "wr", "steps": [{"name": "i", "type": "workflow", "workflow": {"name": "wr none"}}]}');
SELECT taskq_start_workflow('wr outer') AS w \gset
SELECT max(workflow_id) AS inner FROM taskq.workflow \gset
SELECT wr.work('{"create": ["x"]}'), wr.fail(), wr.fail(), wr.seen(:w), wr.seen(:inner);
SELECT taskq_resolve(wr.task(:inner, 'x'));
SELECT wr.seen(:w), wr.seen(:inner), to_state, reason FROM taskq_timeline(workflow_id => :w) WHERE step = 'i' ORDER BY at, to_state;
SELECT taskq_resolve(wr.task(:inner, 'o'));
SELECT wr.seen(:w), wr.seen(:inner);
-- a step that was claimed and waits for its key continues
TRUNCATE held;
SELECT taskq_create_queue('wr turns', '{"key_policy": "serial", "order": "lifo"}');
SELECT taskq_define_workflow('{"name": "wr turn", "version": "1", "queue": "wr turns", "on_failure": "stop", "steps": [{"name": "a", "key": "k"}, {"name": "b"}]}');
SELECT taskq_start_workflow('wr turn') AS w \gset
INSERT INTO held SELECT step, task_id, token FROM taskq_claim('wr turns', max_tasks => 2);
SELECT taskq_submit('wr turns', key => 'k') AS newer \gset
SELECT taskq_release(task_id, token) FROM held WHERE step = 'a';
SELECT wr.seen(:w), wr.dies('b'), wr.seen(:w);
SELECT taskq_cancel(:newer), wr.seen(:w), taskq_cancel_workflow(:w);
SELECT * FROM taskq_check();
DROP SCHEMA wr CASCADE;

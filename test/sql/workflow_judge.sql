-- Workflows: steps that end before those on which they depend, all in one transaction, and
-- instances in error that continue after all.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wj;
CREATE FUNCTION wj.task(wf bigint, wanted text) RETURNS bigint LANGUAGE sql AS
$$ SELECT s.task_id FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = wanted $$;
-- the state that is shown, with the steps, and that of the row: 0 is live
CREATE FUNCTION wj.seen(wf bigint) RETURNS text LANGUAGE sql AS $$
    SELECT concat(w.state, ' (' || w.reason || ')', ', ', w.steps_done, ' of ', w.steps_total, ': ',
                  (SELECT string_agg(concat_ws(' ', s.step, s.state, nullif(s.parents_left, 0)), ', ' ORDER BY s.step)
                     FROM taskq.workflow_steps s WHERE s.workflow_id = wf),
                  '; ', r.state, CASE WHEN r.finished_at IS NOT NULL THEN ' ended' END, ' ' || w.result::text)
      FROM taskq.workflows w JOIN taskq.workflow r USING (workflow_id) WHERE w.workflow_id = wf
$$;
-- the next ready step ends
CREATE FUNCTION wj.work(failing boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wj');
    IF failing THEN
        PERFORM taskq_fail(c.task_id, c.token, 'no', retryable => false);
    ELSIF c.task_id IS NOT NULL THEN
        PERFORM taskq_complete(c.task_id, c.token, jsonb_build_object('from', c.step));
    END IF;
    RETURN c.step;
END
$$;
SELECT taskq_define_workflow('{"name": "judge chain", "version": "1", "queue": "wj", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_define_workflow('{"name": "judge diamond", "version": "1", "queue": "wj", "steps": [
  {"name": "a"}, {"name": "b"}, {"name": "c", "depends_on": ["a", "b"]}, {"name": "d", "depends_on": ["c"]}]}');

-- a step is resolved before its parent has ended: its child begins, once; the instance ends with
-- the last of them, whichever it is
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT taskq_resolve(wj.task(:w, 'b'), '"early"'), wj.seen(:w);
SELECT task_id AS t, token AS k, step FROM taskq_claim('wj') \gset a_
SELECT wj.work(), wj.seen(:w);
SELECT taskq_complete(:a_t, :a_k), wj.seen(:w);
SELECT wj.work(), count(*) AS edges FROM taskq.edge WHERE workflow_id = :w;
-- the last step of all
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT taskq_resolve(wj.task(:w, 'c')), wj.seen(:w);
SELECT wj.work(), wj.work(), wj.seen(:w);
-- one of two parents; both of them
SELECT taskq_start_workflow('judge diamond') AS w \gset
SELECT taskq_resolve(wj.task(:w, 'c')), wj.seen(:w);
SELECT wj.work(), wj.seen(:w);
SELECT wj.work(), wj.seen(:w);
SELECT wj.work(), wj.seen(:w);
SELECT taskq_start_workflow('judge diamond') AS w \gset
SELECT taskq_resolve(wj.task(:w, 'd')), taskq_resolve(wj.task(:w, 'c')), wj.seen(:w);
SELECT wj.work(), wj.work(), wj.seen(:w);
-- its parent dies after all
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT taskq_resolve(wj.task(:w, 'b')), wj.work(true), wj.seen(:w);
SELECT wj.work(), wj.seen(:w);
SELECT taskq_retry(wj.task(:w, 'a')), wj.seen(:w);
SELECT wj.work(), wj.seen(:w);

-- the instance is in error, and a step other than the failed one continues
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT wj.work(true), wj.seen(:w);
SELECT taskq_resolve(wj.task(:w, 'b')), wj.seen(:w);
SELECT wj.work(), wj.seen(:w);
SELECT taskq_resolve(wj.task(:w, 'a')), wj.seen(:w);
-- suspended, and resumed
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT wj.work(true), taskq_hold(wj.task(:w, 'c'), 'later'), wj.seen(:w);
SELECT taskq_cancel(wj.task(:w, 'c')), wj.seen(:w);
SELECT taskq_retry(wj.task(:w, 'c')), wj.seen(:w);
SELECT taskq_hold(wj.task(:w, 'c')), taskq_retry(wj.task(:w, 'c')), wj.seen(:w);
SELECT taskq_retry(wj.task(:w, 'a')), wj.seen(:w);
SELECT wj.work(), wj.work(), wj.work(), wj.seen(:w);

-- begun, claimed, and ended by one transaction
BEGIN;
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT wj.work(), wj.work(), wj.work(), wj.seen(:w);
COMMIT;
SELECT wj.seen(:w);
BEGIN;
SELECT taskq_start_workflow('judge diamond') AS w \gset
SAVEPOINT one;
SELECT wj.work(), wj.work(true), wj.seen(:w);
ROLLBACK TO one;
SELECT wj.seen(:w);
SELECT wj.work();
SAVEPOINT two;
SELECT wj.work(true);
RELEASE two;
SELECT wj.seen(:w);
SAVEPOINT three;
SELECT taskq_retry(wj.task(:w, 'b')), wj.work(), wj.work(), wj.seen(:w);
ROLLBACK TO three;
SELECT wj.seen(:w);
SELECT taskq_retry(wj.task(:w, 'b')), wj.work(), wj.work(), wj.work(), wj.seen(:w);
COMMIT;
SELECT wj.seen(:w);
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT wj.work(), wj.work(true), wj.seen(:w);
SELECT taskq_retry(wj.task(:w, 'b')), wj.work(), wj.work(), wj.seen(:w);
COMMIT;
SELECT wj.seen(:w);
BEGIN;
SELECT taskq_start_workflow('judge chain') AS w \gset
SELECT wj.work(), wj.work(), wj.work();
ROLLBACK;
SELECT wj.seen(:w), wj.work();

-- a chosen step that a failure holds up is still to be created; a step that was not chosen is
-- skipped
CREATE FUNCTION wj.held(chosen jsonb, batches jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    w bigint := taskq_start_workflow('judge held');
    c taskq.claimed;
BEGIN
    FOR c IN SELECT * FROM taskq_claim('wj', max_tasks => 3) ORDER BY step LOOP
        IF c.step = 'a' THEN
            PERFORM taskq_fail(c.task_id, c.token, 'no', retryable => false);
        ELSE
            PERFORM taskq_complete(c.task_id, c.token, CASE WHEN c.step = 'd' THEN chosen ELSE batches END);
        END IF;
    END LOOP;
    RETURN w;
END
$$;
SELECT taskq_define_workflow('{"name": "judge held", "version": "1", "queue": "wj", "on_failure": "stop", "steps": [{"name": "a"},
  {"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "x2", "depends_on": ["x"]}, {"name": "y", "depends_on": ["d"]}, {"name": "y2", "type": "decision", "depends_on": ["y"]},
  {"name": "y3", "depends_on": ["y2"]}, {"name": "j", "type": "deferred", "depends_on": ["x2", "y"]},
  {"name": "m", "type": "batch"}, {"name": "part", "type": "batch_worker", "depends_on": ["m"]}, {"name": "n", "type": "deferred", "depends_on": ["part"]}]}');
SELECT wj.held('{"create": ["x"]}', '{"batches": [{"n": 1}, {"n": 2}]}') AS w \gset
SELECT wj.seen(:w);
SELECT line FROM unnest(string_to_array(taskq_workflow_graph(:w, 'mermaid'), E'\n')) line WHERE line ~ '\m(x|x2|y|y2|y3|j|part|n)\M.*:::';
SELECT step, members FROM taskq.batch_progress WHERE workflow_id = :w;
SELECT wj.seen(wj.held('{"create": []}', NULL));
SELECT wj.held('{"create": ["x", "y"]}', '{"batches": []}') AS w2 \gset
SELECT wj.seen(:w2);
SELECT step, members FROM taskq.batch_progress WHERE workflow_id = :w2;
SELECT taskq_retry(wj.task(:w, 'a'));
SELECT wj.seen(:w);
SELECT step, members FROM taskq.batch_progress WHERE workflow_id = :w;

-- in a cancelled instance, chosen steps are not created, and others not skipped
SELECT taskq_define_workflow('{"name": "cut", "version": "1", "queue": "wj cut", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "y", "depends_on": ["d"]},
  {"name": "list", "type": "batch"}, {"name": "part", "type": "batch_worker", "depends_on": ["list"]}, {"name": "join", "type": "deferred", "depends_on": ["part"]}]}');
SELECT taskq_start_workflow('cut') AS w \gset
CREATE TABLE wj.held AS SELECT step, task_id, token FROM taskq_claim('wj cut', max_tasks => 2);
SELECT taskq_cancel_workflow(:w);
SELECT taskq_complete(task_id, token, CASE step WHEN 'd' THEN '{"create": ["x"]}'::jsonb ELSE '{"total": 3, "size": 1}' END) FROM wj.held;
SELECT wj.seen(:w), taskq_workflow(:w) -> 'counts' ->> 'not_created' AS not_created, taskq_workflow(:w) -> 'counts' ->> 'skipped' AS skipped;

-- why an instance without a dead step has failed: the step that was cancelled first
SELECT taskq_define_workflow('{"name": "judge stop", "version": "1", "queue": "wj stop", "on_failure": "stop", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('judge stop') AS w \gset
SELECT taskq_cancel(wj.task(:w, 'c'), 'no longer wanted'), wj.seen(:w);
SELECT step, reason FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY step;

SELECT * FROM taskq_check();
DROP SCHEMA wj CASCADE;

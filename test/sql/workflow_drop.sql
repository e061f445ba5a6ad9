-- Workflows: a queue with steps is dropped.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wd;
SELECT coalesce(max(workflow_id), 0) AS before FROM taskq.workflow \gset
CREATE FUNCTION wd.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE command INTO answer;
    RETURN coalesce(nullif(answer, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, '\d+', 'N', 'g');
END
$$;
CREATE FUNCTION wd.work(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim(q);
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, to_jsonb(c.step || ' result'));
    RETURN c.step || ' ' || c.dependency_results;
END
$$;
CREATE FUNCTION wd.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT w.state || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf) || string_agg(s.step || ' ' || coalesce(s.state, '-') || coalesce(' ' || s.reason, ''), ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
CREATE FUNCTION wd.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT s.task_id FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = name $$;
SELECT taskq_create_queue('stays'), taskq_create_queue('goes');
SELECT taskq_define_workflow('{"name": "w", "version": "1", "queue": "stays", "steps": [{"name": "a", "queue": "goes"}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "queue": "goes", "depends_on": ["b"]}, {"name": "d"}]}');
SELECT taskq_define_workflow('{"name": "halts", "version": "1", "queue": "stays", "on_failure": "stop", "steps": [{"name": "a", "queue": "goes"}, {"name": "d"}]}');

-- steps that have ended there stay, and later steps can read them
SELECT taskq_start_workflow('w') AS w \gset
SELECT wd.work('goes');
SELECT wd.said('SELECT taskq_drop_queue(''goes'')');
SELECT count(*) FROM taskq_submit_many('goes', ARRAY['1', '2']::jsonb[]);
SELECT taskq_start_workflow('halts') AS s \gset
SELECT taskq_start_workflow('w') AS running \gset
SELECT count(*) FROM taskq_claim('goes', max_tasks => 4);
SELECT task_id AS t, token AS k FROM taskq_get(wd.task(:running, 'a')) \gset
-- without force nothing happens; nor after a rollback
SELECT wd.said('SELECT taskq_drop_queue(''goes'')');
BEGIN;
SELECT taskq_drop_queue('goes', true);
SELECT wd.seen(:w), wd.seen(:s), wd.seen(:running);
ROLLBACK;
SELECT wd.seen(:w), wd.seen(:s), wd.seen(:running);
SELECT taskq_drop_queue('goes', true);
SELECT wd.seen(:w), wd.seen(:s), wd.seen(:running);
SELECT message FROM taskq_timeline(workflow_id => :w) WHERE to_state = 'cancelled';
-- the claim is void, the instance continues as far as it can, and then ends
SELECT wd.said(format('SELECT taskq_complete(%s, %s)', :t, :k));
SELECT wd.work('stays'), wd.work('stays'), wd.work('stays'), wd.seen(:w), wd.seen(:running);
SELECT state, steps_total, steps_done, steps_dead FROM taskq.workflows WHERE workflow_id > :before ORDER BY workflow_id;
SELECT * FROM taskq_check();
-- steps without a queue: visible with their instance, but no call can manage them
SELECT c, wd.said(format(c, wd.task(:w, 'c'))) FROM unnest(ARRAY['SELECT taskq_retry(%s)', 'SELECT taskq_resolve(%s)', 'SELECT task_id FROM taskq_get(%s)', 'SELECT error_code FROM taskq_manage_many(''retry'', ARRAY[%s]::bigint[])',
  'SELECT taskq_ancestor_results(%s)', 'SELECT taskq_checkpoints(%s)', 'SELECT taskq_explain(%s)', 'SELECT count(*) > 0 FROM taskq_timeline(%s)']) c;
SELECT step, result FROM taskq.workflow_steps WHERE workflow_id = :w AND step = 'a';
SELECT taskq_ancestor_results(wd.task(:w, 'b'));
SELECT position('cancelled' IN taskq_workflow_graph(:w)) > 0 AS drawn, taskq_workflow(:w) ->> 'state' AS state;
SELECT count(*), count(queue) FROM taskq.tasks WHERE workflow_id = :w;
-- a new queue of that name is another queue
SELECT taskq_create_queue('goes');
SELECT wd.said(format('SELECT taskq_retry(%s)', wd.task(:w, 'c')));
SELECT taskq_start_workflow('halts') AS s2 \gset
SELECT wd.work('goes'), wd.work('stays'), wd.seen(:s2);
SELECT taskq_drop_queue('goes', true);
SELECT wd.seen(:s2), wd.said(format('SELECT taskq_cancel_workflow(%s)', :w));
-- under stop, waiting steps in other queues are cancelled with it; a batch, a decision, a workflow
-- inside
SELECT taskq_create_queue('goes');
SELECT taskq_define_workflow('{"name": "under", "version": "1", "queue": "stays", "steps": [{"name": "i"}]}');
SELECT taskq_define_workflow('{"name": "beyond", "version": "1", "queue": "goes", "steps": [{"name": "sub", "type": "workflow", "workflow": {"name": "under"}}, {"name": "s", "type": "signal", "signal": {"name": "go"}},
  {"name": "t", "type": "timer", "timer": {"after": "1 h"}}, {"name": "d", "type": "decision", "queue": "stays"}, {"name": "x", "depends_on": ["d"]}]}');
SELECT taskq_start_workflow('beyond') AS w \gset
SELECT taskq_drop_queue('goes', true), wd.seen(:w);
SELECT name, state FROM taskq.workflows WHERE name IN ('under', 'beyond') ORDER BY workflow_id;
-- steps that are created later create the queue again
SELECT taskq_complete(task_id, token, '{"create": ["x"]}') FROM taskq_claim('stays');
SELECT wd.seen(:w), wd.work('goes'), wd.seen(:w);
-- also if queues are not created automatically: the instance was started with it
SELECT taskq_create_queue('again');
SELECT taskq_define_workflow('{"name": "chooses", "version": "1", "queue": "stays", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "queue": "again", "depends_on": ["d"]}]}');
SELECT taskq_define_workflow('{"name": "undoes", "version": "1", "queue": "stays", "on_failure": "compensate", "steps": [
  {"name": "a", "compensate": {"handler": "undo", "queue": "again"}}, {"name": "b", "depends_on": ["a"], "max_attempts": 1}]}');
SELECT taskq_start_workflow('chooses') AS w \gset
SELECT taskq_drop_queue('again');
SET taskq.auto_create_queues = off;
SELECT taskq_complete(task_id, token, '{"create": ["x"]}') FROM taskq_claim('stays');
SELECT wd.seen(:w), wd.work('again'), wd.seen(:w), wd.said('SELECT taskq_submit(''nowhere'')');
SELECT taskq_drop_queue('again', true);
RESET taskq.auto_create_queues;
-- an instance that cannot continue holds up no other
SELECT taskq_start_workflow('undoes') AS w \gset
SELECT wd.work('stays'), taskq_drop_queue('again');
SELECT taskq_submit('stays', '"other"', key => 'other') AS other \gset
SELECT step, key FROM taskq_claim('stays', max_tasks => 2, lease => '1 s');
CREATE FUNCTION wd.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no more queues'; END$$;
CREATE TRIGGER refuse BEFORE INSERT ON taskq.queue FOR EACH ROW EXECUTE FUNCTION wd.refuse();
CREATE PROCEDURE wd.until(id bigint, wanted text) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 3000 LOOP
        PERFORM taskq_run_reapers();
        EXIT WHEN (taskq_get(id)).state = wanted;
        COMMIT;
        PERFORM pg_sleep(0.02);
    END LOOP;
END
$$;
CALL wd.until(:other, 'pending');
SELECT state FROM taskq_get(:other);
SELECT count(*) > 0 AS ran FROM taskq_run_reapers();
SELECT wd.seen(:w);
DROP TRIGGER refuse ON taskq.queue;
CALL wd.until(wd.task(:w, 'b'), 'dead');
SELECT wd.seen(:w), wd.work('again'), wd.seen(:w), taskq_drop_queue('again', true), taskq_cancel(:other);
-- the steps of the dropped queue cannot be repaired
SELECT taskq_define_workflow('{"name": "loses", "version": "1", "queue": "stays", "steps": [{"name": "a"}, {"name": "b", "queue": "gone", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('loses') AS w \gset
SELECT taskq_drop_queue('gone', true), wd.work('stays');
SELECT wd.seen(:w), (SELECT jsonb_agg(regexp_replace(n, '\d+', 'N')) FROM jsonb_array_elements_text(taskq_workflow(:w) -> 'next') n) AS next;
-- kept rows are removed with their instance
UPDATE taskq.workflow SET expires_at = now() WHERE finished_at IS NOT NULL AND workflow_id > :before;
SELECT acted > 0 AS acted FROM taskq_run_reapers() WHERE reaper = 'workflows';
SELECT (SELECT count(*) FROM taskq.workflow WHERE workflow_id > :before) AS workflows, (SELECT count(*) FROM taskq.archive WHERE workflow_id > :before) AS steps;
SELECT queue, pending, running, done, dead FROM taskq.queues WHERE queue IN ('stays', 'goes') ORDER BY 1;
SELECT * FROM taskq_check();
DROP SCHEMA wd CASCADE;

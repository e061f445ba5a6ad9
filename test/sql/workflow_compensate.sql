-- Compensation: what workflows have done is undone.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA undo;
-- what a worker is given; the result names its step
CREATE FUNCTION undo.work(result jsonb DEFAULT NULL, queue text DEFAULT 'undo') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim($2);
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('of', c.step)));
    RETURN concat_ws(' ', c.step, c.handler, c.config, coalesce(c.payload::text, '(null)'), c.input, c.dependency_results);
END
$$;
CREATE FUNCTION undo.fail(queue text DEFAULT 'undo', retryable boolean DEFAULT false) RETURNS text LANGUAGE sql AS
$$ SELECT step || ' ' || taskq_fail(task_id, token, 'broken', retryable) FROM taskq_claim(queue) $$;
CREATE FUNCTION undo.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT concat_ws(' ', w.name, w.state, w.reason, w.steps_done || '/' || w.steps_total) || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf)
     || string_agg(s.step || ' ' || coalesce(s.state, '-') || coalesce(' (' || s.reason || ')', ''), ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
CREATE FUNCTION undo.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT task_id FROM taskq.workflow_steps WHERE workflow_id = wf AND step = name $$;

SELECT taskq_define_workflow('{"name": "undo trip", "version": "1", "queue": "undo", "on_failure": "compensate", "steps": [
  {"name": "flight", "handler": "book", "compensate": {"handler": "cancel", "config": {"fee": 5}}},
  {"name": "hotel", "depends_on": ["flight"], "compensate": {"handler": "cancel hotel", "queue": "undo2"}},
  {"name": "note", "depends_on": ["flight"]},
  {"name": "pay", "depends_on": ["hotel", "note"], "compensate": {"handler": "pay back"}},
  {"name": "send", "depends_on": ["pay"]}]}');

-- if nothing fails, nothing is compensated
SELECT taskq_start_workflow('undo trip', '{"n": 1}') AS w \gset
SELECT undo.work() FROM generate_series(1, 5);
SELECT undo.seen(:w);
-- in reverse order of their ends, one after the other
SELECT taskq_start_workflow('undo trip', '{"n": 2}', correlation_id => 'c', headers => '{"h": 1}', priority => 7) AS w \gset
SELECT undo.work('{"seat": 3}');
SELECT undo.work('{"room": 4}');
SELECT undo.work();
SELECT undo.work('{"paid": 5}');
SELECT undo.seen(:w);
SELECT undo.fail();
SELECT undo.seen(:w);
SELECT unnest(string_to_array(taskq_workflow_graph(:w, 'mermaid'), E'\n')) OFFSET 2 LIMIT 16;
SELECT step, type, state, attempt, parents_left, depends_on, task_id IS NULL AS none FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY step COLLATE "C";
SELECT undo.work('1');
SELECT undo.seen(:w);
-- into its own queue
SELECT undo.work('2'), undo.work('2', 'undo2');
SELECT undo.seen(:w);
SELECT step, priority, correlation_id, headers FROM taskq.tasks WHERE workflow_id = :w AND step LIKE 'compensate:%' ORDER BY task_id;
SELECT undo.work('3'), undo.work(), undo.work(NULL, 'undo2');
SELECT undo.seen(:w);
SELECT step, state, result FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY finished_at, step;
SELECT state, result FROM taskq_workflow(:w), jsonb_to_record(taskq_workflow) AS (state text, result jsonb);
-- no step was done
SELECT taskq_start_workflow('undo trip') AS w \gset
SELECT undo.fail();
SELECT undo.seen(:w);

-- running steps and steps to be retried may end first; steps that have not begun are cancelled
SELECT taskq_define_workflow('{"name": "undo wide", "version": "1", "queue": "undo", "on_failure": "compensate", "steps": [
  {"name": "a", "compensate": {"handler": "undo"}}, {"name": "b", "compensate": {"handler": "undo"}}, {"name": "c", "compensate": {"handler": "undo"}, "retry": "fixed", "retry_base": "0.001 s"},
  {"name": "d", "compensate": {"handler": "undo"}},
  {"name": "e", "compensate": {"handler": "undo"}}]}');
SELECT taskq_start_workflow('undo wide') AS w \gset
CREATE TABLE undo.held AS SELECT * FROM taskq_claim('undo', max_tasks => 4);
CREATE FUNCTION undo.complete(name text) RETURNS text LANGUAGE sql AS
$$ SELECT taskq_complete(task_id, token, to_jsonb(step)) FROM undo.held WHERE step = name $$;
SELECT undo.complete('b');
SELECT step, taskq_fail(task_id, token, 'broken', CASE WHEN step = 'a' THEN false END) FROM undo.held WHERE step IN ('a', 'c') ORDER BY step;
SELECT undo.seen(:w);
SELECT undo.complete('d');
SELECT undo.seen(:w);
SELECT pg_sleep(0.01);
SELECT undo.work();
SELECT undo.seen(:w);
SELECT undo.work(), undo.work();
SELECT undo.work(), undo.work();
SELECT undo.seen(:w);

-- a compensation is retried as its queue says; one that dies ends the instance
SELECT taskq_alter_queue('undo', '{"retry": "fixed", "retry_base": "0.001 s", "max_attempts": 3}');
SELECT taskq_start_workflow('undo trip', '{"n": 3}') AS w \gset
SELECT undo.work(), undo.work(), undo.work(), undo.work();
SELECT undo.fail();
SELECT undo.fail(retryable => true);
SELECT undo.seen(:w);
SELECT pg_sleep(0.01);
SELECT undo.fail(retryable => true);
SELECT pg_sleep(0.01);
SELECT undo.fail(retryable => true);
SELECT undo.seen(:w);
SELECT undo.work(), undo.work(NULL, 'undo2');
SELECT state FROM taskq_get(undo.task(:w, 'compensate:pay'));
-- no step can be retried, and nothing can be cancelled now
SELECT s, t.said(format('SELECT taskq_retry(%s)', undo.task(:w, s))), t.said(format('SELECT taskq_resolve(%s)', undo.task(:w, s)))
  FROM unnest(ARRAY['send', 'pay']) s;
SELECT t.said(format('SELECT taskq_cancel_workflow(%s)', :w));
-- the compensation can be retried, and the others follow
SELECT taskq_retry(undo.task(:w, 'compensate:pay'));
SELECT undo.seen(:w);
SELECT s, t.said(format('SELECT taskq_retry(%s)', undo.task(:w, s))), t.said(format('SELECT taskq_resolve(%s)', undo.task(:w, s)))
  FROM unnest(ARRAY['send', 'pay']) s;
SELECT t.said(format('SELECT taskq_cancel_workflow(%s)', :w));
SELECT t.said($$SELECT taskq_undefine_workflow('undo trip')$$);
SELECT undo.work();
SELECT t.said(format('SELECT taskq_retry(%s)', undo.task(:w, 'compensate:pay')));
-- resolved by hand while it is live, cancelled, and resolved afterwards
SELECT taskq_resolve(undo.task(:w, 'compensate:hotel'));
SELECT undo.seen(:w);
SELECT taskq_cancel(undo.task(:w, 'compensate:flight'));
SELECT undo.seen(:w);
SELECT taskq_retry(undo.task(:w, 'compensate:flight'));
SELECT undo.seen(:w);
SELECT undo.fail();
SELECT taskq_resolve(undo.task(:w, 'compensate:flight'));
SELECT undo.seen(:w);
SELECT t.said(format('SELECT taskq_retry(%s)', undo.task(:w, 'send')));

-- while a step is live, a failed step can be retried as usual
SELECT taskq_start_workflow('undo wide') AS w \gset
TRUNCATE undo.held;
INSERT INTO undo.held SELECT * FROM taskq_claim('undo', max_tasks => 2);
SELECT taskq_fail(task_id, token, 'broken', false) FROM undo.held WHERE step = 'a';
SELECT undo.seen(:w);
SELECT taskq_retry(undo.task(:w, 'a'));
SELECT undo.seen(:w);
SELECT undo.complete('b');
SELECT undo.work(), undo.work(), undo.work(), undo.work();
SELECT undo.seen(:w);
-- a step that was resolved by hand is compensated, too, with the given result
SELECT taskq_start_workflow('undo trip') AS w \gset
SELECT undo.work();
SELECT taskq_resolve(undo.task(:w, 'hotel'), '{"room": "by hand"}');
SELECT undo.work(), undo.work(), undo.fail();
SELECT undo.work(), undo.work(NULL, 'undo2'), undo.work();
SELECT undo.seen(:w);
-- a cancelled step is a failure like any other
SELECT taskq_start_workflow('undo trip') AS w \gset
SELECT undo.work();
SELECT taskq_cancel(undo.task(:w, 'hotel'));
SELECT undo.seen(:w);
SELECT undo.work();
SELECT undo.seen(:w);
-- a cancelled instance is not compensated
SELECT taskq_start_workflow('undo trip') AS w \gset
SELECT undo.work();
SELECT taskq_cancel_workflow(:w);
SELECT undo.seen(:w);
SELECT undo.work();

-- each member of a batch is compensated; dead members are not; a step whose condition was not true
-- has done nothing
SELECT taskq_define_workflow('{"name": "undo parts", "version": "1", "queue": "undo", "on_failure": "compensate", "steps": [
  {"name": "b", "type": "batch", "failure_strategy": "continue_on_failure", "compensate": {"handler": "undo batch"}},
  {"name": "m", "type": "batch_worker", "depends_on": ["b"], "compensate": {"handler": "undo member"}},
  {"name": "j", "type": "deferred", "depends_on": ["m"], "compensate": {"handler": "undo join"}},
  {"name": "no", "depends_on": ["j"], "when": "false", "compensate": {"handler": "undo nothing"}},
  {"name": "end", "depends_on": ["no"]}]}');
SELECT taskq_start_workflow('undo parts', '{"n": 4}') AS w \gset
SELECT undo.work('{"batches": [{"cursor": 1}, {"cursor": 2}, {"cursor": 3}]}');
SELECT undo.work(), undo.fail(), undo.work();
SELECT undo.work(), undo.fail();
SELECT undo.seen(:w);
SELECT undo.work() FROM generate_series(1, 5);
SELECT undo.seen(:w);
SELECT count(*), count(*) FILTER (WHERE line ~ '^  c1_[13]\[') FROM unnest(string_to_array(taskq_workflow_graph(:w, 'mermaid'), E'\n')) line WHERE line ~ '^  c\d';
-- steps that a decision has created; those that it has not created do not exist
SELECT taskq_define_workflow('{"name": "undo chosen", "version": "1", "queue": "undo", "on_failure": "compensate", "steps": [
  {"name": "d", "type": "decision", "branches": [{"steps": ["x", "y"]}], "compensate": {"handler": "undo"}},
  {"name": "x", "depends_on": ["d"], "compensate": {"handler": "undo"}},
  {"name": "y", "depends_on": ["d"]},
  {"name": "z", "depends_on": ["d"], "compensate": {"handler": "undo"}},
  {"name": "w", "type": "decision", "depends_on": ["x"]},
  {"name": "w1", "depends_on": ["w"], "compensate": {"handler": "undo"}}]}');
SELECT taskq_start_workflow('undo chosen') AS w \gset
SELECT undo.work(), undo.fail();
SELECT undo.seen(:w);
SELECT undo.work(), undo.work(), undo.work();
-- if a decision ends after a failure, no step that it chooses begins
SELECT taskq_start_workflow('undo chosen') AS w \gset
SELECT undo.work();
TRUNCATE undo.held;
INSERT INTO undo.held SELECT * FROM taskq_claim('undo', max_tasks => 2);
SELECT taskq_fail(task_id, token, 'broken', false) FROM undo.held WHERE step = 'y';
SELECT taskq_complete(task_id, token, '{"create": ["w1"]}') FROM undo.held WHERE step = 'w';
SELECT undo.seen(:w);
SELECT undo.work(), undo.work(), undo.work();
-- a worker can compensate a step without a worker
SELECT taskq_define_workflow('{"name": "undo inner", "version": "1", "queue": "undo", "on_failure": "compensate", "steps": [
  {"name": "i1", "compensate": {"handler": "undo i1"}}, {"name": "i2", "depends_on": ["i1"]}]}');
SELECT taskq_define_workflow('{"name": "undo outer", "version": "1", "queue": "undo", "on_failure": "compensate", "steps": [
  {"name": "t", "type": "timer", "timer": {"after": "0 s"}, "compensate": {"handler": "undo timer"}},
  {"name": "s", "type": "signal", "depends_on": ["t"], "signal": {"name": "go"}, "compensate": {"handler": "undo signal"}},
  {"name": "sub", "type": "workflow", "depends_on": ["s"], "workflow": {"name": "undo inner"}, "compensate": {"handler": "undo sub"}},
  {"name": "sub2", "type": "workflow", "depends_on": ["sub"], "workflow": {"name": "undo inner"}, "compensate": {"handler": "undo sub"}}]}');
SELECT taskq_start_workflow('undo outer', '{"n": 5}') AS w \gset
SELECT taskq_signal(:w, 'go', '{"who": "me"}');
SELECT undo.work(), undo.work('"inner result"');
-- the inner instance is compensated before its step fails
SELECT undo.work(), undo.fail();
SELECT undo.seen(:w);
SELECT undo.seen(max(workflow_id)) FROM taskq.workflows WHERE parent_workflow_id = :w;
SELECT undo.work();
SELECT undo.seen(max(workflow_id)) FROM taskq.workflows WHERE parent_workflow_id = :w;
SELECT undo.seen(:w);
SELECT undo.work(), undo.work(), undo.work();
SELECT undo.seen(:w);
-- a compensation inside that has died, and is retried while the outer instance is compensated
SELECT taskq_start_workflow('undo outer', '{"n": 6}') AS w \gset
SELECT taskq_signal(:w, 'go');
SELECT undo.work(), undo.fail(), undo.fail();
SELECT max(workflow_id) AS child FROM taskq.workflows WHERE parent_workflow_id = :w \gset
SELECT undo.seen(:child), undo.seen(:w);
SELECT t.said(format('SELECT taskq_retry(%s)', undo.task(:child, 'compensate:i1')));
SELECT undo.seen(:child), undo.seen(:w);
SELECT undo.work(), undo.work(), undo.work();
SELECT undo.seen(:child), undo.seen(:w);

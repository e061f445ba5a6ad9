-- Instances of workflows whose retention is over are removed, with everything of their own.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wx;
CREATE FUNCTION wx.done(queue text DEFAULT 'wx') RETURNS text LANGUAGE sql AS
$$ SELECT step || coalesce(' ' || taskq_complete(task_id, token), '') FROM taskq_claim(queue) $$;
CREATE FUNCTION wx.fail(queue text DEFAULT 'wx') RETURNS text LANGUAGE sql AS
$$ SELECT step || ' ' || taskq_fail(task_id, token, 'broken', retryable => false) FROM taskq_claim(queue) $$;
CREATE FUNCTION wx.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT concat_ws(' ', w.name, w.state, w.reason) || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf)
     || string_agg(s.step || ' ' || coalesce(s.state, '-'), ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
CREATE FUNCTION wx.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT task_id FROM taskq.workflow_steps WHERE workflow_id = wf AND step = name $$;
CREATE FUNCTION wx.removed() RETURNS bigint LANGUAGE sql AS
$$ SELECT acted FROM taskq_run_reapers() WHERE reaper = 'workflows' $$;
CREATE FUNCTION wx.left(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT format('%s workflows, %s live and %s finished steps, %s edges, %s signals, %s timers, %s parts',
     (SELECT count(*) FROM taskq.workflow WHERE workflow_id = wf), (SELECT count(*) FROM taskq.task WHERE workflow_id = wf),
     (SELECT count(*) FROM taskq.archive WHERE workflow_id = wf), (SELECT count(*) FROM taskq.edge WHERE workflow_id = wf),
     (SELECT count(*) FROM taskq.signal WHERE workflow_id = wf),
     (SELECT count(*) FROM taskq.timer r WHERE NOT EXISTS (SELECT FROM taskq.tasks t WHERE t.task_id = r.task_id)),
     (SELECT count(*) FROM taskq.large l WHERE NOT EXISTS (SELECT FROM taskq.tasks t WHERE t.task_id = l.task_id))) $$;
SELECT taskq_create_queue('wx', '{"max_payload": 100000}'), taskq_create_queue('wx line', '{"key_policy": "serial"}'),
       taskq_create_queue('wx held', '{"key_policy": "serial_until_success"}');

-- an instance in error whose later steps still wait is removed with these steps
SELECT taskq_define_workflow('{"name": "wx broken", "version": "1", "queue": "wx", "retention": "0 s", "steps": [{"name": "a"}, {"name": "side"},
  {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b", "side"], "queue": "wx line", "key": "k"}, {"name": "d", "depends_on": ["c"]}]}');
SELECT taskq_start_workflow('wx broken', to_jsonb(repeat('x', 9000))) AS w \gset
SELECT taskq_update_task(wx.task(:w, 'b'), jsonb_build_object('reference', 'r', 'payload', repeat('y', 9000)));
SELECT taskq_submit('wx line', key => 'k') AS first \gset
SELECT wx.fail();
SELECT wx.removed(), wx.left(:w);
SELECT wx.done();
SELECT wx.seen(:w);
SELECT queue, pending, blocked, dead FROM taskq.queues WHERE queue IN ('wx', 'wx line') ORDER BY 1;
SELECT wx.removed(), wx.left(:w);
SELECT wx.removed();
SELECT queue, pending, blocked FROM taskq.queues WHERE queue IN ('wx', 'wx line') ORDER BY 1;
SELECT * FROM taskq_check();
-- its reference is free, its position in the key queue is released
SELECT taskq_submit('wx', reference => 'r') > 0 AS submitted, taskq_submit('wx line', key => 'k') > 0 AS second;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('wx line', max_tasks => 9);
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('wx line', max_tasks => 9);
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('wx', max_tasks => 9);

-- in several batches: from the first one on the instance is not visible, and is not restored
SELECT taskq_define_workflow(jsonb_build_object('name', 'wx wide', 'version', '1', 'queue', 'wx', 'retention', '0 s', 'identity', 'strict', 'identity_window', '0 s', 'steps',
  jsonb_build_array(jsonb_build_object('name', 'a')) || (SELECT jsonb_agg(jsonb_build_object('name', 's' || lpad(n::text, 4, '0'), 'depends_on', jsonb_build_array('a'))) FROM generate_series(1, 1200) n)));
SELECT taskq_start_workflow('wx wide') AS w \gset
SELECT wx.task(:w, 'a') AS a \gset
SELECT wx.fail();
SELECT wx.removed(), wx.left(:w), (SELECT blocked FROM taskq.queues WHERE queue = 'wx') AS blocked;
SELECT (SELECT count(*) FROM taskq.workflows WHERE workflow_id = :w) AS workflows, (SELECT count(*) FROM taskq.workflow_steps WHERE workflow_id = :w) AS steps,
       (SELECT count(*) FROM taskq.batch_progress WHERE workflow_id = :w) AS batches, taskq_undefine_workflow('wx wide') AS undefined;
SELECT t.said(format(c, :w, :a, (SELECT min(task_id) FROM taskq.task WHERE workflow_id = :w))) FROM unnest(ARRAY['SELECT taskq_retry(%2$s)', 'SELECT taskq_resolve(%2$s)', 'SELECT taskq_hold(%3$s)',
  'SELECT taskq_resolve(%3$s)', 'SELECT error_code FROM taskq_manage_many(''retry'', ARRAY[%2$s])', 'SELECT taskq_cancel_workflow(%1$s)', 'SELECT taskq_workflow(%1$s)', 'SELECT taskq_workflow_graph(%1$s)',
  'SELECT taskq_signal(%1$s, ''x'')', 'SELECT taskq_retry_all(''wx'')']) c;
SELECT * FROM taskq_check();
SELECT taskq_cancel(min(task_id)) FROM taskq.task WHERE workflow_id = :w;
SELECT wx.left(:w);
SELECT wx.removed(), wx.left(:w);
SELECT wx.removed(), wx.left(:w), (SELECT blocked FROM taskq.queues WHERE queue = 'wx') AS blocked;
SELECT wx.removed(), wx.left(:w);
SELECT wx.removed();
SELECT count(*) FROM taskq.template WHERE name = 'wx wide';
SELECT * FROM taskq_check();

-- signals, and timers of steps that did not wait until their time
SELECT taskq_define_workflow('{"name": "wx waits", "version": "1", "queue": "wx", "retention": "0 s", "steps": [{"name": "s", "type": "signal", "signal": {"name": "go", "timeout": "1 year"}},
  {"name": "t", "type": "timer", "timer": {"after": "1 year"}}, {"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('wx waits') AS w \gset
SELECT taskq_signal(:w, 'go', '1'), taskq_resolve(wx.task(:w, 't')), wx.fail();
SELECT wx.seen(:w);
SELECT count(*) AS timers FROM taskq.timer WHERE at > now() + interval '300 days';
SELECT wx.removed(), wx.left(:w);
SELECT count(*) AS timers FROM taskq.timer WHERE at > now() + interval '300 days';

-- an instance that was compensated, and one that could not be
SELECT taskq_define_workflow('{"name": "wx undo", "version": "1", "queue": "wx", "retention": "0 s", "on_failure": "compensate", "steps": [{"name": "a", "compensate": {"handler": "u"}},
  {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('wx undo') AS w \gset
SELECT wx.done(), wx.fail(), wx.removed(), wx.done();
SELECT wx.seen(:w);
SELECT wx.removed(), wx.left(:w);
SELECT taskq_start_workflow('wx undo') AS w \gset
SELECT wx.done(), wx.fail(), wx.fail();
SELECT wx.seen(:w);
SELECT wx.removed(), wx.left(:w);

-- the removal waits for running steps
SELECT taskq_define_workflow('{"name": "wx stopped", "version": "1", "queue": "wx", "retention": "0 s", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('wx stopped') AS w \gset
SELECT task_id AS a, token FROM taskq_claim('wx') \gset
SELECT taskq_cancel_workflow(:w), wx.removed(), wx.left(:w);
SELECT taskq_complete(:a, :token);
SELECT wx.removed(), wx.left(:w);

-- and for a dead step that holds its key, as long as it does
SELECT taskq_define_workflow('{"name": "wx holds", "version": "1", "queue": "wx held", "retention": "0 s", "steps": [{"name": "a", "key": "k"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('wx holds') AS w \gset
SELECT taskq_submit('wx held', key => 'k') AS next \gset
SELECT wx.fail('wx held');
SELECT wx.removed(), wx.left(:w), (taskq_get(:next)).state;
SELECT taskq_poison(wx.task(:w, 'a'));
SELECT wx.removed(), wx.left(:w), (taskq_get(:next)).state;
SELECT * FROM taskq_check();
DROP SCHEMA wx CASCADE;

--
-- workflow_explain: why a step does not run, and the state of an instance
--
SET datestyle = 'iso';
SELECT taskq_create_queue('we', '{"max_attempts": 1}'), taskq_create_queue('we other');
CREATE SCHEMA we;
GRANT USAGE ON SCHEMA we TO PUBLIC;
-- numbers of tasks as names of steps, those of instances as W, and points in time as AT
CREATE FUNCTION we.plain(words text, flow bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s record;
BEGIN
    words := regexp_replace(words, '\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?[+-]\d\d(:\d\d)?', 'AT', 'g');
    FOR s IN SELECT workflow_id, step, task_id FROM taskq.workflow_steps WHERE task_id IS NOT NULL ORDER BY task_id DESC LOOP
        words := regexp_replace(words, '(Task |taskq_\w+\()' || s.task_id || '\y', '\1<' || s.step || '>', 'g');
    END LOOP;
    words := regexp_replace(words, '(workflow |taskq_\w+\()' || flow || '\y', '\1W', 'g');
    RETURN regexp_replace(words, '(workflow |taskq_\w+\()\d+\y', '\1V', 'g');
END
$$;
CREATE FUNCTION we.says(flow bigint, name text) RETURNS text LANGUAGE sql AS
$$ SELECT we.plain(taskq_explain(task_id), flow) FROM taskq.workflow_steps WHERE workflow_id = flow AND step = name $$;
CREATE FUNCTION we.summary(flow bigint) RETURNS text LANGUAGE sql AS
$$ SELECT we.plain(jsonb_pretty(jsonb_set(taskq_workflow(flow) - '{workflow_id,steps,edges,input,result,namespace,name,version}'::text[], '{blocked_by}',
     (SELECT coalesce(jsonb_agg(b - 'task_id'), '[]') FROM jsonb_array_elements(taskq_workflow(flow) -> 'blocked_by') b))), flow) $$;
CREATE FUNCTION we.work(queue text DEFAULT 'we', result jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS
$$ SELECT step || taskq_complete(task_id, token, result)::text FROM taskq_claim(queue) $$;
CREATE FUNCTION we.fail() RETURNS text LANGUAGE sql AS
$$ SELECT step || taskq_fail(task_id, token, 'no', false)::text FROM taskq_claim('we') $$;
\pset format unaligned
\pset tuples_only
-- parents by name, those that have failed first, and the number of others
SELECT taskq_define_workflow('{"name": "we join", "version": "1", "queue": "we", "steps": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e", "depends_on": ["a", "b", "c", "d"]}, {"name": "f", "depends_on": ["e"]}]}');
SELECT taskq_start_workflow('we join') AS w \gset
SELECT we.says(:w, 'e');
SELECT we.says(:w, 'f');
SELECT we.summary(:w);
SELECT count(*) FROM taskq_claim('we', max_tasks => 4);
SELECT we.says(:w, 'e');
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE workflow_id = :w AND step IN ('a', 'b');
SELECT we.says(:w, 'e');
SELECT we.says(:w, 'a');
SELECT taskq_fail(task_id, token, 'no', false) FROM taskq.tasks WHERE workflow_id = :w AND step = 'd';
SELECT we.says(:w, 'e');
SELECT we.says(:w, 'f');
SELECT we.says(:w, 'd');
SELECT we.summary(:w);
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE workflow_id = :w AND step = 'c';
SELECT we.summary(:w);
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE workflow_id = :w AND step = 'd';
SELECT we.says(:w, 'e');
SELECT we.work();
SELECT we.says(:w, 'f');
SELECT we.summary(:w);
SELECT we.work(), we.work();
SELECT we.says(:w, 'f');
SELECT x -> 'verdict', x -> 'percentage', x -> 'next' FROM taskq_workflow(:w) x;
SELECT we.says(taskq_start_workflow('we join') , 'e') IS NOT NULL;
SELECT taskq_cancel_workflow(max(workflow_id)) FROM taskq.workflows;
SELECT max(workflow_id) AS w FROM taskq.workflows \gset
SELECT we.says(:w, 'e');
SELECT we.summary(:w);
-- a cancelled step, and a suspended one
SELECT taskq_start_workflow('we join') AS w \gset
SELECT taskq_cancel(task_id) FROM taskq.tasks WHERE workflow_id = :w AND step = 'b';
SELECT taskq_hold(task_id, 'wait') FROM taskq.tasks WHERE workflow_id = :w AND step IN ('a', 'f');
SELECT we.says(:w, s) FROM unnest('{b,e,f}'::text[]) s;
SELECT x -> 'verdict', jsonb_path_query_array(x, '$.blocked_by[*].why') FROM taskq_workflow(:w) x;
SELECT we.plain(jsonb_path_query(taskq_workflow(:w), '$.next')::text, :w);
SELECT taskq_cancel_workflow(:w);
-- under on_failure stop
SELECT taskq_define_workflow('{"name": "we stop", "version": "1", "queue": "we", "on_failure": "stop", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('we stop') AS w \gset
SELECT we.fail();
SELECT we.says(:w, 'b');
SELECT we.summary(:w);
-- a choice, and which steps will exist after it
SELECT taskq_define_workflow('{"name": "we two", "version": "1", "queue": "we", "steps": [{"name": "d1", "type": "decision"}, {"name": "d2", "type": "decision"},
  {"name": "y", "depends_on": ["d2"]}, {"name": "p", "type": "deferred", "depends_on": ["y"]}, {"name": "k", "depends_on": ["d1", "p"]}]}');
SELECT taskq_start_workflow('we two') AS w \gset
SELECT we.work(result => '{"create": ["k"]}');
SELECT we.says(:w, 'k');
SELECT we.work(result => '{"create": []}');
SELECT we.says(:w, 'k');
SELECT we.work();
SELECT we.summary(:w);
-- steps without a worker
SELECT taskq_define_workflow('{"name": "we inner", "version": "1", "queue": "we other", "steps": [{"name": "x"}]}');
CREATE ROLE regress_taskq_we_boss;
SELECT taskq_define_workflow('{"name": "we waits", "version": "1", "queue": "we", "steps": [{"name": "signal", "type": "signal", "signal": {"name": "it''s", "timeout": "1 h"}}, {"name": "open", "type": "signal", "signal": {"name": "open"}},
  {"name": "approval", "type": "approval", "signal": {"name": "ok", "role": "regress_taskq_we_boss", "escalate_to": "pg_monitor", "escalate_after": "1 min", "timeout": "2 h", "on_timeout": "complete"}},
  {"name": "timer", "type": "timer", "timer": {"after": "3 h"}}, {"name": "at", "type": "timer", "timer": {"at": {"$": "$.input.at"}}}, {"name": "inner", "type": "workflow", "workflow": {"name": "we inner"}}, {"name": "all", "depends_on": ["signal", "timer", "inner"]}]}');
SELECT taskq_start_workflow('we waits', '{"at": "2999-01-01 00:00:00+00"}') AS w \gset
SELECT we.says(:w, s) FROM unnest('{signal,open,approval,timer,at,inner,all}'::text[]) s;
SELECT we.summary(:w);
-- the times in the sentences are those of the timers
SELECT count(*) FROM taskq.workflow_steps s JOIN taskq.timer USING (task_id), taskq_explain(s.task_id) x WHERE workflow_id = :w AND position(timer.at::text IN x) > 0;
-- following the advice helps
SELECT taskq_resolve(task_id), we.says(:w, 'timer') FROM taskq.tasks WHERE workflow_id = :w AND step = 'timer';
SELECT taskq_signal(:w, 'it''s'), we.says(:w, 'all');
SELECT taskq_cancel_workflow(:w);
-- waiting for its key; for a time in the future; for a condition
SELECT taskq_create_queue('we keys', '{"key_policy": "serial"}');
SELECT taskq_define_workflow('{"name": "we keys", "version": "1", "queue": "we keys", "steps": [{"name": "a", "key": "k"}, {"name": "b", "key": "k"}, {"name": "c", "depends_on": ["b"]}, {"name": "d", "when": "$.input.no == 1"}]}');
SELECT taskq_start_workflow('we keys') AS w \gset
SELECT regexp_replace(we.says(:w, 'b'), 'task \d+', 'task N');
SELECT we.says(:w, 'c');
SELECT we.says(:w, 'd');
SELECT we.summary(:w);
SELECT taskq_cancel_workflow(:w);
-- a batch, and what it waits for
SELECT taskq_define_workflow('{"name": "we parts", "version": "1", "queue": "we other", "steps": [{"name": "list", "type": "batch"}, {"name": "part", "type": "batch_worker", "depends_on": ["list"]}, {"name": "sum", "type": "deferred", "depends_on": ["part"]}]}');
SELECT taskq_start_workflow('we parts') AS w \gset
SELECT we.work('we other', '{"batches": [{}, {}]}');
SELECT we.says(:w, 'sum');
SELECT split_part(we.says(:w, 'part_002'), ': it is ready', 1);
SELECT we.work('we other');
SELECT we.says(:w, 'sum');
SELECT taskq_fail(task_id, token, 'no', false) FROM taskq_claim('we other');
SELECT we.says(:w, 'sum'), taskq_workflow(:w) -> 'verdict';
-- compensation
SELECT taskq_define_workflow('{"name": "we undo", "version": "1", "queue": "we", "on_failure": "compensate", "steps": [{"name": "a", "compensate": {"handler": "undo"}}, {"name": "b", "compensate": {"handler": "undo", "queue": "we other"}}, {"name": "c"}, {"name": "d", "depends_on": ["c"]}]}');
SELECT taskq_start_workflow('we undo') AS w \gset
SELECT step FROM taskq_claim('we', max_tasks => 9) WHERE workflow_id = :w ORDER BY step;
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE workflow_id = :w AND step = 'a';
SELECT taskq_fail(task_id, token, 'no', false) FROM taskq.tasks WHERE workflow_id = :w AND step = 'c';
SELECT we.says(:w, s) FROM unnest('{a,c,d}'::text[]) s;
SELECT we.summary(:w);
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE workflow_id = :w AND step = 'b';
SELECT split_part(we.says(:w, s), ': it is ready', 1) FROM unnest('{a,c,d,compensate:b}'::text[]) s;
SELECT we.summary(:w);
SELECT taskq_hold(task_id, 'wait') FROM taskq.tasks WHERE workflow_id = :w AND step = 'compensate:b';
SELECT x -> 'verdict', x #> '{blocked_by,0,why}', we.plain(x ->> 'next', :w) FROM taskq_workflow(:w) x;
SELECT taskq_cancel(task_id) FROM taskq.tasks WHERE workflow_id = :w AND step = 'compensate:b';
SELECT we.says(:w, s) FROM unnest('{c,compensate:b}'::text[]) s;
SELECT we.summary(:w);
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE workflow_id = :w AND step = 'compensate:b';
SELECT x -> 'verdict' FROM taskq_workflow(:w) x;
SELECT we.work('we other');
SELECT we.says(:w, 'compensate:b'), taskq_workflow(:w) -> 'verdict';
SELECT we.work();
SELECT we.says(:w, s) FROM unnest('{c,compensate:a}'::text[]) s;
SELECT x -> 'state', x -> 'verdict', x -> 'blocked_by', x -> 'next' FROM taskq_workflow(:w) x;
SELECT taskq_start_workflow('we undo') AS w \gset
SELECT we.fail();
SELECT x -> 'state', x -> 'verdict', x -> 'next' FROM taskq_workflow(:w) x;
-- edge cases, and an unknown number
SELECT jsonb_agg(e ORDER BY e ->> 'from', e ->> 'to') FROM jsonb_array_elements(taskq_workflow(:w) -> 'edges') e;
SELECT taskq_define_workflow('{"name": "we nothing", "version": "1", "steps": []}');
SELECT taskq_workflow(taskq_start_workflow('we nothing')) - '{workflow_id,namespace}'::text[];
-- by rights: the names of all steps, states and tasks only of those that the role may read
CREATE ROLE regress_taskq_we_some;
SELECT taskq_grant('we other', 'regress_taskq_we_some', '{read}');
SELECT taskq_define_workflow('{"name": "we some", "version": "1", "queue": "we", "steps": [{"name": "a"}, {"name": "sub", "type": "workflow", "workflow": {"name": "we join"}}, {"name": "b", "queue": "we other", "depends_on": ["a"]}, {"name": "sub2", "queue": "we other", "type": "workflow", "workflow": {"name": "we join"}}]}');
SELECT taskq_start_workflow('we some') AS w \gset
SET ROLE regress_taskq_we_some;
SELECT we.says(:w, 'b');
SELECT we.says(:w, 'sub2');
RESET ROLE;
SELECT we.says(:w, 'sub2');
SELECT taskq_fail(task_id, token, 'no', false) FROM taskq_claim('we', max_tasks => 100) WHERE workflow_id = :w AND step = 'a';
SET ROLE regress_taskq_we_some;
SELECT we.says(:w, 'b');
SELECT we.summary(:w);
SET ROLE pg_monitor;
SELECT we.says(:w, 'b');
RESET ROLE;
SELECT we.says(:w, 'b');
-- a decision that was made
SELECT taskq_define_workflow('{"name": "we chosen", "version": "1", "queue": "we chosen", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}]}');
SELECT taskq_start_workflow('we chosen') AS w \gset
SELECT we.work('we chosen', '{"create": ["x"]}');
SELECT we.says(:w, 'd');
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE name LIKE 'we %' AND finished_at IS NULL AND parent_workflow_id IS NULL;
SELECT * FROM taskq_check();
SET client_min_messages = warning;
DROP SCHEMA we CASCADE;
RESET client_min_messages;
DROP OWNED BY regress_taskq_we_some;
DROP ROLE regress_taskq_we_some, regress_taskq_we_boss;

-- Key queues: the effect of one call on several tasks of a key, and of a policy that is set
-- later.
CREATE FUNCTION pg_temp.line(q text) RETURNS TABLE (payload jsonb, state text) LANGUAGE sql AS
    $$ SELECT payload, state FROM taskq.tasks WHERE queue = q ORDER BY task_id $$;

-- Deadlines of several tasks of a key, and of others, at the same time.
SELECT taskq_create_queue('late', '{"key_policy": "serial", "retention": "7 d"}');
SELECT count(taskq_submit('late', to_jsonb(n), key => CASE WHEN n < 4 THEN 'k' END, deadline => clock_timestamp() + interval '0.5 s')) FROM generate_series(1, 4) n;
SELECT taskq_submit('late', '5', key => 'k') > 0;
DO $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        PERFORM taskq_run_reapers();
        EXIT WHEN NOT EXISTS (SELECT FROM taskq.tasks WHERE queue = 'late' AND deadline IS NOT NULL AND state <> 'dead');
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT * FROM pg_temp.line('late');
-- A purge of several tasks, and the tasks that remain.
SELECT count(taskq_submit('late', to_jsonb(n), key => 'k')) FROM generate_series(6, 8) n;
SELECT taskq_purge('late', '{pending,blocked}', max_tasks => 2);
SELECT * FROM pg_temp.line('late') WHERE state <> 'dead';
SELECT taskq_drop_queue('late', true);

-- A task that was revived while there was no policy comes first again under the next policy.
SELECT taskq_create_queue('again', '{"key_policy": "serial", "retention": "7 d"}');
SELECT count(taskq_submit('again', to_jsonb(n), key => 'k')) FROM generate_series(1, 4) n;
SELECT count(taskq_complete(c.task_id, c.token)) FROM generate_series(1, 2) n, LATERAL taskq_claim('again', wait => (n * 0)::text::interval) c;
SELECT taskq_alter_queue('again', '{"key_policy": null}');
SELECT taskq_reassign('again', 'done', 'suspended', task_ids => ARRAY(SELECT task_id FROM taskq.tasks WHERE queue = 'again' AND payload = '1'));
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'again' AND payload = '1';
SELECT taskq_alter_queue('again', '{"key_policy": "serial"}');
SELECT payload FROM taskq_claim('again');
SELECT taskq_submit('again', '5', key => 'k') > 0;
SELECT taskq_hold(task_id) FROM taskq.tasks WHERE queue = 'again' AND payload = '3';
SELECT * FROM pg_temp.line('again');
SELECT taskq_drop_queue('again', true);

-- More tasks are running than a later policy allows: none starts before all have ended.
SELECT taskq_create_queue('many', '{"retention": "7 d"}');
SELECT taskq_submit('many', '0', key => 'k', suspended => true) > 0;
SELECT count(taskq_submit('many', to_jsonb(n), key => 'k')) FROM generate_series(1, 3) n;
SELECT count(*) FROM taskq_claim('many', max_tasks => 3);
SELECT taskq_alter_queue('many', '{"key_policy": "serial"}');
SELECT taskq_submit('many', '4', key => 'k') > 0;
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'many' AND payload = '0';
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'many' AND payload = '1';
SELECT * FROM pg_temp.line('many');
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'many' AND payload IN ('2', '3');
SELECT * FROM pg_temp.line('many');
-- A task that waits for other tasks cannot be resumed by hand.
SELECT taskq_reassign('many', 'blocked', 'pending', 0);
-- What is recorded about a key ends with its tasks.
SELECT taskq_complete(c.task_id, c.token) FROM taskq_claim('many') c;
SELECT taskq_complete(c.task_id, c.token) FROM taskq_claim('many') c;
SELECT count(*) > 0 FROM taskq_run_reapers();
SELECT count(*) FROM taskq.key;
SELECT taskq_drop_queue('many', true);

-- Suspended tasks are recreated suspended, each once.
SELECT taskq_create_queue('redo', '{"key_policy": "serial_until_success", "retention": "7 d"}');
SELECT count(taskq_submit('redo', to_jsonb(n), key => 'k', suspended => true)) FROM generate_series(1, 3) n;
SELECT count(*) FROM taskq_recreate_all('redo', 'suspended');
SELECT * FROM pg_temp.line('redo');
-- All tasks of a group at the same time, and one after the other.
SELECT count(*) FROM taskq_junction('redo', '{k}');
SELECT * FROM pg_temp.line('redo') WHERE state <> 'recreated';
SELECT count(action) FROM (SELECT taskq_manage_many('hold', ARRAY(SELECT task_id FROM taskq.tasks WHERE queue = 'redo' AND state = 'blocked')) AS action) a;
SELECT * FROM pg_temp.line('redo') WHERE state <> 'recreated';
SELECT taskq_retry_all('redo', 'suspended');
SELECT * FROM pg_temp.line('redo') WHERE state <> 'recreated';
SELECT taskq_drop_queue('redo', true);

-- A running task is not forgotten when other tasks of its group start before it.
SELECT taskq_create_queue('ahead', '{"order": "lifo", "key_policy": "serial_until_success"}');
SELECT count(taskq_submit('ahead', to_jsonb(n), key => 'k')) FROM generate_series(1, 2) n;
SELECT payload FROM taskq_claim('ahead');
SELECT taskq_submit('ahead', to_jsonb(n), key => 'k', suspended => true) > 0 FROM generate_series(3, 4) n;
SELECT taskq_hold(task_id) FROM taskq.tasks WHERE queue = 'ahead' AND payload = '1';
SELECT count(*) FROM taskq_junction('ahead', '{k}');
SELECT * FROM pg_temp.line('ahead');
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'ahead' AND payload = '2';
SELECT * FROM pg_temp.line('ahead');
SELECT count(*) FROM taskq_check();
SELECT taskq_drop_queue('ahead', true);
SELECT taskq_create_queue('ahead', '{"order": "lifo", "max_running_per_key": 1}');
SELECT taskq_submit('ahead', '1', key => 'k') > 0;
SELECT payload FROM taskq_claim('ahead');
SELECT count(*) FROM taskq_submit_tasks('[{"queue": "ahead", "key": "k", "payload": 2, "suspended": true},
    {"queue": "ahead", "key": "k", "payload": 3}, {"queue": "ahead", "key": "k", "payload": 4}]');
SELECT * FROM pg_temp.line('ahead');
SELECT count(*) FROM taskq_check();
SELECT taskq_drop_queue('ahead', true);
-- Nor are running tasks later in the order, when the first task of a group may be pending.
SELECT taskq_create_queue('behind', '{"max_running_per_key": 3}');
SELECT count(taskq_submit('behind', to_jsonb(n), key => 'k')) FROM generate_series(1, 6) n;
SELECT count(taskq_hold(task_id)) FROM taskq.tasks WHERE queue = 'behind' AND payload <@ '[1, 2, 3]';
SELECT count(*) FROM taskq_claim('behind', max_tasks => 2);
SELECT count(*) FROM taskq_junction('behind', '{k}');
SELECT * FROM pg_temp.line('behind');
SELECT count(*) FROM taskq_check();
SELECT taskq_drop_queue('behind', true);

-- A task that ran out of order affects no task once it has another key or queue.
SELECT taskq_create_queue('gone', '{"key_policy": "serial"}');
SELECT taskq_create_queue('there');
SELECT count(taskq_submit('gone', to_jsonb(n), key => 'k', suspended => n = 1)) FROM generate_series(1, 2) n;
SELECT c.payload FROM taskq_claim('gone') c;
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'gone' AND payload = '1';
SELECT * FROM pg_temp.line('gone');
SELECT taskq_cancel(task_id) FROM taskq.tasks WHERE queue = 'gone' AND payload = '1';
SELECT taskq_release(task_id, token) FROM taskq.tasks WHERE queue = 'gone' AND payload = '2';
SELECT taskq_update_task(task_id, '{"key": "other"}') FROM taskq.tasks WHERE queue = 'gone' AND payload = '2';
SELECT taskq_submit('gone', '3', key => 'k') > 0;
SELECT * FROM pg_temp.line('gone');
SELECT taskq_update_task(task_id, '{"key": "k"}') FROM taskq.tasks WHERE queue = 'gone' AND payload = '2';
SELECT * FROM pg_temp.line('gone');
SELECT taskq_update_task(task_id, '{"queue": "there"}') FROM taskq.tasks WHERE queue = 'gone' AND payload = '2';
SELECT * FROM pg_temp.line('gone');
SELECT count(*) FROM taskq_check();
SELECT taskq_drop_queue(q, true) FROM unnest('{gone,there}'::text[]) q;

-- If a call that deletes the other tasks is refused, it deletes none of them.
SELECT taskq_create_queue('out', '{"retention": "7 d"}');
SELECT taskq_submit('out', '"holder"', reference => 'r') > 0;
SELECT s > 0 AS submitted FROM taskq_submit_tasks('[{"queue": "out", "key": "k", "payload": "first"},
    {"queue": "out", "key": "k", "payload": "second", "insertion": "delete", "reference": "r", "on_conflict": "skip"}]') s;
SELECT s > 0 AS submitted FROM taskq_submit_tasks('[{"queue": "out", "key": "k", "payload": "third"},
    {"queue": "out", "key": "k", "payload": "fourth", "insertion": "delete"}]') s;
SELECT * FROM pg_temp.line('out');
SELECT taskq_drop_queue('out', true);

SELECT * FROM taskq_check();

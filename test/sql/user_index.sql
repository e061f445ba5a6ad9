--
-- user_index: indexes that a user has added to live tasks, also on columns that claims change, are
-- maintained by everything that writes tasks
--
CREATE EXTENSION amcheck SCHEMA t;
SELECT taskq_create_queue('u', '{"retention": "none"}');
SELECT count(*) FROM taskq_submit_many('u', array_fill('1'::jsonb, ARRAY[200]));
CREATE INDEX user_worker_idx ON taskq.task (worker_id, state);
CREATE INDEX user_claimed_idx ON taskq.task USING brin (claimed_at) WITH (pages_per_range = 1);
CREATE INDEX user_running_idx ON taskq.task (task_id) WHERE state = 3;
CREATE INDEX user_attempt_idx ON taskq.task ((attempt + 1));
-- differences between an index and the table
CREATE FUNCTION t.differ() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    condition text;
    by_index bigint[];
    by_table bigint[];
    i regclass;
BEGIN
    FOREACH condition IN ARRAY ARRAY['worker_id > 0', 'worker_id = 0 AND state = 1', 'claimed_at > timestamptz ''2000-01-01''', 'state = 3 AND task_id > 0', 'attempt + 1 = 2', 'attempt + 1 = 3'] LOOP
        PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
        EXECUTE 'SELECT array_agg(task_id ORDER BY task_id) FROM taskq.task WHERE ' || condition INTO by_index;
        PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
        EXECUTE 'SELECT array_agg(task_id ORDER BY task_id) FROM taskq.task WHERE ' || condition INTO by_table;
        IF by_index IS DISTINCT FROM by_table THEN
            RETURN NEXT condition;
        END IF;
    END LOOP;
    FOR i IN SELECT x.indexrelid FROM pg_index x JOIN pg_class c ON c.oid = x.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE x.indrelid = 'taskq.task'::regclass AND a.amname = 'btree' LOOP
        PERFORM t.bt_index_check(i, true);
    END LOOP;
END
$$;
DO $$ BEGIN PERFORM brin_summarize_new_values('taskq.user_claimed_idx'); END $$;
BEGIN;
SET LOCAL enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT FROM taskq.task WHERE claimed_at > timestamptz '2000-01-01 00:00:00+00';
COMMIT;
SELECT * FROM t.differ();
-- claims, and the ways in which they end
SELECT count(*) FROM taskq_claim('u', 'user', max_tasks => 90);
SELECT * FROM t.differ();
SELECT count(*) FROM (SELECT taskq_fail(task_id, token, 'e', retry_in => '0') FROM taskq.tasks WHERE queue = 'u' AND state = 'running' AND task_id % 3 = 0 OFFSET 0) f;
SELECT count(*) FROM (SELECT taskq_release(task_id, token) FROM taskq.tasks WHERE queue = 'u' AND state = 'running' AND task_id % 3 = 1 OFFSET 0) r;
SELECT count(*) FROM (SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'u' AND state = 'running' AND task_id % 3 = 2 OFFSET 0) c;
SELECT * FROM t.differ();
SELECT taskq_submit('u', '2') > 0 AS submitted;
SELECT count(*) FROM taskq_submit_many('u', array_fill('3'::jsonb, ARRAY[150]));
SELECT * FROM t.differ();
BEGIN;
SELECT count(*) FROM taskq_claim('u', 'user', max_tasks => 300);
SAVEPOINT a;
SELECT count(*) FROM taskq_submit_many('u', array_fill('4'::jsonb, ARRAY[20]));
ROLLBACK TO a;
SELECT count(*) FROM taskq_submit_many('u', array_fill('5'::jsonb, ARRAY[20]));
COMMIT;
SELECT * FROM t.differ();
SELECT count(*) FILTER (WHERE ok) AS done FROM taskq_complete_many((SELECT array_agg(task_id ORDER BY task_id) FROM taskq.task WHERE state = 3), (SELECT array_agg(token ORDER BY task_id) FROM taskq.task WHERE state = 3));
SELECT * FROM t.differ();
DROP INDEX taskq.user_worker_idx, taskq.user_claimed_idx, taskq.user_running_idx, taskq.user_attempt_idx;
DROP FUNCTION t.differ();
SELECT taskq_drop_queue('u', true) AS dropped;
DROP EXTENSION amcheck;

--
-- reindexed: indexes that REINDEX CONCURRENTLY has replaced while this session has the old ones in
-- its cache, of one table at a time
--
SELECT taskq_create_queue('rx', '{"key_policy": "serial_hold_on_failure", "retry": "fixed", "retry_base": "0 s"}');
SELECT taskq_define_workflow('{"name": "rx", "version": "1", "queue": "rw", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]}]}');
-- calls that use all of them
CREATE PROCEDURE t.use_all(n int) LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
    held text;
    steps text;
BEGIN
    -- a key queue that a dead task holds
    PERFORM taskq_submit('rx', to_jsonb(i), key => 'k' || n, reference => 'r' || n || i) FROM generate_series(1, 3) i;
    SELECT * INTO STRICT c FROM taskq_claim('rx');
    PERFORM taskq_fail(c.task_id, c.token, 'no', retryable => false);
    PERFORM taskq_submit('rx', to_jsonb(4), key => 'k' || n, on_conflict => 'merge', reference => 'r' || n || 2);
    SELECT string_agg(payload::text || ' ' || state, ', ' ORDER BY task_id) INTO held FROM taskq.tasks WHERE key = 'k' || n;
    PERFORM taskq_resolve(c.task_id);
    FOR i IN 1 .. 2
    LOOP
        SELECT * INTO STRICT c FROM taskq_claim('rx');
        PERFORM taskq_complete(c.task_id, c.token);
    END LOOP;
    -- steps that wait for other steps
    PERFORM taskq_start_workflow('rx');
    FOR i IN 1 .. 3
    LOOP
        SELECT * INTO STRICT c FROM taskq_claim('rw');
        PERFORM taskq_complete(c.task_id, c.token);
        steps := concat_ws(' ', steps, c.step);
    END LOOP;
    RAISE INFO '%; %', held, steps;
END
$$;
CALL t.use_all(1);
REINDEX TABLE CONCURRENTLY taskq.key;
CALL t.use_all(2);
REINDEX TABLE CONCURRENTLY taskq.edge;
CALL t.use_all(3);
REINDEX TABLE CONCURRENTLY taskq.archive_keep;
CALL t.use_all(4);
REINDEX TABLE CONCURRENTLY taskq.task;
CALL t.use_all(5);
REINDEX TABLE CONCURRENTLY taskq.archive;
CALL t.use_all(6);
SELECT * FROM taskq_check();
-- the lock names of sessions stay the same
CREATE VIEW t.locked AS SELECT DISTINCT relname, relkind FROM pg_locks l JOIN pg_class c ON c.oid = l.classid WHERE locktype = 'object' AND pid = pg_backend_pid();
BEGIN;
SELECT count(*) FROM taskq_change('me', '[{"queue": "rx", "key": "k", "reference": "r1"}, {"queue": "rx", "key": "k", "reference": "r2"}]');
SELECT * FROM t.locked WHERE relname NOT IN ('task', 'role');
ROLLBACK;
BEGIN;
SELECT taskq_start_workflow('rx') > 0 AS started;
SELECT taskq_complete(task_id, token) FROM taskq_claim('rw');
SELECT taskq_retry(max(task_id)) FROM taskq.tasks WHERE step = 'a' AND state = 'done';
SELECT * FROM t.locked WHERE relname NOT IN ('task', 'role') ORDER BY relname;
ROLLBACK;
DROP VIEW t.locked;
DROP PROCEDURE t.use_all(int);
SELECT q, taskq_purge(q) > 0 AS purged, taskq_drop_queue(q) FROM unnest('{rx,rw}'::text[]) q;

--
-- manage: cancel and retry, of each state
--
SELECT taskq_create_queue('m', '{"retry": "fixed", "retry_base": "0 s"}');
-- one task of each state that can be produced
CREATE FUNCTION t.task(state text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    q text := 'm ' || state;
    id bigint;
    c record;
BEGIN
    IF state = 'suspended' THEN
        RETURN taskq_submit(q, suspended => true);
    END IF;
    id := taskq_submit(q, max_attempts => 1);
    IF state = 'pending' THEN
        RETURN id;
    END IF;
    IF state = 'cancelled' THEN
        PERFORM taskq_cancel(id, 'cancelled before');
        RETURN id;
    END IF;
    SELECT * INTO STRICT c FROM taskq_claim(q, 'w');
    CASE state
        WHEN 'running' THEN NULL;
        WHEN 'requested' THEN PERFORM taskq_cancel(id, 'asked before');
        WHEN 'done' THEN PERFORM taskq_complete(id, c.token, '"result"');
        WHEN 'dead' THEN PERFORM taskq_fail(id, c.token, 'error');
        WHEN 'filtered' THEN PERFORM taskq_filter(id, c.token, 'filtered before');
    END CASE;
    RETURN id;
END
$$;
CREATE FUNCTION t.show(id bigint) RETURNS text LANGUAGE sql AS $$
SELECT concat_ws(' ', state, 'reason=' || reason, 'message=' || message, 'attempt=' || attempt, 'result=' || result::text, 'error=' || error,
                 'requested=' || (cancel_requested_at IS NOT NULL), 'worker=' || worker, CASE WHEN finished_at IS NOT NULL THEN 'finished' END)
  FROM taskq_get(id);
$$;
CREATE TABLE t.id (state text, id bigint, version bigint);
CREATE PROCEDURE t.fresh() LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskq_drop_queue(queue, true) FROM taskq.queues WHERE queue LIKE 'm %';
    DELETE FROM t.id;
    INSERT INTO t.id SELECT s, t.task(s) FROM unnest(ARRAY['pending', 'suspended', 'running', 'requested', 'done', 'dead', 'filtered', 'cancelled']) s;
    UPDATE t.id i SET version = (taskq_get(i.id)).version;
END
$$;
CREATE FUNCTION t.each(call text) RETURNS TABLE (was text, answer text, now text, unchanged boolean) LANGUAGE plpgsql AS $$
BEGIN
    CALL t.fresh();
    FOR was, answer, now IN
        SELECT i.state, regexp_replace(t.try(format('SELECT ' || call, i.id)), format('(task|"task_id":) %s\M', i.id), '\1 ID', 'g'), i.id::text
          FROM t.id i ORDER BY i.id
    LOOP
        unchanged := (SELECT g.version = i.version FROM t.id i, taskq_get(i.id) g WHERE i.id::text = now);
        now := t.show(now::bigint);
        RETURN NEXT;
    END LOOP;
END
$$;
SELECT * FROM t.each('1');
-- cancel: waiting tasks are cancelled, running ones are asked to stop, finished ones stay
SELECT * FROM t.each('taskq_cancel(%s)');
SELECT * FROM t.each('taskq_cancel(%s, ''words'')');
SELECT * FROM t.each('taskq_cancel(%s, ''words'', true)');
SELECT * FROM t.each('taskq_cancel(%s, NULL, NULL)');
-- cancellation requested again: the time of the first request stays
SELECT id, cancel_requested_at FROM t.id, taskq_get(id) WHERE t.id.state = 'requested' \gset
SELECT taskq_cancel(:id);
SELECT cancel_requested_at = :'cancel_requested_at' AS the_same FROM taskq_get(:id);
-- force invalidates the token
SELECT id, token FROM t.id, taskq_get(id) WHERE t.id.state = 'running' \gset
SELECT taskq_cancel(:id, force => true);
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :id, :token)), 5);
-- retry: suspended tasks keep their attempts, finished ones start again
SELECT * FROM t.each('taskq_retry(%s)');
SELECT * FROM t.each('taskq_retry(%s, true)');
SELECT * FROM t.each('taskq_retry(%s, false)');
SELECT * FROM t.each('taskq_retry(%s, NULL, NULL)');
SELECT * FROM t.each('taskq_retry(%s, force => true)');
SELECT * FROM t.each('taskq_retry(%s, true, true)');
-- the same id, claimed again, its errors kept
CALL t.fresh();
SELECT id FROM t.id WHERE state = 'dead' \gset
SELECT token AS old_token FROM taskq_get(:id) \gset
SELECT taskq_retry(:id);
SELECT task_id = :id AS the_same, attempt, token > :old_token AS rises FROM taskq_claim('m dead');
SELECT token FROM taskq_get(:id) \gset
SELECT taskq_complete(:id, :token, '"at last"');
SELECT state, reason, attempt, result, error, descent FROM taskq_get(:id);
-- retrying a task whose deadline has passed lets it run
SELECT taskq_submit('m', deadline => clock_timestamp() + interval '50 ms') AS id \gset
CALL t.until(format('SELECT (SELECT true FROM taskq_run_reapers() LIMIT 1) AND state = ''dead'' FROM taskq_get(%s)', :id));
SELECT t.show(:id);
SELECT taskq_retry(:id);
SELECT t.show(:id), deadline FROM taskq_get(:id);
SELECT task_id = :id AS claimed FROM taskq_claim('m');
-- a task that does not exist
SELECT t.try('SELECT taskq_cancel(999999)');
SELECT t.try('SELECT taskq_retry(999999)');
SELECT t.try('SELECT taskq_cancel(-1)');
SELECT t.try('SELECT taskq_cancel(9223372036854775807)');
SELECT t.try('SELECT taskq_cancel(NULL)');
SELECT t.try('SELECT taskq_retry(NULL)');
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.each(text), t.task(text), t.show(bigint);
DROP PROCEDURE t.fresh();
DROP TABLE t.id;

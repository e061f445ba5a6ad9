--
-- history: the changes of tasks' states, for queues with the option
--
SELECT coalesce(max(transition_id), 0) AS first FROM taskq.history \gset
SELECT taskq_create_queue('hi', '{"history": "transitions", "retry": "fixed", "retry_base": "0 s"}');
CREATE FUNCTION t.way(id bigint) RETURNS TABLE (from_state text, to_state text, reason text, attempt int, token bigint, worker text, mine boolean, message text) LANGUAGE sql AS $$
SELECT h.from_state, h.to_state, h.reason, h.attempt, CASE WHEN h.token > 0 THEN h.token - min(nullif(h.token, 0)) OVER () + 1 ELSE 0 END, h.worker, h.role = current_user, h.message
  FROM taskq.history h WHERE h.task_id = id ORDER BY h.transition_id;
$$;
-- a task from its submit to its end
SELECT taskq_submit('hi') AS id \gset
SELECT token FROM taskq_claim('hi', 'a label') \gset
SELECT taskq_release(:id, :token, reason => 'not now');
SELECT token FROM taskq_claim('hi') \gset
SELECT taskq_fail(:id, :token, 'e');
SELECT token FROM taskq_claim('hi') \gset
SELECT taskq_suspend(:id, :token, 'look at it');
SELECT taskq_retry(:id);
SELECT token FROM taskq_claim('hi') \gset
SELECT taskq_fail(:id, :token, 'e', false);
SELECT taskq_retry(:id);
SELECT token FROM taskq_claim('hi') \gset
-- a call that changes no state leaves no row
SELECT cancel FROM taskq_extend(:id, :token);
SELECT cancel FROM taskq_checkpoint(:id, :token, '1');
SELECT cancel FROM taskq_progress(:id, :token, 0.5);
SELECT taskq_complete(:id, :token);
SELECT * FROM t.way(:id);
-- the columns, and increasing times
SELECT queue, from_state, to_state, at <= clock_timestamp() AND at > clock_timestamp() - interval '1 min' AS now, role = current_user AS mine FROM taskq.history WHERE task_id = :id ORDER BY transition_id LIMIT 1;
SELECT bool_and(at >= before) AS rise FROM (SELECT at, lag(at, 1, at) OVER (ORDER BY transition_id) AS before FROM taskq.history WHERE task_id = :id) x;
-- each final state
CREATE FUNCTION t.end(how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit('hi', suspended => how = 'parked', delay => CASE WHEN how = 'cancelled waiting' THEN interval '1 h' END);
    c record;
BEGIN
    IF how NOT IN ('parked', 'cancelled waiting') THEN
        SELECT * INTO STRICT c FROM taskq_claim('hi');
    END IF;
    CASE how
        WHEN 'filtered' THEN PERFORM taskq_filter(id, c.token, 'irrelevant');
        WHEN 'cancelled' THEN PERFORM taskq_cancel(id, 'enough', true);
        WHEN 'asked' THEN PERFORM taskq_cancel(id); PERFORM taskq_fail(id, c.token, 'stopped');
        WHEN 'no trace' THEN PERFORM taskq_complete(id, c.token, keep => false);
        WHEN 'many' THEN PERFORM taskq_complete_many(ARRAY[id], ARRAY[c.token]);
        WHEN 'decided' THEN PERFORM taskq_decide_many(jsonb_build_array(jsonb_build_object('task_id', id, 'token', c.token, 'outcome', 'suspend', 'reason', 'r')));
        WHEN 'cancelled waiting' THEN PERFORM taskq_cancel(id, 'enough');
        WHEN 'parked' THEN NULL;
    END CASE;
    RETURN (SELECT string_agg(concat_ws(' ', '->', to_state, reason, '"' || message || '"'), ' ' ORDER BY transition_id) FROM taskq.history WHERE task_id = id);
END
$$;
SELECT how, t.end(how) FROM unnest(ARRAY['filtered', 'cancelled', 'asked', 'no trace', 'many', 'decided', 'cancelled waiting', 'parked']) how;
-- by the background worker
SELECT taskq_submit('hi', max_attempts => 1, options => '{"lease": "1 us"}') AS id \gset
SELECT count(*) FROM taskq_claim('hi');
CALL t.until(format('SELECT state = ''dead'' FROM taskq_get(%s)', :id));
SELECT from_state, to_state, reason FROM t.way(:id);
-- a rollback leaves no row
SELECT count(*) AS before FROM taskq.history \gset
BEGIN;
SELECT taskq_submit('hi') > 0 AS submitted;
SELECT count(*) FROM taskq_claim('hi');
ROLLBACK;
SELECT taskq_submit('hi') AS id \gset
BEGIN;
SAVEPOINT a;
SELECT count(*) FROM taskq_claim('hi');
ROLLBACK TO a;
SELECT count(*) FROM taskq_claim('hi');
COMMIT;
SELECT count(*) - :before AS two_more FROM taskq.history;
-- neither does a call that fails
SELECT left(t.try(format('SELECT taskq_complete(%s, 77777777)', :id)), 5);
SELECT count(*) - :before AS two_more FROM taskq.history;
-- an update of a waiting task is not a change of state
SELECT taskq_submit('hi', '1', reference => 'r') AS id \gset
SELECT taskq_submit('hi', '2', reference => 'r', on_conflict => 'update') = :id AS same;
SELECT from_state, to_state FROM t.way(:id);
-- switched off: no row is added and no row is lost; then on again
SELECT taskq_alter_queue('hi', '{"history": null}');
SELECT count(*) FROM taskq_claim('hi');
SELECT taskq_alter_queue('hi', '{"history": "transitions"}');
SELECT taskq_cancel(:id, force => true);
SELECT from_state, to_state FROM t.way(:id);
-- other queues have no history, unless all queues have it
SELECT taskq_submit('hi not') AS id \gset
SELECT count(*) FROM t.way(:id);
SELECT taskq_alter_queue('*', '{"history": "transitions"}');
SELECT count(*) FROM taskq_claim('hi not');
SELECT from_state, to_state FROM t.way(:id);
SELECT taskq_alter_queue('*', '{"history": null}');
-- which roles may see it: readers; pg_monitor, except the messages
CREATE ROLE regress_taskq_hi_read;
CREATE ROLE regress_taskq_hi_work;
CREATE ROLE regress_taskq_hi_monitor IN ROLE pg_monitor;
SELECT taskq_grant('hi', 'regress_taskq_hi_read', '{read}');
SELECT taskq_grant('hi', 'regress_taskq_hi_work', '{work}');
SET ROLE regress_taskq_hi_read;
SELECT DISTINCT queue FROM taskq.history;
SELECT count(*) > 0 AS words FROM taskq.history WHERE message = 'look at it';
SET ROLE regress_taskq_hi_work;
SELECT count(*) FROM taskq.history;
SET ROLE regress_taskq_hi_monitor;
SELECT DISTINCT queue FROM taskq.history WHERE queue IS NOT NULL ORDER BY queue;
SELECT count(*) AS words FROM taskq.history WHERE message IS NOT NULL;
SELECT t.code('DELETE FROM taskq.history');
RESET ROLE;
-- the actor is the caller
SELECT taskq_submit('hi', priority => 9) AS id \gset
SET ROLE regress_taskq_hi_work;
SELECT token FROM taskq_claim('hi') \gset
SELECT taskq_complete(:id, :token);
RESET ROLE;
SELECT to_state, role = current_user AS mine, role = 'regress_taskq_hi_work' AS workers FROM taskq.history WHERE task_id = :id ORDER BY transition_id;
-- it outlives its task, and is dropped with its queue
SELECT taskq_purge('hi') > 0 AS purged;
SELECT count(*) FROM t.way(:id);
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
SELECT count(*) FROM taskq.history WHERE transition_id > :first;
DROP FUNCTION t.way(bigint), t.end(text);
DROP OWNED BY regress_taskq_hi_read, regress_taskq_hi_work, regress_taskq_hi_monitor;
DROP ROLE regress_taskq_hi_read, regress_taskq_hi_work, regress_taskq_hi_monitor;

--
-- dead_letter: when a task dies, a copy of it goes to another queue
--
SELECT taskq_create_queue('dl', '{"dead_letter_queue": "dl dead", "retry": "fixed", "retry_base": "0 s"}');
CREATE ROLE regress_taskq_dl;
SELECT taskq_grant('dl', 'regress_taskq_dl', '{submit,work}');
-- the existing dead letters, without ids and times
CREATE FUNCTION t.letters(queue text DEFAULT 'dl dead') RETURNS TABLE (state text, payload jsonb, data bytea, of jsonb, headers jsonb, key text, correlation_id text, reference text, tags text[], priority int, attempt int, max_attempts int, submitted_by text)
LANGUAGE sql AS $$
SELECT s.state, s.payload, s.data, (s.headers -> 'dead_letter') - '{task_id,died_at}'::text[], s.headers - 'dead_letter', s.key, s.correlation_id, s.reference, s.tags, s.priority, s.attempt, s.max_attempts, s.submitted_by
  FROM taskq.tasks s WHERE s.queue = $1 ORDER BY s.task_id;
$$;
-- everything that a task can have
SET ROLE regress_taskq_dl;
SELECT taskq_submit('dl', '{"a": 1}', priority => 7, max_attempts => 5, tags => '{x}', key => 'k', reference => 'r', headers => '{"h": 1, "dead_letter": "old"}', correlation_id => 'c', data => '\x01', options => '{"lease": "1 h"}') AS id \gset
SELECT token FROM taskq_claim('dl', tags => '{x}') \gset
SELECT taskq_fail(:id, :token, 'broken', false);
RESET ROLE;
SELECT * FROM t.letters() \gx
-- the origin is recorded
SELECT (s.headers -> 'dead_letter' ->> 'task_id')::bigint = :id AS the_origin, (s.headers -> 'dead_letter' ->> 'died_at')::timestamptz = o.finished_at AS its_end, s.run_at <= now() AS due, s.deadline
  FROM taskq.tasks s, taskq_get(:id) o WHERE s.queue = 'dl dead';
SELECT state, reason, reference FROM taskq_get(:id);
SELECT taskq_purge('dl dead', '{pending}');
-- a task with nothing
SELECT taskq_submit('dl') > 0 AS submitted;
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl');
SELECT * FROM t.letters() \gx
SELECT taskq_purge('dl dead', '{pending}');
-- each way to die
CREATE FUNCTION t.dies(how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit('dl', to_jsonb(how), priority => 1, max_attempts => CASE how WHEN 'exhausted' THEN 1 END);
    c record;
BEGIN
    SELECT * INTO STRICT c FROM taskq_claim('dl');
    CASE how
        WHEN 'exhausted' THEN PERFORM taskq_fail(c.task_id, c.token, 'e');
        WHEN 'rejected' THEN PERFORM taskq_fail(c.task_id, c.token, 'e', false);
        WHEN 'many' THEN PERFORM taskq_decide_many(jsonb_build_array(jsonb_build_object('task_id', c.task_id, 'token', c.token, 'outcome', 'fail', 'error', 'e', 'retryable', false)));
        -- and ends other than death
        WHEN 'retried' THEN PERFORM taskq_fail(c.task_id, c.token, 'e', retry_in => '1 h');
        WHEN 'done' THEN PERFORM taskq_complete(c.task_id, c.token);
        WHEN 'filtered' THEN PERFORM taskq_filter(c.task_id, c.token);
        WHEN 'suspended' THEN PERFORM taskq_suspend(c.task_id, c.token);
        WHEN 'cancelled' THEN PERFORM taskq_cancel(c.task_id, force => true);
    END CASE;
    RETURN (SELECT concat_ws(' ', state, reason) FROM taskq_get(id));
END
$$;
SELECT how, t.dies(how) FROM unnest('{exhausted,rejected,many,retried,done,filtered,suspended,cancelled}'::text[]) how;
SELECT taskq_register('dl worker');
SELECT taskq_submit('dl', '"worker_dead"', max_attempts => 1) > 0 AS submitted, taskq_submit('dl', '"killed"', options => '{"on_worker_death": "kill"}') > 0 AS submitted;
SELECT payload FROM taskq_claim('dl', 'dl worker', max_tasks => 2);
SELECT taskq_register('dl worker');
SELECT taskq_deregister('dl worker');
SELECT payload, of FROM t.letters();
SELECT taskq_purge('dl dead', '{pending}');
-- an expired deadline and an expired lease, by the background worker
SELECT taskq_submit('dl', '"deadline"', options => '{"deadline_in": "1 us"}') > 0 AS submitted, taskq_submit('dl', '"lease_expired"', max_attempts => 1, options => '{"lease": "1 us"}') > 0 AS submitted;
SELECT payload FROM taskq_claim('dl');
CALL t.until('SELECT count(*) = 2 FROM t.letters()');
SELECT payload, of, submitted_by = current_user AS mine FROM t.letters() ORDER BY payload;
SELECT taskq_purge('dl dead', '{pending}');
-- with the caller's transaction, or not at all
BEGIN;
SELECT t.dies('rejected');
SELECT count(*) FROM t.letters();
ROLLBACK;
SELECT count(*) FROM t.letters();
-- one call in which many tasks die makes a copy of each
SELECT count(*) FROM taskq_submit_many('dl', '{1,2,3}');
SELECT count(*) FROM taskq_decide_many((SELECT jsonb_agg(jsonb_build_object('task_id', task_id, 'token', token, 'outcome', 'fail', 'error', 'e', 'retryable', payload = '2')) FROM taskq_claim('dl', max_tasks => 3)));
SELECT payload FROM t.letters();
SELECT taskq_purge('dl dead', '{pending}');
-- a task that dies again gets another copy
SELECT t.dies('rejected');
SELECT taskq_retry(s.task_id) FROM (SELECT task_id FROM taskq.tasks WHERE queue = 'dl' AND state = 'dead' ORDER BY task_id DESC LIMIT 1) s;
SELECT taskq_fail(task_id, token, 'again', false) FROM taskq_claim('dl');
SELECT of ->> 'error' AS error, count(*) FROM t.letters() GROUP BY 1 ORDER BY 1;
SELECT taskq_purge('dl dead', '{pending}');
-- never a copy of a copy: not in a chain, and not in a ring
SELECT taskq_alter_queue('dl dead', '{"dead_letter_queue": "dl deader"}');
SELECT t.dies('rejected');
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl dead');
SELECT state, payload FROM t.letters();
SELECT count(*) FROM taskq.queues WHERE queue = 'dl deader';
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'dl dead';
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl dead');
SELECT count(*) FROM taskq.queues WHERE queue = 'dl deader';
-- a task that was submitted to that queue is not a copy
SELECT taskq_submit('dl dead', '"itself"') > 0 AS submitted;
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl dead');
SELECT payload, of FROM t.letters('dl deader');
SELECT taskq_create_queue('dl ring', '{"dead_letter_queue": "dl ring"}');
SELECT taskq_submit('dl ring', '1') > 0 AS submitted;
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl ring');
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl ring');
SELECT state, payload, of IS NOT NULL AS copy FROM t.letters('dl ring');
-- its own headers do not make a task a copy
SELECT taskq_purge('dl', '{pending,suspended}') > 0 AS purged;
SELECT taskq_submit('dl', '"pretends"', headers => '{"dead_letter": {"task_id": 1}}') > 0 AS submitted;
SELECT taskq_purge('dl dead') > 0 AS purged;
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl');
SELECT payload, of FROM t.letters();
SELECT taskq_purge('dl dead', '{pending}');
-- max_depth does not refuse the copy; a queue that does not exist and may not be created does
SELECT taskq_alter_queue('dl dead', '{"max_depth": 1}');
SELECT taskq_submit('dl dead', '"fills it"') > 0 AS submitted;
SELECT t.dies('rejected');
SELECT payload FROM t.letters();
SELECT left(t.try($$SELECT taskq_submit('dl dead')$$), 5);
SELECT taskq_drop_queue('dl dead', true);
SET taskq.auto_create_queues = off;
SELECT t.dies('rejected');
RESET taskq.auto_create_queues;
SELECT count(*) FROM taskq.queues WHERE queue = 'dl dead';
-- a copy that fails does not fail the caller
CREATE FUNCTION t.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no more queues'; END$$;
CREATE TRIGGER refuse BEFORE INSERT ON taskq.queue FOR EACH ROW EXECUTE FUNCTION t.refuse();
SELECT taskq_submit('dl', '"survives"') AS id \gset
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl');
SELECT state, reason FROM taskq_get(:id);
DROP TRIGGER refuse ON taskq.queue;
DROP FUNCTION t.refuse();
SELECT count(*) FROM taskq.queues WHERE queue = 'dl dead';
-- large parts are copied, too, and the copy outlives the origin
SELECT taskq_submit('dl', to_jsonb(repeat('x', 100000)), data => decode(repeat('ab', 50000), 'hex'), headers => jsonb_build_object('h', repeat('y', 50000))) AS id \gset
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('dl');
SELECT taskq_purge('dl') > 0 AS purged;
SELECT payload = to_jsonb(repeat('x', 100000)) AS payload, data = decode(repeat('ab', 50000), 'hex') AS data, headers = jsonb_build_object('h', repeat('y', 50000)) AS headers FROM t.letters();
SELECT payload = to_jsonb(repeat('x', 100000)) AS payload FROM taskq_claim('dl dead');
-- the option is removed
SELECT taskq_alter_queue('dl', '{"dead_letter_queue": null}');
SELECT t.dies('rejected');
SELECT count(*) FROM t.letters();
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.letters(text), t.dies(text);
DROP OWNED BY regress_taskq_dl;
DROP ROLE regress_taskq_dl;

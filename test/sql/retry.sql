--
-- retry: when a failed task is retried, and when it is not
--
-- fail the attempts of one task one after another; the delay of each, in
-- whole seconds, from the clock before and after the call
CREATE FUNCTION t.delays(options jsonb, attempts int, whole boolean DEFAULT true) RETURNS numeric[] LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    c record;
    delays numeric[];
    before timestamptz;
    after timestamptz;
    due timestamptz;
    low numeric;
    high numeric;
BEGIN
    PERFORM taskq_create_queue('retry', options || '{"max_attempts": -1}');
    id := taskq_submit('retry');
    FOR i IN 1..attempts LOOP
        SELECT * INTO STRICT c FROM taskq_claim('retry');
        IF c.attempt <> i THEN
            RAISE EXCEPTION 'attempt % instead of %', c.attempt, i;
        END IF;
        before := clock_timestamp();
        PERFORM taskq_fail(id, c.token, 'e');
        after := clock_timestamp();
        SELECT run_at INTO due FROM taskq_get(id);
        low := extract(epoch FROM due - after);
        high := extract(epoch FROM due - before);
        -- whole seconds lie between both
        IF whole AND floor(high) < low THEN
            RAISE EXCEPTION 'delay between % and %', low, high;
        END IF;
        delays := delays || floor(high);
        -- make it due immediately
        PERFORM taskq_update_task(id, jsonb_build_object('run_at', clock_timestamp()));
    END LOOP;
    PERFORM taskq_drop_queue('retry', true);
    RETURN delays;
END
$$;
SELECT o.options, t.delays(o.options, o.attempts)
  FROM (VALUES ('{}'::jsonb, 11),
               ('{"retry_cap": "20 s"}', 6),
               ('{"retry_base": "10 s"}', 6),
               ('{"retry": "linear"}', 4),
               ('{"retry": "linear", "retry_base": "1 min", "retry_cap": "150 s"}', 4),
               ('{"retry": "fixed"}', 3),
               ('{"retry": "fixed", "retry_base": "1 h", "retry_cap": "1 s"}', 2),
               ('{"retry": "fixed", "retry_base": "0 s"}', 3),
               ('{"retry": "list", "retry_list": ["5 s", "1 min", "10 s"]}', 5),
               ('{"retry": "list", "retry_list": ["1 d"], "retry_cap": "1 s"}', 2)) o (options, attempts);
-- many attempts: no overflow
SELECT (t.delays('{}', 70))[70] AS capped, cardinality(t.delays('{"retry_cap": "1 y"}', 70)) AS attempts;
-- jitter: never earlier, at most twice as late, above the cap, and it varies
SELECT bool_and(d BETWEEN 1000 AND 2000) AS within, bool_or(d > 1000) AS above_cap, count(DISTINCT d) > 5 AS differ
  FROM unnest(t.delays('{"retry": "fixed", "retry_base": "1000 s", "retry_cap": "1000 s", "retry_jitter": 1}', 50, false)) d;
DROP FUNCTION t.delays(jsonb, int, boolean);
-- all attempts are used
SELECT taskq_create_queue('retry', '{"retry": "fixed", "retry_base": "0 s"}');
SELECT taskq_submit('retry') AS id \gset
SELECT token, attempt, max_attempts FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e1'), :attempt AS attempt, :max_attempts AS max_attempts;
SELECT token, attempt FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e2'), :attempt AS attempt;
SELECT token, attempt FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e3', retry_in => '1 s'), :attempt AS attempt;
SELECT state, reason, message, attempt, error, jsonb_array_length(errors) AS errors, finished_at IS NOT NULL AS finished FROM taskq_get(:id);
SELECT count(*) FROM taskq_claim('retry');
-- one attempt only
SELECT taskq_submit('retry', max_attempts => 1) AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e');
SELECT state, reason FROM taskq_get(:id);
-- rejected on the last attempt stays rejected
SELECT taskq_submit('retry', max_attempts => 1) AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e', retryable => false);
SELECT state, reason FROM taskq_get(:id);
-- released and suspended attempts do not count
SELECT taskq_submit('retry', max_attempts => 1) AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_release(:id, :token);
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_suspend(:id, :token);
SELECT taskq_retry(:id);
SELECT token, attempt FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e'), :attempt AS attempt;
-- without a maximum
SELECT taskq_submit('retry', max_attempts => -1) AS id \gset
DO $$
DECLARE
    c record;
BEGIN
    FOR i IN 1..50 LOOP
        SELECT * INTO STRICT c FROM taskq_claim('retry');
        IF taskq_fail(c.task_id, c.token, 'e') <> 'pending' THEN
            RAISE EXCEPTION 'attempt % was the last', i;
        END IF;
    END LOOP;
END
$$;
SELECT state, attempt, max_attempts FROM taskq_get(:id);
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_complete(:id, :token);
SELECT state, attempt FROM taskq_get(:id);
-- retry_in is used as given, whatever the cap and jitter
SELECT taskq_alter_queue('retry', '{"retry_base": "1 h", "retry_cap": "1 s", "retry_jitter": 1}');
SELECT taskq_submit('retry') AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e', retry_in => '1 d');
SELECT run_at - now() BETWEEN interval '23:59' AND interval '24:01' AS a_day FROM taskq_get(:id);
SELECT taskq_submit('retry') AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e', retry_in => '0');
SELECT attempt FROM taskq_claim('retry');
-- a retry after the deadline makes the task dead immediately; one before it does not
SELECT taskq_submit('retry', deadline => now() + interval '2 h') AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e', retry_in => '3 h');
SELECT state, reason, attempt FROM taskq_get(:id);
SELECT taskq_submit('retry', deadline => now() + interval '2 h') AS id \gset
SELECT token FROM taskq_claim('retry') \gset
SELECT taskq_fail(:id, :token, 'e', retry_in => '1 h');
SELECT state, reason, attempt FROM taskq_get(:id);
-- a deadline does not stop a running attempt
SELECT taskq_alter_queue('retry', '{"retry_base": "0 s", "retry_jitter": null}');
SELECT taskq_submit('retry', deadline => clock_timestamp() + interval '100 ms') AS id \gset
SELECT token FROM taskq_claim('retry') \gset
CALL t.until(format('SELECT clock_timestamp() > deadline FROM taskq_get(%s)', :id));
SELECT count(*) > 0 AS ran FROM taskq_run_reapers();
SELECT taskq_complete(:id, :token);
SELECT state, reason FROM taskq_get(:id);
SELECT * FROM taskq_check();
SELECT taskq_drop_queue('retry', true) IS NOT NULL AS dropped;

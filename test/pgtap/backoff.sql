-- How long a failed attempt waits.
BEGIN;
SELECT plan(69);

-- Without jitter the delay is fixed.
CREATE TEMP TABLE expected (n serial, options jsonb, attempt int, wait interval);
INSERT INTO expected (options, attempt, wait) VALUES
    -- the defaults: exponential, base 1 s, cap 5 min
    ('{}', 1, '2 s'), ('{}', 2, '4 s'), ('{}', 3, '8 s'), ('{}', 8, '256 s'),
    ('{}', 9, '300 s'), ('{}', 10, '300 s'), ('{}', 2147483647, '300 s'),
    ('{}', 0, '2 s'), ('{}', -5, '2 s'),
    -- exponential
    ('{"retry": "exponential", "retry_base": "10 ms"}', 1, '20 ms'),
    ('{"retry": "exponential", "retry_base": "10 ms"}', 14, '163.84 s'),
    ('{"retry": "exponential", "retry_base": "10 ms"}', 15, '300 s'),
    ('{"retry_cap": "1 h"}', 11, '2048 s'),
    ('{"retry_cap": "1 h"}', 12, '3600 s'),
    ('{"retry_base": "1 min", "retry_cap": "1 min"}', 1, '60 s'),
    ('{"retry_base": "10 min"}', 1, '300 s'),
    ('{"retry_base": "1 us", "retry_cap": "3650 days"}', 1, '2 us'),
    ('{"retry_base": "1 us", "retry_cap": "3650 days"}', 40, '1099511.627776 s'),
    ('{"retry_base": "1 us", "retry_cap": "3650 days"}', 2147483647, '315360000 s'),
    ('{"retry_base": "3650 days", "retry_cap": "3650 days"}', 1, '315360000 s'),
    ('{"retry_base": "3650 days", "retry_cap": "3650 days"}', 2147483647, '315360000 s'),
    -- linear
    ('{"retry": "linear"}', 1, '1 s'), ('{"retry": "linear"}', 2, '2 s'),
    ('{"retry": "linear"}', 299, '299 s'), ('{"retry": "linear"}', 300, '300 s'),
    ('{"retry": "linear"}', 301, '300 s'),
    ('{"retry": "linear", "retry_base": "7 s", "retry_cap": "20 s"}', 2, '14 s'),
    ('{"retry": "linear", "retry_base": "7 s", "retry_cap": "20 s"}', 3, '20 s'),
    ('{"retry": "linear"}', 2147483647, '300 s'),
    ('{"retry": "linear", "retry_base": "3650 days", "retry_cap": "3650 days"}', 2147483647, '315360000 s'),
    -- fixed: the cap does not apply
    ('{"retry": "fixed"}', 1, '1 s'), ('{"retry": "fixed"}', 100, '1 s'),
    ('{"retry": "fixed", "retry_base": "90 s"}', 1, '90 s'),
    ('{"retry": "fixed", "retry_base": "90 s"}', 2147483647, '90 s'),
    ('{"retry": "fixed", "retry_base": "1 h"}', 1, '3600 s'),
    ('{"retry": "fixed", "retry_base": "3650 days"}', 2147483647, '315360000 s'),
    -- list: the last one repeats, and the cap does not apply
    ('{"retry": "list", "retry_list": ["1 s", "5 s", "1 h"]}', 1, '1 s'),
    ('{"retry": "list", "retry_list": ["1 s", "5 s", "1 h"]}', 2, '5 s'),
    ('{"retry": "list", "retry_list": ["1 s", "5 s", "1 h"]}', 3, '3600 s'),
    ('{"retry": "list", "retry_list": ["1 s", "5 s", "1 h"]}', 4, '3600 s'),
    ('{"retry": "list", "retry_list": ["1 s", "5 s", "1 h"]}', 2147483647, '3600 s'),
    ('{"retry": "list", "retry_list": ["1 s", "5 s", "1 h"]}', 0, '1 s'),
    ('{"retry": "list", "retry_list": ["9 s", "2 s"]}', 1, '9 s'),
    ('{"retry": "list", "retry_list": ["9 s", "2 s"]}', 2, '2 s'),
    ('{"retry": "list", "retry_list": ["0 s"]}', 3, '0 s');

SELECT is(extract(epoch FROM taskq.debug_backoff(e.options, e.attempt, 1)),
          extract(epoch FROM e.wait),
          format('%s, attempt %s: %s', e.options, e.attempt, e.wait))
  FROM expected e ORDER BY e.n;

-- Jitter only makes it longer, also beyond the cap.
CREATE TEMP TABLE jittered (n serial, options jsonb, attempt int, chance float8, wait interval);
INSERT INTO jittered (options, attempt, chance, wait) VALUES
    ('{"retry_jitter": 0}', 1, 1, '2 s'),
    ('{"retry_jitter": 1}', 1, 0, '2 s'),
    ('{"retry_jitter": 1}', 1, 0.5, '3 s'),
    ('{"retry_jitter": 1}', 1, 1, '4 s'),
    ('{"retry_jitter": 0.2}', 2, 0.5, '4.4 s'),
    ('{"retry_jitter": 0.5}', 20, 1, '450 s'),
    ('{"retry": "linear", "retry_jitter": 0.5}', 4, 0.5, '5 s'),
    ('{"retry": "fixed", "retry_base": "10 s", "retry_jitter": 0.1}', 9, 1, '11 s'),
    ('{"retry": "list", "retry_list": ["10 s"], "retry_jitter": 0.25}', 2, 1, '12.5 s');
SELECT is(round(extract(epoch FROM taskq.debug_backoff(j.options, j.attempt, j.chance)), 5),
          round(extract(epoch FROM j.wait), 5),
          format('%s, attempt %s, chance %s: %s', j.options, j.attempt, j.chance, j.wait))
  FROM jittered j ORDER BY j.n;

-- For any random number: from the delay to (1 + jitter) times the delay.
SELECT is_empty($$
    SELECT a, c, w FROM generate_series(1, 12) a,
           generate_series(0, 1, 0.01) c,
           LATERAL (SELECT taskq.debug_backoff('{"retry_jitter": 0.3}', a, c) AS w,
                           taskq.debug_backoff('{}', a, c) AS plain) d
     WHERE w < plain OR w > plain * 1.3 + interval '2 us'$$,
    'between the delay and 1.3 times the delay');

-- Nothing overflows: ten years are the maximum.
SELECT cmp_ok(extract(epoch FROM taskq.debug_backoff(
           '{"retry": "fixed", "retry_base": "3650 days", "retry_jitter": 1}', 2147483647, 1)),
       '<=', 3653 * 86400::numeric, 'ten years, doubled, are limited to ten years');
SELECT cmp_ok(extract(epoch FROM taskq.debug_backoff(
           '{"retry_base": "3650 days", "retry_cap": "3650 days", "retry_jitter": 1}', 2147483647, 1)),
       '>=', 3650 * 86400::numeric, 'the wait is no less than ten years');

SELECT cmp_ok(extract(epoch FROM taskq.debug_backoff(
           '{"retry_base": "10 years", "retry_cap": "10 years"}', 2147483647, 0)),
       '>=', 3600 * 86400::numeric, 'a base of ten years is allowed');
SELECT cmp_ok(extract(epoch FROM taskq.debug_backoff(
           '{"retry_base": "10 years", "retry_cap": "10 years", "retry_jitter": 1}', 2147483647, 1)),
       '<=', 3653 * 86400::numeric, 'the wait is no more than that');

-- Monotony: without jitter the next wait is never shorter.
SELECT is_empty($$
    SELECT o, a FROM unnest(ARRAY['{}', '{"retry": "linear"}', '{"retry": "fixed"}']::jsonb[]) o,
           generate_series(1, 2000) a
     WHERE taskq.debug_backoff(o, a + 1, 0) < taskq.debug_backoff(o, a, 0)$$,
    'a later attempt never waits less');

-- Invalid options.
SELECT throws_ok($$SELECT taskq.debug_backoff('{"retry": "quadratic"}', 1, 0)$$,
    'TQ004', NULL, 'an unknown formula is refused');
SELECT throws_ok($$SELECT taskq.debug_backoff('{"retry_base": "-1 s"}', 1, 0)$$,
    'TQ004', NULL, 'a negative base is refused');
SELECT throws_ok($$SELECT taskq.debug_backoff('{"retry_base": "11 years"}', 1, 0)$$,
    'TQ004', NULL, 'a base of more than ten years is refused');
SELECT throws_ok($$SELECT taskq.debug_backoff('{"retry_jitter": 1.01}', 1, 0)$$,
    'TQ004', NULL, 'a jitter above one is refused');

-- The same in a queue: the first waits of a task that fails.
SELECT lives_ok($$SELECT taskq_create_queue('backoff',
    '{"retry": "list", "retry_list": ["1 h", "2 h"], "max_attempts": 3}')$$, 'a queue');
CREATE FUNCTION pg_temp.fail_one() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
    answer text;
    since timestamptz;
    t record;
BEGIN
    SELECT * INTO STRICT c FROM taskq_claim('backoff');
    since := clock_timestamp();
    answer := taskq_fail(c.task_id, c.token, 'oops');
    SELECT coalesce(run_at, available_at) AS run_at, available_at, wake_at
      INTO t FROM taskq.task WHERE task_id = c.task_id;
    IF answer = 'pending' THEN
        answer := answer || ' ' || date_trunc('minute', t.run_at - since + interval '5 s')
            || CASE WHEN t.available_at = t.run_at AND t.wake_at = t.run_at
                    THEN ' everywhere' ELSE '' END;
        /* as if the time had passed */
        PERFORM taskq_update_task(c.task_id, jsonb_build_object('run_at', now() - interval '1 s'));
    END IF;
    RETURN answer;
END
$$;
SELECT lives_ok($$SELECT taskq_submit('backoff')$$, 'a task is submitted');
SELECT is(pg_temp.fail_one(), 'pending 01:00:00 everywhere', 'the first failure waits as configured');
SELECT is(pg_temp.fail_one(), 'pending 02:00:00 everywhere', 'the second failure waits as configured');
SELECT is(pg_temp.fail_one(), 'dead', 'the third failure waits as configured');

SELECT * FROM finish();
ROLLBACK;

--
-- finish: how an attempt ends, and what can be reported while it runs
--
SELECT taskq_create_queue('finish', '{"retry": "fixed", "retry_base": "0 s", "max_attempts": 20}');
CREATE VIEW t.look AS
SELECT task_id, state, reason, message, attempt, result, error, checkpoint,
       worker, claimed_at IS NOT NULL AS claimed, lease_until IS NOT NULL AS lease,
       finished_at IS NOT NULL AS finished
  FROM taskq.tasks;
-- complete
SELECT taskq_submit('finish', '1') AS id \gset
SELECT token FROM taskq_claim('finish', 'w') \gset
SELECT taskq_complete(:id, :token, '{"r": 1}');
SELECT state, reason, message, attempt, result, error, worker, claimed, lease, finished FROM t.look WHERE task_id = :id;
-- only once
SELECT t.try(format('SELECT taskq_complete(%s, %s)', :id, :token)) LIKE 'TQ001: %' AS lost;
SELECT result FROM t.look WHERE task_id = :id;
-- the message for a lost lease is the same whatever the cause
SELECT taskq_submit('finish', '2') AS other \gset
SELECT f, g.what,
       replace(t.try(format('SELECT * FROM %s(%s, %s%s)', f, g.id, g.token,
           CASE f WHEN 'taskq_fail' THEN ', ''e''' WHEN 'taskq_checkpoint' THEN ', ''1''' ELSE '' END)),
           g.id::text, 'ID') AS answer
  FROM unnest(ARRAY['taskq_complete', 'taskq_fail', 'taskq_release', 'taskq_suspend', 'taskq_filter',
                    'taskq_extend', 'taskq_progress', 'taskq_checkpoint']) f,
       (VALUES (1, 'finished', :id, :token), (2, 'stale', :id, :token - 1), (3, 'pending', :other, 1), (4, 'zero', :other, 0),
               (5, 'never was', 999999, 1), (6, 'negative', -1, -1)) g (o, what, id, token)
 ORDER BY f, g.o;
SELECT taskq_cancel(:other);
-- a token of another task
SELECT taskq_submit('finish', '3') AS a, taskq_submit('finish', '4') AS b \gset
SELECT max(token) FILTER (WHERE task_id = :a) AS token_a, max(token) FILTER (WHERE task_id = :b) AS token_b
  FROM taskq_claim('finish', max_tasks => 2) \gset
SELECT taskq_fail(:a, :token_a, 'again');
SELECT token AS token_a2 FROM taskq_claim('finish') \gset
SELECT :token_a2 > :token_a AS rises;
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :b, :token_a2)), 5);
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :a, :token_a)), 5);
SELECT state FROM taskq_get_many(ARRAY[:a, :b]);
SELECT taskq_complete(:a, :token_a2, keep => NULL);
-- keep false leaves no trace
SELECT taskq_complete(:b, :token_b, '"gone"', keep => false);
SELECT t.try('SELECT taskq_get(' || :b || ')') LIKE 'TQ002: %' AS no_trace;
-- a late answer counts until the task has been reclaimed
SELECT taskq_submit('finish late') AS id \gset
BEGIN;
SELECT token, lease_until FROM taskq_claim('finish late', lease => '1 ms') \gset
DO $$
DECLARE
    ends timestamptz := clock_timestamp() + interval '1 ms';
BEGIN
    WHILE clock_timestamp() <= ends LOOP
        NULL;
    END LOOP;
END
$$;
SELECT clock_timestamp() > :'lease_until' AS late;
SELECT taskq_complete(:id, :token);
COMMIT;
SELECT state FROM taskq_get(:id);
SELECT taskq_submit('finish late') AS id \gset
SELECT token FROM taskq_claim('finish late', lease => '1 ms') \gset
CALL t.until(format('SELECT (SELECT true FROM taskq_run_reapers() LIMIT 1) AND state <> ''running'' FROM taskq_get(%s)', :id));
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :id, :token)), 5);
SELECT state, reason, attempt, error FROM t.look WHERE task_id = :id;
SELECT attempt FROM taskq_claim('finish late');
-- fail: the attempt counts, the error is kept
SELECT taskq_submit('finish', '5') AS id \gset
SELECT token FROM taskq_claim('finish', 'worker 1') \gset
SELECT taskq_fail(:id, :token, 'first', detail => '{"line": 7}');
SELECT state, reason, message, attempt, result, error, worker, claimed, lease, finished FROM t.look WHERE task_id = :id;
SELECT jsonb_path_query_array(errors, '$[*].keyvalue() ? (@.key != "at").value') AS values,
       (errors -> 0 ->> 'at')::timestamptz - now() < interval '1 min' AS at
  FROM taskq_get(:id);
SELECT token FROM taskq_claim('finish') \gset
SELECT taskq_fail(:id, :token, '', detail => '[1]');
SELECT error, errors -> 1 -> 'error' AS second, errors -> 1 ? 'worker' AS has_worker, errors -> 1 -> 'detail' AS detail FROM taskq_get(:id);
-- of many errors the last ten are kept
DO $$
DECLARE
    c record;
BEGIN
    FOR i IN 3..14 LOOP
        SELECT * INTO STRICT c FROM taskq_claim('finish');
        PERFORM taskq_fail(c.task_id, c.token, 'error ' || i);
    END LOOP;
END
$$;
SELECT attempt, jsonb_array_length(errors) AS kept, errors -> 0 ->> 'error' AS oldest,
       errors -> 0 -> 'attempt' AS oldest_attempt, errors -> 9 ->> 'error' AS newest, error
  FROM taskq_get(:id);
-- rejected immediately
SELECT token FROM taskq_claim('finish') \gset
SELECT taskq_fail(:id, :token, 'never again', retryable => false);
SELECT state, reason, attempt, error, finished FROM t.look WHERE task_id = :id;
-- release costs no attempt
SELECT taskq_submit('finish', '6') AS id \gset
SELECT token FROM taskq_claim('finish', 'w') \gset
SELECT taskq_release(:id, :token, reason => 'not now', result => '{"part": 1}');
SELECT state, reason, message, attempt, result, error, worker, claimed, lease, finished FROM t.look WHERE task_id = :id;
SELECT attempt, token > :token AS new_token FROM taskq_claim('finish');
SELECT token FROM taskq_get(:id) \gset
SELECT taskq_release(:id, :token, '1 h');
SELECT state, attempt, run_at - now() BETWEEN interval '59 min' AND interval '61 min' AS in_an_hour FROM taskq_get(:id);
SELECT count(*) FROM taskq_claim('finish');
SELECT taskq_cancel(:id);
-- suspend costs no attempt, and the task waits for an operator
SELECT taskq_submit('finish', '7') AS id \gset
SELECT token FROM taskq_claim('finish', 'w') \gset
SELECT taskq_suspend(:id, :token, 'ask the boss');
SELECT state, reason, message, attempt, result, error, worker, claimed, lease, finished FROM t.look WHERE task_id = :id;
SELECT count(*) FROM taskq_claim('finish');
SELECT taskq_retry(:id);
SELECT token, attempt FROM taskq_claim('finish', 'w') \gset
SELECT :attempt AS attempt;
-- filter is a final state
SELECT taskq_filter(:id, :token, 'not needed here');
SELECT state, reason, message, attempt, result, error, worker, claimed, lease, finished FROM t.look WHERE task_id = :id;
-- extend a lease
SELECT taskq_submit('finish', '8') AS id \gset
SELECT token, lease_until AS first_end FROM taskq_claim('finish', lease => '1 min') \gset
SELECT lease_until > :'first_end' AS longer,
       lease_until - now() BETWEEN interval '59 min' AND interval '61 min' AS an_hour, cancel
  FROM taskq_extend(:id, :token, '1 h');
SELECT lease_until - now() BETWEEN interval '4 min' AND interval '6 min' AS the_queues, cancel
  FROM taskq_extend(:id, :token);
SELECT lease_until - now() BETWEEN interval '4 min' AND interval '6 min' AS stored FROM taskq_get(:id);
-- progress and checkpoint do not change the lease
SELECT lease_until AS ends FROM taskq_get(:id) \gset
SELECT lease_until = :'ends' AS the_same, cancel FROM taskq_progress(:id, :token, 0.25, 'a quarter');
SELECT progress FROM taskq_get(:id);
SELECT progress FROM taskq.tasks WHERE task_id = :id;
SELECT cancel FROM taskq_progress(:id, :token);
SELECT progress FROM taskq_get(:id);
SELECT p, t.code(format('SELECT taskq_progress(%s, %s, %L)', :id, :token, p))
  FROM unnest(ARRAY['0', '1', '-0', '1.0000001', '-0.1', 'NaN', 'Infinity', '-Infinity']) p;
SELECT lease_until = :'ends' AS the_same, cancel FROM taskq_checkpoint(:id, :token, '{"at": 5}', 0.5);
SELECT checkpoint, progress FROM taskq_get(:id);
-- a checkpoint is kept over retries
SELECT taskq_fail(:id, :token, 'and again');
SELECT checkpoint, attempt, token FROM taskq_claim('finish') \gset
SELECT :'checkpoint' AS checkpoint, :attempt AS attempt;
SELECT progress FROM taskq_get(:id);
-- asked to stop: each of the three calls reports it, and every end but success cancels the task
SELECT taskq_cancel(:id, 'enough');
SELECT (taskq_extend(:id, :token)).cancel, (taskq_progress(:id, :token)).cancel AS progress, (taskq_checkpoint(:id, :token, '2')).cancel AS checkpoint;
SELECT taskq_fail(:id, :token, 'stopped');
SELECT state, message, attempt, error FROM t.look WHERE task_id = :id;
CREATE FUNCTION t.ends(e text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit('asked');
    c record;
BEGIN
    SELECT * INTO STRICT c FROM taskq_claim('asked');
    IF taskq_cancel(id) <> 'requested' THEN
        RETURN 'not requested';
    END IF;
    EXECUTE format('SELECT %s', replace(e, '$', format('%s, %s', id, c.token)));
    RETURN (taskq_get(id)).state;
END
$$;
SELECT e, t.ends(e)
  FROM unnest(ARRAY['taskq_complete($)', 'taskq_fail($, ''e'')', 'taskq_fail($, ''e'', false)', 'taskq_fail($, ''e'', true, ''1 h'')',
                    'taskq_release($)', 'taskq_release($, ''1 h'')', 'taskq_suspend($)', 'taskq_filter($)']) e;
-- results and details that are too large, or of the wrong type
SELECT taskq_submit('finish', '9') AS id \gset
SELECT token FROM taskq_claim('finish') \gset
SELECT t.try(format('SELECT taskq_fail(%s, %s, NULL)', :id, :token));
SELECT t.try(format('SELECT taskq_fail(%s, %s, ''e'', detail => %L)', :id, :token, to_jsonb(repeat('x', 65536))));
SELECT t.try(format('SELECT taskq_fail(%s, %s, ''e'', retry_in => ''-1 s'')', :id, :token));
SELECT t.try(format('SELECT taskq_release(%s, %s, ''-1 s'')', :id, :token));
SELECT t.try(format('SELECT taskq_extend(%s, %s, ''0'')', :id, :token));
SELECT t.try(format('SELECT taskq_checkpoint(%s, %s, NULL)', :id, :token));
-- error texts are cut at 8 kB, at a character
SELECT taskq_fail(:id, :token, repeat('€', 3000), retryable => false);
SELECT octet_length(error) AS bytes, length(error) AS characters, right(error, 1) AS last FROM taskq_get(:id);
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.ends(text);
DROP VIEW t.look;

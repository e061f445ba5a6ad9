--
-- options: options of queues for limits, references and deaths, and options of tasks
--
SELECT taskq_create_queue('o');
-- each option, valid values and invalid ones
CREATE TABLE t.options (n serial, o text, v text);
INSERT INTO t.options (o, v)
SELECT o, v FROM (VALUES
    ('max_running', ARRAY['1', '2147483647', '0', '-1', '1.5', '2147483648', '"1"', 'true', '[]']),
    ('rate_limit', ARRAY['{"count": 1, "per": "1 us"}', '{"count": 1000000000, "per": "10 years"}', '{"count": 0, "per": "1 s"}', '{"count": -1, "per": "1 s"}', '{"count": 1.5, "per": "1 s"}',
        '{"count": 1000000001, "per": "1 s"}', '{"count": 1, "per": "0 s"}', '{"count": 1, "per": "-1 s"}', '{"count": 1, "per": "1"}', '{"count": 1, "per": 1}', '{"count": 1, "per": "11 years"}',
        '{"count": 1, "per": "soon"}', '{"count": "1", "per": "1 s"}', '{"count": null, "per": "1 s"}', '{"count": 1}', '{"per": "1 s"}', '{"count": 1, "per": "1 s", "more": 1}', '{}', '1', '"1 per s"', '[1, "1 s"]']),
    ('max_depth', ARRAY['1', '9007199254740992', '0', '-1', '1.5', '9007199254740993000', '"1"', 'false']),
    ('reference_window', ARRAY['"1 s"', '"forever"', '"none"', '"0 s"', '"-1 s"', '"1"', '"11 years"', '1', 'true']),
    ('on_worker_death', ARRAY['"requeue"', '"hold"', '"kill"', '"Kill"', '""', '1']),
    ('dead_letter_queue', ARRAY['"dead letters"', '"o"', '""', '"*"', '1', 'true', '[]']),
    ('history', ARRAY['"transitions"', '"none"', '"all"', 'true', '1'])
    ) x (o, vs), unnest(x.vs) v;
SELECT o, v,
       replace(t.try(format('SELECT taskq_alter_queue(''o'', %L)', format('{%s: %s}', to_json(o), v))), 'queue option ', '') AS answer
  FROM t.options ORDER BY n;
SELECT options FROM taskq.queues WHERE queue = 'o';
-- the same when the queue is created
SELECT count(*) AS differ
  FROM t.options, LATERAL (SELECT format('{%s: %s}', to_json(o), v) AS doc) d
 WHERE t.code(format('SELECT taskq_alter_queue(''o'', %L)', doc)) <> t.code(format('SELECT taskq_create_queue(''new'' || md5(%L), %1$L)', doc));
SELECT count(taskq_drop_queue(queue)) > 0 AS dropped FROM taskq.queues WHERE queue LIKE 'new%';
DROP TABLE t.options;
SELECT t.try(format('SELECT taskq_alter_queue(''o'', %L)', jsonb_build_object('dead_letter_queue', repeat('x', 201))));
SELECT t.try(format('SELECT taskq_alter_queue(''o'', %L)', jsonb_build_object('dead_letter_queue', E'a\nb')));
-- null resets each
SELECT taskq_alter_queue('o', '{"max_running": null, "rate_limit": null, "max_depth": null, "reference_window": null, "on_worker_death": null, "dead_letter_queue": null, "history": null}');
SELECT options FROM taskq.queues WHERE queue = 'o';
-- unknown options, and options of tasks only
SELECT t.try($$SELECT taskq_alter_queue('o', '{"max_runing": 1}')$$);
SELECT t.try($$SELECT taskq_alter_queue('o', '{"deadline_in": "1 h"}')$$);
--
-- a task's own options
--
SELECT n, t.try(format('SELECT taskq_submit(''o'', options => %L) > 0', n)) AS answer
  FROM unnest(ARRAY['{}', 'null', '[]', '1', '"x"', 'true', '{"colour": "red"}', '{"priority": 1}', '{"max_attempts": 1}', '{"order": "lifo"}', '{"max_running": 1}', '{"max_payload": 1}', '{"retention_dead": "1 d"}',
                    '{"dead_letter_queue": "x"}', '{"history": "none"}', '{"retry": "fixed"}', '{"retry": "never"}', '{"retry": "list"}', '{"retry": "list", "retry_list": ["1 s"]}', '{"retry_list": []}', '{"retry_base": "1"}', '{"retry_cap": "-1 s"}',
                    '{"retry_jitter": 2}', '{"lease": "0 s"}', '{"time_limit": 1}', '{"retention": "never"}', '{"reference_window": "0 s"}', '{"on_worker_death": "die"}', '{"deadline_in": "0 s"}', '{"deadline_in": "1"}', '{"deadline_in": null}',
                    '{"retry": null, "lease": null}']) n;
-- the same for lists
SELECT t.try($$SELECT count(*) FROM taskq_submit_many('o', '{1}', options => '{"colour": "red"}')$$);
SELECT t.try($$SELECT count(*) FROM taskq_submit_tasks('[{"queue": "o", "options": {"colour": "red"}}]')$$);
SELECT count(taskq_drop_queue('o', true)) AS dropped;
-- retry…: instead of the queue's
SELECT taskq_create_queue('own', '{"retry": "fixed", "retry_base": "1 h", "lease": "1 h", "max_attempts": 5}');
CREATE FUNCTION t.waits(options jsonb, failures int DEFAULT 1) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit('own', options => $1);
    answer text;
    c record;
BEGIN
    FOR i IN 1..failures LOOP
        SELECT * INTO STRICT c FROM taskq_claim('own');
        PERFORM taskq_fail(c.task_id, c.token, 'e');
        SELECT concat_ws(', ', answer, date_trunc('minute', g.run_at - clock_timestamp() + interval '30 s')) INTO answer FROM taskq_get(id) g;
        IF i < failures THEN
            PERFORM t.due_now(id);
        END IF;
    END LOOP;
    PERFORM taskq_cancel(id);
    RETURN answer;
END
$$;
-- a waiting task is made due
CREATE FUNCTION t.due_now(id bigint) RETURNS void LANGUAGE sql AS $$
SELECT taskq_update_task(id, jsonb_build_object('run_at', now() - interval '1 s'));
$$;
SELECT t.waits(NULL), t.waits('{}') AS nothing, t.waits('{"retry_base": "2 h"}') AS base, t.waits('{"retry": "exponential"}') AS exponential,
       t.waits('{"retry": "exponential", "retry_cap": "90 min"}') AS cap, t.waits('{"retry": "linear", "retry_cap": "1 d"}', 2) AS linear,
       t.waits('{"retry": "list", "retry_list": ["3 h", "4 h"]}', 3) AS list;
SELECT t.waits('{"retry_base": "10 h", "retry_jitter": 0}') AS without, t.waits('{"retry_base": "10 h", "retry_jitter": 1}')::interval BETWEEN interval '10 h' AND interval '20 h 1 min' AS jitter;
SELECT t.waits(NULL) AS others_have_the_queues;
-- lease
SELECT count(taskq_submit('own', options => o)) FROM unnest(ARRAY[NULL, '{"lease": "2 h"}']::jsonb[]) o;
SELECT count(*) FROM taskq_claim('own', max_tasks => 2);
SELECT date_trunc('minute', lease_until - now() + interval '30 s') AS lease FROM taskq_list('own', 'running');
SELECT date_trunc('minute', x.lease_until - now() + interval '30 s') AS extended FROM taskq_list('own', 'running') r, taskq_extend(r.task_id, r.token) x ORDER BY r.task_id;
SELECT date_trunc('minute', x.lease_until - now() + interval '30 s') AS given FROM taskq_list('own', 'running') r, taskq_extend(r.task_id, r.token, '3 h') x ORDER BY r.task_id;
SELECT count(*), count(taskq_complete(task_id, token)) FROM taskq_list('own', 'running');
-- time_limit: a failed attempt
SELECT taskq_submit('own', options => '{"time_limit": "1 ms", "retry_base": "5 h"}') AS id \gset
SELECT count(*) FROM taskq_claim('own');
CALL t.until(format('SELECT state = ''pending'' FROM taskq_get(%s)', :id));
SELECT state, attempt, error, date_trunc('minute', run_at - clock_timestamp() + interval '30 s') AS wait FROM taskq_get(:id);
SELECT taskq_cancel(:id);
-- retention
CREATE TABLE t.done (n serial, options jsonb, id bigint);
CREATE PROCEDURE t.do(options jsonb, reference text DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO t.done (options, id) VALUES ($1, taskq_submit('own', options => $1, reference => $2));
    PERFORM taskq_complete(c.task_id, c.token) FROM taskq_claim('own') c;
END
$$;
CALL t.do(NULL);
CALL t.do('{}');
CALL t.do('{"retention": "none"}');
CALL t.do('{"retention": 0}');
CALL t.do('{"retention": "2 d"}');
CALL t.do('{"retention": "forever"}');
SELECT taskq_alter_queue('own', '{"retention": "none"}');
CALL t.do(NULL);
CALL t.do('{"retention": "3 d"}');
SELECT taskq_alter_queue('own', '{"retention": null}');
SELECT d.n, d.options, a.task_id IS NOT NULL AS there, a.bucket = 16 AS own_time, CASE WHEN a.expires_at = 'infinity' THEN 'forever' ELSE date_trunc('minute', a.expires_at - a.finished_at + interval '1 s')::text END AS stays
  FROM t.done d LEFT JOIN taskq.archive a ON a.task_id = d.id
 ORDER BY n;
-- reference_window
CALL t.do('{"reference_window": "1 h"}', 'windowed');
CALL t.do(NULL, 'not windowed');
SELECT left(t.try($$SELECT taskq_submit('own', reference => 'windowed')$$), 5), t.try($$SELECT taskq_submit('own', reference => 'not windowed', suspended => true) > 0$$);
DROP PROCEDURE t.do(jsonb, text);
DROP TABLE t.done;
-- on_worker_death
SELECT taskq_create_queue('death ' || w, jsonb_build_object('on_worker_death', w)) FROM unnest('{requeue,hold,kill}'::text[]) w;
CREATE TABLE t.lost (n serial, queue text, own text, attempts int, becomes text);
CREATE PROCEDURE t.lose(queue text, own text, attempts int) LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit($1, options => CASE WHEN own <> '' THEN jsonb_build_object('on_worker_death', own) END, max_attempts => $3);
BEGIN
    PERFORM taskq_register('mortal');
    PERFORM taskq_claim($1, 'mortal');
    COMMIT;
    PERFORM taskq_register('mortal');
    INSERT INTO t.lost (queue, own, attempts, becomes) SELECT $1, $2, $3, concat_ws(' ', g.state, g.reason, g.attempt, g.error) FROM taskq_get(id) g;
    IF (SELECT state IN ('pending', 'suspended') FROM taskq_get(id)) THEN
        PERFORM taskq_cancel(id);
    END IF;
    PERFORM taskq_deregister('mortal');
END
$$;
CREATE PROCEDURE t.lose_all() LANGUAGE plpgsql AS $$
DECLARE
    q text; own text; n int;
BEGIN
    FOREACH q IN ARRAY ARRAY['requeue', 'hold', 'kill'] LOOP
        FOREACH own IN ARRAY ARRAY['', 'requeue', 'hold', 'kill'] LOOP
            FOREACH n IN ARRAY ARRAY[2, 1] LOOP
                CALL t.lose('death ' || q, own, n);
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;
CALL t.lose_all();
SELECT queue, own, attempts, becomes FROM t.lost ORDER BY n;
DROP PROCEDURE t.lose_all(), t.lose(text, text, int);
DROP TABLE t.lost;
-- a lease that expires is the same kind of loss, a time limit is not
SELECT taskq_submit(q, to_jsonb(l), options => ('{"retry_base": "1 h", "retry_cap": "1 h", ' || l || '}')::jsonb) > 0 AS submitted
  FROM unnest('{death requeue,death hold,death kill}'::text[]) q, unnest(ARRAY['"lease": "1 ms"', '"time_limit": "1 ms"']) l;
SELECT count(*) FROM unnest('{death requeue,death hold,death kill}'::text[]) q, taskq_claim(q, max_tasks => 2);
CALL t.until('SELECT count(*) = 0 FROM taskq.tasks WHERE queue LIKE ''death%'' AND state = ''running''');
SELECT queue, payload #>> '{}' AS had, state, reason, attempt, error FROM taskq.tasks WHERE queue LIKE 'death%' AND error !~ 'worker' ORDER BY task_id;
-- a held task can be resumed, and deregistering is not a death
SELECT task_id AS id FROM taskq.tasks WHERE queue = 'death hold' AND state = 'suspended' \gset
SELECT taskq_retry(:id);
SELECT state, reason, attempt FROM taskq_get(:id);
SELECT taskq_register('leaves');
SELECT count(*) FROM taskq_claim('death hold', 'leaves');
SELECT taskq_deregister('leaves');
SELECT state, reason, attempt FROM taskq_get(:id);
-- a task that was asked to stop is cancelled
SELECT taskq_register('mortal');
SELECT count(*) FROM taskq_claim('death hold', 'mortal');
SELECT taskq_cancel(:id);
SELECT taskq_register('mortal');
SELECT state, attempt FROM taskq_get(:id);
SELECT taskq_deregister('mortal');
-- deadline_in: a deadline counted from the submit
SELECT date_trunc('minute', deadline - created_at + interval '30 s') AS deadline FROM taskq_get(taskq_submit('own', options => '{"deadline_in": "1 h"}', suspended => true));
SELECT date_trunc('minute', deadline - created_at + interval '30 s') AS deadline, state FROM taskq_get(taskq_submit('own', options => '{"deadline_in": "1 h"}', delay => '30 min'));
SELECT t.try($$SELECT taskq_submit('own', options => '{"deadline_in": "1 h"}', deadline => now() + interval '2 h')$$);
SELECT t.try($$SELECT taskq_submit('own', options => '{"deadline_in": "1 h"}', delay => '2 h')$$);
SELECT taskq_submit('own', options => '{"deadline_in": "1 us"}') AS id \gset
SELECT count(*) AS never_handed_out FROM taskq_claim('own');
CALL t.until(format('SELECT state = ''dead'' FROM taskq_get(%s)', :id));
SELECT state, reason, attempt FROM taskq_get(:id);
-- a retry after it ends the task
SELECT taskq_submit('own', options => '{"deadline_in": "30 min"}', priority => 1) AS id \gset
SELECT taskq_fail(task_id, token, 'e') FROM taskq_claim('own');
SELECT state, reason, attempt FROM taskq_get(:id);
-- options of a queue that are changed later apply to a task without options of its own
SELECT taskq_submit('own', options => '{"lease": "2 h"}', priority => 2) AS id \gset
SELECT taskq_alter_queue('own', '{"retry_base": "7 h", "lease": "7 h"}');
SELECT token, date_trunc('minute', lease_until - now() + interval '30 s') AS lease FROM taskq_claim('own') \gset
SELECT :'lease' AS lease, taskq_fail(:id, :token, 'e');
SELECT date_trunc('minute', run_at - clock_timestamp() + interval '30 s') AS wait FROM taskq_get(:id);
-- an option is read in the same way in every session
SET intervalstyle = sql_standard;
SELECT taskq_create_queue('o style', '{"lease": "-1 day 48:00"}');
SELECT taskq_submit('o style') > 0 AS submitted;
SELECT lease_until > clock_timestamp() + interval '23 h' AS a_day FROM taskq_claim('o style');
RESET intervalstyle;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.waits(jsonb, int), t.due_now(bigint);

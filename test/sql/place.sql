-- A task that is requeued without a failure of its own keeps its position.
SELECT taskq_create_queue('p', '{"retention": "none", "retry_base": "1 h", "retry": "fixed", "max_attempts": 9}');
CREATE FUNCTION t.claim(worker text, lease interval DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT payload #>> '{}' FROM taskq_claim('p', worker, lease => lease) $$;
CREATE FUNCTION t.is(name text) RETURNS SETOF taskq.tasks LANGUAGE sql AS $$ SELECT * FROM taskq.tasks WHERE queue = 'p' AND payload #>> '{}' = name $$;
-- until no task with an expired lease is running
CREATE PROCEDURE t.reap() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        PERFORM taskq_run_reapers();
        EXIT WHEN NOT EXISTS (SELECT FROM taskq.tasks WHERE queue = 'p' AND state = 'running' AND lease_until < clock_timestamp() + interval '1 min');
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT count(taskq_submit('p', to_jsonb(chr(96 + i)), run_at => now() - interval '1 h' + i * interval '1 min')) FROM generate_series(1, 8) i;
SELECT run_at AS run_at_a FROM t.is('a') \gset
-- released; released with a delay of 0
SELECT t.claim('x'), t.claim('x');
SELECT taskq_release(task_id, token) FROM t.is('a');
SELECT ok, d.state FROM t.is('b') t, taskq_decide_many(jsonb_build_array(jsonb_build_object('task_id', t.task_id, 'token', t.token, 'outcome', 'release', 'delay', '0 s'))) d;
SELECT t.claim('x') AS a, t.claim('x') AS b, t.claim('x') AS c;
SELECT run_at = :'run_at_a' AS due_as_before, attempt, version FROM t.is('a');
-- its worker leaves; another process registers its name
SELECT taskq_register('w', '{p}'), taskq_register('v', '{p}');
SELECT t.claim('w') AS d, t.claim('v') AS e, t.claim('v') AS f;
SELECT taskq_deregister('w'), taskq_register('v', '{p}');
SELECT t.claim('v') AS d, t.claim('v') AS e, t.claim('v') AS f;
-- if its worker dies a second time, the task waits for its backoff
SELECT taskq_register('v', '{p}');
SELECT payload, run_at > now() + interval '50 min' AS later FROM taskq.tasks WHERE queue = 'p' AND payload <@ '["d", "e", "f"]' ORDER BY payload;
-- its lease expires, which does not raise the version
SELECT t.claim('l', '1 ms') AS d, t.claim('l', '1 ms') AS g;
SELECT version AS version_g, task_id AS task_id_g FROM t.is('g') \gset
CALL t.reap();
SELECT state, reason, attempt, version - :version_g AS raised, errors -> 0 ->> 'error' AS error FROM t.is('g');
SELECT t.claim('l', '1 ms') AS d, t.claim('l', '1 h') AS g;
SELECT state, version - :version_g AS raised FROM t.is('g');
CALL t.reap();
-- what the former owner knows of the task is valid until another worker claims it
SELECT t.claim('owner', '1 ms') AS d;
SELECT version AS version_d, task_id AS task_id_d FROM t.is('d') \gset
CALL t.reap();
SELECT payload, state FROM taskq_change('owner', updates => jsonb_build_array(jsonb_build_object('task_id', :task_id_d, 'version', :version_d, 'payload', 'd', 'lease', '1 ms')));
SELECT version AS version_d FROM t.is('d') \gset
CALL t.reap();
SELECT t.claim('other', '1 h') AS d;
SET client_min_messages = notice;
DO $$ BEGIN
    PERFORM taskq_change('owner', updates => (SELECT jsonb_build_array(jsonb_build_object('task_id', task_id, 'version', version - 1)) FROM t.is('d')));
EXCEPTION WHEN SQLSTATE 'TQ010' THEN
    RAISE NOTICE 'another has it';
END $$;
RESET client_min_messages;
-- released by a change of its owner
SELECT state FROM taskq_change('other', updates => (SELECT jsonb_build_array(jsonb_build_object('task_id', task_id)) FROM t.is('d')));
SELECT t.claim('x') AS d, t.claim('x') AS h;
SELECT * FROM taskq_check();
-- the number of attempts is limited, but a task with any number of attempts is not
SELECT taskq_submit('p', '"z"', max_attempts => -1, priority => 9) > 0 AS submitted;
UPDATE taskq.task SET attempt = 2147483646 WHERE task_id = (SELECT task_id FROM t.is('z'));
SELECT t.claim('x') AS z;
SELECT attempt, taskq_fail(task_id, token, 'x', retry_in => '0') FROM t.is('z');
SELECT t.claim('x') AS z;
SELECT attempt, taskq_fail(task_id, token, 'x', retry_in => '0') FROM t.is('z');
SELECT taskq_drop_queue('p', true);
DROP FUNCTION t.claim, t.is;
DROP PROCEDURE t.reap;

-- Atomic changes of several tasks: all or nothing, every problem is reported in one error.
SELECT taskq_create_queue('map', '{"retention": "7 d"}'), taskq_create_queue('reduce');
CREATE TEMP TABLE t (name text PRIMARY KEY, id bigint, version bigint);
CREATE FUNCTION pg_temp.code(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    state text;
    words text;
    more text;
    place text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, words = MESSAGE_TEXT, more = PG_EXCEPTION_DETAIL, place = PG_EXCEPTION_CONTEXT;
    RETURN concat_ws(' ', state || ':', words, nullif(more, ''), '(' || substring(place FROM 'entry [a-z]+\[[0-9]+\]') || ')');
END $$;
-- ids as names
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    r record;
BEGIN
    FOR r IN SELECT * FROM t LOOP
        statement := replace(statement, '<' || r.name || '>', r.id::text);
    END LOOP;
    answer := pg_temp.code(statement);
    FOR r IN SELECT * FROM t ORDER BY id DESC LOOP
        answer := regexp_replace(answer, '\m' || r.id || '\M', r.name, 'g');
    END LOOP;
    RETURN answer;
END $$;

-- Adds, in the order given, owned or not.
INSERT INTO t SELECT payload ->> 0, task_id, version
  FROM taskq_change('me', '[{"queue": "map", "payload": ["a"]}, {"queue": "map", "payload": ["b"], "lease": "1 min"},
                            {"queue": "reduce", "payload": ["c"], "key": "k", "reference": "r", "tags": ["x"], "priority": 3}]');
SELECT queue, state, payload, worker, attempt, max_attempts, key, reference, tags, priority, version FROM taskq.tasks ORDER BY task_id;
-- the same reference again: the task is dropped, or it is a collision
SELECT count(*) FROM taskq_change('me', '[{"queue": "reduce", "reference": "r", "skip_existing": true}]');
SELECT pg_temp.try('SELECT * FROM taskq_change(''me'', ''[{"queue": "reduce", "reference": "r"}, {"queue": "map", "reference": "r"}]'')');

-- Updates: a missing member leaves its value; a lease claims or keeps, no lease releases.
SELECT payload, state, worker, lease_until > now() AS held, version - 1 > 0 AS raised
  FROM taskq_change('me', updates => (SELECT jsonb_agg(jsonb_build_object('task_id', id, 'version', version, 'lease', '5 min')) FROM t WHERE name IN ('a', 'b')));
SELECT payload, state, worker FROM taskq_change('me', updates => (SELECT jsonb_build_array(jsonb_build_object('task_id', id, 'payload', '["b", 2]'::jsonb, 'lease', '5 min')) FROM t WHERE name = 'b'));
SELECT pg_temp.try('SELECT * FROM taskq_change(''me'', updates => ''[{"task_id": <b>, "version": 1, "lease": "1 min"}]'')');
SELECT payload, state, worker, attempt FROM taskq_change('me', updates => (SELECT jsonb_build_array(jsonb_build_object('task_id', id)) FROM t WHERE name = 'b'));
SELECT payload, queue, priority, state FROM taskq_change('me', updates => (SELECT jsonb_build_array(jsonb_build_object('task_id', id, 'queue', 'reduce', 'priority', 7, 'payload', NULL)) FROM t WHERE name = 'b'));
SELECT state, run_at > now() + interval '50 min' AS later FROM taskq_change('me', updates => (SELECT jsonb_build_array(jsonb_build_object('task_id', id, 'delay', '1 h')) FROM t WHERE name = 'b'));

-- Tasks of other workers: neither updated nor deleted, but other tasks may depend on them.
SELECT pg_temp.try('SELECT * FROM taskq_change(''you'', ''[{"queue": "map"}]'', ''[{"task_id": <a>}]'', ''[<c>]'', ''[<b>]'')');
SELECT count(*) FROM taskq_change('you', '[{"queue": "map", "payload": ["d"]}]', depends => (SELECT jsonb_agg(id) FROM t WHERE name IN ('a', 'b')));
INSERT INTO t SELECT payload ->> 0, task_id, version FROM taskq.tasks WHERE payload = '["d"]';
-- A task is done if its owner deletes it, otherwise it is cancelled.
SELECT count(*) FROM taskq_change('me', deletes => (SELECT jsonb_agg(id) FROM t WHERE name IN ('a', 'd')));
SELECT state, reason FROM taskq.tasks WHERE task_id IN (SELECT id FROM t WHERE name IN ('a', 'd')) ORDER BY task_id;

-- One error reports every problem, and nothing is changed.
SELECT pg_temp.try('SELECT * FROM taskq_change(''you'',
    ''[{"payload": 1}, {"queue": "reduce", "reference": "r"}]'',
    ''[{"task_id": <a>}, {"task_id": -1}, {"task_id": <c>, "version": 77}]'',
    ''[<d>, {"task_id": <b>, "version": 1}]'', ''[-77777777, <b>]'')');
SELECT pg_temp.try('SELECT * FROM taskq_change(''you'')');
SELECT pg_temp.try('SELECT * FROM taskq_change(''you'', depends => ''[<b>]'')');
SELECT pg_temp.try('SELECT * FROM taskq_change(''you'', updates => ''[{"task_id": <b>}, {"task_id": <b>}]'')');
SELECT count(*) FROM taskq.tasks;

-- Invalid entries.
SELECT pg_temp.try(format('SELECT * FROM taskq_change(%s)', c))
  FROM unnest(ARRAY['NULL', '''''', '''w'', ''{}''', '''w'', ''[1]''', '''w'', ''[{"queue": "map", "colour": 1}]''', '''w'', ''[{"queue": 5}]''',
                    '''w'', ''[{"queue": "map", "lease": "-1 s"}]''', '''w'', ''[{"queue": "map", "lease": "infinity"}]''', '''w'', ''[{"queue": "map", "lease": 5}]''',
                    '''w'', ''[{"queue": "map", "lease": "1 s", "suspended": true}]''', '''w'', ''[{"queue": "map", "on_conflict": "skip"}]''',
                    '''w'', updates => ''[7]''', '''w'', updates => ''[{}]''', '''w'', updates => ''[{"task_id": 1.5}]''', '''w'', updates => ''[{"task_id": 1, "insertion": "delete"}]''',
                    '''w'', deletes => ''["x"]''', '''w'', deletes => ''[{"task_id": null}]''', '''w'', deletes => ''[{"task_id": 1, "lease": "1 s"}]''',
                    '''w'', depends => ''[{"id": 1}]''', '''w'', doc_adds => ''[{}]''']) c;
-- a lease of 0 claims nothing
SELECT state FROM taskq_change('me', '[{"queue": "map", "lease": "0 s"}]');
-- limits hold
SELECT taskq_create_queue('one', '{"max_running": 1}');
SELECT count(*) FROM taskq_change('me', '[{"queue": "one", "lease": "1 min"}, {"queue": "one"}]');
SELECT pg_temp.code('SELECT * FROM taskq_change(''me'', ''[{"queue": "one", "lease": "1 min"}]'')');
SELECT taskq_pause('one');
SELECT pg_temp.code('SELECT * FROM taskq_change(''me'', ''[{"queue": "one", "lease": "1 min"}]'')');
-- a hundred thousand entries, and one that is invalid
SELECT taskq_create_queue('bulk', '{"retention": "none"}');
SELECT count(*), count(DISTINCT task_id) FROM taskq_change('me', (SELECT jsonb_agg(jsonb_build_object('queue', 'bulk', 'payload', n)) FROM generate_series(1, 100000) n));
SELECT pg_temp.code(format('SELECT * FROM taskq_change(''me'', deletes => %L)', (SELECT jsonb_agg(task_id) || '[-1]' FROM taskq.tasks WHERE queue = 'bulk')));
SELECT count(*) FROM taskq_change('me', deletes => (SELECT jsonb_agg(task_id) FROM taskq.tasks WHERE queue = 'bulk'));
SELECT count(*) FROM taskq.tasks WHERE queue = 'bulk';
-- rights: a role without any right finds no task
CREATE ROLE regress_changer;
SELECT taskq_grant('map', 'regress_changer', '{submit,work}');
SET ROLE regress_changer;
SELECT pg_temp.code(format('SELECT * FROM taskq_change(''me'', deletes => ''[%s]'')', 1)) ~ 'TQ010';
SELECT pg_temp.code('SELECT * FROM taskq_change(''me'', ''[{"queue": "reduce"}]'')');
SELECT count(*) FROM taskq_change('me', '[{"queue": "map"}]');
RESET ROLE;
SELECT taskq_revoke('map', 'regress_changer', '{submit,work}');
DROP ROLE regress_changer;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) FROM taskq.queues WHERE queue IN ('map', 'reduce', 'one', 'bulk');

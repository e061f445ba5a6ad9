--
-- sql_tasks: what a queue with an executor takes, and what becomes of it
--
CREATE ROLE regress_taskq_sql LOGIN;
CREATE ROLE regress_taskq_sql_other LOGIN;
CREATE ROLE regress_taskq_sql_group;
-- the option
SELECT o, t.try(format('SELECT taskq_create_queue(''e'', %L)', o))
  FROM unnest(ARRAY['{"executor": {}}', '{"executor": 1}', '{"executor": {"workers": 0}}',
                    '{"executor": {"workers": 1001}}', '{"executor": {"workers": 1.5}}', '{"executor": {"workers": "1"}}',
                    '{"executor": {"workers": 1, "database": "other"}}', '{"executor": {"database": "other"}}']) o;
SELECT taskq_create_queue('e', '{"executor": {"workers": 1}, "retry_base": "0 s", "max_payload": 1000}');
SELECT taskq_grant('e', r, '{submit,read}')
  FROM unnest('{regress_taskq_sql,regress_taskq_sql_other,regress_taskq_sql_group}'::text[]) r;
SELECT taskq_pause('e');
SET ROLE regress_taskq_sql;
-- payloads that are no SQL tasks
SELECT p, t.try(format('SELECT taskq_submit(''e'', %L)', p))
  FROM unnest(ARRAY[NULL, '1', '"SELECT 1"', '[]', '{}', '{"args": []}', '{"sql": 1}', '{"call": ["f"]}',
                    '{"sql": "SELECT 1", "call": "f"}', '{"sql": "SELECT 1", "argument": []}',
                    '{"sql": "SELECT $1", "args": {"a": 1}}', '{"sql": "SELECT $1", "args": 1}',
                    '{"call": ""}', '{"call": "a..b"}', '{"call": "\"a"}']) p;
-- SQL that no task can run
SELECT s, t.try(format('SELECT taskq_submit(''e'', jsonb_build_object(''sql'', %L::text))', s))
  FROM unnest(ARRAY['', '-- nothing', 'SELECT 1; SELECT 2', 'SELEC 1', 'SELECT ''a', 'BEGIN', 'COMMIT', 'ROLLBACK', 'SAVEPOINT a',
                    'PREPARE TRANSACTION ''a''', 'COPY t FROM STDIN', 'COPY t TO STDOUT', 'LISTEN a', 'UNLISTEN *',
                    'DECLARE c CURSOR FOR SELECT 1', 'FETCH c', 'CLOSE c', 'PREPARE p AS SELECT 1', 'EXECUTE p', 'DEALLOCATE p',
                    'DISCARD ALL']) s;
-- in a list, the entry is named
SELECT t.try($$SELECT taskq_submit_tasks('[{"queue": "e", "payload": {"sql": "SELECT 1"}}, {"queue": "e", "payload": 1}]')$$);
SELECT t.try($$SELECT taskq_submit_many('e', ARRAY['{"sql": "SELECT 1"}', '{"sql": ""}']::jsonb[])$$);
RESET ROLE;
-- a role without LOGIN, and one that may not connect
SET ROLE regress_taskq_sql_group;
SELECT t.try($$SELECT taskq_submit('e', '{"sql": "SELECT 1"}')$$);
RESET ROLE;
SELECT count(*) FROM taskq.tasks WHERE queue = 'e';
-- merging into the task of another role, and replacing it
SET ROLE regress_taskq_sql;
SELECT taskq_submit('e', '{"sql": "SELECT 1 AS one"}', reference => 'r') IS NOT NULL;
SELECT taskq_submit('e', '{"sql": "SELECT $1::int AS one", "args": [1]}', reference => 'r', on_conflict => 'merge') IS NOT NULL;
SET ROLE regress_taskq_sql_other;
SELECT t.said($$SELECT taskq_submit('e', '{"sql": "SELECT $1::int AS one", "args": [1]}', reference => 'r', on_conflict => 'merge')$$);
SELECT run_as FROM taskq.tasks WHERE queue = 'e';
SELECT taskq_submit('e', '{"sql": "SELECT 2 AS two"}', reference => 'r', on_conflict => 'update') IS NOT NULL;
SELECT run_as, payload FROM taskq.tasks WHERE queue = 'e';
RESET ROLE;
-- changes of the payload are checked, and make the role of the change run it
SELECT t.said(format('SELECT taskq_update_task(%s, ''{"payload": {"sql": "SELECT"}, "headers": 1}'')', task_id)) FROM taskq.tasks WHERE queue = 'e';
SELECT t.said(format('SELECT taskq_update_task(%s, ''{"payload": {"sql": "BEGIN"}}'')', task_id)) FROM taskq.tasks WHERE queue = 'e';
SELECT t.said(format('SELECT taskq_update_task(%s, ''{"payload": null}'')', task_id)) FROM taskq.tasks WHERE queue = 'e';
SELECT taskq_update_task(task_id, '{"priority": 1}') FROM taskq.tasks WHERE queue = 'e';
SELECT run_as, payload FROM taskq.tasks WHERE queue = 'e';
-- a task from another queue is checked when it moves here
SELECT taskq_create_queue('plain');
SELECT taskq_submit('plain', '{"x": 1}') AS moving \gset
SELECT t.said(format('SELECT taskq_update_task(%s, ''{"queue": "e"}'')', :moving));
SELECT taskq_drop_queue('plain', true);
-- it runs, as the role that decided it
SELECT taskq_resume('e');
CALL t.until($$SELECT count(*) = 0 FROM taskq.tasks WHERE queue = 'e' AND state <> 'done'$$);
SELECT state, run_as, result FROM taskq.tasks WHERE queue = 'e';
-- results and errors
SET ROLE regress_taskq_sql;
SELECT taskq_submit('e', p::jsonb, max_attempts => 1) IS NOT NULL
  FROM unnest(ARRAY['{"sql": "SELECT 1 AS a, null AS b, ''x'' AS c UNION ALL SELECT 2, null, ''y'' ORDER BY a"}',
                    '{"sql": "SELECT WHERE false"}',
                    '{"sql": "CREATE TEMP TABLE made AS SELECT 1 AS a"}',
                    '{"sql": "INSERT INTO taskq.task VALUES (1)"}',
                    '{"sql": "SHOW search_path"}',
                    '{"sql": "SELECT $1::int[] || $2::int AS a, $3::jsonb AS j, $4::text AS t, $5::boolean AS b, $6::text[] AS w", "args": [[1, 2], 3, {"k": [null]}, 2.50, true, ["a\"b", null, "c\\"]]}',
                    '{"sql": "SELECT $1::int", "args": []}',
                    '{"sql": "SELECT $1::int", "args": [1, 2]}',
                    '{"sql": "SELECT 1", "args": [1]}',
                    '{"sql": "SELECT $1::int", "args": ["one"]}',
                    '{"sql": "SELECT $1::int", "args": [{"a": 1}]}',
                    '{"sql": "SELECT $1 IS NULL", "args": [null]}',
                    '{"call": "upper", "args": ["a"]}',
                    '{"call": "pg_catalog.upper", "args": []}',
                    '{"call": "no_such_function", "args": [1]}',
                    '{"sql": "SELECT repeat(''x'', 2000)"}',
                    '{"sql": "DO $$BEGIN COMMIT; END$$"}',
                    '{"sql": "DO $$BEGIN RAISE EXCEPTION ''no'' USING DETAIL = ''d'', HINT = ''h'', ERRCODE = ''22012''; END$$"}']) p;
RESET ROLE;
CALL t.until($$SELECT count(*) = 0 FROM taskq.tasks WHERE queue = 'e' AND state IN ('pending', 'running')$$);
SELECT payload, state, reason, result, error,
       errors -> -1 -> 'detail' ->> 'sqlstate' AS code, errors -> -1 -> 'detail' ->> 'hint' AS hint
  FROM taskq.tasks WHERE queue = 'e' ORDER BY task_id;
SELECT (errors -> -1 -> 'detail') - 'context'::text AS detail FROM taskq.tasks WHERE queue = 'e' AND error = 'no';
SELECT taskq_drop_queue('e', true) > 0;
DROP OWNED BY regress_taskq_sql, regress_taskq_sql_other, regress_taskq_sql_group;
DROP ROLE regress_taskq_sql, regress_taskq_sql_other, regress_taskq_sql_group;

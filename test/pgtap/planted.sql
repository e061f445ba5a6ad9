-- Rows with strange values, written by a user who may write the tables: calls skip them or raise
-- clean errors, never class XX, and never crash.
BEGIN;
SELECT plan(7);

CREATE ROLE planted_monitor IN ROLE pg_monitor;
SELECT lives_ok($$SELECT taskq_create_queue('planted', '{"time_limit": "1 h"}');
                  SELECT taskq_submit('monitored');
                  SELECT taskq_register('bound', bound => true);
                  SELECT taskq_grant('monitored', 'planted_monitor', '{read}')$$,
    'two queues, and a role that may read one and monitor the other');

-- Changes to a row of taskq.task; {id} is the task.
CREATE TEMP TABLE wrong (n serial, change text);
INSERT INTO wrong (change)
SELECT format('UPDATE taskq.task SET %s WHERE task_id = {id}', c)
  FROM unnest(ARRAY[
    'state = 0', 'state = -1', 'state = 5', 'state = 10', 'state = 11',
    'state = 99', 'state = 32767', 'state = -32768',
    'reason = -1', 'reason = 99', 'reason = 32767', 'descent = -7',
    'descent = 99', 'flags = -1', 'flags = 32767',
    'large = 1', 'large = 127', 'large = -1', 'large = 32767', 'large = -32768',
    'queue_id = 0', 'queue_id = -1', 'queue_id = 2147483647',
    'lane_id = -1', 'lane_id = 0', 'lane_id = -9223372036854775808',
    'tags = ''{NULL}''', 'tags = ''{a,NULL}''', 'tags = ''{{a,b},{c,d}}''',
    'tags = ''[5:6]={b,a}''', 'tags = ''{""}''', 'tags = array_fill(''t''::text, ARRAY[5000])',
    'errors = ''{}''', 'errors = ''"oops"''', 'errors = ''1''', 'errors = ''null''',
    'errors = ''[1, "x", null, [], {}]''', 'errors = ''[{"error": {"a": 1}}]''',
    'options = ''[]''', 'options = ''1''', 'options = ''{"retry": 7}''',
    'headers = ''[1]''', 'payload = ''1''', 'checkpoint = ''null''',
    'attempt = -1', 'attempt = -2147483648', 'attempt = 2147483647',
    'attempt = 2147483647, max_attempts = -1',
    'max_attempts = 0', 'max_attempts = -1', 'max_attempts = -2', 'max_attempts = -2147483648',
    'token = -1', 'token = 9223372036854775807', 'token = -9223372036854775808',
    'version = 9223372036854775807', 'version = -1',
    'worker_id = -1', 'worker_id = 2147483647',
    'submitted_by = -1', 'run_as = 2147483647',
    'priority = -32768', 'priority = 32767',
    'available_at = ''infinity''', 'available_at = ''-infinity''',
    'run_at = ''infinity''', 'run_at = ''-infinity''',
    'created_at = ''infinity''', 'created_at = ''-infinity''',
    'claimed_at = ''infinity''', 'claimed_at = ''-infinity''',
    'lease_until = ''-infinity''', 'lease_until = ''infinity''',
    'deadline = ''infinity''', 'deadline = ''-infinity''',
    'wake_at = ''infinity''', 'wake_at = ''-infinity''',
    'cancel_requested_at = ''infinity''',
    'workflow_id = -1, step_id = -1',
    'reference = ''''', 'reference = repeat(''r'', 5000)', 'reference = E''\x01''',
    'key = repeat(''k'', 1000)', 'correlation_id = repeat(''c'', 1000)',
    'message = repeat(''m'', 100000)', 'data = ''\x''']) c;
INSERT INTO wrong (change) VALUES
    -- parts of another kind than the row says
    ('INSERT INTO taskq.large VALUES ({id}, 0, NULL, ''\xff'');'
     'UPDATE taskq.task SET large = 1, payload = NULL WHERE task_id = {id}'),
    ('INSERT INTO taskq.large VALUES ({id}, 1, ''1'', NULL);'
     'UPDATE taskq.task SET large = 2 WHERE task_id = {id}'),
    ('INSERT INTO taskq.large VALUES ({id}, 5, ''"x"'', NULL);'
     'UPDATE taskq.task SET large = 32 WHERE task_id = {id}'),
    ('INSERT INTO taskq.large VALUES ({id}, 6, NULL, ''\xff00'');'
     'UPDATE taskq.task SET large = 64 WHERE task_id = {id}'),
    ('INSERT INTO taskq.large VALUES ({id}, 6, ''1'', NULL), ({id}, 99, NULL, NULL), ({id}, -1, NULL, NULL);'
     'UPDATE taskq.task SET large = 64 WHERE task_id = {id}'),
    -- lanes
    ('UPDATE taskq.lane SET tags = ''{NULL}'''),
    ('UPDATE taskq.lane SET tags = ''{{a,b},{c,d}}'''),
    ('UPDATE taskq.lane SET tags = array_fill(''t''::text, ARRAY[5000])'),
    ('INSERT INTO taskq.lane (lane_id, queue_id, tags) SELECT lane_id, queue_id, ''{}'' FROM taskq.lane'),
    ('INSERT INTO taskq.lane (lane_id, queue_id, tags)'
     ' SELECT -n, q.queue_id, ARRAY[n::text] FROM generate_series(1, 2000) n, taskq.queue q WHERE q.name = ''planted'''),
    ('DELETE FROM taskq.lane'),
    -- queues
    ('UPDATE taskq.queue SET options = ''[]'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET options = ''"x"'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET options = ''null'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET options = ''{"retry": 5, "zzz": 1}'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET options = ''{"retry_list": "x"}'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET options = ''{"max_running": 1}'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET owner_role = -1 WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET name = repeat(''n'', 5000) WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET paused_at = now(), paused_until = ''-infinity'' WHERE name = ''planted'''),
    ('UPDATE taskq.queue SET paused_at = ''infinity'', paused_until = ''infinity'' WHERE name = ''planted'''),
    ('DELETE FROM taskq.queue WHERE name = ''planted'''),
    ('INSERT INTO taskq.queue (queue_id, name, owner_role, options, created_at) VALUES (0, ''*'', 0, ''[]'', now())'),
    ('INSERT INTO taskq.queue (queue_id, name, owner_role, options, created_at) VALUES (0, ''other'', 0, ''{}'', now())'),
    -- roles, rights, workers, the archive's leaf
    ('DELETE FROM taskq.role'),
    ('UPDATE taskq.role SET oid = 4000000000 + role_id'),
    ('UPDATE taskq.role SET name = repeat(''r'', 5000)'),
    ('UPDATE taskq.queue_grant SET rights = -1'),
    ('UPDATE taskq.queue_grant SET rights = 2147483647, role_id = -1'),
    ('INSERT INTO taskq.worker (name, state, role_id, tags, registered_at) VALUES (''planted'', 99, -1, ''{NULL}'', ''infinity'')'),
    ('INSERT INTO taskq.worker (name, state, role_id, queues, tags, info, registered_at)'
     ' VALUES (''planted'', 1, -1, ''{NULL}'', ''{{a},{NULL}}'', ''1'', ''-infinity'')'),
    ('INSERT INTO taskq.worker (name, state, role_id, tags, registered_at, bound_instance, bound_session)'
     ' SELECT format(''planted %L %L'', i, s), 1, 1, ''{}'', now(), i, s'
     '   FROM (SELECT unnest(''{0,-1,1,NULL}''::bigint[]) UNION ALL'
     '         SELECT bound_instance FROM taskq.worker WHERE name = ''bound'') x (i),'
     '        unnest(''{0,-1,1,262143,NULL,-9223372036854775808,9223372036854775807}''::bigint[]) s'),
    ('INSERT INTO taskq.worker (name, state, role_id, tags, registered_at) VALUES (''planted'', 3, -1, ''{NULL}'', ''infinity'')'),
    ('DELETE FROM taskq.archive_rotation; INSERT INTO taskq.archive_rotation VALUES (true, 99, ''infinity'')'),
    ('DELETE FROM taskq.archive_rotation; INSERT INTO taskq.archive_rotation VALUES (true, -1, ''-infinity'')'),
    ('DELETE FROM taskq.archive_rotation; INSERT INTO taskq.archive_rotation VALUES (true, 16, now()), (false, 3, now())'),
    ('DELETE FROM taskq.instance'),
    ('DELETE FROM taskq.function_right');

-- Calls for such a row; {t} is the token.
CREATE TEMP TABLE action (n serial, call text);
INSERT INTO action (call) VALUES
    ('SELECT taskq_claim(''planted'')'),
    ('SELECT taskq_claim(''planted'', max_tasks => 100, worker => ''planted'', tags => ''{a,b}'')'),
    ('SELECT taskq_claim(''planted'', claim_order => ''lifo'')'),
    ('SELECT taskq_claim(''planted'', claim_order => ''random'')'),
    ('SELECT taskq_submit(''planted'')'),
    ('SELECT taskq_submit(''planted'', tags => ''{a,b}'', reference => ''ref'', on_conflict => ''return'')'),
    ('SELECT taskq_submit_many(''planted'', ''{1,2}'', tags => ''{c}'')'),
    ('SELECT taskq_get({id})'),
    ('SELECT taskq_get_many(ARRAY[{id}, {id}, -1])'),
    ('SELECT taskq_list()'),
    ('SELECT taskq_list(''planted'', state => ''pending'', newest_first => true)'),
    ('SELECT taskq_explain({id})'),
    ('SELECT taskq_explain_claim(''planted'', ''planted'', ''{a,b}'')'),
    ('SELECT taskq_explain_claim(NULL, ''planted'')'),
    ('SELECT * FROM taskq.tasks'),
    ('SELECT * FROM taskq.queues'),
    ('SELECT * FROM taskq.workers'),
    ('SET LOCAL ROLE planted_monitor; SELECT * FROM taskq.tasks'),
    ('SET LOCAL ROLE planted_monitor; SELECT taskq_list()'),
    ('SET LOCAL ROLE planted_monitor; SELECT taskq_get({id})'),
    ('SET LOCAL ROLE planted_monitor; SELECT taskq_get_many(ARRAY[{id}])'),
    ('SELECT taskq_complete({id}, {t}, ''{"r": 1}'')'),
    ('SELECT taskq_complete({id}, {t}, keep => false)'),
    ('SELECT taskq_fail({id}, {t}, ''no'')'),
    ('SELECT taskq_fail({id}, {t}, ''no'', retryable => false)'),
    ('SELECT taskq_release({id}, {t}, delay => ''1 h'', reason => ''later'')'),
    ('SELECT taskq_suspend({id}, {t}, ''r'')'),
    ('SELECT taskq_filter({id}, {t}, ''r'')'),
    ('SELECT taskq_extend({id}, {t})'),
    ('SELECT taskq_extend({id}, {t}, ''1 h'')'),
    ('SELECT taskq_progress({id}, {t}, 0.5, ''half'')'),
    ('SELECT taskq_checkpoint({id}, {t}, ''{"c": 1}'')'),
    ('SELECT taskq_cancel({id}, ''r'')'),
    ('SELECT taskq_cancel({id}, ''r'', force => true)'),
    ('SELECT taskq_retry({id})'),
    ('SELECT taskq_retry({id}, force => true)'),
    ('SELECT taskq_register(''planted'', tags => ''{a,b}'')'),
    ('SELECT taskq_heartbeat(''planted'')'),
    ('SELECT taskq_deregister(''planted'')'),
    ('SELECT taskq_alter_queue(''planted'', ''{"lease": "1 min"}'')'),
    ('SELECT taskq_alter_queue(''*'', ''{"lease": "1 min"}'')'),
    ('SELECT taskq_pause(''planted'')'),
    ('SELECT taskq_resume(''planted'')'),
    ('SELECT taskq_grant(''planted'', ''planted_monitor'', ''{read,work}'')'),
    ('SELECT taskq_revoke(''planted'', ''planted_monitor'', ''{read,work}'')'),
    ('SELECT taskq_drop_queue(''planted'')'),
    ('SELECT taskq_drop_queue(''planted'', force => true)'),
    ('SELECT taskq_create_queue(''planted'', if_not_exists => true)'),
    ('SELECT taskq_run_reapers()'),
    ('SELECT taskq_check()'),
    ('SELECT taskq_activate()');
-- the same with a finished task
INSERT INTO action (call)
SELECT 'SELECT taskq.debug_move({id}, ''' || s || ''')'
  FROM unnest(ARRAY['running', 'suspended', 'dead', 'done']) s;

-- A task in a state, and its token.
CREATE FUNCTION pg_temp.make(state text, OUT id bigint, OUT token bigint)
LANGUAGE plpgsql AS $$
BEGIN
    id := taskq_submit('planted', '{"n": 1}', reference => 'ref', tags => '{a,b}',
                       deadline => now() + interval '1 d');
    token := 1;
    IF state = 'running' THEN
        SELECT c.token INTO STRICT token FROM taskq_claim('planted', tags => '{a,b}') c;
    ELSIF state <> 'pending' THEN
        PERFORM taskq.debug_move(id, state);
    END IF;
END
$$;

-- Runs one, rolls it back, and returns the error's code, or 00000.
CREATE FUNCTION pg_temp.run(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    RAISE 'undo' USING ERRCODE = 'ZZ999';
EXCEPTION
    WHEN SQLSTATE 'ZZ999' THEN RETURN '00000';
    WHEN OTHERS THEN RETURN SQLSTATE || ' ' || SQLERRM;
END
$$;

-- Every change with the actions that use it.
CREATE TEMP TABLE outcome (state text, change text, call text, answer text);
CREATE FUNCTION pg_temp.run_all(state text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w record;
    a record;
    id bigint;
    token bigint;
    answers jsonb;
BEGIN
    FOR w IN SELECT change, change LIKE '%{id}%' AS of_row
               FROM pg_temp.wrong ORDER BY n LOOP
        CONTINUE WHEN state <> 'pending' AND NOT w.of_row;
        answers := '{}';
        BEGIN
            SELECT m.id, m.token INTO id, token FROM pg_temp.make(state) m;
            EXECUTE replace(CASE WHEN state = 'done'
                                 THEN replace(w.change, 'taskq.task SET', 'taskq.archive SET')
                                 ELSE w.change END,
                            '{id}', id::text);
            /* with a task's row: what reads or moves it */
            FOR a IN SELECT call FROM pg_temp.action
                      WHERE NOT w.of_row OR call LIKE '%{id}%'
                         OR state = 'pending' AND call ~ 'claim|list|tasks|reapers|check'
                      ORDER BY n LOOP
                answers := answers || jsonb_build_object(a.call,
                    pg_temp.run(replace(replace(a.call, '{id}', id::text),
                                        '{t}', token::text)));
            END LOOP;
            RAISE 'undo' USING ERRCODE = 'ZZ999';
        EXCEPTION WHEN SQLSTATE 'ZZ999' THEN
            INSERT INTO pg_temp.outcome
            SELECT state, w.change, e.key, e.value FROM jsonb_each_text(answers) e;
        END;
    END LOOP;
END
$$;

SELECT lives_ok('SELECT pg_temp.run_all(''pending'')', 'pending tasks');
SELECT lives_ok('SELECT pg_temp.run_all(''running'')', 'running tasks');
SELECT lives_ok('SELECT pg_temp.run_all(''done'')', 'finished tasks');
SELECT cmp_ok((SELECT count(*) FROM outcome), '>', 5000::bigint,
    'everything was tried');
SELECT is_empty('SELECT * FROM outcome WHERE answer LIKE ''XX%''',
    'no error is a bug');
SELECT is_empty($$
    SELECT * FROM outcome
     WHERE state = 'running' AND change ~ 'SET (errors|options|headers|payload|checkpoint) ='
       AND call ~ 'complete|fail|release|suspend|filter|checkpoint'
       AND answer <> '00000'$$,
    'a running task with strange documents can be ended');
SELECT * FROM finish();
ROLLBACK;

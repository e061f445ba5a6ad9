-- taskq_check() finds what a user who may write the tables did to them.
BEGIN;
SELECT plan(145);

CREATE FUNCTION pg_temp.claim_id(OUT id bigint, OUT token bigint)
LANGUAGE sql AS $$ SELECT task_id, token FROM taskq_claim('check') $$;

-- Tasks of every kind, all correct.
SELECT lives_ok($$
    SELECT taskq_submit('check', '{"n": 1}', reference => 'pending');
    SELECT taskq_submit('check', reference => 'delayed', delay => '1 h');
    SELECT taskq_submit('check', reference => 'suspended', suspended => true);
    SELECT taskq_submit('check', reference => 'large', delay => '1 h',
        payload => to_jsonb((SELECT string_agg(md5(n::text), '')
                               FROM generate_series(1, 200) n)));
    SELECT taskq_submit('check', reference => 'tagged', tags => '{a,b}');
    SELECT taskq_submit('check', reference => 'running', priority => 9);
    SELECT taskq_claim('check');
    SELECT taskq_submit('check', reference => 'done', priority => 9);
    SELECT taskq_complete(id, token) FROM pg_temp.claim_id();
    SELECT taskq_submit('check', reference => 'dead', priority => 9);
    SELECT taskq_fail(id, token, 'no', retryable => false) FROM pg_temp.claim_id();
    SELECT taskq_create_queue('check lines', '{"key_policy": "serial_hold_on_failure"}');
    SELECT taskq_submit('check lines', reference => 'first of k', key => 'k');
    SELECT taskq_submit('check lines', reference => 'second of k', key => 'k')$$,
    'tasks of every kind');
SELECT is_empty('SELECT * FROM taskq_check()', 'nothing is found at first');
SELECT results_eq($$
    SELECT state, count(*)::int FROM taskq.tasks WHERE queue = 'check'
     GROUP BY state ORDER BY state$$, $$VALUES
    ('dead', 1), ('done', 1), ('pending', 4), ('running', 1), ('suspended', 1)$$,
    'the tasks have the expected states');

-- Do the damage, check, and roll it back: the check finds exactly this damage.
-- {id} in the details stands for the number of the task with the reference.
CREATE FUNCTION pg_temp.found(reference text, wrong text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    answer text;
BEGIN
    SELECT t.task_id INTO STRICT number FROM taskq.tasks t
     WHERE t.reference = found.reference;
    BEGIN
        EXECUTE replace(wrong, '{id}', number::text);
        SELECT string_agg(c.problem || ': '
                          || regexp_replace(c.detail, '\mtask ' || number || '\y', 'task {id}'),
                          '; ' ORDER BY c.problem, c.detail)
          INTO answer FROM taskq_check() c;
        RAISE 'undo' USING ERRCODE = 'ZZ999';
    EXCEPTION WHEN SQLSTATE 'ZZ999' THEN
        NULL;
    END;
    RETURN answer;
END
$$;
CREATE FUNCTION pg_temp.finds(reference text, wrong text, problem text)
RETURNS SETOF text LANGUAGE sql AS $$
    SELECT is(pg_temp.found(reference, wrong), problem, problem || ' [' || regexp_replace(btrim(wrong, E'\n '), '\s+', ' ', 'g') || ']');
$$;

-- Is the task where it should be, and only once?
SELECT pg_temp.finds('pending', $$
    INSERT INTO taskq.archive SELECT t.*, 16, now(), now() FROM taskq.task t
     WHERE t.task_id = {id};
    UPDATE taskq.archive SET state = 5 WHERE task_id = {id}$$,
    'task is live and finished: task {id}');
SELECT pg_temp.finds('done', $$
    INSERT INTO taskq.archive
    SELECT (jsonb_populate_record(a, '{"bucket": 3}')).* FROM taskq.archive a
     WHERE a.task_id = {id}$$,
    'task is finished twice: task {id}');
SELECT pg_temp.finds('done',
    'UPDATE taskq.archive SET bucket = 16 WHERE task_id = {id}',
    'finished task is in the wrong leaf: task {id}');
SELECT pg_temp.finds('done',
    'UPDATE taskq.archive SET expires_at = now() WHERE task_id = {id}',
    'finished task is in the wrong leaf: task {id}');
SELECT pg_temp.finds('dead',
    'UPDATE taskq.archive SET expires_at = NULL WHERE task_id = {id}',
    'finished task is in the wrong leaf: task {id}');

-- States.
SELECT pg_temp.finds('suspended',
    format('UPDATE taskq.task SET state = %s WHERE task_id = {id}', s),
    format('live task has no live state: task {id}, state %s', s))
  FROM unnest(ARRAY[0, 5, 10, 99, -1, 32767, -32768]) s;
SELECT pg_temp.finds('done',
    format('UPDATE taskq.archive SET state = %s WHERE task_id = {id}', s),
    format('finished task has no finished state: task {id}, state %s', s))
  FROM unnest(ARRAY[0, 4, 11, 99, -1]) s;

-- Queues and lanes.
SELECT pg_temp.finds('pending', $$
    UPDATE taskq.task SET queue_id = 12345 WHERE task_id = {id};
    INSERT INTO taskq.lane (lane_id, queue_id, tags)
    SELECT -7, 12345, '{}';
    UPDATE taskq.task SET lane_id = -7 WHERE task_id = {id}$$,
    'lane has no queue: lane -7, queue 12345; '
    || 'number of lane does not match its tags: lane -7, queue 12345; '
    'task has no queue: task {id}, queue 12345');
SELECT pg_temp.finds('pending',
    'UPDATE taskq.task SET lane_id = -7 WHERE task_id = {id}',
    'task has no lane: task {id}, lane -7');
SELECT pg_temp.finds('pending', $$
    UPDATE taskq.task SET tags = '{zzz}', lane_id = 7 WHERE task_id = {id}$$,
    'task has no lane: task {id}, lane 7');
SELECT alike(pg_temp.found('tagged', $$
    UPDATE taskq.task SET tags = '{a}' WHERE task_id = {id}$$),
    'task has no lane: task {id}, lane %', 'tags of another lane');
SELECT alike(pg_temp.found('tagged', $$
    UPDATE taskq.task SET tags = '{NULL}' WHERE task_id = {id}$$),
    'tags are not a sorted set: task {id}; task has no lane: task {id}, lane %', 'tags with a null');

-- Which worker holds a task?
SELECT pg_temp.finds('running', $$
    UPDATE taskq.task SET lease_until = 'infinity', worker_id = 0 WHERE task_id = {id}$$,
    'running task has no holder: task {id}');
SELECT pg_temp.finds('running',
    format('UPDATE taskq.task SET %s WHERE task_id = {id}', w),
    'running task has no token or attempt: task {id}')
  FROM unnest(ARRAY['token = 0', 'token = -1', 'attempt = 0', 'attempt = -3',
                    'claimed_at = ''-infinity''', 'claimed_at = ''infinity''']) w;
SELECT pg_temp.finds(r, format('UPDATE taskq.task SET %s WHERE task_id = {id}', w),
    'waiting task is held: task {id}')
  FROM unnest(ARRAY['pending', 'suspended']) r,
       unnest(ARRAY['worker_id = 1', 'lease_until = now()', 'claimed_at = now()']) w;

-- When can a task be claimed?
SELECT pg_temp.finds('pending',
    format('UPDATE taskq.task SET available_at = %L WHERE task_id = {id}', a),
    'pending task has no position: task {id}' || CASE a WHEN 'infinity'
         THEN '; pending task has no timer for its due time: task {id}' ELSE '' END)
  FROM unnest(ARRAY['-infinity', 'infinity']) a;
SELECT pg_temp.finds('suspended',
    'UPDATE taskq.task SET available_at = now() WHERE task_id = {id}',
    'task that cannot be claimed has a position: task {id}');
SELECT pg_temp.finds('delayed',
    'UPDATE taskq.task SET wake_at = NULL WHERE task_id = {id}',
    'pending task has no timer for its due time: task {id}');
SELECT pg_temp.finds('delayed',
    'UPDATE taskq.task SET wake_at = wake_at + interval ''1 s'' WHERE task_id = {id}',
    'pending task has no timer for its due time: task {id}');

-- Attempts.
SELECT pg_temp.finds('pending',
    'UPDATE taskq.task SET attempt = max_attempts + 1 WHERE task_id = {id}',
    'attempts exceed their maximum: task {id}');
SELECT pg_temp.finds('dead',
    'UPDATE taskq.archive SET max_attempts = 0 WHERE task_id = {id}',
    'attempts exceed their maximum: task {id}');
SELECT is(pg_temp.found('pending',
    'UPDATE taskq.task SET attempt = 1000, max_attempts = -1 WHERE task_id = {id}'),
    NULL, 'attempts without a maximum');

-- Large parts.
SELECT pg_temp.finds('large', 'DELETE FROM taskq.large WHERE task_id = {id}',
    'large part is missing: task {id}, part 0');
SELECT pg_temp.finds('large',
    'UPDATE taskq.task SET large = 0 WHERE task_id = {id}',
    'large part is not referred to: task {id}, part 0');
SELECT pg_temp.finds('dead',
    'UPDATE taskq.archive SET large = 32 WHERE task_id = {id}',
    'large part is missing: task {id}, part 5; '
    'value is in the row and in taskq.large: task {id}');

-- All the other problems. Further ones may be found, too: a wrong row can be wrong in several ways.
-- {q} is the queue.
CREATE TEMP TABLE planted (n serial, reference text, wrong text, problem text);
INSERT INTO planted (reference, wrong, problem)
SELECT x.reference, format('UPDATE taskq.task SET %s WHERE task_id = {id}', x.change),
       x.problem || ': task {id}' || CASE WHEN x.problem ~ 'reason' THEN ',%' ELSE '' END
  FROM (VALUES
    ('pending', 'version = 0', 'task has invalid numbers'),
    ('pending', 'token = -1', 'task has invalid numbers'),
    ('pending', 'attempt = -1', 'task has invalid numbers'),
    ('pending', 'max_attempts = -2, attempt = -3', 'task has invalid numbers'),
    ('pending', 'flags = -1', 'task has invalid flags'),
    ('pending', 'large = 256', 'task has invalid flags'),
    ('pending', 'descent = 3', 'task has invalid flags'),
    ('pending', 'reason = 99', 'task has an unknown reason'),
    ('pending', 'reason = 1', 'reason does not match the state'),
    ('running', 'reason = 12', 'reason does not match the state'),
    ('suspended', 'reason = 3', 'reason does not match the state'),
    ('pending', 'created_at = ''infinity''', 'task has an invalid time'),
    ('suspended', 'created_at = NULL', 'task has an invalid time'),
    ('suspended', 'run_at = NULL', 'task has an invalid time'),
    ('pending', 'deadline = ''infinity''', 'task has an invalid time'),
    ('running', 'cancel_requested_at = ''-infinity''', 'task has an invalid time'),
    ('pending', 'submitted_by = 0', 'task has an unknown role'),
    ('pending', 'run_as = 2147483647', 'task has an unknown role'),
    ('pending', 'key = ''''', 'task has invalid text'),
    ('pending', 'key = E''a\tb''', 'task has invalid text'),
    ('pending', 'correlation_id = repeat(''c'', 501)', 'task has invalid text'),
    ('tagged', 'tags = ''{b,a}''', 'tags are not a sorted set'),
    ('tagged', 'tags = ''{a,a,b}''', 'tags are not a sorted set'),
    ('tagged', 'tags = ''{{a,b}}''', 'tags are not a sorted set'),
    ('tagged', 'tags = ''[5:6]={a,b}''', 'tags are not a sorted set'),
    ('tagged', 'tags = ''{}''', 'tags are not a sorted set'),
    ('tagged', 'tags = ARRAY[repeat(''t'', 64)]', 'tags are not a sorted set'),
    ('pending', 'errors = ''{}''', 'list of errors is malformed'),
    ('pending', 'errors = ''[1]''', 'list of errors is malformed'),
    ('pending', 'errors = ''[{"attempt": 1, "at": "then"}]''', 'list of errors is malformed'),
    ('pending', 'errors = (SELECT jsonb_agg(''{"attempt": 1, "at": "then", "error": "x"}''::jsonb) FROM generate_series(1, 11))', 'list of errors is malformed'),
    ('large', 'payload = ''1''', 'value is in the row and in taskq.large'),
    ('pending', 'run_at = available_at - interval ''1 s''', 'position is not the due time'),
    ('running', 'run_at = now() - interval ''1 d''', 'position is not the due time'),
    ('suspended', 'cancel_requested_at = now()', 'task is asked to stop but is not running'),
    ('running', 'worker_id = 123456', 'running task is held by an unknown worker'),
    ('pending', 'wake_at = now()', 'task has a timer for another time'),
    ('suspended', 'wake_at = now()', 'task has a timer for another time'),
    ('running', 'lease_until = now() - interval ''1 h''', 'running task outlives its lease'),
    ('delayed', 'deadline = now() - interval ''1 h''', 'waiting task outlives its deadline'),
    ('pending', 'options = ''{"retry": 7}''', 'options cannot be read'),
    ('pending', 'options = ''[]''', 'options cannot be read')) x (reference, change, problem);
INSERT INTO planted (reference, wrong, problem)
SELECT x.reference, format('UPDATE taskq.archive SET %s WHERE task_id = {id}', x.change),
       x.problem || ': task {id}' || CASE WHEN x.problem ~ 'reason' THEN ',%' ELSE '' END
  FROM (VALUES
    ('dead', 'reason = 1, attempt = 1', 'task is exhausted with attempts left'),
    ('dead', 'reason = 3', 'task died at a deadline that it does not have'),
    ('done', 'reason = 2', 'reason does not match the state'),
    ('done', 'lease_until = now()', 'finished task has a lease'),
    ('done', 'finished_at = ''-infinity''', 'finished task has no end time'),
    ('dead', 'expires_at = ''-infinity''', 'finished task expires before its end'),
    ('done', 'queue_id = -1', 'task has no queue'),
    ('dead', 'options = ''1''', 'options cannot be read')) x (reference, change, problem);
INSERT INTO planted (reference, wrong, problem) VALUES
    ('done', 'DELETE FROM taskq.archive_rotation; INSERT INTO taskq.archive_rotation VALUES (true, 3, now());'
     'UPDATE taskq.archive SET bucket = 3, finished_at = now() - interval ''2 d'' WHERE task_id = {id}',
     'finished task is older than its leaf: task {id}'),
    ('large', 'UPDATE taskq.large SET raw = ''\x00'' WHERE task_id = {id}', 'large part is of the wrong kind: task {id}, part 0'),
    ('large', 'INSERT INTO taskq.large VALUES ({id}, 8, ''1'')', 'large part is of the wrong kind: task {id}, part 8'),
    ('large', 'INSERT INTO taskq.large VALUES ({id} + 1000000, 0, ''1'')', 'large part has no task: task %, part 0'),
    ('large', 'DELETE FROM taskq.archive_rotation; INSERT INTO taskq.archive_rotation VALUES (true, 0, now() - interval ''1 h'');'
     'INSERT INTO taskq.large VALUES ({id} + 1000000, 0, ''1'')', 'large part has no task: task %, part 0'),
    ('pending', 'UPDATE taskq.queue SET name = ''*'' WHERE name = ''check''', 'queue has an invalid name: queue {q}'),
    ('pending', 'UPDATE taskq.queue SET name = E''a\001'' WHERE name = ''check''', 'queue has an invalid name: queue {q}'),
    ('pending', 'UPDATE taskq.queue SET owner_role = -1 WHERE name = ''check''', 'queue has an unknown owner: queue {q}'),
    ('pending', 'UPDATE taskq.queue SET paused_until = now() WHERE name = ''check''', 'queue has an invalid pause: queue {q}'),
    ('pending', 'UPDATE taskq.queue SET options = ''{"retry": 5}'' WHERE name = ''check''', 'options cannot be read: queue {q}'),
    ('pending', 'UPDATE taskq.queue SET options = ''[]'' WHERE name = ''check''', 'options cannot be read: queue {q}'),
    ('pending', 'INSERT INTO taskq.lane (lane_id, queue_id, tags) VALUES (1, {q}, ''{b,a}'')', 'tags are not a sorted set: lane 1, queue {q}'),
    ('pending', 'INSERT INTO taskq.lane (lane_id, queue_id, tags) VALUES (1, {q}, ''{a}'')', 'number of lane does not match its tags: lane 1, queue {q}'),
    ('pending', 'INSERT INTO taskq.lane (lane_id, queue_id, tags) VALUES (1, -3, ''{a}'')', 'lane has no queue: lane 1, queue -3'),
    ('pending', 'INSERT INTO taskq.queue_grant VALUES (-3, 0, 1)', 'grant is on a missing queue: queue -3, role 0'),
    ('pending', 'INSERT INTO taskq.queue_grant VALUES ({q}, -3, 1)', 'grant is to an unknown role: queue {q}, role -3'),
    ('pending', 'INSERT INTO taskq.queue_grant VALUES ({q}, 0, 32)', 'grant has rights that do not exist: queue {q}, role 0'),
    ('pending', 'INSERT INTO taskq.queue_grant VALUES ({q}, 0, 1)', 'right lacks EXECUTE: role 0, function taskq_submit'),
    ('pending', 'INSERT INTO taskq.function_right VALUES (''nothing'', 1)', 'right is on a missing function: function nothing'),
    ('pending', 'INSERT INTO taskq.role VALUES (-5, ''x'', 4000000000)', 'role is invalid: role -5'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at) VALUES (-1, ''x'', 99, 1, ''{}'', now())', 'worker has an unknown state: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at) VALUES (-1, '''', 3, 0, ''{}'', now())', 'worker has an invalid name: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at) VALUES (-1, ''x'', 2, 1, ''{}'', now())', 'end of the worker does not match its state: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at, ended_at) VALUES (-1, ''x'', 2, -1, ''{}'', now(), now())', 'worker has an unknown role: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at, max_running) VALUES (-1, ''x'', 3, 0, ''{}'', now(), 0)', 'worker has an invalid limit: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at) VALUES (-1, ''x'', 3, 0, ''{b,a}'', now())', 'tags are not a sorted set: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at) VALUES (-1, ''x'', 1, 1, ''{}'', now())', 'active worker has no heartbeat entry: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at, bound_instance, bound_session) VALUES (-1, ''x'', 1, 1, ''{}'', now(), 1, 1)', 'bound worker outlives its connection: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at, bound_session) VALUES (-1, ''x'', 2, 1, ''{}'', now(), 1)', 'worker is bound to an invalid connection: worker -1'),
    ('pending', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at, bound_instance, bound_session) VALUES (-1, ''x'', 3, 0, ''{}'', now(), 1, 1)', 'worker is bound to an invalid connection: worker -1'),
    ('running', 'INSERT INTO taskq.worker (worker_id, name, state, role_id, tags, registered_at, ended_at) VALUES (-1, ''x'', 2, 1, ''{}'', now(), now() - interval ''1 h'');'
     'UPDATE taskq.task SET worker_id = -1 WHERE task_id = {id}', 'running task outlives its worker: task {id}'),
    ('pending', 'INSERT INTO taskq.transition VALUES (-1, 0, {id}, {q}, now(), 5, 5, 0, 0, 0, 0, 0)', 'change of state is invalid: transition -1, task {id}'),
    ('pending', 'INSERT INTO taskq.transition VALUES (-1, 0, {id}, {q}, now(), 9, 3, 0, 0, 0, 0, 0)', 'change of state is not a legal move: task {id}, from redundant to running'),
    ('pending', 'DELETE FROM taskq.archive_rotation; INSERT INTO taskq.archive_rotation VALUES (true, 16, now())', 'leaf that is being filled is not known: leaf 16'),
    ('pending', 'DELETE FROM taskq.instance', 'instance is not known: taskq.instance is empty'),
    ('pending', 'SELECT setval(''taskq.task_id_seq'', 1, false)', 'sequence is behind its table: taskq.task_id_seq'),
    ('pending', 'SELECT setval(''taskq.queue_id_seq'', {q}, false)', 'sequence is behind its table: taskq.queue_id_seq'),
    ('pending', 'UPDATE pg_class SET relpersistence = ''u'' WHERE oid = ''taskq.task_wake_idx''::regclass', 'table is not logged: taskq.task_wake_idx'),
    ('pending', 'UPDATE pg_index SET indisvalid = false WHERE indexrelid = ''taskq.task_key_idx''::regclass', 'index cannot be used: taskq.task_key_idx'),
    -- rows that an index misses
    ('pending', 'UPDATE pg_index SET indisready = false WHERE indexrelid = ''taskq.task_dispatch_idx''::regclass;'
     'UPDATE taskq.task SET priority = 7 WHERE task_id = {id};'
     'UPDATE pg_index SET indisready = true WHERE indexrelid = ''taskq.task_dispatch_idx''::regclass',
     'index and table have different rows: taskq.task_dispatch_idx: % by the index, % by the table'),
    ('pending', 'UPDATE pg_index SET indisready = false WHERE indexrelid = ''taskq.task_reference_idx''::regclass;'
     'INSERT INTO taskq.task SELECT (jsonb_populate_record(t, ''{"task_id": 0}'')).* FROM taskq.task t WHERE t.task_id = {id};'
     'UPDATE pg_index SET indisready = true WHERE indexrelid = ''taskq.task_reference_idx''::regclass',
     'two live tasks have one reference: tasks 0 and %'),
    -- tasks of one key
    ('first of k', 'UPDATE taskq.task SET state = 2, available_at = ''infinity'', flags = flags | 8::smallint WHERE task_id = {id}',
     'task waits for other tasks of its key, but none of them blocks it: queue %, key k'),
    ('second of k', 'UPDATE taskq.task SET state = 1, available_at = now(), flags = flags & ~8::smallint WHERE task_id = {id}',
     'more tasks of a key are pending than allowed: queue %, key k'),
    ('dead', 'UPDATE taskq.archive_keep SET key = ''k'', queue_id = (SELECT queue_id FROM taskq.queue WHERE name = ''check lines'') WHERE task_id = {id}',
     'task is pending although its key is held: queue %, key k'),
    ('second of k', 'UPDATE taskq.task SET state = 3 - state, flags = flags # 8::smallint WHERE key = ''k''',
     'task is out of order in its key, but the key is not marked: task {id}');

CREATE FUNCTION pg_temp.is_found(reference text, wrong text, problem text)
RETURNS SETOF text LANGUAGE sql AS $$
    SELECT alike('; ' || pg_temp.found(reference, replace(wrong, '{q}', q.id)) || ';',
                 '%; ' || replace(problem, '{q}', q.id) || ';%',
                 problem || ' [' || wrong || ']')
      FROM (SELECT queue_id::text FROM taskq.queue WHERE name = 'check') q (id);
$$;
SELECT pg_temp.is_found(reference, wrong, problem) FROM planted ORDER BY n;
SELECT diag(count(*) || ' disagreements of ' || count(DISTINCT split_part(problem, ':', 1))
            || ' kinds were planted here') FROM planted;
-- sequences are not rolled back
DO $$
BEGIN
    PERFORM setval('taskq.task_id_seq', max(task_id)) FROM taskq.tasks;
    PERFORM setval('taskq.queue_id_seq', max(queue_id)) FROM taskq.queue;
END
$$;

-- The running task is claimed in this transaction, and in a subtransaction of it: that it is not in
-- memory yet is not a disagreement.
SELECT is_empty('SELECT * FROM taskq_check()', 'nothing is found after the rollback');

SELECT * FROM finish();
ROLLBACK;

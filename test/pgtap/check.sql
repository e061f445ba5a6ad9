-- taskq_check() finds what somebody who may write the tables did to them.
BEGIN;
SELECT plan(50);

CREATE FUNCTION pg_temp.claim_id(OUT id bigint, OUT token bigint)
LANGUAGE sql AS $$ SELECT task_id, token FROM taskq_claim('check') $$;

-- Tasks of every kind, all in order.
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
    SELECT taskq_fail(id, token, 'no', retryable => false) FROM pg_temp.claim_id()$$,
    'tasks of every kind');
SELECT is_empty('SELECT * FROM taskq_check()', 'nothing to be found');
SELECT results_eq($$
    SELECT state, count(*)::int FROM taskq.tasks WHERE queue = 'check'
     GROUP BY state ORDER BY state$$, $$VALUES
    ('dead', 1), ('done', 1), ('pending', 4), ('running', 1), ('suspended', 1)$$,
    'they are what they should be');

-- Does the wrong, asks, and undoes it: exactly this is found.  {id} in the
-- details stands for the number of the task that has the reference.
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
                          || regexp_replace(c.detail, '\y' || number || '\y', '{id}'),
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

-- Is the task where it should be, once?
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
    SELECT lane_id, queue_id, '{}' FROM taskq.task WHERE task_id = {id}$$,
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
    'task has no lane: task {id}, lane %', 'tags with a null');

-- Who holds a task?
SELECT pg_temp.finds('running', $$
    UPDATE taskq.task SET lease_until = 'infinity', worker_id = 0 WHERE task_id = {id}$$,
    'running task is held by nobody: task {id}');
SELECT pg_temp.finds('running',
    format('UPDATE taskq.task SET %s WHERE task_id = {id}', w),
    'running task has no token or attempt: task {id}')
  FROM unnest(ARRAY['token = 0', 'token = -1', 'attempt = 0', 'attempt = -3',
                    'claimed_at = ''-infinity''', 'claimed_at = ''infinity''']) w;
SELECT pg_temp.finds(r, format('UPDATE taskq.task SET %s WHERE task_id = {id}', w),
    'waiting task is held: task {id}')
  FROM unnest(ARRAY['pending', 'suspended']) r,
       unnest(ARRAY['worker_id = 1', 'lease_until = now()', 'claimed_at = now()']) w;

-- When can it be claimed?
SELECT pg_temp.finds('pending',
    format('UPDATE taskq.task SET available_at = %L WHERE task_id = {id}', a),
    CASE a WHEN 'infinity'
         THEN 'pending task has a due time that no timer knows: task {id}; ' ELSE '' END
    || 'pending task has no position: task {id}')
  FROM unnest(ARRAY['-infinity', 'infinity']) a;
SELECT pg_temp.finds('suspended',
    'UPDATE taskq.task SET available_at = now() WHERE task_id = {id}',
    'task that cannot be claimed has a position: task {id}');
SELECT pg_temp.finds('delayed',
    'UPDATE taskq.task SET wake_at = NULL WHERE task_id = {id}',
    'pending task has a due time that no timer knows: task {id}');
SELECT pg_temp.finds('delayed',
    'UPDATE taskq.task SET wake_at = wake_at + interval ''1 s'' WHERE task_id = {id}',
    'pending task has a due time that no timer knows: task {id}');

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
    'large part is missing: task {id}, part 5');

-- The running task is claimed in this transaction, and in a subtransaction
-- of it: that it is not in memory yet is no disagreement.
SELECT is_empty('SELECT * FROM taskq_check()', 'all is undone');

SELECT * FROM finish();
ROLLBACK;

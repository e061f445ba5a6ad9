--
-- failures: dead and retrying tasks by the kind of their error
--
-- texts that differ in numbers, ids and quoted values are of one kind
CREATE FUNCTION t.kind(error text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    answer text;
BEGIN
    id := taskq_submit('kind', '1', max_attempts => 1);
    PERFORM taskq_fail(c.task_id, c.token, error, false) FROM taskq_claim('kind') c;
    SELECT f.kind INTO answer FROM taskq_failures('kind') f;
    IF (SELECT f.fingerprint FROM taskq_failures('kind') f) IS DISTINCT FROM taskq_fingerprint(error) THEN
        RAISE 'the fingerprints of "%" differ', error;
    END IF;
    PERFORM taskq_purge('kind');
    RETURN answer;
END
$$;
CREATE TABLE t.error (n int GENERATED ALWAYS AS IDENTITY, error text);
INSERT INTO t.error (error) VALUES
    ('connection refused'), ('timeout after 30 s'), ('timeout after 31.5 s'), ('timeout after 30s'), ('value -5 is below 0'), ('1e10 and 1.5e-3'),
    ('10.0.0.1:5432 refused'), ('192.168.17.3:80 refused'), ('at 2026-01-02T10:11:12.123Z'), ('at 2026-01-02 10:11:12+00'),
    ('task 550e8400-e29b-41d4-a716-446655440000 lost'), ('task ABCDEFAB-E29B-41D4-A716-446655440000 lost'), ('not-a-uuid-550e8400-e29b-41d4'),
    ('pointer 0xdeadbeef'), ('commit 9f8a7b6c5d'), ('deadbeef cafe facade'), ('deadbeef1'), ('key 01ARZ3NDEKTSV4RRFFQ69G5FAV'), ('table_20240101 of worker12'), ('utf8'),
    ('column "name" does not exist'), ('column "other name" does not exist'), ('user ''it''''s'' unknown'), ('don''t panic'), ('can''t and won''t'), ('it''s ''quoted'' here'),
    ('unterminated "quote'), ('unterminated ''quote and 5'), ('escaped "a \" b" end'), ('`back` ticks'), ('"'), (''''), ('a "b'), ('""'),
    ('Key (a, b)=(1, 2) exists'), ('in (1, 2, 3, 4)'), ('in (''a'', ''b'')'), ('{"code": 17, "text": "x"}'),
    ('Überlauf bei Konto 5'), ('Überlauf bei Konto 6'), ('数据库错误 42'), ('数据库错误 43'), ('“quoted” 5'), ('🙂 5 🙂'), ('é5é'),
    (E'line one 1\nline two 2'), (E'tabs\t\tand   spaces  '), ('  leading'), ('?'), ('what? 5?'), ('5'), ('a-5'), ('5-5'), ('5%'), ('#5'), ('+49 30 123');
SELECT n, replace(error, E'\n', '\n') AS error, t.kind(error) AS kind FROM t.error ORDER BY n;
SELECT count(DISTINCT taskq_fingerprint(error)) AS fingerprints, count(*) AS texts, bool_and(taskq_fingerprint(error) ~ '^[0-9a-f]{16}$') AS form FROM t.error;
-- the number of a fingerprint never changes
SELECT taskq_fingerprint('timeout after 30 s'), taskq_fingerprint('timeout after 99 s'), taskq_fingerprint(''), taskq_fingerprint('Überlauf 1');
-- only the text that is kept counts: 8 kB
SELECT taskq_fingerprint(repeat('é', 4096) || 'a') = taskq_fingerprint(repeat('é', 4096) || 'b') AS same, taskq_fingerprint('x' || repeat('é', 4096)) = taskq_fingerprint('x' || repeat('é', 4095)) AS cut;
SELECT t.try('SELECT taskq_fingerprint(NULL)');
SELECT provolatile, proparallel FROM pg_proc WHERE proname = 'taskq_fingerprint';
-- texts that are hard to read take no longer than others
SELECT count(taskq_fingerprint(x)) FROM (VALUES (repeat('''', 8192)), (repeat('"a ', 2730)), (repeat('\"', 4096)), (repeat('a', 8192)), (repeat('5 ', 4096)), (repeat('0x', 4096)), (repeat('abcdef0-', 1024))) v (x), generate_series(1, 20);
-- groups
SELECT taskq_create_queue('f', '{"retry": "fixed", "retry_base": "1 h", "max_attempts": 2}');
SELECT taskq_create_queue('now', '{"retry": "fixed", "retry_base": "0 s", "max_attempts": 2}');
SELECT count(taskq_submit('f', to_jsonb(i))) FROM generate_series(1, 30) i;
SELECT count(taskq_submit('now', to_jsonb(i))) FROM generate_series(1, 3) i;
SELECT count(taskq_submit('f', '0', delay => '1 d')) FROM generate_series(1, 5) i;
SELECT count(taskq_fail(task_id, token, format('row %s of "%s" is missing', attempt, task_id), payload::int <= 12)) FROM taskq_claim('f', max_tasks => 20);
SELECT count(taskq_fail(task_id, token, 'quota of ' || task_id || ' exceeded', false)) FROM taskq_claim('f', max_tasks => 5);
SELECT count(taskq_fail(task_id, token, 'retried at once ' || task_id)) FROM taskq_claim('now', max_tasks => 2);
SELECT kind, tasks, dead, retrying, first_at <= last_at AS times, error ~ kind OR error LIKE 'row 1 of %' OR error ~ '[0-9]' AS example, fingerprint = taskq_fingerprint(error) AS print,
       trend -> 0 -> 'tasks' IS NOT NULL AND (SELECT sum((h ->> 'tasks')::int) FROM jsonb_array_elements(trend) h) = tasks AS trend, stopped_early
  FROM taskq_failures();
SELECT f.kind, l.state = ANY ('{dead,pending}') AS state, l.error = f.error AS error FROM taskq_failures('f') f, taskq_get(f.task_id) l ORDER BY f.kind;
-- the fingerprint is a filter: it selects the tasks that were counted
SELECT f.kind, f.tasks = (SELECT count(*) FROM taskq_list('f', filter => jsonb_build_object('fingerprint', f.fingerprint, 'state', '["dead", "pending"]'::jsonb))) AS same FROM taskq_failures('f') f ORDER BY f.kind;
SELECT kind, tasks FROM taskq_failures('now');
SELECT kind, tasks FROM taskq_failures(max_rows => 1);
-- a dead task that is retried by hand still has its error; one that is done has not failed
SELECT count(taskq_retry(task_id)) FROM taskq_list('f', 'dead', filter => '{"error": "quota"}', max_rows => 2);
SELECT kind, dead, retrying FROM taskq_failures('f') ORDER BY kind;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('now', max_tasks => 3);
SELECT count(*) FROM taskq_failures('now');
-- times
SELECT count(*) FROM taskq_failures(since => now() + interval '1 h');
SELECT count(*) FROM taskq_failures(until => now() - interval '1 h');
SELECT kind, tasks FROM taskq_failures('f', since => now() - interval '2 d', until => now() + interval '1 h') ORDER BY kind;
UPDATE taskq.archive SET errors = jsonb_set(errors, '{0,at}', to_jsonb(now() - interval '25 h')), finished_at = now() - interval '25 h' WHERE state = 6 AND payload::int IN (13, 14);
SELECT kind, dead FROM taskq_failures('f') ORDER BY kind;
SELECT kind, dead, jsonb_array_length(trend) > 1 OR kind LIKE 'quota%' AS hours FROM taskq_failures('f', since => now() - interval '30 h') ORDER BY kind;
-- an error without a time, and a list without an error
UPDATE taskq.archive SET errors = '[{"error": "no time"}]' WHERE state = 6 AND payload::int = 15;
UPDATE taskq.archive SET errors = '[{"error": "wrong time", "at": "x"}]' WHERE state = 6 AND payload::int = 16;
UPDATE taskq.archive SET errors = '[{"error": 5}]' WHERE state = 6 AND payload::int = 17;
UPDATE taskq.archive SET errors = '{"error": "x"}' WHERE state = 6 AND payload::int = 18;
SELECT kind, tasks FROM taskq_failures('f') ORDER BY kind;
-- bounded
SELECT sum(tasks) < 20 AS part, bool_and(stopped_early) AS stopped_early FROM taskq_failures(max_examined => 4);
SELECT count(taskq_submit('many', '0')) FROM generate_series(1, 50) i;
SELECT tasks, stopped_early FROM taskq_failures('many', max_examined => 10);
SELECT count(*) FROM taskq_failures('many');
-- bad input
SELECT t.try('SELECT taskq_failures(''no such'')');
SELECT t.try('SELECT taskq_failures(since => ''infinity'')');
SELECT t.try('SELECT taskq_failures(until => ''-infinity'')');
SELECT t.try('SELECT taskq_failures(since => now(), until => now() - interval ''1 h'')');
SELECT t.try('SELECT taskq_failures(since => now() - interval ''11 y'')');
SELECT t.try('SELECT taskq_failures(max_rows => 0)');
SELECT t.try('SELECT taskq_failures(max_rows => 10001)');
SELECT t.try('SELECT taskq_failures(max_examined => 0)');
-- rights: observe is enough, pg_monitor is not
CREATE ROLE failures_monitor IN ROLE pg_monitor;
CREATE ROLE failures_reader;
SELECT taskq_grant('now', 'failures_reader', '{observe}');
SELECT taskq_grant('f', 'failures_reader', '{submit}');
SET ROLE failures_reader;
SELECT count(*) FROM taskq_failures();
SELECT t.try('SELECT taskq_failures(''f'')');
SELECT length(taskq_fingerprint('x'));
SET ROLE failures_monitor;
SELECT t.try('SELECT taskq_failures()');
RESET ROLE;
GRANT EXECUTE ON FUNCTION taskq_failures(text, timestamptz, timestamptz, int, bigint) TO failures_monitor;
SET ROLE failures_monitor;
SELECT count(*) FROM taskq_failures();
SELECT t.try('SELECT taskq_failures(''f'')');
RESET ROLE;
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP OWNED BY failures_monitor, failures_reader;
DROP ROLE failures_monitor, failures_reader;
DROP FUNCTION t.kind(text);
DROP TABLE t.error;

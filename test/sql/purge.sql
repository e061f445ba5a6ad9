--
-- purge: remove finished tasks, or the tasks that the call names
--
SELECT taskq_create_queue('p', '{"max_attempts": 1}');
-- a task in each state, which the payload names
CREATE PROCEDURE t.fill(queue text DEFAULT 'p') LANGUAGE plpgsql AS $$
DECLARE
    c record;
BEGIN
    PERFORM taskq_submit(queue, to_jsonb(s)) FROM unnest('{running,done,exhausted,rejected,cancelled,filtered}'::text[]) s;
    FOR c IN SELECT task_id, token, payload #>> '{}' AS how FROM taskq_claim(queue, max_tasks => 6) LOOP
        CASE c.how
            WHEN 'done' THEN PERFORM taskq_complete(c.task_id, c.token);
            WHEN 'exhausted' THEN PERFORM taskq_fail(c.task_id, c.token, 'e');
            WHEN 'rejected' THEN PERFORM taskq_fail(c.task_id, c.token, 'e', false);
            WHEN 'cancelled' THEN PERFORM taskq_cancel(c.task_id, force => true);
            WHEN 'filtered' THEN PERFORM taskq_filter(c.task_id, c.token);
            ELSE NULL;
        END CASE;
    END LOOP;
    PERFORM taskq_submit(queue, '"pending"', delay => '1 h');
    PERFORM taskq_submit(queue, '"suspended"', suspended => true);
END
$$;
CREATE FUNCTION t.has(queue text DEFAULT 'p') RETURNS text LANGUAGE sql AS $$
SELECT string_agg(s.payload #>> '{}', ' ' ORDER BY s.task_id) FROM taskq.tasks s WHERE s.queue = $1;
$$;
-- the call, and what is left of one task in each state; rolled back
CREATE FUNCTION t.after(arguments text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
    answer text;
BEGIN
    BEGIN
        EXECUTE 'SELECT taskq_purge(''p''' || arguments || ')' INTO n;
        answer := n || ' gone, left: ' || coalesce(t.has(), 'none');
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
        RETURN answer;
    END;
END
$$;
CALL t.fill();
CALL t.fill('p other');
SELECT t.has();
-- states: by default the finished ones
SELECT a, t.after(a) FROM unnest(ARRAY['', ', NULL', ', ''{done}''', ', ''{dead}''', ', ''{done,dead,done}''', ', ''{cancelled,filtered}''', ', ''{pending}''', ', ''{suspended}''', ', ''{blocked}''', ', ''{pending,suspended,done}''', ', ''{redundant,recreated}''', ', ''{}''']) a;
-- running: never
SELECT t.try($$SELECT taskq_purge('p', '{running}')$$);
SELECT t.try($$SELECT taskq_purge('p', '{done,running}')$$);
-- reason: a code
SELECT a, t.after(a) FROM unnest(ARRAY[', reason => ''rejected''', ', reason => ''exhausted''', ', reason => ''manual''', ', reason => ''deadline''', ', ''{done}'', reason => ''rejected''', ', ''{pending,suspended}'', reason => ''manual''']) a;
SELECT t.try($$SELECT taskq_purge('p', reason => 'because')$$);
SELECT t.try($$SELECT taskq_purge('p', reason => '')$$);
-- ids: both ends are included
SELECT min(task_id) AS first, max(task_id) AS last FROM taskq.tasks WHERE queue = 'p' \gset
SELECT a, t.after(format(a, :first, :last)) FROM unnest(ARRAY[', from_id => %1$s', ', from_id => %1$s + 2', ', to_id => %1$s + 2', ', from_id => %1$s + 1, to_id => %1$s + 1', ', from_id => %2$s', ', ''{suspended}'', from_id => %2$s', ', from_id => %2$s, to_id => %1$s', ', from_id => -9223372036854775808, to_id => 9223372036854775807']) a;
-- max_tasks: the first tasks, waiting ones before finished ones
SELECT a, t.after(a) FROM unnest(ARRAY[', max_tasks => 1', ', max_tasks => 3', ', max_tasks => 2147483647', ', ''{pending,suspended,done,dead}'', max_tasks => 1', ', ''{pending,suspended,done,dead}'', max_tasks => 3']) a;
SELECT t.try($$SELECT taskq_purge('p', max_tasks => 0)$$);
SELECT t.try($$SELECT taskq_purge('p', max_tasks => -1)$$);
-- before: when they finished, or were submitted
UPDATE taskq.archive SET finished_at = finished_at - interval '1 day' WHERE task_id IN (SELECT task_id FROM taskq.tasks WHERE queue = 'p' AND payload IN ('"done"', '"filtered"'));
UPDATE taskq.task SET created_at = coalesce(created_at, available_at) - interval '1 day' WHERE task_id IN (SELECT task_id FROM taskq.tasks WHERE queue = 'p' AND payload = '"pending"');
SELECT a, t.after(a) FROM unnest(ARRAY[', before => now() - interval ''1 h''', ', before => now() - interval ''2 days''', ', before => now() + interval ''1 h''', ', ''{pending,suspended}'', before => now() - interval ''1 h''']) a;
SELECT t.try($$SELECT taskq_purge('p', before => 'infinity')$$);
SELECT t.try($$SELECT taskq_purge('p', before => '-infinity')$$);
SELECT t.try($$SELECT taskq_purge('p', before => now() + interval '11 years')$$);
-- combined
SELECT a, t.after(a) FROM unnest(ARRAY[', ''{dead,done}'', now() - interval ''1 h'', NULL, 1, NULL, 5', ', ''{dead}'', NULL, ''exhausted'', NULL, NULL, 1', ', NULL, NULL, NULL, NULL, NULL, NULL']) a;
-- words
SELECT t.try($$SELECT taskq_purge('no such')$$);
SELECT t.try($$SELECT taskq_purge('*')$$);
SELECT t.try($$SELECT taskq_purge('')$$);
SELECT t.try($$SELECT taskq_purge(NULL)$$);
SELECT t.try($$SELECT taskq_purge('p', '{gone}')$$);
SELECT t.try($$SELECT taskq_purge('p', '{done,NULL}')$$);
SELECT t.try($$SELECT taskq_purge('p', '{{done},{dead}}')$$);
-- committed; other queues keep their tasks
SELECT task_id AS done FROM taskq.tasks WHERE queue = 'p' AND state = 'done' \gset
SELECT taskq_purge('p', '{pending,suspended}');
SELECT taskq_purge('p');
SELECT t.has(), t.has('p other');
SELECT left(t.try(format('SELECT taskq_get(%s)', :done)), 5), left(t.try(format('SELECT taskq_retry(%s)', :done)), 5);
SELECT pending, running, suspended, done, dead FROM taskq.queues WHERE queue = 'p';
-- a running task whose worker is alive is not affected
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'p' AND state = 'running';
SELECT taskq_purge('p');
-- large parts are removed with their tasks, waiting or finished; the reference is free
SELECT taskq_submit('p', to_jsonb(repeat(md5('x'), 2000)), reference => 'r', suspended => true) > 0 AS waiting, taskq_submit('p', to_jsonb(repeat(md5('y'), 2000))) > 0 AS ends;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('p');
SELECT count(*) FROM taskq.large;
SELECT taskq_purge('p', '{suspended,done}');
SELECT count(*) FROM taskq.large;
SELECT taskq_submit('p', reference => 'r', options => '{"reference_window": "forever"}') > 0 AS free;
SELECT taskq_complete(task_id, token) FROM taskq_claim('p');
SELECT left(t.try($$SELECT taskq_submit('p', reference => 'r')$$), 5);
SELECT taskq_purge('p', '{done}');
SELECT taskq_submit('p', reference => 'r') > 0 AS free;
-- a rollback restores it
BEGIN;
SELECT taskq_purge('p other', '{pending,suspended,done,dead,cancelled,filtered}');
SELECT t.has('p other');
ROLLBACK;
SELECT t.has('p other');
-- it makes room for other tasks under max_depth
SELECT taskq_create_queue('p deep', '{"max_depth": 2}');
SELECT count(*) FROM taskq_submit_many('p deep', '{1,2}');
SELECT left(t.try($$SELECT taskq_submit('p deep')$$), 5);
SELECT taskq_purge('p deep', '{pending}', max_tasks => 1);
SELECT taskq_submit('p deep') > 0 AS room;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP PROCEDURE t.fill(text);
DROP FUNCTION t.has(text), t.after(text);

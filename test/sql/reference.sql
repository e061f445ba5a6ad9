--
-- reference: at most one live task of a queue has it
--
SELECT taskq_submit('ref', '1', reference => 'a') AS id \gset
-- error, also by default
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a', on_conflict => 'error')$$), format('"task_id": %s,', :id), '"task_id": ID,');
-- return and skip
SELECT taskq_submit('ref', '2', reference => 'a', on_conflict => 'return') = :id AS the_holder;
SELECT taskq_submit('ref', '2', reference => 'a', on_conflict => 'skip') IS NULL AS skipped;
SELECT payload FROM taskq_get(:id);
SELECT count(*) FROM taskq_list('ref');
-- without a conflict they submit
SELECT taskq_submit('ref', reference => 'b', on_conflict => 'return') <> :id AS another,
       taskq_submit('ref', reference => 'c', on_conflict => 'skip') <> :id AS a_third;
-- other queues and no reference at all do not conflict
SELECT taskq_submit('ref 2', reference => 'a') <> :id AS another;
SELECT count(taskq_submit('ref 2')) FROM generate_series(1, 3);
SELECT taskq_submit('ref', reference => 'A') <> :id AS another_case;
-- while it runs, while it is suspended, while it waits for a retry
SELECT task_id, token FROM taskq_claim('ref') \gset
SELECT :task_id = :id AS the_holder;
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
SELECT taskq_fail(:id, :token, 'e', retry_in => '1 h');
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
SELECT taskq_cancel(:id);
-- a finished task releases its reference
SELECT taskq_submit('ref', reference => 'a', suspended => true) AS id2 \gset
SELECT :id2 <> :id AS another;
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id2), '"task_id": ID,');
SELECT state, reference FROM taskq_list('ref', reference => 'a') ORDER BY task_id;
-- then the former task cannot be retried with it
SELECT replace(t.try(format('SELECT taskq_retry(%s)', :id)), format('"task_id": %s,', :id2), '"task_id": ID,');
SELECT state FROM taskq_get_many(ARRAY[:id, :id2]);
SELECT taskq_cancel(:id2);
SELECT taskq_retry(:id);
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
-- a completed task releases it, too
SELECT taskq_submit('ref done', reference => 'x') AS id \gset
SELECT token FROM taskq_claim('ref done') \gset
SELECT taskq_complete(:id, :token);
SELECT taskq_submit('ref done', reference => 'x') > :id AS submitted;
-- in one transaction
BEGIN;
SELECT taskq_submit('ref tx', reference => 'x') AS id \gset
SELECT taskq_submit('ref tx', reference => 'x', on_conflict => 'return') = :id AS the_holder;
SELECT left(t.try($$SELECT taskq_submit('ref tx', reference => 'x')$$), 5);
ROLLBACK;
SELECT taskq_submit('ref tx', reference => 'x') IS NOT NULL AS free;
-- many with one reference: the first one gets it
SELECT left(t.try($$SELECT count(*) FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'm')$$), 5);
SELECT count(*) AS rows, count(m) AS ids, count(DISTINCT m) AS different FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'm', on_conflict => 'return') m;
SELECT count(*) AS rows, count(m) AS ids FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'm', on_conflict => 'skip') m;
SELECT count(*) AS rows, count(m) AS ids FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'n', on_conflict => 'skip') m;
SELECT payload, reference FROM taskq_list('ref many');
-- the longest one
SELECT taskq_submit('ref', reference => repeat('é', 250)) > 0 AS submitted;
SELECT left(t.try(format('SELECT taskq_submit(''ref'', reference => %L)', repeat('é', 250))), 5);
-- with a large payload, a refused task leaves nothing
SELECT left(t.try($$SELECT taskq_submit('ref', to_jsonb(repeat('x', 100000)), reference => 'a')$$), 5);
SELECT taskq_submit('ref', to_jsonb(repeat('x', 100000)), reference => 'a', on_conflict => 'skip') IS NULL AS skipped;
SELECT count(*) FROM taskq.large;
--
-- update and merge: the waiting task with the reference is changed
--
-- which task has the reference
CREATE FUNCTION t.holder(queue text, reference text) RETURNS TABLE (state text, payload jsonb, priority int, attempt int) LANGUAGE sql AS $$
SELECT s.state, s.payload, s.priority, s.attempt FROM taskq.tasks s WHERE s.queue = $1 AND s.reference = $2 ORDER BY s.task_id;
$$;
-- every setting is replaced, also by a default; the id stays
SELECT taskq_submit('up', '{"a": 1, "b": 1}', 5, now() + interval '1 h', NULL, now() + interval '5 h', 7, '{x}', 'key', 'u', headers => '{"h": 1}', correlation_id => 'c', data => '\x01', options => '{"lease": "1 h"}') AS id \gset
SELECT taskq_submit('up', '{"b": 2}', 3, NULL, interval '2 h', now() + interval '6 h', 9, '{y,z}', 'other key', 'u', 'update', '{"h": 2}', 'd', '\x02', options => '{"lease": "2 h"}') = :id AS same;
SELECT state, payload, priority, max_attempts, tags, key, reference, headers, correlation_id, data, version, attempt, date_trunc('hour', run_at - created_at + interval '1 min') AS due, date_trunc('hour', deadline - created_at + interval '1 min') AS deadline FROM taskq_get(:id);
SELECT taskq_submit('up', NULL, reference => 'u', on_conflict => 'update') = :id AS same;
SELECT state, payload, priority, max_attempts, tags, key, reference, headers, correlation_id, data, deadline, abs(extract(epoch FROM run_at - clock_timestamp())) < 60 AS due_now FROM taskq_get(:id);
SELECT payload, tags, lease_until - now() < interval '10 min' AS queues_lease FROM taskq_claim('up');
-- merge: payloads as with ||, everything else is replaced
SELECT taskq_submit('merge', '{"a": 1, "b": {"x": 1}}', 5, reference => 'm', tags => '{x}') AS id \gset
SELECT taskq_submit('merge', '{"b": {"y": 2}, "c": 3}', reference => 'm', on_conflict => 'merge') = :id AS same;
SELECT * FROM t.holder('merge', 'm');
SELECT tags FROM taskq_get(:id);
-- the result of || for other payloads, and without any
CREATE TABLE t.merged (n int, had jsonb, comes jsonb);
INSERT INTO t.merged VALUES (1, '[1]', '[2]'), (2, '[1]', '2'), (3, '1', '2'), (4, '{"a": 1}', '{}'), (5, '{}', '{"a": 1}'), (6, 'null', 'null'), (7, NULL, '{"a": 1}'), (8, '{"a": 1}', NULL), (9, NULL, NULL);
SELECT count(taskq_submit('merge', had, reference => 'm' || n)) FROM t.merged;
SELECT n, t.try(format('SELECT taskq_submit(''merge'', %L, reference => %L, on_conflict => ''merge'') > 0', comes, 'm' || n)) FROM t.merged;
SELECT n, had, comes, s.payload AS becomes, had || comes AS operator FROM t.merged JOIN taskq.tasks s ON s.queue = 'merge' AND s.reference = 'm' || n ORDER BY n;
DROP TABLE t.merged;
SELECT t.try($$SELECT taskq_submit('merge', '[1]', reference => 'm', on_conflict => 'merge') > 0$$);
SELECT * FROM t.holder('merge', 'm');
-- the merged payload has a limit, too
SELECT taskq_alter_queue('merge', '{"max_payload": 300}');
SELECT taskq_submit('merge', jsonb_build_object('a', repeat('x', 200)), reference => 'big') > 0 AS submitted;
SELECT regexp_replace(t.try($$SELECT taskq_submit('merge', jsonb_build_object('b', repeat('x', 200)), reference => 'big', on_conflict => 'merge')$$), '(too large: size|"size":) \d+', '\1 N', 'g');
SELECT taskq_alter_queue('merge', '{"max_payload": null}');
-- large payloads leave nothing behind
SELECT taskq_submit('up large', to_jsonb(repeat(md5('a'), 3000)), reference => 'l') AS id \gset
SELECT taskq_submit('up large', to_jsonb(repeat(md5('b'), 4000)), reference => 'l', on_conflict => 'update') = :id AS same;
SELECT payload = to_jsonb(repeat(md5('b'), 4000)) AS replaced FROM taskq_get(:id);
SELECT count(*) FROM taskq.large WHERE task_id = :id;
SELECT taskq_submit('up large', '1', reference => 'l', on_conflict => 'update') = :id AS same;
SELECT count(*) FROM taskq.large;
-- each state of the task with the reference, each conflict option
CREATE PROCEDURE t.hold(how text, queue text) LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit(queue, '{"old": true}', reference => how, suspended => how = 'suspended', delay => CASE WHEN how = 'delayed' THEN interval '1 h' END);
    c record;
BEGIN
    IF how IN ('running', 'retried', 'done', 'dead', 'cancelled', 'filtered', 'no trace') THEN
        SELECT * INTO STRICT c FROM taskq_claim(queue);
        CASE how
            WHEN 'retried' THEN PERFORM taskq_fail(id, c.token, 'e', retry_in => '1 h');
            WHEN 'done' THEN PERFORM taskq_complete(id, c.token);
            WHEN 'dead' THEN PERFORM taskq_fail(id, c.token, 'e', false);
            WHEN 'cancelled' THEN PERFORM taskq_cancel(id, force => true);
            WHEN 'filtered' THEN PERFORM taskq_filter(id, c.token);
            WHEN 'no trace' THEN PERFORM taskq_complete(id, c.token, keep => false);
            ELSE NULL;
        END CASE;
    END IF;
END
$$;
CREATE TABLE t.tried (n serial, win boolean, how text, word text, answer text, becomes text);
CREATE PROCEDURE t.tries() LANGUAGE plpgsql AS $$
DECLARE
    win boolean; how text; word text; q text; holder bigint; answer text;
BEGIN
    FOREACH win IN ARRAY ARRAY[false, true] LOOP
        FOREACH how IN ARRAY ARRAY['delayed', 'suspended', 'retried', 'running', 'done', 'dead', 'cancelled', 'filtered', 'no trace'] LOOP
            FOREACH word IN ARRAY ARRAY['error', 'return', 'skip', 'update', 'merge'] LOOP
                q := concat_ws(' ', 'tried', win, how, word);
                PERFORM taskq_create_queue(q, CASE WHEN win THEN '{"reference_window": "1 h"}' ELSE '{}' END::jsonb);
                CALL t.hold(how, q);
                COMMIT;
                SELECT max(task_id) INTO holder FROM taskq.tasks WHERE queue = q;
                answer := t.try(format('SELECT taskq_submit(%L, ''{"new": true}'', reference => %L, on_conflict => %L)', q, how, word));
                answer := CASE WHEN answer = holder::text THEN 'the holder' WHEN answer ~ '^\d+$' THEN 'a new one' WHEN answer ~ '^TQ' THEN left(answer, 5) ELSE answer END;
                COMMIT;
                INSERT INTO t.tried (win, how, word, answer, becomes)
                SELECT win, how, word, answer, string_agg(concat_ws(' ', s.state, s.payload, '<' || s.reference || '>'), ', ' ORDER BY s.task_id) FROM taskq.tasks s WHERE s.queue = q;
                COMMIT;
            END LOOP;
        END LOOP;
    END LOOP;
END
$$;
CALL t.tries();
SELECT win AS window, how, word, answer, becomes FROM t.tried ORDER BY n;
-- a running task with the reference ends as usual
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'tried f running update' AND state = 'running';
SELECT state, payload, reference FROM taskq.tasks WHERE queue = 'tried f running update' ORDER BY task_id;
-- the error about a finished task says so
SELECT regexp_replace(t.try($$SELECT taskq_submit('tried t done error', reference => 'done')$$), '"task_id": \d+', '"task_id": ID');
-- the window's end, its change, and its removal
SELECT taskq_alter_queue('tried t done error', '{"reference_window": "1 us"}');
SELECT taskq_submit('tried t done error', reference => 'done', suspended => true) > 0 AS over;
SELECT taskq_alter_queue('tried t filtered error', '{"reference_window": null}');
SELECT taskq_submit('tried t filtered error', reference => 'filtered') > 0 AS over;
-- a task's own window, instead of the queue's
SELECT taskq_create_queue('own window', '{"reference_window": "1 h"}');
SELECT taskq_submit('own window', reference => 'short', options => '{"reference_window": "1 us"}') > 0 AS submitted, taskq_submit('own window', reference => 'for ever', options => '{"reference_window": "forever"}') > 0 AS submitted;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('own window', max_tasks => 2);
SELECT taskq_alter_queue('own window', '{"reference_window": null}');
SELECT taskq_submit('own window', reference => 'short') > 0 AS over, left(t.try($$SELECT taskq_submit('own window', reference => 'for ever')$$), 5) AS kept;
-- an insertion that replaces the task takes its reference
SELECT taskq_create_queue('handed on', '{"reference_window": "1 h"}');
CREATE FUNCTION t.handed_on(key text, how text) RETURNS text LANGUAGE sql AS $$
    SELECT left(t.try(format('SELECT taskq_submit(''handed on'', key => %L, reference => ''r '' || %L, insertion => %L) > 0', key, key, how)), 5) $$;
SELECT t.handed_on('waits', how) FROM unnest('{append,supersede,supersede,replace,delete,supersede,append}'::text[]) how;
SELECT state, count(*) FROM taskq.tasks WHERE key = 'waits' GROUP BY state ORDER BY state;
-- also from a finished task; supersede leaves that task unchanged
SELECT t.handed_on('ends', 'append');
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('handed on', max_tasks => 2);
SELECT t.handed_on('ends', how) FROM unnest('{supersede,replace,replace,append}'::text[]) how;
SELECT state, count(*) FROM taskq.tasks WHERE key = 'ends' GROUP BY state ORDER BY state;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('handed on', max_tasks => 2);
SELECT t.handed_on('ends', how) FROM unnest('{delete,append}'::text[]) how;
SELECT state FROM taskq.tasks WHERE key = 'ends';
-- a task that made way for one with another reference, or of another key, keeps its own
SELECT taskq_submit('handed on', key => 'a', reference => 'a1') > 0 AS submitted, taskq_submit('handed on', key => 'a', reference => 'a2', insertion => 'supersede') > 0 AS superseded;
SELECT left(t.try($$SELECT taskq_submit('handed on', key => 'a', reference => 'a1', insertion => 'supersede')$$), 5) AS late,
       left(t.try($$SELECT taskq_submit('handed on', key => 'b', reference => 'a1', insertion => 'replace')$$), 5) AS another_key,
       t.try($$SELECT taskq_submit('handed on', key => 'a', reference => 'a2', insertion => 'supersede', on_conflict => 'skip')$$) AS skipped;
SELECT key, reference, state FROM taskq.tasks WHERE key = 'a' ORDER BY task_id;
-- in a list, and in a change
SELECT count(*) FROM taskq_submit_tasks('[{"queue": "handed on", "key": "l", "reference": "l"}, {"queue": "handed on", "key": "l", "reference": "l", "insertion": "supersede"}, {"queue": "handed on", "key": "l", "reference": "l", "insertion": "supersede"}]');
SELECT count(*) FROM taskq_change('w', '[{"queue": "handed on", "key": "l", "reference": "l", "insertion": "replace"}]');
SELECT key, reference, state FROM taskq.tasks WHERE key = 'l' ORDER BY task_id;
-- with retention none and a window, the row is kept as long as the window
SELECT taskq_create_queue('window none', '{"reference_window": "1 h", "retention": "none"}');
SELECT taskq_submit('window none', reference => 'w') > 0 AS submitted, taskq_submit('window none') > 0 AS without;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('window none', max_tasks => 2);
SELECT state, reference FROM taskq.tasks WHERE queue = 'window none';
SELECT date_trunc('minute', expires_at - finished_at + interval '1 s') AS stays FROM taskq.archive WHERE reference = 'w';
-- a finished task does not prevent its own retry
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'window none';
SELECT state, reference FROM taskq.tasks WHERE queue = 'window none';
-- in lists: each entry sees the ones before it
SELECT count(DISTINCT m), count(*) FROM taskq_submit_many('up many', '{1,2,3}', reference => 'x', on_conflict => 'update') m;
SELECT * FROM t.holder('up many', 'x');
SELECT count(DISTINCT m) FROM taskq_submit_many('up many', ARRAY['{"a": 1}', '{"b": 2}', '{"a": 3}']::jsonb[], reference => 'y', on_conflict => 'merge') m;
SELECT * FROM t.holder('up many', 'y');
-- in one transaction, and rolled back
BEGIN;
SELECT taskq_submit('up many', '{"c": 1}', reference => 'y', on_conflict => 'merge') > 0 AS merged;
SAVEPOINT a;
SELECT taskq_submit('up many', '{"d": 1}', reference => 'y', on_conflict => 'update') > 0 AS updated;
SELECT * FROM t.holder('up many', 'y');
ROLLBACK TO a;
SELECT * FROM t.holder('up many', 'y');
ROLLBACK;
SELECT * FROM t.holder('up many', 'y');
DROP PROCEDURE t.tries(), t.hold(text, text);
DROP FUNCTION t.holder(text, text);
DROP TABLE t.tried;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;

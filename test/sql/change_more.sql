-- Changes: entries that make room come first; a lease cannot do what a claim cannot do.
SELECT taskq_create_queue('more', '{"retention": "7 d"}'), taskq_create_queue('other');
CREATE FUNCTION pg_temp.id(n text) RETURNS bigint LANGUAGE sql AS $$ SELECT task_id FROM taskq.tasks WHERE payload = to_jsonb(n) ORDER BY task_id DESC LIMIT 1 $$;
-- names as <name>
CREATE FUNCTION pg_temp.try(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    n text;
    answer text;
    more text;
BEGIN
    FOR n IN SELECT DISTINCT substring(m[1] FROM 2 FOR length(m[1]) - 2) FROM regexp_matches(call, '(<[a-z]+>)', 'g') m LOOP
        call := replace(call, '<' || n || '>', pg_temp.id(n)::text);
    END LOOP;
    EXECUTE format('SELECT string_agg(concat_ws('' '', payload ->> 0, state, attempt, reference), '', '') FROM taskq_change(%s)', call) INTO answer;
    RETURN coalesce(answer, 'nothing');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS more = PG_EXCEPTION_DETAIL;
    RETURN concat(SQLSTATE, (SELECT string_agg(concat(' ', key, ' ', regexp_replace(value::text, '\m[0-9]{2,}\M', 'N', 'g')), '' ORDER BY key) FROM jsonb_each(CASE WHEN more LIKE '{%' THEN more::jsonb ELSE '{}' END) WHERE value <> '[]'));
END $$;

-- References: released and set in one change, in any order of ids.
SELECT taskq_submit('more', '"a"', reference => 'x') > 0, taskq_submit('more', '"b"', reference => 'y') > 0;
SELECT pg_temp.try($$'w', '[{"queue": "more", "reference": "x", "payload": "c"}]', '[{"task_id": <a>, "reference": null}]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <a>, "reference": "y"}]', deletes => '[<b>]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <c>, "reference": "y"}, {"task_id": <a>, "version": 1, "priority": 1}]'$$);
SELECT pg_temp.try($$'w', '[{"queue": "more", "reference": "x", "key": "k", "insertion": "supersede", "payload": "d"}]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <c>, "key": "k"}]'$$);
SELECT pg_temp.try($$'w', '[{"queue": "more", "reference": "x", "key": "k", "insertion": "supersede", "payload": "d"}]'$$);
SELECT pg_temp.try($$'w', '[{"reference": "y"}]'$$);
-- Limits: a deleted task makes room for a leased one.
SELECT taskq_alter_queue('more', '{"max_running": 1}');
SELECT pg_temp.try($$'w', updates => '[{"task_id": <d>, "lease": "1 min"}]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <a>, "lease": "1 min"}]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <a>, "lease": "1 min"}]', deletes => '[<d>]'$$);
SELECT taskq_alter_queue('more', '{"max_running": null}');

-- If the caller releases a task that was asked to stop, the task is cancelled.
SELECT taskq_cancel(pg_temp.id('a'));
SELECT pg_temp.try($$'w', updates => '[{"task_id": <a>, "payload": "renewed", "lease": "1 min"}]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <renewed>}]'$$);
SELECT state, reason FROM taskq.tasks WHERE payload = '"renewed"';
-- A claim whose lease has expired counts as an attempt.
SELECT taskq_submit('more', '"e"', max_attempts => 2) > 0;
CREATE FUNCTION pg_temp.take(w text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN pg_temp.try(format($c$%L, updates => '[{"task_id": <e>, "lease": "0.001 s"}]'$c$, w));
END $$;
BEGIN;
SELECT pg_temp.take('w1'), pg_sleep(0.01);
SELECT pg_temp.take('w1'), pg_sleep(0.01);
SELECT pg_temp.take('w2'), pg_sleep(0.01);
SELECT pg_temp.take('w3');
SELECT attempt, max_attempts FROM taskq.tasks WHERE payload = '"e"';
ROLLBACK;
-- Tasks that a claim does not return.
SELECT taskq_submit('more', '"f"', deadline => clock_timestamp() + interval '1 s') > 0, taskq_submit('more', '"g"') > 0;
SELECT taskq_register('drained'), taskq_drain('drained');
BEGIN;
-- the task stays, and other workers do not end it
SELECT pg_temp.try($$'w', '[{"queue": "other"}]', depends => '[<f>]'$$);
DO $$
BEGIN
    WHILE clock_timestamp() <= (SELECT deadline FROM taskq.tasks WHERE payload = '"f"') LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT pg_temp.try($$'w', updates => '[{"task_id": <f>, "lease": "1 min"}]'$$);
SELECT pg_temp.try($$'drained', updates => '[{"task_id": <g>, "lease": "1 min"}]'$$);
SELECT taskq_pause('more');
SELECT pg_temp.try($$'w', updates => '[{"task_id": <g>, "lease": "1 min"}]'$$);
ROLLBACK;
-- A change may not remove a task on which it depends.
SELECT taskq_submit('more', '"h"', key => 'kept') > 0;
SELECT pg_temp.try($$'w', '[{"queue": "more", "key": "kept", "insertion": "delete"}]', depends => '[<h>]'$$);
SELECT pg_temp.try($$'w', '[{"queue": "more", "key": "kept", "insertion": "supersede", "payload": "i"}, {"queue": "more", "key": "kept", "insertion": "supersede", "payload": "j"}]'$$);
SELECT payload, state FROM taskq.tasks WHERE key = 'kept' ORDER BY task_id;

-- A moved task keeps its reference: if another task has it there, that is a collision.
SELECT taskq_create_queue('there', '{"reference_window": "1 h", "retention": "7 d"}');
SELECT taskq_submit('more', '"m"', reference => 'r') > 0, taskq_submit('there', '"n"', reference => 'r') > 0, taskq_submit('there', '"o"', reference => 's') > 0;
SELECT pg_temp.try(format($$'w', updates => '[{"task_id": <m>, "queue": "there"%s}]'%s$$, named, depends)) FROM unnest('{"", ", \"reference\": \"r\"", ", \"reference\": \"s\""}'::text[]) named, unnest('{"", ", depends => ''[999999999]''"}'::text[]) depends;
SELECT pg_temp.try($$'w', updates => '[{"task_id": <m>, "queue": "there", "lease": "1 min"}, {"task_id": <n>, "payload": ["p"]}]'$$);
-- a finished task keeps its reference within the window, also a task that the change deletes
SELECT pg_temp.try($$'w', updates => '[{"task_id": <m>, "queue": "there"}]', deletes => '[<n>]'$$);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <m>, "queue": "there", "reference": null}]'$$);
SELECT taskq_submit('more', '"q"', reference => 's') > 0, count(taskq_complete(task_id, token)) FROM taskq_claim('there', max_tasks => 3);
SELECT pg_temp.try($$'w', updates => '[{"task_id": <q>, "queue": "there"}]'$$);
SELECT payload, queue, state, reference FROM taskq.tasks WHERE payload <@ '["m", "n", "o", "q"]' ORDER BY payload;
-- two tasks with the same reference are moved, and one with it is added
SELECT taskq_submit('other', '"t"', reference => 'u') > 0, taskq_submit('more', '"u"', reference => 'u') > 0;
SELECT pg_temp.try($$'w', updates => '[{"task_id": <t>, "queue": "there"}, {"task_id": <u>, "queue": "there"}]'$$);
SELECT pg_temp.try($$'w', '[{"queue": "there", "reference": "u"}]', '[{"task_id": <t>, "queue": "there"}]'$$);
SELECT pg_temp.try($$'w', '[{"queue": "there", "reference": "u", "skip_existing": true}]', '[{"task_id": <t>, "queue": "there"}]'$$);

-- Documents that another role may not see look like documents that do not exist.
CREATE ROLE change_more;
SELECT taskq_grant('other', 'change_more', '{work}');
SELECT count(*) FROM taskq_change('w', doc_adds => '[{"namespace": "secret", "key": "k"}]');
SELECT doc_id FROM taskq.doc WHERE namespace = 'secret' \gset
SET ROLE change_more;
SET client_min_messages = notice;
DO $$ BEGIN
    PERFORM taskq_change('w', doc_deletes => '[{"namespace": "secret", "key": "k"}, {"namespace": "secret", "key": "none"}]');
EXCEPTION WHEN SQLSTATE 'TQ010' THEN
    DECLARE
        more text;
    BEGIN
        GET STACKED DIAGNOSTICS more = PG_EXCEPTION_DETAIL;
        RAISE NOTICE '%', more::jsonb -> 'doc_deletes';
    END;
END $$;
RESET client_min_messages;
RESET ROLE;
SELECT count(*) FROM taskq_change('w', doc_deletes => '[{"namespace": "secret", "key": "k"}]');
SELECT * FROM taskq_check();
SELECT taskq_deregister('drained'), taskq_revoke('other', 'change_more', '{work}');
SELECT taskq_drop_queue(q, true) FROM unnest(ARRAY['more', 'other', 'there']) q;
DROP ROLE change_more;

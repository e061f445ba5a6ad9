--
-- faults: hostile names, values at the limits, and encodings
--
SELECT taskq_create_queue('f', '{"retry": "fixed", "retry_base": "0 s"}');
--
-- Functions, operators, types and tables that shadow PostgreSQL's own are never used with another
-- role's rights, nor do they change a result.
--
CREATE ROLE regress_taskq_hostile;
CREATE SCHEMA regress_taskq_trap AUTHORIZATION regress_taskq_hostile;
GRANT regress_taskq_hostile TO CURRENT_USER;
SET ROLE regress_taskq_hostile;
CREATE FUNCTION regress_taskq_trap.sprung() RETURNS boolean LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'the trap sprang as %', current_user; RETURN true; END$$;
-- what SQL inside the extension calls, by the types of the arguments
DO $do$
DECLARE
    f record;
    o record;
BEGIN
    FOR f IN SELECT * FROM (VALUES ('count', '"any"', 'bigint'), ('now', '', 'timestamptz'), ('clock_timestamp', '', 'timestamptz'), ('jsonb_agg', 'jsonb', 'jsonb'), ('jsonb_array_length', 'jsonb', 'int'),
        ('jsonb_build_object', 'VARIADIC "any"', 'jsonb'), ('jsonb_strip_nulls', 'jsonb', 'jsonb'), ('jsonb_build_array', 'VARIADIC "any"', 'jsonb'), ('jsonb_array_elements', 'jsonb', 'jsonb'), ('nextval', 'regclass', 'bigint'),
        ('has_table_privilege', 'oid, text', 'boolean'), ('array_length', 'anyarray, int', 'int'), ('format', 'text, text', 'text'), ('concat', 'VARIADIC "any"', 'text'), ('starts_with', 'text, text', 'boolean'),
        ('pg_advisory_xact_lock', 'bigint', 'void'), ('current_setting', 'text, boolean', 'text'), ('unnest', 'anyarray', 'int')) v (name, arguments, result)
    LOOP
        CONTINUE WHEN f.arguments ~ '"any"'; -- only C functions take them
        EXECUTE format('CREATE FUNCTION regress_taskq_trap.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM regress_taskq_trap.sprung(); RETURN %s; END$f$', f.name, f.arguments, f.result, CASE WHEN f.result = 'void' THEN '' ELSE 'NULL' END);
    END LOOP;
    FOR o IN SELECT t, w FROM unnest('{bigint,int,smallint,text,boolean,timestamptz,jsonb}'::text[]) t, unnest('{=,<>,<,>,<=,>=}'::text[]) w LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION regress_taskq_trap.op(a %s, b %1$s) RETURNS boolean LANGUAGE plpgsql AS $f$BEGIN RETURN regress_taskq_trap.sprung(); END$f$', o.t);
        EXECUTE format('CREATE OPERATOR regress_taskq_trap.%s (LEFTARG = %s, RIGHTARG = %2$s, FUNCTION = regress_taskq_trap.op)', o.w, o.t);
    END LOOP;
    EXECUTE 'CREATE FUNCTION regress_taskq_trap.merge(a jsonb, b jsonb) RETURNS jsonb LANGUAGE plpgsql AS $f$BEGIN PERFORM regress_taskq_trap.sprung(); RETURN a; END$f$';
    EXECUTE 'CREATE OPERATOR regress_taskq_trap.|| (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = regress_taskq_trap.merge)';
END
$do$;
CREATE DOMAIN regress_taskq_trap.jsonb AS pg_catalog.text CHECK (regress_taskq_trap.sprung());
CREATE DOMAIN regress_taskq_trap.int4 AS pg_catalog.text CHECK (regress_taskq_trap.sprung());
RESET ROLE;
CREATE TEMP TABLE task (task_id bigint);
CREATE TEMP TABLE archive (task_id bigint);
CREATE TEMP TABLE archive_keep (task_id bigint);
CREATE TEMP TABLE large (task_id bigint);
CREATE TEMP TABLE queue (queue_id int);
CREATE TEMP TABLE worker (worker_id int);
CREATE TEMP TABLE transition (task_id bigint);
CREATE TEMP TABLE pg_class (oid oid);
CREATE TEMP TABLE pg_type (oid oid);
CREATE FUNCTION t.calls() RETURNS TABLE (n int, answer text) LANGUAGE plpgsql AS $$
DECLARE
    c text;
    i int := 0;
BEGIN
    FOREACH c IN ARRAY ARRAY[
        $c$SELECT public.taskq_alter_queue('f', '{"history": "transitions", "dead_letter_queue": "f dead", "max_running": 100, "max_depth": 1000, "reference_window": "1 h", "on_worker_death": "hold"}')$c$,
        $c$SELECT pg_catalog.count(i) FROM public.taskq_submit_tasks('[{"queue": "f", "payload": {"a": 1}, "reference": "r", "options": {"lease": "1 h"}}, {"queue": "f", "payload": {"n": 2}}, {"queue": "f"}]') i$c$,
        $c$SELECT public.taskq_submit('f', '{"b": 1}', reference => 'r', on_conflict => 'merge') IS NOT NULL$c$,
        $c$SELECT public.taskq_submit('f', '{"b": 2}', reference => 'r', on_conflict => 'update') IS NOT NULL$c$,
        $c$SELECT public.taskq_register('trap', '{f}', max_running => 50)$c$,
        $c$SELECT public.taskq_register('trap', '{f}', max_running => 60, keep => true)$c$,
        $c$SELECT pg_catalog.count(k) FROM public.taskq_claim(NULL, 'trap', 0) k$c$,
        $c$SELECT pg_catalog.count(k) FROM public.taskq_claim(NULL, 'trap', 100) k$c$,
        $c$SELECT pg_catalog.count(x) FROM (SELECT pg_catalog.array_agg(task_id) AS i, pg_catalog.array_agg(token) AS t FROM taskq.tasks WHERE queue OPERATOR(pg_catalog.=) 'f' AND state OPERATOR(pg_catalog.=) 'running') r, public.taskq_extend_many(i, t, '1 h') x$c$,
        $c$SELECT pg_catalog.count(x) FROM (SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('task_id', task_id, 'token', token, 'outcome', 'fail', 'error', 'e', 'retryable', false)) AS d FROM taskq.tasks WHERE queue OPERATOR(pg_catalog.=) 'f' AND state OPERATOR(pg_catalog.=) 'running' AND reference OPERATOR(pg_catalog.=) 'r') r, public.taskq_decide_many(d) x$c$,
        $c$SELECT pg_catalog.count(x) FROM (SELECT pg_catalog.array_agg(task_id) AS i, pg_catalog.array_agg(token) AS t FROM taskq.tasks WHERE queue OPERATOR(pg_catalog.=) 'f' AND state OPERATOR(pg_catalog.=) 'running') r, public.taskq_complete_many(i, t, strict => true) x$c$,
        $c$SELECT pg_catalog.count(k) FROM public.taskq_complete_and_claim('{}', '{}', queue => 'f dead') k$c$,
        $c$SELECT public.taskq_submit('f', reference => 'r')$c$,
        $c$SELECT public.taskq_drain('trap')$c$,
        $c$SELECT drain FROM public.taskq_heartbeat('trap')$c$,
        $c$SELECT public.taskq_expire('trap', '1 h')$c$,
        $c$SELECT public.taskq_deregister('trap')$c$,
        $c$SELECT public.taskq_purge('f', '{done,dead,pending}', reason => 'rejected', max_tasks => 100)$c$,
        $c$SELECT public.taskq_purge('f', '{done,dead,pending}')$c$,
        $c$SELECT pg_catalog.count(h) FROM taskq.history h WHERE h.queue OPERATOR(pg_catalog.=) 'f'$c$,
        $c$SELECT pg_catalog.format('%s %s', pending, running) FROM taskq.queues WHERE queue OPERATOR(pg_catalog.=) 'f dead'$c$,
        $c$SELECT public.taskq_drop_queue('f dead', true)$c$]
    LOOP
        i := i OPERATOR(pg_catalog.+) 1;
        n := i;
        BEGIN
            EXECUTE c INTO answer;
        EXCEPTION WHEN OTHERS THEN
            answer := pg_catalog.concat(SQLSTATE, ': ', SQLERRM);
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
BEGIN;
SELECT n, answer FROM t.calls();
ROLLBACK;
BEGIN;
SELECT jsonb_agg(answer ORDER BY n) AS plain FROM t.calls() \gset
ROLLBACK;
BEGIN;
SET LOCAL search_path = regress_taskq_trap, pg_temp, pg_catalog, public;
SELECT pg_catalog.jsonb_agg(answer ORDER BY n) AS hostile FROM t.calls() \gset
-- the traps are set
SELECT 1 = 2 AS trapped;
ROLLBACK;
SELECT :'plain' = :'hostile' AS same;
DROP TABLE pg_temp.task, pg_temp.archive, pg_temp.archive_keep, pg_temp.large, pg_temp.queue, pg_temp.worker, pg_temp.transition, pg_temp.pg_class, pg_temp.pg_type;
DROP FUNCTION t.calls();
SET client_min_messages = warning;
DROP SCHEMA regress_taskq_trap CASCADE;
RESET client_min_messages;
DROP ROLE regress_taskq_hostile;
--
-- Values near what PostgreSQL itself can hold
--
-- 300 MB as one document: jsonb's own limit for a string is reached before any call
SELECT t.code($$SELECT taskq_submit('f', to_jsonb(repeat(repeat('x', 1000), 300000)))$$);
-- 50 MB in one string: above the default limit, above a changed limit, and within it
SELECT left(t.try($$SELECT taskq_submit('f', to_jsonb(repeat(repeat('x', 1000), 50000)))$$), 200);
SELECT taskq_alter_queue('f', '{"max_payload": 20000000}');
SELECT left(t.try($$SELECT taskq_submit('f', to_jsonb(repeat(repeat('x', 1000), 50000)))$$), 200);
SELECT taskq_alter_queue('f', '{"max_payload": 268435456}');
SELECT taskq_submit('f', to_jsonb(repeat(repeat('x', 1000), 50000))) > 0 AS submitted;
SELECT length(payload #>> '{}') AS length FROM taskq_claim('f');
SELECT taskq_complete(task_id, token, to_jsonb(repeat(repeat('y', 1000), 20000))) FROM taskq.tasks WHERE queue = 'f' AND state = 'running';
SELECT taskq_purge('f');
SELECT count(*) FROM taskq.large;
-- bytes above 256 MB are above every limit
SELECT left(t.try($$SELECT taskq_submit('f', data => decode(repeat(repeat('00', 1000), 270000), 'hex'))$$), 200);
SELECT taskq_alter_queue('f', '{"max_payload": null}');
-- 100,000 tags, headers, members; duplicate tags
SELECT left(t.try($$SELECT taskq_submit('f', tags => (SELECT array_agg('t' || g) FROM generate_series(1, 100000) g))$$), 200);
SELECT tags FROM taskq_get(taskq_submit('f', tags => (SELECT array_agg('t' || g % 2) FROM generate_series(1, 100000) g)));
SELECT left(t.try($$SELECT count(*) FROM taskq_claim('f', tags => (SELECT array_agg('t' || g) FROM generate_series(1, 100000) g))$$), 200);
SELECT left(t.try($$SELECT taskq_register('f', tags => (SELECT array_agg('t' || g) FROM generate_series(1, 100000) g))$$), 200);
SELECT left(t.try($$SELECT taskq_register('f', (SELECT array_agg('t' || g) FROM generate_series(1, 100000) g))$$), 200);
SELECT left(t.try($$SELECT count(*) FROM taskq_submit_tasks(jsonb_build_array(jsonb_build_object('queue', 'f', 'tags', (SELECT jsonb_agg('t' || g) FROM generate_series(1, 100000) g))))$$), 200);
SELECT left(t.try($$SELECT taskq_submit('f', options => (SELECT jsonb_object_agg('o' || g, 1) FROM generate_series(1, 100000) g))$$), 60);
SELECT left(t.try($$SELECT taskq_alter_queue('f', jsonb_build_object('retry_list', (SELECT jsonb_agg('1 s'::text) FROM generate_series(1, 100000) g)))$$), 120);
-- nested deeply: as deep as jsonb allows, and deeper
SELECT taskq_submit('f', (repeat('[', 5000) || repeat(']', 5000))::jsonb) > 0 AS submitted;
SELECT t.code($$SELECT taskq_submit('f', (repeat('[', 1000000) || repeat(']', 1000000))::jsonb)$$);
SELECT t.code($$SELECT count(*) FROM taskq_submit_tasks((repeat('[', 5000) || repeat(']', 5000))::jsonb)$$);
SELECT t.code($$SELECT count(*) FROM taskq_decide_many((repeat('[', 5000) || repeat(']', 5000))::jsonb)$$);
SELECT t.code($$SELECT taskq_submit('f', options => (repeat('{"retry": ', 5000) || '1' || repeat('}', 5000))::jsonb)$$);
SELECT t.code($$SELECT taskq_submit('f', headers => (repeat('{"h": ', 5000) || '1' || repeat('}', 5000))::jsonb) > 0$$);
-- long texts are cut or refused
SELECT taskq_purge('f', '{pending}') > 0 AS purged;
SELECT taskq_submit('f') AS id \gset
SELECT taskq_fail(task_id, token, repeat('é', 1000000)) FROM taskq_claim('f');
SELECT octet_length(error) <= 8192 AS cut, error = repeat('é', length(error)) AS at_a_character FROM taskq_get(:id);
SELECT left(t.try($$SELECT taskq_pause(repeat(repeat('q', 1000), 100000))$$), 100);
--
-- JSON and encodings: PostgreSQL refuses invalid text in every form
--
SELECT c, t.code(c) FROM unnest(ARRAY[
    $c$SELECT taskq_submit('f', '{"a": }')$c$, $c$SELECT taskq_submit('f', '')$c$, $c$SELECT taskq_submit('f', '{"a": 1')$c$, $c$SELECT taskq_submit('f', 'NaN')$c$, $c$SELECT taskq_submit('f', '{"a": 1} x')$c$,
    $c$SELECT taskq_submit('f', '"\u0000"')$c$, $c$SELECT taskq_submit('f', '{"\u0000": 1}')$c$, $c$SELECT taskq_submit('f', '"\ud83d"')$c$, $c$SELECT taskq_submit('f', '"\uzzzz"')$c$,
    $c$SELECT taskq_submit('f', headers => '{"a": "\u0000"}')$c$, $c$SELECT taskq_submit_tasks('[{"queue": "f", "payload": "\u0000"}]')$c$, $c$SELECT taskq_decide_many('[{"error": "\u0000"}]')$c$, $c$SELECT taskq_create_queue('f2', '{"\u0000": 1}')$c$,
    $c$SELECT taskq_submit(E'f\xff')$c$, $c$SELECT taskq_submit('f', reference => E'\xc3')$c$, $c$SELECT taskq_submit('f', tags => ARRAY[E'\xe2\x82'])$c$, $c$SELECT taskq_submit('f', key => convert_from('\x00', 'UTF8'))$c$,
    $c$SELECT taskq_submit_tasks('[{"queue": "f", "data": "\\xzz"}]')$c$, $c$SELECT taskq_submit_tasks('[{"queue": "f", "data": "\\x0"}]')$c$, $c$SELECT taskq_submit_tasks('[{"queue": "f", "run_at": "never"}]')$c$, $c$SELECT taskq_submit_tasks('[{"queue": "f", "delay": "never"}]')$c$]) c;
-- escapes that are text are accepted
SELECT payload, payload ->> 0 = 'é€😀' AS same FROM taskq_get(taskq_submit('f', '["\u00e9\u20ac\ud83d\ude00"]', suspended => true));
SELECT reference, key, tags FROM taskq_get((SELECT taskq_submit_tasks('[{"queue": "f", "reference": "\u00e9", "key": "\ud83d\ude00", "tags": ["\u20ac"], "suspended": true}]')));
-- a client with another encoding: the same text, or PostgreSQL's error if it has no such character
SET client_encoding = 'LATIN1';
SELECT convert_to(reference, 'UTF8') AS utf8 FROM taskq.tasks WHERE queue = 'f' AND reference = convert_from('\xe9', 'LATIN1');
SELECT taskq_submit('f', to_jsonb(convert_from('\xe9', 'LATIN1')), reference => convert_from('\xe9', 'LATIN1'), on_conflict => 'return', suspended => true) = (SELECT task_id FROM taskq.tasks WHERE queue = 'f' AND reference = convert_from('\xc3a9', 'UTF8')) AS the_same;
SELECT t.code($$SELECT taskq_submit('f', key => convert_from('\xff', 'LATIN1'), suspended => true) > 0$$) AS accepted;
SELECT key FROM taskq.tasks WHERE queue = 'f' AND tags IS NOT NULL AND state = 'suspended';
RESET client_encoding;
SELECT count(*) FROM taskq.tasks WHERE queue = 'f' AND key = 'ÿ';
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;

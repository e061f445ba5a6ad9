--
-- setup: what the calls of the family hostile meet, in each database.
-- ASCII only: databases have different encodings.
--
CREATE EXTENSION taskq;
CREATE SCHEMA hostile;
GRANT USAGE ON SCHEMA hostile TO PUBLIC;
-- injected commands would drop or change it
CREATE TABLE hostile.canary (word text);
INSERT INTO hostile.canary VALUES ('alive');

-- tasks in every state, by name
CREATE TABLE hostile.context (name text PRIMARY KEY, task_id bigint, token bigint, queue text, held boolean);
GRANT SELECT ON hostile.context TO PUBLIC;
CREATE FUNCTION hostile.note(name text, queue text) RETURNS void LANGUAGE sql AS $$
INSERT INTO hostile.context
SELECT $1, task_id, token, queue, state = 'running' FROM taskq.tasks WHERE task_id = (SELECT max(task_id) FROM taskq.tasks WHERE queue = $2);
$$;
SELECT taskq_create_queue('h plain', '{"retry": "fixed", "retry_base": "1 day", "history": "transitions"}');
SELECT taskq_create_queue('h limited', '{"max_running": 7, "max_depth": 100, "max_attempts": 1}');
SELECT taskq_create_queue('h letters');
SELECT taskq_create_queue('h deadly', '{"max_attempts": 1, "dead_letter_queue": "h letters", "reference_window": "1 day"}');
SELECT taskq_create_queue('h paused');
SELECT taskq_pause('h paused');
SELECT taskq_create_queue('h empty');
SELECT taskq_register('h worker', '{h plain,h limited}', '{a,b}', max_running => 20);
SELECT taskq_register('h other');
SELECT taskq_register('h draining');
SELECT taskq_drain('h draining');
-- held: by a label, by a worker, asked to stop, the last attempt, under a limit; task 1 has token 1
SELECT taskq_submit('h plain', '{"n": 1}', reference => 'h held');
SELECT count(*) FROM taskq_claim('h plain', 'label', lease => '300 days');
SELECT hostile.note('held by a label', 'h plain');
SELECT taskq_submit('h plain', '{"n": 2}', tags => '{a}', headers => '{"h": 1}', key => 'k', correlation_id => 'c');
SELECT count(*) FROM taskq_claim('h plain', 'h worker');
SELECT hostile.note('held by a worker', 'h plain');
SELECT taskq_submit('h plain', data => '\x00ff');
SELECT count(*) FROM taskq_claim('h plain', lease => '300 days');
SELECT taskq_cancel(max(task_id), 'stop') FROM taskq.tasks;
SELECT hostile.note('held, asked to stop', 'h plain');
SELECT taskq_submit('h deadly', '{"n": 3}', reference => 'h deadly', headers => '{"h": 1}');
SELECT count(*) FROM taskq_claim('h deadly', lease => '300 days');
SELECT hostile.note('held, last attempt', 'h deadly');
SELECT count(*) FROM generate_series(1, 12), taskq_submit('h limited', '[1]');
SELECT count(*) FROM taskq_claim('h limited', 'h worker', 3);
INSERT INTO hostile.context SELECT 'held under a limit', min(task_id), 1, 'h limited', true FROM taskq.tasks WHERE queue = 'h limited' AND state = 'running';
-- waiting
SELECT taskq_submit('h plain', '{"n": 4}', reference => 'h waits');
SELECT hostile.note('pending', 'h plain');
SELECT taskq_submit('h paused', delay => '300 days', deadline => now() + interval '400 days');
SELECT hostile.note('delayed', 'h paused');
SELECT taskq_submit('h plain', suspended => true);
SELECT hostile.note('suspended', 'h plain');
-- finished
SELECT taskq_submit('h deadly', '{"n": 5}', reference => 'h done');
SELECT taskq_complete(task_id, token, '{"r": 1}') FROM taskq_claim('h deadly');
SELECT hostile.note('done', 'h deadly');
SELECT taskq_submit('h deadly', '{"n": 6}');
SELECT taskq_fail(task_id, token, 'broken') FROM taskq_claim('h deadly');
SELECT hostile.note('dead', 'h deadly');
SELECT taskq_cancel(taskq_submit('h plain'));
SELECT hostile.note('cancelled', 'h plain');
SELECT taskq_submit('h empty');
SELECT taskq_filter(task_id, token, 'not mine') FROM taskq_claim('h empty');
SELECT hostile.note('filtered', 'h empty');
INSERT INTO hostile.context VALUES ('nothing', 999999999, 1, 'h nowhere', false), ('an old token', 1, 0, 'h plain', false),
    ('minus one', -1, -1, 'h empty', false), ('all queues', 2, 7, '*', false), ('the largest', 9223372036854775807, 9223372036854775807, 'h letters', false);

-- a statement's SQLSTATE, caught and rolled back in the session
CREATE FUNCTION hostile.caught(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RAISE EXCEPTION USING ERRCODE = 'HT000';
EXCEPTION
    WHEN SQLSTATE 'HT000' THEN
        RETURN '00000';
    WHEN OTHERS THEN
        RETURN SQLSTATE;
END
$$;

-- who has all rights, but is no superuser
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'hostile_all') THEN
        CREATE ROLE hostile_all;
        CREATE ROLE hostile_trapper;
    END IF;
END
$$;
SELECT taskq_grant('*', 'hostile_all', '{submit,work,read,manage}');

-- Shadows of what SQL inside of the extension calls.  One that runs takes a
-- lock that outlives its transaction.
CREATE SCHEMA hostile_trap AUTHORIZATION hostile_trapper;
GRANT USAGE ON SCHEMA hostile_trap TO PUBLIC;
CREATE FUNCTION hostile_trap.sprung() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_advisory_lock_shared(7777);
    RETURN NULL;
END
$$;
DO $do$
DECLARE
    f record;
    o record;
BEGIN
    FOR f IN
        SELECT p.proname, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
          FROM pg_proc p
         WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset
           AND p.provariadic = 0 AND p.proargmodes IS NULL
           AND p.proname IN ('now', 'clock_timestamp', 'jsonb_array_length', 'jsonb_strip_nulls', 'nextval', 'has_table_privilege', 'array_length', 'format',
               'starts_with', 'pg_advisory_xact_lock', 'current_setting', 'md5', 'lower', 'length', 'octet_length', 'date_trunc', 'to_char', 'to_jsonb',
               'array_append', 'array_position', 'cardinality', 'convert_from', 'getdatabaseencoding', 'isfinite', 'jsonb_concat', 'left', 'substr', 'setval',
               'has_function_privilege', 'pg_has_role', 'session_user', 'hashtext', 'hashtextextended', 'replace', 'age', 'abs', 'random', 'mod', 'round')
           AND pg_get_function_arguments(p.oid) !~ 'any|internal|DEFAULT'
    LOOP
        EXECUTE format('CREATE FUNCTION hostile_trap.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM hostile_trap.sprung(); %s END$f$',
                       f.proname, f.arguments, f.result, CASE WHEN f.result = 'void' THEN '' ELSE 'RETURN NULL;' END);
    END LOOP;
    FOR o IN
        SELECT DISTINCT oprname AS w, format_type(oprleft, NULL) AS l, format_type(oprright, NULL) AS r, format_type(oprresult, NULL) AS result
          FROM pg_operator
         WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprname IN ('=', '<>', '<', '>', '<=', '>=', '||', '+', '-', '&', '->', '->>', '@>', '<@')
           AND oprleft IN ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype, 'text'::regtype, 'boolean'::regtype, 'timestamptz'::regtype,
               'interval'::regtype, 'jsonb'::regtype, 'oid'::regtype, 'name'::regtype, 'real'::regtype)
           AND oprright IN ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype, 'text'::regtype, 'boolean'::regtype, 'timestamptz'::regtype,
               'interval'::regtype, 'jsonb'::regtype, 'oid'::regtype, 'name'::regtype, 'real'::regtype)
    LOOP
        EXECUTE format('CREATE FUNCTION hostile_trap.%I(a %s, b %s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM hostile_trap.sprung(); RETURN NULL; END$f$',
                       'op ' || o.w, o.l, o.r, o.result);
        EXECUTE format('CREATE OPERATOR hostile_trap.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = hostile_trap.%I)', o.w, o.l, o.r, 'op ' || o.w);
    END LOOP;
END
$do$;
CREATE DOMAIN hostile_trap.jsonb AS pg_catalog.text CHECK (hostile_trap.sprung());
CREATE DOMAIN hostile_trap.int4 AS pg_catalog.text CHECK (hostile_trap.sprung());
CREATE DOMAIN hostile_trap.text AS pg_catalog.int4 CHECK (hostile_trap.sprung());
CREATE TABLE hostile_trap.task (task_id pg_catalog.text);
CREATE TABLE hostile_trap.queue (queue_id pg_catalog.text);
CREATE TABLE hostile_trap.pg_class (oid oid);
GRANT ALL ON ALL TABLES IN SCHEMA hostile_trap TO PUBLIC;

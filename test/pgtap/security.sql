-- No role gains rights by how the objects of the extension are created.
BEGIN;
SELECT plan(23);

CREATE TEMP VIEW member AS
SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'taskq'
 WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e';
CREATE TEMP VIEW function AS
SELECT p.*, p.oid::regprocedure::text AS name FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid;
CREATE TEMP VIEW relation AS
SELECT c.* FROM pg_class c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid;
CREATE TEMP VIEW owner AS
SELECT extowner AS oid FROM pg_extension WHERE extname = 'taskq';

-- the extension
SELECT is((SELECT trusted FROM pg_available_extension_versions WHERE name = 'taskq' AND installed), false, 'trusted is false');
SELECT is((SELECT superuser FROM pg_available_extension_versions WHERE name = 'taskq' AND installed), true, 'only superusers can create the extension');

-- functions
SELECT cmp_ok((SELECT count(*) FROM function)::int, '>', 50, 'there are functions to check');
SELECT is_empty('SELECT name FROM function WHERE prosecdef AND (proconfig IS NULL OR NOT proconfig @> ''{"search_path=pg_catalog, pg_temp"}'')',
    'no function is SECURITY DEFINER without a search_path');
SELECT is_empty('SELECT name FROM function WHERE prosecdef', 'no function is SECURITY DEFINER at all');
SELECT is_empty('SELECT f.name FROM function f JOIN pg_language l ON l.oid = f.prolang WHERE l.lanname <> ''c'' AND f.prokind <> ''a''',
    'all functions are in C');
SELECT is_empty('SELECT name FROM function WHERE proisstrict OR proleakproof OR prosupport <> 0', 'no function is strict, leakproof, or has a support function');
SELECT set_eq('SELECT name FROM function WHERE has_function_privilege(''public'', oid, ''EXECUTE'')', ARRAY[
    'taskq_version()', 'taskq.state_name(smallint)', 'taskq.reason_name(smallint)',
    'taskq.queue_numbers(integer)', 'taskq.metric_rows()', 'taskq.metric_minutes(integer)', 'taskq.worker_running(integer)', 'taskq.worker_seen(integer)',
    'taskq.may_read(integer)', 'taskq.may_read_payload(integer)', 'taskq.may_observe(integer)',
    'taskq.contents(integer,jsonb)', 'taskq.workflow_contents(bigint,jsonb)', 'taskq.may_see_worker(integer)',
    'taskq.task_progress(bigint,bigint)', 'taskq.workflow_look(bigint)',
    'taskq.workflow_step_rows(bigint)', 'taskq.batch_rows(bigint)'], 'EXECUTE is PUBLIC''s only on what the views call');
SELECT set_eq($$
    SELECT f.proname FROM function f, aclexplode(f.proacl) a
     WHERE a.grantee = 'pg_monitor'::regrole AND a.privilege_type = 'EXECUTE' AND NOT a.is_grantable
$$, $$
    SELECT proname FROM function
     WHERE proname IN ('taskq_get', 'taskq_await', 'taskq_get_many', 'taskq_list', 'taskq_lineage', 'taskq_count', 'taskq_sequence_at', 'taskq_explain', 'taskq_explain_claim', 'taskq_health', 'taskq_openmetrics', 'range_numbers',
                       'taskq_timeline', 'taskq_workflow', 'taskq_step_levels', 'taskq_workflow_graph', 'taskq_await_workflow')
$$, 'pg_monitor has EXECUTE on what reads');
SELECT is_empty('SELECT f.name FROM function f, aclexplode(f.proacl) a WHERE a.grantee NOT IN (0, (SELECT oid FROM owner), ''pg_monitor''::regrole)',
    'no other role has EXECUTE');
SELECT is_empty($$
    SELECT name FROM function f WHERE pronamespace <> 'taskq'::regnamespace AND proname NOT IN ('taskq_version', 'taskq_activate')
       AND NOT EXISTS (SELECT FROM taskq.function_right r WHERE r.function = f.proname)
       AND proname <> 'taskq_health'
$$, 'every public function belongs to a right');
SELECT is_empty('SELECT function FROM taskq.function_right r WHERE NOT EXISTS (SELECT FROM function f WHERE f.proname = r.function)',
    'every right belongs to a function');
SELECT is_empty('SELECT proname FROM function WHERE pronamespace <> ''taskq''::regnamespace GROUP BY proname HAVING count(*) > 1', 'no name is overloaded');

-- tables, sequences, views
SELECT is_empty($$
    SELECT c.relname, a.grantee FROM relation c, aclexplode(c.relacl) a
     WHERE a.grantee <> (SELECT oid FROM owner)
       AND (a.grantee <> 0 OR a.privilege_type <> 'SELECT' OR c.relkind <> 'v' OR a.is_grantable)
$$, 'only the owner can use tables and sequences; views can only be read');
SELECT is_empty($$
    SELECT c.relname, t.attname FROM relation c JOIN pg_attribute t ON t.attrelid = c.oid WHERE t.attacl IS NOT NULL
$$, 'no column has privileges of its own');
SELECT is_empty($$
    SELECT c.relname FROM relation c, aclexplode(c.relacl) a
     WHERE a.grantee = 0 AND c.relname <> 'settings' AND NOT coalesce(c.reloptions, '{}') @> '{security_barrier=true}'
$$, 'every view that PUBLIC may read is a security barrier');
SELECT is_empty($$
    SELECT c.relname FROM relation c WHERE c.relkind = 'v' AND coalesce(c.reloptions, '{}') @> '{security_invoker=true}'
$$, 'every view reads its tables with the rights of its owner');
SELECT is_empty('SELECT relname FROM relation WHERE relowner <> (SELECT oid FROM owner) UNION ALL SELECT name FROM function WHERE proowner <> (SELECT oid FROM owner)',
    'all objects have the same owner');
SELECT is_empty($$
    SELECT w.fdwname FROM pg_foreign_data_wrapper w, aclexplode(w.fdwacl) a WHERE w.fdwname = 'taskq' AND a.grantee <> (SELECT oid FROM owner)
     UNION ALL
    SELECT s.srvname FROM pg_foreign_server s, aclexplode(s.srvacl) a WHERE s.srvname = 'taskq' AND a.grantee <> (SELECT oid FROM owner)
$$, 'no role can create a foreign table of its own');

-- schema, types
SELECT set_eq($$
    SELECT a.grantee::regrole::text, a.privilege_type FROM pg_namespace n, aclexplode(n.nspacl) a
     WHERE n.nspname = 'taskq' AND a.grantee <> (SELECT oid FROM owner)
$$, $$VALUES ('-', 'USAGE')$$, 'the schema can be used, but not written');
SELECT is_empty($$
    SELECT t.typname FROM pg_type t JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid
     WHERE t.typtype = 'c' AND NOT has_type_privilege('public', t.oid, 'USAGE')
$$, 'every role may use the types');

-- a session's own objects with the names of the server's
CREATE ROLE taskq_security_test;
SELECT taskq_create_queue('mine');
SELECT taskq_grant('mine', 'taskq_security_test', '{submit,work,read}');
GRANT TEMPORARY ON DATABASE pgtap TO taskq_security_test;
CREATE TEMP TABLE heard (who text);
GRANT INSERT ON heard TO PUBLIC;
SET LOCAL ROLE taskq_security_test;
CREATE FUNCTION pg_temp.tell(anyelement) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN INSERT INTO pg_temp.heard VALUES (current_user); RETURN true; END$$;
CREATE TEMP TABLE pg_roles (oid oid, rolname name);
CREATE TEMP TABLE pg_proc (oid oid, proname name);
CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT pg_temp.tell(1); SELECT pg_catalog.now()';
CREATE FUNCTION pg_temp.nextval(a regclass) RETURNS bigint LANGUAGE sql AS 'SELECT pg_temp.tell(1); SELECT 1::bigint';
CREATE FUNCTION pg_temp.aclexplode(a aclitem[], OUT grantee oid) RETURNS SETOF oid LANGUAGE sql AS 'SELECT pg_temp.tell(1); SELECT 10::oid';
SET LOCAL search_path = pg_temp, pg_catalog, public;
SELECT taskq_submit('mine', '1');
SELECT taskq_complete(task_id, token) FROM taskq_claim('mine', 'a label');
SELECT count(*) FROM taskq_list('mine');
SELECT count(*) FROM taskq.tasks, taskq.queues, taskq.workers, taskq.settings;
SELECT count(*) FROM taskq.metrics;
SET LOCAL search_path = public;
RESET ROLE;
SET LOCAL search_path = pg_temp, pg_catalog, public;
SELECT taskq_grant('mine', 'taskq_security_test', '{manage}'), taskq_revoke('mine', 'taskq_security_test', '{manage}');
SELECT count(*) FROM taskq_run_reapers();
SELECT count(*) FROM taskq_check();
SET LOCAL search_path = public, pg_catalog;
SELECT is_empty('SELECT who FROM pg_temp.heard', 'no object of a session is called instead of that of the server');
SELECT ok(NOT has_function_privilege('taskq_security_test', 'taskq_cancel(bigint,text,boolean)', 'EXECUTE'), 'rights were changed in the real catalog');
SELECT * FROM finish();
ROLLBACK;

-- Functions: how they are declared, and which roles may call them. Their signatures: contract.sql.
BEGIN;
SELECT plan(11);

CREATE TEMP VIEW member AS
SELECT p.oid, p.proname, p.pronamespace::regnamespace::text AS schema,
       p.provolatile, p.proisstrict, p.prosecdef, p.proconfig, p.proargnames
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
   AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'taskq';

-- How they are declared.
SELECT is_empty('SELECT proname FROM member GROUP BY proname HAVING count(*) > 1',
    'no name is overloaded');
SELECT is_empty('SELECT oid::regprocedure FROM member WHERE proisstrict',
    'no function is STRICT');
SELECT is_empty('SELECT oid::regprocedure FROM member WHERE prosecdef',
    'no function is SECURITY DEFINER');
SELECT is_empty('SELECT oid::regprocedure FROM member WHERE proconfig IS NOT NULL',
    'no function has SET');
SELECT is_empty($$
    SELECT oid::regprocedure FROM member
     WHERE schema <> 'taskq' AND provolatile <> 'v'
       AND proname NOT IN ('taskq_version', 'taskq_worst_outcome', 'taskq_batch_totals', 'taskq_fingerprint')$$,
    'public functions are VOLATILE');
SELECT is_empty($$
    SELECT m.oid::regprocedure, n.name
      FROM member m CROSS JOIN unnest(m.proargnames) AS n (name)
      JOIN pg_get_keywords() k ON k.word = n.name AND k.catcode IN ('R', 'T')$$,
    'no argument is a reserved word');
SELECT is_empty($$
    SELECT m.oid::regprocedure FROM member m
      JOIN pg_proc p ON p.oid = m.oid
     WHERE p.pronargs > 0 AND p.proargnames IS NULL
        OR p.proargnames && ARRAY['', 'sqlstate', 'old', 'new']$$,
    'every argument has a valid name');

-- Which roles may call them.
SELECT set_eq($$
    SELECT m.oid::regprocedure::text FROM member m
     WHERE has_function_privilege('public', m.oid, 'EXECUTE')$$, ARRAY[
    'taskq_version()', 'taskq.state_name(smallint)',
    'taskq.reason_name(smallint)', 'taskq.may_read(integer)',
    'taskq.queue_numbers(integer)', 'taskq.metric_rows()', 'taskq.metric_minutes(integer)',
    'taskq.may_read_payload(integer)', 'taskq.may_observe(integer)',
    'taskq.contents(integer,jsonb)', 'taskq.workflow_contents(bigint,jsonb)', 'taskq.may_see_worker(integer)',
    'taskq.worker_seen(integer)', 'taskq.worker_running(integer)',
    'taskq.task_progress(bigint,bigint)',
    'taskq.workflow_look(bigint)', 'taskq.workflow_step_rows(bigint)',
    'taskq.batch_rows(bigint)'],
    'PUBLIC may execute what the public views call, and nothing else');
SELECT set_eq($$
    SELECT c.relname::text || ' ' || x.privilege_type
      FROM pg_class c CROSS JOIN aclexplode(c.relacl) x
     WHERE c.relnamespace = 'taskq'::regnamespace AND x.grantee <> c.relowner$$,
    ARRAY['tasks SELECT', 'running SELECT', 'dead SELECT', 'queues SELECT', 'workers SELECT', 'settings SELECT',
          'history SELECT', 'metrics SELECT', 'metric_history SELECT', 'documents SELECT',
          'workflows SELECT', 'workflow_steps SELECT', 'batch_progress SELECT', 'schedules SELECT', 'changes SELECT', 'operations SELECT'],
    'of the relations, PUBLIC may read the filtered views, and nothing else');
SELECT is_empty($$
    SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'v'
       AND c.relname IN ('tasks', 'queues', 'workers', 'metrics', 'metric_history', 'documents')
       AND NOT coalesce(c.reloptions @> ARRAY['security_barrier=true']
                        OR c.reloptions @> ARRAY['security_barrier'], false)$$,
    'views filtered by rights are security barriers');
SELECT is_empty($$
    SELECT m.proname FROM member m
     WHERE m.schema <> 'taskq'
       AND m.proname NOT IN ('taskq_version', 'taskq_activate')
       AND NOT EXISTS (SELECT FROM taskq.function_right r
                        WHERE r.function = m.proname)$$,
    'taskq_grant can give EXECUTE on every public function');

SELECT * FROM finish();
ROLLBACK;

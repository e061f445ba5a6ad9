-- Functions: signatures as promised, how they are declared, who may call.
BEGIN;
SELECT plan(19);

CREATE TEMP VIEW member AS
SELECT p.oid, p.proname, p.pronamespace::regnamespace::text AS schema,
       p.provolatile, p.proisstrict, p.prosecdef, p.proconfig, p.proacl,
       p.prokind, p.proargnames, p.pronargdefaults, p.prolang
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
   AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'taskq';

-- The public functions: names, order, types and defaults of arguments, and
-- what they return.
CREATE TEMP TABLE promised (name text, arguments text, result text);
INSERT INTO promised VALUES
('taskq_version', '', 'text'),
('taskq_create_queue',
 'queue text, options jsonb DEFAULT ''{}''::jsonb, if_not_exists boolean DEFAULT false',
 'boolean'),
('taskq_alter_queue', 'queue text, options jsonb', 'void'),
('taskq_drop_queue', 'queue text, force boolean DEFAULT false', 'bigint'),
('taskq_pause',
 'queue text, reason text DEFAULT NULL::text, until timestamp with time zone DEFAULT NULL::timestamp with time zone',
 'void'),
('taskq_resume', 'queue text', 'void'),
('taskq_purge',
 'queue text, states text[] DEFAULT NULL::text[],'
 ' before timestamp with time zone DEFAULT NULL::timestamp with time zone,'
 ' reason text DEFAULT NULL::text, from_id bigint DEFAULT NULL::bigint,'
 ' to_id bigint DEFAULT NULL::bigint, max_tasks integer DEFAULT NULL::integer',
 'bigint'),
('taskq_submit_tasks', 'tasks jsonb', 'SETOF bigint'),
('taskq_complete_many',
 'task_ids bigint[], tokens bigint[], results jsonb[] DEFAULT NULL::jsonb[],'
 ' strict boolean DEFAULT false',
 'TABLE(task_id bigint, ok boolean, error_code text)'),
('taskq_decide_many', 'decisions jsonb, strict boolean DEFAULT true',
 'TABLE(task_id bigint, ok boolean, error_code text, state text)'),
('taskq_extend_many',
 'task_ids bigint[], tokens bigint[], lease interval DEFAULT NULL::interval',
 'TABLE(task_id bigint, ok boolean, cancel boolean)'),
('taskq_complete_and_claim',
 'task_ids bigint[], tokens bigint[], results jsonb[] DEFAULT NULL::jsonb[],'
 ' queue text DEFAULT ''default''::text, worker text DEFAULT NULL::text,'
 ' max_tasks integer DEFAULT 1, lease interval DEFAULT NULL::interval,'
 ' tags text[] DEFAULT NULL::text[]',
 'SETOF taskq.claimed'),
('taskq_drain', 'worker text', 'void'),
('taskq_expire', 'worker text, older_than interval', 'bigint'),
('taskq_submit',
 'queue text DEFAULT ''default''::text, payload jsonb DEFAULT NULL::jsonb,'
 ' priority integer DEFAULT NULL::integer,'
 ' run_at timestamp with time zone DEFAULT NULL::timestamp with time zone,'
 ' delay interval DEFAULT NULL::interval,'
 ' deadline timestamp with time zone DEFAULT NULL::timestamp with time zone,'
 ' max_attempts integer DEFAULT NULL::integer, tags text[] DEFAULT NULL::text[],'
 ' key text DEFAULT NULL::text, reference text DEFAULT NULL::text,'
 ' on_conflict text DEFAULT ''error''::text, headers jsonb DEFAULT NULL::jsonb,'
 ' correlation_id text DEFAULT NULL::text, data bytea DEFAULT NULL::bytea,'
 ' insertion text DEFAULT ''append''::text, suspended boolean DEFAULT false,'
 ' options jsonb DEFAULT NULL::jsonb',
 'bigint'),
('taskq_submit_many',
 'queue text, payloads jsonb[],'
 ' priority integer DEFAULT NULL::integer,'
 ' run_at timestamp with time zone DEFAULT NULL::timestamp with time zone,'
 ' delay interval DEFAULT NULL::interval,'
 ' deadline timestamp with time zone DEFAULT NULL::timestamp with time zone,'
 ' max_attempts integer DEFAULT NULL::integer, tags text[] DEFAULT NULL::text[],'
 ' key text DEFAULT NULL::text, reference text DEFAULT NULL::text,'
 ' on_conflict text DEFAULT ''error''::text, headers jsonb DEFAULT NULL::jsonb,'
 ' correlation_id text DEFAULT NULL::text, data bytea DEFAULT NULL::bytea,'
 ' insertion text DEFAULT ''append''::text, suspended boolean DEFAULT false,'
 ' options jsonb DEFAULT NULL::jsonb',
 'SETOF bigint'),
('taskq_claim',
 'queue text DEFAULT ''default''::text, worker text DEFAULT NULL::text,'
 ' max_tasks integer DEFAULT 1, lease interval DEFAULT NULL::interval,'
 ' wait interval DEFAULT ''00:00:00''::interval, tags text[] DEFAULT NULL::text[],'
 ' claim_order text DEFAULT NULL::text',
 'SETOF taskq.claimed'),
('taskq_complete',
 'task_id bigint, token bigint, result jsonb DEFAULT NULL::jsonb, keep boolean DEFAULT NULL::boolean',
 'void'),
('taskq_fail',
 'task_id bigint, token bigint, error text, retryable boolean DEFAULT true,'
 ' retry_in interval DEFAULT NULL::interval, detail jsonb DEFAULT NULL::jsonb',
 'text'),
('taskq_release',
 'task_id bigint, token bigint, delay interval DEFAULT ''00:00:00''::interval,'
 ' reason text DEFAULT NULL::text, result jsonb DEFAULT NULL::jsonb',
 'void'),
('taskq_suspend', 'task_id bigint, token bigint, reason text DEFAULT NULL::text', 'void'),
('taskq_filter', 'task_id bigint, token bigint, reason text DEFAULT NULL::text', 'void'),
('taskq_extend',
 'task_id bigint, token bigint, lease interval DEFAULT NULL::interval,'
 ' OUT lease_until timestamp with time zone, OUT cancel boolean',
 'record'),
('taskq_progress',
 'task_id bigint, token bigint, progress real DEFAULT NULL::real, message text DEFAULT NULL::text,'
 ' OUT lease_until timestamp with time zone, OUT cancel boolean',
 'record'),
('taskq_checkpoint',
 'task_id bigint, token bigint, checkpoint jsonb, progress real DEFAULT NULL::real,'
 ' OUT lease_until timestamp with time zone, OUT cancel boolean',
 'record'),
('taskq_register',
 'worker text, queues text[] DEFAULT NULL::text[], tags text[] DEFAULT ''{}''::text[],'
 ' max_running integer DEFAULT NULL::integer, bound boolean DEFAULT false,'
 ' info jsonb DEFAULT NULL::jsonb, keep boolean DEFAULT false',
 'bigint'),
('taskq_heartbeat', 'worker text', 'taskq.heartbeat'),
('taskq_deregister', 'worker text', 'bigint'),
('taskq_get', 'task_id bigint', 'taskq.task_info'),
('taskq_get_many', 'task_ids bigint[]', 'SETOF taskq.task_info'),
('taskq_list',
 'queue text DEFAULT NULL::text, state text DEFAULT NULL::text, after bigint DEFAULT NULL::bigint,'
 ' max_rows integer DEFAULT 100, reference text DEFAULT NULL::text, key text DEFAULT NULL::text,'
 ' newest_first boolean DEFAULT false, correlation_id text DEFAULT NULL::text,'
 ' with_payload boolean DEFAULT true',
 'SETOF taskq.task_info'),
('taskq_lineage', 'task_id bigint', 'SETOF taskq.lineage'),
('taskq_explain', 'task_id bigint', 'text'),
('taskq_explain_claim',
 'queue text, worker text DEFAULT NULL::text, tags text[] DEFAULT NULL::text[]',
 'text'),
('taskq_cancel',
 'task_id bigint, reason text DEFAULT NULL::text, force boolean DEFAULT false',
 'text'),
('taskq_retry',
 'task_id bigint, reset_attempts boolean DEFAULT NULL::boolean, force boolean DEFAULT false',
 'void'),
('taskq_run_reapers', '', 'TABLE(reaper text, acted bigint)'),
('taskq_activate', '', 'void'),
('taskq_check', '', 'TABLE(problem text, detail text)'),
('taskq_grant', 'queue text, role text, rights text[]', 'void'),
('taskq_revoke', 'queue text, role text, rights text[]', 'void');

SELECT is_empty($$
    SELECT p.name FROM promised p
     WHERE NOT EXISTS (SELECT FROM member m WHERE m.proname = p.name)$$,
    'every function of the list exists');
SELECT is_empty($$
    SELECT m.oid::regprocedure FROM member m
     WHERE m.schema <> 'taskq'
       AND NOT EXISTS (SELECT FROM promised p WHERE m.proname = p.name)$$,
    'no public function is missing in the list');
SELECT is_empty($$
    SELECT m.proname, pg_get_function_arguments(m.oid), p.arguments
      FROM member m JOIN promised p ON p.name = m.proname
     WHERE pg_get_function_arguments(m.oid) <> p.arguments$$,
    'arguments have the promised names, order, types and defaults');
SELECT is_empty($$
    SELECT m.proname, pg_get_function_result(m.oid), p.result
      FROM member m JOIN promised p ON p.name = m.proname
     WHERE pg_get_function_result(m.oid) <> p.result$$,
    'results have the promised types');

-- Rows that functions return.
CREATE TEMP VIEW type_column AS
SELECT c.relname, a.attnum, a.attname,
       format_type(a.atttypid, NULL) AS type
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE c.relnamespace = 'taskq'::regnamespace;
SELECT is((SELECT string_agg(attname || ' ' || type, ', ' ORDER BY attnum)
             FROM type_column WHERE relname = 'claimed'),
    'task_id bigint, token bigint, queue text, payload jsonb, data bytea,'
    ' attempt integer, max_attempts integer, priority integer, key text,'
    ' reference text, tags text[], headers jsonb, correlation_id text,'
    ' checkpoint jsonb, created_at timestamp with time zone,'
    ' run_at timestamp with time zone, deadline timestamp with time zone,'
    ' lease_until timestamp with time zone', 'taskq.claimed');
SELECT is((SELECT string_agg(attname || ' ' || type, ', ' ORDER BY attnum)
             FROM type_column WHERE relname = 'heartbeat'),
    'state text, cancel bigint[], drain boolean, next_in interval',
    'taskq.heartbeat');
SELECT is((SELECT string_agg(attname, ', ' ORDER BY attnum)
             FROM type_column WHERE relname = 'task_info'),
    'task_id, queue, state, reason, message, priority, attempt, max_attempts,'
    ' token, version, key, reference, tags, payload, data, headers,'
    ' correlation_id, result, error, errors, checkpoint, progress, worker,'
    ' created_at, run_at, deadline, claimed_at, lease_until, finished_at,'
    ' cancel_requested_at, submitted_by, run_as, descent, recreated_as,'
    ' workflow_id, step', 'taskq.task_info');
SELECT results_eq($$
    SELECT attname, type FROM type_column WHERE relname = 'tasks' ORDER BY attnum$$, $$
    SELECT attname, type FROM type_column WHERE relname = 'task_info' ORDER BY attnum$$,
    'the view taskq.tasks has the columns of taskq.task_info');

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
       AND proname <> 'taskq_version'$$,
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
        OR EXISTS (SELECT FROM unnest(p.proargnames) n WHERE n = '')$$,
    'every argument has a name');

-- Who may call.
SELECT set_eq($$
    SELECT m.oid::regprocedure::text FROM member m
     WHERE has_function_privilege('public', m.oid, 'EXECUTE')$$, ARRAY[
    'taskq_version()', 'taskq.state_name(smallint)',
    'taskq.reason_name(smallint)', 'taskq.may_read(integer)',
    'taskq.may_read_payload(integer)', 'taskq.may_see_worker(integer)',
    'taskq.queue_numbers(integer)', 'taskq.worker_running(integer)',
    'taskq.worker_seen(integer)', 'taskq.task_progress(bigint,bigint)'],
    'PUBLIC may execute what the public views call, and nothing else');
SELECT set_eq($$
    SELECT c.relname::text || ' ' || x.privilege_type
      FROM pg_class c CROSS JOIN aclexplode(c.relacl) x
     WHERE c.relnamespace = 'taskq'::regnamespace AND x.grantee <> c.relowner$$,
    ARRAY['tasks SELECT', 'running SELECT', 'dead SELECT', 'queues SELECT',
          'workers SELECT', 'settings SELECT', 'history SELECT'],
    'of the relations, PUBLIC may read the filtered views, and nothing else');
SELECT is_empty($$
    SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'v'
       AND c.relname IN ('tasks', 'running', 'dead', 'queues', 'workers', 'history')
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

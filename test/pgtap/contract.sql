-- The contract: names, arguments, defaults, results, columns, words, errors.
--
-- The text here was copied by hand from the contract and does not follow the code: a difference is
-- a defect of the code, or the contract was changed. A new argument comes at the end of a list,
-- with a default; a new column at the end of a row.
BEGIN;
SELECT plan(34);

-- Functions: name, arguments and result as they are written after CREATE FUNCTION; without a result
-- the OUT arguments are the result.
CREATE TEMP TABLE promised (name text PRIMARY KEY, arguments text, result text);
INSERT INTO promised VALUES
-- queues
('taskq_create_queue',
 $$queue text, options jsonb DEFAULT '{}', if_not_exists boolean DEFAULT false,
   reason text DEFAULT NULL$$,
 'boolean'),
('taskq_alter_queue', 'queue text, options jsonb, reason text DEFAULT NULL', 'void'),
('taskq_drop_queue',
 'queue text, force boolean DEFAULT false, reason text DEFAULT NULL', 'bigint'),
('taskq_pause',
 'queue text, reason text DEFAULT NULL, until timestamptz DEFAULT NULL', 'void'),
('taskq_resume', 'queue text, reason text DEFAULT NULL', 'void'),
('taskq_purge',
 'queue text, states text[] DEFAULT NULL, before timestamptz DEFAULT NULL,
  reason text DEFAULT NULL, from_id bigint DEFAULT NULL,
  to_id bigint DEFAULT NULL, max_tasks int DEFAULT NULL,
  comment text DEFAULT NULL', 'bigint'),
-- submitting
('taskq_submit',
 $$queue text DEFAULT 'default', payload jsonb DEFAULT NULL,
   priority int DEFAULT NULL, run_at timestamptz DEFAULT NULL,
   delay interval DEFAULT NULL, deadline timestamptz DEFAULT NULL,
   max_attempts int DEFAULT NULL, tags text[] DEFAULT NULL,
   key text DEFAULT NULL, reference text DEFAULT NULL,
   on_conflict text DEFAULT 'error', headers jsonb DEFAULT NULL,
   correlation_id text DEFAULT NULL, data bytea DEFAULT NULL,
   insertion text DEFAULT 'append', suspended boolean DEFAULT false,
   options jsonb DEFAULT NULL$$, 'bigint'),
('taskq_submit_many',
 $$queue text, payloads jsonb[],
   priority int DEFAULT NULL, run_at timestamptz DEFAULT NULL,
   delay interval DEFAULT NULL, deadline timestamptz DEFAULT NULL,
   max_attempts int DEFAULT NULL, tags text[] DEFAULT NULL,
   key text DEFAULT NULL, reference text DEFAULT NULL,
   on_conflict text DEFAULT 'error', headers jsonb DEFAULT NULL,
   correlation_id text DEFAULT NULL, data bytea DEFAULT NULL,
   insertion text DEFAULT 'append', suspended boolean DEFAULT false,
   options jsonb DEFAULT NULL$$, 'SETOF bigint'),
('taskq_submit_tasks', 'tasks jsonb', 'SETOF bigint'),
-- claiming
('taskq_claim',
 $$queue text DEFAULT 'default', worker text DEFAULT NULL,
   max_tasks int DEFAULT 1, lease interval DEFAULT NULL,
   wait interval DEFAULT '0', tags text[] DEFAULT NULL,
   claim_order text DEFAULT NULL, incarnation bigint DEFAULT NULL$$, 'SETOF taskq.claimed'),
('taskq_wait',
 $$queue text DEFAULT 'default', timeout interval DEFAULT '30 s',
   INOUT ready boolean DEFAULT NULL, worker text DEFAULT NULL,
   tags text[] DEFAULT NULL$$, 'PROCEDURE'),
-- finishing
('taskq_complete',
 'task_id bigint, token bigint, result jsonb DEFAULT NULL,
  keep boolean DEFAULT NULL', 'void'),
('taskq_fail',
 'task_id bigint, token bigint, error text, retryable boolean DEFAULT true,
  retry_in interval DEFAULT NULL, detail jsonb DEFAULT NULL', 'text'),
('taskq_release',
 $$task_id bigint, token bigint, delay interval DEFAULT '0',
   reason text DEFAULT NULL, result jsonb DEFAULT NULL$$, 'void'),
('taskq_suspend', 'task_id bigint, token bigint, reason text DEFAULT NULL', 'void'),
('taskq_filter', 'task_id bigint, token bigint, reason text DEFAULT NULL', 'void'),
('taskq_extend',
 'task_id bigint, token bigint, lease interval DEFAULT NULL,
  OUT lease_until timestamptz, OUT cancel boolean', NULL),
('taskq_progress',
 'task_id bigint, token bigint, progress real DEFAULT NULL,
  message text DEFAULT NULL, OUT lease_until timestamptz, OUT cancel boolean', NULL),
('taskq_checkpoint',
 'task_id bigint, token bigint, checkpoint jsonb, progress real DEFAULT NULL,
  OUT lease_until timestamptz, OUT cancel boolean', NULL),
('taskq_complete_many',
 'task_ids bigint[], tokens bigint[], results jsonb[] DEFAULT NULL,
  strict boolean DEFAULT false', 'TABLE (task_id bigint, ok boolean, error_code text)'),
('taskq_decide_many', 'decisions jsonb, strict boolean DEFAULT true',
 'TABLE (task_id bigint, ok boolean, error_code text, state text)'),
('taskq_extend_many',
 'task_ids bigint[], tokens bigint[], lease interval DEFAULT NULL',
 'TABLE (task_id bigint, ok boolean, cancel boolean)'),
('taskq_complete_and_claim',
 $$task_ids bigint[], tokens bigint[], results jsonb[] DEFAULT NULL,
   queue text DEFAULT 'default', worker text DEFAULT NULL,
   max_tasks int DEFAULT 1, lease interval DEFAULT NULL,
   tags text[] DEFAULT NULL$$, 'SETOF taskq.claimed'),
-- workers
('taskq_register',
 $$worker text, queues text[] DEFAULT NULL, tags text[] DEFAULT '{}',
   max_running int DEFAULT NULL, bound boolean DEFAULT false,
   info jsonb DEFAULT NULL, keep boolean DEFAULT false,
   incarnation bigint DEFAULT NULL$$, 'bigint'),
('taskq_heartbeat', 'worker text, incarnation bigint DEFAULT NULL', 'taskq.heartbeat'),
('taskq_drain',
 'worker text, incarnation bigint DEFAULT NULL, reason text DEFAULT NULL', 'void'),
('taskq_deregister',
 'worker text, incarnation bigint DEFAULT NULL, reason text DEFAULT NULL', 'bigint'),
('taskq_expire',
 'worker text, older_than interval, reason text DEFAULT NULL', 'bigint'),
-- reading and managing
('taskq_get', 'task_id bigint', 'taskq.task_info'),
('taskq_get_many', 'task_ids bigint[]', 'SETOF taskq.task_info'),
('taskq_list',
 'queue text DEFAULT NULL, state text DEFAULT NULL, after bigint DEFAULT NULL,
  max_rows int DEFAULT 100, reference text DEFAULT NULL, key text DEFAULT NULL,
  newest_first boolean DEFAULT false, correlation_id text DEFAULT NULL,
  with_payload boolean DEFAULT true, filter jsonb DEFAULT NULL,
  max_examined bigint DEFAULT NULL', 'SETOF taskq.listed_task'),
('taskq_failures',
 'queue text DEFAULT NULL, since timestamptz DEFAULT NULL,
  until timestamptz DEFAULT NULL, max_rows int DEFAULT 100,
  max_examined bigint DEFAULT NULL',
 'TABLE(fingerprint text, kind text, tasks bigint, dead bigint, retrying bigint, first_at timestamptz, last_at timestamptz, task_id bigint, error text, trend jsonb, stopped_early boolean)'),
('taskq_fingerprint', 'error text', 'text'),
('taskq_cancel',
 'task_id bigint, reason text DEFAULT NULL, force boolean DEFAULT false', 'text'),
('taskq_retry',
 'task_id bigint, reset_attempts boolean DEFAULT NULL, force boolean DEFAULT false,
  reason text DEFAULT NULL',
 'void'),
('taskq_recreate',
 $$task_id bigint, insertion text DEFAULT 'append', reason text DEFAULT NULL$$, 'bigint'),
('taskq_resolve',
 'task_id bigint, result jsonb DEFAULT NULL, reason text DEFAULT NULL,
  force boolean DEFAULT false', 'void'),
('taskq_hold', 'task_id bigint, reason text DEFAULT NULL', 'void'),
('taskq_poison', 'task_id bigint, reason text DEFAULT NULL', 'void'),
('taskq_unpoison', 'task_id bigint, reason text DEFAULT NULL', 'void'),
('taskq_retry_all',
 $$queue text, state text DEFAULT 'dead', reason text DEFAULT NULL,
   from_id bigint DEFAULT NULL, to_id bigint DEFAULT NULL,
   max_tasks int DEFAULT NULL, comment text DEFAULT NULL$$, 'bigint'),
('taskq_manage_many',
 'action text, task_ids bigint[], reason text DEFAULT NULL',
 'TABLE (task_id bigint, ok boolean, error_code text)'),
('taskq_claim_one',
 $$worker text, queues text[], lease interval, depends jsonb DEFAULT '[]',
   wait interval DEFAULT '0'$$, 'SETOF taskq.task_info'),
('taskq_claim_docs', 'worker text, namespace text, key text, lease interval', 'SETOF taskq.doc'),
('taskq_junction',
 $$queue text, keys text[], mode text DEFAULT 'singular',
   reason text DEFAULT NULL$$, 'SETOF bigint'),
('taskq_count',
 $$queue text DEFAULT NULL, mode text DEFAULT 'total', state text DEFAULT NULL,
   reference text DEFAULT NULL, key text DEFAULT NULL,
   from_id bigint DEFAULT NULL, to_id bigint DEFAULT NULL,
   finished_from timestamptz DEFAULT NULL, finished_to timestamptz DEFAULT NULL$$,
 'TABLE (queue text, state text, tasks bigint, newest bigint)'),
('taskq_sequence_at', 'moment timestamptz, preceding boolean DEFAULT false', 'bigint'),
('taskq_recreate_all',
 $$queue text, state text, insertion text DEFAULT 'append',
   from_id bigint DEFAULT NULL, to_id bigint DEFAULT NULL, max_tasks int DEFAULT NULL,
   reason text DEFAULT NULL$$,
 'TABLE (old_id bigint, new_id bigint)'),
('taskq_reassign',
 'queue text, from_state text, to_state text, from_id bigint DEFAULT NULL,
  to_id bigint DEFAULT NULL, task_ids bigint[] DEFAULT NULL,
  reason text DEFAULT NULL', 'bigint'),
('taskq_worst_outcome', 'outcomes text[]', 'text'),
('taskq_change',
 $$worker text, adds jsonb DEFAULT '[]', updates jsonb DEFAULT '[]',
   deletes jsonb DEFAULT '[]', depends jsonb DEFAULT '[]',
   doc_adds jsonb DEFAULT '[]', doc_updates jsonb DEFAULT '[]',
   doc_deletes jsonb DEFAULT '[]', doc_depends jsonb DEFAULT '[]',
   reason text DEFAULT NULL$$,
 'SETOF taskq.task_info'),
('taskq_define_workflow', 'definition jsonb, reason text DEFAULT NULL', 'void'),
('taskq_undefine_workflow',
 $$name text, namespace text DEFAULT 'default', version text DEFAULT NULL,
   reason text DEFAULT NULL$$, 'bigint'),
('taskq_validate_workflow', 'definition jsonb', 'TABLE (path text, problem text)'),
('taskq_start_workflow',
 $$name text, input jsonb DEFAULT '{}', namespace text DEFAULT 'default',
   version text DEFAULT NULL, key text DEFAULT NULL, priority int DEFAULT NULL,
   run_at timestamptz DEFAULT NULL, correlation_id text DEFAULT NULL,
   parent_correlation_id text DEFAULT NULL, headers jsonb DEFAULT NULL,
   on_conflict text DEFAULT 'error'$$, 'bigint'),
('taskq_cancel_workflow', 'workflow_id bigint, reason text DEFAULT NULL', 'text'),
('taskq_signal', 'workflow_id bigint, name text, payload jsonb DEFAULT NULL', 'boolean'),
('taskq_ancestor_results', 'task_id bigint', 'jsonb'),
('taskq_dependency_results',
 'task_id bigint, after bigint DEFAULT NULL, max_rows int DEFAULT 100',
 'TABLE (step text, task_id bigint, result jsonb)'),
('taskq_checkpoints', 'task_id bigint',
 'TABLE (at timestamptz, attempt int, cursor jsonb, items jsonb, size int)'),
('taskq_batch_totals', 'result jsonb', 'AGGREGATE jsonb'),
('taskq_workflow', 'workflow_id bigint', 'jsonb'),
('taskq_step_levels', 'workflow_id bigint', 'TABLE (step text, level int)'),
('taskq_workflow_graph', $$workflow_id bigint, format text DEFAULT 'dot'$$, 'text'),
('taskq_timeline',
 'task_id bigint DEFAULT NULL, workflow_id bigint DEFAULT NULL, correlation_id text DEFAULT NULL',
 'TABLE (at timestamptz, workflow_id bigint, step text, task_id bigint, from_state text, to_state text, reason text, attempt int, token bigint, worker text, role text, message text, actor text)'),
('taskq_update_task',
 'task_id bigint, changes jsonb, version bigint DEFAULT NULL, reason text DEFAULT NULL', 'void'),
('taskq_explain', 'task_id bigint', 'text'),
('taskq_explain_claim',
 'queue text, worker text DEFAULT NULL, tags text[] DEFAULT NULL', 'text'),
('taskq_run_reapers', '', 'TABLE (reaper text, acted bigint)'),
('taskq_schedule',
 $$name text, schedule text, queue text, payload jsonb DEFAULT NULL,
   timezone text DEFAULT 'UTC', overlap text DEFAULT 'allow',
   catch_up text DEFAULT NULL, options jsonb DEFAULT NULL,
   enabled boolean DEFAULT true, reason text DEFAULT NULL$$, 'void'),
('taskq_unschedule', 'name text, reason text DEFAULT NULL', 'boolean'),
('taskq_run_schedule', 'name text, reason text DEFAULT NULL', 'bigint'),
('taskq_preview_schedule',
 $$schedule text, timezone text DEFAULT 'UTC', anchor timestamptz DEFAULT NULL,
   after timestamptz DEFAULT NULL, max_rows int DEFAULT 10$$, 'SETOF timestamptz'),
('taskq_manage_where',
 $$action text, queue text, filter jsonb DEFAULT NULL, reason text DEFAULT NULL,
   dry_run boolean DEFAULT false, batch_size int DEFAULT NULL$$, 'bigint'),
('taskq_pause_operation', 'operation_id bigint', 'boolean'),
('taskq_resume_operation', 'operation_id bigint', 'boolean'),
('taskq_cancel_operation', 'operation_id bigint', 'boolean'),
('taskq_activate', 'reason text DEFAULT NULL', 'void'),
('taskq_health', '', 'TABLE (check_name text, ok boolean, detail text)'),
('taskq_check', '', 'TABLE (problem text, detail text)'),
('taskq_openmetrics', $$format text DEFAULT 'openmetrics'$$, 'text'),
('taskq_lineage', 'task_id bigint',
 'TABLE (task_id bigint, relation text, at timestamptz)'),
-- waiting, by CALL
('taskq_await',
 $$task_id bigint, timeout interval DEFAULT '30 s',
   INOUT state text DEFAULT NULL, INOUT result jsonb DEFAULT NULL,
   INOUT error text DEFAULT NULL$$, 'PROCEDURE'),
('taskq_call',
 'queue text, payload jsonb, timeout interval,
  INOUT task_id bigint DEFAULT NULL, INOUT state text DEFAULT NULL,
  INOUT result jsonb DEFAULT NULL, INOUT error text DEFAULT NULL',
 'PROCEDURE'),
('taskq_await_workflow',
 $$workflow_id bigint, timeout interval DEFAULT '30 s',
   INOUT state text DEFAULT NULL, INOUT result jsonb DEFAULT NULL$$,
 'PROCEDURE'),
-- rights
('taskq_grant', 'queue text, role text, rights text[], reason text DEFAULT NULL', 'void'),
('taskq_revoke', 'queue text, role text, rights text[], reason text DEFAULT NULL', 'void');

-- Rows that functions return, and views.
CREATE TEMP TABLE promised_row (name text PRIMARY KEY, columns text);
INSERT INTO promised_row VALUES
('claimed',
 'task_id bigint, token bigint, queue text, payload jsonb, data bytea,
  attempt int, max_attempts int, priority int, key text, reference text,
  tags text[], headers jsonb, correlation_id text, checkpoint jsonb,
  created_at timestamptz, run_at timestamptz, deadline timestamptz,
  lease_until timestamptz, workflow_id bigint, workflow text, step text,
  handler text, config jsonb, input jsonb, dependency_results jsonb'),
('heartbeat', 'state text, cancel bigint[], drain boolean, next_in interval, incarnation bigint'),
('task_info',
 'task_id bigint, queue text, state text, reason text, message text,
  priority int, attempt int, max_attempts int, token bigint, version bigint,
  key text, reference text, tags text[], payload jsonb, data bytea,
  headers jsonb, correlation_id text, result jsonb, error text, errors jsonb,
  checkpoint jsonb, progress real, worker text, created_at timestamptz,
  run_at timestamptz, deadline timestamptz, claimed_at timestamptz,
  lease_until timestamptz, finished_at timestamptz,
  cancel_requested_at timestamptz, submitted_by text, run_as text,
  descent text, recreated_as bigint, workflow_id bigint, step text'),
('listed_task',
 'task_id bigint, queue text, state text, reason text, message text,
  priority int, attempt int, max_attempts int, token bigint, version bigint,
  key text, reference text, tags text[], payload jsonb, data bytea,
  headers jsonb, correlation_id text, result jsonb, error text, errors jsonb,
  checkpoint jsonb, progress real, worker text, created_at timestamptz,
  run_at timestamptz, deadline timestamptz, claimed_at timestamptz,
  lease_until timestamptz, finished_at timestamptz,
  cancel_requested_at timestamptz, submitted_by text, run_as text,
  descent text, recreated_as bigint, workflow_id bigint, step text,
  resume_after bigint'),
('tasks', 'LIKE taskq.task_info'),
('workers',
 'worker text, state text, queues text[], tags text[], running bigint,
  max_running int, bound boolean, role text, registered_at timestamptz,
  last_seen timestamptz, info jsonb'),
('schedules',
 'name text, schedule text, queue text, timezone text, overlap text,
  catch_up text, enabled boolean, next_run timestamptz, last_run timestamptz,
  last_task_id bigint, misses bigint, owner text, problem text,
  last_workflow_id bigint'),
('operations',
 'operation_id bigint, action text, queue text, filter jsonb, who text,
  actor text, reason text, dry_run boolean, state text, counted bigint,
  done bigint, refused bigint, refused_examples jsonb, examined bigint,
  called timestamptz, started timestamptz, finished timestamptz, error text'),
('documents',
 'namespace text, key text, secondary_key text, doc_id bigint, version bigint,
  content jsonb, worker text, lease_until timestamptz'),
('changes',
 'change_id bigint, at timestamptz, role text, actor text, what text, queue text,
  object text, detail jsonb, reason text'),
('settings', 'name text, value text, unit text, source text, range text'),
('batch_progress',
 'workflow_id bigint, step text, members int, done int, failed int,
  items numeric, rate numeric, eta timestamptz'),
('metrics',
 'name text, queue text, labels jsonb, kind text, value double precision,
  bucket_bounds double precision[], bucket_counts bigint[],
  sum double precision, count bigint, since timestamptz'),
('metric_history',
 'queue text, at timestamptz, submitted bigint, claimed bigint,
  completed bigint, failed bigint, dead bigint, ready bigint, running bigint,
  oldest_ready_age interval, wait_p50 interval, wait_p95 interval,
  run_p50 interval, run_p95 interval');
-- Only the names of these columns are promised.
CREATE TEMP TABLE promised_column (name text, number int, "column" text);
INSERT INTO promised_column
SELECT 'queues', c.number, c.name FROM unnest(ARRAY[
    'queue', 'owner', 'paused', 'pending', 'ready', 'blocked', 'running',
    'suspended', 'done', 'dead', 'counted_at', 'oldest_ready_age',
    'active_workers', 'waiters', 'options', 'rates'])
    WITH ORDINALITY AS c (name, number);

-- Later additions: more of workflows, schedules. None of these names has another meaning before.
CREATE TEMP TABLE later (name text PRIMARY KEY);
INSERT INTO later VALUES
('taskq_resume_workflow'),
('taskq_open_case'), ('taskq_update_case'),
('taskq_close_case'), ('taskq_publish'), ('taskq_subscribe'), ('taskq_events'),
('taskq_ack_events'), ('workflow_performance'),
('dead_letter_case');

-- What exists: functions of the extension, and rows that every role may see.
CREATE TEMP VIEW member AS
SELECT p.oid, p.proname::text AS name, p.prokind,
       p.pronamespace::regnamespace::text AS schema
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
   AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'taskq';
CREATE TEMP VIEW public_row AS
SELECT c.oid, c.relname::text AS name
  FROM pg_class c
 WHERE c.relnamespace = 'taskq'::regnamespace
   AND (c.relkind = 'c' OR has_table_privilege('public', c.oid, 'SELECT'));

-- The promises again, as the catalog writes them: functions, which are never called, and tables in
-- a schema of their own.
CREATE SCHEMA contract;
DO $do$
DECLARE
    item record;
BEGIN
    FOR item IN SELECT * FROM promised LOOP
        IF item.result = 'PROCEDURE' THEN
            EXECUTE format('CREATE PROCEDURE contract.%I(%s) LANGUAGE internal AS ''boolin''',
                item.name, item.arguments);
        ELSE
            EXECUTE format('CREATE FUNCTION contract.%I(%s) %s LANGUAGE internal AS ''boolin''',
                item.name, item.arguments, 'RETURNS ' || replace(item.result, 'AGGREGATE ', ''));
        END IF;
    END LOOP;
    FOR item IN SELECT * FROM promised_row LOOP
        EXECUTE format('CREATE TABLE contract.%I (%s)', item.name, item.columns);
    END LOOP;
END $do$;

-- Functions.
SELECT is_empty($$
    SELECT p.name || ': is not there' FROM promised p
     WHERE NOT EXISTS (SELECT FROM member m WHERE m.name = p.name)$$,
    'every function of the contract exists');
SELECT is_empty($$
    SELECT m.name || ': is not in the contract' FROM member m
     WHERE m.schema <> 'taskq' AND m.name <> 'taskq_version'
       AND NOT EXISTS (SELECT FROM promised p WHERE p.name = m.name)$$,
    'there is no other function, except taskq_version');
SELECT is_empty($$
    SELECT m.name, pg_get_function_arguments(m.oid) AS have,
           pg_get_function_arguments(c.oid) AS promised
      FROM member m JOIN pg_proc c ON c.proname = m.name
       AND c.pronamespace = 'contract'::regnamespace
     WHERE pg_get_function_arguments(m.oid) <> pg_get_function_arguments(c.oid)$$,
    'arguments have the promised names, order, types and defaults');
SELECT is_empty($$
    SELECT m.name, pg_get_function_result(m.oid) AS have,
           pg_get_function_result(c.oid) AS promised
      FROM member m JOIN pg_proc c ON c.proname = m.name
       AND c.pronamespace = 'contract'::regnamespace
     WHERE pg_get_function_result(m.oid) <> pg_get_function_result(c.oid)$$,
    'results have the promised types and columns');
SELECT is_empty($$
    SELECT m.name, m.prokind FROM member m JOIN promised p USING (name)
     WHERE m.schema <> 'taskq'
       AND m.prokind <> CASE WHEN p.result = 'PROCEDURE' THEN 'p' WHEN p.result LIKE 'AGGREGATE %' THEN 'a' ELSE 'f' END$$,
    'all are functions, or procedures where it is CALL, or aggregates');

-- Rows.
CREATE TEMP VIEW row_column AS
SELECT c.relnamespace::regnamespace::text AS schema, c.relname::text AS name,
       a.attnum, a.attname::text COLLATE "default" AS "column",
       format_type(a.atttypid, a.atttypmod) AS type
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace IN ('taskq'::regnamespace, 'contract'::regnamespace);
SELECT is_empty($$
    SELECT p.name, p.attnum, p.column, p.type, h.column AS have, h.type AS have_type
      FROM row_column p
      LEFT JOIN row_column h ON h.schema = 'taskq' AND h.name = p.name
       AND h.attnum = p.attnum
     WHERE p.schema = 'contract'
       AND (h.column, h.type) IS DISTINCT FROM (p.column, p.type)$$,
    'types and views have the promised columns, in their positions');
SELECT is_empty($$
    SELECT h.name, h.column FROM row_column h
     WHERE h.schema = 'taskq' AND h.name IN ('claimed', 'heartbeat', 'task_info', 'listed_task', 'tasks')
       AND h.attnum > (SELECT max(p.attnum) FROM row_column p
                        WHERE p.schema = 'contract' AND p.name = h.name)$$,
    'what functions return has no other columns');
SELECT is_empty($$
    SELECT p.name, p.column FROM promised_column p
     WHERE NOT EXISTS (SELECT FROM row_column h WHERE h.schema = 'taskq'
                          AND h.name = p.name AND h.column = p.column)$$,
    'taskq.queues has the promised columns');
SELECT is_empty($$
    SELECT h.name, h.column
      FROM row_column h
      JOIN promised_column p ON p.name = h.name AND p.column = h.column
     WHERE h.schema = 'taskq'
       AND p.number <> h.attnum
           + (SELECT count(*) FROM promised_column b
               WHERE b.name = p.name AND b.number < p.number
                 AND NOT EXISTS (SELECT FROM row_column x WHERE x.schema = 'taskq'
                                    AND x.name = b.name AND x.column = b.column))$$,
    'the promised columns come in their order, and others after them');
SELECT is_empty($$
    SELECT n.name || ': is not there'
      FROM unnest(ARRAY['tasks', 'queues', 'workers', 'running', 'dead', 'settings', 'metrics', 'metric_history']) n (name)
     WHERE NOT EXISTS (SELECT FROM public_row r WHERE r.name = n.name)$$,
    'the promised views exist, and every role may read them');

-- Later additions.
SELECT is_empty($$
    SELECT l.name FROM later l
     WHERE EXISTS (SELECT FROM member m WHERE m.name = l.name)
        OR EXISTS (SELECT FROM public_row r WHERE r.name = l.name)$$,
    'no name of a later addition is used');
SELECT is_empty($$SELECT name FROM promised JOIN later USING (name)$$,
    'no name of a later addition is promised now');
SELECT throws_ok($$SELECT taskq_claim('q', wait => '1 s')$$, '25001');
SELECT is(taskq_register('w', bound => true), 0::bigint, 'a worker can be bound');

-- Errors: what raises each, and which members DETAIL has at least.
CREATE FUNCTION pg_temp.error_of(statement text, OUT code text, OUT detail text)
    LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL;
END $$;

SELECT is_empty($$
    SELECT o.option, e.code
      FROM unnest(ARRAY['{"executor": {"workers": 1, "database": "other"}}', '{"executor": true}']) o (option),
           pg_temp.error_of(format('SELECT taskq_create_queue(''later'', %L)', o.option)) e
     WHERE e.code IS DISTINCT FROM 'TQ004'$$,
    'an executor has workers, and no other database');

SELECT taskq_create_queue('held');
SELECT taskq_create_queue('full', '{"max_depth": 1}');
SELECT taskq_submit('full') > 0;
SELECT taskq_submit('held', reference => 'order 17') AS task_id \gset
SELECT taskq_submit('held') AS gone \gset
SELECT taskq_cancel(:gone);
CREATE TEMP TABLE promised_error (code text, statement text, members text[]);
INSERT INTO promised_error VALUES
('TQ001', 'SELECT taskq_complete(' || :task_id || ', 1)', '{task_id}'),
('TQ001', 'SELECT taskq_fail(9000000, 1, ''x'')', '{task_id}'),
('TQ001', 'SELECT taskq_complete_and_claim(''{9000000}'', ''{1}'')', '{task_ids}'),
('TQ002', 'SELECT taskq_get(9000000)', '{task_id}'),
('TQ003', 'SELECT taskq_alter_queue(''nowhere'', ''{}'')', '{queue}'),
('TQ004', 'SELECT taskq_alter_queue(''held'', ''{"bogus": 1}'')', '{option}'),
('TQ004', 'SELECT taskq_alter_queue(''held'', ''{"lease": 5}'')', '{option}'),
('TQ005', 'SELECT taskq_cancel(' || :gone || ')', '{task_id,state}'),
('TQ006', 'SELECT taskq_create_queue(''held'')', '{queue}'),
('TQ006', 'SELECT taskq_submit(''held'', reference => ''order 17'')', '{task_id,state}'),
('TQ007', 'SELECT taskq_heartbeat(''absent'')', '{worker}'),
('TQ007', 'SELECT taskq_claim(NULL, ''absent'')', '{worker}'),
('TQ008', 'SELECT taskq_submit(''full'')', '{retry_after_ms}'),
('TQ009', 'SELECT taskq_submit(repeat(''q'', 201))', '{limit}'),
('TQ010', 'SELECT taskq_complete_many(''{9000000}'', ''{1}'', strict => true)', '{problems}'),
('TQ011', 'SELECT taskq_start_workflow(''absent'')', '{namespace,name}'),
('TQ011', 'SELECT taskq_define_workflow(''{}'')', '{problems}'),
('22004', 'SELECT taskq_drop_queue(NULL)', NULL),
('22004', 'SELECT taskq_submit(tags => ''{NULL}'')', NULL),
('22004', 'SELECT taskq_claim(NULL)', NULL),
('22023', 'SELECT taskq_submit(on_conflict => ''bogus'')', NULL),
('22023', 'SELECT taskq_submit('''')', NULL),
('22023', 'SELECT taskq_submit(delay => ''1 s'', run_at => now())', NULL),
('22023', 'SELECT taskq_purge(''held'', ''{running}'')', NULL),
('2202E', 'SELECT taskq_submit(tags => ''{{a},{b}}'')', NULL),
('55006', 'SELECT taskq_drop_queue(''held'')', NULL);
SELECT is_empty($$
    SELECT p.statement, p.code AS promised, e.code, e.detail
      FROM promised_error p, pg_temp.error_of(p.statement) e
     WHERE e.code IS DISTINCT FROM p.code$$,
    'each of these raises the promised SQLSTATE');
SELECT is_empty($$
    SELECT p.statement, e.detail
      FROM promised_error p, pg_temp.error_of(p.statement) e
     WHERE p.members IS NOT NULL
       AND NOT coalesce(jsonb_typeof(e.detail::jsonb) = 'object'
                        AND e.detail::jsonb ?& p.members, false)$$,
    'DETAIL of class TQ is one JSON object with the promised members');
SELECT results_eq($$
    SELECT DISTINCT code COLLATE "C" FROM promised_error WHERE code LIKE 'TQ%' ORDER BY 1$$, $$
    SELECT 'TQ' || lpad(n::text, 3, '0') COLLATE "C" FROM generate_series(1, 11) n$$,
    'TQ001 to TQ011 have all been raised');
CREATE ROLE contract_member;
GRANT EXECUTE ON FUNCTION taskq_submit, taskq_get, taskq_complete TO contract_member;
SET LOCAL ROLE contract_member;
SELECT throws_ok('SELECT taskq_submit(''held'')', '42501');
SELECT throws_ok('SELECT taskq_cancel(1)', '42501');
SELECT throws_ok('SELECT taskq_get(' || :task_id || ')', 'TQ002');
SELECT throws_ok('SELECT taskq_complete(' || :task_id || ', 1)', 'TQ001');
RESET ROLE;

-- Words.
SELECT set_eq($$
    SELECT taskq.state_name(n::smallint) FROM generate_series(0, 100) n
     WHERE taskq.state_name(n::smallint) IS NOT NULL$$, ARRAY[
    'pending', 'blocked', 'running', 'suspended', 'done', 'dead', 'cancelled',
    'filtered', 'redundant', 'recreated'],
    'the states are as promised');
SELECT set_has($$
    SELECT taskq.reason_name(n::smallint) FROM generate_series(0, 100) n$$, $$
    SELECT unnest(ARRAY['exhausted', 'rejected', 'deadline', 'worker_dead',
        'lease_expired', 'timeout', 'poison', 'stale', 'dependency_failed',
        'deleted', 'manual', 'held'])$$,
    'the reasons are as promised');
SELECT lives_ok($$SELECT taskq_grant('held', 'contract_member', ARRAY[r])
    FROM unnest(ARRAY['submit', 'work', 'observe', 'read', 'manage']) r$$, 'the rights are as promised');
SELECT throws_ok($$SELECT taskq_grant('held', 'contract_member', '{own}')$$, '22023');
SELECT lives_ok($$SELECT taskq_submit('held', reference => 'order 17', on_conflict => w)
    FROM unnest(ARRAY['return', 'skip', 'update', 'merge']) w$$,
    'the words of on_conflict are as promised');
SELECT lives_ok($$SELECT taskq_claim('nothing', claim_order => w)
    FROM unnest(ARRAY['fifo', 'lifo', 'random']) w$$, 'the claim orders are as promised');

-- Options, with the defaults that can be written down.
SELECT lives_ok($$SELECT taskq_create_queue('defaults', '{
    "priority": 0, "max_attempts": 3, "retry": "exponential",
    "retry_base": "1 s", "retry_cap": "5 min", "retry_jitter": 0,
    "lease": "5 min", "order": "fifo", "key_policy": "none",
    "max_payload": 1048576, "on_worker_death": "requeue", "notify": false,
    "history": "none", "expect_workers": true, "claim_durability": "deferred"}')$$, 'options have the promised defaults');
SELECT lives_ok($$SELECT taskq_create_queue('others', '{
    "priority": -32768, "max_attempts": -1, "retry": "list",
    "retry_list": ["1 s", "1 min"], "retry_jitter": 1, "time_limit": "1 h",
    "order": "random", "max_running": 7,
    "rate_limit": {"count": 10, "per": "1 s"}, "max_depth": 1000,
    "retention": "none", "retention_dead": "forever",
    "reference_window": "1 day", "on_worker_death": "hold",
    "dead_letter_queue": "lost", "history": "transitions",
    "notify": true, "expect_workers": false, "claim_durability": "flushed"}')$$,
    'options accept other values');
SELECT lives_ok($$SELECT taskq_submit('held', options => '{
    "retry": "fixed", "retry_base": "2 s", "retry_cap": "1 h",
    "retry_jitter": 0.5, "lease": "1 min", "time_limit": "1 h",
    "retention": "1 day", "reference_window": "1 h",
    "on_worker_death": "kill", "deadline_in": "1 day"}')$$,
    'options of a task are accepted');
-- The effect of the defaults: two queues, one with the defaults written out.
SELECT taskq_create_queue('silent');
SELECT count(*) FROM (SELECT taskq_submit(q) FROM unnest(ARRAY['silent', 'defaults']) q) s;
SELECT results_eq($$
    SELECT c.priority, c.max_attempts, c.attempt,
           c.lease_until > clock_timestamp() + interval '4.9 min'
           AND c.lease_until < clock_timestamp() + interval '5.1 min'
      FROM unnest(ARRAY['silent', 'defaults']) q, taskq_claim(q) c$$,
    $$VALUES (0, 3, 1, true), (0, 3, 1, true)$$,
    'the defaults are priority 0, three attempts, five minutes');
SELECT is_empty($$
    SELECT attempt FROM generate_series(1, 12) attempt
     WHERE taskq.debug_backoff('{}', attempt, 1)
           IS DISTINCT FROM least(interval '1 s' * 2 ^ attempt, interval '5 min')$$,
    'the default backoff is exponential from 1 s to 5 min, without jitter');

-- Settings.
SELECT is_empty($$
    SELECT p.*, s.setting, s.unit, s.context
      FROM (VALUES ('auto_create_queues', 'on', NULL, 'superuser'),
                   ('node_id', '0', NULL, 'sighup'),
                   ('stale_threshold', '30', 's', 'sighup'),
                   ('dead_threshold', '120', 's', 'sighup'),
                   ('reaper_interval', '15', 's', 'sighup'),
                   ('deadline_interval', '30', 's', 'sighup'),
                   ('retention_interval', '600', 's', 'sighup'),
                   ('retention', '604800', 's', 'sighup'),
                   ('retention_batch', '500', NULL, 'sighup'),
                   ('max_decision_steps', '100', NULL, 'superuser'),
                   ('warn_decision_steps', '50', NULL, 'superuser'),
                   ('max_decision_nesting', '20', NULL, 'superuser'),
                   ('warn_decision_nesting', '10', NULL, 'superuser')) p (name, value, unit, context)
      LEFT JOIN pg_settings s ON s.name = 'taskq.' || p.name
     WHERE (s.boot_val, s.unit, s.context) IS DISTINCT FROM (p.value, p.unit, p.context)$$,
    'settings have the promised defaults');
SELECT * FROM finish();
ROLLBACK;

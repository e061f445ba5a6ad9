-- Tables, columns and indexes: what a claim needs, and what every object has.
BEGIN;
SELECT plan(31);

-- Tables.
SELECT tables_are('taskq', ARRAY[
    'instance', 'role', 'queue_change', 'queue', 'lane', 'queue_grant',
    'worker_change', 'worker', 'worker_sign', 'task_sign', 'task', 'key', 'doc', 'large', 'archive',
    'archive_00', 'archive_01', 'archive_02', 'archive_03', 'archive_04',
    'archive_05', 'archive_06', 'archive_07', 'archive_08', 'archive_09',
    'archive_10', 'archive_11', 'archive_12', 'archive_13', 'archive_14',
    'archive_15', 'archive_keep', 'archive_rotation', 'finished_count',
    'finished_leaf', 'metric_minute', 'function_right',
    'template', 'workflow', 'edge', 'signal', 'timer', 'schedule', 'change_log', 'operation',
    'transition', 'transition_00', 'transition_01', 'transition_02',
    'transition_03', 'transition_04', 'transition_05', 'transition_06',
    'transition_07', 'transition_08', 'transition_09', 'transition_10',
    'transition_11', 'transition_12', 'transition_13', 'transition_14',
    'transition_15']);
SELECT views_are('taskq', ARRAY[
    'tasks', 'running', 'dead', 'queues', 'workers', 'settings', 'history',
    'metrics', 'metric_history', 'documents', 'workflows', 'workflow_steps', 'batch_progress', 'schedules', 'changes', 'operations', 'table_problem', 'line_problem', 'flow_problem', 'known_role']);

SELECT columns_are('taskq', 'task', ARRAY[
    'task_id', 'lane_id', 'available_at', 'run_at', 'created_at', 'token',
    'version', 'claimed_at', 'lease_until', 'worker_id', 'claimed_by', 'attempt', 'state',
    'priority', 'queue_id', 'max_attempts', 'submitted_by', 'run_as',
    'reason', 'descent', 'flags', 'large', 'deadline', 'wake_at',
    'cancel_requested_at', 'suspended_at', 'workflow_id', 'step_id', 'reference', 'key',
    'correlation_id', 'tags', 'options', 'payload', 'data', 'headers',
    'result', 'checkpoint', 'errors', 'message']);

-- The order matters: C code reads the fixed part as one struct.
PREPARE task_columns AS
SELECT a.attnum::int, a.attname::text COLLATE "default",
       format_type(a.atttypid, NULL), a.attnotnull
  FROM pg_attribute a
 WHERE a.attrelid = 'taskq.task'::regclass AND a.attnum > 0
 ORDER BY a.attnum;
SELECT results_eq('task_columns', $$VALUES
    (1, 'task_id', 'bigint', true),
    (2, 'lane_id', 'bigint', true),
    (3, 'available_at', 'timestamp with time zone', true),
    (4, 'token', 'bigint', true),
    (5, 'version', 'bigint', true),
    (6, 'claimed_at', 'timestamp with time zone', true),
    (7, 'lease_until', 'timestamp with time zone', true),
    (8, 'worker_id', 'integer', true),
    (9, 'claimed_by', 'integer', true),
    (10, 'attempt', 'integer', true),
    (11, 'state', 'smallint', true),
    (12, 'priority', 'smallint', true),
    (13, 'queue_id', 'integer', true),
    (14, 'max_attempts', 'integer', true),
    (15, 'submitted_by', 'integer', true),
    (16, 'reason', 'smallint', true),
    (17, 'flags', 'smallint', true),
    (18, 'payload', 'jsonb', false),
    (19, 'data', 'bytea', false),
    (20, 'headers', 'jsonb', false),
    (21, 'result', 'jsonb', false),
    (22, 'checkpoint', 'jsonb', false),
    (23, 'errors', 'jsonb', false),
    (24, 'message', 'text', false),
    (25, 'run_at', 'timestamp with time zone', false),
    (26, 'created_at', 'timestamp with time zone', false),
    (27, 'run_as', 'integer', false),
    (28, 'descent', 'smallint', false),
    (29, 'large', 'smallint', false),
    (30, 'deadline', 'timestamp with time zone', false),
    (31, 'wake_at', 'timestamp with time zone', false),
    (32, 'cancel_requested_at', 'timestamp with time zone', false),
    (33, 'suspended_at', 'timestamp with time zone', false),
    (34, 'workflow_id', 'bigint', false),
    (35, 'step_id', 'integer', false),
    (36, 'reference', 'text', false),
    (37, 'key', 'text', false),
    (38, 'correlation_id', 'text', false),
    (39, 'tags', 'text[]', false),
    (40, 'options', 'jsonb', false)$$,
    'columns of taskq.task stand in their order, with their types');

-- What a claim changes: adjacent, of fixed width, not null.
CREATE TEMP TABLE claimed_column (name) AS
SELECT unnest(ARRAY['state', 'attempt', 'token', 'version', 'worker_id',
                    'claimed_by', 'claimed_at', 'lease_until']);
SELECT is((SELECT count(*) FROM pg_attribute a
             JOIN claimed_column c ON a.attname = c.name
            WHERE a.attrelid = 'taskq.task'::regclass
              AND a.attlen > 0 AND a.attnotnull), 8::bigint,
    'the eight columns that a claim changes are fixed in width and not null');
SELECT is((SELECT (max(a.attnum) - min(a.attnum))::int FROM pg_attribute a
             JOIN claimed_column c ON a.attname = c.name
            WHERE a.attrelid = 'taskq.task'::regclass), 7,
    'the columns that a claim changes are adjacent');
SELECT is_empty($$
    SELECT a.attname FROM pg_attribute a
     WHERE a.attrelid = 'taskq.task'::regclass AND a.attnum > 0
       AND NOT (a.attlen > 0 AND a.attnotnull)
       AND a.attnum <= (SELECT max(b.attnum) FROM pg_attribute b
                          JOIN claimed_column c ON b.attname = c.name
                         WHERE b.attrelid = a.attrelid)$$,
    'no column before them can be null or varies in width');

-- Only views depend on a column that a claim changes: no index key, no included column, no
-- expression or predicate, no constraint, no trigger.
CREATE TEMP VIEW use_of_claimed_column AS
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) COLLATE "default" AS used_by,
       a.attname
  FROM pg_depend d
  JOIN pg_attribute a
    ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
  JOIN claimed_column c ON c.name = a.attname
 WHERE d.refclassid = 'pg_class'::regclass
   AND d.refobjid = 'taskq.task'::regclass
   AND d.classid <> 'pg_rewrite'::regclass
UNION
SELECT pg_describe_object('pg_class'::regclass, i.indexrelid, 0), 'whole row'
  FROM pg_index i
 WHERE i.indrelid = 'taskq.task'::regclass
   AND pg_get_indexdef(i.indexrelid) LIKE '%task.*%';
SELECT is_empty('TABLE use_of_claimed_column',
    'no index or predicate uses a column that a claim changes');

-- The test above can fail.
SAVEPOINT s;
CREATE INDEX planted ON taskq.task (lease_until);
SELECT results_eq('TABLE use_of_claimed_column',
    $$VALUES ('index taskq.planted', 'lease_until'::name)$$,
    'a key column would be noticed');
ROLLBACK TO s;
CREATE INDEX planted ON taskq.task (lane_id) INCLUDE (attempt);
SELECT results_eq('TABLE use_of_claimed_column',
    $$VALUES ('index taskq.planted', 'attempt'::name)$$,
    'an included column would be noticed');
ROLLBACK TO s;
CREATE INDEX planted ON taskq.task (lane_id) WHERE state = 1;
SELECT results_eq('TABLE use_of_claimed_column',
    $$VALUES ('index taskq.planted', 'state'::name)$$,
    'a predicate would be noticed');
ROLLBACK TO s;
CREATE INDEX planted ON taskq.task ((token + worker_id));
SELECT set_eq('TABLE use_of_claimed_column',
    $$VALUES ('index taskq.planted', 'token'::name),
             ('index taskq.planted', 'worker_id')$$,
    'an expression would be noticed');
ROLLBACK TO s;
ALTER TABLE taskq.task ADD CONSTRAINT planted CHECK (version > 0);
SELECT results_eq('TABLE use_of_claimed_column',
    $$VALUES ('constraint planted on table taskq.task', 'version'::name)$$,
    'a constraint would be noticed');
ROLLBACK TO s;

SELECT set_eq($$
    SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i
     WHERE i.indrelid = 'taskq.task'::regclass$$, ARRAY[
    'CREATE UNIQUE INDEX task_pkey ON taskq.task USING btree (task_id)',
    'CREATE INDEX task_dispatch_idx ON taskq.task USING btree (lane_id, priority DESC, available_at, task_id) WITH (deduplicate_items=off)',
    'CREATE UNIQUE INDEX task_reference_idx ON taskq.task USING btree (queue_id, reference) WHERE (reference IS NOT NULL)',
    'CREATE INDEX task_key_idx ON taskq.task USING btree (queue_id, key, task_id) WHERE (key IS NOT NULL)',
    'CREATE INDEX task_deadline_idx ON taskq.task USING btree (deadline) WHERE (deadline IS NOT NULL)',
    'CREATE INDEX task_workflow_idx ON taskq.task USING btree (workflow_id, step_id) WHERE (workflow_id IS NOT NULL)',
    'CREATE INDEX task_correlation_idx ON taskq.task USING btree (correlation_id) WHERE (correlation_id IS NOT NULL)',
    'CREATE INDEX task_wake_idx ON taskq.task USING btree (wake_at) INCLUDE (queue_id) WHERE (wake_at IS NOT NULL)',
    'CREATE INDEX task_suspended_idx ON taskq.task USING btree (queue_id, key, task_id) WHERE (suspended_at IS NOT NULL)'],
    'taskq.task has exactly these indexes');
SELECT set_eq($$
    SELECT unnest(reloptions) FROM pg_class
     WHERE oid = 'taskq.task'::regclass$$, ARRAY[
    'fillfactor=50', 'vacuum_truncate=off',
    'autovacuum_vacuum_scale_factor=0.01',
    'autovacuum_vacuum_threshold=5000'],
    'half of each page is free, and the other storage settings are right');

-- A claim is really a heap-only update.
SELECT lives_ok($$SELECT count(*) FROM taskq_submit_many('hot',
    array_fill('1'::jsonb, ARRAY[20]))$$, 'twenty tasks are submitted');
SELECT is((SELECT count(*) FROM taskq_claim('hot', max_tasks => 20)), 20::bigint,
    'all twenty are claimed');
SELECT is(pg_stat_get_xact_tuples_updated('taskq.task'::regclass), 20::bigint,
    'there were twenty updates');
SELECT is(pg_stat_get_xact_tuples_hot_updated('taskq.task'::regclass),
    20::bigint, 'all twenty updates were heap-only');

-- The archive: the columns of tasks, then its own; 17 leaves.
SELECT results_eq($$
    SELECT a.attname, a.atttypid, a.attnotnull, a.attcollation
      FROM pg_attribute a
     WHERE a.attrelid = 'taskq.archive'::regclass AND a.attnum BETWEEN 1 AND 40
     ORDER BY a.attnum$$, $$
    SELECT a.attname, a.atttypid, a.attnotnull, a.attcollation
      FROM pg_attribute a
     WHERE a.attrelid = 'taskq.task'::regclass AND a.attnum > 0
     ORDER BY a.attnum$$,
    'the archive begins with the columns of taskq.task');
SELECT results_eq($$
    SELECT a.attname::text COLLATE "default",
           format_type(a.atttypid, NULL), a.attnotnull
      FROM pg_attribute a
     WHERE a.attrelid = 'taskq.archive'::regclass AND a.attnum > 40
     ORDER BY a.attnum$$, $$VALUES
    ('bucket', 'smallint', true),
    ('finished_at', 'timestamp with time zone', true),
    ('expires_at', 'timestamp with time zone', false),
    ('recreated_as', 'bigint', false)$$,
    'four columns of its own follow');
SELECT set_eq($$
    SELECT c.relname::text || ' ' || pg_get_expr(c.relpartbound, c.oid)
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'taskq.archive'::regclass$$, $$
    SELECT 'archive_' || lpad(n::text, 2, '0')
           || ' FOR VALUES IN (''' || n || ''')'
      FROM generate_series(0, 15) n
     UNION ALL SELECT 'archive_keep FOR VALUES IN (''16'')'$$,
    'one leaf for each bucket from 0 to 16');
SELECT is_empty($$
    SELECT c.relname, a.attname
      FROM pg_inherits i
      JOIN pg_class c ON c.oid = i.inhrelid
      JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attnum > 0
      LEFT JOIN pg_attribute a
        ON a.attrelid = c.oid AND a.attnum = p.attnum
       AND a.attname = p.attname AND a.atttypid = p.atttypid
     WHERE i.inhparent = 'taskq.archive'::regclass AND a.attname IS NULL$$,
    'each leaf has the columns in the same order');
SELECT is_empty($$
    SELECT conname FROM pg_constraint c
     WHERE c.contype = 'f' AND c.connamespace = 'taskq'::regnamespace$$,
    'there are no foreign keys');
SELECT is_empty($$
    SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relnamespace = 'taskq'::regnamespace$$,
    'there are no triggers');

-- A primary key is a replica identity; two tables are empty by design.
SELECT set_eq($$
    SELECT c.relname FROM pg_class c
     WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'r'
       AND NOT EXISTS (SELECT FROM pg_index i
                        WHERE i.indrelid = c.oid AND i.indisprimary)$$,
    ARRAY['queue_change', 'worker_change']::name[],
    'every table has a primary key, except those that are always empty');
SELECT is_empty($$
    SELECT 1 FROM taskq.queue_change UNION ALL
    SELECT 1 FROM taskq.worker_change$$, 'the tables without a primary key are empty');
SELECT is((SELECT sum(c.relnatts) FROM pg_class c
            WHERE c.oid IN ('taskq.queue_change'::regclass,
                            'taskq.worker_change'::regclass)), 0::bigint,
    'the tables without a primary key have no columns');

-- Every object of the extension has a comment, in whatever catalog it is: objects of the extension
-- and what belongs to its tables.
CREATE TEMP VIEW uncommented AS
WITH member AS (
    SELECT d.classid, d.objid
      FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
     WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
       AND e.extname = 'taskq'
), relation AS (
    SELECT c.oid, c.relkind FROM pg_class c JOIN member m ON m.objid = c.oid
     WHERE m.classid = 'pg_class'::regclass
), object AS (
    /* types of rows and arrays have no comments of their own */
    SELECT m.classid, m.objid, 0 AS sub FROM member m
     WHERE NOT EXISTS (SELECT FROM pg_type t
                        WHERE m.classid = 'pg_type'::regclass
                          AND t.oid = m.objid
                          AND (t.typrelid IN (SELECT r.oid FROM relation r
                                               WHERE r.relkind <> 'c')
                               OR t.typelem <> 0))
    UNION ALL
    SELECT 'pg_class'::regclass, a.attrelid, a.attnum
      FROM pg_attribute a JOIN relation r ON r.oid = a.attrelid
     WHERE r.relkind = 'p' AND a.attnum > 0
        OR r.relkind = 'r' AND a.attnum > 0 AND a.attislocal
    UNION ALL
    /* the index of a constraint has its comment at the constraint; those of
     * leaves are made after their parent's */
    SELECT 'pg_class'::regclass, i.indexrelid, 0
      FROM pg_index i JOIN relation r ON r.oid = i.indrelid
     WHERE NOT EXISTS (SELECT FROM pg_constraint k
                        WHERE k.conindid = i.indexrelid)
       AND NOT EXISTS (SELECT FROM pg_inherits h
                        WHERE h.inhrelid = i.indexrelid)
    UNION ALL
    SELECT 'pg_constraint'::regclass, k.oid, 0
      FROM pg_constraint k JOIN relation r ON r.oid = k.conrelid
)
SELECT pg_describe_object(o.classid, o.objid, o.sub) AS object
  FROM object o
 WHERE NOT EXISTS (SELECT FROM pg_description d
                    WHERE d.objoid = o.objid AND d.classoid = o.classid
                      AND d.objsubid = o.sub AND btrim(d.description) <> '')
   AND NOT EXISTS (SELECT FROM pg_type t
                    WHERE o.classid = 'pg_class'::regclass
                      AND t.typrelid = o.objid
                      AND obj_description(t.oid, 'pg_type') <> '');
SELECT is_empty('TABLE uncommented', 'every object has a comment');
SAVEPOINT c;
COMMENT ON COLUMN taskq.task.token IS NULL;
COMMENT ON INDEX taskq.task_wake_idx IS NULL;
COMMENT ON CONSTRAINT task_pkey ON taskq.task IS NULL;
COMMENT ON TYPE taskq.claimed IS NULL;
COMMENT ON FUNCTION taskq_get(bigint) IS NULL;
COMMENT ON VIEW taskq.queues IS NULL;
SELECT set_eq('TABLE uncommented', ARRAY[
    'column token of table taskq.task', 'index taskq.task_wake_idx',
    'constraint task_pkey on table taskq.task', 'type taskq.claimed',
    'function taskq_get(bigint)', 'view taskq.queues'],
    'missing comments would be noticed');
ROLLBACK TO c;

SELECT is_empty($$
    SELECT a.attname || ' of ' || a.attrelid::regclass
      FROM pg_attribute a
      JOIN pg_class c ON c.oid = a.attrelid
      JOIN pg_get_keywords() k ON k.word = a.attname AND k.catcode IN ('R', 'T')
     WHERE c.relnamespace = 'taskq'::regnamespace AND a.attnum > 0$$,
    'no column is a reserved word');

SELECT * FROM finish();
ROLLBACK;

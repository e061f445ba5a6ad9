/*
 * 20_archive: finished tasks.
 *
 * Sixteen leaves rotate.  They contain rows whose retention is the setting
 * taskq.retention; finishing a task adds its row to the current leaf, and the
 * retention duty truncates whole leaves.  archive_keep contains all rows with
 * another retention (expires_at), which are deleted in batches.  No leaf is
 * created or dropped at run time.  The columns are those of taskq.task, in the
 * same order, and four more.
 */
CREATE TABLE taskq.archive (
    task_id bigint NOT NULL,
    lane_id bigint NOT NULL,
    available_at timestamp with time zone NOT NULL,
    run_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    token bigint NOT NULL,
    version bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    worker_id integer NOT NULL,
    claimed_by integer NOT NULL,
    attempt integer NOT NULL,
    state smallint NOT NULL,
    priority smallint NOT NULL,
    queue_id integer NOT NULL,
    max_attempts integer NOT NULL,
    submitted_by integer NOT NULL,
    run_as integer NOT NULL,
    reason smallint NOT NULL,
    descent smallint NOT NULL,
    flags smallint NOT NULL,
    large smallint NOT NULL,
    deadline timestamp with time zone,
    wake_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    suspended_at timestamp with time zone,
    workflow_id bigint,
    step_id integer,
    reference pg_catalog.text COLLATE "C",
    key pg_catalog.text COLLATE "C",
    correlation_id pg_catalog.text COLLATE "C",
    tags pg_catalog.text[],
    options jsonb,
    payload jsonb,
    data bytea,
    headers jsonb,
    result jsonb,
    checkpoint jsonb,
    errors jsonb,
    message pg_catalog.text,
    bucket smallint NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    recreated_as bigint
) PARTITION BY LIST (bucket);
COMMENT ON TABLE taskq.archive IS 'Finished tasks';
COMMENT ON COLUMN taskq.archive.task_id IS 'Number of the task';
COMMENT ON COLUMN taskq.archive.lane_id IS 'Queue and set of tags';
COMMENT ON COLUMN taskq.archive.available_at IS 'Time that gives its position among the tasks of its lane and priority; infinity while blocked or suspended';
COMMENT ON COLUMN taskq.archive.run_at IS 'When it became or becomes due';
COMMENT ON COLUMN taskq.archive.created_at IS 'When it was submitted';
COMMENT ON COLUMN taskq.archive.token IS 'Fencing token of the newest claim; 0 before the first';
COMMENT ON COLUMN taskq.archive.version IS 'Version of the row; every change raises it';
COMMENT ON COLUMN taskq.archive.claimed_at IS 'When it was claimed; -infinity if it is not claimed';
COMMENT ON COLUMN taskq.archive.lease_until IS 'End of the claim; infinity if only its worker could end it';
COMMENT ON COLUMN taskq.archive.worker_id IS 'Worker that claimed it; 0 if there is no worker';
COMMENT ON COLUMN taskq.archive.claimed_by IS 'Role that claimed the step; 0 if it is not claimed, or the task is not a step';
COMMENT ON COLUMN taskq.archive.attempt IS 'Number of attempts that have begun';
COMMENT ON COLUMN taskq.archive.state IS '1 pending, 2 blocked, 3 running, 4 suspended, 5 done, 6 dead, 7 cancelled, 8 filtered, 9 redundant, 10 recreated';
COMMENT ON COLUMN taskq.archive.priority IS 'Priority; tasks with a higher number are claimed first';
COMMENT ON COLUMN taskq.archive.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.archive.max_attempts IS 'Number of attempts that are allowed; -1 means any number';
COMMENT ON COLUMN taskq.archive.submitted_by IS 'Role that submitted it';
COMMENT ON COLUMN taskq.archive.run_as IS 'Role that last determined what the task runs';
COMMENT ON COLUMN taskq.archive.reason IS 'Code of the reason of its state; 0 if it has no reason';
COMMENT ON COLUMN taskq.archive.descent IS 'Worst of the states dead, suspended, filtered and done from which it was moved; 0 if it was not moved from any of them';
COMMENT ON COLUMN taskq.archive.flags IS 'Sum of 1: a worker died while it held the task; 2: it is a dead letter; 4: it was submitted suspended; 8: it is blocked by other tasks of its key; for a step also 16: its payload is the input of the workflow; 32: it runs regardless of its condition; 64: its payload was changed by hand; 128: it has waited for something other than a worker; 4096 and 8192: number of crashes of SQL tasks in succession; 16384: SQL that an executor may run';
COMMENT ON COLUMN taskq.archive.large IS 'Bits of the columns whose values are in taskq.large';
COMMENT ON COLUMN taskq.archive.deadline IS 'Deadline: a task that still waits at this time becomes dead';
COMMENT ON COLUMN taskq.archive.wake_at IS 'Due time for which the timer must be set; null if there is no such time';
COMMENT ON COLUMN taskq.archive.cancel_requested_at IS 'When a running task was asked to stop';
COMMENT ON COLUMN taskq.archive.suspended_at IS 'When it was suspended';
COMMENT ON COLUMN taskq.archive.workflow_id IS 'Workflow instance of the step';
COMMENT ON COLUMN taskq.archive.step_id IS 'Number of the step within the instance';
COMMENT ON COLUMN taskq.archive.reference IS 'Reference; unique among the live tasks of the queue';
COMMENT ON COLUMN taskq.archive.key IS 'Key: what the task is about, such as a customer';
COMMENT ON COLUMN taskq.archive.correlation_id IS 'Correlation id; all tasks that the task creates inherit it';
COMMENT ON COLUMN taskq.archive.tags IS 'Capabilities that a worker must have, sorted';
COMMENT ON COLUMN taskq.archive.options IS 'Options of the task';
COMMENT ON COLUMN taskq.archive.payload IS 'Work to be done';
COMMENT ON COLUMN taskq.archive.data IS 'Opaque bytes in addition to the payload';
COMMENT ON COLUMN taskq.archive.headers IS 'Metadata of the payload';
COMMENT ON COLUMN taskq.archive.result IS 'Result of the work';
COMMENT ON COLUMN taskq.archive.checkpoint IS 'State from which the next attempt continues';
COMMENT ON COLUMN taskq.archive.errors IS 'Errors of the last ten attempts';
COMMENT ON COLUMN taskq.archive.message IS 'Message of the last change of its state';
COMMENT ON COLUMN taskq.archive.bucket IS 'Number of the leaf: 0 to 15 rotate, 16 is archive_keep';
COMMENT ON COLUMN taskq.archive.finished_at IS 'When it finished';
COMMENT ON COLUMN taskq.archive.expires_at IS 'When it may be removed; null in rotating leaves, infinity if it is kept for ever';
COMMENT ON COLUMN taskq.archive.recreated_as IS 'The new task that taskq_recreate() made from it';

CREATE TABLE taskq.archive_00 PARTITION OF taskq.archive
    (CONSTRAINT archive_00_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (0);
COMMENT ON TABLE taskq.archive_00 IS 'Finished tasks, leaf 0 of 16 that rotate';
COMMENT ON CONSTRAINT archive_00_pkey ON taskq.archive_00 IS 'Looked up by id';
CREATE TABLE taskq.archive_01 PARTITION OF taskq.archive
    (CONSTRAINT archive_01_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (1);
COMMENT ON TABLE taskq.archive_01 IS 'Finished tasks, leaf 1 of 16 that rotate';
COMMENT ON CONSTRAINT archive_01_pkey ON taskq.archive_01 IS 'Looked up by id';
CREATE TABLE taskq.archive_02 PARTITION OF taskq.archive
    (CONSTRAINT archive_02_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (2);
COMMENT ON TABLE taskq.archive_02 IS 'Finished tasks, leaf 2 of 16 that rotate';
COMMENT ON CONSTRAINT archive_02_pkey ON taskq.archive_02 IS 'Looked up by id';
CREATE TABLE taskq.archive_03 PARTITION OF taskq.archive
    (CONSTRAINT archive_03_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (3);
COMMENT ON TABLE taskq.archive_03 IS 'Finished tasks, leaf 3 of 16 that rotate';
COMMENT ON CONSTRAINT archive_03_pkey ON taskq.archive_03 IS 'Looked up by id';
CREATE TABLE taskq.archive_04 PARTITION OF taskq.archive
    (CONSTRAINT archive_04_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (4);
COMMENT ON TABLE taskq.archive_04 IS 'Finished tasks, leaf 4 of 16 that rotate';
COMMENT ON CONSTRAINT archive_04_pkey ON taskq.archive_04 IS 'Looked up by id';
CREATE TABLE taskq.archive_05 PARTITION OF taskq.archive
    (CONSTRAINT archive_05_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (5);
COMMENT ON TABLE taskq.archive_05 IS 'Finished tasks, leaf 5 of 16 that rotate';
COMMENT ON CONSTRAINT archive_05_pkey ON taskq.archive_05 IS 'Looked up by id';
CREATE TABLE taskq.archive_06 PARTITION OF taskq.archive
    (CONSTRAINT archive_06_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (6);
COMMENT ON TABLE taskq.archive_06 IS 'Finished tasks, leaf 6 of 16 that rotate';
COMMENT ON CONSTRAINT archive_06_pkey ON taskq.archive_06 IS 'Looked up by id';
CREATE TABLE taskq.archive_07 PARTITION OF taskq.archive
    (CONSTRAINT archive_07_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (7);
COMMENT ON TABLE taskq.archive_07 IS 'Finished tasks, leaf 7 of 16 that rotate';
COMMENT ON CONSTRAINT archive_07_pkey ON taskq.archive_07 IS 'Looked up by id';
CREATE TABLE taskq.archive_08 PARTITION OF taskq.archive
    (CONSTRAINT archive_08_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (8);
COMMENT ON TABLE taskq.archive_08 IS 'Finished tasks, leaf 8 of 16 that rotate';
COMMENT ON CONSTRAINT archive_08_pkey ON taskq.archive_08 IS 'Looked up by id';
CREATE TABLE taskq.archive_09 PARTITION OF taskq.archive
    (CONSTRAINT archive_09_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (9);
COMMENT ON TABLE taskq.archive_09 IS 'Finished tasks, leaf 9 of 16 that rotate';
COMMENT ON CONSTRAINT archive_09_pkey ON taskq.archive_09 IS 'Looked up by id';
CREATE TABLE taskq.archive_10 PARTITION OF taskq.archive
    (CONSTRAINT archive_10_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (10);
COMMENT ON TABLE taskq.archive_10 IS 'Finished tasks, leaf 10 of 16 that rotate';
COMMENT ON CONSTRAINT archive_10_pkey ON taskq.archive_10 IS 'Looked up by id';
CREATE TABLE taskq.archive_11 PARTITION OF taskq.archive
    (CONSTRAINT archive_11_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (11);
COMMENT ON TABLE taskq.archive_11 IS 'Finished tasks, leaf 11 of 16 that rotate';
COMMENT ON CONSTRAINT archive_11_pkey ON taskq.archive_11 IS 'Looked up by id';
CREATE TABLE taskq.archive_12 PARTITION OF taskq.archive
    (CONSTRAINT archive_12_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (12);
COMMENT ON TABLE taskq.archive_12 IS 'Finished tasks, leaf 12 of 16 that rotate';
COMMENT ON CONSTRAINT archive_12_pkey ON taskq.archive_12 IS 'Looked up by id';
CREATE TABLE taskq.archive_13 PARTITION OF taskq.archive
    (CONSTRAINT archive_13_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (13);
COMMENT ON TABLE taskq.archive_13 IS 'Finished tasks, leaf 13 of 16 that rotate';
COMMENT ON CONSTRAINT archive_13_pkey ON taskq.archive_13 IS 'Looked up by id';
CREATE TABLE taskq.archive_14 PARTITION OF taskq.archive
    (CONSTRAINT archive_14_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (14);
COMMENT ON TABLE taskq.archive_14 IS 'Finished tasks, leaf 14 of 16 that rotate';
COMMENT ON CONSTRAINT archive_14_pkey ON taskq.archive_14 IS 'Looked up by id';
CREATE TABLE taskq.archive_15 PARTITION OF taskq.archive
    (CONSTRAINT archive_15_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (15);
COMMENT ON TABLE taskq.archive_15 IS 'Finished tasks, leaf 15 of 16 that rotate';
COMMENT ON CONSTRAINT archive_15_pkey ON taskq.archive_15 IS 'Looked up by id';
CREATE TABLE taskq.archive_keep PARTITION OF taskq.archive
    (CONSTRAINT archive_keep_pkey PRIMARY KEY (task_id))
    FOR VALUES IN (16);
COMMENT ON TABLE taskq.archive_keep IS 'Finished tasks with a retention of their own';
COMMENT ON CONSTRAINT archive_keep_pkey ON taskq.archive_keep IS 'Looked up by id';

CREATE INDEX archive_queue_idx ON taskq.archive (queue_id, state, task_id);
COMMENT ON INDEX taskq.archive_queue_idx IS 'Finished tasks of a queue, by state in the order of their ids, for lists';
CREATE INDEX archive_finished_idx ON taskq.archive (finished_at);
COMMENT ON INDEX taskq.archive_finished_idx IS 'Time at which the newest row of a leaf finished';
CREATE INDEX archive_state_idx ON taskq.archive (state, task_id) WHERE state OPERATOR(pg_catalog.<>) @STATE_DONE@;
COMMENT ON INDEX taskq.archive_state_idx IS 'Dead and cancelled tasks of all queues, for lists';
CREATE INDEX archive_reference_idx ON taskq.archive (queue_id, reference) WHERE reference IS NOT NULL;
COMMENT ON INDEX taskq.archive_reference_idx IS 'Look-up by reference';
CREATE INDEX archive_key_idx ON taskq.archive (queue_id, key, task_id) WHERE key IS NOT NULL;
COMMENT ON INDEX taskq.archive_key_idx IS 'Look-up by key';
CREATE INDEX archive_correlation_idx ON taskq.archive (correlation_id) WHERE correlation_id IS NOT NULL;
COMMENT ON INDEX taskq.archive_correlation_idx IS 'Look-up by correlation id';
CREATE INDEX archive_workflow_idx ON taskq.archive (workflow_id, step_id) WHERE workflow_id IS NOT NULL;
COMMENT ON INDEX taskq.archive_workflow_idx IS 'Steps of a workflow';
CREATE INDEX archive_worker_idx ON taskq.archive (worker_id, task_id) WHERE worker_id OPERATOR(pg_catalog.<>) 0;
COMMENT ON INDEX taskq.archive_worker_idx IS 'Tasks of a worker in the order of their ids, for lists; in archive_keep also to decide whether the row of the worker is still needed';
CREATE INDEX archive_recreated_idx ON taskq.archive (recreated_as) WHERE recreated_as IS NOT NULL;
COMMENT ON INDEX taskq.archive_recreated_idx IS 'Finds the task from which a task was recreated';
CREATE INDEX archive_keep_expires_idx ON taskq.archive_keep (expires_at);
COMMENT ON INDEX taskq.archive_keep_expires_idx IS 'Tasks that expire, for the retention duty';
CREATE INDEX archive_keep_dead_idx ON taskq.archive_keep (queue_id, key, task_id) WHERE state OPERATOR(pg_catalog.=) @STATE_DEAD@;
COMMENT ON INDEX taskq.archive_keep_dead_idx IS 'Dead tasks of a key, to decide whether they hold the key';

/* The current leaf.  If the table is empty, it is leaf 0. */
CREATE TABLE taskq.archive_rotation (
    only_row boolean NOT NULL,
    bucket smallint NOT NULL,
    since timestamp with time zone NOT NULL,
    CONSTRAINT archive_rotation_pkey PRIMARY KEY (only_row)
);
COMMENT ON TABLE taskq.archive_rotation IS 'The current leaf of the archive, to which finished tasks are added';
COMMENT ON COLUMN taskq.archive_rotation.only_row IS 'Always true';
COMMENT ON COLUMN taskq.archive_rotation.bucket IS 'Number of the leaf';
COMMENT ON COLUMN taskq.archive_rotation.since IS 'When it became the current leaf';
COMMENT ON CONSTRAINT archive_rotation_pkey ON taskq.archive_rotation IS 'The table has one row';

/* Numbers of finished tasks; query/finished_count.c describes the counting. */
CREATE TABLE taskq.finished_count (
    bucket smallint NOT NULL,
    queue_id integer NOT NULL,
    done bigint NOT NULL,
    dead bigint NOT NULL,
    total bigint NOT NULL,
    CONSTRAINT finished_count_pkey PRIMARY KEY (bucket, queue_id)
);
COMMENT ON TABLE taskq.finished_count IS 'Finished tasks of each queue in each leaf, as last counted';
COMMENT ON COLUMN taskq.finished_count.bucket IS 'The leaf';
COMMENT ON COLUMN taskq.finished_count.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.finished_count.done IS 'Tasks that are done';
COMMENT ON COLUMN taskq.finished_count.dead IS 'Tasks that are dead';
COMMENT ON COLUMN taskq.finished_count.total IS 'Tasks in any state';
COMMENT ON CONSTRAINT finished_count_pkey ON taskq.finished_count IS 'One row for each queue that has tasks in the leaf';

CREATE TABLE taskq.finished_leaf (
    bucket smallint NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    sign pg_catalog.text NOT NULL,
    CONSTRAINT finished_leaf_pkey PRIMARY KEY (bucket)
);
COMMENT ON TABLE taskq.finished_leaf IS 'When each leaf of the archive was counted; a counting session locks its row';
COMMENT ON COLUMN taskq.finished_leaf.bucket IS 'The leaf';
COMMENT ON COLUMN taskq.finished_leaf.counted_at IS 'Time of the count; the numbers of all leaves are valid for the latest of these times';
COMMENT ON COLUMN taskq.finished_leaf.sign IS 'Fingerprint of the leaf at that time, from the changes noted in shared memory and the server''s statistics; empty if the leaf must be counted again';
COMMENT ON CONSTRAINT finished_leaf_pkey ON taskq.finished_leaf IS 'One row for each leaf';

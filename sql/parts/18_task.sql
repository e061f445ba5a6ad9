/*
 * 18_task: live tasks, and their large values.
 *
 * The columns that a claim changes (token to state) have a fixed width, are
 * not null, and are next to each other.  No index or predicate uses them, so
 * that a claim is a heap-only update.  TqTaskFixed in store/task.h is the
 * image of the fixed part.  Half of each page is left free for such updates.
 *
 * The payload comes next, then columns that are null in most rows: those of
 * TqTaskImplied if their value follows from the fixed part, and others if the
 * task does not use them.  Nulls at the end of a row take no room.
 */
CREATE SEQUENCE taskq.task_id_seq AS bigint MAXVALUE 8796093022207;
COMMENT ON SEQUENCE taskq.task_id_seq IS 'Lower 43 bits of task ids';

/* Bounds above which ids and tokens continue; see engine/id.c. */
CREATE SEQUENCE taskq.task_id_bound_seq AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE taskq.task_id_bound_seq IS
    'Upper bound of the numbers drawn from taskq.task_id_seq; a higher bound is on disk before a higher number is drawn';
CREATE SEQUENCE taskq.token_bound_seq AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE taskq.token_bound_seq IS
    'Upper bound of the tokens of claims; a higher bound is on disk before a claim gets a higher token';
CREATE SEQUENCE taskq.timeline_seq AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE taskq.timeline_seq IS
    'Timeline on which ids and tokens last skipped to their bounds; 0 before the first task';
CREATE SEQUENCE taskq.crash_seq AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE taskq.crash_seq IS
    'Time in microseconds from which the server''s statistics counted when ids last skipped to their bound; a crash resets the statistics';
CREATE SEQUENCE taskq.start_seq AS bigint MINVALUE 0 START 0;
COMMENT ON SEQUENCE taskq.start_seq IS
    'Number of the server start for which tokens last skipped to their bound';

CREATE TABLE taskq.task (
    task_id bigint NOT NULL,
    lane_id bigint NOT NULL,
    available_at timestamp with time zone NOT NULL,
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
    reason smallint NOT NULL,
    flags smallint NOT NULL,
    payload jsonb,
    data bytea,
    headers jsonb,
    result jsonb,
    checkpoint jsonb,
    errors jsonb,
    message pg_catalog.text,
    run_at timestamp with time zone,
    created_at timestamp with time zone,
    run_as integer,
    descent smallint,
    large smallint,
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
    CONSTRAINT task_pkey PRIMARY KEY (task_id)
) WITH (
    fillfactor = 50,
    vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000
);
COMMENT ON TABLE taskq.task IS 'Live tasks';
COMMENT ON COLUMN taskq.task.task_id IS 'Number of the task';
COMMENT ON COLUMN taskq.task.lane_id IS 'Queue and set of tags';
COMMENT ON COLUMN taskq.task.available_at IS 'Time that gives its position among the tasks of its lane and priority; infinity while blocked or suspended';
COMMENT ON COLUMN taskq.task.token IS 'Fencing token of the newest claim; 0 before the first';
COMMENT ON COLUMN taskq.task.version IS 'Version of the row; every change raises it';
COMMENT ON COLUMN taskq.task.claimed_at IS 'When it was claimed; -infinity if it is not claimed';
COMMENT ON COLUMN taskq.task.lease_until IS 'End of the claim; infinity if only its worker can end it';
COMMENT ON COLUMN taskq.task.worker_id IS 'Worker that claimed it; 0 if there is no worker';
COMMENT ON COLUMN taskq.task.claimed_by IS 'Role that claimed the step; 0 if it is not claimed, or the task is not a step';
COMMENT ON COLUMN taskq.task.attempt IS 'Number of attempts that have begun';
COMMENT ON COLUMN taskq.task.state IS '1 pending, 2 blocked, 3 running, 4 suspended, 5 done, 6 dead, 7 cancelled, 8 filtered, 9 redundant, 10 recreated';
COMMENT ON COLUMN taskq.task.priority IS 'Priority; tasks with a higher number are claimed first';
COMMENT ON COLUMN taskq.task.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.task.max_attempts IS 'Number of attempts that are allowed; -1 means any number';
COMMENT ON COLUMN taskq.task.submitted_by IS 'Role that submitted it';
COMMENT ON COLUMN taskq.task.reason IS 'Code of the reason of its state; 0 if it has no reason';
COMMENT ON COLUMN taskq.task.flags IS 'Sum of 1: a worker died while it held the task; 2: it is a dead letter; 4: it was submitted suspended; 8: it is blocked by other tasks of its key; for a step also 16: its payload is the input of the workflow; 32: it runs regardless of its condition; 64: its payload was changed by hand; 4096 and 8192: number of crashes of SQL tasks in succession; 16384: SQL that an executor may run';
COMMENT ON COLUMN taskq.task.payload IS 'Work to be done';
COMMENT ON COLUMN taskq.task.data IS 'Opaque bytes in addition to the payload';
COMMENT ON COLUMN taskq.task.headers IS 'Metadata of the payload';
COMMENT ON COLUMN taskq.task.result IS 'Result of the work';
COMMENT ON COLUMN taskq.task.checkpoint IS 'State from which the next attempt continues';
COMMENT ON COLUMN taskq.task.errors IS 'Errors of the last ten attempts';
COMMENT ON COLUMN taskq.task.message IS 'Message of the last change of its state';
COMMENT ON COLUMN taskq.task.run_at IS 'When it became or becomes due; null if that is available_at';
COMMENT ON COLUMN taskq.task.created_at IS 'When it was submitted; null if that is available_at';
COMMENT ON COLUMN taskq.task.run_as IS 'Role that last determined what the task runs; null if that is submitted_by';
COMMENT ON COLUMN taskq.task.descent IS 'Worst of the states dead, suspended, filtered and done from which it was moved; null if it was not moved from any of them';
COMMENT ON COLUMN taskq.task.large IS 'Bits of the columns whose values are in taskq.large; null if there are none';
COMMENT ON COLUMN taskq.task.deadline IS 'Deadline: a task that still waits at this time becomes dead';
COMMENT ON COLUMN taskq.task.wake_at IS 'Due time for which the timer must be set; null if there is no such time';
COMMENT ON COLUMN taskq.task.cancel_requested_at IS 'When a running task was asked to stop';
COMMENT ON COLUMN taskq.task.suspended_at IS 'When it was suspended';
COMMENT ON COLUMN taskq.task.workflow_id IS 'Workflow instance of the step';
COMMENT ON COLUMN taskq.task.step_id IS 'Number of the step within the instance';
COMMENT ON COLUMN taskq.task.reference IS 'Reference; unique among the live tasks of the queue';
COMMENT ON COLUMN taskq.task.key IS 'Key: what the task is about, such as a customer';
COMMENT ON COLUMN taskq.task.correlation_id IS 'Correlation id; all tasks that the task creates inherit it';
COMMENT ON COLUMN taskq.task.tags IS 'Capabilities that a worker must have, sorted';
COMMENT ON COLUMN taskq.task.options IS 'Options of the task';
COMMENT ON CONSTRAINT task_pkey ON taskq.task IS 'Looked up by id';
CREATE INDEX task_dispatch_idx ON taskq.task (lane_id, priority DESC, available_at, task_id)
    WITH (deduplicate_items = off);
COMMENT ON INDEX taskq.task_dispatch_idx IS 'Claims scan it from the beginning of each matching lane';
CREATE UNIQUE INDEX task_reference_idx ON taskq.task (queue_id, reference) WHERE reference IS NOT NULL;
COMMENT ON INDEX taskq.task_reference_idx IS 'Looked up by reference, which at most one live task of a queue has';
CREATE INDEX task_key_idx ON taskq.task (queue_id, key, task_id) WHERE key IS NOT NULL;
COMMENT ON INDEX taskq.task_key_idx IS 'Tasks of a key in their order';
CREATE INDEX task_suspended_idx ON taskq.task (queue_id, key, task_id) WHERE suspended_at IS NOT NULL;
COMMENT ON INDEX taskq.task_suspended_idx IS 'Suspended tasks of a key, to decide whether they hold the key, and to release them';
CREATE INDEX task_deadline_idx ON taskq.task (deadline) WHERE deadline IS NOT NULL;
COMMENT ON INDEX taskq.task_deadline_idx IS 'Tasks with a deadline, for the deadline duty';
CREATE INDEX task_workflow_idx ON taskq.task (workflow_id, step_id) WHERE workflow_id IS NOT NULL;
COMMENT ON INDEX taskq.task_workflow_idx IS 'Steps of a workflow';
CREATE INDEX task_correlation_idx ON taskq.task (correlation_id) WHERE correlation_id IS NOT NULL;
COMMENT ON INDEX taskq.task_correlation_idx IS 'Look-up by correlation id';
CREATE INDEX task_wake_idx ON taskq.task (wake_at) INCLUDE (queue_id) WHERE wake_at IS NOT NULL;
COMMENT ON INDEX taskq.task_wake_idx IS 'The earliest due time, for the timer; also counts the tasks of a queue that are not due';

CREATE TABLE taskq.large (
    task_id bigint NOT NULL,
    part smallint NOT NULL,
    doc jsonb,
    raw bytea,
    CONSTRAINT large_pkey PRIMARY KEY (task_id, part)
);
COMMENT ON TABLE taskq.large IS
    'Values of tasks, live and finished, that do not fit into their rows';
COMMENT ON COLUMN taskq.large.task_id IS 'The task';
COMMENT ON COLUMN taskq.large.part IS
    'The column: 0 payload, 1 data, 2 headers, 3 result, 4 checkpoint, 5 errors, 6 message';
COMMENT ON COLUMN taskq.large.doc IS 'The value of a jsonb column';
COMMENT ON COLUMN taskq.large.raw IS 'The value of data, or of message in the database''s encoding';
COMMENT ON CONSTRAINT large_pkey ON taskq.large IS 'Looked up by task; one row for each part';

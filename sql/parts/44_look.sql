/*
 * 44_look: reading tasks.
 *
 * Requires observe on the queue, and read for the contents of tasks;
 * pg_monitor sees everything except contents, messages and errors.  The functions in schema taskq are called by the public views;
 * they filter by privilege, and PUBLIC may execute them.
 */
CREATE FUNCTION taskq.may_read(queue_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_may_read';
COMMENT ON FUNCTION taskq.may_read(integer) IS 'May current_user see tasks of the queue?';

CREATE FUNCTION taskq.may_read_payload(queue_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_may_read_payload';
COMMENT ON FUNCTION taskq.may_read_payload(integer) IS 'May current_user see the contents of the queue''s tasks, without redaction?';

CREATE FUNCTION taskq.may_observe(queue_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_may_observe';
COMMENT ON FUNCTION taskq.may_observe(integer) IS 'May current_user see messages and errors of the queue''s tasks?';

CREATE FUNCTION taskq.contents(queue_id integer, document jsonb) RETURNS jsonb
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_contents';
COMMENT ON FUNCTION taskq.contents(integer, jsonb) IS
    'Contents that belong to a queue (0: to none), as current_user may see them: null without the privilege read, and without manage redacted as the option redact says';

CREATE FUNCTION taskq.task_progress(
    task_id bigint,
    token bigint,
    OUT progress real,
    OUT message text
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_task_progress';
COMMENT ON FUNCTION taskq.task_progress(bigint, bigint) IS
    'Progress that taskq_progress last reported for a running task';

/*
 * All tasks and columns that current_user may see.  The views of tasks select
 * from this table.
 */
CREATE FUNCTION taskq.scan_handler() RETURNS fdw_handler
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_scan_handler';
COMMENT ON FUNCTION taskq.scan_handler() IS 'Handler of the foreign data wrapper that reads taskq.task_scan';

CREATE FOREIGN DATA WRAPPER taskq HANDLER taskq.scan_handler NO VALIDATOR;
COMMENT ON FOREIGN DATA WRAPPER taskq IS 'Reads tasks, live and finished, by id; used only by taskq.task_scan';
CREATE SERVER taskq FOREIGN DATA WRAPPER taskq;
COMMENT ON SERVER taskq IS 'This database; used only by taskq.task_scan';

CREATE FOREIGN TABLE taskq.task_scan (
    task_id bigint,
    queue pg_catalog.text,
    state pg_catalog.text,
    reason pg_catalog.text,
    message pg_catalog.text,
    priority integer,
    attempt integer,
    max_attempts integer,
    token bigint,
    version bigint,
    key pg_catalog.text,
    reference pg_catalog.text,
    tags pg_catalog.text[],
    payload jsonb,
    data bytea,
    headers jsonb,
    correlation_id pg_catalog.text,
    result jsonb,
    error pg_catalog.text,
    errors jsonb,
    checkpoint jsonb,
    progress real,
    worker pg_catalog.text,
    created_at timestamp with time zone,
    run_at timestamp with time zone,
    deadline timestamp with time zone,
    claimed_at timestamp with time zone,
    lease_until timestamp with time zone,
    finished_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    submitted_by pg_catalog.text,
    run_as pg_catalog.text,
    descent pg_catalog.text,
    recreated_as bigint,
    workflow_id bigint,
    step pg_catalog.text,
    worker_seen timestamp with time zone,
    progress_message pg_catalog.text
) SERVER taskq;
COMMENT ON FOREIGN TABLE taskq.task_scan IS
    'Tasks, live and finished, that current_user may see; has the columns of taskq.task_info in the same order, and two more';

CREATE FUNCTION taskq_get(task_id bigint) RETURNS taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_get';
COMMENT ON FUNCTION taskq_get(bigint) IS 'A task, live or finished; TQ002 if it does not exist';

CREATE FUNCTION taskq_get_many(task_ids bigint[]) RETURNS SETOF taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_get_many';
COMMENT ON FUNCTION taskq_get_many(bigint[]) IS
    'Tasks in the order of the given ids; a task that does not exist has a row of nulls';

CREATE FUNCTION taskq_list(
    queue text DEFAULT NULL,
    state text DEFAULT NULL,
    after bigint DEFAULT NULL,
    max_rows integer DEFAULT 100,
    reference text DEFAULT NULL,
    key text DEFAULT NULL,
    newest_first boolean DEFAULT false,
    correlation_id text DEFAULT NULL,
    with_payload boolean DEFAULT true,
    filter jsonb DEFAULT NULL,
    max_examined bigint DEFAULT NULL
) RETURNS SETOF taskq.listed_task
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_list';
COMMENT ON FUNCTION taskq_list(text, text, bigint, integer, text, text, boolean, text, boolean, jsonb, bigint) IS
    'Tasks that the arguments and the filter select, in the order of their ids after the given id, up to max_rows (10000 at most); a page that stops early, after max_examined rows, ends with a row that has only resume_after';

CREATE FUNCTION taskq_fingerprint(error text) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_fingerprint';
COMMENT ON FUNCTION taskq_fingerprint(text) IS
    'Fingerprint of an error text, the same for texts that differ only in numbers, ids and quoted values';

CREATE FUNCTION taskq_failures(
    queue text DEFAULT NULL,
    since timestamp with time zone DEFAULT NULL,
    until timestamp with time zone DEFAULT NULL,
    max_rows integer DEFAULT 100,
    max_examined bigint DEFAULT NULL
) RETURNS TABLE (fingerprint text, kind text, tasks bigint, dead bigint, retrying bigint,
        first_at timestamp with time zone, last_at timestamp with time zone,
        task_id bigint, error text, trend jsonb, stopped_early boolean)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_failures';
COMMENT ON FUNCTION taskq_failures(text, timestamptz, timestamptz, integer, bigint) IS
    'Dead tasks, and tasks that are pending again after a failure, by the kind of their last error, with an example of each kind';

CREATE FUNCTION taskq_lineage(task_id bigint)
    RETURNS TABLE (task_id bigint, relation text, at timestamp with time zone)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_lineage';
COMMENT ON FUNCTION taskq_lineage(bigint) IS
    'Tasks related to a task, each with its relation: recreated_from, recreated_as, dead_letter_of, dead_letter or same_correlation';

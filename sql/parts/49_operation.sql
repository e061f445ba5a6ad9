/*
 * 49_operation: operations on all tasks that match a filter.
 */
CREATE FUNCTION taskq_manage_where(
    action text,
    queue text,
    filter jsonb DEFAULT NULL,
    reason text DEFAULT NULL,
    dry_run boolean DEFAULT false,
    batch_size integer DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_manage_where';
COMMENT ON FUNCTION taskq_manage_where(text, text, jsonb, text, boolean, integer) IS
    'Begins an operation that applies cancel, retry, recreate, resolve, hold, poison, unpoison or delete to all tasks of a queue that match the filter now, and returns its number; requires manage on the queue';

CREATE FUNCTION taskq_pause_operation(operation_id bigint) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_pause_operation';
COMMENT ON FUNCTION taskq_pause_operation(bigint) IS
    'Pauses an operation; returns false if it has ended; requires the privileges of its role or manage on the queue';

CREATE FUNCTION taskq_resume_operation(operation_id bigint) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_resume_operation';
COMMENT ON FUNCTION taskq_resume_operation(bigint) IS
    'Continues a paused operation; returns false if it has ended; requires the privileges of its role or manage on the queue';

CREATE FUNCTION taskq_cancel_operation(operation_id bigint) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_cancel_operation';
COMMENT ON FUNCTION taskq_cancel_operation(bigint) IS
    'Ends an operation, and keeps what it has done; returns false if it has ended; requires the privileges of its role or manage on the queue';

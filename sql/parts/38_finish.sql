/*
 * 38_finish: ending an attempt, or reporting that it continues.
 *
 * Requires work on the task's queue.  All functions raise TQ001 if the task is
 * not held under that token.  Each updates the task's row, and waits for a
 * transaction that is updating it.
 */
CREATE FUNCTION taskq_complete(
    task_id bigint,
    token bigint,
    result jsonb DEFAULT NULL,
    keep boolean DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_complete';
COMMENT ON FUNCTION taskq_complete(bigint, bigint, jsonb, boolean) IS
    'Completes the task; keep => false removes it and frees its reference, keep => true keeps it even if the queue keeps no finished tasks';

CREATE FUNCTION taskq_fail(
    task_id bigint,
    token bigint,
    error text,
    retryable boolean DEFAULT true,
    retry_in interval DEFAULT NULL,
    detail jsonb DEFAULT NULL
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_fail';
COMMENT ON FUNCTION taskq_fail(bigint, bigint, text, boolean, interval, jsonb) IS
    'Fails the attempt and returns the new state: the task is pending again after retry_in, or the backoff of the task or queue; it is dead if no attempts are left or the error is not retryable';

CREATE FUNCTION taskq_release(
    task_id bigint,
    token bigint,
    delay interval DEFAULT '0',
    reason text DEFAULT NULL,
    result jsonb DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_release';
COMMENT ON FUNCTION taskq_release(bigint, bigint, interval, text, jsonb) IS
    'Returns the task to its queue, due after delay, without using up an attempt';

CREATE FUNCTION taskq_suspend(task_id bigint, token bigint, reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_suspend';
COMMENT ON FUNCTION taskq_suspend(bigint, bigint, text) IS
    'Suspends the task until it is retried or cancelled, without using up an attempt';

CREATE FUNCTION taskq_filter(task_id bigint, token bigint, reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_filter';
COMMENT ON FUNCTION taskq_filter(bigint, bigint, text) IS
    'Marks the task as irrelevant';

CREATE FUNCTION taskq_extend(
    task_id bigint,
    token bigint,
    lease interval DEFAULT NULL,
    OUT lease_until timestamp with time zone,
    OUT cancel boolean
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_extend';
COMMENT ON FUNCTION taskq_extend(bigint, bigint, interval) IS
    'Extends the claim until now + lease (default: the lease of the task or queue); cancel is true if the task was asked to stop';

CREATE FUNCTION taskq_progress(
    task_id bigint,
    token bigint,
    progress real DEFAULT NULL,
    message text DEFAULT NULL,
    OUT lease_until timestamp with time zone,
    OUT cancel boolean
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_progress';
COMMENT ON FUNCTION taskq_progress(bigint, bigint, real, text) IS
    'Reports the progress of the task, 0 to 1, and a message of up to 120 bytes; kept only in memory';

CREATE FUNCTION taskq_checkpoint(
    task_id bigint,
    token bigint,
    checkpoint jsonb,
    progress real DEFAULT NULL,
    OUT lease_until timestamp with time zone,
    OUT cancel boolean
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_checkpoint';
COMMENT ON FUNCTION taskq_checkpoint(bigint, bigint, jsonb, real) IS
    'Stores the state from which the next attempt continues';

/*
 * 42_manage: managing single tasks.
 *
 * Requires manage on the task's queue; raises TQ002 for a role without any
 * privilege on it.
 */
CREATE FUNCTION taskq_cancel(
    task_id bigint,
    reason text DEFAULT NULL,
    force boolean DEFAULT false
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_cancel';
COMMENT ON FUNCTION taskq_cancel(bigint, text, boolean) IS
    'Cancels a waiting task (returns cancelled); asks the worker of a running task to stop it (returns requested), or with force cancels that task, too';

CREATE FUNCTION taskq_retry(
    task_id bigint,
    reset_attempts boolean DEFAULT NULL,
    force boolean DEFAULT false,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_retry';
COMMENT ON FUNCTION taskq_retry(bigint, boolean, boolean, text) IS
    'Makes a finished or suspended task, or with force a running one, pending again under the same id';

CREATE FUNCTION taskq_recreate(
    task_id bigint,
    insertion text DEFAULT 'append',
    reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_recreate';
COMMENT ON FUNCTION taskq_recreate(bigint, text, text) IS
    'Submits a finished or suspended task again as a new task with the same contents and settings; returns the new id';

CREATE FUNCTION taskq_resolve(
    task_id bigint,
    result jsonb DEFAULT NULL,
    reason text DEFAULT NULL,
    force boolean DEFAULT false
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_resolve';
COMMENT ON FUNCTION taskq_resolve(bigint, jsonb, text, boolean) IS
    'Makes a waiting, dead or filtered task, or with force a running one, done without a worker';

CREATE FUNCTION taskq_hold(
    task_id bigint,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_hold';
COMMENT ON FUNCTION taskq_hold(bigint, text) IS
    'Suspends a pending or blocked task until taskq_retry() is called';

CREATE FUNCTION taskq_poison(
    task_id bigint,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_poison';
COMMENT ON FUNCTION taskq_poison(bigint, text) IS
    'Makes a waiting or dead task dead with reason poison: bulk retries skip it';

CREATE FUNCTION taskq_unpoison(
    task_id bigint,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_unpoison';
COMMENT ON FUNCTION taskq_unpoison(bigint, text) IS
    'Restores the reason for which a poison task was dead before';

CREATE FUNCTION taskq_retry_all(
    queue text,
    state text DEFAULT 'dead',
    reason text DEFAULT NULL,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    max_tasks integer DEFAULT NULL,
    comment text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_retry_all';
COMMENT ON FUNCTION taskq_retry_all(text, text, text, bigint, bigint, integer, text) IS
    'Retries the tasks of a queue in a state, except poison tasks, in the order of their ids; selects by reason and id if given; returns their number';

CREATE FUNCTION taskq_manage_many(
    action text,
    task_ids bigint[],
    reason text DEFAULT NULL
) RETURNS TABLE (task_id bigint, ok boolean, error_code text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_manage_many';
COMMENT ON FUNCTION taskq_manage_many(text, bigint[], text) IS
    'Applies cancel, retry, recreate, resolve, hold, poison, unpoison or delete to each task; returns an error in the row of its task';

CREATE FUNCTION taskq_update_task(
    task_id bigint,
    changes jsonb,
    version bigint DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_update_task';
COMMENT ON FUNCTION taskq_update_task(bigint, jsonb, bigint, text) IS
    'Changes settings of a waiting task, named as the arguments of taskq_submit(); TQ010 if it has another version';

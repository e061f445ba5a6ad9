/*
 * 42_manage: changes by people.
 *
 * Need manage on the task's queue; TQ002 for a role without any right there.
 */
CREATE FUNCTION taskq_cancel(
    task_id bigint,
    reason text DEFAULT NULL,
    force boolean DEFAULT false
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_cancel';
COMMENT ON FUNCTION taskq_cancel(bigint, text, boolean) IS
    'Cancels a waiting task (cancelled); asks a running one to stop (requested), or with force takes it from its worker';

CREATE FUNCTION taskq_retry(
    task_id bigint,
    reset_attempts boolean DEFAULT NULL,
    force boolean DEFAULT false
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_retry';
COMMENT ON FUNCTION taskq_retry(bigint, boolean, boolean) IS
    'A finished or suspended task becomes pending again under the same id; with force a running one, too';

CREATE FUNCTION taskq_recreate(
    task_id bigint,
    insertion text DEFAULT 'append'
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_recreate';
COMMENT ON FUNCTION taskq_recreate(bigint, text) IS
    'Runs a finished or suspended task again as a new one, with what it carries and its settings; the new id';

CREATE FUNCTION taskq_resolve(
    task_id bigint,
    result jsonb DEFAULT NULL,
    reason text DEFAULT NULL,
    force boolean DEFAULT false
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_resolve';
COMMENT ON FUNCTION taskq_resolve(bigint, jsonb, text, boolean) IS
    'A waiting, dead or filtered task becomes done by hand; with force a running one, too';

CREATE FUNCTION taskq_hold(
    task_id bigint,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_hold';
COMMENT ON FUNCTION taskq_hold(bigint, text) IS
    'A pending or blocked task becomes suspended until taskq_retry()';

CREATE FUNCTION taskq_poison(
    task_id bigint,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_poison';
COMMENT ON FUNCTION taskq_poison(bigint, text) IS
    'A waiting or dead task is dead with reason poison: every bulk retry passes it over';

CREATE FUNCTION taskq_unpoison(
    task_id bigint
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_unpoison';
COMMENT ON FUNCTION taskq_unpoison(bigint) IS
    'A task that is poison is dead for its former reason again';

CREATE FUNCTION taskq_retry_all(
    queue text,
    state text DEFAULT 'dead',
    reason text DEFAULT NULL,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    max_tasks integer DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_retry_all';
COMMENT ON FUNCTION taskq_retry_all(text, text, text, bigint, bigint, integer) IS
    'Retries tasks of one state, with a reason code if given, in the order of their ids, poison excepted; their number';

CREATE FUNCTION taskq_manage_many(
    action text,
    task_ids bigint[],
    reason text DEFAULT NULL
) RETURNS TABLE (task_id bigint, ok boolean, error_code text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_manage_many';
COMMENT ON FUNCTION taskq_manage_many(text, bigint[], text) IS
    'cancel, retry, recreate, resolve, hold, poison, unpoison or delete of each task; what was wrong stands in its row';

CREATE FUNCTION taskq_update_task(
    task_id bigint,
    changes jsonb,
    version bigint DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_update_task';
COMMENT ON FUNCTION taskq_update_task(bigint, jsonb, bigint) IS
    'Other settings for a task that waits, by the names of the arguments of taskq_submit(); TQ010 when it has another version';

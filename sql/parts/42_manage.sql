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

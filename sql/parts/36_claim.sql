/*
 * 36_claim: claiming tasks.
 *
 * Requires work on the queue.  Updates rows of taskq.task; waits for no other
 * claim, except for the session that counts running tasks for a limit.
 */
CREATE FUNCTION taskq_claim(
    queue text DEFAULT 'default',
    worker text DEFAULT NULL,
    max_tasks integer DEFAULT 1,
    lease interval DEFAULT NULL,
    wait interval DEFAULT '0',
    tags text[] DEFAULT NULL,
    claim_order text DEFAULT NULL,
    incarnation bigint DEFAULT NULL
) RETURNS SETOF taskq.claimed
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_claim';
COMMENT ON FUNCTION taskq_claim(text, text, integer, interval, interval, text[], text, bigint) IS
    'Claims up to max_tasks tasks of a queue (null: of all queues of a registered worker) within the limits, by priority and then in the queue''s order; the token of a task is required to finish it';

/*
 * 39_bulk: ending many attempts in one call.
 *
 * Requires work on the tasks' queues.  Rows are updated in the order of their
 * ids and returned in the order of the lists, which must have the same length.
 */
CREATE FUNCTION taskq_complete_many(
    task_ids bigint[],
    tokens bigint[],
    results jsonb[] DEFAULT NULL,
    strict boolean DEFAULT false
) RETURNS TABLE (task_id bigint, ok boolean, error_code text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_complete_many';
COMMENT ON FUNCTION taskq_complete_many(bigint[], bigint[], jsonb[], boolean) IS
    'Completes tasks, and returns for each whether that was possible; with strict, one that is not raises TQ010 with all of them, and nothing is changed';

CREATE FUNCTION taskq_decide_many(decisions jsonb, strict boolean DEFAULT true)
RETURNS TABLE (task_id bigint, ok boolean, error_code text, state text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_decide_many';
COMMENT ON FUNCTION taskq_decide_many(jsonb, boolean) IS
    'Ends attempts as a list of objects says: task_id, token, outcome (complete, fail, suspend, filter, release), and the arguments of that: result, keep, error, detail, retryable, retry_in, delay, reason; strict as in taskq_complete_many';

CREATE FUNCTION taskq_extend_many(
    task_ids bigint[],
    tokens bigint[],
    lease interval DEFAULT NULL
) RETURNS TABLE (task_id bigint, ok boolean, cancel boolean)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_extend_many';
COMMENT ON FUNCTION taskq_extend_many(bigint[], bigint[], interval) IS
    'Holds tasks until now + lease; ok is false, and cancel null, for a task that is not held under its token';

CREATE FUNCTION taskq_complete_and_claim(
    task_ids bigint[],
    tokens bigint[],
    results jsonb[] DEFAULT NULL,
    queue text DEFAULT 'default',
    worker text DEFAULT NULL,
    max_tasks integer DEFAULT 1,
    lease interval DEFAULT NULL,
    tags text[] DEFAULT NULL
) RETURNS SETOF taskq.claimed
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_complete_and_claim';
COMMENT ON FUNCTION taskq_complete_and_claim(bigint[], bigint[], jsonb[], text, text, integer, interval, text[]) IS
    'Completes all of the tasks, or none (TQ001 with all that are not held), and claims the next ones; never waits';

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
    'Completes tasks, and returns for each task whether it was completed; with strict, the call raises TQ010 with all tasks that cannot be completed, and changes nothing';

CREATE FUNCTION taskq_decide_many(decisions jsonb, strict boolean DEFAULT true)
RETURNS TABLE (task_id bigint, ok boolean, error_code text, state text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_decide_many';
COMMENT ON FUNCTION taskq_decide_many(jsonb, boolean) IS
    'Ends attempts; each object of the list has task_id, token, outcome (complete, fail, suspend, filter or release), and the arguments of that outcome: result, keep, error, detail, retryable, retry_in, delay, reason; strict as in taskq_complete_many';

CREATE FUNCTION taskq_extend_many(
    task_ids bigint[],
    tokens bigint[],
    lease interval DEFAULT NULL
) RETURNS TABLE (task_id bigint, ok boolean, cancel boolean)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_extend_many';
COMMENT ON FUNCTION taskq_extend_many(bigint[], bigint[], interval) IS
    'Extends claims until now + lease; if a task is not held under its token, ok is false and cancel is null';

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
    'Completes tasks and claims the next ones, without waiting for any; if a task is not held under its token, the call raises TQ001 with all such tasks and changes nothing';

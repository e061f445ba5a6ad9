/*
 * 54_explain: why a task does not run, why a claim gets nothing.
 *
 * Requires read on the task's queue, and work or read on the claim's queue.
 * pg_monitor may call both, but gets no messages and errors.
 */
CREATE FUNCTION taskq_explain(task_id bigint) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_explain';
COMMENT ON FUNCTION taskq_explain(bigint) IS
    'Why the task is not running, or what it is doing, in plain words; TQ002 if it does not exist';

CREATE FUNCTION taskq_explain_claim(
    queue text,
    worker text DEFAULT NULL,
    tags text[] DEFAULT NULL
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_explain_claim';
COMMENT ON FUNCTION taskq_explain_claim(text, text, text[]) IS
    'What such a claim would get now, or why nothing, in plain words; queue NULL = all queues of the worker';

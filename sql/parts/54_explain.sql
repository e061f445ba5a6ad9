/*
 * 54_explain: why a task does not run, why a claim gets nothing.
 *
 * Need read on the task's queue, work or read on the claim's; pg_monitor may
 * ask, and is told no messages and errors.
 */
CREATE FUNCTION taskq_explain(task_id bigint) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_explain';
COMMENT ON FUNCTION taskq_explain(bigint) IS
    'Why the task is not running, or where it is, in plain words; TQ002 when there is none';

CREATE FUNCTION taskq_explain_claim(
    queue text,
    worker text DEFAULT NULL,
    tags text[] DEFAULT NULL
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_explain_claim';
COMMENT ON FUNCTION taskq_explain_claim(text, text, text[]) IS
    'What such a claim would get now, or why nothing, in plain words; queue NULL = all queues of the worker';

/*
 * 54_explain: why a task does not run, and why a claim returns no task.
 *
 * taskq_explain requires read on the task's queue, taskq_explain_claim work or
 * read on the claim's queue.  pg_monitor may call both, but gets no messages
 * and errors.
 */
CREATE FUNCTION taskq_explain(task_id bigint) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_explain';
COMMENT ON FUNCTION taskq_explain(bigint) IS
    'Explains why the task is not running, or what it is doing; TQ002 if it does not exist';

CREATE FUNCTION taskq_explain_claim(
    queue text,
    worker text DEFAULT NULL,
    tags text[] DEFAULT NULL
) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_explain_claim';
COMMENT ON FUNCTION taskq_explain_claim(text, text, text[]) IS
    'Explains what a claim with these arguments would return now, or why it would return no task; queue null: all queues of the worker';

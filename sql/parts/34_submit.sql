/*
 * 34_submit: submitting tasks.
 *
 * Requires submit on the queue, and on '*' if the call creates the queue.
 * Inserts into taskq.task (and taskq.large, taskq.lane, taskq.queue).  With
 * on_conflict update and merge it also updates the task that has the
 * reference.  It holds ROW EXCLUSIVE on taskq.queue_change until the
 * transaction ends.
 */
CREATE FUNCTION taskq_submit(
    queue text DEFAULT 'default',
    payload jsonb DEFAULT NULL,
    priority integer DEFAULT NULL,
    run_at timestamp with time zone DEFAULT NULL,
    delay interval DEFAULT NULL,
    deadline timestamp with time zone DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    tags text[] DEFAULT NULL,
    key text DEFAULT NULL,
    reference text DEFAULT NULL,
    on_conflict text DEFAULT 'error',
    headers jsonb DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    data bytea DEFAULT NULL,
    insertion text DEFAULT 'append',
    suspended boolean DEFAULT false,
    options jsonb DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_submit';
COMMENT ON FUNCTION taskq_submit(text, jsonb, integer, timestamp with time zone, interval, timestamp with time zone, integer, text[], text, text, text, jsonb, text, bytea, text, boolean, jsonb) IS
    'Submits a task and returns its id; if a task has the same reference, on_conflict decides whether the call raises TQ006, or returns the id of that task or null; TQ008 if the queue is full';

CREATE FUNCTION taskq_submit_many(
    queue text,
    payloads jsonb[],
    priority integer DEFAULT NULL,
    run_at timestamp with time zone DEFAULT NULL,
    delay interval DEFAULT NULL,
    deadline timestamp with time zone DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    tags text[] DEFAULT NULL,
    key text DEFAULT NULL,
    reference text DEFAULT NULL,
    on_conflict text DEFAULT 'error',
    headers jsonb DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    data bytea DEFAULT NULL,
    insertion text DEFAULT 'append',
    suspended boolean DEFAULT false,
    options jsonb DEFAULT NULL
) RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_submit_many';
COMMENT ON FUNCTION taskq_submit_many(text, jsonb[], integer, timestamp with time zone, interval, timestamp with time zone, integer, text[], text, text, text, jsonb, text, bytea, text, boolean, jsonb) IS
    'Submits one task for each payload and returns the ids in the same order; the other arguments are the same for all tasks';

CREATE FUNCTION taskq_submit_tasks(tasks jsonb) RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_submit_tasks';
COMMENT ON FUNCTION taskq_submit_tasks(jsonb) IS
    'Submits a list of tasks and returns their ids in the same order; each object has the arguments of taskq_submit as members, with data in the text form of bytea; if one task is refused, no task is submitted';

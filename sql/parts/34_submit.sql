/*
 * 34_submit: submitting tasks.
 *
 * Needs submit on the queue, and on '*' when the queue is made by it.
 * Inserts into taskq.task (and taskq.large, taskq.lane, taskq.queue), with
 * on_conflict update and merge also writes the task that has the reference,
 * and holds ROW EXCLUSIVE on taskq.queue_change until the transaction ends.
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
    'Submits a task and returns its id, or by on_conflict that of the task that has the reference, or null; TQ006 when it is taken, TQ008 when the queue is full';

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
    'Submits one task for each payload, with the other arguments for all, and returns their ids in the same order';

CREATE FUNCTION taskq_submit_tasks(tasks jsonb) RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_submit_tasks';
COMMENT ON FUNCTION taskq_submit_tasks(jsonb) IS
    'Submits a list of objects whose members are named as the arguments of taskq_submit, all or none, and returns their ids in the same order; data is text as bytea takes it';

/*
 * 43_await: waiting for the end of a task.
 *
 * taskq_await requires read on the queue, or submit if the caller's role
 * submitted the task; taskq_call requires submit.  Both commit, and hold no
 * snapshot and no lock while they sleep.
 */
CREATE PROCEDURE taskq_await(
    task_id bigint,
    timeout interval DEFAULT '30 s',
    INOUT state text DEFAULT NULL,
    INOUT result jsonb DEFAULT NULL,
    INOUT error text DEFAULT NULL
)
    LANGUAGE c
    AS 'MODULE_PATHNAME', 'taskq_await';
COMMENT ON PROCEDURE taskq_await(bigint, interval, text, jsonb, text) IS
    'Waits until a task has finished, or until the timeout; returns its state, and the result and error if it has finished; commits before it sleeps';

CREATE PROCEDURE taskq_call(
    queue text,
    payload jsonb,
    timeout interval,
    INOUT task_id bigint DEFAULT NULL,
    INOUT state text DEFAULT NULL,
    INOUT result jsonb DEFAULT NULL,
    INOUT error text DEFAULT NULL
)
    LANGUAGE c
    AS 'MODULE_PATHNAME', 'taskq_call';
COMMENT ON PROCEDURE taskq_call(text, jsonb, interval, bigint, text, jsonb, text) IS
    'Submits a task, commits, and waits as taskq_await does';

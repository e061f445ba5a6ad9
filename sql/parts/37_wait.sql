/*
 * 37_wait: waiting until a task can be claimed.
 *
 * Requires work on the queue.  Reads taskq.task; between two checks it holds
 * no lock and no snapshot.
 */
CREATE PROCEDURE taskq_wait(
    queue text DEFAULT 'default',
    timeout interval DEFAULT '30 s',
    INOUT ready boolean DEFAULT NULL,
    worker text DEFAULT NULL,
    tags text[] DEFAULT NULL
)
    LANGUAGE c
    AS 'MODULE_PATHNAME', 'taskq_wait';
COMMENT ON PROCEDURE taskq_wait(text, interval, boolean, text, text[]) IS
    'Sleeps until a claim with the same arguments would return a task (ready is true), or until the timeout or a drain (ready is false); claims no task, and does not hold back vacuum';

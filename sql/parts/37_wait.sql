/*
 * 37_wait: waiting until there is something to claim.
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
    'Sleeps until such a claim would return a task (ready is true), or until timeout or drain (false), without holding back vacuum; claims nothing';

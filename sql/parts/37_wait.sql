/*
 * 37_wait: waiting until there is something to claim.
 *
 * Needs work on the queue.  Reads taskq.task; takes no lock that outlasts a
 * look, and between two looks has no snapshot.
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
    'Sleeps until such a claim would get something (ready is true), or until time is up or the worker drains (false), without holding back vacuum; takes nothing';

/*
 * 40_worker: workers.
 *
 * Requires work on some queue (EXECUTE), and a name that is free or belongs to
 * the caller's role.  A heartbeat writes no row on a server that preloads the
 * library.
 */
CREATE FUNCTION taskq_register(
    worker text,
    queues text[] DEFAULT NULL,
    tags text[] DEFAULT '{}',
    max_running integer DEFAULT NULL,
    bound boolean DEFAULT false,
    info jsonb DEFAULT NULL,
    keep boolean DEFAULT false,
    incarnation bigint DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_register';
COMMENT ON FUNCTION taskq_register(text, text[], text[], integer, boolean, jsonb, boolean, bigint) IS
    'Registers a process under this name; tasks that a former one still holds return to their queues, and their number is returned; keep = the same process again, which keeps its tasks';

CREATE FUNCTION taskq_heartbeat(worker text, incarnation bigint DEFAULT NULL) RETURNS taskq.heartbeat
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_heartbeat';
COMMENT ON FUNCTION taskq_heartbeat(text, bigint) IS
    'Sends a heartbeat; returns which tasks to stop, whether to drain and when to send the next one; TQ007 for a worker that was declared dead';

CREATE FUNCTION taskq_deregister(worker text, incarnation bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_deregister';
COMMENT ON FUNCTION taskq_deregister(text, bigint) IS
    'Deregisters the worker; its running tasks return to their queues immediately, costing no attempt, and their number is returned';

CREATE FUNCTION taskq.worker_seen(worker_id integer) RETURNS timestamp with time zone
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_worker_seen';
COMMENT ON FUNCTION taskq.worker_seen(integer) IS
    'When a registered worker last sent a heartbeat; null if that is not known';

CREATE FUNCTION taskq_drain(worker text, incarnation bigint DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_drain';
COMMENT ON FUNCTION taskq_drain(text, bigint) IS
    'Gives the worker no further tasks, and reports that in its heartbeats, until it registers again; TQ007 if it is not registered or dead';

CREATE FUNCTION taskq_expire(worker text, older_than interval) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_expire';
COMMENT ON FUNCTION taskq_expire(text, interval) IS
    'Declares dead every other worker whose last heartbeat is that old and whose name the caller may use, and returns their number';

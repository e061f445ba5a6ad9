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
    'Registers the process under the name; tasks that a former process of the name holds return to their queues, and their number is returned; with keep, the same process registers again and keeps its tasks';

CREATE FUNCTION taskq_heartbeat(worker text, incarnation bigint DEFAULT NULL) RETURNS taskq.heartbeat
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_heartbeat';
COMMENT ON FUNCTION taskq_heartbeat(text, bigint) IS
    'Sends a heartbeat; returns which tasks to stop, whether to drain, and when to send the next heartbeat; TQ007 if the worker was declared dead';

CREATE FUNCTION taskq_deregister(worker text, incarnation bigint DEFAULT NULL, reason text DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_deregister';
COMMENT ON FUNCTION taskq_deregister(text, bigint, text) IS
    'Deregisters the worker; its running tasks return to their queues immediately, without using up an attempt, and their number is returned';

CREATE FUNCTION taskq.worker_seen(worker_id integer) RETURNS timestamp with time zone
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_worker_seen';
COMMENT ON FUNCTION taskq.worker_seen(integer) IS
    'When a registered worker last sent a heartbeat; null if not known';

CREATE FUNCTION taskq_drain(worker text, incarnation bigint DEFAULT NULL, reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_drain';
COMMENT ON FUNCTION taskq_drain(text, bigint, text) IS
    'Drains the worker: until it registers again, it gets no further tasks, and its heartbeats return drain; TQ007 if it is not registered or dead';

CREATE FUNCTION taskq_expire(worker text, older_than interval, reason text DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_expire';
COMMENT ON FUNCTION taskq_expire(text, interval, text) IS
    'Declares dead every other worker whose last heartbeat is as old as the interval and whose name the caller may use; returns their number';

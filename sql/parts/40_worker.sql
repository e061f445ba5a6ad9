/*
 * 40_worker: workers.
 *
 * Need work on some queue (EXECUTE), and the name must be free or belong to
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
    'A new process has this name; what a former one still held goes back, and the number of these tasks is returned; keep = the same process again, which keeps its tasks';

CREATE FUNCTION taskq_heartbeat(worker text, incarnation bigint DEFAULT NULL) RETURNS taskq.heartbeat
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_heartbeat';
COMMENT ON FUNCTION taskq_heartbeat(text, bigint) IS
    'A heartbeat; returns which tasks to stop, whether to drain and when to beat again; TQ007 for a worker that was declared dead';

CREATE FUNCTION taskq_deregister(worker text, incarnation bigint DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_deregister';
COMMENT ON FUNCTION taskq_deregister(text, bigint) IS
    'The worker leaves; its running tasks go back at once, costing no attempt, and their number is returned';

CREATE FUNCTION taskq.worker_seen(worker_id integer) RETURNS timestamp with time zone
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_worker_seen';
COMMENT ON FUNCTION taskq.worker_seen(integer) IS
    'When a registered worker last sent a heartbeat; null when that is not known';

CREATE FUNCTION taskq_drain(worker text, incarnation bigint DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_drain';
COMMENT ON FUNCTION taskq_drain(text, bigint) IS
    'The worker gets no further tasks, and its heartbeats say so, until it registers again; TQ007 when it is not registered or dead';

CREATE FUNCTION taskq_expire(worker text, older_than interval) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_expire';
COMMENT ON FUNCTION taskq_expire(text, interval) IS
    'Declares every other worker that was silent for so long dead now, as far as the caller may use its name, and returns how many';

/*
 * 44_look: looking at tasks.
 *
 * Need read on the queue; pg_monitor sees all but what tasks carry.  The
 * functions in schema taskq are what the public views call: they filter by
 * right themselves and everybody may execute them.
 */
CREATE FUNCTION taskq.may_read(queue_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_may_read';
COMMENT ON FUNCTION taskq.may_read(integer) IS 'May current_user see tasks of the queue?';

CREATE FUNCTION taskq.may_read_payload(queue_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_may_read_payload';
COMMENT ON FUNCTION taskq.may_read_payload(integer) IS 'May current_user see what tasks of the queue carry?';

CREATE FUNCTION taskq.task_progress(
    task_id bigint,
    token bigint,
    OUT progress real,
    OUT message text
) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_task_progress';
COMMENT ON FUNCTION taskq.task_progress(bigint, bigint) IS
    'What taskq_progress told last of a running task';

CREATE VIEW taskq.task_all AS
WITH both_tables AS (
    SELECT t.task_id, t.run_at, t.created_at, t.token, t.version, t.claimed_at,
           t.lease_until, t.worker_id, t.attempt, t.state, t.priority,
           t.queue_id, t.max_attempts, t.submitted_by, t.run_as, t.reason,
           t.descent, t.large, t.deadline, t.cancel_requested_at,
           t.workflow_id, t.step_id, t.reference, t.key, t.correlation_id,
           t.tags, t.payload, t.data, t.headers, t.result, t.checkpoint,
           t.errors, t.message,
           NULL::timestamp with time zone AS finished_at,
           NULL::bigint AS recreated_as,
           CASE WHEN t.state OPERATOR(pg_catalog.=) 3
                THEN (taskq.task_progress(t.task_id, t.token)).progress
           END AS progress
      FROM taskq.task t
     UNION ALL
    SELECT a.task_id, a.run_at, a.created_at, a.token, a.version, a.claimed_at,
           a.lease_until, a.worker_id, a.attempt, a.state, a.priority,
           a.queue_id, a.max_attempts, a.submitted_by, a.run_as, a.reason,
           a.descent, a.large, a.deadline, a.cancel_requested_at,
           a.workflow_id, a.step_id, a.reference, a.key, a.correlation_id,
           a.tags, a.payload, a.data, a.headers, a.result, a.checkpoint,
           a.errors, a.message, a.finished_at, a.recreated_as, NULL::real
      FROM taskq.archive a
)
SELECT b.task_id,
       q.name COLLATE "default" AS queue,
       taskq.state_name(b.state) AS state,
       taskq.reason_name(b.reason) AS reason,
       CASE WHEN b.large OPERATOR(pg_catalog.&) 64::smallint OPERATOR(pg_catalog.<>) 0::smallint
            THEN (SELECT pg_catalog.convert_from(l.raw, pg_catalog.getdatabaseencoding())
                    FROM taskq.large l
                   WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                     AND l.part OPERATOR(pg_catalog.=) 6)
            ELSE b.message
       END AS message,
       b.priority::integer AS priority,
       b.attempt,
       b.max_attempts,
       b.token,
       b.version,
       b.key COLLATE "default" AS key,
       b.reference COLLATE "default" AS reference,
       b.tags,
       CASE WHEN b.large OPERATOR(pg_catalog.&) 1::smallint OPERATOR(pg_catalog.<>) 0::smallint
            THEN (SELECT l.doc FROM taskq.large l
                   WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                     AND l.part OPERATOR(pg_catalog.=) 0)
            ELSE b.payload
       END AS payload,
       CASE WHEN b.large OPERATOR(pg_catalog.&) 2::smallint OPERATOR(pg_catalog.<>) 0::smallint
            THEN (SELECT l.raw FROM taskq.large l
                   WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                     AND l.part OPERATOR(pg_catalog.=) 1)
            ELSE b.data
       END AS data,
       CASE WHEN b.large OPERATOR(pg_catalog.&) 4::smallint OPERATOR(pg_catalog.<>) 0::smallint
            THEN (SELECT l.doc FROM taskq.large l
                   WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                     AND l.part OPERATOR(pg_catalog.=) 2)
            ELSE b.headers
       END AS headers,
       b.correlation_id COLLATE "default" AS correlation_id,
       CASE WHEN b.large OPERATOR(pg_catalog.&) 8::smallint OPERATOR(pg_catalog.<>) 0::smallint
            THEN (SELECT l.doc FROM taskq.large l
                   WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                     AND l.part OPERATOR(pg_catalog.=) 3)
            ELSE b.result
       END AS result,
       CASE WHEN e.errors IS NOT NULL
            THEN e.errors OPERATOR(pg_catalog.->) (-1) OPERATOR(pg_catalog.->>) 'error'
       END AS error,
       e.errors,
       CASE WHEN b.large OPERATOR(pg_catalog.&) 16::smallint OPERATOR(pg_catalog.<>) 0::smallint
            THEN (SELECT l.doc FROM taskq.large l
                   WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                     AND l.part OPERATOR(pg_catalog.=) 4)
            ELSE b.checkpoint
       END AS checkpoint,
       b.progress,
       w.name COLLATE "default" AS worker,
       b.created_at,
       b.run_at,
       b.deadline,
       CASE WHEN pg_catalog.isfinite(b.claimed_at) THEN b.claimed_at END AS claimed_at,
       CASE WHEN pg_catalog.isfinite(b.lease_until) THEN b.lease_until END AS lease_until,
       b.finished_at,
       b.cancel_requested_at,
       s.name COLLATE "default" AS submitted_by,
       r.name COLLATE "default" AS run_as,
       taskq.state_name(b.descent) AS descent,
       b.recreated_as,
       b.workflow_id,
       NULL::text AS step,
       b.queue_id
  FROM both_tables b
  LEFT JOIN taskq.queue q ON q.queue_id OPERATOR(pg_catalog.=) b.queue_id
  LEFT JOIN taskq.worker w ON w.worker_id OPERATOR(pg_catalog.=) b.worker_id
  LEFT JOIN taskq.role s ON s.role_id OPERATOR(pg_catalog.=) b.submitted_by
  LEFT JOIN taskq.role r ON r.role_id OPERATOR(pg_catalog.=) b.run_as
 CROSS JOIN LATERAL (
       SELECT CASE WHEN b.large OPERATOR(pg_catalog.&) 32::smallint OPERATOR(pg_catalog.<>) 0::smallint
                   THEN (SELECT l.doc FROM taskq.large l
                          WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                            AND l.part OPERATOR(pg_catalog.=) 5)
                   ELSE b.errors
              END AS errors) e;
COMMENT ON VIEW taskq.task_all IS 'All tasks, live and finished, unfiltered: for the extension itself';

CREATE FUNCTION taskq_get(task_id bigint) RETURNS taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_get';
COMMENT ON FUNCTION taskq_get(bigint) IS 'A task, live or finished; TQ002 when there is none';

CREATE FUNCTION taskq_get_many(task_ids bigint[]) RETURNS SETOF taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_get_many';
COMMENT ON FUNCTION taskq_get_many(bigint[]) IS
    'Tasks in the order of the ids, a row of nulls for each that does not exist';

CREATE FUNCTION taskq_list(
    queue text DEFAULT NULL,
    state text DEFAULT NULL,
    after bigint DEFAULT NULL,
    max_rows integer DEFAULT 100,
    reference text DEFAULT NULL,
    key text DEFAULT NULL,
    newest_first boolean DEFAULT false,
    correlation_id text DEFAULT NULL,
    with_payload boolean DEFAULT true
) RETURNS SETOF taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_list';
COMMENT ON FUNCTION taskq_list(text, text, bigint, integer, text, text, boolean, text, boolean) IS
    'Tasks in the order of their ids, after one, up to max_rows (10000), filtered by what is given';

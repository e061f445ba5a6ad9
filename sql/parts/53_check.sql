/*
 * 53_check: do tables and memory agree?
 */
CREATE VIEW taskq.table_problem AS
SELECT 'task is live and finished' AS problem,
       pg_catalog.concat('task ', t.task_id) AS detail
  FROM taskq.task t
 WHERE EXISTS (SELECT FROM taskq.archive a
                WHERE a.task_id OPERATOR(pg_catalog.=) t.task_id)
UNION ALL
SELECT 'task is finished twice', pg_catalog.concat('task ', a.task_id)
  FROM taskq.archive a
 GROUP BY a.task_id
HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1
UNION ALL
SELECT 'live task has no live state', pg_catalog.concat('task ', t.task_id, ', state ', t.state)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.<) @STATE_FIRST@ OR t.state OPERATOR(pg_catalog.>) @STATE_LAST_LIVE@
UNION ALL
SELECT 'finished task has no finished state', pg_catalog.concat('task ', a.task_id, ', state ', a.state)
  FROM taskq.archive a
 WHERE a.state OPERATOR(pg_catalog.<) @STATE_FIRST_FINISHED@ OR a.state OPERATOR(pg_catalog.>) @STATE_LAST@
UNION ALL
SELECT 'task has no queue', pg_catalog.concat('task ', t.task_id, ', queue ', t.queue_id)
  FROM taskq.task t
 WHERE NOT EXISTS (SELECT FROM taskq.queue q
                    WHERE q.queue_id OPERATOR(pg_catalog.=) t.queue_id)
UNION ALL
SELECT 'task has no lane', pg_catalog.concat('task ', t.task_id, ', lane ', t.lane_id)
  FROM taskq.task t
 WHERE NOT EXISTS (SELECT FROM taskq.lane l
                    WHERE l.lane_id OPERATOR(pg_catalog.=) t.lane_id
                      AND l.queue_id OPERATOR(pg_catalog.=) t.queue_id
                      AND l.tags OPERATOR(pg_catalog.=) coalesce(t.tags, '{}'))
UNION ALL
SELECT 'running task has no holder', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) @STATE_RUNNING@
   AND t.worker_id OPERATOR(pg_catalog.=) 0
   AND t.lease_until OPERATOR(pg_catalog.=) 'infinity'
UNION ALL
SELECT 'running task has no token or attempt', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) @STATE_RUNNING@
   AND (t.token OPERATOR(pg_catalog.<=) 0
        OR t.attempt OPERATOR(pg_catalog.<=) 0
        OR NOT pg_catalog.isfinite(t.claimed_at))
UNION ALL
SELECT 'waiting task is held', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.<>) @STATE_RUNNING@
   AND (t.worker_id OPERATOR(pg_catalog.<>) 0
        OR t.lease_until OPERATOR(pg_catalog.<>) 'infinity'
        OR t.claimed_at OPERATOR(pg_catalog.<>) '-infinity')
UNION ALL
SELECT 'pending task has no position', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) @STATE_PENDING@
   AND NOT pg_catalog.isfinite(t.available_at)
UNION ALL
SELECT 'task that cannot be claimed has a position', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state IN (@STATE_BLOCKED@, @STATE_SUSPENDED@)
   AND t.available_at OPERATOR(pg_catalog.<>) 'infinity'
UNION ALL
SELECT 'attempts exceed their maximum', pg_catalog.concat('task ', b.task_id)
  FROM (SELECT t.task_id, t.attempt, t.max_attempts FROM taskq.task t
         UNION ALL
        SELECT a.task_id, a.attempt, a.max_attempts FROM taskq.archive a) b
 WHERE b.max_attempts OPERATOR(pg_catalog.<>) (-1)
   AND b.attempt OPERATOR(pg_catalog.>) b.max_attempts
UNION ALL
SELECT 'finished task is in the wrong leaf', pg_catalog.concat('task ', a.task_id)
  FROM taskq.archive a
 WHERE (a.bucket OPERATOR(pg_catalog.=) 16) OPERATOR(pg_catalog.<>) (a.expires_at IS NOT NULL)
UNION ALL
SELECT 'large part is missing', pg_catalog.concat('task ', b.task_id, ', part ', p.part)
  FROM (SELECT t.task_id, t.large FROM taskq.task t WHERE t.large OPERATOR(pg_catalog.<>) 0
         UNION ALL
        SELECT a.task_id, a.large FROM taskq.archive a WHERE a.large OPERATOR(pg_catalog.<>) 0) b
 CROSS JOIN pg_catalog.generate_series(0, 7) AS p (part)
 WHERE b.large::integer OPERATOR(pg_catalog.&) (1 OPERATOR(pg_catalog.<<) p.part)
       OPERATOR(pg_catalog.<>) 0
   AND NOT EXISTS (SELECT FROM taskq.large l
                    WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                      AND l.part OPERATOR(pg_catalog.=) p.part)
UNION ALL
SELECT 'large part is not referred to', pg_catalog.concat('task ', l.task_id, ', part ', l.part)
  FROM taskq.large l
  JOIN (SELECT t.task_id, coalesce(t.large, 0) AS large FROM taskq.task t
         UNION ALL
        SELECT a.task_id, coalesce(a.large, 0) AS large FROM taskq.archive a) b USING (task_id)
 WHERE b.large::integer OPERATOR(pg_catalog.&) (1 OPERATOR(pg_catalog.<<) l.part::integer)
       OPERATOR(pg_catalog.=) 0
UNION ALL
/* Tasks, live and finished, each by its own row */
SELECT p.problem, pg_catalog.concat('task ', b.task_id, p.more)
  FROM (SELECT t.task_id, t.available_at, t.created_at, t.run_at, t.token, t.version, t.attempt,
               t.state, t.max_attempts, t.submitted_by, t.run_as, t.claimed_by, t.reason,
               t.descent, t.flags, t.large, t.deadline, t.wake_at,
               t.cancel_requested_at, t.reference, t.key, t.correlation_id,
               t.tags, t.payload, t.data, t.headers, t.result, t.checkpoint,
               t.errors, t.message
          FROM taskq.task t
         UNION ALL
        SELECT a.task_id, a.available_at, a.created_at, a.run_at, a.token, a.version, a.attempt,
               a.state, a.max_attempts, a.submitted_by, a.run_as, a.claimed_by, a.reason,
               a.descent, a.flags, a.large, a.deadline, a.wake_at,
               a.cancel_requested_at, a.reference, a.key, a.correlation_id,
               a.tags, a.payload, a.data, a.headers, a.result, a.checkpoint,
               a.errors, a.message
          FROM taskq.archive a) b
 CROSS JOIN LATERAL (
    SELECT 'task has invalid numbers' AS problem, '' AS more
     WHERE b.version OPERATOR(pg_catalog.<) 1
     OR (b.state OPERATOR(pg_catalog.<>) @STATE_RUNNING@ AND (b.token OPERATOR(pg_catalog.<) 0 OR b.attempt OPERATOR(pg_catalog.<) 0))
     OR (b.max_attempts OPERATOR(pg_catalog.<=) 0 AND b.max_attempts OPERATOR(pg_catalog.<>) (-1)
         AND b.attempt OPERATOR(pg_catalog.<=) b.max_attempts)
    UNION ALL
    SELECT 'task has invalid flags', ''
     WHERE b.flags OPERATOR(pg_catalog.<) 0 OR b.large OPERATOR(pg_catalog.<) 0 OR b.large OPERATOR(pg_catalog.>) 255
     OR b.descent NOT IN (@STATE_NONE@, @STATE_SUSPENDED@, @STATE_DONE@, @STATE_DEAD@, @STATE_FILTERED@)
    UNION ALL
    SELECT 'task has an unknown reason', pg_catalog.concat(', reason ', b.reason)
     WHERE b.reason OPERATOR(pg_catalog.<>) @REASON_NONE@ AND taskq.reason_name(b.reason) IS NULL
    UNION ALL
    SELECT 'reason does not match the state', pg_catalog.concat(', ', taskq.reason_name(b.reason), ', ', taskq.state_name(b.state))
     WHERE (b.reason IN (@REASON_EXHAUSTED@, @REASON_REJECTED@, @REASON_DEADLINE@) AND b.state NOT IN (@STATE_DEAD@, @STATE_REDUNDANT@, @STATE_RECREATED@))
     OR (b.reason IN (@REASON_WORKER_DEAD@, @REASON_LEASE_EXPIRED@, @REASON_TIMEOUT@) AND b.state NOT IN (@STATE_SUSPENDED@, @STATE_DEAD@, @STATE_REDUNDANT@, @STATE_RECREATED@))
     OR (b.reason OPERATOR(pg_catalog.<>) @REASON_NONE@ AND b.state OPERATOR(pg_catalog.=) @STATE_RUNNING@)
    UNION ALL
    SELECT 'task is exhausted with attempts left', ''
     WHERE b.reason OPERATOR(pg_catalog.=) @REASON_EXHAUSTED@ AND b.state OPERATOR(pg_catalog.=) @STATE_DEAD@
     AND (b.max_attempts OPERATOR(pg_catalog.=) (-1) OR b.attempt OPERATOR(pg_catalog.<) b.max_attempts)
    UNION ALL
    SELECT 'task died at a deadline that it does not have', ''
     WHERE b.reason OPERATOR(pg_catalog.=) @REASON_DEADLINE@ AND b.state OPERATOR(pg_catalog.=) @STATE_DEAD@ AND b.deadline IS NULL
    UNION ALL
    SELECT 'task has an invalid time', ''
     WHERE NOT pg_catalog.isfinite(b.created_at) OR NOT pg_catalog.isfinite(b.run_at)
     OR NOT pg_catalog.isfinite(b.deadline) OR NOT pg_catalog.isfinite(b.wake_at)
     OR NOT pg_catalog.isfinite(b.cancel_requested_at)
     /* a null time is that of the position, which a pending task must have */
     OR ((b.created_at IS NULL OR b.run_at IS NULL) AND NOT pg_catalog.isfinite(b.available_at)
         AND b.state OPERATOR(pg_catalog.<>) @STATE_PENDING@)
    UNION ALL
    SELECT 'task has an unknown role', ''
     WHERE b.submitted_by NOT IN (SELECT r.role_id FROM taskq.role r)
     OR b.run_as NOT IN (SELECT r.role_id FROM taskq.role r)
     OR (b.claimed_by OPERATOR(pg_catalog.<>) 0 AND b.claimed_by NOT IN (SELECT r.role_id FROM taskq.role r))
    UNION ALL
    SELECT 'task has invalid text', ''
     WHERE pg_catalog.octet_length(b.reference) NOT BETWEEN 1 AND 500
     OR pg_catalog.octet_length(b.key) NOT BETWEEN 1 AND 500
     OR pg_catalog.octet_length(b.correlation_id) NOT BETWEEN 1 AND 500
     OR b.reference OPERATOR(pg_catalog.~) '[\x01-\x1f\x7f]'
     OR b.key OPERATOR(pg_catalog.~) '[\x01-\x1f\x7f]'
     OR b.correlation_id OPERATOR(pg_catalog.~) '[\x01-\x1f\x7f]'
    UNION ALL
    SELECT 'tags are not a sorted set', ''
     WHERE b.tags IS NOT NULL
     AND (pg_catalog.cardinality(b.tags) OPERATOR(pg_catalog.>) 16
          OR EXISTS (SELECT FROM pg_catalog.unnest(b.tags) AS u (tag)
                      WHERE u.tag IS NULL
                         OR pg_catalog.octet_length(u.tag) NOT BETWEEN 1 AND 63)
          OR b.tags IS DISTINCT FROM
             (SELECT pg_catalog.array_agg(DISTINCT u.tag COLLATE "C" ORDER BY u.tag COLLATE "C")
                FROM pg_catalog.unnest(b.tags) AS u (tag)))
    UNION ALL
    SELECT 'list of errors is malformed', ''
     WHERE b.errors IS NOT NULL
     AND CASE WHEN pg_catalog.jsonb_typeof(b.errors) OPERATOR(pg_catalog.<>) 'array' THEN true
              WHEN pg_catalog.jsonb_array_length(b.errors) NOT BETWEEN 1 AND 10 THEN true
              ELSE EXISTS (SELECT FROM pg_catalog.jsonb_array_elements(b.errors) AS e (entry)
                            WHERE pg_catalog.jsonb_typeof(e.entry OPERATOR(pg_catalog.->) 'attempt') IS DISTINCT FROM 'number'
                               OR pg_catalog.jsonb_typeof(e.entry OPERATOR(pg_catalog.->) 'at') IS DISTINCT FROM 'string'
                               OR pg_catalog.jsonb_typeof(e.entry OPERATOR(pg_catalog.->) 'error') IS DISTINCT FROM 'string')
         END
    UNION ALL
    SELECT 'value is in the row and in taskq.large', ''
     WHERE ((b.large OPERATOR(pg_catalog.&) 1::smallint) OPERATOR(pg_catalog.<>) 0 AND b.payload IS NOT NULL)
     OR ((b.large OPERATOR(pg_catalog.&) 2::smallint) OPERATOR(pg_catalog.<>) 0 AND b.data IS NOT NULL)
     OR ((b.large OPERATOR(pg_catalog.&) 4::smallint) OPERATOR(pg_catalog.<>) 0 AND b.headers IS NOT NULL)
     OR ((b.large OPERATOR(pg_catalog.&) 8::smallint) OPERATOR(pg_catalog.<>) 0 AND b.result IS NOT NULL)
     OR ((b.large OPERATOR(pg_catalog.&) 16::smallint) OPERATOR(pg_catalog.<>) 0 AND b.checkpoint IS NOT NULL)
     OR ((b.large OPERATOR(pg_catalog.&) 32::smallint) OPERATOR(pg_catalog.<>) 0 AND b.errors IS NOT NULL)
     OR ((b.large OPERATOR(pg_catalog.&) 64::smallint) OPERATOR(pg_catalog.<>) 0 AND b.message IS NOT NULL)) p
UNION ALL
SELECT p.problem, pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 CROSS JOIN LATERAL (
    SELECT 'position is not the due time' AS problem
     WHERE t.state IN (@STATE_PENDING@, @STATE_RUNNING@) AND pg_catalog.isfinite(t.available_at)
     AND pg_catalog.isfinite(t.run_at) AND t.available_at OPERATOR(pg_catalog.<>) t.run_at
    UNION ALL
    SELECT 'task is asked to stop but is not running'
     WHERE t.state OPERATOR(pg_catalog.<>) @STATE_RUNNING@ AND t.cancel_requested_at IS NOT NULL
    UNION ALL
    SELECT 'time of suspension does not match the state'
     WHERE (t.state BETWEEN @STATE_FIRST@ AND @STATE_LAST_LIVE@
            AND (t.state OPERATOR(pg_catalog.=) @STATE_SUSPENDED@) OPERATOR(pg_catalog.<>) (t.suspended_at IS NOT NULL))
     OR NOT pg_catalog.isfinite(t.suspended_at)
    UNION ALL
    SELECT 'task waits for other tasks of a key, but has no key'
     WHERE (t.flags OPERATOR(pg_catalog.&) 8::smallint) OPERATOR(pg_catalog.<>) 0
     AND (t.state OPERATOR(pg_catalog.<>) @STATE_BLOCKED@ OR t.key IS NULL)
    UNION ALL
    SELECT 'running task is held by an unknown worker'
     WHERE t.state OPERATOR(pg_catalog.=) @STATE_RUNNING@ AND t.worker_id OPERATOR(pg_catalog.<>) 0
     AND t.worker_id NOT IN (SELECT w.worker_id FROM taskq.worker w)) p
UNION ALL
SELECT p.problem, pg_catalog.concat('task ', a.task_id)
  FROM taskq.archive a
 CROSS JOIN LATERAL (
    SELECT 'finished task has a lease' AS problem
     WHERE a.lease_until OPERATOR(pg_catalog.<>) 'infinity'
    UNION ALL
    SELECT 'finished task has no end time'
     WHERE NOT pg_catalog.isfinite(a.finished_at)
    UNION ALL
    SELECT 'finished task expires before its end'
     WHERE a.bucket OPERATOR(pg_catalog.=) 16 AND a.expires_at OPERATOR(pg_catalog.<) a.finished_at
    UNION ALL
    /* steps are kept when their queue is dropped */
    SELECT 'task has no queue'
     WHERE a.workflow_id IS NULL
     AND a.queue_id NOT IN (SELECT q.queue_id FROM taskq.queue q)
    UNION ALL
    SELECT 'finished task is older than its leaf'
     WHERE (SELECT a.bucket OPERATOR(pg_catalog.=) r.bucket
             AND a.finished_at OPERATOR(pg_catalog.<) (r.since OPERATOR(pg_catalog.-) interval '1 day')
        FROM taskq.archive_rotation r
       WHERE r.bucket BETWEEN 1 AND 31
         AND r.since BETWEEN '2000-01-01' AND '9999-01-01'
       LIMIT 1)) p
UNION ALL
SELECT 'two live tasks have one reference',
       pg_catalog.concat('tasks ', pg_catalog.min(t.task_id), ' and ', pg_catalog.max(t.task_id))
  FROM taskq.task t
 WHERE t.reference IS NOT NULL
 GROUP BY t.queue_id, t.reference
HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1
UNION ALL
/* Keys */
SELECT l.problem, l.detail FROM taskq.line_problem l
UNION ALL
/* Workflows */
SELECT w.problem, w.detail FROM taskq.flow_problem w
UNION ALL
/* Large parts */
SELECT 'large part is of the wrong kind', pg_catalog.concat('task ', l.task_id, ', part ', l.part)
  FROM taskq.large l
 WHERE l.part NOT BETWEEN 0 AND 7
    OR (l.part IN (1, 6)) OPERATOR(pg_catalog.<>) (l.raw IS NOT NULL)
    OR (l.part IN (1, 6)) OPERATOR(pg_catalog.=) (l.doc IS NOT NULL)
UNION ALL
/*
 * When a leaf is truncated, the large parts of its tasks remain until a duty
 * removes them.  Therefore this ignores the parts of tasks from before the
 * current leaf was begun, or before the database was restored.
 */
SELECT 'large part has no task', pg_catalog.concat('task ', l.task_id, ', part ', l.part)
  FROM taskq.large l
 WHERE NOT EXISTS (SELECT FROM taskq.task t WHERE t.task_id OPERATOR(pg_catalog.=) l.task_id)
   AND NOT EXISTS (SELECT FROM taskq.archive a WHERE a.task_id OPERATOR(pg_catalog.=) l.task_id)
   AND l.task_id OPERATOR(pg_catalog.>)
       (SELECT pg_catalog.min(y.task_id)
          FROM (SELECT t.task_id, coalesce(t.created_at, t.available_at) AS created_at FROM taskq.task t
                 UNION ALL
                SELECT a.task_id, coalesce(a.created_at, a.available_at) AS created_at FROM taskq.archive a) y
         WHERE y.created_at OPERATOR(pg_catalog.>)
               coalesce((SELECT CASE WHEN r.since OPERATOR(pg_catalog.<) '9999-01-01'
                                     THEN r.since OPERATOR(pg_catalog.+) interval '1 min'
                                     ELSE 'infinity' END
                           FROM taskq.archive_rotation r LIMIT 1),
                        (SELECT pg_catalog.max(i.created_at) FROM taskq.instance i)))
UNION ALL
/* Queues, lanes, rights, roles */
SELECT p.problem, pg_catalog.concat('queue ', q.queue_id)
  FROM taskq.queue q
 CROSS JOIN LATERAL (
    SELECT 'queue has an invalid name' AS problem
     WHERE (q.name OPERATOR(pg_catalog.=) '*') OPERATOR(pg_catalog.<>) (q.queue_id OPERATOR(pg_catalog.=) 0)
     OR pg_catalog.octet_length(q.name) NOT BETWEEN 1 AND 200
     OR q.name OPERATOR(pg_catalog.~) '[\x01-\x1f\x7f]'
    UNION ALL
    SELECT 'queue has an unknown owner'
     WHERE q.queue_id OPERATOR(pg_catalog.<>) 0
     AND q.owner_role NOT IN (SELECT r.role_id FROM taskq.role r)
    UNION ALL
    SELECT 'queue has an invalid pause'
     WHERE NOT pg_catalog.isfinite(q.paused_at)
     OR (q.paused_at IS NULL AND (q.paused_until IS NOT NULL OR q.pause_reason IS NOT NULL))) p
UNION ALL
SELECT p.problem, pg_catalog.concat('lane ', l.lane_id, ', queue ', l.queue_id)
  FROM taskq.lane l
 CROSS JOIN LATERAL (
    SELECT 'lane has no queue' AS problem
     WHERE l.queue_id NOT IN (SELECT q.queue_id FROM taskq.queue q)
    UNION ALL
    SELECT 'tags are not a sorted set'
     WHERE pg_catalog.cardinality(l.tags) OPERATOR(pg_catalog.>) 16
     OR EXISTS (SELECT FROM pg_catalog.unnest(l.tags) AS u (tag)
                 WHERE u.tag IS NULL
                    OR pg_catalog.octet_length(u.tag) NOT BETWEEN 1 AND 63)
     OR l.tags IS DISTINCT FROM
        (SELECT coalesce(pg_catalog.array_agg(DISTINCT u.tag COLLATE "C" ORDER BY u.tag COLLATE "C"), '{}')
           FROM pg_catalog.unnest(l.tags) AS u (tag))) p
UNION ALL
SELECT p.problem, pg_catalog.concat('queue ', g.queue_id, ', role ', g.role_id)
  FROM taskq.queue_grant g
 CROSS JOIN LATERAL (
    SELECT 'grant is on a missing queue' AS problem
     WHERE g.queue_id OPERATOR(pg_catalog.<>) 0
     AND g.queue_id NOT IN (SELECT q.queue_id FROM taskq.queue q)
    UNION ALL
    SELECT 'grant is to an unknown role'
     WHERE g.role_id OPERATOR(pg_catalog.<>) 0
     AND g.role_id NOT IN (SELECT r.role_id FROM taskq.role r)
    UNION ALL
    SELECT 'grant has rights that do not exist'
     WHERE g.rights NOT BETWEEN 1 AND 31) p
UNION ALL
SELECT 'role is invalid', pg_catalog.concat('role ', r.role_id)
  FROM taskq.role r
 WHERE r.role_id OPERATOR(pg_catalog.<=) 0 OR r.oid OPERATOR(pg_catalog.=) '0' OR r.name OPERATOR(pg_catalog.=) ''
UNION ALL
SELECT 'right lacks EXECUTE',
       pg_catalog.concat('role ', g.role_id, ', function ', f.function)
  FROM (SELECT h.role_id, pg_catalog.bit_or(h.rights) AS rights
          FROM taskq.queue_grant h GROUP BY h.role_id) g
  LEFT JOIN taskq.role r ON r.role_id OPERATOR(pg_catalog.=) g.role_id
  JOIN taskq.function_right f ON (f.rights OPERATOR(pg_catalog.&) g.rights) OPERATOR(pg_catalog.<>) 0
  JOIN pg_catalog.pg_proc p ON p.proname OPERATOR(pg_catalog.=) f.function
  JOIN pg_catalog.pg_depend d
    ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
   AND d.objid OPERATOR(pg_catalog.=) p.oid
   AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
   AND d.deptype OPERATOR(pg_catalog.=) 'e'
  JOIN pg_catalog.pg_extension e
    ON e.oid OPERATOR(pg_catalog.=) d.refobjid AND e.extname OPERATOR(pg_catalog.=) 'taskq'
 WHERE (g.role_id OPERATOR(pg_catalog.=) 0
        OR EXISTS (SELECT FROM pg_catalog.pg_roles x WHERE x.oid OPERATOR(pg_catalog.=) r.oid))
   AND NOT pg_catalog.has_function_privilege(
           CASE WHEN g.role_id OPERATOR(pg_catalog.=) 0 THEN '0'::pg_catalog.oid ELSE r.oid END,
           p.oid, 'EXECUTE')
   AND (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.=) 1
               AND pg_catalog.bool_and(i.database_oid OPERATOR(pg_catalog.=) o.oid)
          FROM taskq.instance i, pg_catalog.pg_database o
         WHERE o.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
UNION ALL
SELECT 'right is on a missing function', pg_catalog.concat('function ', f.function)
  FROM taskq.function_right f
 WHERE f.rights NOT BETWEEN 1 AND 31
    OR NOT EXISTS (SELECT FROM pg_catalog.pg_proc p
                     JOIN pg_catalog.pg_depend d
                       ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
                      AND d.objid OPERATOR(pg_catalog.=) p.oid
                      AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
                      AND d.deptype OPERATOR(pg_catalog.=) 'e'
                     JOIN pg_catalog.pg_extension e
                       ON e.oid OPERATOR(pg_catalog.=) d.refobjid AND e.extname OPERATOR(pg_catalog.=) 'taskq'
                    WHERE p.proname OPERATOR(pg_catalog.=) f.function)
UNION ALL
/* Workers */
SELECT p.problem, pg_catalog.concat('worker ', w.worker_id)
  FROM taskq.worker w
 CROSS JOIN LATERAL (
    SELECT 'worker has an unknown state' AS problem
     WHERE w.state NOT BETWEEN @WORKER_ACTIVE@ AND @WORKER_GONE@
    UNION ALL
    SELECT 'worker has an invalid name'
     WHERE pg_catalog.octet_length(w.name) NOT BETWEEN 1 AND 200
     OR w.name OPERATOR(pg_catalog.~) '[\x01-\x1f\x7f]'
    UNION ALL
    SELECT 'end of the worker does not match its state'
     WHERE (w.state IN (@WORKER_DEAD@, @WORKER_GONE@)) OPERATOR(pg_catalog.<>) (w.ended_at IS NOT NULL)
     OR NOT pg_catalog.isfinite(w.ended_at)
     OR NOT pg_catalog.isfinite(w.registered_at)
    UNION ALL
    SELECT 'worker has an unknown role'
     WHERE w.state OPERATOR(pg_catalog.<>) @WORKER_LABEL@ AND w.role_id NOT IN (SELECT r.role_id FROM taskq.role r)
    UNION ALL
    SELECT 'worker has an invalid limit'
     WHERE w.max_running OPERATOR(pg_catalog.<) 1
    UNION ALL
    SELECT 'worker is bound to an invalid connection'
     WHERE (w.bound_instance IS NULL) OPERATOR(pg_catalog.<>) (w.bound_session IS NULL)
     OR w.bound_instance OPERATOR(pg_catalog.<=) 0 OR w.bound_session OPERATOR(pg_catalog.<=) 0
     OR (w.state OPERATOR(pg_catalog.=) @WORKER_LABEL@ AND w.bound_session IS NOT NULL)
    UNION ALL
    SELECT 'tags are not a sorted set'
     WHERE pg_catalog.cardinality(w.tags) OPERATOR(pg_catalog.>) 16
     OR EXISTS (SELECT FROM pg_catalog.unnest(w.tags) AS u (tag)
                 WHERE u.tag IS NULL
                    OR pg_catalog.octet_length(u.tag) NOT BETWEEN 1 AND 63)
     OR w.tags IS DISTINCT FROM
        (SELECT coalesce(pg_catalog.array_agg(DISTINCT u.tag COLLATE "C" ORDER BY u.tag COLLATE "C"), '{}')
           FROM pg_catalog.unnest(w.tags) AS u (tag))) p
UNION ALL
SELECT 'two workers have one name', pg_catalog.concat('worker ', pg_catalog.max(w.worker_id))
  FROM taskq.worker w
 WHERE w.state OPERATOR(pg_catalog.=) @WORKER_ACTIVE@
 GROUP BY w.name
HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1
UNION ALL
/* History */
SELECT 'change of state is invalid', pg_catalog.concat('transition ', t.transition_id, ', task ', t.task_id)
  FROM taskq.transition t
 /* only a manual change leaves the state as it was */
 WHERE (t.from_state OPERATOR(pg_catalog.=) t.to_state
        AND t.from_state NOT IN (@STATE_PENDING@, @STATE_BLOCKED@, @STATE_RUNNING@, @STATE_SUSPENDED@, @STATE_DEAD@))
    OR t.from_state NOT BETWEEN @STATE_NONE@ AND @STATE_LAST@ OR t.to_state NOT BETWEEN @STATE_NONE@ AND @STATE_LAST@
    OR (t.to_state OPERATOR(pg_catalog.=) @STATE_NONE@ AND t.from_state OPERATOR(pg_catalog.=) @STATE_RUNNING@)
    OR (t.from_state OPERATOR(pg_catalog.=) @STATE_NONE@ AND t.to_state NOT IN (@STATE_PENDING@, @STATE_BLOCKED@, @STATE_SUSPENDED@))
    OR (t.reason OPERATOR(pg_catalog.<>) @REASON_NONE@ AND taskq.reason_name(t.reason) IS NULL)
    OR NOT pg_catalog.isfinite(t.at)
    OR (t.role_id OPERATOR(pg_catalog.<>) 0 AND t.role_id NOT IN (SELECT r.role_id FROM taskq.role r))
UNION ALL
SELECT 'change in the log is invalid', pg_catalog.concat('change ', c.change_id)
  FROM taskq.change_log c
 WHERE NOT pg_catalog.isfinite(c.at)
    OR c.role_id NOT IN (SELECT r.role_id FROM taskq.role r)
UNION ALL
/* Tables with one row */
SELECT 'leaf that is being filled is not known', pg_catalog.concat('leaf ', r.bucket)
  FROM taskq.archive_rotation r
 WHERE r.bucket NOT BETWEEN 0 AND 15 OR NOT r.only_row
    OR NOT pg_catalog.isfinite(r.since)
UNION ALL
SELECT 'instance is not known', 'taskq.instance is empty'
 WHERE NOT EXISTS (SELECT FROM taskq.instance)
UNION ALL
/* Sequences show their current values, which may be later than the rows. */
SELECT 'sequence is behind its table', s.name
  FROM (SELECT 'taskq.task_id_seq' AS name, q.last_value, q.is_called,
               (SELECT pg_catalog.max(y.task_id OPERATOR(pg_catalog.&) 8796093022207)
                  FROM (SELECT t.task_id FROM taskq.task t
                         UNION ALL
                        SELECT a.task_id FROM taskq.archive a) y
                 WHERE (y.task_id OPERATOR(pg_catalog.>>) 43) =
                       coalesce(pg_catalog.current_setting('taskq.node_id', true)::bigint, 0)) AS used
          FROM taskq.task_id_seq q
         UNION ALL
        SELECT 'taskq.queue_id_seq', q.last_value, q.is_called,
               (SELECT pg_catalog.max(y.queue_id) FROM taskq.queue y)
          FROM taskq.queue_id_seq q
         UNION ALL
        SELECT 'taskq.role_id_seq', q.last_value, q.is_called,
               (SELECT pg_catalog.max(y.role_id) FROM taskq.role y)
          FROM taskq.role_id_seq q
         UNION ALL
        SELECT 'taskq.lane_row_seq', q.last_value, q.is_called,
               (SELECT pg_catalog.max(y.lane_row) FROM taskq.lane y)
          FROM taskq.lane_row_seq q
         UNION ALL
        SELECT 'taskq.transition_id_seq', q.last_value, q.is_called,
               (SELECT pg_catalog.max(y.transition_id) FROM taskq.transition y)
          FROM taskq.transition_id_seq q
         UNION ALL
        SELECT 'taskq.change_id_seq', q.last_value, q.is_called,
               (SELECT pg_catalog.max(y.change_id) FROM taskq.change_log y)
          FROM taskq.change_id_seq q) s
 WHERE s.used OPERATOR(pg_catalog.>) s.last_value OR (s.used OPERATOR(pg_catalog.=) s.last_value AND NOT s.is_called)
UNION ALL
/* Tables and indexes */
SELECT 'table is not logged', pg_catalog.concat('taskq.', c.relname)
  FROM pg_catalog.pg_class c
 WHERE c.relnamespace OPERATOR(pg_catalog.=) 'taskq'::pg_catalog.regnamespace
   AND c.relkind IN ('r', 'p', 'i', 'I', 'S')
   AND c.relpersistence OPERATOR(pg_catalog.<>)
       CASE WHEN pg_catalog.starts_with(c.relname::pg_catalog.text, 'metric_minute') THEN 'u' ELSE 'p' END
UNION ALL
SELECT 'index cannot be used', pg_catalog.concat('taskq.', c.relname)
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
 WHERE c.relnamespace OPERATOR(pg_catalog.=) 'taskq'::pg_catalog.regnamespace
   AND NOT (i.indisvalid AND i.indisready AND i.indislive);
COMMENT ON VIEW taskq.table_problem IS 'Disagreements between tables; no rows in a sound database';

CREATE FUNCTION taskq_check() RETURNS TABLE (problem text, detail text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_check';
COMMENT ON FUNCTION taskq_check() IS
    'Every disagreement between tables, archive and the running tasks in shared memory; no rows if all agree; requires manage on ''*''';

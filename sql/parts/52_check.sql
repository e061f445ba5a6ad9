/*
 * 52_check: do tables and memory agree?
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
 WHERE t.state OPERATOR(pg_catalog.<) 1 OR t.state OPERATOR(pg_catalog.>) 4
UNION ALL
SELECT 'finished task has no finished state', pg_catalog.concat('task ', a.task_id, ', state ', a.state)
  FROM taskq.archive a
 WHERE a.state OPERATOR(pg_catalog.<) 5 OR a.state OPERATOR(pg_catalog.>) 10
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
SELECT 'running task is held by nobody', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) 3
   AND t.worker_id OPERATOR(pg_catalog.=) 0
   AND t.lease_until OPERATOR(pg_catalog.=) 'infinity'
UNION ALL
SELECT 'running task has no token or attempt', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) 3
   AND (t.token OPERATOR(pg_catalog.<=) 0
        OR t.attempt OPERATOR(pg_catalog.<=) 0
        OR NOT pg_catalog.isfinite(t.claimed_at))
UNION ALL
SELECT 'waiting task is held', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.<>) 3
   AND (t.worker_id OPERATOR(pg_catalog.<>) 0
        OR t.lease_until OPERATOR(pg_catalog.<>) 'infinity'
        OR t.claimed_at OPERATOR(pg_catalog.<>) '-infinity')
UNION ALL
SELECT 'pending task has no position', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) 1
   AND NOT pg_catalog.isfinite(t.available_at)
UNION ALL
SELECT 'task that cannot be claimed has a position', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state IN (2, 4)
   AND t.available_at OPERATOR(pg_catalog.<>) 'infinity'
UNION ALL
SELECT 'pending task has a due time that no timer knows', pg_catalog.concat('task ', t.task_id)
  FROM taskq.task t
 WHERE t.state OPERATOR(pg_catalog.=) 1
   AND t.available_at OPERATOR(pg_catalog.>)
       (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) interval '1 s')
   AND t.wake_at IS DISTINCT FROM t.available_at
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
 CROSS JOIN pg_catalog.generate_series(0, 6) AS p (part)
 WHERE b.large::integer OPERATOR(pg_catalog.&) (1 OPERATOR(pg_catalog.<<) p.part)
       OPERATOR(pg_catalog.<>) 0
   AND NOT EXISTS (SELECT FROM taskq.large l
                    WHERE l.task_id OPERATOR(pg_catalog.=) b.task_id
                      AND l.part OPERATOR(pg_catalog.=) p.part)
UNION ALL
SELECT 'large part is not referred to', pg_catalog.concat('task ', l.task_id, ', part ', l.part)
  FROM taskq.large l
  JOIN (SELECT t.task_id, t.large FROM taskq.task t
         UNION ALL
        SELECT a.task_id, a.large FROM taskq.archive a) b USING (task_id)
 WHERE b.large::integer OPERATOR(pg_catalog.&) (1 OPERATOR(pg_catalog.<<) l.part::integer)
       OPERATOR(pg_catalog.=) 0;
COMMENT ON VIEW taskq.table_problem IS 'Disagreements between tables; no row in a sound database';

CREATE FUNCTION taskq_check() RETURNS TABLE (problem text, detail text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_check';
COMMENT ON FUNCTION taskq_check() IS
    'Every disagreement between tables, archive and the registry of running tasks; no rows = sound; needs manage on ''*''';

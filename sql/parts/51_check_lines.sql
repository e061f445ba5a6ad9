/*
 * 51_check_lines: do the tasks of a key wait as their queue requires?
 *
 * keyed/key_queue.c describes the state of a key queue at rest.
 */
CREATE VIEW taskq.line_problem AS
WITH rule AS (
    SELECT q.queue_id,
           CASE WHEN s.policy OPERATOR(pg_catalog.<>) 'none' THEN 1 ELSE s.per_key END AS open,
           s.policy IN ('serial_hold_on_failure', 'serial_until_success') AS held_by_dead,
           s.policy OPERATOR(pg_catalog.=) 'serial_until_success' AS held_by_suspended,
           s.lifo
      FROM taskq.queue q
      LEFT JOIN taskq.queue d ON d.queue_id OPERATOR(pg_catalog.=) 0
     CROSS JOIN LATERAL (
        SELECT coalesce(q.options OPERATOR(pg_catalog.->>) 'key_policy',
                        d.options OPERATOR(pg_catalog.->>) 'key_policy', 'none') AS policy,
               coalesce(q.options OPERATOR(pg_catalog.->>) 'max_running_per_key',
                        d.options OPERATOR(pg_catalog.->>) 'max_running_per_key')::bigint AS per_key,
               coalesce(q.options OPERATOR(pg_catalog.->>) 'order',
                        d.options OPERATOR(pg_catalog.->>) 'order', 'fifo') OPERATOR(pg_catalog.=) 'lifo' AS lifo) s
     WHERE q.queue_id OPERATOR(pg_catalog.<>) 0),
line AS (
    SELECT t.queue_id, t.key, r.open, r.lifo,
           pg_catalog.count(*) FILTER (WHERE t.state OPERATOR(pg_catalog.=) @STATE_PENDING@) AS pending,
           pg_catalog.count(*) FILTER (WHERE t.state IN (@STATE_PENDING@, @STATE_RUNNING@)) AS opened,
           pg_catalog.count(*) FILTER (WHERE t.state OPERATOR(pg_catalog.=) @STATE_BLOCKED@
                AND (t.flags OPERATOR(pg_catalog.&) 8::smallint) OPERATOR(pg_catalog.<>) 0) AS waiting,
           pg_catalog.min(t.task_id) FILTER (WHERE t.state OPERATOR(pg_catalog.=) @STATE_BLOCKED@
                AND (t.flags OPERATOR(pg_catalog.&) 8::smallint) OPERATOR(pg_catalog.<>) 0) AS first_waiting,
           pg_catalog.max(t.task_id) FILTER (WHERE t.state OPERATOR(pg_catalog.=) @STATE_BLOCKED@
                AND (t.flags OPERATOR(pg_catalog.&) 8::smallint) OPERATOR(pg_catalog.<>) 0) AS last_waiting,
           pg_catalog.bool_or(t.state OPERATOR(pg_catalog.=) @STATE_SUSPENDED@
                AND (r.held_by_suspended
                     OR (r.held_by_dead AND t.reason OPERATOR(pg_catalog.=) @REASON_WORKER_DEAD@)))
           OR (r.held_by_dead
               AND EXISTS (SELECT FROM taskq.archive_keep a
                            WHERE a.queue_id OPERATOR(pg_catalog.=) t.queue_id
                              AND a.key OPERATOR(pg_catalog.=) t.key
                              AND a.state OPERATOR(pg_catalog.=) @STATE_DEAD@
                              AND a.reason OPERATOR(pg_catalog.<>) @REASON_POISON@)) AS held
      FROM taskq.task t JOIN rule r USING (queue_id)
     WHERE t.key IS NOT NULL
     GROUP BY t.queue_id, t.key, r.open, r.lifo, r.held_by_dead)
SELECT p.problem, pg_catalog.concat('queue ', l.queue_id, ', key ', l.key) AS detail
  FROM line l
 CROSS JOIN LATERAL (
    SELECT 'task waits for other tasks of its key, but none of them blocks it' AS problem
     WHERE l.waiting OPERATOR(pg_catalog.>) 0
       AND (l.open IS NULL
            OR (l.opened OPERATOR(pg_catalog.<) l.open AND NOT l.held))
    UNION ALL
    SELECT 'more tasks of a key are pending than allowed'
     WHERE l.pending OPERATOR(pg_catalog.>) 0 AND l.opened OPERATOR(pg_catalog.>) l.open
    UNION ALL
    SELECT 'task is pending although its key is held'
     WHERE l.pending OPERATOR(pg_catalog.>) 0 AND l.open IS NOT NULL AND l.held) p
UNION ALL
SELECT 'task is out of order in its key, but the key is not marked',
       pg_catalog.concat('task ', t.task_id)
  FROM line l
  JOIN taskq.task t
    ON t.queue_id OPERATOR(pg_catalog.=) l.queue_id AND t.key OPERATOR(pg_catalog.=) l.key
 WHERE t.state IN (@STATE_PENDING@, @STATE_RUNNING@) AND l.waiting OPERATOR(pg_catalog.>) 0 AND l.open IS NOT NULL
   AND CASE WHEN l.lifo THEN t.task_id OPERATOR(pg_catalog.<) l.last_waiting
            ELSE t.task_id OPERATOR(pg_catalog.>) l.first_waiting END
   AND NOT EXISTS (SELECT FROM taskq.key k
                    WHERE k.queue_id OPERATOR(pg_catalog.=) t.queue_id
                      AND k.key OPERATOR(pg_catalog.=) t.key
                      AND t.task_id OPERATOR(pg_catalog.=) ANY (k.out_of_order));
COMMENT ON VIEW taskq.line_problem IS 'Tasks that do not wait for other tasks of their key as their queue requires';

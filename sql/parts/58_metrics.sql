/*
 * 58_metrics: counters, histograms and gauges.
 *
 * Counters and histograms come from shared memory, gauges from there and from
 * taskq.queues.  Each function filters by the privileges of current_user.
 */
CREATE FUNCTION taskq.metric_rows()
    RETURNS TABLE (
        name text,
        queue text,
        labels jsonb,
        kind text,
        value double precision,
        bucket_bounds double precision[],
        bucket_counts bigint[],
        sum double precision,
        count bigint,
        since timestamp with time zone)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_metric_rows';
COMMENT ON FUNCTION taskq.metric_rows() IS
    'Counters and histograms that current_user may read, and gauges of the server';

CREATE VIEW taskq.metrics WITH (security_barrier) AS
SELECT m.name, m.queue, m.labels, m.kind, m.value, m.bucket_bounds,
       m.bucket_counts, m.sum, m.count, m.since
  FROM taskq.metric_rows() m
 UNION ALL
SELECT g.name, q.queue, g.labels, 'gauge', g.value, NULL, NULL, NULL, NULL, NULL
  FROM taskq.queues q
 CROSS JOIN LATERAL (VALUES
       ('tasks.depth', '{"state": "pending"}'::jsonb, q.pending::double precision),
       ('tasks.depth', '{"state": "blocked"}', q.blocked),
       ('tasks.depth', '{"state": "running"}', q.running),
       ('tasks.depth', '{"state": "suspended"}', q.suspended),
       ('tasks.ready', '{}', q.ready),
       ('tasks.oldest_ready_age', '{}', coalesce(EXTRACT(epoch FROM q.oldest_ready_age), 0)),
       ('workers.active', '{}', q.active_workers),
       ('workers.waiting', '{}', coalesce(q.waiters, 0))
       ) g (name, labels, value);
COMMENT ON VIEW taskq.metrics IS
    'Counters, histograms and gauges: of queues that current_user may read, and of the database if current_user may read all queues; units are seconds and tasks';

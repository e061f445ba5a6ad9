/*
 * 58_metrics: counters, histograms and gauges.
 *
 * query/metric_set.c lists them.  Each function filters by the privileges of
 * current_user, or requires those on all queues.
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
    'Counters, histograms and gauges that current_user may read';

CREATE VIEW taskq.metrics WITH (security_barrier) AS
SELECT m.name, m.queue, m.labels, m.kind, m.value, m.bucket_bounds,
       m.bucket_counts, m.sum, m.count, m.since
  FROM taskq.metric_rows() m;
COMMENT ON VIEW taskq.metrics IS
    'Counters, histograms and gauges: of queues that current_user may read, and of the database if current_user may read all queues; units are seconds and tasks';

CREATE FUNCTION taskq_openmetrics(format text DEFAULT 'openmetrics') RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_openmetrics';
COMMENT ON FUNCTION taskq_openmetrics(text) IS
    'The metrics of all queues as text: openmetrics, or prometheus for text format 0.0.4';

CREATE FUNCTION taskq.metric_minutes(queue_id integer)
    RETURNS TABLE (
        at timestamp with time zone,
        submitted bigint,
        claimed bigint,
        completed bigint,
        failed bigint,
        dead bigint,
        ready bigint,
        running bigint,
        oldest_ready_age interval,
        wait_p50 interval,
        wait_p95 interval,
        run_p50 interval,
        run_p95 interval)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1440
    AS 'MODULE_PATHNAME', 'taskq_metric_minutes';
COMMENT ON FUNCTION taskq.metric_minutes(integer) IS
    'Numbers of a queue that current_user may read, of each minute of the last 24 hours';

CREATE VIEW taskq.metric_history WITH (security_barrier) AS
SELECT q.name COLLATE "default" AS queue,
       m.at, m.submitted, m.claimed, m.completed, m.failed, m.dead, m.ready,
       m.running, m.oldest_ready_age, m.wait_p50, m.wait_p95, m.run_p50,
       m.run_p95
  FROM taskq.queue q
 CROSS JOIN LATERAL taskq.metric_minutes(q.queue_id) m
 WHERE q.queue_id OPERATOR(pg_catalog.<>) 0
   AND taskq.may_read(q.queue_id);
COMMENT ON VIEW taskq.metric_history IS
    'Numbers of queues that current_user may read, of each minute of the last 24 hours in which the background worker ran; empty after a crash and on a standby';

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

--
-- metric_history: which rows of the last day a role sees, and what removes them
--
-- (tap:metric_history shows what the background worker writes)
SELECT taskq_create_queue('mh'), taskq_create_queue('mh other');
CREATE FUNCTION t.minute(queue_name text, ago interval, submitted integer) RETURNS void LANGUAGE sql AS $$
    INSERT INTO taskq.metric_minute
    SELECT queue_id, (extract(epoch FROM m) / 60)::bigint % 1500, m, submitted, 2, 3, 4, 5, 6, 7, 1.5, 0.25, 60, NULL, 90061
      FROM taskq.queue, date_trunc('minute', now() - ago) m WHERE name = queue_name
$$;
SELECT t.minute('mh', '5 min', 1), t.minute('mh', '6 min', NULL), t.minute('mh other', '5 min', 10);
-- the columns
SELECT queue, now() - at BETWEEN '4 min' AND '7 min' AS at, submitted, claimed, completed, failed, dead, ready, running, oldest_ready_age, wait_p50, wait_p95, run_p50, run_p95
  FROM taskq.metric_history WHERE queue = 'mh' AND at < now() - interval '4 min' ORDER BY at;
-- rows that are older than a day
UPDATE taskq.metric_minute SET at = at - interval '1 day' WHERE queue_id = (SELECT queue_id FROM taskq.queue WHERE name = 'mh') AND submitted IS NULL;
SELECT submitted FROM taskq.metric_history WHERE queue = 'mh' AND at < now() - interval '4 min' ORDER BY at;
-- a role sees the queues that it may read
CREATE ROLE regress_taskq_history_read;
CREATE ROLE regress_taskq_history_work;
CREATE ROLE regress_taskq_history_monitor IN ROLE pg_monitor;
SELECT taskq_grant('mh', 'regress_taskq_history_read', '{read}'), taskq_grant('mh', 'regress_taskq_history_work', '{submit,work,manage}');
CREATE FUNCTION t.sees() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', current_user, string_agg(DISTINCT queue, ', ' ORDER BY queue)) FROM taskq.metric_history WHERE queue LIKE 'mh%' AND at < now() - interval '4 min'
$$;
SELECT queue_id AS id FROM taskq.queue WHERE name = 'mh other' \gset
SET ROLE regress_taskq_history_read; SELECT t.sees(); SELECT count(*) FROM taskq.metric_minutes(:id); RESET ROLE;
SET ROLE regress_taskq_history_work; SELECT t.sees(); RESET ROLE;
SET ROLE regress_taskq_history_monitor; SELECT t.sees(); RESET ROLE;
SET ROLE regress_taskq_history_read; SELECT t.try('SELECT count(*) FROM taskq.metric_minute'); RESET ROLE;
SELECT count(*) AS of_null FROM taskq.metric_minutes(NULL);
SELECT count(*) AS of_none FROM (SELECT taskq.metric_minutes(q) FROM unnest(ARRAY[0, -1]) q) m;
DELETE FROM taskq.metric_history;
SELECT taskq_revoke('mh', 'regress_taskq_history_read', '{read}'), taskq_revoke('mh', 'regress_taskq_history_work', '{submit,work,manage}');
-- a queue that is dropped takes its rows with it
SELECT queue_id AS dropped FROM taskq.queue WHERE name = 'mh' \gset
SELECT taskq_drop_queue('mh', true);
SELECT count(*) FILTER (WHERE queue_id = :dropped) AS of_mh, count(*) FILTER (WHERE queue_id = :id) AS of_the_other FROM taskq.metric_minute WHERE at < now() - interval '4 min';
SELECT taskq_create_queue('mh');
SELECT count(*) FROM taskq.metric_history WHERE queue = 'mh' AND at < now() - interval '4 min';
SELECT taskq_drop_queue('mh', true), taskq_drop_queue('mh other', true);
SELECT * FROM taskq_check();
DROP FUNCTION t.sees(), t.minute(text, interval, integer);
DROP ROLE regress_taskq_history_read, regress_taskq_history_work, regress_taskq_history_monitor;

--
-- Many tasks, written directly as the extension's owner, in the way that the
-- extension would leave them: taskq_check() has nothing to say.
--
-- psql variables: live, finished (numbers of tasks).  Live and finished ones
-- are interleaved.  Of 200 queues, q1 has nine tenths, q199 few, and all of
-- q200's are the newest.  Every thousandth finished task is dead.
--
\set ON_ERROR_STOP on
SET synchronous_commit = off;
SET maintenance_work_mem = '256MB';
SELECT count(taskq_create_queue('q' || i)) FROM generate_series(1, 200) i;
-- their lanes, and roles' numbers
SELECT count(taskq_submit('q' || i, '1')) FROM generate_series(1, 200) i;
SELECT count(taskq_register('worker ' || i)) FROM generate_series(1, 20) i;
CREATE TEMP TABLE f AS SELECT q.queue_id, l.lane_id, substr(q.name, 2)::int AS n
  FROM taskq.queue q JOIN taskq.lane l USING (queue_id);
CREATE TEMP TABLE w AS SELECT worker_id, row_number() OVER (ORDER BY worker_id) - 1 AS n FROM taskq.worker WHERE state = 1;
SELECT role_id FROM taskq.role LIMIT 1 \gset
SELECT last_value AS base, :live + :finished AS total, (:live + :finished) / :live AS step FROM taskq.task_id_seq \gset
CREATE FUNCTION pg_temp.queue_of(i bigint, total bigint) RETURNS int LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN i > total - total / 2000 THEN 200 WHEN i % 5001 = 7 THEN 199
                WHEN i % 10 <> 0 THEN 1 ELSE 2 + ((i / 10) % 197)::int END
$$;
ALTER TABLE taskq.task SET (autovacuum_enabled = off);
\timing on
INSERT INTO taskq.task (task_id, lane_id, available_at, run_at, created_at, token, version, claimed_at, lease_until, worker_id, claimed_by, attempt, state, priority, queue_id,
       max_attempts, submitted_by, reason, flags, wake_at, suspended_at, reference, key, correlation_id, payload)
SELECT :base + i, f.lane_id,
       CASE WHEN s.state IN (2, 4) THEN 'infinity' ELSE s.due END, CASE WHEN s.state IN (2, 4) THEN s.due END,
       CASE WHEN s.state IN (2, 4) OR s.at <> s.due THEN s.at END,
       (s.state = 3)::int, 1, CASE WHEN s.state = 3 THEN clock_timestamp() ELSE '-infinity' END,
       CASE WHEN s.state = 3 THEN clock_timestamp() + interval '1 d' ELSE 'infinity' END,
       CASE WHEN s.state = 3 THEN w.worker_id ELSE 0 END, 0, (s.state = 3)::int, s.state, 0, f.queue_id, 3, :role_id, 0, 0,
       CASE WHEN s.state = 1 AND s.due > now() THEN s.due END, CASE WHEN s.state = 4 THEN s.at END,
       CASE WHEN s.n % 10 = 1 THEN 'reference ' || i END, CASE WHEN s.n % 10 = 2 THEN 'key ' || i % 1009 END,
       CASE WHEN s.n % 10 = 3 THEN 'correlation ' || i % 1013 END, jsonb_build_object('n', i)
  FROM (SELECT i, i / :step AS n, CASE i / :step % 100 WHEN 1 THEN 3 WHEN 2 THEN 2 WHEN 3 THEN 4 WHEN 4 THEN 4 ELSE 1 END::smallint AS state,
               now() - interval '6 d' + i * (interval '5 d' / :total) AS at,
               CASE WHEN i / :step % 10 = 7 THEN now() + interval '1 h' + i * interval '1 ms' ELSE now() - interval '6 d' + i * (interval '5 d' / :total) END AS due
          FROM generate_series(:step::bigint, :total, :step) i) s
  JOIN f ON f.n = pg_temp.queue_of(s.i, :total) JOIN w ON w.n = s.i % 20;
ALTER TABLE taskq.task RESET (autovacuum_enabled);
CREATE TEMP VIEW finished AS
SELECT :base + i AS task_id, f.lane_id, s.at AS run_at, CASE WHEN i % 1000 = 1 THEN 6 WHEN i % 1000 = 2 THEN 7 WHEN i % 1000 = 3 THEN 8 ELSE 5 END::smallint AS state,
       f.queue_id, w.worker_id, CASE WHEN i % 30 = 1 THEN 'reference ' || i END AS reference, CASE WHEN i % 30 = 2 THEN 'key ' || i % 1009 END AS key,
       CASE WHEN i % 30 = 3 THEN 'correlation ' || i % 1013 END AS correlation_id, jsonb_build_object('n', i) AS payload, i,
       s.at + interval '1 h' AS finished_at
  FROM (SELECT i, now() - interval '6 d' + i * (interval '5 d' / :total) AS at FROM generate_series(1::bigint, :total) i WHERE i % :step <> 0) s
  JOIN f ON f.n = pg_temp.queue_of(s.i, :total) JOIN w ON w.n = s.i % 20;
INSERT INTO taskq.archive (task_id, lane_id, available_at, token, version, claimed_at, lease_until, worker_id, claimed_by, attempt, state, priority, queue_id,
       max_attempts, submitted_by, reason, flags, reference, key, correlation_id, payload, errors, bucket, finished_at, expires_at)
SELECT task_id, lane_id, run_at, 1, 2, finished_at - interval '1 s', 'infinity', worker_id, 0, 1, state, 0, queue_id,
       3, :role_id, CASE state WHEN 6 THEN 2 WHEN 7 THEN 11 ELSE 0 END, 0, reference, key, correlation_id, payload,
       CASE WHEN state = 6 THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'error', 'e', 'at', finished_at)) END,
       CASE WHEN state = 6 THEN 16 ELSE i * 14 / (:total + 1) END, finished_at, CASE WHEN state = 6 THEN finished_at + interval '30 d' END
  FROM finished;
INSERT INTO taskq.archive_rotation (only_row, bucket, since) SELECT true, 13, min(finished_at) FROM taskq.archive_13 ON CONFLICT (only_row) DO UPDATE SET bucket = 13, since = excluded.since;
SELECT setval('taskq.task_id_seq', :base + :total);
VACUUM (ANALYZE) taskq.task;
VACUUM (ANALYZE) taskq.archive;

--
-- rewritten: rows of running tasks that have moved since their claim, with rows of other tasks in
-- their places
--
SELECT taskq_create_queue('w', '{"retention": "none"}');
CREATE TABLE t.w (task_id bigint PRIMARY KEY, token bigint, payload jsonb);
SELECT count(*) FROM taskq_submit_many('w', (SELECT array_agg(to_jsonb(g) ORDER BY g) FROM generate_series(1, 2000) g));
INSERT INTO t.w SELECT task_id, token, payload FROM taskq_claim('w', max_tasks => 1000);
INSERT INTO t.w SELECT task_id, token, payload FROM taskq_claim('w', max_tasks => 1000);
CREATE VIEW t.spread AS SELECT count(*) AS tasks, count(DISTINCT (ctid::text::point)[0]) > 10 AS on_many_pages FROM taskq.task;
SELECT * FROM t.spread;
-- few are left, and the table ends before their former place
SELECT count(*) AS completed FROM (SELECT taskq_complete(task_id, token) FROM t.w ORDER BY task_id LIMIT 1900) c;
DELETE FROM t.w w WHERE NOT EXISTS (SELECT FROM taskq.task t WHERE t.task_id = w.task_id);
VACUUM FULL taskq.task;
SELECT * FROM t.spread;
SELECT count(*) AS completed, min(payload::int), max(payload::int) FROM (SELECT payload, taskq_complete(task_id, token) FROM t.w WHERE payload::int > 1980) c;
SELECT count(*) AS failed FROM (SELECT taskq_fail(task_id, token, 'again', retry_in => '1 h') FROM t.w WHERE payload::int <= 1920) f;
SELECT state, count(*), min(payload::int), max(payload::int) FROM t.w JOIN taskq.tasks USING (task_id, payload) GROUP BY state ORDER BY state;
-- pages are full after that, so rows take the places of others
TRUNCATE t.w;
SELECT count(taskq_cancel(task_id)) AS cancelled FROM taskq.tasks WHERE queue = 'w' AND state = 'pending';
SELECT taskq_create_queue('x', '{"retention": "none"}');
SELECT count(*) FROM taskq_submit_many('x', (SELECT array_agg(to_jsonb(g) ORDER BY g) FROM generate_series(1, 500) g));
INSERT INTO t.w SELECT task_id, token, payload FROM taskq_claim('x', max_tasks => 500);
CREATE TABLE t.was AS SELECT ctid::text AS place, task_id FROM taskq.task;
ALTER TABLE taskq.task SET (fillfactor = 100);
VACUUM FULL taskq.task;
ALTER TABLE taskq.task SET (fillfactor = 50);
SELECT count(*) > 50 AS stand_where_others_were FROM taskq.task t JOIN t.was w ON w.place = t.ctid::text AND w.task_id <> t.task_id;
SELECT count(*) AS completed, count(DISTINCT task_id) FROM (SELECT task_id, taskq_complete(task_id, token) FROM t.w WHERE payload::int % 3 = 0) c;
SELECT count(*) AS extended FROM (SELECT taskq_extend(task_id, token, '1 h') FROM t.w WHERE payload::int % 3 = 1) e;
SELECT payload::int % 3 AS rest, count(*), count(lease_until) FILTER (WHERE lease_until > now() + interval '50 min') AS an_hour FROM t.w JOIN taskq.tasks USING (task_id, payload) WHERE state = 'running' GROUP BY rest ORDER BY rest;
SELECT count(*) AS completed FROM (SELECT taskq_complete(task_id, token) FROM t.w WHERE payload::int % 3 > 0) c;
SELECT count(*) FROM taskq.tasks WHERE queue = 'x';
SELECT * FROM taskq_check();
SELECT taskq_drop_queue('w', true), taskq_drop_queue('x', true);

--
-- metrics: what is counted, when, and which roles see it
--
SELECT taskq_create_queue('m', '{"retry": "fixed", "retry_base": "0 s", "retention": "none", "max_attempts": 10}'), taskq_create_queue('m other');
-- counters that are not 0, and how many times each histogram was observed
CREATE FUNCTION t.counted(queue_name text DEFAULT 'm') RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(name || coalesce(' ' || (labels ->> 'reason'), '') || ' ' || coalesce(value::bigint, count), ', ' ORDER BY kind, name, labels)
      FROM taskq.metrics WHERE queue = queue_name AND kind <> 'gauge' AND (value > 0 OR count > 0)
$$;
-- the metrics of a queue, before anything has happened, once finished tasks have been counted
CALL t.until($$SELECT count(*) = 2 FROM taskq.metrics WHERE name = 'tasks.dead' AND queue LIKE 'm%'$$);
SELECT name, labels, kind, value, count, sum, cardinality(bucket_bounds) AS bounds, bucket_counts[1] AS first, since <= now() AS since
  FROM taskq.metrics WHERE queue = 'm' ORDER BY kind, name, labels;
SELECT bucket_bounds FROM taskq.metrics WHERE queue = 'm' AND name = 'tasks.queue.wait';
-- a task of a queue without others, claimed
CREATE FUNCTION t.one(queue_name text, lease interval DEFAULT NULL) RETURNS SETOF taskq.claimed LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskq_submit(queue_name);
    RETURN QUERY SELECT * FROM taskq_claim(queue_name, lease => lease);
END
$$;
-- metrics of no queue: visible to roles that may read all queues
SELECT name, kind, labels, value >= 0 AS value FROM taskq.metrics WHERE queue IS NULL ORDER BY name, labels;
-- submitted, claimed, completed
SELECT count(*) FROM taskq_submit_many('m', ARRAY['1', '2', '3', '4', '5', '6']::jsonb[]);
SELECT t.counted();
SELECT taskq_complete(task_id, token) FROM taskq_claim('m', max_tasks => 2);
SELECT t.counted();
-- a task that is submitted again under its reference counts once
SELECT taskq_submit('m other', '1', reference => 'r') = taskq_submit('m other', '2', reference => 'r', on_conflict => 'return') AS same;
SELECT count(taskq_submit('m other', '3', reference => 'r', on_conflict => 'update'));
SELECT t.counted('m other');
-- a submit whose reference is held by a finished task does not count
SELECT taskq_alter_queue('m other', '{"reference_window": "1 h"}');
SELECT taskq_complete(task_id, token) FROM taskq_claim('m other');
SELECT taskq_submit('m other', reference => 'r', on_conflict => 'skip') IS NULL AS skipped FROM generate_series(1, 2);
SELECT t.counted('m other');
-- a failure that is retried, a release, a failure that is not retried
SELECT taskq_fail(task_id, token, 'e') FROM taskq_claim('m');
SELECT taskq_release(task_id, token) FROM taskq_claim('m');
SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('m');
SELECT t.counted();
-- filtered and suspended are neither completed nor failed
SELECT taskq_filter(task_id, token) FROM taskq_claim('m');
SELECT taskq_suspend(task_id, token) FROM taskq_claim('m');
SELECT t.counted();
-- a lease that expires, a time limit
SELECT count(*) FROM taskq_claim('m', lease => '1 ms');
CALL t.until($$SELECT count(*) = 1 FROM taskq.metrics WHERE queue = 'm' AND name = 'tasks.requeued' AND labels ->> 'reason' = 'lease_expired' AND value = 1$$);
SELECT taskq_alter_queue('m', '{"time_limit": "1 ms"}');
SELECT count(*) FROM taskq_claim('m');
CALL t.until($$SELECT count(*) = 1 FROM taskq.metrics WHERE queue = 'm' AND name = 'tasks.requeued' AND labels ->> 'reason' = 'timeout' AND value = 1$$);
SELECT t.counted();
SELECT taskq_alter_queue('m', '{"time_limit": null}');
-- workers: registered, dead with a task, deregistered
SELECT taskq_register('m1'), taskq_expire('m1', '1 us') >= 0 AS others_are_gone;
SELECT value AS registered FROM taskq.metrics WHERE name = 'workers.registered' AND queue IS NULL \gset
SELECT value AS died FROM taskq.metrics WHERE name = 'workers.died' AND queue IS NULL \gset
SELECT taskq_register('m2'), taskq_register('m1', keep => true);
SELECT count(*) FROM taskq_claim('m', 'm2');
CALL t.until($$SELECT taskq_expire('m1', '1 us') = 1$$);
CALL t.until($$SELECT count(*) = 1 FROM taskq.metrics WHERE queue = 'm' AND name = 'tasks.requeued' AND labels ->> 'reason' = 'worker_dead' AND value = 1$$);
SELECT taskq_deregister('m1');
SELECT name, value - CASE name WHEN 'workers.registered' THEN :registered ELSE :died END AS more
  FROM taskq.metrics WHERE name IN ('workers.registered', 'workers.died') AND queue IS NULL ORDER BY name;
SELECT t.counted();
-- a registration counts for each existing queue that it names, or for none
SELECT taskq_register('m3', '{m,m,m other,no such}'), taskq_register('m4', '{m}'), taskq_register('m5', '{no such}');
SELECT taskq_register('m4', '{m other}', keep => true), taskq_deregister('m3'), taskq_deregister('m5');
CALL t.until($$SELECT taskq_register('m1') IS NOT NULL AND taskq_expire('m1', '1 us') = 1$$);
SELECT taskq_deregister('m1');
SELECT name, queue, value FROM taskq.metrics WHERE name LIKE 'workers.%' AND kind = 'counter' AND queue IS NOT NULL ORDER BY name, queue;
-- poisoned by hand: dead, but not failed; and a second time
SELECT task_id AS id FROM taskq_list('m', 'suspended') \gset
SELECT taskq_poison(:id);
SELECT taskq_retry(:id, reset_attempts => true);
SELECT t.counted();
-- what is rolled back did not happen; nor did what is not committed yet
BEGIN;
SELECT count(*) FROM taskq_submit_many('m', ARRAY['1', '2']::jsonb[]);
SELECT taskq_complete(task_id, token) FROM taskq_claim('m');
SELECT t.counted();
ROLLBACK;
SELECT t.counted();
-- nested savepoints
BEGIN;
SELECT count(taskq_submit('m other', suspended => true));
SAVEPOINT a;
SELECT count(taskq_submit('m other', suspended => true)) FROM generate_series(1, 10);
SAVEPOINT b;
SELECT count(taskq_submit('m other', suspended => true)) FROM generate_series(1, 100);
SELECT count(taskq_submit('m', suspended => true)) FROM generate_series(1, 100);
ROLLBACK TO b;
SELECT count(taskq_submit('m other', suspended => true)) FROM generate_series(1, 1000);
RELEASE b;
RELEASE a;
SAVEPOINT c;
SELECT count(taskq_submit('m other', suspended => true)) FROM generate_series(1, 10000);
ROLLBACK TO c;
COMMIT;
SELECT t.counted(), t.counted('m other');
DO $$
BEGIN
    FOR i IN 1 .. 50 LOOP
        BEGIN
            PERFORM taskq_submit(q, suspended => true) FROM unnest(ARRAY['m', 'm other', 'm']) q;
            IF i % 5 = 0 THEN
                RAISE division_by_zero;
            END IF;
        EXCEPTION WHEN division_by_zero THEN
            NULL;
        END;
    END LOOP;
END
$$;
SELECT t.counted(), t.counted('m other');
-- gauges have the values of taskq.queues
SELECT m.name, m.labels, m.value FROM taskq.metrics m WHERE m.queue = 'm other' AND m.kind = 'gauge' AND m.name <> 'tasks.oldest_ready_age' ORDER BY 1, 2;
SELECT count(*) AS different FROM taskq.metrics m JOIN taskq.queues q USING (queue)
 WHERE m.name = 'tasks.depth' AND m.value <> CASE m.labels ->> 'state' WHEN 'pending' THEN q.pending WHEN 'blocked' THEN q.blocked WHEN 'running' THEN q.running ELSE q.suspended END;
-- tasks that wait for another attempt: after a failure, not after a release
SELECT taskq_create_queue('m retry', '{"retry": "fixed", "retry_base": "0 s", "max_attempts": 10, "claim_durability": "flushed"}'), taskq_create_queue('m retry 2');
CREATE FUNCTION t.gauges(queue_name text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(name || ' ' || CASE WHEN name LIKE '%\_age' OR name LIKE '%longest%' THEN (value > 0)::text ELSE value::text END, ', ' ORDER BY name)
      FROM taskq.metrics WHERE queue = queue_name AND kind = 'gauge' AND name IN ('tasks.retries_waiting', 'tasks.longest_running', 'tasks.dead', 'tasks.oldest_dead_age')
$$;
SELECT count(*) FROM taskq_submit_many('m retry', ARRAY['1', '2', '3', '4', '5', '6']::jsonb[]);
SELECT t.gauges('m retry');
SELECT count(*) FROM taskq_claim('m retry', max_tasks => 6);
SELECT t.gauges('m retry');
BEGIN;
SELECT taskq_fail(task_id, token, 'e') FROM taskq_list('m retry') LIMIT 4;
SELECT t.gauges('m retry') AS in_the_transaction;
ROLLBACK;
SELECT t.gauges('m retry') AS rolled_back;
SELECT taskq_fail(task_id, token, 'e', retry_in => '1 h') FROM taskq_list('m retry') LIMIT 4;
SELECT taskq_release(task_id, token) FROM taskq_list('m retry', 'running') LIMIT 1;
SELECT t.gauges('m retry');
SELECT min(task_id) AS id FROM taskq_list('m retry') WHERE attempt = 1 AND state = 'pending' \gset
SELECT taskq_hold(:id);
SELECT t.gauges('m retry') AS one_suspended;
SELECT taskq_retry(:id);
SELECT t.gauges('m retry') AS pending_again;
SELECT taskq_update_task(:id, '{"queue": "m retry 2"}');
SELECT t.gauges('m retry'), t.gauges('m retry 2') AS of_the_other_queue;
SELECT taskq_hold(:id), taskq_retry(:id, reset_attempts => true);
SELECT t.gauges('m retry 2') AS attempts_reset;
SELECT taskq_poison(:id);
SELECT t.gauges('m retry') AS before, taskq_purge('m retry', '{pending}') AS purged;
SELECT t.gauges('m retry') AS after;
CALL t.until($$SELECT count(*) > 0 AND t.gauges('m retry 2') LIKE 'tasks.dead 1, %, tasks.oldest_dead_age true, %' FROM taskq_run_reapers()$$);
SELECT * FROM taskq_check();
SELECT taskq_drop_queue('m retry', true), taskq_drop_queue('m retry 2', true);
DROP FUNCTION t.gauges(text);
-- every task that ends is in the total-time histogram, whatever its end, each time
SELECT taskq_create_queue('m ends', '{"max_attempts": 1, "retry": "fixed", "retry_base": "0 s", "retention": "1 h"}');
CREATE FUNCTION t.ended() RETURNS bigint LANGUAGE sql AS $$
    SELECT count FROM taskq.metrics WHERE queue = 'm ends' AND name = 'tasks.end_to_end.duration'
$$;
SELECT taskq_fail(task_id, token, 'e') FROM t.one('m ends');
SELECT t.ended() AS exhausted;
SELECT taskq_fail(task_id, token, 'e', false) FROM t.one('m ends');
SELECT t.ended() AS rejected;
SELECT taskq_filter(task_id, token) FROM t.one('m ends');
SELECT t.ended() AS filtered;
SELECT taskq_cancel(task_id, force => true) FROM t.one('m ends');
SELECT t.ended() AS cancelled_running;
SELECT count(taskq_cancel(task_id, 'e')), count(taskq_fail(task_id, token, 'e')) FROM t.one('m ends');
SELECT t.ended() AS cancelled_on_request;
SELECT taskq_cancel(taskq_submit('m ends'));
SELECT t.ended() AS cancelled_waiting;
SELECT taskq_submit('m ends', key => 'k') AS id \gset
SELECT count(taskq_submit('m ends', key => 'k', insertion => 'supersede'));
SELECT t.ended() AS redundant;
SELECT taskq_poison(task_id), taskq_resolve(task_id, force => true) FROM taskq_list('m ends', 'pending');
SELECT t.ended() AS poisoned_and_then_resolved;
SELECT taskq_retry(task_id) FROM taskq_list('m ends', 'done');
SELECT t.ended() AS retried;
SELECT taskq_resolve(task_id) FROM taskq_list('m ends', 'pending');
SELECT t.ended() AS again;
SELECT count(taskq_submit('m ends', deadline => clock_timestamp() + interval '10 ms'));
CALL t.until($$SELECT count(*) > 0 AND EXISTS (SELECT FROM taskq.dead WHERE queue = 'm ends' AND reason = 'deadline') FROM taskq_run_reapers()$$);
SELECT t.ended() AS deadline;
SELECT count(*) FROM t.one('m ends', '1 ms');
CALL t.until($$SELECT count(*) > 0 FROM taskq.dead WHERE queue = 'm ends' AND reason = 'lease_expired'$$);
SELECT t.ended() AS lease_expired;
-- a task that is removed or suspended has not ended
SELECT count(taskq_suspend(task_id, token)) FROM t.one('m ends');
SELECT taskq_purge('m ends', '{suspended}');
SELECT t.ended() AS suspended_and_removed;
SELECT taskq_drop_queue('m ends', true) > 0 AS removed;
DROP FUNCTION t.ended(), t.one(text, interval);
-- a removed task is no longer counted as existing
SELECT taskq_purge('m other', '{suspended}') > 1000 AS purged;
SELECT m.value FROM taskq.metrics m WHERE m.queue = 'm other' AND m.labels ->> 'state' = 'suspended';
SELECT * FROM taskq_check();
-- retention counts what it removes
SELECT taskq_create_queue('m clean', '{"retention": "1 us"}');
SELECT count(*) FROM taskq_submit_many('m clean', ARRAY['1', '2', '3']::jsonb[]);
SELECT taskq_complete(task_id, token) FROM taskq_claim('m clean', max_tasks => 3);
SELECT count(*) > 0 AS done FROM taskq_run_reapers();
SELECT t.counted('m clean');
-- histograms: each bucket includes the lower ones; waits and times are those of the tasks
SELECT taskq_create_queue('m times', '{"retention": "none"}');
SELECT count(*) FROM taskq_submit_many('m times', ARRAY['1', '2', '3', '4']::jsonb[]);
UPDATE taskq.task t SET run_at = coalesce(t.run_at, t.available_at) - x.age, created_at = coalesce(t.created_at, t.available_at) - x.age
  FROM (SELECT task_id, (ARRAY['0', '15 s', '7 min', '3 d'])[row_number() OVER (ORDER BY task_id)]::interval AS age FROM taskq_list('m times')) x WHERE x.task_id = t.task_id;
SELECT count(*) FROM taskq_claim('m times', max_tasks => 4);
UPDATE taskq.task t SET claimed_at = t.claimed_at - interval '15 s' WHERE task_id IN (SELECT task_id FROM taskq_list('m times'));
SELECT taskq_complete(task_id, token) FROM taskq_list('m times');
SELECT name, count, floor(sum / 100) AS hundreds, array_agg(le || ': ' || n ORDER BY le) FILTER (WHERE n > before) AS steps
  FROM (SELECT m.name, m.count, m.sum, b.le, b.n, lag(b.n, 1, 0::bigint) OVER (PARTITION BY m.name ORDER BY b.le) AS before
          FROM taskq.metrics m, unnest(m.bucket_bounds, m.bucket_counts) b (le, n) WHERE m.queue = 'm times' AND m.kind = 'histogram' AND b.le >= 10) s
 GROUP BY name, count, sum ORDER BY name;
-- which role sees what
CREATE ROLE regress_taskq_metric_read;
CREATE ROLE regress_taskq_metric_work;
CREATE ROLE regress_taskq_metric_all;
CREATE ROLE regress_taskq_metric_monitor IN ROLE pg_monitor;
SELECT taskq_grant('m', 'regress_taskq_metric_read', '{read}'), taskq_grant('m', 'regress_taskq_metric_work', '{submit,work,manage}'), taskq_grant('*', 'regress_taskq_metric_all', '{read}');
CREATE FUNCTION t.sees() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', current_user, count(*) FILTER (WHERE queue = 'm') > 20, count(*) FILTER (WHERE queue = 'm other'), count(*) FILTER (WHERE queue IS NULL)) FROM taskq.metrics
$$;
SELECT count(*) AS of_a_queue FROM taskq.metrics WHERE queue = 'm other';
SET ROLE regress_taskq_metric_read; SELECT t.sees(); RESET ROLE;
SET ROLE regress_taskq_metric_work; SELECT t.sees(); RESET ROLE;
SET ROLE regress_taskq_metric_all; SELECT t.sees(); RESET ROLE;
SET ROLE regress_taskq_metric_monitor; SELECT t.sees(); RESET ROLE;
SET ROLE regress_taskq_metric_work; SELECT count(*) FROM taskq.metric_rows(); RESET ROLE;
DELETE FROM taskq.metrics;
SELECT taskq_revoke('m', 'regress_taskq_metric_read', '{read}'), taskq_revoke('m', 'regress_taskq_metric_work', '{submit,work,manage}'), taskq_revoke('*', 'regress_taskq_metric_all', '{read}');
-- a queue that is dropped and created again starts at 0
SELECT taskq_drop_queue('m times', true);
SELECT count(*) FROM taskq.metrics WHERE queue = 'm times';
SELECT taskq_create_queue('m times');
SELECT t.counted('m times');
BEGIN;
SELECT count(taskq_submit('m times')) FROM generate_series(1, 3);
SELECT taskq_drop_queue('m times', true);
SELECT taskq_create_queue('m times');
SELECT count(taskq_submit('m times')) FROM generate_series(1, 2);
COMMIT;
SELECT t.counted('m times');
-- nothing was skipped
SELECT value FROM taskq.metrics WHERE name = 'metrics.not_counted';
SELECT taskq_drop_queue(q, true) > 0 AS removed FROM unnest(ARRAY['m', 'm other', 'm clean', 'm times']) q ORDER BY q;
DROP FUNCTION t.counted(text), t.sees();
DROP OWNED BY regress_taskq_metric_read, regress_taskq_metric_work, regress_taskq_metric_all, regress_taskq_metric_monitor;
DROP ROLE regress_taskq_metric_read, regress_taskq_metric_work, regress_taskq_metric_all, regress_taskq_metric_monitor;

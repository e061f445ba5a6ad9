--
-- limits: max_running, rate_limit, max_depth, and the counts of tasks
--
-- what can be claimed now, in order
CREATE FUNCTION t.claims(queue text, worker text DEFAULT NULL, max_tasks int DEFAULT 10) RETURNS text LANGUAGE sql AS $$
SELECT string_agg(c.payload::text, ' ') FROM taskq_claim($1, $2, $3) c;
$$;
-- the numbers of a queue
CREATE FUNCTION t.numbers(queue text) RETURNS text LANGUAGE sql AS $$
SELECT format('%s pending, %s ready, %s running, %s suspended, %s done', q.pending, q.ready, q.running, q.suspended, q.done) FROM taskq.queues q WHERE q.queue = $1;
$$;
-- a task of the queue by its payload
CREATE FUNCTION t.held(queue text, payload jsonb, OUT task_id bigint, OUT token bigint) LANGUAGE sql AS $$
SELECT s.task_id, s.token FROM taskq.tasks s WHERE s.queue = $1 AND s.payload = $2;
$$;
--
-- max_running of a queue
--
SELECT taskq_create_queue('lim', '{"max_running": 2}');
SELECT count(*) FROM taskq_submit_many('lim', '{1,2,3,4,5,6,7,8,9}');
SELECT t.claims('lim');
SELECT t.claims('lim') IS NULL AS full;
SELECT t.numbers('lim');
-- each end makes room for one task
SELECT taskq_complete(task_id, token) FROM t.held('lim', '1');
SELECT t.claims('lim');
SELECT taskq_fail(task_id, token, 'e', retry_in => '1 h') FROM t.held('lim', '2');
SELECT t.claims('lim');
SELECT taskq_release(task_id, token, '1 h') FROM t.held('lim', '3');
SELECT t.claims('lim');
SELECT taskq_suspend(task_id, token) FROM t.held('lim', '4');
SELECT t.claims('lim');
SELECT taskq_filter(task_id, token) FROM t.held('lim', '5');
SELECT t.claims('lim');
SELECT taskq_cancel(task_id, force => true) FROM t.held('lim', '6');
SELECT t.claims('lim');
SELECT taskq_fail(task_id, token, 'e', false) FROM t.held('lim', '7');
SELECT t.claims('lim');
SELECT t.numbers('lim');
-- a task that continues to run makes no room
SELECT cancel FROM t.held('lim', '8') h, taskq_extend(h.task_id, h.token, '1 h');
SELECT cancel FROM t.held('lim', '8') h, taskq_checkpoint(h.task_id, h.token, '1');
SELECT taskq_cancel(task_id) FROM t.held('lim', '8');
SELECT count(taskq_submit('lim', '10')) FROM generate_series(1, 3);
SELECT t.claims('lim') IS NULL AS full;
-- a stale token makes no room, nor does the same end reported twice
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', task_id, token - 1)), 5) FROM t.held('lim', '8');
SELECT taskq_complete(task_id, token) FROM t.held('lim', '9');
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', task_id, token)), 5) FROM t.held('lim', '9');
SELECT t.claims('lim');
SELECT t.claims('lim') IS NULL AS full;
-- the option is raised, lowered below the number of running tasks, and removed
SELECT taskq_alter_queue('lim', '{"max_running": 3}');
SELECT t.claims('lim');
SELECT t.claims('lim') IS NULL AS full;
SELECT taskq_alter_queue('lim', '{"max_running": 1}');
SELECT taskq_complete(task_id, token) FROM t.held('lim', '8');
SELECT t.claims('lim') IS NULL AS still_full;
SELECT t.numbers('lim');
SELECT taskq_alter_queue('lim', '{"max_running": null}');
SELECT t.claims('lim');
SELECT count(taskq_submit('lim', '11')) FROM generate_series(1, 3);
SELECT taskq_alter_queue('lim', '{"max_running": 4}');
SELECT t.claims('lim');
-- as a default of all queues, and the queue's own value instead
SELECT taskq_alter_queue('*', '{"max_running": 1}');
SELECT count(taskq_submit('lim all', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT t.claims('lim all');
SELECT taskq_alter_queue('lim all', '{"max_running": 2}');
SELECT t.claims('lim all');
SELECT taskq_alter_queue('*', '{"max_running": null}');
SELECT taskq_alter_queue('lim all', '{"max_running": null}');
SELECT t.claims('lim all');
-- a claim that is rolled back, by the transaction or a savepoint, leaves room
SELECT taskq_create_queue('lim tx', '{"max_running": 2}');
SELECT count(taskq_submit('lim tx', to_jsonb(n))) FROM generate_series(1, 4) n;
BEGIN;
SELECT t.claims('lim tx');
SELECT t.claims('lim tx') IS NULL AS full;
ROLLBACK;
BEGIN;
SELECT t.claims('lim tx', NULL, 1);
SAVEPOINT a;
SELECT t.claims('lim tx');
SAVEPOINT b;
SELECT t.claims('lim tx') IS NULL AS full;
ROLLBACK TO a;
SELECT t.claims('lim tx');
SELECT t.claims('lim tx') IS NULL AS full;
COMMIT;
SELECT t.claims('lim tx') IS NULL AS full;
-- an end makes room for its own transaction, and a rollback takes it away
BEGIN;
SAVEPOINT a;
SELECT taskq_complete(task_id, token) FROM t.held('lim tx', '1');
SELECT t.claims('lim tx');
SELECT t.claims('lim tx') IS NULL AS full;
ROLLBACK TO a;
SELECT t.claims('lim tx') IS NULL AS full;
SELECT taskq_complete(task_id, token) FROM t.held('lim tx', '2');
SELECT t.claims('lim tx');
SELECT taskq_complete(task_id, token) FROM t.held('lim tx', '3');
SELECT t.claims('lim tx');
SELECT t.claims('lim tx') IS NULL AS full;
COMMIT;
SELECT count(taskq_submit('lim tx', '0', priority => -1)) FROM generate_series(1, 3);
SELECT t.numbers('lim tx');
SELECT t.claims('lim tx') IS NULL AS full;
-- an error of the claiming statement is a rollback, too
SELECT taskq_complete(task_id, token) FROM t.held('lim tx', '1');
SELECT taskq_submit('lim tx', '5') > 0 AS submitted;
SELECT 1 / (payload::int - 5) FROM taskq_claim('lim tx');
SELECT t.claims('lim tx');
-- a limit that no number of tasks reaches, and a limit of one for one claim of many
SELECT taskq_create_queue('lim one', '{"max_running": 1}');
SELECT count(taskq_submit('lim one', to_jsonb(n), priority => n)) FROM generate_series(1, 3) n;
SELECT t.claims('lim one', NULL, 100000);
SELECT taskq_alter_queue('lim one', '{"max_running": 2147483647}');
SELECT t.claims('lim one', NULL, 100000);
--
-- max_running of a worker
--
SELECT taskq_register('lim w', max_running => 2);
SELECT taskq_create_queue(q) FROM unnest('{lim a,lim b}'::text[]) q;
SELECT count(taskq_submit(q, to_jsonb(q || n))) FROM unnest('{lim a,lim b}'::text[]) q, generate_series(1, 3) n;
SELECT t.claims('lim a', 'lim w', 1);
SELECT t.claims('lim b', 'lim w');
SELECT t.claims('lim a', 'lim w') IS NULL AS full;
-- other workers are not affected
SELECT t.claims('lim a', 'other worker', 1);
SELECT taskq_complete(task_id, token) FROM t.held('lim b', '"lim b1"');
SELECT t.claims('lim a', 'lim w');
-- both limits hold
SELECT taskq_alter_queue('lim a', '{"max_running": 3}');
SELECT taskq_register('lim w', max_running => 5, keep => true);
SELECT taskq_submit('lim a', '"lim a4"') > 0 AS submitted;
SELECT t.claims('lim a', 'lim w') IS NULL AS queue_full;
SELECT t.claims('lim b', 'lim w');
-- a new process of that name starts with no task
SELECT taskq_register('lim w', max_running => 2);
SELECT t.numbers('lim a');
SELECT t.numbers('lim b');
SELECT t.claims('lim a', 'lim w');
SELECT max_running, running FROM taskq.workers WHERE worker = 'lim w';
SELECT taskq_deregister('lim w');
SELECT t.try($$SELECT taskq_register('lim w', max_running => 0)$$);
SELECT t.try($$SELECT taskq_register('lim w', max_running => -1)$$);
SELECT t.try($$SELECT taskq_register('lim w', max_running => 2147483647)$$);
SELECT taskq_deregister('lim w');
--
-- rate_limit
--
-- the bucket starts empty: with one claim in ten years nothing is claimed today
SELECT taskq_create_queue('rate', '{"rate_limit": {"count": 1000000000, "per": "10 years"}}');
SELECT taskq_alter_queue('rate', '{"rate_limit": {"count": 1, "per": "10 years"}}');
SELECT count(*) FROM taskq_submit_many('rate', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 200) n));
SELECT t.claims('rate') IS NULL AS empty;
-- changing the rate empties it
SELECT taskq_alter_queue('rate', '{"rate_limit": {"count": 3, "per": "1 us"}}');
SELECT t.claims('rate') IS NULL AS emptied;
SELECT t.claims('rate', NULL, 3);
SELECT taskq_alter_queue('rate', '{"rate_limit": {"count": 3, "per": "10 years"}}');
SELECT t.claims('rate') IS NULL AS emptied;
-- never more than count + count * t / per, and claims continue
CREATE TABLE t.rated (at timestamptz, n int);
DO $$
DECLARE
    started timestamptz := clock_timestamp();
    total int := 0;
    now_claimed int;
BEGIN
    PERFORM taskq_alter_queue('rate', '{"rate_limit": {"count": 4, "per": "0.2 s"}}');
    INSERT INTO t.rated VALUES (clock_timestamp(), 0);
    WHILE total < 20 AND clock_timestamp() < started + interval '10 s' LOOP
        SELECT count(*) INTO now_claimed FROM taskq_claim('rate', max_tasks => 100);
        total := total + now_claimed;
        IF now_claimed > 0 THEN
            INSERT INTO t.rated VALUES (clock_timestamp(), now_claimed);
        END IF;
    END LOOP;
END
$$;
SELECT sum(n) >= 20 AS goes_on FROM t.rated;
SELECT bool_and(claimed <= 4 + 4 * s / 0.2 + 0.001) AS never_more
  FROM (SELECT a.at, b.at, extract(epoch FROM b.at - a.at) AS s, (SELECT sum(c.n) FROM t.rated c WHERE c.at > a.at AND c.at <= b.at) AS claimed
          FROM t.rated a JOIN t.rated b ON a.at < b.at) w;
SELECT max(n) <= 4 AS no_more_than_count FROM t.rated;
DROP TABLE t.rated;
-- a claim that is rolled back, by the transaction or a savepoint, returns its tokens
SELECT taskq_create_queue('rate tx', '{"rate_limit": {"count": 1, "per": "4 s"}}');
SELECT count(taskq_submit('rate tx', to_jsonb(n))) FROM generate_series(1, 5) n;
CREATE FUNCTION t.first_claim(queue text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz := clock_timestamp();
    answer text;
BEGIN
    WHILE answer IS NULL AND clock_timestamp() < started + interval '20 s' LOOP
        answer := t.claims($1);
    END LOOP;
    RETURN answer;
END
$$;
BEGIN;
SELECT t.first_claim('rate tx');
ROLLBACK;
BEGIN;
SAVEPOINT a;
SELECT t.claims('rate tx');
ROLLBACK TO a;
SELECT t.claims('rate tx');
COMMIT;
SELECT t.claims('rate tx') IS NULL AS empty;
--
-- max_depth
--
CREATE FUNCTION t.full(statement text) RETURNS text LANGUAGE sql AS $$
SELECT regexp_replace(t.try($1), '"retry_after_ms": \d+', '"retry_after_ms": N');
$$;
SELECT taskq_create_queue('deep', '{"max_depth": 3}');
SELECT taskq_submit('deep', '1') > 0 AS one, taskq_submit('deep', '2', delay => '1 h') > 0 AS later, taskq_submit('deep', '3', suspended => true) > 0 AS parked;
-- no task has left the queue yet: try again in a second
SELECT t.try($$SELECT taskq_submit('deep', '4')$$);
-- running tasks are live, too; finished ones are not
SELECT t.claims('deep');
SELECT t.full($$SELECT taskq_submit('deep', '4')$$);
SELECT taskq_complete(task_id, token) FROM t.held('deep', '1');
SELECT taskq_submit('deep', '4') > 0 AS submitted;
SELECT t.full($$SELECT taskq_submit('deep', '5')$$);
-- retry_after_ms: from 10 ms to a minute, once tasks have left
SELECT taskq_cancel(task_id) FROM t.held('deep', '4');
SELECT taskq_submit('deep', '"4 again"') > 0 AS submitted;
SELECT (substring(t.try($$SELECT taskq_submit('deep', '5')$$) FROM '"retry_after_ms": (\d+)'))::int BETWEEN 10 AND 60000 AS sane;
-- a list is accepted or refused as a whole
SELECT taskq_cancel(task_id) FROM t.held('deep', '"4 again"');
SELECT t.full($$SELECT count(*) FROM taskq_submit_many('deep', '{6,7}')$$);
SELECT t.full($$SELECT count(*) FROM taskq_submit_tasks('[{"queue": "deep", "payload": 6}, {"queue": "deep", "payload": 7}]')$$);
SELECT t.numbers('deep');
-- the transaction's own changes count, and changes that it has rolled back do not
BEGIN;
SELECT taskq_submit('deep', '6') > 0 AS submitted;
SAVEPOINT a;
SELECT t.full($$SELECT taskq_submit('deep', '7')$$);
SELECT taskq_cancel(task_id) FROM t.held('deep', '6');
SELECT taskq_submit('deep', '7') > 0 AS submitted;
ROLLBACK TO a;
SELECT t.full($$SELECT taskq_submit('deep', '7')$$);
ROLLBACK;
SELECT taskq_submit('deep', '6') > 0 AS submitted;
-- retried tasks are not refused, nor is a changed task
SELECT taskq_retry(task_id) FROM t.held('deep', '1');
SELECT t.numbers('deep');
SELECT t.claims('deep', NULL, 1);
SELECT taskq_fail(task_id, token, 'e') FROM t.held('deep', '6');
SELECT t.full($$SELECT taskq_submit('deep', '8')$$);
-- the option is changed and removed
SELECT taskq_alter_queue('deep', '{"max_depth": 5}');
SELECT taskq_submit('deep', '8') > 0 AS submitted;
SELECT t.full($$SELECT taskq_submit('deep', '9')$$);
SELECT taskq_alter_queue('deep', '{"max_depth": null}');
SELECT taskq_submit('deep', '9') > 0 AS submitted;
--
-- taskq.queues shows the current number of live tasks, including what this transaction has done
--
SELECT taskq_create_queue('num');
SELECT t.numbers('num');
BEGIN;
SELECT count(*) FROM taskq_submit_many('num', '{1,2,3,4}');
SELECT taskq_submit('num', '5', delay => '1 h') > 0 AS submitted;
SELECT t.numbers('num');
SELECT t.claims('num', NULL, 3);
SAVEPOINT a;
SELECT taskq_complete(task_id, token) FROM t.held('num', '1');
SELECT taskq_suspend(task_id, token) FROM t.held('num', '2');
SELECT t.numbers('num');
ROLLBACK TO a;
SELECT t.numbers('num');
ROLLBACK;
SELECT t.numbers('num');
SELECT count(*) FROM taskq_submit_many('num', '{1,2,3,4}');
SELECT t.claims('num', NULL, 2);
SELECT taskq_complete(task_id, token) FROM t.held('num', '1');
SELECT t.numbers('num');
SELECT queue, pending, ready, blocked, running, suspended, done, dead, oldest_ready_age > '0' AS waits, active_workers FROM taskq.queues WHERE queue = 'num';
-- it agrees with the rows, of every queue
SELECT q.queue, q.pending, q.running, q.suspended
  FROM taskq.queues q
 WHERE (q.pending, q.blocked, q.running, q.suspended) IS DISTINCT FROM
       (SELECT (count(*) FILTER (WHERE k.state = 'pending'), count(*) FILTER (WHERE k.state = 'blocked'), count(*) FILTER (WHERE k.state = 'running'), count(*) FILTER (WHERE k.state = 'suspended'))
          FROM taskq.tasks k WHERE k.queue = q.queue);
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.claims(text, text, int), t.numbers(text), t.held(text, jsonb), t.first_claim(text), t.full(text);
-- a dead index entry at the position of a task that a limit leaves pending
SELECT taskq_create_queue('twin', '{"max_running": 1}');
SELECT taskq_submit('twin', '1') > 0 AS submitted;
SELECT task_id AS held, token AS held_token FROM taskq_claim('twin') \gset
SELECT taskq_submit('twin', '2', reference => 'r1') AS moved \gset
SELECT taskq_update_task(:moved, '{"reference": "r2"}');
SELECT count(*) FROM taskq_claim('twin');
SELECT taskq_complete(:held, :held_token);
SELECT payload FROM taskq_claim('twin');
SELECT taskq_drop_queue('twin', true) > 0 AS dropped;
-- the same when the scan publishes its position, at its eighth entry
SELECT taskq_create_queue('twins', '{"max_running": 4}');
SELECT count(taskq_submit('twins', to_jsonb(n), reference => CASE WHEN n > 0 THEN 'a' || n END)) FROM generate_series(0, 5) n;
SELECT count(taskq_update_task(task_id, jsonb_build_object('reference', 'b' || (payload #>> '{}')))::text) FROM taskq.tasks WHERE queue = 'twins' AND reference IS NOT NULL;
SELECT payload FROM taskq_claim('twins', max_tasks => 10);
SELECT count(taskq_complete(task_id, token)::text) FROM taskq.tasks WHERE queue = 'twins' AND state = 'running';
SELECT payload FROM taskq_claim('twins', max_tasks => 10);
SELECT taskq_drop_queue('twins', true) > 0 AS dropped;

--
-- claim: which task is handed out to which worker, in which order
--
-- no task
SELECT taskq_create_queue('claim');
SELECT count(*) FROM taskq_claim('claim');
SELECT count(*) FROM taskq_claim('claim', max_tasks => 100);
-- one task, with all of its columns
SELECT taskq_submit('claim', '{"n": 1}', priority => 5, max_attempts => 4,
    key => 'k', reference => 'r', headers => '{"h": 1}', tags => '{b,a}',
    correlation_id => 'c', data => '\x0102', deadline => now() + interval '1 h') AS id \gset
SELECT count(*) FROM taskq_claim('claim');
SELECT task_id = :id AS the_task, token > 0 AS has_token, queue, payload, data,
       attempt, max_attempts, priority, key, reference, tags, headers,
       correlation_id, checkpoint,
       deadline - now() > interval '59 min' AS has_deadline,
       created_at <= now() + interval '1 min' AS has_created,
       run_at <= now() + interval '1 min' AS has_run_at,
       lease_until - now() BETWEEN interval '4 min 50 s' AND interval '5 min 10 s' AS five_minutes
  FROM taskq_claim('claim', worker => 'label 1', tags => '{a,b,c}');
SELECT state, attempt, worker, claimed_at <= clock_timestamp() AS claimed,
       token > 0 AS has_token, lease_until IS NOT NULL AS has_lease
  FROM taskq_get(:id);
-- it is not handed out twice
SELECT count(*) FROM taskq_claim('claim', tags => '{a,b}', max_tasks => 10);
-- a task that the transaction itself has submitted
BEGIN;
SELECT taskq_submit('claim', '"own"') > 0 AS submitted;
SELECT payload, attempt FROM taskq_claim('claim');
ROLLBACK;
SELECT count(*) FROM taskq_claim('claim');
-- a lease that the caller gives
SELECT taskq_submit('claim') > 0 AS submitted;
SELECT lease_until - now() BETWEEN interval '59 min' AND interval '61 min' AS an_hour
  FROM taskq_claim('claim', lease => '1 h');
-- higher priority first, then by due time, then by id
SELECT array_agg(taskq_submit('order', to_jsonb(n), priority => p, run_at => now() - age::interval) ORDER BY n) IS NOT NULL AS submitted
  FROM (VALUES (1, 0, '1 s'), (2, 0, '2 s'), (3, 7, '1 s'), (4, -7, '1 h'),
               (5, 7, '1 s'), (6, 32767, '0'), (7, -32768, '1 d'), (8, 7, '1 min')) v (n, p, age);
BEGIN;
SELECT array_agg(payload) FROM taskq_claim('order', max_tasks => 100);
ROLLBACK;
BEGIN;
SELECT payload, priority FROM taskq_claim('order');
SELECT payload, priority FROM taskq_claim('order', max_tasks => 2);
SELECT payload, priority FROM taskq_claim('order', claim_order => 'fifo');
ROLLBACK;
-- lifo keeps priorities
SELECT array_agg(payload) FROM taskq_claim('order', max_tasks => 100, claim_order => 'lifo');
-- random: every task once
SELECT count(*) FROM taskq_submit_many('order', (SELECT array_agg(to_jsonb(i)) FROM generate_series(1, 50) i));
SELECT count(*), count(DISTINCT payload)
  FROM taskq_claim('order', max_tasks => 20, claim_order => 'random');
SELECT count(*), count(DISTINCT payload)
  FROM taskq_claim('order', max_tasks => 100, claim_order => 'random');
-- the queue's order, which the call overrides
SELECT taskq_create_queue('lifo', '{"order": "lifo"}');
SELECT count(*) FROM taskq_submit_many('lifo', '{1,2,3}');
BEGIN;
SELECT array_agg(payload) FROM taskq_claim('lifo', max_tasks => 3);
ROLLBACK;
SELECT array_agg(payload) FROM taskq_claim('lifo', max_tasks => 3, claim_order => 'fifo');
-- as many tasks as there are, at most as many as requested
SELECT count(*) FROM taskq_submit_many('several', '{1,2,3,4,5}');
SELECT count(*), count(DISTINCT task_id), min(token) > 0 AS tokens
  FROM taskq_claim('several', max_tasks => 3);
SELECT count(*) FROM taskq_claim('several', max_tasks => 3);
SELECT count(*) FROM taskq_claim('several', max_tasks => 3);
-- a LIMIT does not undo claims
SELECT count(*) FROM taskq_submit_many('several', '{1,2,3}');
SELECT count(*) FROM (SELECT * FROM taskq_claim('several', max_tasks => 3) LIMIT 1) s;
SELECT count(*) FROM taskq_claim('several', max_tasks => 3);
-- tags: the claimer must have all tags of the task
SELECT count(taskq_submit('tags', to_jsonb(coalesce(s, 'none')), tags => s::text[]))
  FROM unnest(ARRAY[NULL, '{a}', '{b}', '{a,b}', '{a,b,c}', '{c}']) s;
CREATE FUNCTION t.matching(tags text[]) RETURNS jsonb[] LANGUAGE plpgsql AS $$
DECLARE
    answer jsonb[];
BEGIN
    SELECT array_agg(payload ORDER BY payload) INTO answer
      FROM taskq_claim('tags', max_tasks => 100, tags => $1);
    RAISE SQLSTATE 'PT001' USING MESSAGE = coalesce(answer::text, 'nothing');
END
$$;
SELECT w.tags, t.try(format('SELECT t.matching(%L)', w.tags))
  FROM unnest(ARRAY[NULL, '{}', '{a}', '{b}', '{a,b}', '{b,a,b}', '{c}', '{a,c}', '{a,b,c,d}', '{A}']) w (tags);
SELECT t.try($$SELECT * FROM taskq_claim('tags', tags => '{a,NULL}')$$);
SELECT t.try($$SELECT * FROM taskq_claim('tags', tags => '{{a}}')$$);
-- a priority is compared across sets of tags
SELECT taskq_submit('mixed', '"none"', priority => 1) > 0 AS submitted;
SELECT taskq_submit('mixed', '"a"', priority => 3, tags => '{a}') > 0 AS submitted;
SELECT taskq_submit('mixed', '"b"', priority => 2, tags => '{b}') > 0 AS submitted;
SELECT array_agg(payload) FROM taskq_claim('mixed', max_tasks => 3, tags => '{a,b}');
-- a task is not claimed before its time
SELECT taskq_submit('time', '"later"', delay => '1 h') AS later,
       taskq_submit('time', '"soon"', delay => '200 ms') AS soon,
       taskq_submit('time', '"at"', run_at => now() + interval '1 h') AS at_time \gset
SELECT count(*) FROM taskq_claim('time', max_tasks => 3) WHERE clock_timestamp() < run_at;
CREATE TABLE t.got (payload jsonb, early boolean);
DO $$
BEGIN
    FOR i IN 1..1000 LOOP
        INSERT INTO t.got SELECT payload, clock_timestamp() < run_at
                            FROM taskq_claim('time', max_tasks => 3);
        EXIT WHEN FOUND;
        PERFORM pg_sleep(0.01);
    END LOOP;
END
$$;
SELECT * FROM t.got;
DROP TABLE t.got;
SELECT state FROM taskq_get_many(ARRAY[:later, :soon, :at_time]);
-- a task past its deadline is never handed out
SELECT taskq_submit('deadline', deadline => clock_timestamp() + interval '50 ms') AS id \gset
CALL t.until(format('SELECT clock_timestamp() > deadline FROM taskq_get(%s)', :id));
SELECT count(*) FROM taskq_claim('deadline', max_tasks => 10);
CALL t.until(format('SELECT (SELECT true FROM taskq_run_reapers() LIMIT 1) AND state = ''dead'' FROM taskq_get(%s)', :id));
SELECT state, reason, attempt FROM taskq_get(:id);
-- paused queues, and the pause of all queues
SELECT taskq_submit('paused') > 0 AS submitted;
SELECT taskq_pause('paused', 'repairs');
SELECT paused, ready FROM taskq.queues WHERE queue = 'paused';
SELECT count(*) FROM taskq_claim('paused');
SELECT taskq_submit('paused') > 0 AS submit_goes_on;
SELECT taskq_resume('paused');
SELECT count(*) FROM taskq_claim('paused');
SELECT taskq_pause('*');
SELECT count(*) FROM taskq_claim('paused');
SELECT taskq_create_queue('born paused');
SELECT taskq_submit('born paused') > 0 AS submitted;
SELECT count(*) FROM taskq_claim('born paused');
-- both pauses count
SELECT taskq_pause('paused');
SELECT taskq_resume('*');
SELECT count(*) FROM taskq_claim('paused');
SELECT count(*) FROM taskq_claim('born paused');
SELECT taskq_resume('paused');
SELECT count(*) FROM taskq_claim('paused');
-- a pause with an end time ends by itself
SELECT taskq_submit('paused') > 0 AS submitted;
SELECT taskq_pause('paused', until => clock_timestamp() + interval '1 h');
SELECT count(*) FROM taskq_claim('paused');
SELECT taskq_pause('paused', until => clock_timestamp() + interval '100 ms');
CALL t.until($$SELECT EXISTS (SELECT FROM taskq_claim('paused'))$$);
SELECT paused FROM taskq.queues WHERE queue = 'paused';
SELECT t.try($$SELECT taskq_pause('paused', until => now() - interval '1 s')$$);
SELECT t.try($$SELECT taskq_pause('paused', until => 'infinity')$$);
SELECT t.try($$SELECT taskq_pause('no such')$$);
SELECT t.try($$SELECT taskq_resume('no such')$$);
-- a running task can be finished while its queue is paused
SELECT taskq_submit('paused') > 0 AS submitted;
SELECT task_id, token FROM taskq_claim('paused') \gset
SELECT taskq_pause('paused');
SELECT taskq_complete(:task_id, :token);
SELECT state FROM taskq_get(:task_id);
SELECT taskq_resume('paused');
-- invalid words
SELECT t.try($$SELECT * FROM taskq_claim('claim', max_tasks => 0)$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', max_tasks => -1)$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', max_tasks => 2147483647)$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', lease => '0')$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', lease => '-1 s')$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', lease => '11 years')$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', wait => '-1 s')$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', claim_order => 'best')$$);
SELECT t.try($$SELECT * FROM taskq_claim('no such yet', claim_order => 'best')$$);
SELECT t.try($$SELECT * FROM taskq_claim('*')$$);
SELECT t.try($$SELECT * FROM taskq_claim('claim', worker => '')$$);
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.matching(text[]);

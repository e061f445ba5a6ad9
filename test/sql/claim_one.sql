-- Claim any one task, if other tasks are unchanged.
SELECT taskq_create_queue('one'), taskq_create_queue('two'), taskq_create_queue('held');
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    more text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS more = PG_EXCEPTION_DETAIL;
    RETURN concat_ws(' ', SQLSTATE || ':', SQLERRM, nullif(more, ''));
END $$;
-- no task
SELECT count(*) FROM taskq_claim_one('w', '{one,two}', '1 min');
SELECT pg_temp.try($$SELECT * FROM taskq_claim_one('w', '{one}', '1 min', '[-1, {"task_id": -2, "version": 1}]')$$);
-- the task that is claimed
SELECT taskq_submit('one', '"a"', key => 'k', headers => '{"h": 1}', max_attempts => 3) AS id \gset
SELECT task_id = :id AS it, queue, state, payload, key, worker, attempt, max_attempts, version, token IS NOT NULL AS token, lease_until > now() + interval '50 s' AS held
  FROM taskq_claim_one('w', '{two,one}', '1 min');
SELECT count(*) FROM taskq_claim_one('v', '{one,two}', '1 min');
-- its token, and the changes of its owner
SELECT state FROM taskq_change('w', updates => jsonb_build_array(jsonb_build_object('task_id', :id, 'lease', '1 min')));
SELECT taskq_release(:id, token) FROM taskq.tasks WHERE task_id = :id;
-- a lease of 0: the task stays claimable
SELECT state, worker, attempt, version FROM taskq.tasks WHERE task_id = :id;
SELECT task_id = :id AS it, state, worker, attempt, version FROM taskq_claim_one('w', '{one}', '0');
SELECT state, worker, attempt, version FROM taskq.tasks WHERE task_id = :id;

-- Each task is chosen at some time, from both queues, but only at the highest priority.
SELECT count(*) FROM taskq_submit_many('one', array_fill('1'::jsonb, ARRAY[150]));
SELECT count(*) FROM taskq_submit_many('two', array_fill('2'::jsonb, ARRAY[149]));
SELECT count(DISTINCT o.task_id) > 250 AS most, count(DISTINCT o.queue) AS queues, min(n) > 350 AND max(n) < 650 AS about_half
  FROM (SELECT o.task_id, o.queue, count(*) OVER (PARTITION BY o.queue) AS n FROM generate_series(1, 1000) i, taskq_claim_one('w' || i, '{one,two}', '0') o) o;
SELECT taskq_submit('two', '"first"', priority => 5) > 0;
SELECT DISTINCT payload FROM generate_series(1, 20) i, taskq_claim_one('w' || i, '{two}', '0');
SELECT taskq_purge('one', '{pending}') + taskq_purge('two', '{pending}') > 290;

-- Dependencies: a document in a given version, no matter which worker has it.
SELECT taskq_submit('one', '"d"') AS d \gset
SELECT taskq_submit('two', '"t"') AS t \gset
SELECT payload FROM taskq_claim_one('w', '{two}', '1 min', jsonb_build_array(jsonb_build_object('task_id', :d, 'version', 1)));
SELECT taskq_update_task(:d, '{"priority": 3}');
SELECT replace(pg_temp.try(format($$SELECT * FROM taskq_claim_one('w', '{two}', '1 min', '[{"task_id": %s, "version": 1}, {"task_id": %s, "version": 2}]')$$, :d, :t)), :d::text, 'd');
-- Pauses, limits, tags, drained workers.
SELECT taskq_submit('held', '1') > 0, taskq_pause('held');
SELECT count(*) FROM taskq_claim_one('w', '{held}', '1 min');
SELECT count(*) FROM taskq_claim_one('w', '{held}', '0');
SELECT taskq_resume('held');
SELECT taskq_alter_queue('held', '{"max_running": 1}');
SELECT count(*) FROM taskq_claim_one('w', '{held}', '1 min');
SELECT taskq_submit('held', '2', tags => '{x}') > 0;
SELECT count(*) FROM taskq_claim_one('w', '{held}', '1 min');
SELECT taskq_alter_queue('held', '{"max_running": null}');
SELECT count(*) FROM taskq_claim_one('w', '{held}', '1 min');
SELECT taskq_register('tagged', tags => '{x}');
SELECT payload, worker FROM taskq_claim_one('tagged', '{held}', '1 min');
SELECT taskq_drain('tagged');
SELECT taskq_submit('held', '3') > 0;
SELECT count(*) FROM taskq_claim_one('tagged', '{held}', '1 min');
SELECT count(*) FROM taskq_claim_one('tagged', '{held}', '0');
-- Any task: twenty of forty tasks are not the first twenty, and not in their order.
SELECT count(taskq_submit('any', to_jsonb(n))) FROM generate_series(1, 40) n;
WITH one AS MATERIALIZED (SELECT n, (t.payload #>> '{}')::integer AS given FROM generate_series(1, 20) n, LATERAL taskq_claim_one('w', '{any}', '1 min', wait => (n * 0)::text::interval) t)
SELECT count(*), count(DISTINCT given), max(given) > 20 AS beyond, array_agg(given ORDER BY n) <> array_agg(given ORDER BY given) AS mixed FROM one;

-- Waiting.
SELECT count(*) FROM taskq_claim_one('w', '{one}', '1 min', wait => '0.1 s');
SELECT payload FROM taskq_claim_one('w', '{held}', '1 min', wait => '10 s');
SELECT taskq_submit('two', '"soon"', delay => '0.3 s') > 0;
SELECT payload FROM taskq_claim_one('w', '{one,two}', '1 min', wait => '20 s');
SELECT pg_temp.try($$SELECT * FROM taskq_claim_one('w', '{one}', '1 min', '[-1]', '20 s')$$);
BEGIN;
SELECT taskq_submit('one', '"x"') > 0;
SELECT count(*) FROM taskq_claim_one('w', '{one}', '1 min', wait => '1 s');
ROLLBACK;

-- Invalid calls.
SELECT c, pg_temp.try(format('SELECT * FROM taskq_claim_one(%s)', c))
  FROM unnest(ARRAY['NULL, ''{one}'', ''1 s''', '''w'', NULL, ''1 s''', '''w'', ''{}'', ''1 s''', '''w'', ''{NULL}'', ''1 s''', '''w'', ''{{one}}'', ''1 s''', '''w'', ''{""}'', ''1 s''',
                    '''w'', ''{one}'', NULL', '''w'', ''{one}'', ''-1 s''', '''w'', ''{one}'', ''1 s'', ''{}''', '''w'', ''{one}'', ''1 s'', ''["x"]''', '''w'', ''{one}'', ''1 s'', ''[1, 1]''',
                    '''w'', ''{one}'', ''1 s'', NULL, NULL', '''w'', ''{one}'', ''1 s'', wait => ''-1 s''', '''w'', ''{*}'', ''1 s''']) c;
SELECT * FROM taskq_check();
SELECT taskq_deregister('tagged');
SELECT taskq_drop_queue(q, true) FROM unnest(ARRAY['one', 'two', 'held', 'any']) q;

-- The order in which a single worker gets tasks, whatever positions earlier claims have published.
\set QUIET on
SELECT taskq_create_queue('o', '{"retry": "fixed", "retry_base": "1 s"}');
CREATE FUNCTION t.next(claim_order text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
SELECT payload #>> '{}' FROM taskq_claim('o', claim_order => claim_order)
$$;
CREATE FUNCTION t.the(name text) RETURNS bigint LANGUAGE sql AS $$
SELECT task_id FROM taskq.tasks WHERE queue = 'o' AND payload #>> '{}' = name
$$;
SELECT count(taskq_submit('o', to_jsonb('t' || lpad(i::text, 2, '0')))) FROM generate_series(1, 40) i;
SELECT t.next() AS t01;
-- a later task has an earlier position
SELECT taskq_submit('o', '"high"', priority => 5) > 0 AS submitted;
SELECT t.next() AS high;
SELECT t.next() AS t02;
SELECT taskq_submit('o', '"low"', priority => -5) > 0 AS submitted;
SELECT t.next() AS t03;
-- a claim that is rolled back
BEGIN;
SELECT t.next() AS t04;
SAVEPOINT a;
SELECT t.next() AS t05;
ROLLBACK TO a;
SELECT t.next() AS t05;
ROLLBACK;
SELECT t.next() AS t04;
SELECT t.next() AS t05;
-- positions that change
SELECT taskq_update_task(t.the('t20'), jsonb_build_object('run_at', now() - interval '1 day'));
SELECT t.next() AS t20;
SELECT taskq_update_task(t.the('t21'), '{"priority": 7}');
SELECT t.next() AS t21;
SELECT taskq_cancel(t.the('t06'));
SELECT taskq_hold(t.the('t07'));
SELECT t.next() AS t08;
SELECT taskq_retry(t.the('t07'));
SELECT t.next() AS t09;
-- a task that is released
SELECT taskq_release(task_id, token) FROM taskq.tasks WHERE task_id = t.the('t08');
SELECT t.next() AS next;
-- from the other end
SELECT t.next('lifo') AS last;
SELECT t.next('lifo') AS last;
SELECT t.next() AS next;
-- several in one call, then one by one
SELECT string_agg(payload #>> '{}', ' ') AS five FROM taskq_claim('o', max_tasks => 5);
SELECT t.next() AS next;
-- other tags
SELECT taskq_submit('o', '"tagged"', tags => '{x}') > 0 AS submitted;
SELECT t.next() AS next;
SELECT taskq_update_task(t.the('tagged'), jsonb_build_object('run_at', now() - interval '1 day'));
SELECT t.next() AS next;
SELECT payload FROM taskq_claim('o', tags => '{x}');
-- a transaction's own tasks
BEGIN;
SELECT taskq_submit('o', '"own"', priority => 9) > 0 AS submitted;
SELECT t.next() AS own;
SELECT t.next() AS next;
ROLLBACK;
SELECT t.next() AS next;
-- all other tasks
SELECT string_agg(payload #>> '{}', ' ') AS rest FROM taskq_claim('o', max_tasks => 100);
SELECT t.next() IS NULL AS nothing;
SELECT taskq_submit('o', '"new"') > 0 AS submitted;
SELECT t.next() AS new;
-- tasks that were left to other workers are claimed from the other end
SELECT count(taskq_submit('o', to_jsonb('u' || i))) FROM generate_series(1, 4) i;
SELECT t.next() AS u1;
SELECT t.next('lifo') AS u4;
SELECT t.next() AS u2;
SELECT t.next() AS u3;
SELECT t.next() IS NULL AS nothing;
SELECT taskq_drop_queue('o', true) > 0 AS dropped;

--
-- reference: at most one live task of a queue has it
--
SELECT taskq_submit('ref', '1', reference => 'a') AS id \gset
-- error, also by default
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a', on_conflict => 'error')$$), format('"task_id": %s,', :id), '"task_id": ID,');
-- return and skip
SELECT taskq_submit('ref', '2', reference => 'a', on_conflict => 'return') = :id AS the_holder;
SELECT taskq_submit('ref', '2', reference => 'a', on_conflict => 'skip') IS NULL AS skipped;
SELECT payload FROM taskq_get(:id);
SELECT count(*) FROM taskq_list('ref');
-- without a conflict they submit
SELECT taskq_submit('ref', reference => 'b', on_conflict => 'return') <> :id AS another,
       taskq_submit('ref', reference => 'c', on_conflict => 'skip') <> :id AS a_third;
-- other queues and no reference at all do not conflict
SELECT taskq_submit('ref 2', reference => 'a') <> :id AS another;
SELECT count(taskq_submit('ref 2')) FROM generate_series(1, 3);
SELECT taskq_submit('ref', reference => 'A') <> :id AS another_case;
-- while it runs, while it is suspended, while it waits for a retry
SELECT task_id, token FROM taskq_claim('ref') \gset
SELECT :task_id = :id AS the_holder;
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
SELECT taskq_fail(:id, :token, 'e', retry_in => '1 h');
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
SELECT taskq_cancel(:id);
-- finished, it gives its reference back
SELECT taskq_submit('ref', reference => 'a', suspended => true) AS id2 \gset
SELECT :id2 <> :id AS another;
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id2), '"task_id": ID,');
SELECT state, reference FROM taskq_list('ref', reference => 'a') ORDER BY task_id;
-- then the former task cannot come back with it
SELECT replace(t.try(format('SELECT taskq_retry(%s)', :id)), format('"task_id": %s,', :id2), '"task_id": ID,');
SELECT state FROM taskq_get_many(ARRAY[:id, :id2]);
SELECT taskq_cancel(:id2);
SELECT taskq_retry(:id);
SELECT replace(t.try($$SELECT taskq_submit('ref', reference => 'a')$$), format('"task_id": %s,', :id), '"task_id": ID,');
-- completed leaves it, too
SELECT taskq_submit('ref done', reference => 'x') AS id \gset
SELECT token FROM taskq_claim('ref done') \gset
SELECT taskq_complete(:id, :token);
SELECT taskq_submit('ref done', reference => 'x') > :id AS submitted;
-- in one transaction
BEGIN;
SELECT taskq_submit('ref tx', reference => 'x') AS id \gset
SELECT taskq_submit('ref tx', reference => 'x', on_conflict => 'return') = :id AS the_holder;
SELECT left(t.try($$SELECT taskq_submit('ref tx', reference => 'x')$$), 5);
ROLLBACK;
SELECT taskq_submit('ref tx', reference => 'x') IS NOT NULL AS free;
-- many with one reference: the first has it
SELECT left(t.try($$SELECT count(*) FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'm')$$), 5);
SELECT count(*) AS rows, count(m) AS ids, count(DISTINCT m) AS different FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'm', on_conflict => 'return') m;
SELECT count(*) AS rows, count(m) AS ids FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'm', on_conflict => 'skip') m;
SELECT count(*) AS rows, count(m) AS ids FROM taskq_submit_many('ref many', '{1,2,3}', reference => 'n', on_conflict => 'skip') m;
SELECT payload, reference FROM taskq_list('ref many');
-- the longest one
SELECT taskq_submit('ref', reference => repeat('é', 250)) > 0 AS submitted;
SELECT left(t.try(format('SELECT taskq_submit(''ref'', reference => %L)', repeat('é', 250))), 5);
-- with a large payload, nothing of the refused one stays
SELECT left(t.try($$SELECT taskq_submit('ref', to_jsonb(repeat('x', 100000)), reference => 'a')$$), 5);
SELECT taskq_submit('ref', to_jsonb(repeat('x', 100000)), reference => 'a', on_conflict => 'skip') IS NULL AS skipped;
SELECT count(*) FROM taskq.large;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;

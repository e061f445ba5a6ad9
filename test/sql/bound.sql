--
-- bound: workers that are bound to a connection
--
SELECT taskq_create_queue('bound');
SELECT count(*) FROM taskq_submit_many('bound', '{1,2,3,4}');
-- bound any number of times; keep binds and unbinds
SELECT taskq_register('b', bound => true);
SELECT taskq_register('b', bound => true, keep => true);
SELECT worker, state, bound FROM taskq.workers WHERE worker = 'b';
SELECT taskq_register('b', keep => true);
SELECT worker, state, bound FROM taskq.workers WHERE worker = 'b';
SELECT taskq_register('b', bound => NULL);
SELECT worker, state, bound FROM taskq.workers WHERE worker = 'b';
SELECT taskq_register('b', tags => '{x}', max_running => 3, bound => true, info => '{"i": 1}', keep => true);
SELECT worker, state, tags, max_running, bound, info FROM taskq.workers WHERE worker = 'b';
-- bad arguments bind no worker
SELECT t.try($$SELECT taskq_register('b bad', max_running => 0, bound => true)$$);
SELECT t.try($$SELECT taskq_register(NULL, bound => true)$$);
SELECT count(*) FROM taskq.worker WHERE name = 'b bad';
-- a transaction that binds cannot be prepared
BEGIN;
SELECT taskq_register('b prepared', bound => true);
PREPARE TRANSACTION 'bound';
SELECT count(*) FROM taskq.worker WHERE name = 'b prepared';
-- a task that the worker holds; only its connection releases it
SELECT payload FROM taskq_claim('bound', 'b', tags => '{}');
SELECT payload FROM taskq_claim('bound', 'b', tags => '{}', lease => '1 h');
SELECT regexp_replace(taskq_explain(task_id), '^Task \d+|\w+ \w+ \d+ [\d:.]+ \d+ \w+', 'T', 'g') AS explained
  FROM taskq_list('bound', 'running');
DISCARD ALL;
SELECT worker, state, running, bound FROM taskq.workers WHERE worker = 'b';
-- the connection is closed
\c -
CALL t.until($$SELECT pending = 4 FROM taskq.queues WHERE queue = 'bound'$$);
SELECT worker, state, running, bound FROM taskq.workers WHERE worker = 'b';
SELECT payload, state, attempt, errors->-1->>'error' AS error FROM taskq_list('bound') ORDER BY task_id;
SELECT t.try($$SELECT taskq_heartbeat('b')$$);
SELECT t.try($$SELECT taskq_claim('bound', 'b')$$);
-- the name can be used again; a worker that was registered again, or left, is not affected
SELECT taskq_register('b', bound => true), taskq_register('c', bound => true);
SELECT taskq_register('b'), taskq_deregister('c'), taskq_register('c'), taskq_register('d', bound => true);
SELECT payload FROM taskq_claim('bound', 'b');
\c -
CALL t.until($$SELECT state = 'dead' FROM taskq.workers WHERE worker = 'd'$$);
SELECT worker, state, running, bound FROM taskq.workers WHERE worker IN ('b', 'c', 'd') AND state <> 'dead' ORDER BY worker;
SELECT taskq_deregister('b'), taskq_deregister('c');
SELECT taskq_drop_queue('bound', true);
SELECT * FROM taskq_check();

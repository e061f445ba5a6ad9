--
-- limit_change: max_running is removed for some time, and set again
--
-- While there is no limit nothing is reserved, so the counts from before must not be used
-- afterwards.
CREATE VIEW t.states AS
    SELECT queue, state, count(*) FROM taskq.tasks GROUP BY 1, 2;

-- of a queue
SELECT taskq_create_queue('change', '{"max_running": 2}');
SELECT count(*) FROM taskq_submit_many('change', array_fill('{}'::jsonb, ARRAY[10]));
SELECT count(*) AS claimed FROM taskq_claim('change', max_tasks => 10);
SELECT taskq_alter_queue('change', '{"max_running": null}');
SELECT count(*) AS claimed FROM taskq_claim('change', max_tasks => 3);
SELECT taskq_alter_queue('change', '{"max_running": 4}');
SELECT count(*) AS claimed FROM taskq_claim('change', max_tasks => 10);
-- the limit is above the number of running tasks
SELECT taskq_alter_queue('change', '{"max_running": 6}');
SELECT count(*) AS claimed FROM taskq_claim('change', max_tasks => 10);
SELECT * FROM t.states WHERE queue = 'change' ORDER BY state;

-- through the defaults of all queues
SELECT taskq_create_queue('change_all');
SELECT taskq_alter_queue('*', '{"max_running": 2}');
SELECT count(*) FROM taskq_submit_many('change_all', array_fill('{}'::jsonb, ARRAY[10]));
SELECT count(*) AS claimed FROM taskq_claim('change_all', max_tasks => 10);
SELECT taskq_alter_queue('*', '{"max_running": null}');
SELECT count(*) AS claimed FROM taskq_claim('change_all', max_tasks => 3);
SELECT taskq_alter_queue('*', '{"max_running": 5}');
SELECT count(*) AS claimed FROM taskq_claim('change_all', max_tasks => 10);
SELECT taskq_alter_queue('*', '{"max_running": null}');

-- of a worker
SELECT taskq_create_queue('change_worker');
SELECT count(*) FROM taskq_submit_many('change_worker', array_fill('{}'::jsonb, ARRAY[10]));
SELECT taskq_register('change', max_running => 2);
SELECT count(*) AS claimed FROM taskq_claim('change_worker', 'change', max_tasks => 10);
SELECT taskq_register('change', keep => true);
SELECT count(*) AS claimed FROM taskq_claim('change_worker', 'change', max_tasks => 3);
SELECT taskq_register('change', max_running => 5, keep => true);
SELECT count(*) AS claimed FROM taskq_claim('change_worker', 'change', max_tasks => 10);
SELECT taskq_register('change', max_running => 6, keep => true);
SELECT count(*) AS claimed FROM taskq_claim('change_worker', 'change', max_tasks => 10);
SELECT taskq_deregister('change');

DROP VIEW t.states;
SELECT taskq_drop_queue(q, force => true) FROM unnest('{change,change_all,change_worker}'::text[]) q;
SELECT * FROM taskq_check();

--
-- workflow_timeline: the history of a task, of an instance, and of a correlation id
--
SELECT taskq_create_queue('wt'), taskq_create_queue('wt other'), taskq_create_queue('wt plain', '{"history": "transitions", "retry": "fixed", "retry_base": "0 s"}'), taskq_create_queue('wt none');
CREATE SCHEMA wt;
-- without the columns that differ from run to run
CREATE FUNCTION wt.way(task bigint DEFAULT NULL, flow bigint DEFAULT NULL, correlation text DEFAULT NULL)
    RETURNS TABLE (step text, from_state text, to_state text, reason text, attempt int, claimed boolean, worker text, mine boolean, message text) LANGUAGE sql AS
$$ SELECT step, from_state, to_state, reason, attempt, token > 0, worker, role = current_user, message FROM taskq_timeline(task, flow, correlation) $$;
CREATE FUNCTION wt.work(queue text, result jsonb DEFAULT NULL) RETURNS text LANGUAGE sql AS
$$ SELECT step || coalesce(taskq_complete(task_id, token, result)::text, '') FROM taskq_claim(queue, 'a worker') $$;
-- a plain task, of a queue that keeps history
SELECT taskq_submit('wt plain', correlation_id => 'wt 1') AS plain \gset
SELECT taskq_fail(task_id, token, 'e') FROM taskq_claim('wt plain', 'stranger');
SELECT taskq_cancel(:plain, 'not needed');
SELECT * FROM wt.way(:plain);
SELECT bool_and(task_id = :plain AND workflow_id IS NULL) AS of_the_task, bool_and(at BETWEEN now() - interval '1 h' AND clock_timestamp()) AS now,
       (SELECT array_agg(at ORDER BY at) FROM taskq_timeline(:plain)) = array_agg(at) AS in_order,
       array_agg(token) = (SELECT array_agg(token ORDER BY transition_id) FROM taskq.history WHERE task_id = :plain) AS tokens
  FROM taskq_timeline(:plain);
-- a task of a queue that keeps none
SELECT taskq_submit('wt none', correlation_id => 'wt 1') AS none \gset
SELECT * FROM wt.way(:none);
-- steps always have history, those of batches under names of their own
SELECT taskq_define_workflow('{"name": "wt", "version": "1", "queue": "wt", "steps": [{"name": "split", "type": "batch"}, {"name": "part", "type": "batch_worker", "depends_on": ["split"]},
  {"name": "join", "type": "deferred", "depends_on": ["part"], "queue": "wt other", "max_attempts": 1}]}');
SELECT taskq_start_workflow('wt', correlation_id => 'wt 1') AS flow \gset
SELECT wt.work('wt', '{"total": 2, "size": 1}'), wt.work('wt'), wt.work('wt');
SELECT taskq_fail(task_id, token, 'broken') FROM taskq_claim('wt other');
SELECT task_id AS joined FROM taskq.workflow_steps WHERE workflow_id = :flow AND step = 'join' \gset
SELECT taskq_resolve(:joined, '1', 'by hand');
SELECT * FROM wt.way(flow => :flow);
SELECT bool_and(workflow_id = :flow) AS of_the_instance, count(DISTINCT task_id) AS tasks FROM taskq_timeline(workflow_id => :flow);
SELECT * FROM wt.way(:joined);
SELECT count(*) FROM taskq_timeline(:joined) WHERE workflow_id = :flow AND task_id = :joined;
-- another instance is not part of it
SELECT taskq_start_workflow('wt', correlation_id => 'wt 2') AS flow2 \gset
SELECT count(*) FROM taskq_timeline(workflow_id => :flow);
SELECT * FROM wt.way(flow => :flow2);
-- everything with a correlation id: tasks and instances, in one order
SELECT count(*), count(DISTINCT task_id) AS tasks, count(*) FILTER (WHERE step IS NULL) AS plain, array_agg(at) = array_agg(at ORDER BY at) AS in_order FROM taskq_timeline(correlation_id => 'wt 1');
SELECT count(*) FROM taskq_timeline(correlation_id => 'wt 3');
-- all given arguments apply
SELECT (SELECT count(*) FROM taskq_timeline(:joined, :flow)) AS both, (SELECT count(*) FROM taskq_timeline(:joined, :flow2)) AS another, (SELECT count(*) FROM taskq_timeline(:plain, :flow)) AS plain,
       (SELECT count(*) FROM taskq_timeline(:plain, correlation_id => 'wt 1')) AS correlated, (SELECT count(*) FROM taskq_timeline(:plain, correlation_id => 'wt 2')) AS not_so,
       (SELECT count(*) FROM taskq_timeline(:joined, :flow, 'wt 1')) AS all_three, (SELECT count(*) FROM taskq_timeline(NULL, :flow, 'wt 2')) AS other_id, (SELECT count(*) FROM taskq_timeline(NULL, :flow, 'wt 1')) AS its_id;
-- invalid calls
SELECT c, t.try(c) FROM unnest(ARRAY['SELECT taskq_timeline()', 'SELECT taskq_timeline(NULL, NULL, NULL)', 'SELECT taskq_timeline(0)', 'SELECT taskq_timeline(workflow_id => 0)',
  'SELECT taskq_timeline(correlation_id => '''')', 'SELECT left(taskq_timeline(correlation_id => repeat(''x'', 501))::text, 1)', 'SELECT taskq_timeline(0, 0)']) c;
-- an instance is not a task, and a task not an instance
SELECT t.code(format('SELECT taskq_timeline(%s)', :flow)), t.code(format('SELECT taskq_timeline(workflow_id => %s)', :joined));
-- a transaction sees what it has done, and not what a savepoint has rolled back
BEGIN;
SELECT taskq_submit('wt plain', '1') AS open \gset
SAVEPOINT s;
SELECT taskq_cancel(:open);
SELECT to_state FROM taskq_timeline(:open);
ROLLBACK TO s;
SELECT to_state FROM taskq_timeline(:open);
ROLLBACK;
SELECT t.code(format('SELECT taskq_timeline(%s)', :open));
-- which role sees what
CREATE ROLE regress_taskq_wt_read;
CREATE ROLE regress_taskq_wt_work;
CREATE ROLE regress_taskq_wt_other;
CREATE ROLE regress_taskq_wt_monitor IN ROLE pg_monitor;
SELECT taskq_grant('wt other', 'regress_taskq_wt_read', '{read}');
SELECT taskq_grant('wt', 'regress_taskq_wt_work', '{work}');
SELECT taskq_grant('wt other', 'regress_taskq_wt_work', '{work}');
SELECT taskq_grant('wt plain', 'regress_taskq_wt_work', '{work}');
SELECT taskq_grant('wt none', 'regress_taskq_wt_work', '{read}');
SELECT taskq_grant('wt none', 'regress_taskq_wt_other', '{read}');
SELECT task_id AS split FROM taskq.workflow_steps WHERE workflow_id = :flow AND step = 'split' \gset
GRANT USAGE ON SCHEMA wt TO PUBLIC;
-- the steps whose queue the role may read, and no others
SET ROLE regress_taskq_wt_read;
SELECT step, from_state, to_state, reason, message FROM wt.way(flow => :flow);
SELECT step, to_state FROM wt.way(correlation => 'wt 1');
SELECT count(*) FROM taskq_timeline(:joined);
SELECT t.code(format('SELECT taskq_timeline(%s)', :split)), t.code(format('SELECT taskq_timeline(%s)', :plain));
-- with another right on it
SET ROLE regress_taskq_wt_work;
SELECT what, regexp_replace(t.try(format('SELECT taskq_timeline(%s)', value)), '(task|workflow) \d+', '\1 N') AS try FROM (VALUES ('a task', :'plain'), ('a step', :'joined'), ('an instance', 'workflow_id => ' || :'flow')) v (what, value);
SELECT count(*) FROM taskq_timeline(correlation_id => 'wt 1');
-- without any right: the message is the one about a task or instance that does not exist
SET ROLE regress_taskq_wt_other;
SELECT regexp_replace(t.try(format('SELECT taskq_timeline(%s)', :plain)), '\d+', 'N', 'g') = regexp_replace(t.try('SELECT taskq_timeline(0)'), '\d+', 'N', 'g') AS same,
       regexp_replace(t.try(format('SELECT taskq_timeline(workflow_id => %s)', :flow)), '\d+', 'N', 'g') = regexp_replace(t.try('SELECT taskq_timeline(workflow_id => 0)'), '\d+', 'N', 'g') AS same_flow,
       t.code(format('SELECT taskq_timeline(%s)', :plain)), t.code(format('SELECT taskq_timeline(workflow_id => %s)', :flow)), t.code(format('SELECT taskq_timeline(%s, %s)', :none, :flow));
SELECT count(*) FROM taskq_timeline(:none);
SELECT count(*) FROM taskq_timeline(correlation_id => 'wt 1');
-- pg_monitor, except the messages
SET ROLE regress_taskq_wt_monitor;
SELECT count(*), count(message) AS words FROM taskq_timeline(correlation_id => 'wt 1');
SELECT count(*), count(message) AS words FROM taskq_timeline(workflow_id => :flow);
SELECT count(*), count(message) AS words FROM taskq_timeline(:plain);
RESET ROLE;
-- the history outlives a plain task
SELECT taskq_purge('wt plain') > 0 AS purged;
SELECT step, from_state, to_state, message FROM wt.way(:plain);
SELECT t.code(format('SELECT taskq_timeline(%s, correlation_id => ''wt 1'')', :plain));
SET ROLE regress_taskq_wt_read;
SELECT t.code(format('SELECT taskq_timeline(%s)', :plain));
RESET ROLE;
-- of a long history only the matching part is read
SELECT count(taskq_submit('wt plain', priority => 1)) FROM generate_series(1, 4000);
SELECT taskq_submit('wt plain', correlation_id => 'wt 4') AS one \gset
CREATE FUNCTION wt.read() RETURNS bigint LANGUAGE sql AS
$$ SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_xact_user_tables WHERE schemaname = 'taskq' AND (relname LIKE 'transition%' OR relname = 'task') $$;
CREATE FUNCTION wt.read_by(timeline text, OUT rows bigint, OUT read bigint) LANGUAGE plpgsql AS $$
BEGIN
    read := -wt.read();
    EXECUTE format('SELECT count(*) FROM taskq_timeline(%s)', timeline) INTO rows;
    read := read + wt.read();
END
$$;
SELECT what, r.rows, r.read - r.rows <= 4 AS no_more FROM (VALUES ('a task', :'one'), ('an instance', 'workflow_id => ' || :'flow'), ('a correlation id', 'correlation_id => ''wt 4''')) v (what, timeline), wt.read_by(timeline) r;
SELECT * FROM taskq_check();
SELECT taskq_cancel_workflow(:flow2);
SET client_min_messages = warning;
DROP SCHEMA wt CASCADE;
RESET client_min_messages;
DROP OWNED BY regress_taskq_wt_read, regress_taskq_wt_work, regress_taskq_wt_other, regress_taskq_wt_monitor;
DROP ROLE regress_taskq_wt_read, regress_taskq_wt_work, regress_taskq_wt_other, regress_taskq_wt_monitor;

--
-- views: running and dead tasks, numbers of queues, lineage; which role sees what
--
CREATE ROLE regress_taskq_view_read;
CREATE ROLE regress_taskq_view_none;
CREATE ROLE regress_taskq_view_work;
CREATE ROLE regress_taskq_view_monitor IN ROLE pg_monitor;
SELECT taskq_create_queue('v', '{"retry": "fixed", "retry_base": "0 s", "dead_letter_queue": "v letters"}');
SELECT taskq_create_queue('v other', '{"rate_limit": {"count": 5, "per": "1 h"}}');
SELECT taskq_grant('v', 'regress_taskq_view_read', '{read}'), taskq_grant('v', 'regress_taskq_view_work', '{work}');
CREATE TABLE t.v (n int PRIMARY KEY, id bigint);
INSERT INTO t.v SELECT i, taskq_submit(CASE WHEN i < 8 THEN 'v' ELSE 'v other' END, to_jsonb(i), key => 'k' || i, correlation_id => 'c' || i % 2) FROM generate_series(1, 9) i ORDER BY i;
CREATE FUNCTION t.v(id bigint) RETURNS int LANGUAGE sql AS 'SELECT n FROM t.v WHERE v.id = $1';
GRANT SELECT ON t.v TO PUBLIC;
-- the visible tasks, and their order
SELECT c.relname, string_agg(a.attname, ', ' ORDER BY a.attnum) AS columns
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE c.relnamespace = 'taskq'::regnamespace AND c.relname IN ('queues', 'workers', 'running', 'dead', 'settings') GROUP BY 1 ORDER BY 1;
-- running: 1 by a registered worker, 2 by a label; 3 is dead, 4 is done
SELECT taskq_register('v worker');
SELECT token AS token1 FROM taskq_claim('v', 'v worker') \gset
SELECT task_id AS id2, token AS token2 FROM taskq_claim('v', 'v label', lease => '1 h') \gset
SELECT id AS id1 FROM t.v WHERE n = 1 \gset
SELECT progress FROM taskq_get(:id1), LATERAL taskq_progress(:id1, :token1, 0.5, 'half') p;
SELECT taskq_cancel(:id2, 'not needed');
SELECT taskq_fail(task_id, token, 'broken', false, detail => '{"d": 1}') FROM taskq_claim('v', 'v label');
SELECT taskq_complete(task_id, token, '"r"') FROM taskq_claim('v', 'v label');
SELECT t.v(task_id), queue, worker, attempt, max_attempts, token = CASE task_id WHEN :id2 THEN :token2 ELSE :token1 END AS token, claimed_at <= clock_timestamp() AS since, lease_until > clock_timestamp() AS until,
       worker_seen > clock_timestamp() - interval '1 min' AS seen, progress, message, cancel_requested_at IS NOT NULL AS asked, priority, key, reference, correlation_id
  FROM taskq.running ORDER BY task_id;
SELECT t.v(task_id), queue, reason, error, message, attempt, max_attempts, finished_at >= created_at AS finished, worker, priority, key, reference, correlation_id FROM taskq.dead ORDER BY task_id;
-- the same as the tasks of that state
SELECT count(*) AS different FROM taskq.running r FULL JOIN (SELECT * FROM taskq.tasks WHERE state = 'running') t USING (task_id)
 WHERE (r.queue, r.worker, r.attempt, r.lease_until, r.progress, r.key) IS DISTINCT FROM (t.queue, t.worker, t.attempt, t.lease_until, t.progress, t.key);
SELECT count(*) AS different FROM taskq.dead d FULL JOIN (SELECT * FROM taskq.tasks WHERE state = 'dead') t USING (task_id)
 WHERE (d.queue, d.reason, d.error, d.message, d.attempt, d.finished_at, d.key) IS DISTINCT FROM (t.queue, t.reason, t.error, t.message, t.attempt, t.finished_at, t.key);
-- which role sees what
CREATE FUNCTION t.seen() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(', ', current_user, 'tasks ' || (SELECT count(*) FROM taskq.tasks), 'running ' || (SELECT count(*) FROM taskq.running), 'told ' || (SELECT count(message) FROM taskq.running),
                     'dead ' || (SELECT count(*) FROM taskq.dead), 'errors ' || (SELECT count(error) FROM taskq.dead), 'queues ' || (SELECT count(*) FROM taskq.queues),
                     'workers ' || (SELECT count(*) FROM taskq.workers WHERE worker LIKE 'v%'), 'settings ' || (SELECT count(*) > 10 FROM taskq.settings))
$$;
SELECT t.seen();
SET ROLE regress_taskq_view_read; SELECT t.seen(); RESET ROLE;
SET ROLE regress_taskq_view_none; SELECT t.seen(); RESET ROLE;
SET ROLE regress_taskq_view_work; SELECT t.seen(); RESET ROLE;
SET ROLE regress_taskq_view_monitor; SELECT t.seen(); RESET ROLE;
-- the current role counts, also in a statement that another role has prepared
PREPARE seen AS SELECT count(*) FROM taskq.tasks;
EXECUTE seen;
SET ROLE regress_taskq_view_none; EXECUTE seen; RESET ROLE;
SET ROLE regress_taskq_view_read; EXECUTE seen; RESET ROLE;
DEALLOCATE seen;
-- a function without cost sees no more rows
CREATE TABLE t.leaked (view text, what text);
GRANT INSERT ON t.leaked TO PUBLIC;
CREATE FUNCTION t.leak(view text, what text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS 'BEGIN INSERT INTO t.leaked VALUES ($1, $2); RETURN true; END';
SET ROLE regress_taskq_view_none;
SELECT count(*) FROM taskq.tasks WHERE t.leak('tasks', key);
SELECT count(*) FROM taskq.running WHERE t.leak('running', key);
SELECT count(*) FROM taskq.dead WHERE t.leak('dead', error);
SELECT count(*) FROM taskq.queues WHERE t.leak('queues', queue);
SELECT count(*) FROM taskq.workers WHERE t.leak('workers', worker);
SET ROLE regress_taskq_view_monitor;
SELECT count(*) FROM taskq.dead WHERE t.leak('dead of monitor', error);
RESET ROLE;
TABLE t.leaked;
-- a query that could be parallel is not
SELECT count(set_config(name, 'on', false)) AS set FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT (SELECT count(*) FROM taskq.tasks) >= 0 AS tasks, (SELECT count(*) FROM taskq.running) >= 0 AS running, (SELECT count(*) FROM taskq.dead) >= 0 AS dead;
SELECT count(set_config(name, 'off', false)) AS set FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
-- no role can write to a view, and no role can read the tables below
SELECT t.code('UPDATE taskq.' || v || ' SET queue = ''x''') FROM unnest('{tasks,running,dead}'::text[]) v;
SELECT t.code('DELETE FROM taskq.' || v) FROM unnest('{tasks,running,dead}'::text[]) v;
SET ROLE regress_taskq_view_read;
SELECT t.code('SELECT count(*) FROM taskq.task_scan'), t.code('UPDATE taskq.tasks SET queue = ''x'''), t.code('CREATE FOREIGN TABLE pg_temp.mine (a int) SERVER taskq');
RESET ROLE;
CREATE FOREIGN TABLE t.mine (a int) SERVER taskq;
SELECT t.code('SELECT * FROM t.mine');
DROP FOREIGN TABLE t.mine;
-- conditions: those that the scan uses, and all others
CREATE FUNCTION t.where(condition text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    FOR i IN 1 .. 9 LOOP
        condition := replace(condition, '{' || i || '}', (SELECT id::text FROM t.v WHERE n = i));
    END LOOP;
    EXECUTE 'SELECT string_agg(coalesce(t.v(task_id)::text, ''-''), '' '' ORDER BY task_id) FROM taskq.tasks WHERE ' || condition INTO found;
    RETURN found;
END
$$;
SELECT c, t.where(c) FROM unnest(ARRAY['queue = ''v''', '''v'' = queue', 'queue = ''no such''', 'queue = NULL', 'queue = ''v'' AND queue = ''v other''', 'queue <> ''v''', 'queue IN (''v other'', ''x'')',
       'state = ''pending''', 'state = ''no such''', 'queue = ''v'' AND state = ''done''', 'state IN (''dead'', ''done'')', 'state = ''blocked''',
       'key = ''k5''', 'key > ''k5''', 'key IS NULL', 'correlation_id = ''c1''', 'correlation_id = ''c0'' AND queue = ''v other''', 'reference = ''r''', 'reference IS NULL AND key = ''k2''',
       'task_id = {1}', '{1} = task_id', 'task_id < {3}', 'task_id <= {3}', 'task_id > {7}', 'task_id >= {7}', '{7} < task_id', 'task_id BETWEEN {2} AND {4}', 'task_id IN ({1}, {2}, -1, NULL)',
       'task_id = ANY (ARRAY[{1}, {3}, {3}]::bigint[]) AND state = ''dead''', 'task_id = ANY (''{}'')', 'task_id = ANY (NULL)',
       'task_id < -9223372036854775808', 'task_id > 9223372036854775807', 'task_id = 1.5', 'task_id = NULL', 'task_id::text = ''{1}''', 'false',
       'key = (SELECT ''k7'')', 'task_id = (SELECT min(id) FROM t.v)', 'task_id IN (SELECT id FROM t.v WHERE n > 6)', 'random() < 2 AND queue = ''v other''']) c;
-- order and limit; the scan gives both
EXPLAIN (COSTS OFF) SELECT task_id FROM taskq.tasks WHERE queue = 'v' AND state = 'pending' ORDER BY task_id DESC LIMIT 2;
EXPLAIN (COSTS OFF) SELECT task_id FROM taskq.tasks WHERE task_id > 5 ORDER BY task_id LIMIT 2;
SELECT t.v(task_id) FROM taskq.tasks WHERE queue = 'v' AND state = 'pending' ORDER BY task_id DESC LIMIT 2;
SELECT t.v(task_id) FROM taskq.tasks WHERE queue IN ('v', 'v other') ORDER BY task_id DESC LIMIT 2 OFFSET 1;
SELECT n, (SELECT key FROM taskq.tasks WHERE task_id = id) FROM t.v WHERE n IN (2, 9) ORDER BY n;
SELECT n, l.key FROM t.v LEFT JOIN LATERAL (SELECT key FROM taskq.tasks WHERE task_id = id AND queue = 'v') l ON true WHERE n IN (2, 9) ORDER BY n;
BEGIN;
DECLARE c CURSOR FOR SELECT t.v(task_id) FROM taskq.tasks WHERE queue = 'v' ORDER BY task_id;
FETCH 2 FROM c;
SELECT taskq_purge('v', '{pending}') AS purged;
-- the cursor continues from what it saw
FETCH ALL FROM c;
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM taskq.tasks WHERE queue = 'v';
SELECT taskq_submit('v', '"mine"') > 0 AS submitted;
SELECT count(*) FROM taskq.tasks WHERE queue = 'v';
SELECT count(*) FROM taskq_list('v');
SAVEPOINT s;
SELECT count(*) FROM taskq_claim('v', 'v label', max_tasks => 2);
SELECT count(*) FROM taskq.running;
ROLLBACK TO s;
SELECT count(*) FROM taskq.running;
ROLLBACK;
-- queues: reading them waits for nothing; the tokens of the bucket are shown once it is filling
SELECT queue, pending, ready, running, done, dead, counted_at > clock_timestamp() - interval '1 min' AS counted, active_workers, waiters, rates FROM taskq.queues WHERE queue LIKE 'v%' ORDER BY queue;
SELECT count(*) FROM taskq_claim('v other', 'v label');
SELECT (rates ->> 'tokens')::numeric < 1 AS filling FROM taskq.queues WHERE queue = 'v other';
SELECT worker, state, running, last_seen IS NOT NULL AS seen FROM taskq.workers WHERE worker = 'v worker';
-- few finished tasks are counted immediately, many as of the last count
SELECT count(*) FROM taskq_submit_many('v many', array_fill('1'::jsonb, ARRAY[120]));
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('v many', max_tasks => 30);
SELECT done FROM taskq.queues WHERE queue = 'v many';
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('v many', max_tasks => 90);
SELECT coalesce(done BETWEEN 0 AND 120 AND counted_at < clock_timestamp(), counted_at IS NULL) AS as_of_then FROM taskq.queues WHERE queue = 'v many';
SELECT taskq_drop_queue('v many');
-- errors of the last ten attempts, large ones, too
SELECT taskq_submit('v', '"often"', max_attempts => -1, priority => 9) AS often \gset
DO $$
BEGIN
    FOR i IN 1 .. 12 LOOP
        PERFORM taskq_fail(task_id, token, i || repeat('e', 9000), detail => jsonb_build_object('d', repeat('x', 20000))) FROM taskq_claim('v', 'v label');
    END LOOP;
END
$$;
SELECT jsonb_array_length(errors), (SELECT string_agg(x ->> 'attempt', ' ') FROM jsonb_array_elements(errors) x), left(error, 4) AS error, length(error), length(errors -> 0 -> 'detail' ->> 'd') AS detail FROM taskq_get(:often);
SELECT g.errors = t.errors AND g.error = t.error AS same FROM taskq_get(:often) g, taskq.tasks t WHERE t.task_id = :often;
-- lineage: 3 has a dead letter, 4 was recreated as 6 and 6 as 7; odd ones have the same correlation
-- id
UPDATE taskq.archive SET recreated_as = (SELECT id FROM t.v WHERE n = 6) WHERE task_id = (SELECT id FROM t.v WHERE n = 4);
SELECT taskq_cancel(id) FROM t.v WHERE n = 6;
UPDATE taskq.archive SET recreated_as = (SELECT id FROM t.v WHERE n = 7) WHERE task_id = (SELECT id FROM t.v WHERE n = 6);
CREATE FUNCTION t.lineage(bigint) RETURNS TABLE (n text, relation text, at boolean) LANGUAGE sql AS $$
    SELECT coalesce((SELECT n::text FROM t.v WHERE v.id = l.task_id), 'letter'), l.relation, l.at <= clock_timestamp() FROM taskq_lineage($1) l
$$;
SELECT v.n, l.* FROM t.v, LATERAL t.lineage(id) l WHERE v.n IN (3, 4, 6, 7) AND l.relation <> 'same_correlation' ORDER BY v.n, l.relation, l.n;
SELECT l.* FROM t.v, LATERAL t.lineage(id) l WHERE v.n = 9 ORDER BY l.n;
SELECT l.n, l.relation FROM taskq.tasks, LATERAL t.lineage(task_id) l WHERE queue = 'v letters' ORDER BY l.relation, l.n;
-- a task that the role may not read is left out
SET ROLE regress_taskq_view_read;
SELECT l.n, l.relation FROM t.v, LATERAL t.lineage(id) l WHERE v.n = 3 ORDER BY l.relation, l.n;
SELECT t.try(format('SELECT taskq_lineage(%s)', id)) = format('TQ002: task %s does not exist | {"task_id": %s} | It may have been removed by retention, or you have no privilege on its queue.', id, id) AS none FROM t.v WHERE n = 9;
RESET ROLE;
GRANT EXECUTE ON FUNCTION taskq_lineage(bigint) TO regress_taskq_view_work, regress_taskq_view_monitor;
SET ROLE regress_taskq_view_work;
SELECT t.code(format('SELECT taskq_lineage(%s)', id)) FROM t.v WHERE n = 3;
SET ROLE regress_taskq_view_monitor;
SELECT count(*) FROM t.v, LATERAL t.lineage(id) l WHERE v.n = 3;
RESET ROLE;
SELECT t.try('SELECT taskq_lineage(0)');
SELECT t.try('SELECT taskq_lineage(NULL)');
-- the dead letter outlives its origin
SELECT taskq_purge('v', '{dead}');
SELECT l.n, l.relation FROM taskq.tasks, LATERAL t.lineage(task_id) l WHERE queue = 'v letters' ORDER BY l.relation, l.n;
SELECT * FROM taskq_check();
SELECT taskq_deregister('v worker');
REVOKE EXECUTE ON FUNCTION taskq_lineage(bigint) FROM regress_taskq_view_work, regress_taskq_view_monitor;
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues WHERE queue LIKE 'v%';
DROP FUNCTION t.v(bigint), t.seen(), t.leak(text, text), t.where(text), t.lineage(bigint);
DROP TABLE t.v, t.leaked;
DROP OWNED BY regress_taskq_view_read, regress_taskq_view_none, regress_taskq_view_work, regress_taskq_view_monitor;
DROP ROLE regress_taskq_view_read, regress_taskq_view_none, regress_taskq_view_work, regress_taskq_view_monitor;

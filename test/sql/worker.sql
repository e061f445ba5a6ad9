--
-- worker: registered workers and labels
--
SELECT taskq_create_queue('w');
CREATE ROLE regress_taskq_w1;
CREATE ROLE regress_taskq_w2;
SELECT taskq_grant('w', r, '{work,submit}') FROM unnest(ARRAY['regress_taskq_w1', 'regress_taskq_w2']) r;
-- register, send heartbeats, deregister
SELECT taskq_register('one', '{w,x}', '{b,a,b}', info => '{"host": "h"}');
SELECT worker, state, queues, tags, running, max_running, bound, role = current_user AS mine, registered_at <= now() + interval '1 min' AS registered,
       last_seen IS NOT NULL AS seen, info
  FROM taskq.workers;
SELECT state, cancel, drain, next_in > '0' AND next_in <= '30 s' AS next FROM taskq_heartbeat('one');
SELECT taskq_deregister('one');
SELECT worker, state FROM taskq.workers;
SELECT t.try($$SELECT taskq_heartbeat('one')$$);
SELECT t.try($$SELECT taskq_deregister('one')$$);
SELECT t.try($$SELECT taskq_heartbeat('never seen')$$);
SELECT t.try($$SELECT taskq_deregister('never seen')$$);
-- defaults
SELECT taskq_register('two');
SELECT queues, tags, info FROM taskq.workers WHERE worker = 'two';
-- its claims have no lease, unless one is given; its tags count unless tags are given
SELECT taskq_register('tagged', tags => '{a}');
SELECT count(taskq_submit('w', to_jsonb(n), tags => s::text[])) FROM unnest(ARRAY['{a}', '{b}', NULL, '{a}', NULL]) WITH ORDINALITY u (s, n);
SELECT payload, lease_until FROM taskq_claim('w', 'tagged', max_tasks => 2);
SELECT payload FROM taskq_claim('w', 'tagged', tags => '{b}', max_tasks => 1);
SELECT payload, lease_until - now() BETWEEN interval '59 min' AND interval '61 min' AS an_hour FROM taskq_claim('w', 'tagged', lease => '1 h');
SELECT payload FROM taskq_claim('w', 'tagged', tags => '{}');
SELECT running FROM taskq.workers WHERE worker = 'tagged';
SELECT worker, count(*) FROM taskq_list('w', 'running') GROUP BY worker;
-- extend without a lease leaves a claim without a lease
SELECT min(task_id) AS task_id, min(token) AS token FROM taskq_list('w', 'running') WHERE lease_until IS NULL \gset
SELECT * FROM taskq_extend(:task_id, (taskq_get(:task_id)).token);
SELECT lease_until IS NOT NULL AS has_one FROM taskq_extend(:task_id, (taskq_get(:task_id)).token, '1 h');
-- a heartbeat returns the tasks to stop
SELECT cancel FROM taskq_heartbeat('tagged');
SELECT taskq_cancel(:task_id);
SELECT cancel = ARRAY[:task_id]::bigint[] AS told FROM taskq_heartbeat('tagged');
SELECT taskq_fail(:task_id, (taskq_get(:task_id)).token, 'stopped');
SELECT cancel FROM taskq_heartbeat('tagged');
-- deregistering costs no attempt
SELECT taskq_deregister('tagged');
SELECT state, attempt, worker, count(*) FROM taskq_list('w') WHERE state <> 'cancelled' GROUP BY 1, 2, 3;
-- a new process of that name: the tasks of the former one are returned, and the attempts count
SELECT taskq_register('again', tags => '{a,b}');
SELECT count(*) FROM taskq_claim('w', 'again', max_tasks => 2);
SELECT taskq_register('again', tags => '{b}');
SELECT state, attempt, error, count(*) FROM taskq_list('w') WHERE state <> 'cancelled' GROUP BY 1, 2, 3 ORDER BY 2;
SELECT tags FROM taskq.workers WHERE worker = 'again' AND state = 'active';
-- all attempts are used
SELECT taskq_submit('w last', max_attempts => 1) AS id \gset
SELECT count(*) FROM taskq_claim('w last', 'again');
SELECT taskq_register('again');
SELECT state, reason, attempt, error FROM taskq_get(:id);
-- a label needs no registration, and its use is no registration
SELECT taskq_submit('label') AS id \gset
SELECT lease_until IS NOT NULL AS lease FROM taskq_claim('label', 'just a label');
SELECT worker FROM taskq_get(:id);
SELECT count(*) FROM taskq.workers WHERE worker = 'just a label';
SELECT t.try($$SELECT taskq_heartbeat('just a label')$$);
-- any role may use a label
SET ROLE regress_taskq_w1;
SELECT count(*) FROM taskq_claim('w', 'just a label', max_tasks => 2, tags => '{a,b}');
-- a name belongs to the role that registered it
SELECT taskq_register('w1''s');
SELECT worker, role, queues FROM taskq.workers;
SET ROLE regress_taskq_w2;
SELECT t.try($$SELECT taskq_register('w1''s')$$);
SELECT t.try($$SELECT taskq_heartbeat('w1''s')$$);
SELECT t.try($$SELECT taskq_deregister('w1''s')$$);
SELECT t.try($$SELECT * FROM taskq_claim('w', 'w1''s')$$);
SELECT worker FROM taskq.workers;
SET ROLE regress_taskq_w1;
SELECT state FROM taskq_heartbeat('w1''s');
RESET ROLE;
SELECT state FROM taskq_heartbeat('w1''s');
SELECT taskq_grant('*', 'regress_taskq_w2', '{manage}');
SET ROLE regress_taskq_w2;
SELECT state FROM taskq_heartbeat('w1''s');
SELECT taskq_deregister('w1''s');
RESET ROLE;
SELECT taskq_revoke('*', 'regress_taskq_w2', '{manage}');
-- in a transaction that is rolled back
BEGIN;
SELECT taskq_register('brief');
SELECT state FROM taskq_heartbeat('brief');
ROLLBACK;
SELECT t.code($$SELECT taskq_heartbeat('brief')$$);
-- drain: no further claims, running tasks continue
SELECT count(taskq_submit('drain', to_jsonb(n))) FROM generate_series(1, 5) n;
SELECT taskq_register('dr', '{drain}');
SELECT payload FROM taskq_claim('drain', 'dr');
SELECT drain FROM taskq_heartbeat('dr');
SELECT taskq_drain('dr');
SELECT state, drain FROM taskq_heartbeat('dr');
SELECT count(*) FROM taskq_claim('drain', 'dr');
SELECT count(*) FROM taskq_claim(NULL, 'dr');
SELECT count(*) FROM taskq_complete_and_claim('{}', '{}', queue => 'drain', worker => 'dr');
SELECT state, running FROM taskq.workers WHERE worker = 'dr';
SELECT cancel FROM taskq.tasks s, taskq_extend(s.task_id, s.token) x WHERE s.queue = 'drain' AND s.state = 'running';
SELECT taskq_drain('dr');
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'drain' AND state = 'running';
-- other workers are not affected; registering again ends it, with or without keep
SELECT payload FROM taskq_claim('drain', 'stranger');
SELECT taskq_register('dr', '{drain}', keep => true);
SELECT drain FROM taskq_heartbeat('dr');
SELECT payload FROM taskq_claim('drain', 'dr');
SELECT taskq_drain('dr');
SELECT taskq_register('dr', '{drain}');
SELECT drain FROM taskq_heartbeat('dr');
SELECT count(*) FROM taskq_claim('drain', 'dr');
BEGIN;
SELECT taskq_drain('dr');
SELECT drain FROM taskq_heartbeat('dr');
ROLLBACK;
SELECT drain FROM taskq_heartbeat('dr');
SELECT t.try($$SELECT taskq_drain('never seen')$$);
SELECT t.try($$SELECT taskq_drain('just a label')$$);
SELECT t.try($$SELECT taskq_drain(NULL)$$);
SELECT t.try($$SELECT taskq_drain('')$$);
-- keep: the same process registers again, keeps its tasks and changes its settings
SELECT taskq_register('keeps', '{drain}', '{a}', 3, info => '{"v": 1}');
SELECT registered_at AS before FROM taskq.workers WHERE worker = 'keeps' \gset
SELECT taskq_submit('drain', '"kept"', priority => 9) AS id \gset
SELECT payload, token FROM taskq_claim('drain', 'keeps') \gset
SELECT taskq_register('keeps', '{drain,w}', '{b}', 5, info => '{"v": 2}', keep => true);
SELECT queues, tags, max_running, info, running, registered_at = :'before' AS same_registration FROM taskq.workers WHERE worker = 'keeps';
SELECT taskq_register('keeps', keep => true);
SELECT queues, tags, max_running, info, running FROM taskq.workers WHERE worker = 'keeps';
SELECT payload, state, attempt FROM taskq_get(:id);
SELECT taskq_complete(:id, :token);
-- a new name, or that of a worker that has left
SELECT taskq_register('keeps new', keep => true);
SELECT taskq_deregister('keeps new');
SELECT taskq_register('keeps new', keep => true);
SELECT state FROM taskq_heartbeat('keeps new');
-- claims from all queues of a worker, in turn
SELECT count(taskq_submit('turn ' || q, to_jsonb(q || n))) FROM generate_series(1, 3) n, unnest('{a,b,c}'::text[]) q;
SELECT taskq_register('turns', '{turn a,turn b,turn c}');
CREATE TABLE t.turns AS SELECT g AS n, c.queue FROM generate_series(1, 6) g, LATERAL taskq_claim(NULL, 'turns', CASE WHEN g > 0 THEN 1 END) c;
SELECT queue, count(*) FROM t.turns GROUP BY queue ORDER BY queue;
SELECT bool_and(queue <> next) AS never_twice_running FROM (SELECT queue, lead(queue) OVER (ORDER BY n) AS next FROM t.turns) s;
SELECT count(*) FROM taskq_claim(NULL, 'turns', 2);
SELECT count(*) FROM taskq_claim(NULL, 'turns', 100);
SELECT count(*) FROM taskq_claim(NULL, 'turns', 100);
DROP TABLE t.turns;
-- queues that do not exist are skipped, and so are paused ones
SELECT taskq_register('turns', '{no such queue,turn a,turn b}');
SELECT taskq_pause('turn a');
SELECT DISTINCT queue FROM taskq_claim(NULL, 'turns', 100);
SELECT taskq_resume('turn a');
SELECT DISTINCT queue, lease_until - now() > interval '59 min' AS lease FROM taskq_claim(NULL, 'turns', 100, '1 h');
-- its tags count, or the given ones; it claims from all queues if it names none
SELECT count(taskq_submit(q, tags => '{red}')) FROM unnest('{all 1,all 2}'::text[]) q;
SELECT taskq_register('everywhere', tags => '{red}');
SELECT count(*) FROM taskq_claim(NULL, 'everywhere', 100, tags => '{blue}') WHERE queue LIKE 'all _';
SELECT DISTINCT queue FROM taskq_claim(NULL, 'everywhere', 100) WHERE queue LIKE 'all _' ORDER BY queue;
SELECT taskq_deregister('everywhere') > 0 AS had_some;
-- as many in total as max_running allows
SELECT taskq_register('few', '{all 1,all 2}', '{red}', 3);
SELECT count(taskq_submit(q)) FROM unnest('{all 1,all 2}'::text[]) q, generate_series(1, 3);
SELECT count(*) FROM taskq_claim(NULL, 'few', 100);
SELECT count(*) FROM taskq_claim(NULL, 'few', 100);
-- a claim without a queue needs a registered worker
SELECT t.try($$SELECT count(*) FROM taskq_claim(NULL)$$);
SELECT t.try($$SELECT count(*) FROM taskq_claim(NULL, 'just a label')$$);
SELECT t.try($$SELECT count(*) FROM taskq_claim(NULL, 'never seen')$$);
-- expire: workers that have sent no heartbeat for that time
SELECT taskq_register('silent');
SELECT taskq_submit('exp') AS id \gset
SELECT count(*) FROM taskq_claim('exp', 'silent');
SELECT taskq_register('lively');
SELECT taskq_expire('lively', '1 h');
SELECT count(*) FROM taskq.workers WHERE state = 'dead';
SELECT taskq_expire('lively', '1 us') >= 1 AS expired;
SELECT worker, state FROM taskq.workers WHERE worker IN ('silent', 'lively') ORDER BY worker;
CALL t.until(format('SELECT state = ''pending'' FROM taskq_get(%s)', :id));
SELECT state, attempt, error FROM taskq_get(:id);
SELECT t.try($$SELECT taskq_heartbeat('silent')$$);
SELECT t.try($$SELECT count(*) FROM taskq_claim('exp', 'silent')$$);
SELECT t.try($$SELECT count(*) FROM taskq_claim(NULL, 'silent')$$);
SELECT t.try($$SELECT taskq_drain('silent')$$);
SELECT t.try($$SELECT taskq_expire('silent', '1 h')$$);
SELECT taskq_expire('lively', '1 us');
-- keep does not revive a dead worker: it is registered again
SELECT taskq_register('silent', keep => true);
SELECT state, running FROM taskq.workers WHERE worker = 'silent' AND state = 'active';
BEGIN;
SELECT taskq_expire('lively', '1 us');
ROLLBACK;
SELECT state FROM taskq_heartbeat('silent');
SELECT c, t.try('SELECT ' || c) FROM unnest(ARRAY['taskq_expire(''lively'', NULL)', 'taskq_expire(NULL, ''1 s'')', 'taskq_expire(''lively'', ''0'')', 'taskq_expire(''lively'', ''-1 s'')', 'taskq_expire(''lively'', ''11 years'')', 'taskq_expire(''never seen'', ''1 s'')', 'taskq_expire(''just a label'', ''1 s'')']) c;
-- without the right to its name, no role can drain, expire or use a worker of another role
SET ROLE regress_taskq_w1;
SELECT taskq_register('w1 one', '{w,exp}'), taskq_register('w1 two');
SET ROLE regress_taskq_w2;
SELECT taskq_register('w2 one', '{w,exp}');
SELECT t.try($$SELECT taskq_drain('w1 one')$$);
SELECT t.try($$SELECT taskq_expire('w1 one', '1 us')$$);
SELECT t.try($$SELECT count(*) FROM taskq_claim(NULL, 'w1 one')$$);
SELECT t.try($$SELECT taskq_register('w1 one', keep => true)$$);
SELECT taskq_expire('w2 one', '1 us');
RESET ROLE;
SELECT worker, state FROM taskq.workers WHERE worker LIKE 'w_ %' ORDER BY worker;
-- queues on which the caller may not work are skipped
SELECT taskq_submit('w', '"may"') > 0 AS submitted, taskq_submit('exp', '"may not"') > 0 AS submitted;
SET ROLE regress_taskq_w1;
SELECT DISTINCT queue FROM taskq_claim(NULL, 'w1 one', 100, tags => '{a,b}');
SELECT DISTINCT queue FROM taskq_claim(NULL, 'w1 two', 100, tags => '{a,b}');
SELECT taskq_expire('w1 one', '1 us');
RESET ROLE;
SELECT worker, state FROM taskq.workers WHERE worker LIKE 'w_ %' ORDER BY worker;
-- words
SELECT t.try($$SELECT taskq_register('')$$);
SELECT t.try($$SELECT taskq_register(NULL)$$);
SELECT t.try($$SELECT taskq_register(E'a\nb')$$);
SELECT t.try(format('SELECT taskq_register(%L)', repeat('x', 200)));
SELECT t.try(format('SELECT taskq_register(%L)', repeat('x', 201)));
SELECT t.try($$SELECT taskq_register('bad', '{""}')$$);
SELECT t.try($$SELECT taskq_register('bad', '{w,NULL}')$$);
SELECT t.try($$SELECT taskq_register('bad', '{{w},{x}}')$$);
SELECT t.try($$SELECT taskq_register('bad', tags => '{a,NULL}')$$);
SELECT t.try($$SELECT taskq_register('bad', info => '[]')$$);
SELECT t.try(format('SELECT taskq_register(''bad'', info => %L)', jsonb_build_object('x', repeat('x', 65536))));
SELECT t.try($$SELECT taskq_heartbeat(NULL)$$);
SELECT count(taskq_deregister(worker)) FROM taskq.workers WHERE state = 'active';
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP OWNED BY regress_taskq_w1, regress_taskq_w2;
DROP ROLE regress_taskq_w1, regress_taskq_w2;

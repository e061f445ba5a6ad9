--
-- worker: registered ones and labels
--
SELECT taskq_create_queue('w');
CREATE ROLE regress_taskq_w1;
CREATE ROLE regress_taskq_w2;
SELECT taskq_grant('w', r, '{work,submit}') FROM unnest(ARRAY['regress_taskq_w1', 'regress_taskq_w2']) r;
-- register, beat, leave
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
-- its claims have no lease, unless one is given; its tags count unless some are given
SELECT taskq_register('tagged', tags => '{a}');
SELECT count(taskq_submit('w', to_jsonb(n), tags => s::text[])) FROM unnest(ARRAY['{a}', '{b}', NULL, '{a}', NULL]) WITH ORDINALITY u (s, n);
SELECT payload, lease_until FROM taskq_claim('w', 'tagged', max_tasks => 2);
SELECT payload FROM taskq_claim('w', 'tagged', tags => '{b}', max_tasks => 1);
SELECT payload, lease_until - now() BETWEEN interval '59 min' AND interval '61 min' AS an_hour FROM taskq_claim('w', 'tagged', lease => '1 h');
SELECT payload FROM taskq_claim('w', 'tagged', tags => '{}');
SELECT running FROM taskq.workers WHERE worker = 'tagged';
SELECT worker, count(*) FROM taskq_list('w', 'running') GROUP BY worker;
-- extend without a lease of a claim without one leaves it so
SELECT min(task_id) AS task_id, min(token) AS token FROM taskq_list('w', 'running') WHERE lease_until IS NULL \gset
SELECT * FROM taskq_extend(:task_id, (taskq_get(:task_id)).token);
SELECT lease_until IS NOT NULL AS has_one FROM taskq_extend(:task_id, (taskq_get(:task_id)).token, '1 h');
-- a heartbeat tells which tasks to stop
SELECT cancel FROM taskq_heartbeat('tagged');
SELECT taskq_cancel(:task_id);
SELECT cancel = ARRAY[:task_id]::bigint[] AS told FROM taskq_heartbeat('tagged');
SELECT taskq_fail(:task_id, (taskq_get(:task_id)).token, 'stopped');
SELECT cancel FROM taskq_heartbeat('tagged');
-- leaving costs no attempt
SELECT taskq_deregister('tagged');
SELECT state, attempt, worker, count(*) FROM taskq_list('w') WHERE state <> 'cancelled' GROUP BY 1, 2, 3;
-- a new process of the name: what the former one held goes back, and counts
SELECT taskq_register('again', tags => '{a,b}');
SELECT count(*) FROM taskq_claim('w', 'again', max_tasks => 2);
SELECT taskq_register('again', tags => '{b}');
SELECT state, attempt, error, count(*) FROM taskq_list('w') WHERE state <> 'cancelled' GROUP BY 1, 2, 3 ORDER BY 2;
SELECT tags FROM taskq.workers WHERE worker = 'again' AND state = 'active';
-- attempts used up
SELECT taskq_submit('w last', max_attempts => 1) AS id \gset
SELECT count(*) FROM taskq_claim('w last', 'again');
SELECT taskq_register('again');
SELECT state, reason, attempt, error FROM taskq_get(:id);
-- a label needs no registration, and is none
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
-- in a transaction that rolls back
BEGIN;
SELECT taskq_register('brief');
SELECT state FROM taskq_heartbeat('brief');
ROLLBACK;
SELECT t.code($$SELECT taskq_heartbeat('brief')$$);
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

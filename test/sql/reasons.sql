--
-- reasons: who changed something by hand, and why: reasons, taskq.actor, the history of manual
-- changes, and the log of changes
--
SELECT coalesce(max(transition_id), 0) AS first FROM taskq.history \gset
SELECT coalesce(max(change_id), 0) AS first_change FROM taskq.changes \gset
SELECT taskq_create_queue('re', '{"retry": "fixed", "retry_base": "0 s", "max_attempts": 1}');
CREATE FUNCTION t.by(id bigint) RETURNS TABLE (from_state text, to_state text, reason text, message text, mine boolean, actor text) LANGUAGE sql AS $$
SELECT h.from_state, h.to_state, h.reason, h.message, h.role = current_user, h.actor
  FROM taskq.history h WHERE h.task_id = id ORDER BY h.transition_id;
$$;
-- the queue has no history: the moves of workers leave no row, manual changes do
SELECT taskq_submit('re', '1') AS id \gset
SELECT token FROM taskq_claim('re') \gset
SELECT taskq_fail(:id, :token, 'e');
SELECT count(*) FROM t.by(:id);
SET taskq.actor = 'mia@console';
SELECT taskq_retry(:id, reason => 'gateway is up again');
SELECT message FROM taskq_get(:id);
SELECT token FROM taskq_claim('re') \gset
SELECT taskq_cancel(:id, 'not needed');
-- a second request changes nothing
SELECT taskq_cancel(:id, 'not needed');
SELECT taskq_fail(:id, :token, 'e', true);
SELECT * FROM t.by(:id);
-- the same in the timeline, whose last column is the actor
SELECT from_state, to_state, reason, attempt, role = current_user AS mine, message, actor FROM taskq_timeline(:id);
-- a manual change that was followed by moves without history explains only its own time
RESET taskq.actor;
SELECT taskq_submit('re', max_attempts => 9) AS id \gset
SELECT taskq_hold(:id, 'first time');
SELECT regexp_replace(taskq_explain(:id), '^.* \(held\), |retry\(\d+\)', '', 'g') AS explained, taskq_explain(:id) ~ format('by role "%s"', current_user) AS by;
SELECT taskq_retry(:id);
SELECT token FROM taskq_claim('re') \gset
SELECT taskq_suspend(:id, :token, 'second time');
SELECT regexp_replace(taskq_explain(:id), '^.*queue "re" |retry\(\d+\)', '', 'g') AS explained;
SELECT taskq_update_task(:id, '{"priority": 1}');
SELECT regexp_replace(taskq_explain(:id), '^.*queue "re" |retry\(\d+\)', '', 'g') AS explained;
SELECT taskq_cancel(:id);
-- each action on one task
SELECT taskq_submit('re', delay => '1 h') AS id \gset
SELECT taskq_update_task(:id, '{"priority": 3}', reason => 'urgent');
SELECT taskq_update_task(:id, '{}', reason => 'no, really');
SELECT taskq_update_task(:id, '{}');
SELECT taskq_hold(:id, 'wait');
SELECT taskq_update_task(:id, '{"priority": 4}');
SET taskq.actor = 'bo';
SELECT taskq_retry(:id);
SELECT taskq_poison(:id, 'bad payload');
SELECT taskq_poison(:id, 'very bad payload');
SELECT taskq_unpoison(:id, 'was good');
SELECT taskq_resolve(:id, '1', 'done on paper');
SELECT * FROM t.by(:id);
SELECT state, message FROM taskq_get(:id);
SELECT taskq_recreate(:id, reason => 'again') AS new \gset
SELECT to_state, message, actor FROM t.by(:id) OFFSET 9;
SELECT * FROM t.by(:new);
SELECT state, message FROM taskq_get(:new);
-- a running task, with force
SELECT token FROM taskq_claim('re') \gset
SELECT taskq_retry(:new, true, true, 'stuck');
SELECT token FROM taskq_claim('re') \gset
SELECT taskq_resolve(:new, reason => 'seen it end', force => true);
SELECT * FROM t.by(:new);
-- a task that is deleted, live or finished
SELECT taskq_submit('re', delay => '1 h') AS a, taskq_submit('re', delay => '1 h') AS b \gset
SELECT taskq_cancel(:b);
SELECT ok FROM taskq_manage_many('delete', ARRAY[:a, :b], 'asked to forget');
SELECT from_state, to_state, message, actor FROM t.by(:a);
SELECT from_state, to_state, message, actor FROM t.by(:b);
-- calls on many tasks
SELECT array_agg(taskq_submit('re', to_jsonb(i), key => 'k' || i)) AS ids FROM generate_series(1, 3) i \gset
SELECT taskq_reassign('re', 'pending', 'dead', task_ids => :'ids', reason => 'rain');
SELECT taskq_retry_all('re', reason => 'manual', from_id => (:'ids'::bigint[])[1], comment => 'sun');
SELECT ok FROM taskq_manage_many('hold', :'ids', 'clouds');
SELECT count(*) FROM taskq_junction('re', '{k1}', reason => 'joined');
SELECT count(*) FROM taskq_junction('re', '{k1,k2}', reason => 'not made');
SELECT count(*) FROM taskq_recreate_all('re', 'suspended', reason => 'once more');
SELECT h.from_state, h.to_state, h.message, count(*) FROM taskq.history h WHERE h.task_id = ANY (:'ids') GROUP BY 1, 2, 3 ORDER BY min(h.transition_id);
SELECT h.from_state, h.to_state, h.message, count(*) FROM taskq.history h WHERE h.task_id > (:'ids'::bigint[])[3] AND h.queue = 're' GROUP BY 1, 2, 3 ORDER BY min(h.transition_id);
SELECT state, message FROM taskq_list('re', 'pending') ORDER BY task_id;
-- taskq_change is the work of programs; with a reason it is a manual change
SELECT task_id AS id, version FROM taskq_change('rc', adds => '[{"queue": "re", "delay": "1 h"}]') \gset
SELECT state, version AS version FROM taskq_change('rc', updates => jsonb_build_array(jsonb_build_object('task_id', :id, 'version', :version, 'priority', 2))) \gset
SELECT count(*) FROM t.by(:id);
SELECT version FROM taskq_change('rc', updates => jsonb_build_array(jsonb_build_object('task_id', :id, 'version', :version, 'priority', 5)), doc_adds => '[{"namespace": "re", "key": "d", "content": 1}]', reason => 'by hand') \gset
SELECT count(*) FROM taskq_change('rc', deletes => jsonb_build_array(jsonb_build_object('task_id', :id, 'version', :version)), reason => 'wrong');
SELECT from_state, to_state, reason, message, actor FROM t.by(:id);
SELECT task_id AS id FROM taskq_change('rc', adds => '[{"queue": "re", "delay": "1 h"}]', reason => 'missing one') \gset
SELECT from_state, to_state, reason, message, actor FROM t.by(:id);
SELECT message FROM taskq_get(:id);
-- purge: waiting tasks one by one, finished ones in the log only
SELECT taskq_purge('re', '{pending,blocked,suspended}', comment => 'cleared');
SELECT from_state, to_state, message FROM t.by(:id) OFFSET 1;
SELECT taskq_purge('re', comment => 'all of it') > 0 AS purged;
SELECT taskq_purge('re', comment => 'nothing left');
-- a step of a workflow: its history also tells that it was asked to stop
SELECT taskq_define_workflow('{"name": "re", "version": "1", "queue": "re", "retention": "0 s", "steps": [{"name": "a"}]}', 'first version');
SELECT taskq_define_workflow('{"name": "re", "version": "1", "queue": "re", "retention": "0 s", "steps": [{"name": "a"}]}', 'the same');
SELECT taskq_start_workflow('re') AS w \gset
SELECT task_id AS id, token FROM taskq_claim('re') \gset
SELECT taskq_cancel_workflow(:w, 'over');
SELECT taskq_fail(:id, :token, 'stopped');
SELECT from_state, to_state, reason, message, actor FROM t.by(:id);
SELECT acted FROM taskq_run_reapers() WHERE reaper = 'workflows';
SELECT taskq_undefine_workflow('re', reason => 'old');
-- queues, rights, schedules, workers
SELECT taskq_alter_queue('re', '{"priority": 1}', 'faster');
SELECT taskq_pause('re', 'maintenance', '2030-01-01 00:00:00+00');
SELECT taskq_resume('re', 'finished');
SELECT taskq_pause('*');
SELECT taskq_resume('*');
SELECT taskq_create_queue('re2', if_not_exists => true, reason => 'for tests');
SELECT taskq_create_queue('re2', if_not_exists => true, reason => 'exists');
CREATE ROLE regress_taskq_re_read;
CREATE ROLE regress_taskq_re_work;
CREATE ROLE regress_taskq_re_none;
CREATE ROLE regress_taskq_re_monitor IN ROLE pg_monitor;
SELECT taskq_grant('re', 'regress_taskq_re_read', '{read}', 'new on the team');
SELECT taskq_grant('re', 'regress_taskq_re_work', '{work,manage}');
SELECT taskq_grant('re2', 'public', '{submit}');
SELECT taskq_revoke('re2', 'public', '{submit}', 'too many');
SELECT taskq_schedule('re', 'every 1 h', 're', enabled => false, reason => 'hourly');
SELECT taskq_run_schedule('re', 'once now') > 0 AS ran;
SELECT taskq_unschedule('re', 'never again');
SELECT taskq_unschedule('re', 'is gone');
SELECT taskq_register('re-1'), taskq_register('re-2'), taskq_register('re-3', incarnation => 5);
SELECT taskq_drain('re-1', reason => 'update');
SELECT taskq_deregister('re-1');
SELECT taskq_deregister('re-2', reason => 'is replaced');
SELECT taskq_deregister('re-3', 5);
SET ROLE regress_taskq_re_work;
SELECT taskq_register('re-4');
SELECT taskq_resume('re', 'as a worker');
RESET ROLE;
-- another session, as taskq sees it after DISCARD ALL, deregisters the worker
DISCARD ALL;
SET taskq.actor = 'bo';
SELECT taskq_deregister('re-4');
SET ROLE regress_taskq_re_work;
SELECT taskq_register('re-5'), taskq_register('re-6');
SELECT taskq_expire('re-5', '1 h', 'none is silent');
SELECT taskq_expire('re-5', '1 us', 'all are silent');
SELECT state FROM taskq.workers WHERE worker = 're-6';
SELECT taskq_deregister('re-5');
RESET ROLE;
SELECT taskq_drop_queue('re2', reason => 'unused');
SELECT what, queue, object, regexp_replace(detail::text, '("(task|workflow)_id": )\d+', '\1n') AS detail, reason, actor, role = current_user AS mine
  FROM taskq.changes WHERE change_id > :first_change ORDER BY change_id;
SELECT bool_and(at > clock_timestamp() - interval '5 min' AND at <= clock_timestamp()) AS now FROM taskq.changes WHERE change_id > :first_change;
-- which roles see it: readers of the queue, the role itself; pg_monitor sees everything
SET ROLE regress_taskq_re_read;
SELECT what, queue, object FROM taskq.changes WHERE change_id > :first_change AND what IN ('resume', 'create_queue', 'drain', 'define_workflow', 'grant') ORDER BY change_id;
SET ROLE regress_taskq_re_work;
SELECT what, queue, object, reason FROM taskq.changes WHERE change_id > :first_change ORDER BY change_id;
SET ROLE regress_taskq_re_none;
SELECT count(*) FROM taskq.changes;
SELECT t.code('SELECT * FROM taskq.change_log');
SELECT t.code('DELETE FROM taskq.changes');
SET ROLE regress_taskq_re_monitor;
SELECT count(DISTINCT what) FROM taskq.changes WHERE change_id > :first_change;
SELECT bool_or(message IS NOT NULL) AS messages, bool_or(actor IS NOT NULL) AS actors FROM taskq.history WHERE transition_id > :first;
RESET ROLE;
-- what a call has changed and what the log says are one: both are undone
BEGIN;
SELECT taskq_pause('re', 'rolled back');
ROLLBACK;
SELECT count(*) FROM taskq.changes WHERE reason = 'rolled back';
-- a reason is cut like any message; it may have any characters
SELECT taskq_pause('re', repeat('ä', 5000));
SELECT octet_length(reason), reason = repeat('ä', 4096) AS cut FROM taskq.changes ORDER BY change_id DESC LIMIT 1;
SELECT taskq_resume('re', E'a\n"b"\t''c''');
SELECT reason FROM taskq.changes ORDER BY change_id DESC LIMIT 1;
-- actors
RESET taskq.actor;
SHOW taskq.actor;
SELECT name, value, source FROM taskq.settings WHERE name = 'taskq.actor';
SELECT t.try($$SET taskq.actor = E'a\nb'$$);
SELECT t.try($$SET taskq.actor = E'\x7f'$$);
SELECT t.try(format('SET taskq.actor = %L', repeat('x', 201)));
SELECT t.try(format('SET taskq.actor = %L', repeat('ä', 101)));
SELECT t.try($$SELECT set_config('taskq.actor', E'tab\there', true)$$);
SHOW taskq.actor;
SET taskq.actor = '';
SELECT taskq_resume('re');
SELECT actor IS NULL AS none FROM taskq.changes ORDER BY change_id DESC LIMIT 1;
SELECT set_config('taskq.actor', repeat('ä', 100), false) = repeat('ä', 100) AS set;
SELECT taskq_resume('re');
SELECT actor = repeat('ä', 100) AS whole FROM taskq.changes ORDER BY change_id DESC LIMIT 1;
-- any role may claim one, for a transaction as well
SET ROLE regress_taskq_re_work;
BEGIN;
SET LOCAL taskq.actor = 'worker''s friend';
SELECT taskq_resume('re');
COMMIT;
SELECT actor, role FROM taskq.changes ORDER BY change_id DESC LIMIT 1;
RESET ROLE;
RESET taskq.actor;
-- the log is swept: rows older than 30 days, and all but the newest 100,000
SELECT count(*) AS kept FROM taskq.change_log \gset
INSERT INTO taskq.change_log (at, role_id, what, object) SELECT now() - interval '30 days 1 s', role_id, 'old', i FROM generate_series(1, 1500) i, (SELECT min(role_id) AS role_id FROM taskq.role) r;
INSERT INTO taskq.change_log (at, role_id, what, object) SELECT now() - interval '29 days', role_id, 'young', 'x' FROM (SELECT min(role_id) AS role_id FROM taskq.role) r;
SELECT acted FROM taskq_run_reapers() WHERE reaper = 'changes';
SELECT acted FROM taskq_run_reapers() WHERE reaper = 'changes';
SELECT acted FROM taskq_run_reapers() WHERE reaper = 'changes';
SELECT count(*) - :kept AS one FROM taskq.change_log;
BEGIN;
INSERT INTO taskq.change_log (at, role_id, what, object) SELECT now(), role_id, 'many', i FROM generate_series(1, 100000) i, (SELECT min(role_id) AS role_id FROM taskq.role) r;
SELECT acted = least(:kept + 1, 1000) AS all_before FROM taskq_run_reapers() WHERE reaper = 'changes';
SELECT count(*) FROM taskq.changes WHERE what = 'many';
ROLLBACK;
DELETE FROM taskq.change_log WHERE what = 'young';
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) > 0 AS dropped FROM taskq.queues WHERE queue = 're';
DROP FUNCTION t.by(bigint);
DROP OWNED BY regress_taskq_re_read, regress_taskq_re_work, regress_taskq_re_none, regress_taskq_re_monitor;
DROP ROLE regress_taskq_re_read, regress_taskq_re_work, regress_taskq_re_none, regress_taskq_re_monitor;

--
-- manage_more: hold, resolve, recreate, poison, lists, other settings
--
SELECT taskq_create_queue('mm', '{"max_attempts": 1, "reference_window": "1 d"}');
CREATE FUNCTION t.show(id bigint) RETURNS text LANGUAGE sql AS $$
SELECT concat_ws(' ', state, 'reason=' || reason, 'message=' || message, 'attempt=' || attempt, 'result=' || result::text)
  FROM taskq_get(id);
$$;
CREATE FUNCTION t.told(call text) RETURNS text LANGUAGE sql AS $$
SELECT regexp_replace(t.try(call), '(task|"task_id":) \d+', '\1 ID', 'g');
$$;
-- hold, and resume: the task is not due before its time
SELECT taskq_submit('mm', run_at => '2027-01-01 12:00+00', reference => 'later') AS later \gset
SELECT taskq_hold(:later, 'until the audit is over');
SELECT t.show(:later);
SELECT taskq_retry(:later);
SELECT state, run_at = '2027-01-01 12:00+00' AS same_time FROM taskq_get(:later);
SELECT taskq_cancel(:later);
-- resolve: by hand, the result kept unless another one is given
SELECT taskq_submit('mm', '{"n": 1}') AS id \gset
SELECT taskq_resolve(:id, '{"paid": true}', 'paid by hand');
SELECT t.show(:id), finished_at IS NOT NULL AS finished FROM taskq_get(:id);
SELECT taskq_submit('mm', '{"n": 2}') AS id \gset
SELECT token FROM taskq_claim('mm') \gset
SELECT t.told(format('SELECT taskq_resolve(%s)', :id));
SELECT taskq_resolve(:id, force => true);
SELECT t.show(:id);
SELECT left(t.told(format('SELECT taskq_complete(%s, %s)', :id, :token)), 5) AS the_token_is_void;
SELECT t.told(format('SELECT taskq_resolve(%s, to_jsonb(repeat(''x'', 1100000)))', taskq_submit('mm', '{"n": 3}'))) ~ '^TQ009' AS too_large;
SELECT taskq_purge('mm', '{pending,done}');
-- recreate: a new task with the same contents; the reference goes with it
SELECT taskq_submit('mm', '{"big": 1}', priority => 7, deadline => clock_timestamp() + interval '1 h', max_attempts => 4,
                    tags => '{a,b}', key => 'customer 1', reference => 'ref', headers => '{"h": true}', correlation_id => 'corr',
                    data => '\x0102', options => '{"lease": "7 s"}') AS old \gset
SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM taskq_claim('mm', tags => '{a,b}');
SELECT taskq_recreate(:old) AS new \gset
SELECT :new > :old AS higher;
SELECT state, reason, recreated_as = :new AS names_it, descent, error FROM taskq_get(:old);
SELECT state, attempt, token, priority, max_attempts, tags, key, reference, headers, correlation_id, payload, data, error, descent,
       deadline IS NOT NULL AS has_deadline, submitted_by = current_user AS mine, run_as = current_user AS as_me
  FROM taskq_get(:new);
SELECT lease_until - clock_timestamp() BETWEEN '5 s' AND '7 s' AS own_lease FROM taskq_claim('mm', tags => '{a,b}');
SELECT t.told(format('SELECT taskq_recreate(%s)', :old));
SELECT t.told(format('SELECT taskq_recreate(%s)', :new));
SELECT t.told(format('SELECT taskq_recreate(%s, ''supersede'')', :new));
SELECT t.told(format('SELECT taskq_recreate(%s, ''before'')', :new));
SELECT t.told(format('SELECT taskq_submit(''mm'', reference => ''ref'')', :new)) ~ '^TQ006' AS still_taken;
SELECT taskq_cancel(:new, force => true);
-- a large payload is copied, too; with retention none nothing is left
SELECT taskq_create_queue('mn', '{"retention": "none"}');
SELECT taskq_submit('mn', to_jsonb(repeat('payload ', 1000)), suspended => true) AS old \gset
SELECT taskq_recreate(:old) AS new \gset
SELECT t.told(format('SELECT state FROM taskq_get(%s)', :old)) ~ '^TQ002' AS gone;
SELECT state AS suspended_again, length(payload #>> '{}') FROM taskq_get(:new);
SELECT count(*) AS parts FROM taskq.large WHERE task_id IN (:old, :new);
-- not with a reference that another task has
SELECT taskq_submit('mn', reference => 'r') AS first \gset
SELECT taskq_complete(task_id, token, keep => true) FROM taskq_claim('mn');
SELECT taskq_submit('mn', reference => 'r') AS second \gset
SELECT t.told(format('SELECT taskq_recreate(%s)', :first)) ~ '^TQ006' AS taken;
SELECT state FROM taskq_get(:first);
-- poison: dead for that reason, skipped by bulk retries, and retried
SELECT taskq_drop_queue('mn', true) > 0;
SELECT taskq_purge('mm') > 0;
SELECT count(*) FROM taskq_submit_many('mm', array_fill('1'::jsonb, ARRAY[4]));
SELECT min(task_id) AS first FROM taskq_list('mm') \gset
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('mm', max_tasks => 4);
SELECT taskq_poison(:first, 'kills the worker');
SELECT t.show(:first);
SELECT taskq_poison(:first, 'kills every worker');
SELECT t.show(:first);
SELECT taskq_retry_all('mm') AS retried;
SELECT taskq_retry_all('mm', reason => 'poison') AS retried;
SELECT task_id = :first AS it, ok, error_code FROM taskq_manage_many('retry', ARRAY[:first]::bigint[]);
SELECT taskq_unpoison(:first);
SELECT t.show(:first);
SELECT t.told(format('SELECT taskq_unpoison(%s)', :first));
SELECT taskq_retry_all('mm') AS retried;
SELECT taskq_poison(:first);
SELECT taskq_unpoison(:first);
SELECT t.show(:first);
SELECT taskq_poison(:first);
SELECT taskq_retry(:first);
SELECT t.show(:first);
-- retry_all: each filter; tasks that cannot be retried are skipped
SELECT taskq_fail(task_id, token, 'no', retryable => task_id > :first + 1) FROM taskq_claim('mm', max_tasks => 4);
SELECT task_id - :first AS n, state, reason FROM taskq_list('mm');
SELECT taskq_retry_all('mm', reason => 'rejected', from_id => :first + 1) AS retried;
SELECT taskq_retry_all('mm', to_id => :first + 2, max_tasks => 1) AS retried;
SELECT task_id - :first AS n, state, attempt FROM taskq_list('mm');
SELECT taskq_retry_all('mm', 'suspended') AS retried, taskq_retry_all('mm', NULL, NULL, NULL, NULL, 1) AS dead;
SELECT taskq_cancel(task_id) FROM taskq_list('mm', 'pending');
SELECT taskq_retry_all('mm', 'cancelled') AS retried;
SELECT taskq_suspend(task_id, token) FROM taskq_claim('mm', max_tasks => 2);
SELECT taskq_update_task(:first, '{}');
SELECT taskq_retry_all('mm', 'suspended') AS retried;
-- two tasks that died with one reference: one is retried
SELECT taskq_alter_queue('mm', '{"reference_window": null}');
SELECT taskq_purge('mm', '{pending,dead,cancelled}') > 0;
SELECT taskq_submit('mm', '1', reference => 'twin') > 0;
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('mm');
SELECT taskq_submit('mm', '2', reference => 'twin') > 0;
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('mm');
SELECT taskq_retry_all('mm') AS retried;
SELECT payload, state FROM taskq_list('mm');
-- invalid input
SELECT c AS call, t.told('SELECT * FROM ' || c) AS answer
  FROM unnest(ARRAY['taskq_retry_all(NULL)', 'taskq_retry_all(''*'')', 'taskq_retry_all(''nowhere'')', 'taskq_retry_all(''mm'', ''pending'')',
                    'taskq_retry_all(''mm'', ''running'')', 'taskq_retry_all(''mm'', ''redundant'')', 'taskq_retry_all(''mm'', ''odd'')', 'taskq_retry_all(''mm'', reason => ''odd'')',
                    'taskq_retry_all(''mm'', max_tasks => 0)', 'taskq_retry_all(''mm'', from_id => 9223372036854775807, to_id => 9223372036854775807)',
                    'taskq_manage_many(NULL, ''{}'')', 'taskq_manage_many(''odd'', ''{}'')', 'taskq_manage_many(''cancel'', NULL)',
                    'taskq_manage_many(''cancel'', ''{NULL}'')', 'taskq_manage_many(''cancel'', ''{{1}}'')',
                    'taskq_hold(NULL)', 'taskq_resolve(NULL)', 'taskq_recreate(NULL)', 'taskq_poison(NULL)', 'taskq_unpoison(NULL)',
                    'taskq_hold(0)', 'taskq_resolve(0)', 'taskq_recreate(0)', 'taskq_poison(0)', 'taskq_unpoison(0)', 'taskq_update_task(0, ''{}'')',
                    'taskq_update_task(NULL, ''{}'')', 'taskq_update_task(0, NULL)', 'taskq_update_task(0, ''[]'')', 'taskq_update_task(0, ''{"odd": 1}'')',
                    'taskq_update_task(0, ''{"on_conflict": "skip"}'')', 'taskq_update_task(0, ''{"insertion": "append"}'')', 'taskq_update_task(0, ''{"suspended": true}'')',
                    'taskq_update_task(0, ''{"queue": null}'')', 'taskq_update_task(0, ''{"priority": 40000}'')', 'taskq_update_task(0, ''{"tags": "a"}'')',
                    'taskq_update_task(0, ''{"run_at": "2027-01-01", "delay": "1 h"}'')', 'taskq_update_task(0, ''{"deadline": "2020-01-01"}'')']) c;
SELECT * FROM taskq_manage_many('cancel', '{}');
-- a list: a row for each, in the order given, duplicates too
SELECT taskq_purge('mm', '{pending,dead}') > 0;
SELECT count(*) FROM taskq_submit_many('mm', array_fill('1'::jsonb, ARRAY[3]));
SELECT min(task_id) AS first FROM taskq_list('mm') \gset
SELECT task_id - :first AS n, ok, error_code FROM taskq_manage_many('hold', ARRAY[:first + 2, :first, :first + 99, :first]::bigint[], 'why');
SELECT task_id - :first AS n, state, reason, message FROM taskq_list('mm');
SELECT task_id - :first AS n, ok, error_code FROM taskq_manage_many('recreate', ARRAY[:first, :first + 1]::bigint[]);
SELECT task_id - :first AS n, ok, error_code FROM taskq_manage_many('delete', ARRAY[:first, :first + 1, :first + 2, :first + 3]::bigint[]);
SELECT task_id - :first AS n, state FROM taskq_list('mm');
-- long lists of tasks that do not exist, and of one task, with custom plans
SET statement_timeout TO '30s';
SET plan_cache_mode TO force_custom_plan;
SELECT ok, error_code, count(*) FROM taskq_manage_many('cancel', (SELECT array_agg(-i) FROM generate_series(1, 100000) i)) GROUP BY 1, 2;
SELECT taskq_submit('mm', '2') AS id \gset
SELECT ok, error_code, count(*) FROM taskq_manage_many('cancel', array_fill(:id::bigint, ARRAY[100000])) GROUP BY 1, 2 ORDER BY 1;
RESET plan_cache_mode;
RESET statement_timeout;
-- update: named members change, null removes, the rest stays
SELECT taskq_submit('mm', '{"p": 1}', priority => 3, tags => '{x}', key => 'k', reference => 'one', headers => '{"h": 1}', correlation_id => 'c', data => '\x01',
                    deadline => '2027-06-01', options => '{"lease": "9 s"}', run_at => '2027-01-01 00:00+00') AS id \gset
SELECT version FROM taskq_get(:id) \gset
CREATE FUNCTION t.settings(id bigint) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_strip_nulls(to_jsonb(g) - ARRAY['task_id', 'state', 'reason', 'message', 'attempt', 'token', 'version', 'result', 'error', 'errors', 'checkpoint', 'created_at', 'submitted_by', 'run_as'])
  FROM taskq_get(id) g;
$$;
SELECT taskq_update_task(:id, '{"priority": 4}', :version);
SELECT t.settings(:id);
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"priority": 5}'', %s)', :id, :version)) ~ '^TQ010: version of task ID has changed' AS has_changed;
SELECT taskq_update_task(:id, '{"payload": {"p": 2}, "data": "\\x02", "headers": null, "tags": ["y", "z", "y"], "key": null, "correlation_id": "d", "deadline": null, "options": null, "max_attempts": 9}');
SELECT t.settings(:id);
SELECT taskq_update_task(:id, '{"payload": null, "data": null, "tags": null, "priority": null, "max_attempts": null, "run_at": null}');
SELECT t.settings(:id) - 'run_at' AS settings, run_at <= clock_timestamp() AS due FROM taskq_get(:id);
SELECT task_id = :id AS claimable FROM taskq_claim('mm');
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"priority": 5}'')', :id));
SELECT taskq_release(:id, token) FROM taskq_get(:id);
-- its position stays, unless its time changes
SELECT taskq_submit('mm', '"second"') AS second \gset
SELECT run_at AS was FROM taskq_get(:id) \gset
SELECT taskq_update_task(:id, '{"payload": "first"}');
SELECT run_at = :'was' AS same_place FROM taskq_get(:id);
BEGIN;
SELECT payload FROM taskq_claim('mm', max_tasks => 2);
ROLLBACK;
SELECT taskq_update_task(:id, '{"delay": "0"}');
SELECT payload FROM taskq_claim('mm', max_tasks => 2);
SELECT count(taskq_release(task_id, token)) FROM taskq_list('mm', 'running');
-- references: one live task each
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"reference": "one"}'')', :second)) ~ '^TQ006' AS taken;
SELECT taskq_update_task(:id, '{"reference": null}');
SELECT taskq_update_task(:second, '{"reference": "one"}');
SELECT reference FROM taskq_list('mm', 'pending') ORDER BY 1;
-- moved to another queue: the task counts there with everything it has, and the limits there hold
SELECT taskq_create_queue('mo', '{"max_depth": 1, "max_payload": 1000}');
SELECT taskq_update_task(:second, '{"queue": "mo", "priority": null}');
SELECT queue, pending, ready FROM taskq.queues WHERE queue IN ('mm', 'mo') ORDER BY queue;
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"queue": "mo"}'')', :id)) ~ '^TQ008' AS full;
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"queue": "mo", "payload": "%s"}'')', :id, repeat('x', 2000))) ~ '^TQ009' AS too_large;
SELECT queue FROM taskq_get(:id);
SELECT payload, reference FROM taskq_claim('mo');
-- attempts that were made are counted
SELECT taskq_submit('mm', max_attempts => 3, priority => 9) AS id \gset
SELECT taskq_fail(task_id, token, 'no', retry_in => '0') FROM taskq_claim('mm');
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"max_attempts": 1}'')', :id));
SELECT taskq_update_task(:id, '{"max_attempts": 2}');
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('mm');
SELECT t.show(:id);
-- deadlines together with times
SELECT taskq_submit('mm', run_at => '2027-01-01') AS id \gset
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"deadline": "2026-12-31"}'')', :id));
SELECT taskq_update_task(:id, '{"deadline": "2027-01-02", "run_at": "2027-01-01"}');
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"run_at": "2027-02-01"}'')', :id));
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"deadline": "2027-03-01", "options": {"deadline_in": "1 h"}}'')', :id));
SELECT t.told(format('SELECT taskq_update_task(%s, ''{"options": {"lease": "x"}}'')', :id)) ~ '^(TQ004|22)' AS bad_option;
-- a suspended task, too
SELECT taskq_hold(:id);
SELECT taskq_update_task(:id, '{"priority": 1, "run_at": null}');
SELECT state, priority FROM taskq_get(:id);
-- tasks whose reference is taken do not count as one of max_tasks
SELECT taskq_create_queue('mr');
SELECT count(taskq_submit('mr', reference => 'r' || n)) FROM generate_series(1, 4) n;
SELECT count(taskq_cancel(task_id)) FROM taskq.tasks WHERE queue = 'mr';
SELECT count(taskq_submit('mr', reference => 'r' || n)) FROM generate_series(1, 2) n;
SELECT taskq_retry_all('mr', 'cancelled', max_tasks => 2);
SELECT reference, state FROM taskq.tasks WHERE queue = 'mr' ORDER BY task_id;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.show(bigint), t.settings(bigint), t.told(text);

--
-- operation: actions on all tasks that match a filter, and what can keep them from being done
--
-- of other tests
DELETE FROM taskq.operation WHERE operation_id < 0;
CREATE ROLE regress_taskq_op;
CREATE ROLE regress_taskq_op_other;
SELECT taskq_create_queue('op', '{"max_attempts": 1, "history": "transitions"}');
SELECT taskq_create_queue('op2', '{"max_attempts": 3, "retry": "fixed", "retry_base": "1 h"}');
-- the end of an operation
CREATE PROCEDURE t.ended(id bigint) LANGUAGE plpgsql AS $$
BEGIN
    CALL t.until(format('SELECT finished IS NOT NULL FROM taskq.operations WHERE operation_id = %s', id));
END
$$;
CREATE VIEW t.last_operation AS
SELECT action, queue, filter, who, reason, dry_run, state, counted, done, refused, examined, error, started IS NOT NULL AS started, finished IS NOT NULL AS finished,
       (SELECT string_agg(format('%s %s', (SELECT payload FROM taskq.tasks WHERE task_id = (e ->> 'task_id')::bigint), e ->> 'error_code'), ', ') FROM jsonb_array_elements(refused_examples) e) AS examples
  FROM taskq.operations ORDER BY operation_id DESC LIMIT 1;
CREATE VIEW t.of_op AS SELECT state, reason, string_agg(payload::text, ' ' ORDER BY task_id) AS tasks FROM taskq.tasks WHERE queue = 'op' GROUP BY state, reason ORDER BY state, reason;
-- arguments
SELECT c, t.try('SELECT taskq_manage_where(' || c || ')') FROM unnest(ARRAY['NULL, ''op''', '''odd'', ''op''', '''retry'', NULL', '''retry'', ''nowhere''', '''retry'', ''*''',
  '''retry'', ''op'', ''[]''', '''retry'', ''op'', ''1''', '''retry'', ''op'', ''{"odd": 1}''', '''retry'', ''op'', ''{"state": "odd"}''', '''retry'', ''op'', ''{"state": 1}''',
  '''delete'', ''op''', '''retry'', ''op'', batch_size => 0', '''retry'', ''op'', batch_size => 1001']) c;
SELECT c, t.try('SELECT ' || c) FROM unnest(ARRAY['taskq_pause_operation(NULL)', 'taskq_resume_operation(0)', 'taskq_cancel_operation(-1)']) c;
-- every action
SELECT count(taskq_submit('op', to_jsonb(n))) FROM generate_series(1, 6) n;
SELECT count(taskq_fail(task_id, token, 'no')) FROM taskq_claim('op', max_tasks => 3);
SELECT taskq_manage_where('retry', 'op', reason => 'works again') AS op \gset
CALL t.ended(:op);
TABLE t.last_operation;
TABLE t.of_op;
SELECT taskq_manage_where('hold', 'op', '{"state": "pending"}', 'wait') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
TABLE t.of_op;
SELECT taskq_manage_where('resolve', 'op', '{"state": "suspended"}', batch_size => 4) AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
TABLE t.of_op;
SELECT taskq_manage_where('recreate', 'op', '{"state": "done"}', batch_size => 1) AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
TABLE t.of_op;
SELECT taskq_manage_where('delete', 'op', '{"state": "recreated"}', 'tidy') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, reason FROM t.last_operation;
TABLE t.of_op;
SELECT taskq_manage_where('poison', 'op', '{"state": "pending"}') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
TABLE t.of_op;
-- a list does not retry poison tasks, and nor does an operation
SELECT taskq_manage_where('retry', 'op') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT taskq_manage_where('unpoison', 'op') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT taskq_manage_where('retry', 'op') AS op \gset
CALL t.ended(:op);
SELECT count(*) FROM taskq_claim('op', max_tasks => 2);
SELECT taskq_manage_where('cancel', 'op', reason => 'stop') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
TABLE t.of_op;
SELECT count(*) FROM taskq.tasks WHERE queue = 'op' AND state = 'running' AND cancel_requested_at IS NOT NULL;
-- filters, as of lists
SELECT taskq_manage_where('retry', 'op', '{"state": ["done", "cancelled"], "payload": "$ > 4", "finished_to": "2100-01-01Z"}', dry_run => true) AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
-- a dry run counts
SELECT taskq_manage_where('retry', 'op', '{"state": "cancelled"}', dry_run => true) AS op \gset
CALL t.ended(:op);
SELECT dry_run, state, counted, done, refused, examined FROM t.last_operation;
TABLE t.of_op;
-- other tasks of the queue, and other queues, are left alone
SELECT taskq_submit('op', '7', key => 'a', reference => 'r', correlation_id => 'c') IS NOT NULL, taskq_submit('op', '8', key => 'a') IS NOT NULL,
       taskq_submit('op', '9') IS NOT NULL, taskq_submit('op2', '10', key => 'a') IS NOT NULL;
SELECT taskq_manage_where('cancel', 'op', '{"state": "pending", "key": "a", "correlation_id": "c", "reference": "r"}') AS op \gset
CALL t.ended(:op);
SELECT taskq_manage_where('hold', 'op', '{"key": "a", "state": ["pending", "running"]}') AS op \gset
CALL t.ended(:op);
TABLE t.of_op;
SELECT state FROM taskq.tasks WHERE queue = 'op2';
-- a reference that another task has taken, and more refused tasks than examples
SELECT taskq_submit('op', '11', reference => 'r') IS NOT NULL;
SELECT taskq_manage_where('retry', 'op', '{"state": "cancelled", "reference": "r"}') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT taskq_purge('op', '{pending,suspended,cancelled}') > 0;
SELECT count(*) FROM taskq_submit_many('op', (SELECT array_agg(to_jsonb(n)) FROM generate_series(1, 25) n));
SELECT count(*) FROM taskq_claim('op', max_tasks => 23);
SELECT taskq_manage_where('retry', 'op', '{"state": "running"}') AS op \gset
CALL t.ended(:op);
SELECT state, counted, done, refused, jsonb_array_length(refused_examples), refused_examples -> 0 ->> 'error_code' AS code FROM taskq.operations WHERE operation_id = :op;
-- tasks submitted later, or in this state only later, are not touched; one that was changed is
BEGIN;
SELECT taskq_manage_where('hold', 'op', '{"state": "pending"}') AS op \gset
SELECT taskq_submit('op', '26') IS NOT NULL;
SELECT taskq_update_task(task_id, '{"priority": 7}') FROM taskq.tasks WHERE payload = '24' AND queue = 'op';
COMMIT;
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT payload, priority, state FROM taskq.tasks WHERE queue = 'op' AND state <> 'running' ORDER BY task_id;
SELECT count(taskq_fail(r.task_id, r.token, 'no')) FROM taskq.tasks r WHERE queue = 'op' AND state = 'running' AND payload <= '3';
BEGIN;
SELECT taskq_manage_where('retry', 'op', '{"state": "dead"}') AS op \gset
SELECT taskq_fail(task_id, token, 'no') FROM taskq.tasks WHERE queue = 'op' AND state = 'running' AND payload = '4';
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'op' AND state = 'dead' AND payload = '1';
SELECT count(taskq_fail(task_id, token, 'no')) FROM taskq_claim('op', max_tasks => 1);
SELECT taskq_poison(task_id) FROM taskq.tasks WHERE queue = 'op' AND state = 'dead' AND payload = '2';
COMMIT;
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT payload, state FROM taskq.tasks WHERE queue = 'op' AND state <> 'running' ORDER BY task_id;
-- a task of a key that is blocked, one that was suspended or resumed, one that is due later
SELECT taskq_purge('op2') IS NOT NULL;
SELECT count(taskq_submit('op2', to_jsonb(n))) FROM generate_series(11, 15) n;
SELECT count(taskq_fail(task_id, token, 'no')) FROM taskq_claim('op2', max_tasks => 3) WHERE payload <> '10';
SELECT taskq_hold(task_id) FROM taskq.tasks WHERE queue = 'op2' AND payload IN ('13', '14');
BEGIN;
SELECT taskq_manage_where('cancel', 'op2', '{"state": "pending"}') AS op \gset
SELECT taskq_update_task(task_id, '{"priority": 7}') FROM taskq.tasks WHERE queue = 'op2' AND payload = '12';
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'op2' AND payload = '14';
COMMIT;
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT payload, state FROM taskq.tasks WHERE queue = 'op2' ORDER BY task_id;
BEGIN;
SELECT taskq_manage_where('resolve', 'op2', '{"state": "suspended"}') AS op \gset
SELECT taskq_hold(task_id) FROM taskq.tasks WHERE queue = 'op2' AND payload = '14';
COMMIT;
CALL t.ended(:op);
SELECT payload, state FROM taskq.tasks WHERE queue = 'op2' ORDER BY task_id;
-- a task that stops matching between two batches, and one that is gone
SELECT taskq_create_queue('op4');
SELECT count(taskq_submit('op4', to_jsonb(n))) FROM generate_series(1, 4) n;
BEGIN;
SELECT taskq_manage_where('hold', 'op4', '{"priority_max": 0}', batch_size => 1) AS op \gset
SELECT acted FROM taskq_run_reapers() WHERE reaper = 'operations';
SELECT taskq_update_task(task_id, '{"priority": 7}') FROM taskq.tasks WHERE queue = 'op4' AND payload = '2';
SELECT ok FROM taskq_manage_many('delete', ARRAY(SELECT task_id FROM taskq.tasks WHERE queue = 'op4' AND payload = '3'));
SELECT sum(acted) FROM taskq_run_reapers() WHERE reaper = 'operations';
SELECT sum(acted) FROM taskq_run_reapers() WHERE reaper = 'operations';
COMMIT;
CALL t.ended(:op);
SELECT state, counted, done, refused, examples FROM t.last_operation;
SELECT payload, state, priority FROM taskq.tasks WHERE queue = 'op4' ORDER BY task_id;
SELECT taskq_drop_queue('op4', true);
-- pause, resume, cancel
BEGIN;
SELECT taskq_manage_where('cancel', 'op', '{"state": "pending"}') AS op \gset
SELECT taskq_pause_operation(:op);
COMMIT;
SELECT state, done, started, finished FROM t.last_operation;
SELECT taskq_pause_operation(:op), taskq_resume_operation(:op);
CALL t.ended(:op);
SELECT state, done FROM t.last_operation;
SELECT taskq_pause_operation(:op), taskq_resume_operation(:op), taskq_cancel_operation(:op);
BEGIN;
SELECT taskq_manage_where('hold', 'op') AS op \gset
SELECT taskq_cancel_operation(:op), taskq_cancel_operation(:op);
COMMIT;
SELECT state, counted, started, finished FROM t.last_operation;
BEGIN;
SELECT taskq_manage_where('cancel', 'op') AS op \gset
ROLLBACK;
SELECT action, state FROM t.last_operation;
-- rights, and who did it
SELECT taskq_purge('op', '{pending,suspended,dead,cancelled,done}') > 0;
SELECT count(taskq_submit('op', to_jsonb(n))) FROM generate_series(1, 3) n;
SELECT taskq_grant('op', 'regress_taskq_op', '{manage}');
SELECT taskq_grant('op2', 'regress_taskq_op_other', '{read,manage}');
SET ROLE regress_taskq_op;
SELECT t.try($$SELECT taskq_manage_where('cancel', 'op2')$$);
SELECT t.try(format('SELECT taskq_manage_where(''cancel'', ''op'', %L)', f)) FROM unnest('{"{\"error\": \"no\"}","{\"payload\": \"$ == 1\"}"}'::text[]) f;
SET taskq.actor = 'ann';
SELECT taskq_manage_where('hold', 'op', '{"state": "pending"}', 'later') AS op \gset
RESET taskq.actor;
RESET ROLE;
CALL t.ended(:op);
SELECT DISTINCT from_state, to_state, role, message, actor FROM taskq.history WHERE queue = 'op' AND to_state = 'suspended' AND message = 'later';
SET ROLE regress_taskq_op;
SELECT who, filter, reason, state, done FROM taskq.operations;
RESET ROLE;
SET ROLE regress_taskq_op_other;
SELECT count(*) FROM taskq.operations WHERE queue = 'op';
SELECT t.said(format('SELECT taskq_pause_operation(%s)', :op));
RESET ROLE;
GRANT pg_monitor TO regress_taskq_op_other;
SET ROLE regress_taskq_op_other;
SELECT who, filter, reason, state, done FROM taskq.operations WHERE operation_id = :op;
RESET ROLE;
-- the actor of the call and its reason are in the history, whichever process runs the batch, and whatever actor it claims
SELECT max(transition_id) AS before FROM taskq.history \gset
CREATE PROCEDURE t.act(action text, of_state text, actor text) LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
BEGIN
    PERFORM set_config('taskq.actor', actor, true);
    id := taskq_manage_where(action, 'op', format('{"state": "%s"}', of_state)::jsonb, 'why ' || action);
    PERFORM set_config('taskq.actor', 'bob', true);
    FOR i IN 1..20 LOOP
        PERFORM taskq_run_reapers();
    END LOOP;
END
$$;
CALL t.act('poison', 'suspended', 'ann');
CALL t.act('unpoison', 'dead', 'ann');
CALL t.act('retry', 'dead', 'ann');
CALL t.act('cancel', 'pending', 'ann');
CALL t.act('recreate', 'cancelled', 'ann');
CALL t.act('resolve', 'pending', 'ann');
CALL t.act('delete', 'recreated', 'ann');
CALL t.act('retry', 'done', '');
CALL t.act('hold', 'pending', '');
DROP PROCEDURE t.act;
SELECT action, actor, reason, state, done FROM taskq.operations WHERE reason LIKE 'why %' ORDER BY operation_id;
SELECT from_state, to_state, actor, message, count(*) FROM taskq.history WHERE queue = 'op' AND transition_id > :before GROUP BY 1, 2, 3, 4 ORDER BY min(transition_id);
-- times of a filter are fixed by the call, whatever settings the background worker has
BEGIN;
SET LOCAL TimeZone = 'Asia/Tokyo';
SET LOCAL DateStyle = 'SQL, DMY';
SELECT taskq_manage_where('retry', 'op', '{"state": "dead", "created_to": "now", "run_from": "04.03.0044 BC 02:01", "run_to": null, "finished_to": "01.02.202020 03:04:05.6"}', dry_run => true) AS op \gset
COMMIT;
CALL t.ended(:op);
SELECT filter - 'created_to' AS filter, abs(extract(epoch FROM (filter ->> 'created_to')::timestamptz - called)) < 60 AS now, state, error FROM taskq.operations WHERE operation_id = :op;
-- filters and errors may tell what the option redact hides
SELECT taskq_grant('op', 'regress_taskq_op_other', '{read}');
SELECT taskq_manage_where('retry', 'op', '{"state": "dead", "payload": "$.card == 7"}', 'why', true) AS op \gset
CALL t.ended(:op);
UPDATE taskq.operation SET error = 'odd' WHERE operation_id = :op;
CREATE FUNCTION t.shown(id bigint, "right" text, redact text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskq_revoke('op', 'regress_taskq_op_other', '{observe,read,manage}'), taskq_grant('op', 'regress_taskq_op_other', "right"::text[]), taskq_alter_queue('op', format('{"redact": %s}', redact)::jsonb);
    SET LOCAL ROLE regress_taskq_op_other;
    RETURN QUERY SELECT format('%s %s: %s, %s, %s', "right", redact, filter, reason, error) FROM taskq.operations WHERE operation_id = id;
    RESET ROLE;
END
$$;
SELECT s.* FROM unnest('{"{manage}","{observe}","{read}","{read,manage}"}'::text[]) r, unnest('{"null","[\"$.card\"]"}'::text[]) d, t.shown(:op, r, d) s;
SELECT taskq_revoke('op', 'regress_taskq_op_other', '{read,manage}'), taskq_alter_queue('op', '{"redact": null}');
DROP FUNCTION t.shown;
-- a role that loses its rights with the membership in another role, or as a superuser
CREATE ROLE regress_taskq_op_group;
SELECT taskq_grant('op', 'regress_taskq_op_group', '{manage}');
GRANT regress_taskq_op_group TO regress_taskq_op_other;
BEGIN;
SET LOCAL ROLE regress_taskq_op_other;
SELECT taskq_manage_where('cancel', 'op') AS op \gset
RESET ROLE;
REVOKE regress_taskq_op_group FROM regress_taskq_op_other;
COMMIT;
CALL t.ended(:op);
SELECT who, state, done, error FROM t.last_operation;
ALTER ROLE regress_taskq_op_other SUPERUSER;
BEGIN;
SET LOCAL ROLE regress_taskq_op_other;
SELECT taskq_manage_where('cancel', 'op') AS op \gset
RESET ROLE;
ALTER ROLE regress_taskq_op_other NOSUPERUSER;
COMMIT;
CALL t.ended(:op);
SELECT who, state, done, error FROM t.last_operation;
-- a function with the rights of its owner: they are what counts, then and later
CREATE FUNCTION t.cancel_op() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$SELECT taskq_manage_where('cancel', 'op', dry_run => true)$$;
GRANT EXECUTE ON FUNCTION t.cancel_op() TO regress_taskq_op_other;
SET ROLE regress_taskq_op_other;
SELECT t.cancel_op() AS op \gset
RESET ROLE;
CALL t.ended(:op);
SELECT who = current_user AS of_owner, state FROM t.last_operation;
DROP FUNCTION t.cancel_op();
DROP OWNED BY regress_taskq_op_group;
DROP ROLE regress_taskq_op_group;
-- rights that are revoked, a queue that is dropped, and a role that is dropped
BEGIN;
SET LOCAL ROLE regress_taskq_op;
SELECT taskq_manage_where('cancel', 'op') AS op \gset
RESET ROLE;
SELECT taskq_revoke('op', 'regress_taskq_op', '{manage}');
COMMIT;
CALL t.ended(:op);
SELECT who, state, done, error FROM t.last_operation;
SELECT taskq_grant('op', 'regress_taskq_op', '{manage}');
BEGIN;
SET LOCAL ROLE regress_taskq_op;
SELECT taskq_manage_where('cancel', 'op') AS op \gset
RESET ROLE;
SELECT taskq_drop_queue('op', true);
COMMIT;
CALL t.ended(:op);
SELECT who, queue, state, done, error FROM t.last_operation;
SELECT taskq_grant('op2', 'regress_taskq_op', '{manage}');
BEGIN;
SET LOCAL ROLE regress_taskq_op;
SELECT taskq_manage_where('cancel', 'op2') AS op \gset
RESET ROLE;
DROP OWNED BY regress_taskq_op;
DROP ROLE regress_taskq_op;
COMMIT;
CALL t.ended(:op);
SELECT who, queue, state, done, error FROM t.last_operation;
-- steps of workflows: as in a list
SELECT taskq_define_workflow('{"namespace": "op", "name": "w", "version": "1", "queue": "op3", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('w', namespace => 'op') AS w \gset
SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM taskq_claim('op3');
SELECT taskq_manage_where('recreate', 'op3') AS op \gset
CALL t.ended(:op);
SELECT state, done, refused, refused_examples -> 0 ->> 'error_code' AS code FROM taskq.operations WHERE operation_id = :op;
SELECT taskq_manage_where('retry', 'op3') AS op \gset
CALL t.ended(:op);
SELECT state, done, refused FROM t.last_operation;
SELECT taskq_manage_where('resolve', 'op3', '{"state": "pending"}') AS op \gset
CALL t.ended(:op);
SELECT step, state FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY step;
-- the oldest ended operations are removed
INSERT INTO taskq.operation (operation_id, action, queue_id, queue, role_id, dry_run, batch_size, state, position, last_id, called_at, called_at_dispatch, xid_before, system_id, finished_at)
SELECT -n, 'hold', 0, 'old', 0, false, 1, 'done', 0, 0, now(), now(), 0, 0, now() FROM generate_series(1, 10020) n;
SELECT taskq_manage_where('hold', 'op2') AS op \gset
DO $$ BEGIN PERFORM taskq_run_reapers(); END $$;
-- the background worker may be removing some of them
CALL t.until($$SELECT count(*) > 0 AND (SELECT count(*) <= 10000 FROM taskq.operation) FROM taskq_run_reapers()$$);
SELECT count(*) FROM taskq.operation;
UPDATE taskq.operation SET finished_at = now() - interval '8 days' WHERE operation_id < 0;
DO $$ BEGIN FOR i IN 1..12 LOOP PERFORM taskq_run_reapers(); END LOOP; END $$;
SELECT count(*) FROM taskq.operation WHERE operation_id < 0;
-- a limited number has not ended
INSERT INTO taskq.operation (operation_id, action, queue_id, queue, role_id, dry_run, batch_size, state, position, last_id, called_at, called_at_dispatch, xid_before, system_id)
SELECT -n, 'hold', 0, 'old', 0, false, 1, 'paused', 0, 0, now(), now(), 0, 0 FROM generate_series(1, 1000) n;
SELECT t.try($$SELECT taskq_manage_where('hold', 'op2')$$);
DELETE FROM taskq.operation WHERE operation_id < 0;
SELECT taskq_drop_queue('op2', true);
REVOKE pg_monitor FROM regress_taskq_op_other;
DROP OWNED BY regress_taskq_op_other;
DROP ROLE regress_taskq_op_other;

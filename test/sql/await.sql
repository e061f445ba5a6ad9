--
-- await: CALL taskq_await and CALL taskq_call, in one session
--
\set VERBOSITY sqlstate
SET client_min_messages = notice;
SELECT taskq_create_queue('aw');
SELECT taskq_create_queue('aw none', '{"retention": "none"}');
-- tasks that have finished already
SELECT taskq_submit('aw', '{"n": 1}') AS done \gset
SELECT taskq_submit('aw', max_attempts => 1) AS dead \gset
SELECT taskq_submit('aw', max_attempts => 2) AS failed \gset
SELECT taskq_submit('aw') AS cancelled \gset
SELECT taskq_submit('aw', delay => '1 h') AS pending \gset
SELECT CASE task_id WHEN :done THEN taskq_complete(task_id, token, '{"answer": 42}')::text
                    WHEN :cancelled THEN taskq_cancel(task_id)
                    ELSE taskq_fail(task_id, token, 'no luck', retry_in => '0') END
  FROM taskq_claim('aw', max_tasks => 4) ORDER BY task_id;
SELECT taskq_complete(task_id, token, to_jsonb(repeat('long ', 1000))) FROM taskq_claim('aw');
SELECT taskq_cancel(:cancelled, force => true);
CALL taskq_await(:done);
CALL taskq_await(:dead, '1 h');
CALL taskq_await(:cancelled, timeout => '1 h');
-- the task is done in the end, so no error is returned; a large result
CALL taskq_await(:failed)
\gset got_
SELECT :'got_state' AS state, length(:'got_result') AS result, :{?got_error} AS error;
-- the timeout expires
CALL taskq_await(:pending, '0');
CALL taskq_await(:pending, '20 ms');
-- INOUT arguments return the same values
CALL taskq_await(:pending, '0', 'done', '{}', 'e');
-- a task that exists, and one that does not
CALL taskq_await(0);
CALL taskq_await(:pending + 100000);
CALL taskq_await(NULL);
CALL taskq_await(:pending, '-1 s');
CALL taskq_await(:pending, '200 years');
-- it commits, so it cannot be in a transaction block, nor in a function
BEGIN;
CALL taskq_await(:done);
ROLLBACK;
BEGIN;
CALL taskq_call('aw', '{}', '0');
ROLLBACK;
SELECT t.code(format('CALL taskq_await(%s)', :done));
SELECT 1 AS first \; CALL taskq_await(:done);
\set VERBOSITY default
BEGIN;
CALL taskq_await(1);
ROLLBACK;
\set VERBOSITY sqlstate
-- a procedure that calls it can continue; it must commit its writes before the call
CREATE TABLE aw_seen (state text, result jsonb);
CREATE PROCEDURE aw_both(a bigint, b bigint) LANGUAGE plpgsql AS $$
DECLARE
    s text;
    r jsonb;
    e text;
BEGIN
    INSERT INTO aw_seen VALUES ('before');
    COMMIT;
    CALL taskq_await(a, '0', s, r, e);
    INSERT INTO aw_seen VALUES (s, r);
    COMMIT;
    CALL taskq_await(b, '0', s, r, e);
    INSERT INTO aw_seen VALUES (s, r);
    ROLLBACK;
    INSERT INTO aw_seen VALUES ('after');
    CALL taskq_await(b, '0', s, r, e);
END $$;
CALL aw_both(:done, :pending);
-- earlier writes are not committed silently
SELECT * FROM aw_seen;
DO $$
DECLARE
    s text;
    r jsonb;
    e text;
BEGIN
    CALL taskq_await(1, '0', s, r, e);
EXCEPTION WHEN active_sql_transaction THEN
    RAISE NOTICE 'an exception handler is in the way';
END $$;
DROP PROCEDURE aw_both;
DROP TABLE aw_seen;
-- any isolation level; a role that only reads needs no right to write
SET default_transaction_isolation = 'serializable';
CALL taskq_await(:pending, '20 ms');
SET default_transaction_read_only = on;
CALL taskq_await(:pending, '20 ms');
CALL taskq_call('aw', '{}', '0');
RESET default_transaction_isolation;
RESET default_transaction_read_only;
-- submit, commit, wait
CALL taskq_call('aw', '{"n": 2}', '20 ms')
\gset call_
SELECT state, payload, :'call_state' AS told, :{?call_result} AS result FROM taskq_get(:call_task_id);
CALL taskq_call('aw', NULL, '0');
CALL taskq_call(NULL, '{}', '0');
CALL taskq_call('aw', '{}', NULL);
CALL taskq_call('*', '{}', '0');
CALL taskq_call('aw', '{}', '-1 s');
SET taskq.auto_create_queues = off;
CALL taskq_call('aw nowhere', '{}', '0');
RESET taskq.auto_create_queues;
CALL taskq_call('aw made', '{}', '0')
\gset call_
SELECT state, queue FROM taskq_get(:call_task_id);
-- the task leaves no row, and ends before the session waits
SELECT taskq_submit('aw none') AS gone \gset
SELECT taskq_complete(task_id, token) FROM taskq_claim('aw none');
CALL taskq_await(:gone);
-- a role that may read the task; and the submitter
CREATE ROLE regress_taskq_submitter;
CREATE ROLE regress_taskq_other_submitter;
CREATE ROLE regress_taskq_reader;
CREATE ROLE regress_taskq_monitor IN ROLE pg_monitor;
CREATE ROLE regress_taskq_absent;
SELECT taskq_grant('aw', 'regress_taskq_submitter', '{submit}');
SELECT taskq_grant('aw', 'regress_taskq_other_submitter', '{submit}');
SELECT taskq_grant('aw', 'regress_taskq_reader', '{read}');
SELECT taskq_grant('aw none', 'regress_taskq_absent', '{read,submit}');
SET ROLE regress_taskq_submitter;
SELECT taskq_submit('aw', '1', priority => 9) AS mine \gset
RESET ROLE;
SELECT taskq_complete(task_id, token, '"for the submitter"') FROM taskq_claim('aw');
SET ROLE regress_taskq_submitter;
CALL taskq_await(:mine);
CALL taskq_await(:done);
CALL taskq_call('aw', '{}', '0')
\gset call_
SELECT :'call_state' AS state;
SET ROLE regress_taskq_other_submitter;
CALL taskq_await(:mine);
SET ROLE regress_taskq_reader;
CALL taskq_await(:mine);
CALL taskq_call('aw', '{}', '0');
SET ROLE regress_taskq_monitor;
CALL taskq_await(:mine);
SET ROLE regress_taskq_absent;
CALL taskq_await(:mine);
CALL taskq_call('aw', '{}', '0');
RESET ROLE;
-- a role that may no longer submit is no longer a submitter
SELECT taskq_revoke('aw', 'regress_taskq_submitter', '{submit}');
SELECT taskq_grant('aw none', 'regress_taskq_submitter', '{submit}');
SET ROLE regress_taskq_submitter;
CALL taskq_await(:mine);
RESET ROLE;
-- option notify is true or false
SELECT o, t.try(format('SELECT taskq_alter_queue(''aw'', %L)', o)) FROM unnest(ARRAY[
    '{"notify": true}', '{"notify": false}', '{"notify": null}', '{"notify": 7}', '{"notify": "true"}']) o;
SELECT options FROM taskq.queues WHERE queue = 'aw';
SELECT taskq_drop_queue(q, true) > 0 AS dropped FROM unnest(ARRAY['aw', 'aw made', 'aw none']) q;
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['submitter', 'other_submitter', 'reader', 'monitor', 'absent'] LOOP
        EXECUTE format('DROP OWNED BY regress_taskq_%s; DROP ROLE regress_taskq_%s', r, r);
    END LOOP;
END $$;
\set VERBOSITY default

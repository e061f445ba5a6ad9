--
-- workflow_await: CALL taskq_await_workflow, in one session
--
SET client_min_messages = warning;
SELECT taskq_create_queue('wa'), taskq_create_queue('wa other');
CREATE SCHEMA wa;
-- results that are too large for the row, and do not compress
CREATE FUNCTION wa.noise(n int) RETURNS jsonb LANGUAGE sql AS $$ SELECT to_jsonb(string_agg(md5(i::text), '')) FROM generate_series(1, n) i $$;
SELECT taskq_define_workflow('{"name": "wa two", "version": "1", "queue": "wa", "steps": [{"name": "a", "max_attempts": 1}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_define_workflow('{"name": "wa one", "version": "1", "queue": "wa", "steps": [{"name": "a"}]}');
SELECT taskq_define_workflow('{"name": "wa split", "version": "1", "queue": "wa", "steps": [{"name": "a"}, {"name": "b", "queue": "wa other", "depends_on": ["a"]}]}');
\set VERBOSITY sqlstate
-- instances that have ended already
SELECT taskq_start_workflow('wa two', wa.noise(1000)) AS done \gset
SELECT step, taskq_complete(task_id, token, '1') FROM taskq_claim('wa');
SELECT step, taskq_complete(task_id, token, '{"answer": 42}') FROM taskq_claim('wa');
CALL taskq_await_workflow(:done);
CALL taskq_await_workflow(:done, '10 s');
CALL taskq_await_workflow(:done, timeout => '0');
SELECT taskq_start_workflow('wa one') AS large \gset
SELECT taskq_complete(task_id, token, wa.noise(1000)) FROM taskq_claim('wa');
CALL taskq_await_workflow(:large)
\gset large_
SELECT :'large_state' AS state, (:'large_result')::jsonb = wa.noise(1000) AS whole;
SELECT taskq_start_workflow('wa two') AS failed \gset
SELECT taskq_fail(task_id, token, 'no') FROM taskq_claim('wa');
CALL taskq_await_workflow(:failed, '10 s');
SELECT taskq_start_workflow('wa one') AS cancelled \gset
SELECT taskq_cancel_workflow(:cancelled);
CALL taskq_await_workflow(:cancelled, '10 s');
SELECT taskq_start_workflow('wa one') AS resolved \gset
SELECT taskq_resolve(task_id, '"by hand"') FROM taskq.workflow_steps WHERE workflow_id = :resolved;
CALL taskq_await_workflow(:resolved, '10 s');
-- the timeout expires: the current state, and no result
SELECT taskq_start_workflow('wa two', run_at => now() + interval '1 h') AS later \gset
CALL taskq_await_workflow(:later, '0');
CALL taskq_await_workflow(:later, '20 ms');
SELECT taskq_start_workflow('wa two') AS runs \gset
CALL taskq_await_workflow(:runs, '20 ms');
SELECT taskq_hold(task_id) FROM taskq.workflow_steps WHERE workflow_id = :runs AND step = 'a';
CALL taskq_await_workflow(:runs, '0');
-- an instance that resumes has not ended
SELECT taskq_retry(task_id) FROM taskq.workflow_steps WHERE workflow_id = :failed AND step = 'a';
CALL taskq_await_workflow(:failed, '0');
-- INOUT arguments return the same values
CALL taskq_await_workflow(:runs, '0', 'done', '{}');
-- an instance that exists, and one that does not
CALL taskq_await_workflow(0);
CALL taskq_await_workflow(NULL);
CALL taskq_await_workflow(:runs, '-1 s');
CALL taskq_await_workflow(:runs, '200 years');
SELECT max(task_id) AS step FROM taskq.workflow_steps WHERE workflow_id = :runs \gset
CALL taskq_await_workflow(:step);
CALL taskq_await(:runs);
-- it commits, so it cannot be in a transaction block, nor in a function
BEGIN;
CALL taskq_await_workflow(:done);
ROLLBACK;
SELECT t.code(format('CALL taskq_await_workflow(%s)', :done));
SELECT 1 AS first \; CALL taskq_await_workflow(:done);
-- a procedure that calls it can continue
CREATE PROCEDURE wa.both(a bigint, b bigint) LANGUAGE plpgsql AS $$
DECLARE
    s text;
    r jsonb;
BEGIN
    CALL taskq_await_workflow(a, '0', s, r);
    RAISE WARNING '% %', s, r;
    CALL taskq_await_workflow(b, '0', s, r);
    RAISE WARNING '% %', s, r;
END $$;
\set VERBOSITY terse
CALL wa.both(:done, :runs);
\set VERBOSITY sqlstate
-- any isolation level
SET default_transaction_isolation = 'serializable';
CALL taskq_await_workflow(:large)
\gset large_
SELECT :'large_state' AS state, length(:'large_result') AS length;
CALL taskq_await_workflow(:runs, '20 ms');
SET default_transaction_read_only = on;
CALL taskq_await_workflow(:runs, '20 ms');
RESET default_transaction_read_only;
RESET default_transaction_isolation;
-- the result is for roles that may read all of its queues; and for the role that started it
CREATE ROLE regress_taskq_wa_starter;
CREATE ROLE regress_taskq_wa_submitter;
CREATE ROLE regress_taskq_wa_reader;
CREATE ROLE regress_taskq_wa_half;
CREATE ROLE regress_taskq_wa_worker;
CREATE ROLE regress_taskq_wa_absent;
CREATE ROLE regress_taskq_wa_monitor IN ROLE pg_monitor;
SELECT taskq_create_queue('wa elsewhere');
SELECT count(taskq_grant(q, 'regress_taskq_wa_' || role, rights)) FROM (VALUES ('wa', 'starter', '{submit}'::text[]), ('wa other', 'starter', '{submit}'), ('wa', 'submitter', '{submit}'), ('wa other', 'submitter', '{submit}'),
  ('wa', 'reader', '{read}'), ('wa other', 'reader', '{read}'), ('wa', 'half', '{read}'), ('wa', 'worker', '{work}'), ('wa elsewhere', 'worker', '{read}'), ('wa elsewhere', 'absent', '{read}')) v (q, role, rights);
SET ROLE regress_taskq_wa_starter;
SELECT taskq_start_workflow('wa split', priority => 9) AS mine \gset
CALL taskq_await_workflow(:mine, '0');
RESET ROLE;
SELECT step, taskq_complete(task_id, token, '1') FROM taskq_claim('wa');
SELECT step, taskq_complete(task_id, token, '"for the starter"') FROM taskq_claim('wa other');
SET ROLE regress_taskq_wa_starter;
CALL taskq_await_workflow(:mine);
CALL taskq_await_workflow(:done);
SET ROLE regress_taskq_wa_submitter;
CALL taskq_await_workflow(:mine);
SET ROLE regress_taskq_wa_reader;
CALL taskq_await_workflow(:mine);
SET ROLE regress_taskq_wa_half;
CALL taskq_await_workflow(:mine);
SET ROLE regress_taskq_wa_worker;
CALL taskq_await_workflow(:mine);
SET ROLE regress_taskq_wa_absent;
CALL taskq_await_workflow(:mine);
CALL taskq_await_workflow(0);
SET ROLE regress_taskq_wa_monitor;
CALL taskq_await_workflow(:mine);
RESET ROLE;
-- a role that may no longer submit to one of its queues counts as not having started it
SELECT taskq_revoke('wa other', 'regress_taskq_wa_starter', '{submit}');
SET ROLE regress_taskq_wa_starter;
CALL taskq_await_workflow(:mine);
RESET ROLE;
\set VERBOSITY default
CALL taskq_await_workflow(0);
BEGIN;
CALL taskq_await_workflow(1);
ROLLBACK;
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE workflow_id IN (:later, :runs, :failed);
DROP SCHEMA wa CASCADE;
DO $$
DECLARE
    r text;
BEGIN
    FOREACH r IN ARRAY ARRAY['starter', 'submitter', 'reader', 'half', 'worker', 'absent', 'monitor'] LOOP
        EXECUTE format('DROP OWNED BY regress_taskq_wa_%s; DROP ROLE regress_taskq_wa_%s', r, r);
    END LOOP;
END $$;

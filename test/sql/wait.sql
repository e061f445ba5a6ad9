--
-- wait: what a wait returns immediately, and where it is refused
--
SELECT taskq_create_queue('w'), taskq_submit('w', '1') > 0 AS submitted;
SET client_min_messages = warning; -- one notice for each session without preloading
-- there is a task, there is no task
CALL taskq_wait('w');
CALL taskq_wait('w', '0');
SELECT payload FROM taskq_claim('w', wait => '1 min');
CALL taskq_wait('w', '0');
CALL taskq_wait('w', '10 ms');
CALL taskq_wait(queue => 'w', timeout => '0', tags => '{a}');
SELECT count(*) FROM taskq_claim('w', wait => '10 ms');
SELECT count(*) FROM taskq_claim('w', 'a label', wait => '10 ms', tags => '{a}');
SELECT count(*) FROM taskq_claim('nowhere', 'a label', wait => '10 ms');
CALL taskq_wait('nowhere', '0');
-- a wait creates nothing: no queue, no label
SELECT count(*) FROM taskq.queues WHERE queue = 'nowhere';
SELECT count(*) FROM taskq.worker WHERE name = 'a label';
-- tags, pauses, tasks that are not due
SELECT taskq_submit('w', '2', tags => '{a}') > 0 AS submitted;
CALL taskq_wait('w', '0');
CALL taskq_wait('w', '0', tags => '{a,b}');
SELECT taskq_pause('w');
CALL taskq_wait('w', '0', tags => '{a,b}');
SELECT count(*) FROM taskq_claim('w', wait => '10 ms', tags => '{a}');
SELECT taskq_resume('w');
SELECT payload FROM taskq_claim('w', wait => '10 ms', tags => '{a}');
SELECT taskq_submit('w', '3', delay => '1 h') > 0 AS submitted;
CALL taskq_wait('w', '0');
-- workers
SELECT taskq_register('w1', queues => '{w,nowhere}', tags => '{a}');
CALL taskq_wait('w', '0', worker => 'w1');
CALL taskq_wait(NULL, '0', worker => 'w1');
SELECT count(*) FROM taskq_claim(NULL, 'w1', wait => '10 ms');
SELECT taskq_submit('w', '4', tags => '{a}') > 0 AS submitted;
CALL taskq_wait('w', '0', worker => 'w1');
CALL taskq_wait(NULL, '0', worker => 'w1');
CALL taskq_wait(NULL, '0', worker => 'w1', tags => '{}');
CALL taskq_wait('w', '0', worker => 'absent');
SELECT taskq_drain('w1');
CALL taskq_wait(NULL, '1 min', worker => 'w1');
SELECT count(*) FROM taskq_claim('w', 'w1', wait => '1 min');
-- refused
\set VERBOSITY sqlstate
CALL taskq_wait(NULL, '0');
CALL taskq_wait(NULL, '0', worker => 'absent');
CALL taskq_wait('*', '0');
CALL taskq_wait('w', '-1 s');
CALL taskq_wait('w', '10 min');
SELECT taskq_claim('w', wait => '10 min');
\set VERBOSITY terse
SET taskq.max_wait = '1 s';
CALL taskq_wait('w', '2 s');
SELECT taskq_claim('w', wait => '2 s');
RESET taskq.max_wait;
BEGIN;
CALL taskq_wait('w', '0');
ROLLBACK;
BEGIN;
SELECT taskq_submit('w', '5') > 0 AS submitted;
SELECT taskq_claim('w', wait => '1 s');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT taskq_claim('w', wait => '1 s');
ROLLBACK;
DO $$ DECLARE ready boolean; BEGIN CALL taskq_wait('w', '0', ready); EXCEPTION WHEN division_by_zero THEN NULL; END $$;
SET taskq.auto_create_queues = off;
CALL taskq_wait('nowhere', '0');
SELECT taskq_claim('nowhere', wait => '1 s');
RESET taskq.auto_create_queues;
-- code that may commit may wait
DO $$
DECLARE
    ready boolean;
BEGIN
    CALL taskq_wait('w', '0', ready);
    RAISE WARNING 'ready: %', ready;
    COMMIT;
    CALL taskq_wait('w', '0', ready, tags => '{a}');
    RAISE WARNING 'ready: %', ready;
END $$;
RESET client_min_messages;
-- where no call can wait, the hint says how to do it
\set VERBOSITY default
\set SHOW_CONTEXT never
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT taskq_claim('w', wait => '1 s');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT taskq_claim_one('w1', '{w}', '1 min', wait => '1 s');
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
CALL taskq_wait('w', '0');
ROLLBACK;
BEGIN;
SELECT taskq_submit('w', '6') > 0 AS submitted;
SELECT taskq_claim_one('w1', '{w}', '1 min', wait => '1 s');
ROLLBACK;
SELECT 1 AS first \; CALL taskq_wait('w', '0');
CREATE FUNCTION t.waits() RETURNS boolean LANGUAGE plpgsql AS $$ DECLARE ready boolean; BEGIN CALL taskq_wait('w', '0', ready); RETURN ready; END $$;
SELECT t.waits();
DROP FUNCTION t.waits();
DO $$ DECLARE ready boolean; BEGIN PERFORM taskq_submit('w', '7'); CALL taskq_wait('w', '0', ready); END $$;
-- a session with another isolation level can CALL it by itself, and in a procedure that may commit;
-- its claims cannot wait
SET default_transaction_isolation = serializable;
CALL taskq_wait('w', '0');
SELECT taskq_claim('w', wait => '1 s');
DO $$
DECLARE
    ready boolean;
BEGIN
    PERFORM count(*) FROM taskq_list('w');
    CALL taskq_wait('w', '0', ready);
    RAISE INFO 'ready: %, %', ready, current_setting('transaction_isolation');
END $$;
SET default_transaction_isolation = 'repeatable read';
CALL taskq_wait('w', '0');
RESET default_transaction_isolation;
\set SHOW_CONTEXT errors
\set VERBOSITY terse
SELECT taskq_drop_queue('w', true) > 0 AS dropped, taskq_deregister('w1');

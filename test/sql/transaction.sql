--
-- transaction: what is rolled back did not happen
--
SELECT taskq_create_queue('tx', '{"retry": "fixed", "retry_base": "0 s"}');
-- submit
BEGIN;
SELECT taskq_submit('tx', '"rolled back"') AS id \gset
SELECT state FROM taskq_get(:id);
ROLLBACK;
SELECT t.try(format('SELECT taskq_get(%s)', :id)) LIKE 'TQ002: %' AS never_was;
SELECT count(*) FROM taskq_list('tx');
-- with the queue that it has created
BEGIN;
SELECT taskq_submit('tx new') > 0 AS submitted;
ROLLBACK;
SELECT count(*) FROM taskq.queues WHERE queue = 'tx new';
SELECT taskq_submit('tx new') > 0 AS submitted;
-- claim: neither the task nor the attempt is used
SELECT taskq_submit('tx') AS id \gset
BEGIN;
SELECT token AS lost_token, attempt FROM taskq_claim('tx') \gset
SELECT :attempt AS attempt;
ROLLBACK;
SELECT state, attempt, worker, claimed_at, lease_until FROM taskq_get(:id);
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :id, :lost_token)), 5);
SELECT token, attempt FROM taskq_claim('tx') \gset
SELECT :attempt AS attempt;
-- with another token: a worker may still have the token that was rolled back
SELECT :token > :lost_token AS another_token;
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :id, :lost_token)), 5);
-- complete, fail, release, suspend, filter: the claim stays
CREATE FUNCTION t.rolled_back(call text, id bigint, token bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    BEGIN
        EXECUTE format('SELECT ' || call, id, token);
        RAISE division_by_zero;
    EXCEPTION WHEN division_by_zero THEN
        NULL;
    END;
    RETURN (SELECT concat_ws(' ', state, attempt, result, error, message, checkpoint, cancel_requested_at, lease_until - now() < interval '1 h')
              FROM taskq_get(id));
END
$$;
SELECT c, t.rolled_back(c, :id, :token)
  FROM unnest(ARRAY['taskq_complete(%s, %s, ''1'')', 'taskq_complete(%s, %s, keep => false)', 'taskq_fail(%s, %s, ''e'')',
                    'taskq_fail(%s, %s, ''e'', false)', 'taskq_release(%s, %s)', 'taskq_suspend(%s, %s, ''why'')', 'taskq_filter(%s, %s)',
                    'taskq_checkpoint(%s, %s, ''1'')', 'taskq_extend(%s, %s, ''9 h'')', 'taskq_cancel(%s)', 'taskq_cancel(%1$s, force => true)']) c;
DROP FUNCTION t.rolled_back(text, bigint, bigint);
BEGIN;
SELECT taskq_complete(:id, :token, '1');
SELECT state, result FROM taskq_get(:id);
ROLLBACK;
SELECT state, result FROM taskq_get(:id);
SELECT taskq_complete(:id, :token, '2');
SELECT state, result FROM taskq_get(:id);
-- savepoints
BEGIN;
SELECT taskq_submit('tx', '"outer"') AS outer_id \gset
SAVEPOINT s;
SELECT taskq_submit('tx', '"inner"') AS inner_id \gset
ROLLBACK TO s;
SELECT state FROM taskq_get_many(ARRAY[:outer_id, :inner_id]);
SAVEPOINT s;
SELECT token AS lost_token, payload, attempt FROM taskq_claim('tx') \gset
SELECT :'payload' AS payload, :attempt AS attempt;
ROLLBACK TO s;
SELECT state, attempt FROM taskq_get(:outer_id);
SELECT token, attempt FROM taskq_claim('tx') \gset
SELECT :attempt AS attempt, :token > :lost_token AS another_token;
SAVEPOINT s;
SELECT taskq_complete(:outer_id, :token);
ROLLBACK TO s;
SELECT state FROM taskq_get(:outer_id);
SAVEPOINT s2;
SELECT taskq_fail(:outer_id, :token, 'after a savepoint');
RELEASE s2;
COMMIT;
SELECT state, attempt, error FROM taskq_get(:outer_id);
-- the work in a savepoint, the failure reported outside
CREATE TABLE t.business (id int PRIMARY KEY);
INSERT INTO t.business VALUES (1);
BEGIN;
SELECT task_id, token FROM taskq_claim('tx') \gset
SAVEPOINT work;
INSERT INTO t.business VALUES (1);
ROLLBACK TO work;
SELECT taskq_fail(:task_id, :token, 'duplicate');
COMMIT;
SELECT state, attempt, error FROM taskq_get(:task_id);
-- if the call of a stale worker is refused, its effect is rolled back
SELECT task_id, token FROM taskq_claim('tx') \gset
BEGIN;
INSERT INTO t.business VALUES (2);
\set VERBOSITY sqlstate
SELECT taskq_complete(:task_id, :token - 1);
\set VERBOSITY default
COMMIT;
SELECT * FROM t.business;
BEGIN;
INSERT INTO t.business VALUES (3);
SELECT taskq_complete(:task_id, :token);
COMMIT;
SELECT b.id, g.state FROM t.business b, taskq_get(:task_id) g ORDER BY b.id;
DROP TABLE t.business;
-- all of them in one transaction, twice
BEGIN;
SELECT taskq_submit('tx', '"all"') AS id \gset
SELECT token FROM taskq_claim('tx') \gset
SELECT taskq_fail(:id, :token, 'once');
SELECT token AS token2 FROM taskq_claim('tx') \gset
SELECT taskq_complete(:id, :token2);
SELECT :token2 > :token AS rises;
COMMIT;
SELECT state, attempt FROM taskq_get(:id);
-- prepared transactions
BEGIN;
SELECT taskq_submit('prepared', '"a"') AS a \gset
PREPARE TRANSACTION 'submit';
SELECT t.try(format('SELECT taskq_get(%s)', :a)) LIKE 'TQ002: %' AS invisible;
SELECT count(*) FROM taskq_claim('prepared');
COMMIT PREPARED 'submit';
SELECT state FROM taskq_get(:a);
BEGIN;
SELECT taskq_submit('prepared', '"b"') AS b \gset
PREPARE TRANSACTION 'submit';
ROLLBACK PREPARED 'submit';
SELECT t.try(format('SELECT taskq_get(%s)', :b)) LIKE 'TQ002: %' AS never_was;
BEGIN;
SELECT token FROM taskq_claim('prepared') \gset
PREPARE TRANSACTION 'claim';
SELECT state, attempt FROM taskq_get(:a);
SELECT count(*) FROM taskq_claim('prepared');
ROLLBACK PREPARED 'claim';
SELECT state, attempt FROM taskq_get(:a);
BEGIN;
SELECT token, attempt FROM taskq_claim('prepared') \gset
PREPARE TRANSACTION 'claim';
COMMIT PREPARED 'claim';
SELECT state, attempt, :attempt AS told FROM taskq_get(:a);
BEGIN;
SELECT taskq_complete(:a, :token, '"prepared"');
PREPARE TRANSACTION 'complete';
SELECT state FROM taskq_get(:a);
ROLLBACK PREPARED 'complete';
SELECT state FROM taskq_get(:a);
BEGIN;
SELECT taskq_complete(:a, :token, '"prepared"');
PREPARE TRANSACTION 'complete';
COMMIT PREPARED 'complete';
SELECT state, result FROM taskq_get(:a);
-- read-only: reading works, nothing else does
SELECT taskq_submit('tx') AS id \gset
SELECT token FROM taskq_claim('tx') \gset
BEGIN READ ONLY;
SELECT state FROM taskq_get(:id);
SELECT count(*) FROM taskq_list('tx', 'running');
SELECT running FROM taskq.queues WHERE queue = 'tx';
SELECT s, t.try(s)
  FROM unnest(ARRAY['taskq_submit(''tx'')', 'taskq_submit(''tx ro'')', 'taskq_submit_many(''tx'', ''{1}'')', 'taskq_claim(''tx'')',
                    'taskq_create_queue(''tx ro'')', 'taskq_alter_queue(''tx'', ''{}'')', 'taskq_drop_queue(''tx'')', 'taskq_pause(''tx'')', 'taskq_resume(''tx'')',
                    'taskq_grant(''tx'', ''public'', ''{read}'')', 'taskq_revoke(''tx'', ''public'', ''{read}'')',
                    'taskq_register(''w'')', 'taskq_deregister(''w'')', 'taskq_cancel(1)', 'taskq_retry(1)', 'taskq_run_reapers()', 'taskq_activate()']) f,
       LATERAL (SELECT 'SELECT ' || f AS s) x;
SELECT f, t.try(format('SELECT ' || f, :id, :token))
  FROM unnest(ARRAY['taskq_complete(%s, %s)', 'taskq_fail(%s, %s, ''e'')', 'taskq_release(%s, %s)', 'taskq_suspend(%s, %s)', 'taskq_filter(%s, %s)',
                    'taskq_extend(%s, %s)', 'taskq_checkpoint(%s, %s, ''1'')']) f;
COMMIT;
-- other isolation levels
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT taskq_submit('rr', '"rr"') > 0 AS submitted;
SELECT payload, attempt FROM taskq_claim('rr');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT taskq_submit('rr', '"serializable"') > 0 AS submitted;
SELECT payload, token, task_id FROM taskq_claim('rr') \gset
SELECT taskq_complete(:task_id, :token);
COMMIT;
SELECT state FROM taskq_get(:task_id);
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;

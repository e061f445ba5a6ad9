--
-- rights: which role may do what, and what other roles can see
--
CREATE ROLE regress_taskq_submit;
CREATE ROLE regress_taskq_work;
CREATE ROLE regress_taskq_read;
CREATE ROLE regress_taskq_manage;
CREATE ROLE regress_taskq_none;
CREATE ROLE regress_taskq_other;
CREATE ROLE regress_taskq_monitor IN ROLE pg_monitor;
CREATE ROLE regress_taskq_member;
SELECT taskq_create_queue('mine');
SELECT taskq_create_queue('other');
SELECT taskq_grant('mine', 'regress_taskq_' || r, ARRAY[r]) FROM unnest(ARRAY['submit', 'work', 'read', 'manage']) r;
SELECT taskq_grant('other', 'regress_taskq_other', '{submit,work,read,manage}');
GRANT regress_taskq_read TO regress_taskq_member;
-- each right gives EXECUTE on these functions; no other role has EXECUTE on any
SELECT p.proname, string_agg(substr(r.rolname, 15), ' ' ORDER BY r.rolname) AS may
  FROM pg_proc p
  LEFT JOIN pg_roles r ON r.rolname LIKE 'regress\_taskq\_%' AND r.rolname !~ 'other|member' AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
 WHERE p.proname LIKE 'taskq\_%' AND p.pronamespace = 'public'::regnamespace
 GROUP BY p.proname
 ORDER BY p.proname;
-- no role may use tables or sequences directly
SELECT r.rolname, c.relname
  FROM pg_class c, pg_roles r
 WHERE c.relnamespace = 'taskq'::regnamespace AND r.rolname LIKE 'regress\_taskq\_%'
   AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(r.oid, c.oid, 'USAGE, SELECT, UPDATE')
       ELSE c.relkind IN ('r', 'p', 'v', 'f') AND has_table_privilege(r.oid, c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
            AND c.relname <> ALL (ARRAY['tasks', 'running', 'dead', 'documents', 'queues', 'workers', 'history', 'settings', 'metrics', 'metric_history', 'workflows', 'workflow_steps', 'batch_progress', 'schedules', 'operations', 'changes']) END;
SELECT DISTINCT c.relname, a.privilege_type
  FROM pg_class c, aclexplode(c.relacl) a
 WHERE c.relnamespace = 'taskq'::regnamespace AND a.grantee = 0
 ORDER BY 1, 2;
-- no role can create objects in a schema
SELECT has_schema_privilege('regress_taskq_none', 'taskq', 'USAGE') AS use, has_schema_privilege('regress_taskq_none', 'taskq', 'CREATE') AS make;
-- each call by each role, on a queue on which it has one right or none
CREATE TABLE t.ids (what text PRIMARY KEY, id bigint, token bigint);
GRANT SELECT ON t.ids TO PUBLIC;
INSERT INTO t.ids SELECT 'pending', taskq_submit('mine', '"secret"', reference => 'r', priority => -1);
INSERT INTO t.ids SELECT 'running', taskq_submit('mine', '"secret"', priority => 9);
UPDATE t.ids SET token = c.token FROM taskq_claim('mine') c WHERE ids.id = c.task_id;
SELECT what, token IS NOT NULL AS claimed FROM t.ids ORDER BY what;
-- a call as another role, rolled back; ids are hidden
CREATE FUNCTION t.as_role(role text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    hint text;
BEGIN
    call := replace(replace(call, '$p', (SELECT id::text FROM t.ids WHERE what = 'pending')),
                    '$r', (SELECT id || ', ' || token FROM t.ids WHERE what = 'running'));
    call := replace(replace(call, '$ar', (SELECT format('ARRAY[%s], ARRAY[%s]', id, token) FROM t.ids WHERE what = 'running')),
                    '$dr', (SELECT format('''[{"task_id": %s, "token": %s, "outcome": "complete"}]''', id, token) FROM t.ids WHERE what = 'running'));
    BEGIN
        EXECUTE format('SET LOCAL ROLE %I', role);
        EXECUTE 'SELECT 1 FROM ' || call INTO answer;
        RAISE division_by_zero;
    EXCEPTION
        WHEN division_by_zero THEN
            answer := 'ok';
        WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
            answer := SQLSTATE || ': ' || regexp_replace(SQLERRM, 'task \d+', 'task ID') || CASE WHEN hint <> '' THEN ' | ' || hint ELSE '' END;
    END;
    RETURN answer;
END
$$;
CREATE TABLE t.call (n serial, call text);
INSERT INTO t.call (call) VALUES
    ('taskq_submit(''mine'')'), ('taskq_submit(''new one'')'), ('taskq_submit_many(''mine'', ''{1}'')'), ('taskq_claim(''mine'')'), ('taskq_claim(''new one'')'),
    ('taskq_complete($r)'), ('taskq_fail($r, ''e'')'), ('taskq_release($r)'), ('taskq_suspend($r)'), ('taskq_filter($r)'), ('taskq_extend($r)'),
    ('taskq_progress($r)'), ('taskq_checkpoint($r, ''1'')'), ('taskq_register(''rw'')'), ('taskq_get($p)'), ('taskq_list(''mine'')'), ('taskq_list()'),
    ('taskq_list(''other'')'),
    ('taskq_get_many(ARRAY[$p])'), ('taskq_cancel($p)'), ('taskq_retry($p)'), ('taskq_create_queue(''new one'')'), ('taskq_alter_queue(''mine'', ''{}'')'),
    ('taskq_alter_queue(''*'', ''{}'')'), ('taskq_pause(''mine'')'), ('taskq_pause(''*'')'), ('taskq_resume(''mine'')'), ('taskq_drop_queue(''mine'', true)'),
    ('taskq_grant(''mine'', ''public'', ''{read}'')'), ('taskq_grant(''*'', ''public'', ''{read}'')'), ('taskq_revoke(''mine'', ''regress_taskq_read'', ''{read}'')'),
    ('taskq_submit_tasks(''[{"queue": "mine"}]'')'), ('taskq_submit_tasks(''[{"queue": "mine"}, {"queue": "other"}]'')'), ('taskq_submit_tasks(''[]'')'),
    ('taskq_complete_many($ar)'), ('taskq_complete_many($ar, strict => true)'), ('taskq_decide_many($dr)'), ('taskq_decide_many($dr, false)'), ('taskq_extend_many($ar)'),
    ('taskq_complete_and_claim($ar, queue => ''mine'')'), ('taskq_complete_and_claim(''{}'', ''{}'', queue => ''mine'')'), ('taskq_claim(NULL, ''rights'')'), ('taskq_drain(''rights'')'), ('taskq_expire(''rights'', ''1 s'')'),
    ('taskq_purge(''mine'')'), ('taskq_purge(''mine'', ''{pending}'')'), ('taskq_purge(''no such queue'')'),
    ('taskq_run_reapers()'), ('taskq_check()'), ('taskq_activate()'), ('taskq_version()');
SELECT substr(r, 15) AS role, call, t.as_role(r, call)
  FROM unnest(ARRAY['submit', 'work', 'read', 'manage', 'other', 'none']) s, LATERAL (SELECT 'regress_taskq_' || s AS r) x, t.call
 WHERE t.as_role(r, call) !~ '^42501: permission denied for function'
 ORDER BY array_position(ARRAY['submit', 'work', 'read', 'manage', 'other', 'none'], s), n;
-- with every EXECUTE and no right on the queue, a role gets the same message as for a task that
-- does not exist
SELECT call, t.as_role('regress_taskq_other', replace(call, '$r', '999999, 1')) = t.as_role('regress_taskq_other', call) AS same
  FROM t.call WHERE call LIKE '%$r%' ORDER BY n;
SELECT call, t.as_role('regress_taskq_other', replace(call, '$p', '999999')) = t.as_role('regress_taskq_other', call) AS same
  FROM t.call WHERE call LIKE '%$p%' ORDER BY n;
-- in lists, a task is unknown without any right on its queue, and not permitted with another right
SELECT id AS run, token AS run_token FROM t.ids WHERE what = 'running' \gset
SET ROLE regress_taskq_other;
SELECT ok, error_code FROM taskq_complete_many(ARRAY[:run, 999999], ARRAY[:run_token, 1]);
SELECT ok, error_code, state FROM taskq_decide_many(jsonb_build_array(jsonb_build_object('task_id', :run, 'token', :run_token, 'outcome', 'filter'), jsonb_build_object('task_id', 999999, 'token', 1, 'outcome', 'filter')), false);
SELECT ok, cancel FROM taskq_extend_many(ARRAY[:run, 999999], ARRAY[:run_token, 1]);
RESET ROLE;
SELECT taskq_grant('mine', 'regress_taskq_other', '{read}');
SET ROLE regress_taskq_other;
SELECT ok, error_code FROM taskq_complete_many(ARRAY[:run, 999999], ARRAY[:run_token, 1]);
SELECT regexp_replace(t.try(format('SELECT count(*) FROM taskq_complete_many(ARRAY[%s, 999999], ARRAY[%s, 1], strict => true)', :run, :run_token)), '([ \[])' || :'run' || '([,}\]])', '\1ID\2');
SELECT regexp_replace(t.try(format('SELECT count(*) FROM taskq_complete_and_claim(ARRAY[%s], ARRAY[%s], queue => ''other'')', :run, :run_token)), '([ \[])' || :'run' || '([,}\]])', '\1ID\2');
SELECT regexp_replace(t.try(format('SELECT count(*) FROM taskq_complete_and_claim(ARRAY[%s, 999999], ARRAY[%s, 1], queue => ''other'')', :run, :run_token)), '([ \[])' || :'run' || '([,}\]])', '\1ID\2');
SELECT ok, cancel FROM taskq_extend_many(ARRAY[:run], ARRAY[:run_token]);
RESET ROLE;
SELECT taskq_revoke('mine', 'regress_taskq_other', '{read}');
SELECT state FROM taskq_get(:run);
-- lists and views show what the role may read
CREATE FUNCTION t.sees(role text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    SELECT concat_ws(', ', 'tasks ' || (SELECT count(*) FROM taskq.tasks), 'payloads ' || (SELECT count(payload) FROM taskq.tasks),
                     'queues ' || coalesce((SELECT string_agg(queue, ' ' ORDER BY queue) FROM taskq.queues), ''))
      INTO answer;
    RESET ROLE;
    RETURN answer;
END
$$;
SELECT taskq_submit('other', '1') > 0 AS submitted;
SELECT substr(r, 15) AS role, t.sees(r)
  FROM unnest(ARRAY['regress_taskq_submit', 'regress_taskq_work', 'regress_taskq_read', 'regress_taskq_manage', 'regress_taskq_member',
                    'regress_taskq_other', 'regress_taskq_none', 'regress_taskq_monitor']) r;
-- pg_monitor: everything but the contents of tasks
INSERT INTO t.ids SELECT 'done', taskq_submit('mine', '"secret"', priority => 99);
SELECT c.task_id, c.token, taskq_checkpoint(c.task_id, c.token, '"secret"') IS NULL AS n FROM taskq_claim('mine') c \gset
SELECT taskq_fail(:task_id, :token, 'secret', false);
SET ROLE regress_taskq_monitor;
SELECT state, reason, payload, data, headers, result, error, errors, checkpoint, message FROM taskq.tasks WHERE task_id = :task_id;
RESET ROLE;
SET ROLE regress_taskq_read;
SELECT state, reason, payload, error, checkpoint FROM taskq.tasks WHERE task_id = :task_id;
SELECT state, reason, payload, error, checkpoint FROM taskq_get(:task_id);
RESET ROLE;
-- a leaky function in a WHERE clause sees only rows that the role may read
SET client_min_messages = notice;
CREATE FUNCTION t.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$BEGIN RAISE NOTICE 'leak %', $1; RETURN true; END$$;
SET ROLE regress_taskq_none;
SELECT count(*) FROM taskq.tasks WHERE t.leak(queue);
SELECT count(*) FROM taskq.queues WHERE t.leak(queue);
SELECT count(*) FROM taskq.workers WHERE t.leak(worker);
RESET ROLE;
DROP FUNCTION t.leak(text);
RESET client_min_messages;
-- membership counts; so does a grant to public, and on all queues
SELECT t.as_role('regress_taskq_member', 'taskq_get($p)');
SELECT t.as_role('regress_taskq_member', 'taskq_cancel($p)');
SELECT taskq_grant('mine', 'public', '{submit}');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''mine'')');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''other'')');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''new one'')');
SELECT taskq_grant('*', 'regress_taskq_none', '{submit}');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''other'')');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''new one'')');
SELECT taskq_create_queue('later');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''later'')');
-- a queue that is created by a submit belongs to the extension's owner, its tasks to the submitter
SET ROLE regress_taskq_none;
SELECT taskq_submit('auto') AS id \gset
RESET ROLE;
SELECT q.owner = (SELECT extowner::regrole::text FROM pg_extension WHERE extname = 'taskq') AS extensions, g.submitted_by, g.run_as
  FROM taskq.queues q, taskq_get(:id) g WHERE q.queue = 'auto';
SELECT t.as_role('regress_taskq_none', format('taskq_get(%s)', :id));
-- revoke removes the right, and EXECUTE if no other right needs it
SELECT taskq_revoke('mine', 'public', '{submit}');
SELECT taskq_revoke('*', 'regress_taskq_none', '{submit}');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''mine'')');
SELECT has_function_privilege('regress_taskq_none', p.oid, 'EXECUTE') AS may FROM pg_proc p WHERE proname = 'taskq_submit';
SELECT taskq_grant('mine', 'regress_taskq_none', '{submit,read}');
SELECT taskq_grant('other', 'regress_taskq_none', '{submit}');
SELECT taskq_revoke('mine', 'regress_taskq_none', '{submit}');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''mine'')');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''other'')');
SELECT t.as_role('regress_taskq_none', 'taskq_get($p)');
SELECT taskq_revoke('mine', 'regress_taskq_none', '{read}');
SELECT taskq_revoke('other', 'regress_taskq_none', '{submit}');
SELECT t.as_role('regress_taskq_none', 'taskq_submit(''other'')');
-- a second grant changes nothing; a right that was not granted can be revoked
SELECT taskq_grant('mine', 'regress_taskq_read', '{read,read}');
SELECT taskq_revoke('mine', 'regress_taskq_none', '{manage}');
-- words
SELECT t.try($$SELECT taskq_grant('mine', 'regress_taskq_absent', '{read}')$$);
SELECT t.try($$SELECT taskq_grant('mine', 'regress_taskq_read', '{write}')$$);
SELECT t.try($$SELECT taskq_grant('mine', 'regress_taskq_read', '{}')$$);
SELECT t.try($$SELECT taskq_grant('mine', 'regress_taskq_read', '{read,NULL}')$$);
SELECT t.try($$SELECT taskq_grant('mine', 'regress_taskq_read', NULL)$$);
SELECT t.try($$SELECT taskq_grant('mine', NULL, '{read}')$$);
SELECT t.try($$SELECT taskq_grant(NULL, 'regress_taskq_read', '{read}')$$);
SELECT t.try($$SELECT taskq_grant('no such', 'regress_taskq_read', '{read}')$$);
-- the owner of a queue needs no grant
SELECT taskq_grant('*', 'regress_taskq_manage', '{manage}');
SET ROLE regress_taskq_manage;
SELECT taskq_create_queue('own');
SELECT taskq_revoke('*', 'regress_taskq_manage', '{manage}');
SELECT owner FROM taskq.queues WHERE queue = 'own';
SELECT taskq_alter_queue('own', '{"priority": 3}');
SELECT taskq_pause('own');
SELECT taskq_grant('own', 'regress_taskq_work', '{work}');
RESET ROLE;
SELECT t.as_role('regress_taskq_work', 'taskq_claim(''own'')');
SELECT t.as_role('regress_taskq_submit', 'taskq_submit(''own'')');
-- a new queue with the name of a dropped one is another queue
SELECT taskq_drop_queue('own');
SELECT taskq_create_queue('own');
SELECT t.as_role('regress_taskq_work', 'taskq_claim(''own'')');
-- a setting that only superusers can change
SET ROLE regress_taskq_submit;
SET taskq.auto_create_queues = on;
RESET ROLE;
--
-- No role gains rights.
--
CREATE TABLE t.canary (hit text);
CREATE SCHEMA regress_taskq_evil AUTHORIZATION regress_taskq_submit;
GRANT regress_taskq_submit TO CURRENT_USER;
SET ROLE regress_taskq_submit;
CREATE FUNCTION regress_taskq_evil.hit() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'evil code ran as %', current_user;
    RETURN true;
END
$$;
CREATE FUNCTION regress_taskq_evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT regress_taskq_evil.hit(); SELECT pg_catalog.now()';
CREATE FUNCTION regress_taskq_evil.coalesce(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT regress_taskq_evil.hit(); SELECT a';
CREATE FUNCTION regress_taskq_evil.jsonb_agg(a jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT regress_taskq_evil.hit(); SELECT a';
CREATE FUNCTION regress_taskq_evil.jsonb_array_length(a jsonb) RETURNS int LANGUAGE sql AS 'SELECT regress_taskq_evil.hit(); SELECT 1';
CREATE FUNCTION regress_taskq_evil.nextval(a regclass) RETURNS bigint LANGUAGE sql AS 'SELECT regress_taskq_evil.hit(); SELECT 1::bigint';
CREATE FUNCTION regress_taskq_evil.bigint_eq(a bigint, b bigint) RETURNS boolean LANGUAGE sql AS 'SELECT regress_taskq_evil.hit()';
CREATE FUNCTION regress_taskq_evil.text_eq(a text, b text) RETURNS boolean LANGUAGE sql AS 'SELECT regress_taskq_evil.hit()';
CREATE FUNCTION regress_taskq_evil.int_eq(a int, b int) RETURNS boolean LANGUAGE sql AS 'SELECT regress_taskq_evil.hit()';
CREATE FUNCTION regress_taskq_evil.small_eq(a smallint, b smallint) RETURNS boolean LANGUAGE sql AS 'SELECT regress_taskq_evil.hit()';
CREATE OPERATOR regress_taskq_evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = regress_taskq_evil.bigint_eq);
CREATE OPERATOR regress_taskq_evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = regress_taskq_evil.text_eq);
CREATE OPERATOR regress_taskq_evil.= (LEFTARG = int, RIGHTARG = int, FUNCTION = regress_taskq_evil.int_eq);
CREATE OPERATOR regress_taskq_evil.= (LEFTARG = smallint, RIGHTARG = smallint, FUNCTION = regress_taskq_evil.small_eq);
CREATE OPERATOR regress_taskq_evil.> (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = regress_taskq_evil.bigint_eq);
CREATE OPERATOR regress_taskq_evil.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = regress_taskq_evil.bigint_eq);
CREATE DOMAIN regress_taskq_evil.jsonb AS text CHECK (regress_taskq_evil.hit());
CREATE DOMAIN regress_taskq_evil.bigint AS text CHECK (regress_taskq_evil.hit());
RESET ROLE;
CREATE TEMP TABLE task (task_id bigint);
CREATE TEMP TABLE queue (queue_id int);
CREATE TEMP TABLE pg_class (oid oid);
CREATE TEMP TABLE pg_proc (oid oid);
SET search_path = regress_taskq_evil, pg_temp, pg_catalog, public;
SELECT public.taskq_create_queue('evil', '{"retry": "fixed", "retry_base": "0 s"}');
SELECT public.taskq_submit('evil', '{"a": 1}', reference => 'r', tags => '{a}') OPERATOR(pg_catalog.>) 0 AS submitted;
SELECT public.taskq_submit('evil auto', pg_catalog.to_jsonb(pg_catalog.repeat('x', 100000))) OPERATOR(pg_catalog.>) 0 AS submitted;
SELECT pg_catalog.count(*) FROM public.taskq_submit_many('evil', '{1,2}');
SELECT task_id, token FROM public.taskq_claim('evil', 'w', tags => '{a}') \gset
SELECT cancel FROM public.taskq_extend(:task_id, :token);
SELECT cancel FROM public.taskq_progress(:task_id, :token, 0.5);
SELECT cancel FROM public.taskq_checkpoint(:task_id, :token, '1');
SELECT public.taskq_fail(:task_id, :token, 'e', detail => '{"d": 1}');
SELECT task_id, token FROM public.taskq_claim('evil', 'w', tags => '{a}') \gset
SELECT public.taskq_fail(:task_id, :token, 'e');
SELECT task_id, token FROM public.taskq_claim('evil', 'w', tags => '{a}') \gset
SELECT public.taskq_complete(:task_id, :token, '1');
SELECT public.taskq_retry(:task_id);
SELECT public.taskq_cancel(:task_id);
SELECT state, payload, attempt FROM public.taskq_get(:task_id);
SELECT pg_catalog.count(*) FROM public.taskq_list('evil');
SELECT pg_catalog.count(*) FROM taskq.tasks t WHERE t.task_id OPERATOR(pg_catalog.=) :task_id;
SELECT queue, pending FROM taskq.queues q WHERE q.queue OPERATOR(pg_catalog.=) 'evil';
SELECT public.taskq_register('evil worker');
SELECT state FROM public.taskq_heartbeat('evil worker');
SELECT pg_catalog.count(*) FROM taskq.workers w WHERE w.worker OPERATOR(pg_catalog.=) 'evil worker';
SELECT public.taskq_deregister('evil worker');
SELECT public.taskq_grant('evil', 'regress_taskq_read', '{read}');
SELECT public.taskq_revoke('evil', 'regress_taskq_read', '{read}');
SELECT public.taskq_pause('evil');
SELECT public.taskq_resume('evil');
SELECT public.taskq_alter_queue('evil', '{"priority": 1}');
SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>) 0 AS ran FROM public.taskq_run_reapers();
SELECT * FROM public.taskq_check();
SELECT public.taskq_drop_queue('evil', true) OPERATOR(pg_catalog.>) 0 AS dropped;
RESET search_path;
DROP TABLE pg_temp.task, pg_temp.queue, pg_temp.pg_class, pg_temp.pg_proc;
-- names, words and payloads are data
INSERT INTO t.canary VALUES ('canary');
CREATE TABLE t.inject (s text);
INSERT INTO t.inject VALUES ($$'; DROP TABLE t.canary; --$$), ($$"; DROP TABLE t.canary; --$$), ('$1'), ($$\'; DELETE FROM t.canary; --$$),
    ($$'||(SELECT 1/0)||'$$), ('%s %I %n'), ('{"a": "b"}'), ('$t$ DROP TABLE t.canary; $t$'), ('(SELECT 1)'), ('NULL'), ('default');
SELECT i.s, (g.queue, g.worker, g.key, g.reference, g.correlation_id, g.tags[1], g.payload #>> '{}', g.error, g.message) =
            (i.s, i.s, i.s, i.s, i.s, i.s, i.s, i.s, i.s) AS kept
  FROM t.inject i,
       LATERAL (SELECT taskq_submit(i.s, to_jsonb(i.s), key => i.s, reference => i.s, correlation_id => i.s, tags => ARRAY[i.s], headers => jsonb_build_object(i.s, i.s)) AS id) s,
       LATERAL (SELECT task_id, token FROM taskq_claim(i.s, i.s, tags => ARRAY[i.s]) WHERE s.id > 0) c,
       LATERAL (SELECT taskq_cancel(c.task_id, i.s) AS asked) a,
       LATERAL (SELECT taskq_fail(c.task_id, c.token, i.s) AS failed WHERE a.asked <> '') f,
       LATERAL (SELECT * FROM taskq_get_many(ARRAY[c.task_id]) WHERE f.failed <> '') g;
SELECT count(*) FROM t.inject i, taskq_list(i.s, reference => i.s, key => i.s, correlation_id => i.s);
SELECT i.s, left(t.try(format('SELECT taskq_list(state => %L)', i.s)), 5), left(t.try(format('SELECT taskq_grant(%L, %1$L, ''{read}'')', i.s)), 5) FROM t.inject i;
SELECT count(taskq_pause(s, s)), count(taskq_resume(s)), count(taskq_register(s, ARRAY[s], ARRAY[s], info => to_jsonb(s))), count(taskq_heartbeat(s)), count(taskq_deregister(s)) FROM t.inject;
SELECT * FROM t.canary;
-- clean up
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
SET client_min_messages = warning;
DROP SCHEMA regress_taskq_evil CASCADE;
RESET client_min_messages;
DROP FUNCTION t.as_role(text, text), t.sees(text);
DROP TABLE t.ids, t.call, t.canary, t.inject;
DROP OWNED BY regress_taskq_submit, regress_taskq_work, regress_taskq_read, regress_taskq_manage, regress_taskq_none, regress_taskq_other, regress_taskq_monitor, regress_taskq_member;
DROP ROLE regress_taskq_submit, regress_taskq_work, regress_taskq_read, regress_taskq_manage, regress_taskq_none, regress_taskq_other, regress_taskq_monitor, regress_taskq_member;

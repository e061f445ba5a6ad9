-- taskq_explain and taskq_explain_claim: the sentences about what one server shows. Times and ids
-- are hidden; the ids are made long for this purpose.
\set VERBOSITY terse
SELECT setval('taskq.task_id_seq', 7000000) > 0 AS made_long;
CREATE SCHEMA x;
SET search_path = public, x;
CREATE FUNCTION x.hide(words text) RETURNS text LANGUAGE sql AS $$
SELECT regexp_replace(regexp_replace(replace(words, format('role "%s"', session_user), 'role "<me>"'),
    '[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d(\.\d+)? \d{4} [A-Z]{3}', '<time>', 'g'),
    '\m70\d{5}\M', '<id>', 'g')
$$;
CREATE FUNCTION x.why(id bigint) RETURNS text LANGUAGE sql AS $$ SELECT hide(taskq_explain(id)) $$;
CREATE FUNCTION x.claim(queue text, worker text DEFAULT NULL, tags text[] DEFAULT NULL) RETURNS text
    LANGUAGE sql AS $$ SELECT hide(taskq_explain_claim(queue, worker, tags)) $$;
CREATE FUNCTION x.try(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call INTO call;
    RETURN hide(call);
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ': ' || hide(SQLERRM);
END
$$;
CREATE FUNCTION x.run(queue text, worker text DEFAULT NULL, tags text[] DEFAULT NULL, lease interval DEFAULT '1 h') RETURNS text
    LANGUAGE sql AS $$ SELECT taskq_claim(queue, worker, tags => tags, lease => lease); SELECT 'claimed' $$;
-- workers of other tests have left
DO $$
DECLARE
    w text;
BEGIN
    FOR w IN SELECT DISTINCT worker FROM taskq.workers LOOP
        PERFORM taskq_register(w);
        PERFORM taskq_deregister(w);
    END LOOP;
END
$$;
-- finished tasks
SELECT taskq_create_queue('e', '{"history": "transitions", "max_attempts": 2, "retry_base": "1 h"}');
SELECT taskq_submit('e') AS a \gset
SELECT token FROM taskq_claim('e', 'one') \gset
SELECT taskq_complete(:a, :token);
SELECT why(:a);
SELECT taskq_submit('e', max_attempts => 1) AS a \gset
SELECT token FROM taskq_claim('e') \gset
SELECT taskq_fail(:a, :token, E'the first line\nthe second line');
SELECT why(:a);
SELECT taskq_retry(:a);
SELECT state, attempt FROM taskq_get(:a);
SELECT token FROM taskq_claim('e') \gset
SELECT taskq_fail(:a, :token, 'no', retryable => false);
SELECT why(:a);
SELECT taskq_submit('e', deadline => clock_timestamp() + interval '1 min') AS a \gset
SELECT token FROM taskq_claim('e') \gset
SELECT taskq_fail(:a, :token, 'late', retry_in => '1 h');
SELECT why(:a);
SELECT taskq_submit('e') AS a \gset
SELECT taskq_cancel(:a, 'not wanted');
SELECT why(:a);
SELECT taskq_submit('e') AS a \gset
SELECT token FROM taskq_claim('e', 'one') \gset
SELECT taskq_filter(:a, :token, 'seen before');
SELECT why(:a);
SELECT taskq_retry(:a);
SELECT taskq_cancel(:a);
-- by hand
SELECT taskq_submit('e') AS a \gset
SELECT taskq_resolve(:a, reason => 'done by phone');
SELECT why(:a);
SELECT taskq_submit('e') AS a \gset
SELECT taskq_hold(:a, 'not today');
SELECT why(:a);
SELECT taskq_recreate(:a) AS b \gset
SELECT why(:a);
SELECT taskq_explain(:a) ~ :'b' AS names_it;
SELECT taskq_poison(:b, 'never again');
SELECT why(:b);
-- states that no call produces today
CREATE FUNCTION x.archived(id bigint, new_state integer, new_reason integer, successor bigint) RETURNS text LANGUAGE sql AS $$
UPDATE taskq.archive SET state = new_state, reason = new_reason, recreated_as = successor WHERE task_id = id;
SELECT why(id) $$;
BEGIN;
SELECT archived(:a, 9, 0, NULL);
SELECT archived(:a, 6, 0, NULL);
ROLLBACK;
-- running
SELECT taskq_submit('e') AS a \gset
SELECT run('e', 'one');
SELECT why(:a);
SELECT claim('e');
SELECT taskq_cancel(:a, 'stop it');
SELECT why(:a);
SELECT taskq_cancel(:a, force => true);
SELECT state FROM taskq_get(:a);
SELECT taskq_submit('e', max_attempts => -1, options => '{"time_limit": "2 h"}') AS a \gset
SELECT run('e');
SELECT why(:a);
SELECT taskq_cancel(:a, force => true);
SELECT taskq_register('w', '{e,full}', '{red}', max_running => 1);
SELECT taskq_submit('e') AS a \gset
SELECT token FROM taskq_claim('e', 'w') \gset
SELECT why(:a);
SELECT claim('e', 'w');
SELECT taskq_submit('e') AS b \gset
SELECT claim('e', 'w');
SELECT why(:b);
SELECT taskq_cancel(:b);
SELECT taskq_complete(:a, :token);
SELECT taskq_submit('e') AS a \gset
SELECT run('e', 'w', lease => '1 h');
SELECT why(:a);
SELECT taskq_cancel(:a, force => true);
-- suspended
SELECT taskq_submit('e') AS a \gset
SELECT token FROM taskq_claim('e') \gset
SELECT taskq_suspend(:a, :token, 'ask the customer');
SELECT why(:a);
SELECT claim('e');
SELECT taskq_submit('new', suspended => true) AS a \gset
SELECT why(:a);
SELECT taskq_cancel(:a);
BEGIN;
SELECT taskq_submit('new', suspended => true, max_attempts => 1) AS a \gset
UPDATE taskq.task SET attempt = 1, reason = 4 WHERE task_id = :a;
SELECT why(:a);
SELECT try(format('SELECT taskq_retry(%s)', :a));
SELECT taskq_retry(:a, reset_attempts => true);
SELECT state FROM taskq_get(:a);
ROLLBACK;
-- blocked
BEGIN;
SELECT taskq_submit('new', key => 'k', deadline => clock_timestamp() + interval '1 h') AS a \gset
UPDATE taskq.task SET state = 2, available_at = 'infinity' WHERE task_id = :a;
SELECT why(:a);
SELECT claim('new');
ROLLBACK;
-- pending: a deadline that has passed
BEGIN;
SELECT taskq_submit('new') AS a \gset
UPDATE taskq.task SET deadline = clock_timestamp() - interval '1 s' WHERE task_id = :a;
SELECT why(:a);
SELECT claim('new');
ROLLBACK;
-- paused
SELECT taskq_submit('p') AS a \gset
SELECT taskq_pause('p', 'it''s broken', clock_timestamp() + interval '1 h');
SELECT why(:a);
SELECT claim('p');
SELECT taskq_pause('*');
SELECT why(:a);
SELECT taskq_resume('*');
SELECT taskq_resume('p');
SELECT taskq_pause('*', 'all stop');
SELECT why(:a);
SELECT claim('p');
SELECT taskq_resume('*');
-- not due
SELECT taskq_cancel(:a);
SELECT taskq_submit('e', delay => '1 h', deadline => clock_timestamp() + interval '2 h') AS a \gset
SELECT why(:a);
SELECT taskq_cancel(:a);
SELECT taskq_submit('e') AS a \gset
SELECT token FROM taskq_claim('e') \gset
SELECT taskq_fail(:a, :token, 'timed out');
SELECT why(:a);
SELECT claim('e');
SELECT taskq_cancel(:a);
-- its last error, also when it is ready again, or runs
SELECT taskq_submit('e', max_attempts => 3) AS a \gset
SELECT taskq_fail(task_id, token, E'no route\nto host', retry_in => '0') FROM taskq_claim('e');
SELECT why(:a);
SELECT run('e');
SELECT why(:a);
SELECT taskq_cancel(:a, force => true);
SELECT taskq_submit('p', delay => '1 h', tags => '{blue}') AS a \gset
SELECT claim('p');
SELECT claim('p', tags => '{blue,red}');
SELECT taskq_cancel(:a);
-- limits
SELECT taskq_create_queue('full', '{"max_running": 3}');
SELECT count(taskq_submit('full')) FROM generate_series(1, 5);
SELECT run('full', 'one'), run('full', 'one'), run('full');
SELECT max(task_id) AS a FROM taskq_list('full', 'pending') \gset
SELECT why(:a);
SELECT claim('full');
SELECT taskq_alter_queue('full', '{"max_running": 4}');
SELECT claim('full') ~ 'would get a task now: <id>.$' AS gets;
SELECT count(*) FROM taskq_claim('full', max_tasks => 9);
SELECT claim('full') ~ 'max_running of 4' AS full;
SELECT taskq_create_queue('slow', '{"rate_limit": {"count": 1, "per": "1 h"}}');
SELECT taskq_submit('slow') AS a \gset
SELECT why(:a);
SELECT count(*) FROM taskq_claim('slow');
SELECT why(:a);
SELECT claim('slow');
SELECT substring(taskq_explain(:a) FROM 'a claim after (.*) gets')::timestamptz - clock_timestamp() BETWEEN '50 min' AND '1 h' AS exact;
-- which workers could claim it
SELECT taskq_submit('t', tags => '{red,blue}') AS a, taskq_submit('t') AS b \gset
SELECT why(:a);
SELECT why(:b);
SELECT claim('t', tags => '{red}') ~ :'b' OR taskq_explain_claim('t', tags => '{red}') ~ :'b' AS gets_b;
SELECT taskq_register('t1', '{t}', '{red}');
SELECT why(:a);
SELECT why(:b);
SELECT taskq_register('t2', NULL, '{red,blue,green}');
SELECT why(:a);
SELECT taskq_drain('t1'), taskq_drain('t2');
SELECT why(:b);
SELECT claim('t', 't1');
SELECT claim(NULL, 't2');
SELECT taskq_register('t2', NULL, '{red,blue,green}', keep => true);
SELECT taskq_submit('t', tags => '{red}') AS c \gset
SELECT why(:c);
SELECT taskq_alter_queue('t', '{"order": "random"}');
SELECT why(:c);
SELECT claim('t', tags => '{red}');
SELECT taskq_alter_queue('t', '{"order": "lifo"}');
SELECT why(:c) ~ 'next for a claim' AS next;
SELECT taskq_explain_claim('t', tags => '{red}') ~ :'c' AS gets_c;
-- claims
SELECT taskq_cancel(:b), taskq_cancel(:c);
SELECT claim('t', tags => '{red}');
SELECT claim('t', 't1', '{blue,red}') ~ 'draining' AS draining;
SELECT claim('t', 'just a label', '{blue,red}');
SELECT claim('none of that name');
SET taskq.auto_create_queues = off;
SELECT claim('it''s none');
RESET taskq.auto_create_queues;
SELECT claim('new');
SELECT claim(NULL, 'absent');
SELECT taskq_deregister('t1');
SELECT claim(NULL, 't1') ~ 'TQ007' AS left;
SELECT claim(NULL, 't2');
SELECT taskq_register('some', '{nowhere,new,p,t}', '{red}');
SELECT claim(NULL, 'some');
SELECT taskq_alter_queue('t', '{"order": "random"}');
SELECT claim(NULL, 't2');
SELECT taskq_register('some', '{nowhere}');
SELECT claim(NULL, 'some');
SELECT try('SELECT taskq_explain_claim(NULL)'), try('SELECT taskq_explain_claim(''*'')'), try('SELECT taskq_explain(NULL)');
SELECT try('SELECT taskq_explain_claim(''q'', tags => ''{NULL}'')'), try('SELECT taskq_explain(-1)');
-- an explanation changes nothing, and is no heartbeat
SELECT state, attempt, version FROM taskq_get(:a);
-- rights
CREATE ROLE regress_taskq_asks;
CREATE ROLE regress_taskq_watches IN ROLE pg_monitor;
GRANT USAGE ON SCHEMA x TO regress_taskq_asks, regress_taskq_watches;
SELECT taskq_pause('e', 'a secret reason');
SELECT task_id AS secret FROM taskq_list('e', 'suspended') \gset
SELECT taskq_create_queue('other'), taskq_grant('other', 'regress_taskq_asks', '{work,read}');
SELECT taskq_submit('other') AS a \gset
SELECT taskq_fail(task_id, token, 'a secret error', retry_in => '0') FROM taskq_claim('other');
SET ROLE regress_taskq_watches;
SELECT why(:a);
RESET ROLE;
SELECT taskq_cancel(:a);
CREATE FUNCTION x.asked(role name, OUT what text, OUT answer text) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    FOREACH what IN ARRAY ARRAY['taskq_explain(999999)', 'taskq_explain($1)', 'taskq_explain_claim(''full'')', 'taskq_explain_claim(''e'')',
        'taskq_explain_claim(''none'')', 'taskq_explain_claim(''other'')', 'taskq_explain_claim(''other'', ''t2'')', 'taskq_explain_claim(NULL, ''t2'')',
        'taskq_explain_claim(NULL, ''its own'')', 'taskq_explain_claim(''full'', ''its own'')'] LOOP
        answer := try('SELECT ' || replace(what, '$1', current_setting('x.secret')));
        RETURN NEXT;
    END LOOP;
END
$$;
SELECT set_config('x.secret', :'secret', false) <> '' AS set;
SELECT answer FROM asked('regress_taskq_watches');
GRANT EXECUTE ON FUNCTION taskq_explain(bigint), taskq_explain_claim(text, text, text[]) TO regress_taskq_asks;
SET ROLE regress_taskq_asks;
SELECT taskq_register('its own', '{other,full}');
RESET ROLE;
SELECT answer FROM asked('regress_taskq_asks');
SELECT taskq_grant('full', 'regress_taskq_asks', '{work}'), taskq_grant('e', 'regress_taskq_asks', '{submit}');
SELECT answer FROM asked('regress_taskq_asks');
SELECT taskq_grant('*', 'regress_taskq_asks', '{read}');
SELECT answer FROM asked('regress_taskq_asks');
SELECT taskq_revoke('*', 'regress_taskq_asks', '{read}'), taskq_revoke('full', 'regress_taskq_asks', '{work}'),
       taskq_revoke('e', 'regress_taskq_asks', '{submit}');
SELECT taskq_deregister(w) FROM unnest(ARRAY['its own', 'w', 't2', 'some']) w;
SELECT taskq_drop_queue(q, force => true) > -1 AS dropped FROM unnest(ARRAY['e', 'p', 'full', 'slow', 't', 'new', 'other']) q;
REVOKE EXECUTE ON FUNCTION taskq_explain(bigint), taskq_explain_claim(text, text, text[]) FROM regress_taskq_asks;
SET client_min_messages = warning;
DROP SCHEMA x CASCADE;
DROP OWNED BY regress_taskq_asks, regress_taskq_watches;
DROP ROLE regress_taskq_asks, regress_taskq_watches;

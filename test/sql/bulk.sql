--
-- bulk: end many attempts in one call
--
SELECT taskq_create_queue('k', '{"retry": "fixed", "retry_base": "1 h"}');
CREATE TABLE t.h (n int, id bigint, token bigint);
-- claim how_many new tasks, with consecutive numbers
CREATE PROCEDURE t.hold(how_many int, queue text DEFAULT 'k') LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE t.h;
    PERFORM taskq_purge($2, '{pending}');
    PERFORM taskq_submit_many($2, (SELECT array_agg(to_jsonb(g)) FROM generate_series(1, how_many) g));
    INSERT INTO t.h SELECT payload::int, task_id, token FROM taskq_claim($2, max_tasks => how_many);
    INSERT INTO t.h VALUES (0, 999999999, 1);
END
$$;
CREATE FUNCTION t.ids(VARIADIC n int[]) RETURNS bigint[] LANGUAGE sql AS $$SELECT array_agg(h.id ORDER BY u.o) FROM unnest($1) WITH ORDINALITY u (n, o) JOIN t.h USING (n)$$;
CREATE FUNCTION t.tokens(VARIADIC n int[]) RETURNS bigint[] LANGUAGE sql AS $$SELECT array_agg(h.token ORDER BY u.o) FROM unnest($1) WITH ORDINALITY u (n, o) JOIN t.h USING (n)$$;
CREATE FUNCTION t.n(id bigint) RETURNS int LANGUAGE sql AS $$SELECT n FROM t.h WHERE h.id = $1$$;
-- a result with numbers in place of ids
CREATE FUNCTION t.hide(answer text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    h record;
BEGIN
    FOR h IN SELECT * FROM t.h LOOP
        answer := regexp_replace(answer, '(?<=[ \[])' || h.id || '(?=[,}\]])', '#' || h.n, 'g');
    END LOOP;
    RETURN answer;
END
$$;
CREATE FUNCTION t.states(queue text DEFAULT 'k') RETURNS text LANGUAGE sql AS $$
SELECT string_agg(format('%s %s', t.n(s.task_id), concat_ws(' ', s.state, s.reason)), ', ' ORDER BY t.n(s.task_id)) FROM taskq.tasks s JOIN t.h ON h.id = s.task_id WHERE s.queue = $1;
$$;
--
-- complete_many: one row for each, in the order of the list
--
CALL t.hold(6);
SELECT t.n(task_id), ok, error_code FROM taskq_complete_many(t.ids(3, 1, 2), t.tokens(3, 1, 2), ARRAY['"three"', NULL, '"two"']::jsonb[]);
SELECT t.n(task_id), state, result FROM taskq.tasks WHERE queue = 'k' AND state = 'done' ORDER BY task_id;
-- stale, unknown and duplicate tasks are reported and change nothing; the others are done
SELECT t.n(task_id), ok, error_code FROM taskq_complete_many(t.ids(5, 0, 4, 4, 1, 6), t.tokens(5, 0, 4, 4, 1) || (SELECT max(token) + 7 FROM t.h));
SELECT t.states();
-- strict: all or nothing, and every problem is named
CALL t.hold(4);
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_complete_many(t.ids(1, 0, 2, 2), t.tokens(1, 0, 2, 2), strict => true)$$));
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_complete_many(t.ids(3, 0), t.tokens(3, 0), strict => true)$$));
SELECT t.states();
SELECT t.n(task_id), ok, error_code FROM taskq_complete_many(t.ids(2, 1), t.tokens(2, 1), strict => true);
SELECT t.states();
-- a result that is too large
SELECT taskq_alter_queue('k', '{"max_payload": 100}');
SELECT t.n(task_id), ok, error_code FROM taskq_complete_many(t.ids(3, 4), t.tokens(3, 4), ARRAY[to_jsonb(repeat('x', 200)), '1']);
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_complete_many(t.ids(3), t.tokens(3), ARRAY[to_jsonb(repeat('x', 200))], true)$$));
SELECT taskq_alter_queue('k', '{"max_payload": null}');
SELECT t.states();
-- empty lists, lists with nulls, lists of different lengths
SELECT count(*) FROM taskq_complete_many('{}', '{}');
SELECT count(*) FROM taskq_complete_many('{}', '{}', '{}', true);
SELECT c, t.try('SELECT count(*) FROM ' || c)
  FROM unnest(ARRAY['taskq_complete_many(NULL, ''{1}'')', 'taskq_complete_many(''{1}'', NULL)', 'taskq_complete_many(''{1,2}'', ''{1}'')', 'taskq_complete_many(''{1}'', ''{1,2}'')', 'taskq_complete_many(''{1}'', ''{}'')',
    'taskq_complete_many(''{1,NULL}'', ''{1,2}'')', 'taskq_complete_many(''{1,2}'', ''{1,NULL}'')', 'taskq_complete_many(''{{1}}'', ''{1}'')', 'taskq_complete_many(''{1}'', ''{{1}}'')', 'taskq_complete_many(''{1}'', ''{1}'', ''{1,2}'')',
    'taskq_complete_many(''{1}'', ''{1}'', ''{}'')', 'taskq_complete_many(''{1}'', ''{1}'', ''{{1}}'')', 'taskq_complete_many(''{0,-1,9223372036854775807,-9223372036854775808}'', ''{0,-1,9223372036854775807,-9223372036854775808}'')']) c;
--
-- decide_many: each task has its own outcome
--
CALL t.hold(8);
CREATE FUNCTION t.d(n int, outcome text, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_build_object('task_id', h.id, 'token', h.token, 'outcome', outcome) || more FROM t.h WHERE h.n = $1;
$$;
SELECT t.n(task_id), ok, error_code, state FROM taskq_decide_many(jsonb_build_array(
    t.d(8, 'complete', '{"result": {"r": 8}}'), t.d(1, 'fail', '{"error": "one"}'), t.d(2, 'fail', '{"error": "two", "retryable": false, "detail": {"d": 1}}'), t.d(3, 'fail', '{"error": "three", "retry_in": "2 h"}'),
    t.d(4, 'suspend', '{"reason": "four"}'), t.d(5, 'filter', '{"reason": "five"}'), t.d(6, 'release', '{"delay": "3 h", "reason": "six", "result": 6}'), t.d(7, 'complete', '{"keep": false}')));
SELECT t.n(task_id), state, reason, message, attempt, result, error, errors #> '{0,detail}' AS detail, CASE WHEN state = 'pending' THEN date_trunc('minute', run_at - clock_timestamp() + interval '30 s') END AS wait
  FROM taskq.tasks s WHERE t.n(task_id) IS NOT NULL ORDER BY 1;
-- a null member counts as not given
CALL t.hold(2);
SELECT t.n(task_id), ok, state FROM taskq_decide_many(jsonb_build_array(
    t.d(1, 'complete', '{"result": null, "keep": null, "error": null, "detail": null, "retryable": null, "retry_in": null, "delay": null, "reason": null}'), t.d(2, 'fail', '{"error": "e", "retryable": null, "retry_in": null, "detail": null, "result": null}')));
-- strict by default, and not strict
CALL t.hold(3);
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_decide_many(jsonb_build_array(t.d(2, 'complete'), t.d(0, 'complete'), t.d(1, 'suspend'), t.d(2, 'fail', '{"error": "e"}')))$$));
SELECT t.states();
SELECT t.n(task_id), ok, error_code, state FROM taskq_decide_many(jsonb_build_array(t.d(2, 'complete'), t.d(0, 'complete'), t.d(1, 'suspend'), t.d(2, 'fail', '{"error": "e"}')), false);
SELECT t.states();
-- invalid documents, which change nothing, strict or not
SELECT d, t.hide(t.try(format('SELECT count(*) FROM taskq_decide_many(%L, false)', d)))
  FROM unnest(ARRAY['[]', 'null', '{}', '1', '"x"', '[1]', '[null]', '[[]]', '[{}]', '[{"task_id": 1}]', '[{"task_id": 1, "token": 1}]', '[{"task_id": null, "token": 1, "outcome": "complete"}]', '[{"task_id": 1, "token": null, "outcome": "complete"}]',
    '[{"task_id": 1, "token": 1, "outcome": null}]', '[{"task_id": "1", "token": 1, "outcome": "complete"}]', '[{"task_id": 1.5, "token": 1, "outcome": "complete"}]', '[{"task_id": 1e30, "token": 1, "outcome": "complete"}]', '[{"task_id": 1, "token": true, "outcome": "complete"}]',
    '[{"task_id": 1, "token": 1, "outcome": "done"}]', '[{"task_id": 1, "token": 1, "outcome": "fail"}]', '[{"task_id": 1, "token": 1, "outcome": "fail", "error": 1}]', '[{"task_id": 1, "token": 1, "outcome": "complete", "error": "e"}]', '[{"task_id": 1, "token": 1, "outcome": "complete", "colour": "red"}]',
    '[{"task_id": 1, "token": 1, "outcome": "complete", "reason": "r"}]', '[{"task_id": 1, "token": 1, "outcome": "complete", "delay": "1 s"}]', '[{"task_id": 1, "token": 1, "outcome": "suspend", "result": 1}]', '[{"task_id": 1, "token": 1, "outcome": "filter", "keep": true}]',
    '[{"task_id": 1, "token": 1, "outcome": "complete", "keep": "yes"}]', '[{"task_id": 1, "token": 1, "outcome": "release", "delay": "-1 s"}]', '[{"task_id": 1, "token": 1, "outcome": "release", "delay": "soon"}]', '[{"task_id": 1, "token": 1, "outcome": "release", "delay": 1}]',
    '[{"task_id": 1, "token": 1, "outcome": "release", "retry_in": "1 s"}]', '[{"task_id": 1, "token": 1, "outcome": "suspend", "retryable": false}]', '[{"task_id": 1, "token": 1, "outcome": "suspend", "detail": {}}]', '[{"task_id": 1, "token": 1, "outcome": "fail", "error": "e", "retry_in": "11 years"}]',
    '[{"task_id": 1, "token": 1, "outcome": "fail", "error": "e", "retryable": 1}]']) d;
SELECT t.try($$SELECT count(*) FROM taskq_decide_many(NULL)$$);
SELECT t.try(format('SELECT count(*) FROM taskq_decide_many(%L)', jsonb_build_array(jsonb_build_object('task_id', 1, 'token', 1, 'outcome', 'fail', 'error', 'e', 'detail', repeat('x', 70000)))));
SELECT t.states();
--
-- extend_many
--
CALL t.hold(4);
SELECT taskq_cancel(id) FROM t.h WHERE n = 2;
SELECT t.n(task_id), ok, cancel FROM taskq_extend_many(t.ids(3, 0, 2, 3, 1), t.tokens(3, 0, 2, 3) || 77777777, '5 h');
SELECT t.n(task_id), date_trunc('minute', lease_until - now() + interval '30 s') AS lease FROM taskq.tasks WHERE t.n(task_id) IS NOT NULL ORDER BY 1;
SELECT t.n(task_id), ok, cancel FROM taskq_extend_many(t.ids(3), t.tokens(3));
SELECT t.n(task_id), date_trunc('minute', lease_until - now() + interval '30 s') AS the_queues FROM taskq.tasks WHERE t.n(task_id) = 3;
SELECT count(*) FROM taskq_extend_many('{}', '{}');
SELECT c, t.try('SELECT count(*) FROM ' || c)
  FROM unnest(ARRAY['taskq_extend_many(NULL, ''{1}'')', 'taskq_extend_many(''{1}'', NULL)', 'taskq_extend_many(''{1,2}'', ''{1}'')', 'taskq_extend_many(''{1}'', ''{1}'', ''0'')', 'taskq_extend_many(''{1}'', ''{1}'', ''-1 s'')', 'taskq_extend_many(''{1}'', ''{1}'', ''11 years'')', 'taskq_extend_many(''{{1}}'', ''{1}'')']) c;
-- a claim without a lease gets one only if a lease is given
SELECT taskq_register('bulk worker');
SELECT taskq_submit('k', '11') IS NOT NULL AS submitted;
INSERT INTO t.h SELECT 11, task_id, token FROM taskq_claim('k', 'bulk worker');
SELECT ok FROM taskq_extend_many(t.ids(11), t.tokens(11));
SELECT lease_until FROM taskq.tasks WHERE t.n(task_id) = 11;
SELECT ok FROM taskq_extend_many(t.ids(11), t.tokens(11), '1 h');
SELECT lease_until IS NOT NULL AS has_one FROM taskq.tasks WHERE t.n(task_id) = 11;
SELECT taskq_deregister('bulk worker');
--
-- complete_and_claim
--
SELECT taskq_create_queue('c');
CALL t.hold(3, 'c');
SELECT count(*) FROM taskq_submit_many('c', '{21,22,23,24,25}');
SELECT payload, attempt FROM taskq_complete_and_claim(t.ids(2, 1), t.tokens(2, 1), ARRAY['"b"', NULL]::jsonb[], 'c', 'stranger', 2, '1 h');
SELECT t.n(task_id), state, result, worker FROM taskq.tasks WHERE queue = 'c' AND state IN ('done', 'running') ORDER BY task_id;
SELECT payload, date_trunc('minute', lease_until - now() + interval '30 s') AS lease FROM taskq.tasks WHERE queue = 'c' AND worker = 'stranger' ORDER BY task_id;
-- nothing to complete, nothing to claim
SELECT payload FROM taskq_complete_and_claim('{}', '{}', queue => 'c');
SELECT count(*) FROM taskq_complete_and_claim(t.ids(3), t.tokens(3), queue => 'no such');
SELECT t.states('c');
-- one stale token: nothing is done, all stale tokens are reported
CALL t.hold(3, 'c');
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_complete_and_claim(t.ids(1, 0, 2, 2), t.tokens(1, 0, 2, 2), queue => 'c')$$));
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_complete_and_claim(t.ids(3), ARRAY[77777777], queue => 'c')$$));
SELECT t.states('c');
SELECT taskq_alter_queue('c', '{"max_payload": 100}');
SELECT t.hide(t.try($$SELECT count(*) FROM taskq_complete_and_claim(t.ids(3), t.tokens(3), ARRAY[to_jsonb(repeat('x', 200))], 'c')$$));
SELECT taskq_alter_queue('c', '{"max_payload": null}');
-- an error in the claim rolls back the completion
SELECT t.try($$SELECT count(*) FROM taskq_complete_and_claim(t.ids(3), t.tokens(3), queue => '*')$$);
SELECT t.try($$SELECT count(*) FROM taskq_complete_and_claim(t.ids(3), t.tokens(3), queue => 'c', worker => E'a\nb')$$);
SELECT c, t.try(format('SELECT count(*) FROM taskq_complete_and_claim(%s)', c))
  FROM unnest(ARRAY['NULL, ''{1}''', '''{1}'', NULL', '''{1}'', ''{}''', '''{1}'', ''{1}'', ''{}''', '''{}'', ''{}'', max_tasks => 0', '''{}'', ''{}'', max_tasks => 100001', '''{}'', ''{}'', lease => ''0''', '''{}'', ''{}'', tags => ''{a,NULL}''', '''{}'', ''{}'', queue => ''''']) c;
SELECT t.states('c');
-- the given tags count, or the worker's own if none are given; NULL is the default queue
SELECT taskq_register('bulk worker', '{c2,c}', '{gpu}');
SELECT taskq_submit('c2', '"tagged"', tags => '{gpu}') IS NOT NULL AS submitted;
SELECT queue, payload, lease_until FROM taskq_complete_and_claim('{}', '{}', queue => 'c2', tags => '{}');
SELECT queue, payload, lease_until FROM taskq_complete_and_claim(t.ids(1), t.tokens(1), queue => 'c2', worker => 'bulk worker', max_tasks => 100);
SELECT count(*) FROM taskq_complete_and_claim('{}', '{}', queue => NULL, worker => 'bulk worker');
SELECT taskq_submit() > 0 AS submitted;
SELECT queue FROM taskq_complete_and_claim('{}', '{}', queue => NULL, worker => 'bulk worker');
SELECT taskq_deregister('bulk worker') > 0 AS held_some;
-- a worker's steady state under max_running: one task ends, the next begins
SELECT taskq_create_queue('steady', '{"max_running": 1}');
SELECT count(*) FROM taskq_submit_many('steady', '{1,2,3}');
SELECT payload, task_id, token FROM taskq_claim('steady') \gset
SELECT payload, task_id, token FROM taskq_complete_and_claim(ARRAY[:task_id], ARRAY[:token], queue => 'steady') \gset
SELECT :payload AS second;
SELECT count(*) AS full FROM taskq_claim('steady');
SELECT payload FROM taskq_complete_and_claim(ARRAY[:task_id], ARRAY[:token], queue => 'steady', max_tasks => 5);
-- 100,000 in one call
SELECT count(*) FROM taskq_submit_many('c2', (SELECT array_agg(to_jsonb(g)) FROM generate_series(1, 100000) g));
CREATE TABLE t.many AS SELECT task_id, token FROM taskq_claim('c2', max_tasks => 100000);
SELECT count(*), count(*) FILTER (WHERE ok) FROM taskq_extend_many((SELECT array_agg(task_id ORDER BY task_id) FROM t.many), (SELECT array_agg(token ORDER BY task_id) FROM t.many), '1 h');
SELECT count(*), count(*) FILTER (WHERE ok) FROM taskq_complete_many((SELECT array_agg(task_id ORDER BY task_id DESC) FROM t.many WHERE task_id % 2 = 0), (SELECT array_agg(token ORDER BY task_id DESC) FROM t.many WHERE task_id % 2 = 0));
SELECT count(*), count(*) FILTER (WHERE ok), count(*) FILTER (WHERE error_code = 'TQ001') FROM taskq_decide_many((SELECT jsonb_agg(jsonb_build_object('task_id', task_id, 'token', token, 'outcome', 'filter')) FROM t.many), false);
SELECT count(*) FILTER (WHERE state = 'done') AS done, count(*) FILTER (WHERE state = 'running') AS running FROM taskq.tasks WHERE queue = 'c2';
DROP TABLE t.many;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP PROCEDURE t.hold(int, text);
DROP FUNCTION t.ids(int[]), t.tokens(int[]), t.n(bigint), t.hide(text), t.states(text), t.d(int, text, jsonb);
DROP TABLE t.h;

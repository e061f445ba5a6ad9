-- Workflows: steps without a worker. Signals, approvals, timers.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wp;
CREATE FUNCTION wp.work(result jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
BEGIN
    SELECT * INTO c FROM taskq_claim('wp');
    IF c.task_id IS NULL THEN
        RETURN 'nothing';
    END IF;
    PERFORM taskq_complete(c.task_id, c.token, coalesce(result, jsonb_build_object('from', c.step)));
    RETURN c.step || ' ' || c.dependency_results;
END
$$;
CREATE FUNCTION wp.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT w.state || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf)
     || string_agg(s.step || ' ' || coalesce(s.state, '-') || coalesce(' (' || s.reason || ')', ''), ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
CREATE FUNCTION wp.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT task_id FROM taskq.workflow_steps WHERE workflow_id = wf AND step = name $$;
-- wait until a step is in that state, for a minute at most
CREATE PROCEDURE wp.until(wf bigint, name text, wanted text) LANGUAGE plpgsql AS $$
DECLARE
    got text;
BEGIN
    FOR i IN 1 .. 3000 LOOP
        PERFORM taskq_run_reapers();
        SELECT s.state INTO got FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = name;
        EXIT WHEN got = wanted;
        COMMIT;
        PERFORM pg_sleep(0.02);
    END LOOP;
    IF got IS DISTINCT FROM wanted THEN
        RAISE EXCEPTION 'step % is %', name, got;
    END IF;
END
$$;

CREATE PROCEDURE wp.until_true(query text) LANGUAGE plpgsql AS $$
DECLARE
    got boolean;
BEGIN
    FOR i IN 1 .. 3000 LOOP
        PERFORM taskq_run_reapers();
        COMMIT;
        EXECUTE query INTO got;
        EXIT WHEN got;
        PERFORM pg_sleep(0.02);
    END LOOP;
    RAISE NOTICE '% %', query, got;
END
$$;

-- a signal: the step is suspended until it comes, and no worker gets it
SELECT taskq_define_workflow('{"name": "order", "version": "1", "queue": "wp", "steps": [
  {"name": "send"},
  {"name": "paid", "type": "signal", "depends_on": ["send"], "signal": {"name": "payment"}},
  {"name": "close", "depends_on": ["paid"]}]}');
SELECT taskq_start_workflow('order') AS w \gset
SELECT wp.seen(:w);
SELECT wp.work();
SELECT wp.seen(:w), wp.work();
SELECT taskq_signal(:w, 'payment', '{"cents": 100}'), taskq_signal(:w, 'payment', '{"cents": 200}');
SELECT wp.seen(:w);
SELECT wp.work();
SELECT wp.seen(:w);
-- a signal may come before the step is reached, and is rolled back with its transaction
SELECT taskq_start_workflow('order') AS w \gset
BEGIN;
SELECT taskq_signal(:w, 'payment', '{"cents": 1}');
ROLLBACK;
SELECT taskq_signal(:w, 'payment', '{"cents": 2}'), taskq_signal(:w, 'payment', '{"cents": 3}');
SELECT wp.seen(:w), wp.work();
SELECT wp.seen(:w), wp.work();
SELECT wp.seen(:w);
-- refused signals
SELECT c, t.said(format(c, :w)) FROM unnest(ARRAY['SELECT taskq_signal(%s, ''payment'')', 'SELECT taskq_signal(0, ''payment'')',
  'SELECT taskq_signal(%s, ''other'')', 'SELECT taskq_signal(NULL, ''payment'')', 'SELECT taskq_signal(%s, NULL)', 'SELECT taskq_signal(%s, '''')']) c;

-- suspended by hand, resumed, resolved, cancelled
SELECT taskq_start_workflow('order') AS w \gset
SELECT taskq_hold(wp.task(:w, 'paid'));
SELECT wp.work(), wp.seen(:w);
SELECT taskq_signal(:w, 'payment', '1');
SELECT wp.seen(:w);
SELECT taskq_retry(wp.task(:w, 'paid'));
SELECT wp.seen(:w), wp.work();
SELECT taskq_start_workflow('order') AS w \gset
SELECT wp.work();
SELECT taskq_retry(wp.task(:w, 'paid'));
SELECT wp.seen(:w);
SELECT taskq_resolve(wp.task(:w, 'paid'), '"cash"');
SELECT wp.seen(:w), t.said(format('SELECT taskq_signal(%s, ''payment'')', :w)), wp.work();
SELECT wp.seen(:w);
SELECT taskq_start_workflow('order') AS w \gset
SELECT wp.work();
SELECT taskq_cancel_workflow(:w);
SELECT wp.seen(:w), t.said(format('SELECT taskq_signal(%s, ''payment'')', :w));

-- timeouts
SELECT taskq_define_workflow('{"name": "late", "version": "1", "queue": "wp", "steps": [
  {"name": "f", "type": "signal", "signal": {"name": "f", "timeout": "50 ms"}},
  {"name": "g", "type": "signal", "signal": {"name": "g", "timeout": {"$": "$.input.wait"}, "on_timeout": "complete"}},
  {"name": "h", "type": "signal", "signal": {"name": "h", "timeout": "1 hour"}},
  {"name": "end", "depends_on": ["g"]}]}');
SELECT taskq_start_workflow('late', '{"wait": "60 ms"}') AS w \gset
CALL wp.until(:w, 'f', 'dead');
CALL wp.until(:w, 'g', 'done');
SELECT wp.seen(:w);
SELECT errors -> 0 ->> 'error' FROM taskq_get(wp.task(:w, 'f'));
-- a signal after the timeout is late
SELECT taskq_signal(:w, 'f'), taskq_signal(:w, 'g'), taskq_signal(:w, 'h', '"h"');
-- a retried step waits for another signal
SELECT taskq_retry(wp.task(:w, 'f'));
SELECT wp.seen(:w);
SELECT taskq_signal(:w, 'f', '"f"'), wp.work();
SELECT state, result FROM taskq.workflows WHERE workflow_id = :w;
SELECT wp.seen(taskq_start_workflow('late', i)) FROM unnest(ARRAY['{}', '{"wait": 1}', '{"wait": "soon"}', '{"wait": "-1 s"}', '{"wait": "11 years"}']::jsonb[]) i;
SELECT DISTINCT g.errors -> 0 ->> 'error' FROM taskq_list('wp', 'dead') l, taskq_get(l.task_id) g WHERE l.reason = 'rejected' ORDER BY 1;
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE name = 'late' AND finished_at IS NULL;

-- timers
SELECT taskq_define_workflow('{"name": "timer", "version": "1", "queue": "wp", "steps": [
  {"name": "a", "type": "timer", "timer": {"after": "80 ms"}},
  {"name": "b", "type": "timer", "timer": {"at": {"$": "$.input.at"}}},
  {"name": "c", "type": "timer", "depends_on": ["a", "b"], "timer": {"after": "0 s"}},
  {"name": "d", "depends_on": ["c"]}]}');
SELECT taskq_start_workflow('timer', jsonb_build_object('at', clock_timestamp() + interval '120 ms')) AS w \gset
SELECT wp.seen(:w);
SELECT state, run_at > created_at AS later, finished_at IS NULL AS open FROM taskq_get(wp.task(:w, 'a'));
CALL wp.until(:w, 'd', 'pending');
SELECT wp.seen(:w), wp.work();
SELECT wp.seen(:w);
-- never too early
SELECT a.finished_at >= a.created_at + interval '80 ms' AS a, b.finished_at >= (w.input ->> 'at')::timestamptz AS b
  FROM taskq.workflows w, taskq_get(wp.task(:w, 'a')) a, taskq_get(wp.task(:w, 'b')) b WHERE w.workflow_id = :w;
SELECT taskq_start_workflow('timer', '{"at": "2001-01-01"}') AS w \gset
SELECT wp.seen(:w);
SELECT wp.seen(taskq_start_workflow('timer', i)) FROM unnest(ARRAY['{"at": "never"}', '{"at": "infinity"}', '{"at": 5}', '{}']::jsonb[]) i;
CALL wp.until_true('SELECT count(*) = 4 FROM taskq.workflows WHERE name = ''timer'' AND state = ''error''');
SELECT taskq_cancel_workflow(:w);
-- a time without a zone has the same meaning for every reader
SELECT taskq_define_workflow('{"name": "zone", "version": "1", "queue": "wp", "steps": [{"name": "a", "type": "timer", "timer": {"at": {"$": "$.input.at"}}}]}');
SET timezone = 'Asia/Tokyo';
SET datestyle = 'SQL, DMY';
SELECT count(taskq_start_workflow('zone', i))
  FROM unnest(ARRAY['{"at": "2999-01-02 03:00"}', '{"at": "2999-01-02 03:00+02"}', '{"at": "2999-01-02 03:00 America/New_York"}', '{"at": "01/02/2999"}']::jsonb[]) i;
RESET timezone;
RESET datestyle;
SELECT w.input ->> 'at' AS given, s.state, to_char(r.at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS at
  FROM taskq.workflows w JOIN taskq.workflow_steps s USING (workflow_id) LEFT JOIN taskq.timer r USING (task_id) WHERE w.name = 'zone' ORDER BY w.workflow_id;
SELECT count(taskq_cancel_workflow(workflow_id)) FROM taskq.workflows WHERE name = 'zone' AND finished_at IS NULL;
-- a timer that was retried, suspended or resolved does not fire at its former time
SELECT taskq_define_workflow('{"name": "long", "version": "1", "queue": "wp", "steps": [
  {"name": "a", "type": "timer", "timer": {"after": "1 hour"}}, {"name": "b", "type": "timer", "timer": {"after": "30 ms"}}]}');
SELECT taskq_start_workflow('long') AS w \gset
SELECT taskq_resolve(wp.task(:w, 'a'));
CALL wp.until(:w, 'b', 'done');
SELECT wp.seen(:w);
UPDATE taskq.timer SET at = now() - interval '1 hour';
SET client_min_messages = notice;
CALL wp.until_true('SELECT count(*) = 0 FROM taskq.timer');
SET client_min_messages = warning;
SELECT wp.seen(:w);
SELECT taskq_start_workflow('long') AS w \gset
CALL wp.until(:w, 'b', 'done');
SELECT taskq_retry(wp.task(:w, 'a'));
UPDATE taskq.timer SET at = now() - interval '1 hour' WHERE since < (SELECT max(since) FROM taskq.timer);
SET client_min_messages = notice;
CALL wp.until_true('SELECT count(*) = 1 FROM taskq.timer');
SET client_min_messages = warning;
SELECT wp.seen(:w);
UPDATE taskq.timer SET at = now() - interval '1 hour';
CALL wp.until_true('SELECT count(*) = 0 FROM taskq.timer');
SELECT wp.seen(:w);
-- run_at of the instance comes first
SELECT taskq_start_workflow('long', run_at => now() + interval '1 day') AS w \gset
SELECT s.step, t.run_at > now() + interval '23 hours' AS waits FROM taskq.workflow_steps s, taskq_get(s.task_id) t WHERE s.workflow_id = :w ORDER BY 1;
SELECT taskq_cancel_workflow(:w);

-- approvals: a role, another role later, approved and rejected
CREATE ROLE wp_boss;
CREATE ROLE wp_chief;
CREATE ROLE wp_clerk;
SELECT taskq_grant('wp', r, '{submit,read}') FROM unnest(ARRAY['wp_boss', 'wp_chief', 'wp_clerk']) r;
GRANT USAGE ON SCHEMA wp TO PUBLIC;
SELECT taskq_define_workflow('{"name": "ask", "version": "1", "queue": "wp", "steps": [
  {"name": "ok", "type": "approval", "signal": {"name": "ok", "role": "wp_boss", "escalate_after": "40 ms", "escalate_to": "wp_chief"}},
  {"name": "go", "depends_on": ["ok"], "when": "$.results.ok.limit > 5"}]}');
SELECT taskq_start_workflow('ask') AS w \gset
SET ROLE wp_clerk;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :w));
RESET ROLE;
SELECT p, t.said(format('SELECT taskq_signal(%s, ''ok'', %L)', :w, p)) FROM unnest(ARRAY['{}', '{"approved": 1}', '[]', 'true', '{"approved": null}', NULL]) p;
SET ROLE wp_boss;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true, "limit": 9}'')', :w));
RESET ROLE;
SELECT wp.seen(:w), wp.work();
SELECT taskq_start_workflow('ask') AS w \gset
SELECT pg_sleep(0.05);
SET ROLE wp_clerk;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :w));
SET ROLE wp_chief;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": false, "why": "no"}'')', :w));
RESET ROLE;
SELECT wp.seen(:w);
SELECT errors -> 0 ->> 'error' FROM taskq_get(wp.task(:w, 'ok'));
SELECT taskq_retry(wp.task(:w, 'ok'));
SELECT wp.seen(:w);
SELECT taskq_signal(:w, 'ok', '{"approved": true, "limit": 1}');
SELECT wp.seen(:w);
-- not before the step is reached, whatever the time
SELECT taskq_define_workflow('{"name": "ask", "version": "2", "queue": "wp", "steps": [{"name": "first"},
  {"name": "ok", "depends_on": ["first"], "type": "approval", "signal": {"name": "ok", "role": "wp_boss", "escalate_after": "0 s", "escalate_to": "wp_chief"}}]}');
SELECT taskq_start_workflow('ask') AS w \gset
SET ROLE wp_chief;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :w));
RESET ROLE;
SELECT wp.work();
SET ROLE wp_chief;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :w));
RESET ROLE;
SELECT wp.seen(:w);
-- rights: for a role without any right on the queue, the instance does not exist
REVOKE USAGE ON SCHEMA wp FROM PUBLIC;
SELECT taskq_revoke('wp', 'wp_boss', '{submit}');
SET ROLE wp_boss;
SELECT taskq_signal(:w, 'ok', '{"approved": true}');
RESET ROLE;
SELECT taskq_revoke('wp', 'wp_chief', '{submit,read}');
SET ROLE wp_chief;
SELECT taskq_signal(0, 'ok', '{"approved": true}');
RESET ROLE;

-- chosen by a decision, with others below; two that wait for the same signal
SELECT taskq_define_workflow('{"name": "how", "version": "1", "queue": "wp", "steps": [
  {"name": "how", "type": "decision", "branches": [{"when": "$.input.n > 1", "steps": ["x", "y"]}, {"steps": ["t"]}]},
  {"name": "x", "type": "signal", "depends_on": ["how"], "signal": {"name": "both"}},
  {"name": "y", "type": "signal", "depends_on": ["how"], "signal": {"name": "both"}},
  {"name": "t", "type": "timer", "depends_on": ["how"], "timer": {"after": "0 s"}},
  {"name": "end", "type": "deferred", "depends_on": ["x", "y", "t"]}]}');
SELECT taskq_start_workflow('how', '{"n": 2}') AS w \gset
SELECT wp.seen(:w), taskq_signal(:w, 'both', '[]');
SELECT wp.seen(:w), wp.work();
SELECT taskq_start_workflow('how', '{"n": 1}') AS w \gset
SELECT wp.seen(:w), wp.work();

-- a retried step waits for another signal, and leaves the former one to the steps that have not
-- been reached
SELECT taskq_define_workflow('{"name": "again", "version": "1", "queue": "wp", "steps": [
  {"name": "s1", "type": "signal", "signal": {"name": "go", "timeout": "1 ms"}}, {"name": "s2", "type": "signal", "signal": {"name": "go"}},
  {"name": "a"}, {"name": "s3", "type": "signal", "signal": {"name": "go"}, "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('again') AS w \gset
CALL wp.until(:w, 's1', 'dead');
SELECT taskq_signal(:w, 'go', '1'), wp.seen(:w);
SELECT taskq_retry(wp.task(:w, 's2'));
SELECT wp.seen(:w), taskq_signal(:w, 'go', '2'), taskq_signal(:w, 'go', '3'), wp.work();
SELECT step, state, result FROM taskq.workflow_steps WHERE workflow_id = :w ORDER BY step;
SELECT taskq_retry(wp.task(:w, 's1'));
CALL wp.until(:w, 's1', 'dead');
SELECT wp.seen(:w);

-- everything of them is removed with an instance
SELECT count(*) > 0 AS signals FROM taskq.signal;
UPDATE taskq.workflow SET expires_at = now() - interval '1 s' WHERE finished_at IS NOT NULL;
SET client_min_messages = notice;
CALL wp.until_true('SELECT count(*) = 0 FROM taskq.workflow WHERE state = 1');
SET client_min_messages = warning;
-- a step that a choice has excluded waits for no signal
SELECT taskq_define_workflow('{"name": "past", "version": "1", "queue": "wp", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"]}, {"name": "s", "type": "signal", "signal": {"name": "go"}, "depends_on": ["d"]}]}');
SELECT taskq_start_workflow('past') AS w, taskq_start_workflow('past') AS v \gset
SELECT taskq_signal(:v, 'go');
SELECT wp.work('{"create": ["x"]}'), wp.work('{"create": ["s", "x"]}');
SELECT taskq_signal(:w, 'go'), wp.seen(:w), wp.seen(:v);
SELECT wp.work(), wp.work(), wp.seen(:w), wp.seen(:v);
-- the role and the queue that count are those of steps that will get the signal
SELECT taskq_create_queue('wp tiny', '{"max_payload": 200}'), taskq_create_queue('wp large', '{"max_payload": 4000000}');
SELECT taskq_define_workflow('{"name": "two ways", "version": "1", "queue": "wp", "steps": [
  {"name": "d", "type": "decision", "branches": [{"when": "$.input.a < 10", "steps": ["s1"]}, {"when": "$.input.a >= 10", "steps": ["s2"]}]},
  {"name": "s1", "type": "approval", "depends_on": ["d"], "signal": {"name": "ok", "role": "wp_clerk"}},
  {"name": "s2", "type": "approval", "queue": "wp tiny", "depends_on": ["d"], "signal": {"name": "ok", "role": "wp_boss"}}]}');
SELECT taskq_start_workflow('two ways', '{"a": 1}') AS w, taskq_start_workflow('two ways', '{"a": 10}') AS v \gset
SET ROLE wp_clerk;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', w)) FROM unnest(ARRAY[:v, :w]::bigint[]) w;
RESET ROLE;
SELECT wp.seen(:w), wp.seen(:v);
-- before the decision: those of all steps
SELECT taskq_define_workflow('{"name": "not yet", "version": "1", "queue": "wp", "steps": [{"name": "d", "type": "decision"},
  {"name": "s1", "type": "approval", "depends_on": ["d"], "signal": {"name": "ok", "role": "wp_clerk"}},
  {"name": "s2", "type": "approval", "queue": "wp tiny", "depends_on": ["d"], "signal": {"name": "ok", "role": "wp_boss"}}]}');
SELECT taskq_start_workflow('not yet') AS u \gset
SET ROLE wp_clerk;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :u));
RESET ROLE;
-- the role of a resolved step is not checked
SELECT wp.work('{"create": ["s1", "s2"]}'), taskq_resolve(wp.task(:u, 's2'));
SET ROLE wp_clerk;
SELECT taskq_signal(:u, 'ok', '{"approved": true}');
RESET ROLE;
SELECT wp.seen(:u);
-- nor that of a cancelled step, which waits for another signal when it is retried
SELECT taskq_grant('wp tiny', 'wp_clerk', '{submit}');
SELECT taskq_start_workflow('not yet') AS u \gset
SELECT wp.work('{"create": ["s1", "s2"]}'), taskq_cancel(wp.task(:u, 's2'));
SET ROLE wp_clerk;
SELECT taskq_signal(:u, 'ok', '{"approved": true}');
RESET ROLE;
SELECT taskq_retry(wp.task(:u, 's2')), wp.seen(:u);
SELECT wp.seen(:u);
SET ROLE wp_clerk;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', :u));
RESET ROLE;
SELECT taskq_signal(:u, 'ok', '{"approved": true}'), wp.seen(:u);
-- but the role of steps that may still wait is checked: a choice without any step can be made
-- again, a filtered step may wait after all
SELECT taskq_define_workflow('{"name": "come yet", "version": "1", "queue": "wp", "steps": [{"name": "d", "type": "decision"},
  {"name": "s1", "type": "approval", "signal": {"name": "ok", "role": "wp_clerk"}}, {"name": "s2", "type": "approval", "depends_on": ["d"], "signal": {"name": "ok", "role": "wp_boss"}}]}');
SELECT taskq_define_workflow('{"name": "filtered", "version": "1", "queue": "wp", "steps": [
  {"name": "s1", "type": "approval", "signal": {"name": "ok", "role": "wp_clerk"}}, {"name": "s2", "type": "approval", "when": "1 == 2", "signal": {"name": "ok", "role": "wp_boss"}}]}');
SELECT taskq_start_workflow('come yet') AS u, taskq_start_workflow('filtered') AS v \gset
SELECT wp.work('{"create": []}'), wp.seen(:u), wp.seen(:v);
SET ROLE wp_clerk;
SELECT t.said(format('SELECT taskq_signal(%s, ''ok'', ''{"approved": true}'')', w)) FROM unnest(ARRAY[:u, :v]::bigint[]) w;
RESET ROLE;
SELECT taskq_cancel_workflow(w) FROM unnest(ARRAY[:u, :v]::bigint[]) w;
SELECT taskq_revoke('wp tiny', 'wp_clerk', '{submit}');
-- the queue of the step limits the size of the payload
SELECT taskq_define_workflow('{"name": "sizes", "version": "1", "queue": "wp", "steps": [{"name": "s", "type": "signal", "queue": "wp tiny", "signal": {"name": "small"}},
  {"name": "l", "type": "signal", "queue": "wp large", "signal": {"name": "large"}}, {"name": "e", "type": "signal", "signal": {"name": "never", "timeout": "1 ms"}}]}');
SELECT taskq_start_workflow('sizes') AS w \gset
SELECT t.said(format('SELECT taskq_signal(%s, ''small'', to_jsonb(repeat(''x'', 300)))', :w));
SELECT taskq_signal(:w, 'small', to_jsonb(repeat('x', 100))), taskq_signal(:w, 'large', to_jsonb(repeat('x', 2000000)));
-- a task that was never claimed has no attempt
CALL wp.until(:w, 'e', 'dead');
SELECT regexp_replace(regexp_replace(text, 'since [^(]*', 'since TIME '), '\d+', 'N', 'g') FROM taskq_explain(wp.task(:w, 'e')) text;
SELECT wp.seen(:w);
-- invalid times
SELECT taskq_define_workflow('{"name": "no time", "version": "1", "queue": "wp", "steps": [{"name": "t", "type": "timer", "timer": {"at": {"$": "$.input.at"}}}]}');
SELECT left(errors -> 0 ->> 'error', 40) AS error, length(errors -> 0 ->> 'error') FROM (VALUES ('soon'), (repeat('ä', 3000))) v (at), taskq_start_workflow('no time', jsonb_build_object('at', at)) w, taskq_get(wp.task(w, 't'));
SELECT count(*) FROM taskq.signal s WHERE NOT EXISTS (SELECT FROM taskq.workflow w WHERE w.workflow_id = s.workflow_id);
SELECT * FROM taskq_check();
DROP SCHEMA wp CASCADE;
SELECT taskq_revoke('wp', r, '{submit,read}') FROM unnest(ARRAY['wp_boss', 'wp_clerk']) r;
DROP ROLE wp_boss;
DROP ROLE wp_chief;
DROP ROLE wp_clerk;

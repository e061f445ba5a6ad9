-- Templates of workflows: what a definition may contain, and the problems of an invalid one, all in
-- one error and with their paths.
\set VERBOSITY sqlstate
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE FUNCTION pg_temp.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    detail text;
    hint text;
BEGIN
    EXECUTE command INTO answer;
    RETURN coalesce(answer, '(null)');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(detail, ''), nullif(hint, ''));
END
$$;

-- a complete one
SELECT taskq_define_workflow('{"name": "first", "version": "1",
  "description": "one after the other",
  "steps": [{"name": "a", "handler": "do_a", "config": {"x": 1}},
            {"name": "b", "depends_on": ["a"]},
            {"name": "c", "depends_on": ["a"]},
            {"name": "d", "depends_on": ["b", "c"]}]}');
-- the same definition again; then another one under the same version
SELECT taskq_define_workflow('{"version": "1", "name": "first",
  "description": "one after the other",
  "steps": [{"handler": "do_a", "name": "a", "config": {"x": 1}},
            {"name": "b", "depends_on": ["a"]},
            {"name": "c", "depends_on": ["a"]},
            {"name": "d", "depends_on": ["b", "c"]}]}');
SELECT pg_temp.said($$SELECT taskq_define_workflow('{"name": "first", "version": "1", "steps": []}')$$);
SELECT taskq_define_workflow('{"name": "first", "version": "2", "steps": []}');

-- problems: all are reported
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": []}');
SELECT * FROM taskq_validate_workflow('[]');
SELECT * FROM taskq_validate_workflow('{"name": 1, "version": "", "odd": 2, "identity": "none", "on_failure": "hope",
  "identity_window": "soon", "retention": 5, "queue": "", "description": 7,
  "steps": [7, {}, {"name": "a", "type": "normal", "depends_on": "b", "priority": 1.5, "tags": "x", "when": "$$",
             "payload": {"p": {"$": "][" }}, "retryable": "no", "max_attempts": 0, "retry": "often", "odd": 1,
             "failure_strategy": "isolate", "branches": []},
            {"name": "a", "depends_on": ["a", "a", "absent", 3]}]}');
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": {"name": "a"}}');
SELECT * FROM taskq_validate_workflow('{}');
-- "all queues" is not a queue for a step
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "queue": "*", "steps": [{"name": "a", "queue": "*"}]}');

-- invalid intervals, and valid ones
SELECT s, v.* FROM unnest(ARRAY['5', '1.5', '+5', '-1 s', '11 years', '1:30', '10 years', 'forever']) s
  LEFT JOIN LATERAL taskq_validate_workflow(jsonb_build_object('name', 'x', 'version', '1', 'steps', '[]'::jsonb, 'retention', s)) v ON true;

-- options of a step: each invalid one
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "a", "retry": "q", "retry_base": 5, "retry_cap": "5", "retry_list": [], "retry_jitter": 2,
  "lease": "0 s", "time_limit": 5, "on_worker_death": "z", "deadline_in": "soon"},
  {"name": "b", "retry": "fixed", "retry_base": "1 s", "lease": true, "time_limit": null, "deadline_in": "1 h"}]}');
SELECT o, v.* FROM unnest(ARRAY['"retry": "list"', '"retry": "list", "retry_list": null, "lease": 1', '"retry": "list", "retry_list": ["1"]', '"retry": "list", "retry_list": ["1 s"]',
  '"retry": null, "lease": null', '"retry_list": ["1 s"], "retry": "no"']) WITH ORDINALITY u (o, n)
  LEFT JOIN LATERAL taskq_validate_workflow(format('{"name": "x", "version": "1", "steps": [{"name": "a", %s}]}', o)::jsonb) v ON true ORDER BY n;
SELECT * FROM taskq_validate_workflow(jsonb_build_object('name', 'x', 'version', '1', 'steps', jsonb_build_array(
  jsonb_build_object('name', 'a', 'lease', '1 s' || repeat(' ', 70000), 'time_limit', 1, 'retry', 'fixed'))));
SELECT count(*), min(path), max(path) FROM taskq_validate_workflow((SELECT jsonb_build_object('name', 'x', 'version', '1', 'steps',
    jsonb_agg(jsonb_build_object('name', 's' || i, 'retry', i, 'lease', i) ORDER BY i)) FROM generate_series(1, 10000) i));

-- cycles
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [
  {"name": "a"}, {"name": "b", "depends_on": ["a", "d"]}, {"name": "c", "depends_on": ["b"]},
  {"name": "d", "depends_on": ["c"]}, {"name": "e", "depends_on": ["d"]}]}');
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "a", "depends_on": ["a"]}]}');
-- each of them, once; a step that depends on itself; a step between two cycles is in none
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["c"]}]}');
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [
  {"name": "root"}, {"name": "a", "depends_on": ["root", "a", "c"]}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b", "c", "d"]}, {"name": "d", "depends_on": ["c"]},
  {"name": "between", "depends_on": ["d"]}, {"name": "e", "depends_on": ["between", "f"]}, {"name": "f", "depends_on": ["e", "root"]}, {"name": "behind", "depends_on": ["f", "a"]}]}');
-- together with other problems
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "a", "depends_on": ["b"]}, {"name": "b", "depends_on": ["a"]},
  {"name": "choose", "type": "decision"}, {"name": "left", "depends_on": ["choose"]}, {"name": "right", "depends_on": ["choose"]}, {"name": "both", "depends_on": ["left", "right"]}]}');
-- one cycle of ten thousand steps, five thousand of two, ten thousand of one
SELECT n, v.count, v.path, v.length FROM unnest(ARRAY[10000, 2, 1]) n, LATERAL (SELECT count(*), min(path) AS path, max(length(problem)) AS length FROM taskq_validate_workflow((
    SELECT jsonb_build_object('name', 'x', 'version', '1', 'steps', jsonb_agg(jsonb_build_object('name', 's' || i,
        'depends_on', jsonb_build_array('s' || i - i % n + (i + 1) % n)) ORDER BY i)) FROM generate_series(0, 9999) i))) v;

-- decisions: a step below two branches must be deferred
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [
  {"name": "choose", "type": "decision"},
  {"name": "left", "depends_on": ["choose"]}, {"name": "right", "depends_on": ["choose"]},
  {"name": "both", "depends_on": ["left", "right"]}]}');
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [
  {"name": "choose", "type": "decision"},
  {"name": "left", "depends_on": ["choose"]}, {"name": "right", "depends_on": ["choose"]},
  {"name": "both", "type": "deferred", "depends_on": ["left", "right"]}]}');
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "alone", "type": "decision"},
  {"name": "other"}, {"name": "choose", "type": "decision", "branches": [{"steps": ["other", "absent"], "if": 1}, {"when": "$$"}, 7]},
  {"name": "below", "depends_on": ["choose"]}]}');
-- batches
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "split", "type": "batch"},
  {"name": "part", "type": "batch_worker", "depends_on": ["split"]}, {"name": "join", "depends_on": ["part"]},
  {"name": "part_7"}, {"name": "stray", "type": "batch_worker"}, {"name": "next", "depends_on": ["split"]}]}');
-- nesting
SELECT path, problem FROM taskq_validate_workflow((SELECT jsonb_build_object('name', 'x', 'version', '1', 'steps',
    jsonb_agg(jsonb_build_object('name', 'd' || i, 'type', CASE WHEN i < 22 THEN 'decision' ELSE 'standard' END,
        'depends_on', CASE WHEN i = 1 THEN '[]'::jsonb ELSE jsonb_build_array('d' || i - 1) END) ORDER BY i))
  FROM generate_series(1, 22) i));
-- as deep as the setting allows, with a warning before; a stored definition stays, whatever the
-- setting is later
CREATE FUNCTION pg_temp.nested(depth integer) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_build_object('name', 'nested', 'version', depth::text, 'steps', jsonb_agg(jsonb_build_object('name', 'd' || i,
        'type', CASE WHEN i <= depth THEN 'decision' ELSE 'standard' END, 'depends_on', CASE WHEN i = 1 THEN '[]'::jsonb ELSE jsonb_build_array('d' || i - 1) END) ORDER BY i))
  FROM generate_series(1, depth + 1) i
$$;
SELECT taskq_define_workflow(pg_temp.nested(10));
SELECT taskq_define_workflow(pg_temp.nested(11));
\set VERBOSITY default
SELECT taskq_define_workflow(pg_temp.nested(11));
SET taskq.warn_decision_nesting = 0;
SELECT taskq_define_workflow(pg_temp.nested(20));
SET taskq.warn_decision_nesting = 2;
SELECT taskq_define_workflow(pg_temp.nested(2));
SELECT * FROM taskq_validate_workflow(pg_temp.nested(3));
-- only of defined workflows
SELECT pg_temp.said($$SELECT taskq_define_workflow(pg_temp.nested(3) || '{"odd": 1}')$$);
SET taskq.max_decision_nesting = 3;
SELECT * FROM taskq_validate_workflow(pg_temp.nested(3));
SELECT * FROM taskq_validate_workflow(pg_temp.nested(5));
SELECT pg_temp.said('SELECT taskq_define_workflow(pg_temp.nested(4))');
SET taskq.max_decision_nesting = 101;
SET taskq.max_decision_nesting = 100;
SELECT * FROM taskq_validate_workflow(pg_temp.nested(101));
SET taskq.warn_decision_nesting = 0;
SELECT taskq_define_workflow(pg_temp.nested(100));
-- deferred steps consider all the choices around them
SELECT taskq_define_workflow(pg_temp.nested(100) || jsonb_build_object('name', 'nested and joined', 'steps', (pg_temp.nested(100) -> 'steps') || '[{"name": "j", "type": "deferred", "depends_on": ["d101", "d1"]}]'));
RESET taskq.max_decision_nesting;
RESET taskq.warn_decision_nesting;
\set VERBOSITY sqlstate

-- schemas
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [], "input_schema": {
  "type": ["object", "odd"], "required": "a", "properties": {"a": 1, "b": {"type": "text", "pattern": "(", "minimum": "1",
  "items": [], "enum": 1, "format": "date"}}}}');

-- members that are not supported
SELECT pg_temp.said(format($$SELECT taskq_define_workflow('{"name": "x", "version": "1", %s, "steps": []}')$$, m))
  FROM unnest(ARRAY['"max_duration": "1 h"', '"stale_after": "1 h"']) m;
SELECT pg_temp.said(format($$SELECT taskq_define_workflow('{"name": "x", "version": "1", "steps": [{"name": "a", %s}]}')$$, m))
  FROM unnest(ARRAY['"publishes": []', '"stale_after": "1 h"']) m;
-- all problems, together with others
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "max_duration": "1 h", "stale_after": 1, "steps": [{"name": "a", "publishes": [], "stale_after": 1}, {"name": "b", "publishes": 1}]}');
SELECT pg_temp.said($$SELECT taskq_define_workflow('{"name": "x", "version": "1", "max_duration": "1 h", "stale_after": 1, "steps": [{"name": "a", "publishes": [], "stale_after": 1}]}')$$);
SELECT pg_temp.said($$SELECT taskq_define_workflow('{"name": "x", "version": "1", "max_duration": "1 h", "steps": [{"name": "a", "publishes": [], "odd": 1}]}')$$);
-- compensations
SELECT m, f, string_agg(path || ' ' || problem, E'\n') AS problems
  FROM unnest(ARRAY['{"handler": "h"}', '{"handler": "h", "queue": "q", "config": [1]}', '{}', '[]', 'null', '"h"', '{"handler": "", "queue": "*", "retry": "fixed"}', '{"handler": 5, "queue": null}']) m,
    unnest(ARRAY['"compensate"', '"stop"', '"other"']) f,
    taskq_validate_workflow(format('{"name": "x", "version": "1", "on_failure": %s, "steps": [{"name": "a", "compensate": %s}]}', f, m)::jsonb)
 WHERE f = '"compensate"' OR m = '{"handler": "h"}' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "steps": [{"name": "a", "compensate": {"handler": "h"}}]}');
SELECT * FROM taskq_validate_workflow('{"name": "x", "version": "1", "on_failure": "compensate", "steps": [{"name": "compensate:a"}, {"name": "a"}]}');
SELECT count(*) FROM taskq_validate_workflow('{"name": "x", "version": "1", "on_failure": "stop", "steps": [{"name": "compensate:a"}]}');
-- steps without a worker
SELECT m, string_agg(path || ' ' || problem, E'\n') AS problems
  FROM unnest(ARRAY['"type": "signal"', '"type": "timer"', '"type": "approval"', '"type": "workflow"', '"signal": {}', '"timer": {}', '"workflow": {}',
    '"type": "signal", "timer": {"after": "1 s"}', '"type": "signal", "signal": {}', '"type": "signal", "signal": []', '"type": "signal", "signal": {"name": ""}',
    '"type": "signal", "signal": {"name": "x", "role": "r", "escalate_after": "1 s", "other": 1}',
    '"type": "signal", "signal": {"name": "x", "on_timeout": "fail"}', '"type": "signal", "signal": {"name": "x", "timeout": "soon", "on_timeout": "stop"}',
    '"type": "signal", "signal": {"name": "x", "timeout": {"$": "no path"}}', '"type": "approval", "signal": {"name": "x", "escalate_after": "1 s"}',
    '"type": "approval", "signal": {"name": "x", "escalate_to": "r", "escalate_after": "1 s"}', '"type": "approval", "signal": {"name": "x", "role": 5}',
    '"type": "timer", "timer": {}', '"type": "timer", "timer": {"after": "1 s", "at": "2030-01-01"}', '"type": "timer", "timer": {"after": 5}',
    '"type": "timer", "timer": {"at": "someday"}', '"type": "timer", "timer": {"after": {"x": "1 s"}}', '"type": "timer", "timer": {"at": {"$": 5}}',
    '"type": "timer", "timer": {"after": "1 s"}, "signal": {"name": "x"}', '"type": "workflow", "workflow": {"name": "w", "key": {"$": "$.input", "x": 1}}',
    '"type": "approval", "signal": {"name": "x", "role": "r", "escalate_to": "s", "escalate_after": "soon"}', '"type": "timer", "timer": {"at": "infinity"}', '"type": "timer", "timer": {"after": "-1 s"}',
    '"type": "workflow", "workflow": {}', '"type": "workflow", "workflow": {"name": 1, "version": [], "namespace": null, "key": 7, "input": {"$": "$."}, "x": 1}',
    '"type": "timer", "timer": {"after": "1 s"}, "handler": "h", "config": 1, "payload": 1, "retryable": true, "priority": 1, "tags": [], "key": "k", "max_attempts": 1, "retry": "none", "lease": "1 s", "branches": [], "failure_strategy": "isolate"']) m,
       LATERAL taskq_validate_workflow(format('{"name": "n", "version": "1", "steps": [{"name": "s", %s}]}', m)::jsonb) GROUP BY m ORDER BY min(m COLLATE "C");
SELECT count(*) FROM taskq_validate_workflow('{"name": "n", "version": "1", "queue": "q", "steps": [
  {"name": "a", "type": "signal", "signal": {"name": "x", "timeout": {"$": "$.input.t"}, "on_timeout": "complete"}},
  {"name": "b", "type": "approval", "queue": "r", "depends_on": ["a"], "when": "$.input.x > 1", "signal": {"name": "x", "role": "r", "escalate_to": "s", "escalate_after": "1 day"}},
  {"name": "c", "type": "timer", "depends_on": ["b"], "timer": {"at": "2030-01-01 00:00:00+00"}},
  {"name": "d", "type": "workflow", "depends_on": ["c"], "workflow": {"name": "n", "namespace": "m", "version": "2", "key": {"$": "$.input.k"}, "input": [1, {"$": "$.input"}]}}]}');

-- a chain of twelve diamonds, and ten thousand steps
SELECT taskq_define_workflow((SELECT jsonb_build_object('name', 'diamonds', 'version', '1', 'steps', jsonb_agg(s)) FROM (
  SELECT jsonb_build_object('name', 'top' || i, 'depends_on', CASE WHEN i = 1 THEN '[]'::jsonb ELSE jsonb_build_array('end' || i - 1) END) AS s
    FROM generate_series(1, 12) i
  UNION ALL SELECT jsonb_build_object('name', side || i, 'depends_on', jsonb_build_array('top' || i)) FROM generate_series(1, 12) i, unnest(ARRAY['left', 'right']) side
  UNION ALL SELECT jsonb_build_object('name', 'end' || i, 'depends_on', jsonb_build_array('left' || i, 'right' || i)) FROM generate_series(1, 12) i) x));
SELECT count(*) FROM taskq_validate_workflow((SELECT jsonb_build_object('name', 'large', 'version', '1', 'steps',
    jsonb_agg(jsonb_build_object('name', 's' || i, 'depends_on', CASE WHEN i = 1 THEN '[]'::jsonb ELSE jsonb_build_array('s' || i - 1) END)))
  FROM generate_series(1, 10000) i));
SELECT * FROM taskq_validate_workflow((SELECT jsonb_build_object('name', 'large', 'version', '1', 'steps',
    jsonb_agg(jsonb_build_object('name', 's' || i))) FROM generate_series(1, 10001) i));

-- undefining
SELECT pg_temp.said(c) FROM unnest(ARRAY[
  $$SELECT taskq_undefine_workflow('absent')$$, $$SELECT taskq_undefine_workflow('first', version => '3')$$,
  $$SELECT taskq_undefine_workflow(NULL)$$, $$SELECT taskq_undefine_workflow('first', version => '2')$$,
  $$SELECT taskq_undefine_workflow('first')$$, $$SELECT taskq_undefine_workflow('first')$$,
  $$SELECT taskq_define_workflow(NULL)$$, $$SELECT * FROM taskq_validate_workflow(NULL)$$,
  $$SELECT taskq_start_workflow('first')$$]) c;
SELECT taskq_undefine_workflow('diamonds');

-- a definition that is nested deeper than allowed now runs as before
\c -
\set VERBOSITY sqlstate
SET client_min_messages = warning;
SET search_path = public, taskq;
SELECT taskq_start_workflow('nested and joined') AS w \gset
SHOW taskq.max_decision_nesting;
DO $$
DECLARE
    c taskq.claimed;
BEGIN
    FOR i IN 1 .. 100 LOOP
        SELECT * INTO c FROM taskq_claim('default');
        PERFORM taskq_complete(c.task_id, c.token, format('{"create": ["d%s"]}', i + 1)::jsonb);
    END LOOP;
END
$$;
SELECT state, count(*) FROM taskq.workflow_steps WHERE workflow_id = :w GROUP BY state ORDER BY state;
SELECT step, taskq_complete(task_id, token) FROM taskq_claim('default');
SELECT step, taskq_complete(task_id, token) FROM taskq_claim('default');
SELECT state FROM taskq.workflows WHERE workflow_id = :w;
SELECT taskq_undefine_workflow('nested'), taskq_undefine_workflow('nested and joined');

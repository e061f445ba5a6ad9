-- Workflows: steps with continue_on_failure, whose children run even if the step is dead.
SET client_min_messages = warning;
SET search_path = public, taskq;
CREATE SCHEMA wc;
CREATE FUNCTION wc.said(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
    hint text;
BEGIN
    EXECUTE command INTO answer;
    RETURN coalesce(nullif(answer, ''), 'ok');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN regexp_replace(concat_ws(' | ', SQLSTATE || ': ' || SQLERRM, nullif(hint, '')), 'task \d+', 'task N', 'g');
END
$$;
CREATE FUNCTION wc.define(definition jsonb) RETURNS void LANGUAGE sql AS
$$ SELECT taskq_define_workflow(definition || '{"version": "1", "queue": "wc"}') $$;
CREATE FUNCTION wc.task(wf bigint, name text) RETURNS bigint LANGUAGE sql AS
$$ SELECT s.task_id FROM taskq.workflow_steps s WHERE s.workflow_id = wf AND s.step = name $$;
-- the next steps end: successfully, or not if they are named
CREATE FUNCTION wc.work(VARIADIC failing text[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
    told text := '';
BEGIN
    FOR c IN SELECT * FROM taskq_claim('wc', max_tasks => 9) ORDER BY step LOOP
        IF c.step = ANY (failing) THEN
            PERFORM taskq_fail(c.task_id, c.token, c.step || ' is broken', false);
        ELSE
            PERFORM taskq_complete(c.task_id, c.token, to_jsonb(c.step || ' is made'));
        END IF;
        told := told || format('%s %s; ', c.step, c.dependency_results);
    END LOOP;
    RETURN told;
END
$$;
CREATE FUNCTION wc.seen(wf bigint) RETURNS text LANGUAGE sql AS
$$ SELECT (SELECT concat_ws(' ', w.state, w.steps_done, w.steps_dead) || ': ' FROM taskq.workflows w WHERE w.workflow_id = wf) ||
          string_agg(s.step || ' ' || coalesce(s.state, '-') || CASE WHEN s.parents_left > 0 THEN ' ' || s.parents_left ELSE '' END, ', ' ORDER BY s.step COLLATE "C")
     FROM taskq.workflow_steps s WHERE s.workflow_id = wf $$;
SELECT taskq_create_queue('wc');

-- the definition
SELECT * FROM taskq_validate_workflow('{"name": "w", "version": "1", "steps": [{"name": "a", "continue_on_failure": 1}, {"name": "b", "type": "decision", "continue_on_failure": true},
  {"name": "c", "type": "batch", "continue_on_failure": true}, {"name": "d", "type": "batch_worker", "depends_on": ["c"], "continue_on_failure": true},
  {"name": "e", "type": "batch", "continue_on_failure": false}, {"name": "f", "type": "timer", "timer": {"after": "1 s"}, "continue_on_failure": true}]}');

-- a dependent step gets its error, and runs; the instance ends in error
SELECT wc.define('{"name": "wc continues", "steps": [{"name": "a", "continue_on_failure": true}, {"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["a"], "when": "exists($.results.a.error)"},
  {"name": "d", "depends_on": ["a"], "when": "!exists($.results.a.error)"}, {"name": "e", "depends_on": ["b", "c", "d"], "payload": {"was": {"$": "$.results.a"}}}]}');
SELECT taskq_start_workflow('wc continues') AS w \gset
SELECT wc.work('a'), wc.seen(:w);
SELECT wc.work(), wc.seen(:w);
SELECT payload FROM taskq_get(wc.task(:w, 'e'));
SELECT taskq_ancestor_results(wc.task(:w, 'e'));
SELECT taskq_workflow(:w) ->> 'verdict';
SELECT step, result FROM taskq_dependency_results(wc.task(:w, 'b'));
SELECT taskq_workflow_graph(:w, 'mermaid') ~ 'n0 -\.-> n1' AS dashed, taskq_workflow_graph(:w, 'mermaid') ~ 'n1 --> n4' AS plain, taskq_workflow_graph(:w) ~ 'n0 -> n1 \[style=dashed\]' AS in_dot;
SELECT * FROM taskq_check();
SELECT wc.work(), wc.seen(:w), (SELECT reason FROM taskq.workflows WHERE workflow_id = :w);
SELECT regexp_replace(taskq_workflow(:w) ->> 'verdict', '\d+', 'N', 'g'), regexp_replace(taskq_workflow(:w) ->> 'next', '\d+', 'N', 'g');
SELECT regexp_replace(regexp_replace(text, 'since [^(,]*', 'since TIME ', 'g'), '\d+', 'N', 'g') FROM taskq_explain(wc.task(:w, 'a')) text;
-- it cannot be retried, since other steps have begun; declared done, it no longer counts as a
-- failure
SELECT wc.said(format('SELECT taskq_retry(%s)', wc.task(:w, 'a'))), wc.seen(:w);
SELECT taskq_resolve(wc.task(:w, 'a')), wc.seen(:w);
-- retried before other steps have begun: these wait again
SELECT taskq_start_workflow('wc continues') AS w \gset
SELECT wc.work('a'), wc.said(format('SELECT taskq_retry(%s)', wc.task(:w, 'a'))), wc.seen(:w);
SELECT * FROM taskq_check();
SELECT wc.work('a'), taskq_resolve(wc.task(:w, 'a'), '1'), wc.seen(:w);
SELECT wc.work(), wc.work(), wc.seen(:w);
SELECT * FROM taskq_check();
-- if it is cancelled, it is like any other step
SELECT taskq_start_workflow('wc continues') AS w \gset
SELECT taskq_cancel(wc.task(:w, 'a')), wc.seen(:w);
SELECT taskq_retry(wc.task(:w, 'a')), wc.work(), wc.work(), wc.work(), wc.seen(:w);
-- an error that is too large for the row
SELECT taskq_start_workflow('wc continues') AS w \gset
SELECT taskq_fail(task_id, token, repeat('long ', 1000), false) FROM taskq_claim('wc');
SELECT step, length(dependency_results -> 'a' ->> 'error') > 1000 AS long, taskq_complete(task_id, token) FROM taskq_claim('wc', max_tasks => 9) ORDER BY 1;
SELECT wc.work(), wc.seen(:w);

-- the last step; several steps, with a join that other steps hold up
SELECT wc.define('{"name": "wc several", "steps": [{"name": "a", "continue_on_failure": true}, {"name": "b", "continue_on_failure": true}, {"name": "c"},
  {"name": "j", "depends_on": ["a", "b", "c"]}, {"name": "z", "depends_on": ["j"], "continue_on_failure": true}]}');
SELECT taskq_start_workflow('wc several') AS w \gset
SELECT wc.work('a', 'b', 'c'), wc.seen(:w);
SELECT regexp_replace(regexp_replace(text, 'since [^(,]*', 'since TIME ', 'g'), '\d+', 'N', 'g') FROM taskq_explain(wc.task(:w, 'j')) text;
SELECT taskq_retry(wc.task(:w, 'c')), wc.work(), wc.work('z'), wc.seen(:w);
SELECT taskq_resolve(wc.task(:w, n)), wc.seen(:w) FROM unnest('{a,z,b}'::text[]) n;
SELECT * FROM taskq_check();

-- it holds up nothing, whatever on_failure says; a step without continue_on_failure does
SELECT wc.define('{"name": "wc stops", "on_failure": "stop", "steps": [{"name": "a", "continue_on_failure": true}, {"name": "b", "depends_on": ["a"]}, {"name": "c"}, {"name": "d", "depends_on": ["c"]},
  {"name": "x", "type": "decision"}, {"name": "y", "depends_on": ["x"]}]}');
SELECT taskq_start_workflow('wc stops') AS w \gset
CREATE TEMP TABLE held AS SELECT step, task_id, token FROM taskq_claim('wc', max_tasks => 9);
SELECT taskq_fail(task_id, token, 'broken', false), wc.seen(:w) FROM held WHERE step = 'a';
SELECT taskq_complete(task_id, token, '{"create": ["y"]}'), wc.seen(:w) FROM held WHERE step = 'x';
SELECT taskq_fail(task_id, token, 'broken', false), wc.seen(:w) FROM held WHERE step = 'c';
SELECT regexp_replace(regexp_replace(text, 'since [^(,]*', 'since TIME ', 'g'), '\d+', 'N', 'g') FROM taskq_explain(wc.task(:w, 'd')) text;
SELECT taskq_retry(wc.task(:w, 'c')), wc.seen(:w);
SELECT wc.work(), wc.work(), wc.seen(:w);
DROP TABLE held;
SELECT wc.define('{"name": "wc undoes", "on_failure": "compensate", "steps": [{"name": "a", "continue_on_failure": true}, {"name": "b", "depends_on": ["a"], "compensate": {"handler": "undo"}}, {"name": "c", "depends_on": ["b"]}]}');
SELECT taskq_start_workflow('wc undoes') AS w \gset
SELECT wc.work('a'), wc.work(), wc.seen(:w);
SELECT wc.work(), (SELECT concat_ws(' ', state, reason) FROM taskq.workflows WHERE workflow_id = :w);
SELECT step, taskq_complete(task_id, token) FROM taskq_claim('wc');
SELECT (SELECT concat_ws(' ', state, reason) FROM taskq.workflows WHERE workflow_id = :w);

-- steps without a worker, and steps that end when they begin
SELECT wc.define('{"name": "wc inner", "steps": [{"name": "i"}]}');
SELECT wc.define('{"name": "wc waits", "steps": [{"name": "w", "type": "workflow", "workflow": {"name": "wc inner"}, "continue_on_failure": true}, {"name": "p", "type": "approval", "signal": {"name": "ok"}, "continue_on_failure": true},
  {"name": "t", "type": "timer", "timer": {"after": {"$": "$.input.none"}}, "continue_on_failure": true}, {"name": "k", "depends_on": ["t"], "when": "$.input.n + 1", "continue_on_failure": true},
  {"name": "j", "depends_on": ["w", "p", "k"]}]}');
SELECT taskq_start_workflow('wc waits') AS w \gset
SELECT wc.seen(:w), taskq_signal(:w, 'ok', '{"approved": false}'), wc.work('i');
SELECT wc.seen(:w);
SELECT * FROM taskq_check();
-- the condition of a step that has not begun is evaluated again with what it depends on
SELECT wc.said(format('SELECT taskq_retry(%s)', wc.task(:w, 't'))), wc.seen(:w);
SELECT regexp_replace(wc.work(), '\d+', 'N', 'g'), wc.seen(:w);
-- the inner instance continues only before the next steps have begun
SELECT wc.said(format('SELECT taskq_retry(%s)', s.task_id)) FROM taskq.workflow_steps s WHERE s.step = 'i' AND s.workflow_id > :w ORDER BY s.workflow_id DESC LIMIT 1;

-- below a choice, and undone with it
SELECT wc.define('{"name": "wc chosen", "steps": [{"name": "d", "type": "decision"}, {"name": "x", "depends_on": ["d"], "when": "$.input.n + 1", "continue_on_failure": true}, {"name": "y", "depends_on": ["x"]},
  {"name": "z", "type": "deferred", "depends_on": ["y"]}]}');
SELECT taskq_start_workflow('wc chosen') AS w \gset
SELECT taskq_complete(task_id, token, '{"create": ["x"]}'), wc.seen(:w) FROM taskq_claim('wc');
SELECT taskq_retry(wc.task(:w, 'd')), wc.seen(:w);
SELECT * FROM taskq_check();
SELECT taskq_complete(task_id, token, '{"create": []}'), wc.seen(:w) FROM taskq_claim('wc');
SELECT wc.work(), wc.seen(:w);
SELECT * FROM taskq_check();
DROP SCHEMA wc CASCADE;

-- taskq_check() finds what a user did to workflows: each problem is planted.
BEGIN;
SELECT no_plan();

SELECT lives_ok($$
    SELECT taskq_define_workflow('{"name": "check", "version": "1", "queue": "check flow", "steps": [
        {"name": "a"}, {"name": "b", "depends_on": ["a"]}, {"name": "s", "type": "signal", "signal": {"name": "go", "timeout": "1 day"}},
        {"name": "w", "type": "workflow", "workflow": {"name": "check inner"}}]}'::jsonb)
      FROM taskq_define_workflow('{"name": "check inner", "version": "1", "queue": "check flow", "steps": [{"name": "i"}]}')$$,
    'templates');
CREATE FUNCTION pg_temp.ends(failing boolean DEFAULT false) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN failing THEN taskq_fail(task_id, token, 'no', retryable => false)
                ELSE taskq_complete(task_id, token)::text END FROM taskq_claim('check flow') $$;
CREATE TEMP TABLE flow (name text, id bigint);
-- a live instance, a successful one, one in error, a cancelled one
INSERT INTO flow SELECT 'done', taskq_start_workflow('check inner');
SELECT pg_temp.ends();
INSERT INTO flow SELECT 'error', taskq_start_workflow('check inner');
SELECT pg_temp.ends(true);
INSERT INTO flow SELECT 'cancelled', taskq_start_workflow('check');
SELECT taskq_cancel_workflow(id) FROM flow WHERE name = 'cancelled';
INSERT INTO flow SELECT 'live', taskq_start_workflow('check');
INSERT INTO flow SELECT 'inner', workflow_id FROM taskq.workflow w JOIN flow f ON w.parent_id = f.id WHERE f.name = 'live';
-- one with a dead step, and a dependent step that will run
SELECT taskq_define_workflow('{"name": "check on", "version": "1", "queue": "check flow", "steps": [{"name": "c", "continue_on_failure": true}, {"name": "n", "depends_on": ["c"]}]}');
INSERT INTO flow SELECT 'on', taskq_start_workflow('check on', priority => 9);
SELECT pg_temp.ends(true);
SELECT is_empty('SELECT * FROM taskq_check()', 'nothing is found at first');

-- {a} is the task of step a of the live instance, {live} that instance, and so on
CREATE FUNCTION pg_temp.put_in(words text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT f.name, f.id FROM flow f
                UNION ALL
               SELECT s.step, s.task_id FROM taskq.workflow_steps s JOIN flow f ON f.id = s.workflow_id WHERE f.name IN ('live', 'inner', 'on')
                UNION ALL
               SELECT f.name || ' i', s.task_id FROM taskq.workflow_steps s JOIN flow f ON f.id = s.workflow_id
                WHERE f.name IN ('done', 'error') LOOP
        words := replace(words, '{' || one.name || '}', one.id::text);
    END LOOP;
    RETURN words;
END
$$;
CREATE FUNCTION pg_temp.found(wrong text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    answer text;
BEGIN
    EXECUTE pg_temp.put_in(wrong);
    SELECT string_agg(c.problem || ': ' || c.detail, '; ' ORDER BY c.problem, c.detail) INTO answer FROM taskq_check() c;
    RAISE 'undo' USING ERRCODE = 'ZZ999';
EXCEPTION WHEN SQLSTATE 'ZZ999' THEN
    RETURN answer;
END
$$;
CREATE FUNCTION pg_temp.finds(wrong text, problem text) RETURNS text LANGUAGE sql AS $$
    SELECT alike('; ' || pg_temp.found(wrong) || ';', '%; ' || pg_temp.put_in(problem) || ';%', problem || ' [' || wrong || ']') $$;
CREATE TEMP TABLE planted (n serial, wrong text, problem text);
INSERT INTO planted (wrong, problem) VALUES
    ('UPDATE taskq.task SET workflow_id = -1 WHERE task_id = {a}', 'step has no workflow: task {a}'),
    ('UPDATE taskq.task SET step_id = 99 WHERE task_id = {a}', 'step is not one of its workflow: task {a}'),
    ('UPDATE taskq.task SET step_id = 16384 WHERE task_id = {a}', 'step is not one of its workflow: task {a}'),
    ('UPDATE taskq.task SET step_id = 0 WHERE task_id = {b}', 'two tasks are one step: tasks {a} and {b}'),
    ('UPDATE taskq.task SET step_id = 0 WHERE task_id = {b}', 'workflow lacks a step that it begins with: workflow {live}, step 1'),
    ('UPDATE taskq.archive SET bucket = 3, expires_at = NULL WHERE task_id = {done i}', 'finished step may be removed before its workflow: task {done i}'),
    ('DELETE FROM taskq.edge WHERE workflow_id = {live} AND child = 1', 'blocked step waits for nothing: task {b}'),
    ('DELETE FROM taskq.edge WHERE workflow_id = {live} AND child = 1', 'edge of a step that has not ended is missing: task {a}, to 1'),
    ('DELETE FROM taskq.edge WHERE workflow_id = {live} AND child = -1 AND parent = 1', 'edge of a step that has not ended is missing: task {b}, to -1'),
    ('UPDATE taskq.task SET state = 1, available_at = now(), run_at = now() WHERE task_id = {b}', 'step does not wait for a step that it depends on: task {b}'),
    ('INSERT INTO taskq.edge VALUES ({live}, 2, 0)', 'step does not wait for a step that it depends on: task {s}'),
    ('INSERT INTO taskq.edge VALUES ({live}, 2, 0)', 'edge has an invalid parent or child: workflow {live}, from 0 to 2'),
    ('INSERT INTO taskq.edge VALUES ({live}, -3, 0)', 'edge has an invalid parent or child: workflow {live}, from 0 to -3'),
    ('INSERT INTO taskq.edge VALUES ({live}, -4, 0)', 'edge has an invalid parent or child: workflow {live}, from 0 to -4'),
    ('INSERT INTO taskq.edge VALUES ({live}, -2, -1)', 'edge has an invalid parent or child: workflow {live}, from -1 to -2'),
    ('INSERT INTO taskq.edge VALUES ({live}, -3, -1)', 'step has not begun, although a failure has cancelled all such steps: task {a}'),
    ('INSERT INTO taskq.edge VALUES ({live}, 1, 77)', 'edge has an invalid parent or child: workflow {live}, from 77 to 1'),
    ('INSERT INTO taskq.edge VALUES (-5, 1, 0)', 'edge has no workflow: workflow -5'),
    ('INSERT INTO taskq.edge VALUES ({done}, -1, 0)', 'edge of a step that has ended remains: task {done i}, to -1'),
    ('INSERT INTO taskq.edge VALUES ({live}, -2, 0)', 'failure is recorded for a step that has not failed: workflow {live}, step 0'),
    ('DELETE FROM taskq.edge WHERE workflow_id = {error} AND child = -2', 'failure of a step is not recorded: task {error i}'),
    ('DELETE FROM taskq.edge WHERE workflow_id = {on} AND child = -2', 'failure of a step is not recorded: task {c}'),
    ('INSERT INTO taskq.edge VALUES ({on}, 1, 0)', 'edge of a step that has ended remains: task {c}, to 1'),
    ('DELETE FROM taskq.edge WHERE workflow_id = {on} AND child = -1', 'edge of a step that has not ended is missing: task {n}, to -1'),
    ('UPDATE taskq.workflow SET state = 0, finished_at = NULL, expires_at = NULL WHERE workflow_id = {error}', 'workflow is live, but none of its steps is: workflow {error}'),
    ('UPDATE taskq.workflow SET state = 1, finished_at = now(), expires_at = ''infinity'' WHERE workflow_id = {live}', 'workflow has ended, but one of its steps is live: workflow {live}'),
    ('UPDATE taskq.workflow SET state = 4, finished_at = now(), expires_at = ''infinity'' WHERE workflow_id = {live}', 'workflow has ended, but one of its steps is live: workflow {live}'),
    ('UPDATE taskq.workflow SET state = 3, finished_at = now(), expires_at = ''infinity'' WHERE workflow_id = {live}', 'workflow is in error, but no step has failed: workflow {live}'),
    ('UPDATE taskq.workflow SET state = 1 WHERE workflow_id = {error}', 'workflow has completed, but a step has failed: workflow {error}'),
    ('UPDATE taskq.workflow SET state = 2 WHERE workflow_id = {done}', 'workflow is resolved or done, contrary to its steps: workflow {done}'),
    ('UPDATE taskq.archive SET reason = 11 WHERE task_id = {done i}', 'workflow is resolved or done, contrary to its steps: workflow {done}'),
    ('UPDATE taskq.workflow SET state = 7 WHERE workflow_id = {done}', 'workflow has an unknown state: workflow {done}'),
    ('UPDATE taskq.workflow SET state = 5 WHERE workflow_id = {live}', 'workflow is compensating, but no compensation is live: workflow {live}'),
    ('UPDATE taskq.workflow SET finished_at = NULL WHERE workflow_id = {done}', 'end of the workflow does not match its state: workflow {done}'),
    ('UPDATE taskq.workflow SET result = ''1'' WHERE workflow_id = {live}', 'end of the workflow does not match its state: workflow {live}'),
    ('UPDATE taskq.workflow SET template_id = -1 WHERE workflow_id = {done}', 'workflow has an unknown template: workflow {done}'),
    ('UPDATE taskq.workflow SET started_by = -1 WHERE workflow_id = {live}', 'workflow has an unknown role: workflow {live}'),
    ('UPDATE taskq.workflow SET reason = 77 WHERE workflow_id = {error}', 'workflow has an unknown reason: workflow {error}'),
    ('UPDATE taskq.workflow SET parent_task_id = NULL WHERE workflow_id = {inner}', 'step waits for a workflow that is not live: task {w}'),
    ('UPDATE taskq.workflow SET parent_task_id = {error i} WHERE workflow_id = {live}', 'workflow is live for a step that has failed: workflow {live}'),
    ('INSERT INTO taskq.signal VALUES ({live}, 2, NULL, 1, now())', 'step waits for a signal that has arrived: task {s}'),
    ('INSERT INTO taskq.signal VALUES (-5, 2, NULL, 1, now())', 'signal has no workflow: workflow -5'),
    ('INSERT INTO taskq.signal VALUES ({live}, 0, NULL, 1, now())', 'signal is for no step of its workflow: workflow {live}'),
    ('DELETE FROM taskq.timer WHERE task_id = {s}', 'step waits for a time, but has no timer: task {s}'),
    ('UPDATE taskq.timer SET since = since - interval ''1 s'' WHERE task_id = {s}', 'step waits for a time, but has no timer: task {s}'),
    ('UPDATE taskq.timer SET at = now() - interval ''1 h'' WHERE task_id = {s}', 'waiting step outlives its time: task {s}'),
    ('UPDATE taskq.timer SET at = ''infinity'' WHERE task_id = {s}', 'timer has an invalid time: task {s}'),
    ('INSERT INTO taskq.template VALUES (-1, ''x'', ''x'', ''1'', ''[]'', 1, now())', 'template cannot be read: template -1');
SELECT pg_temp.finds(wrong, problem) FROM planted ORDER BY n;
SELECT diag(count(*) || ' disagreements of ' || count(DISTINCT split_part(problem, ':', 1)) || ' kinds were planted here') FROM planted;
SELECT is_empty('SELECT * FROM taskq_check()', 'nothing is found after the rollback');

-- not while an open transaction has another step of the workflow, or an edge
SELECT is(pg_temp.found('UPDATE taskq.timer SET at = now() - interval ''1 h'' WHERE task_id = {s}; SELECT FROM taskq.' || what || ' FOR UPDATE'), NULL,
          'its time may wait: ' || what)
  FROM (VALUES ('task WHERE task_id = {a}'), ('task WHERE task_id = {s}'), ('edge WHERE workflow_id = {live}')) w (what);
SELECT * FROM finish();
ROLLBACK;

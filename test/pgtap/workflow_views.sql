-- Views of workflows call one function for each instance, which checks the
-- right to read; no other part of the extension checks it again.
BEGIN;
SELECT plan(8);
SET LOCAL track_functions = 'all';
SET LOCAL client_min_messages = warning;

SELECT taskq_define_workflow('{"name": "seen", "version": "1", "queue": "views seen", "steps": [{"name": "split", "type": "batch"},
    {"name": "member", "type": "batch_worker", "depends_on": ["split"]}]}');
SELECT taskq_define_workflow('{"name": "hidden", "version": "1", "queue": "views hidden", "steps": [{"name": "only"}]}');
SELECT count(taskq_start_workflow('seen')) FROM generate_series(1, 3);
SELECT count(taskq_start_workflow('hidden')) FROM generate_series(1, 2);
CREATE ROLE taskq_views_test;
SELECT taskq_grant('views seen', 'taskq_views_test', '{read}');

-- rows that a statement gives, and the functions of taskq that it calls
CREATE FUNCTION pg_temp.calls(command text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found bigint;
    answer text;
BEGIN
    CREATE TEMP TABLE before ON COMMIT DROP AS SELECT funcid, calls FROM pg_stat_xact_user_functions;
    EXECUTE format('SELECT count(*) FROM (%s) AS all_rows', command) INTO found;
    SELECT found || ' rows: ' || string_agg(f.funcname || ' ' || f.calls - coalesce(b.calls, 0), ', ' ORDER BY f.funcname) INTO answer
      FROM pg_stat_xact_user_functions f LEFT JOIN before b USING (funcid)
     WHERE f.schemaname = 'taskq' AND f.calls > coalesce(b.calls, 0);
    DROP TABLE before;
    RETURN answer;
END
$$;
SELECT is(pg_temp.calls('SELECT * FROM taskq.workflows'), '5 rows: workflow_look 5', 'taskq.workflows');
SELECT is(pg_temp.calls('SELECT * FROM taskq.workflow_steps'), '8 rows: workflow_step_rows 5', 'taskq.workflow_steps');
SELECT is(pg_temp.calls('SELECT * FROM taskq.batch_progress'), '3 rows: batch_rows 5', 'taskq.batch_progress');
SELECT is(pg_temp.calls('SELECT taskq_workflow(min(workflow_id)) FROM taskq.workflow'), '1 rows: workflow_look 1, workflow_step_rows 1', 'taskq_workflow()');

-- a role that may not read an instance finds nothing of it, nor with the functions
SET LOCAL ROLE taskq_views_test;
SELECT results_eq('SELECT name FROM taskq.workflows ORDER BY workflow_id', ARRAY['seen', 'seen', 'seen'], 'a role sees what it may read');
SELECT is((SELECT count(*)::integer FROM taskq.workflow_steps), 6, 'a role sees the steps of these instances');
SELECT is((SELECT count(*)::integer FROM taskq.batch_progress), 3, 'a role sees the batches of these instances');
RESET ROLE;
CREATE TEMP TABLE hidden AS SELECT w.workflow_id FROM taskq.workflows w WHERE w.name = 'hidden' LIMIT 1;
GRANT SELECT ON hidden TO taskq_views_test;
SET LOCAL ROLE taskq_views_test;
SELECT results_eq('SELECT l.state, l.steps_total, l.sight, (SELECT count(*) FROM taskq.workflow_step_rows(workflow_id)) FROM hidden, taskq.workflow_look(workflow_id) l',
    'SELECT NULL::text, NULL::bigint, NULL::integer, 0::bigint', 'the functions show nothing else');
SELECT * FROM finish();
ROLLBACK;

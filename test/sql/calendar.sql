-- A duration that is added to a point in time follows the calendar, in UTC:
-- a year is a year, whatever the time zone of the session.
SET timezone = 'America/New_York';
CREATE FUNCTION pg_temp.is_after(moment timestamptz, span interval) RETURNS boolean LANGUAGE sql AS $$
    SELECT abs(extract(epoch FROM (moment AT TIME ZONE 'UTC') - ((clock_timestamp() AT TIME ZONE 'UTC') + span))) < 60 $$;
-- a delay, a deadline, a delay by hand
SELECT taskq_create_queue('cal', '{"retention": "7 years", "retention_dead": "9 years 6 months", "lease": "1 year"}');
SELECT s AS delay, pg_temp.is_after(run_at, s) AS run_at, pg_temp.is_after(deadline, s + interval '1 day') AS deadline
  FROM unnest('{1 year,7 months,10 years -2 days,1 year -1 day,6 months 3 days 04:05:06}'::interval[]) s,
       taskq_get((SELECT taskq_submit('cal', delay => s, options => jsonb_build_object('deadline_in', (s + interval '1 day')::text))));
SELECT taskq_update_task(min(task_id), '{"delay": "3 years", "deadline": null, "options": {"deadline_in": "4 years"}}') FROM taskq.tasks WHERE queue = 'cal';
SELECT pg_temp.is_after(run_at, '3 years') AS run_at, pg_temp.is_after(deadline, '4 years') AS deadline FROM taskq.tasks WHERE queue = 'cal' ORDER BY task_id LIMIT 1;
-- a lease of the queue, of a claim, of an extension; a pause between attempts
SELECT count(taskq_submit('cal')) FROM generate_series(1, 3);
SELECT task_id, token FROM taskq_claim('cal') \gset
SELECT pg_temp.is_after(lease_until, '1 year') AS lease_until FROM taskq_get(:task_id);
SELECT pg_temp.is_after(lease_until, '5 years') AS lease_until FROM taskq_extend(:task_id, :token, '5 years');
SELECT pg_temp.is_after(lease_until, '1 year') AS lease_until FROM taskq_extend(:task_id, :token);
SELECT ok FROM taskq_extend_many(ARRAY[:task_id], ARRAY[:token], '2 years');
SELECT pg_temp.is_after(lease_until, '2 years') AS lease_until FROM taskq_get(:task_id);
SELECT taskq_release(:task_id, :token, '8 years');
SELECT pg_temp.is_after(run_at, '8 years') AS run_at FROM taskq_get(:task_id);
SELECT task_id, token, pg_temp.is_after(lease_until, '6 years') AS lease_until FROM taskq_claim('cal', lease => '6 years') \gset c_
SELECT :'c_lease_until' AS lease_until, taskq_fail(:c_task_id, :c_token, 'x', retry_in => '2 years');
SELECT pg_temp.is_after(run_at, '2 years') AS run_at FROM taskq_get(:c_task_id);
-- retention of done and dead tasks; a window that is longer, and one that is shorter
SELECT task_id, token FROM taskq_claim('cal') \gset
SELECT taskq_complete(:task_id, :token);
SELECT pg_temp.is_after(expires_at, '7 years') AS expires_at FROM taskq.archive WHERE task_id = :task_id;
SELECT taskq_submit('cal') AS task_id \gset
SELECT taskq_fail(task_id, token, 'x', retryable => false) FROM taskq_claim('cal');
SELECT pg_temp.is_after(expires_at, '9 years 6 months') AS expires_at FROM taskq.archive WHERE task_id = :task_id;
SELECT count(taskq_submit('cal', reference => w, options => jsonb_build_object('reference_window', w))) FROM unnest('{8 years,365 days}'::text[]) w;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('cal', max_tasks => 2);
SELECT reference, pg_temp.is_after(expires_at, CASE reference WHEN '8 years' THEN interval '8 years' ELSE '7 years' END) AS expires_at FROM taskq.archive WHERE reference IN ('8 years', '365 days') ORDER BY reference;
-- the window still holds on the last day of its year, after 360 days
SELECT taskq_create_queue('win', '{"reference_window": "1 year", "retention": "none"}');
SELECT taskq_submit('win', reference => 'r') > 0 AS submitted;
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('win');
UPDATE taskq.archive_keep SET finished_at = finished_at - interval '364 days' WHERE reference = 'r';
SELECT taskq_submit('win', reference => 'r', on_conflict => 'skip') AS held;
UPDATE taskq.archive_keep SET finished_at = finished_at - interval '3 days' WHERE reference = 'r';
SELECT taskq_submit('win', reference => 'r', on_conflict => 'skip') > 0 AS over;
-- a claim of one task, a lease in a change, documents
SELECT pg_temp.is_after(lease_until, '4 years') AS lease_until FROM taskq_claim_one('w', '{win}', '4 years');
SELECT pg_temp.is_after(lease_until, '3 years') AS lease_until FROM taskq_change('w', '[{"queue": "win", "lease": "3 years"}]', doc_adds => '[{"namespace": "cal", "key": "k", "lease": "1 year"}]');
SELECT pg_temp.is_after(lease_until, '1 year') AS lease_until FROM taskq.doc WHERE namespace = 'cal';
SELECT pg_temp.is_after(lease_until, '2 years') AS lease_until FROM taskq_claim_docs('w', 'cal', 'k', '2 years');
-- a timer of a workflow, and how long its instance is kept
SELECT taskq_define_workflow('{"namespace": "cal", "name": "f", "version": "1", "queue": "cal", "retention": "2 years", "identity_window": "3 years", "steps": [{"name": "t", "type": "timer", "timer": {"after": "1 year"}}]}');
SELECT taskq_start_workflow('f', namespace => 'cal') AS w \gset
SELECT pg_temp.is_after(t.at, '1 year') AS at FROM taskq.timer t JOIN taskq.workflow_steps USING (task_id) WHERE workflow_id = :w;
SELECT taskq_cancel_workflow(:w);
SELECT pg_temp.is_after(expires_at, '3 years') AS expires_at FROM taskq.workflow WHERE workflow_id = :w;
-- as lengths a month counts 30 days and a year 365; ten years are allowed
SELECT s, pg_temp.is_after((taskq_get(taskq_submit('cal', delay => s::interval))).run_at, s::interval) AS run_at FROM unnest('{10 years,10 years 3 days,1 month -29 days}'::text[]) s;
SELECT taskq_submit('cal', delay => '10 years 4 days');
SELECT taskq_submit('cal', delay => '1 month -31 days');
SELECT taskq_submit('cal', delay => '1 year -366 days');
SELECT taskq_alter_queue('cal', '{"retention": "10 years 4 days"}');
-- days that cancel months, and more months than ten years have, count by their length
SELECT run_at - created_at < interval '3 days 1 min' AND run_at - created_at > interval '2 days 23:59' AS three_days FROM taskq_get(taskq_submit('cal', delay => '-1 month 33 days')) UNION ALL
SELECT run_at - created_at < interval '3 days 1 min' AND run_at - created_at > interval '2 days 23:59' FROM taskq_get(taskq_submit('cal', delay => '20 years -7297 days'));

SELECT count(taskq_drop_queue(queue, true)) FROM taskq.queues WHERE queue IN ('cal', 'win');
SELECT count(*) FROM taskq_change('w', doc_deletes => '[{"namespace": "cal", "key": "k"}]');

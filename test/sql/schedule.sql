--
-- schedule: save, fire, overlap, catch up, rights, errors
--
SELECT taskq_create_queue('s');
CREATE VIEW t.shown AS
SELECT name, schedule, queue, timezone, overlap, catch_up, enabled, date_trunc('minute', next_run - now()) AS next_in,
       last_run IS NOT NULL AS ran, misses, problem
  FROM taskq.schedules;
CREATE FUNCTION t.fired() RETURNS bigint LANGUAGE sql AS $$SELECT acted FROM taskq_run_reapers() WHERE reaper = 'schedules'$$;
-- set the clock of a schedule back, as after an outage; in a transaction, since the background
-- worker would fire it, too
CREATE FUNCTION t.outage(text, interval) RETURNS void LANGUAGE sql AS
$$UPDATE taskq.schedule SET anchor = anchor - $2, next_run = next_run - $2, due_at = due_at - $2 WHERE name = $1$$;
BEGIN;
SELECT taskq_schedule('a', 'every 1 hour', 's', '{"n": 1}', options => '{"priority": 7, "headers": {"h": 1}, "tags": ["x"]}');
SELECT * FROM t.shown;
COMMIT;
SELECT t.fired();
BEGIN;
SELECT t.outage('a', '61 min');
SELECT t.fired(), t.fired();
COMMIT;
SELECT k.payload, k.priority, k.tags, k.headers - 'planned_at' AS headers,
       (k.headers ->> 'planned_at')::timestamptz = s.last_run AS planned,
       k.reference = 'a@' || (k.headers ->> 'planned_at') AS reference, s.last_task_id = k.task_id AS last
  FROM taskq.tasks k, taskq.schedules s WHERE k.queue = 's';
-- the same text and zone keep the place, another text or zone does not
CREATE TABLE t.kept AS SELECT next_run FROM taskq.schedules;
SELECT taskq_schedule('a', 'every 1 hour', 's', '2');
SELECT s.next_run = k.next_run AS kept FROM taskq.schedules s, t.kept k;
SELECT taskq_schedule('a', 'every 1 hour', 's', '2', 'Europe/Berlin');
SELECT s.next_run = k.next_run AS kept FROM taskq.schedules s, t.kept k;
SELECT taskq_schedule('a', 'every 2 hours', 's', '2');
SELECT next_run > now() + '119 min' AS late, misses FROM taskq.schedules;
-- what passed while it was disabled is not missed
SELECT taskq_schedule('a', 'every 2 hours', 's', enabled => false);
BEGIN;
SELECT t.outage('a', '5 hours');
SELECT t.fired(), next_run FROM taskq.schedules;
COMMIT;
SELECT taskq_schedule('a', 'every 2 hours', 's');
SELECT t.fired(), next_run > now() AS next, misses FROM taskq.schedules;
SELECT taskq_unschedule('a'), taskq_unschedule('a');
-- catch up: a week of hours
SELECT taskq_purge('s', '{pending}');
BEGIN;
SELECT taskq_schedule(c, 'every 1 hour', 's', to_jsonb(c), catch_up => c), t.outage(c, '7 days 30 minutes') FROM unnest('{none,one,all}'::text[]) c;
SET taskq.max_catch_up = 5;
SELECT t.fired(), t.fired();
COMMIT;
SELECT payload #>> '{}' AS catch_up, count(*) FROM taskq.tasks WHERE queue = 's' GROUP BY 1 ORDER BY 1;
SELECT name, misses, next_run > now() AS next, problem FROM taskq.schedules ORDER BY name;
RESET taskq.max_catch_up;
SELECT taskq_unschedule(name) FROM taskq.schedules;
-- one time only
SELECT taskq_purge('s', '{pending}');
SELECT taskq_schedule('once', 'at ' || (now() + '1 hour')::text, 's');
BEGIN;
SELECT t.outage('once', '61 min');
SELECT t.fired(), t.fired();
COMMIT;
SELECT next_run, misses, last_run IS NOT NULL AS ran FROM taskq.schedules;
SELECT count(*) FROM taskq.tasks WHERE queue = 's';
SELECT taskq_unschedule('once');
-- overlap
SELECT taskq_purge('s', '{pending}');
SELECT taskq_schedule(o, 'every 1 hour', 's', to_jsonb(o), overlap => o) FROM unnest('{allow,skip,replace}'::text[]) o;
SELECT o, taskq_run_schedule(o) IS NULL AS skipped, taskq_run_schedule(o) IS NULL AS skipped FROM unnest('{allow,skip,replace}'::text[]) o;
SELECT payload #>> '{}' AS overlap, state, count(*) FROM taskq.tasks WHERE queue = 's' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT name, misses FROM taskq.schedules ORDER BY name;
CREATE TABLE t.fired AS SELECT * FROM taskq_claim('s', 'w', max_tasks => 9);
SELECT taskq_run_schedule('replace') IS NOT NULL AS submitted;
SELECT payload, state, cancel_requested_at IS NOT NULL AS asked_to_stop FROM taskq.tasks WHERE queue = 's' AND payload = '"replace"' ORDER BY task_id;
SELECT taskq_unschedule(name) FROM taskq.schedules;
-- an error is kept, the others fire, and the schedule is tried again
SELECT taskq_create_queue('gone');
SELECT taskq_schedule('bad', 'every 1 hour', 'gone'), taskq_schedule('good', 'every 1 hour', 's');
SELECT taskq_drop_queue('gone');
BEGIN;
SELECT t.outage(name, '61 min') FROM taskq.schedules;
SELECT t.fired();
COMMIT;
SELECT s.name, s.problem, s.last_run IS NOT NULL AS ran, r.due_at > r.next_run AS later FROM taskq.schedules s JOIN taskq.schedule r USING (name) ORDER BY name;
SELECT taskq_create_queue('gone');
BEGIN;
SELECT t.outage('bad', '2 min');
SELECT t.fired();
COMMIT;
SELECT name, problem, misses FROM taskq.schedules ORDER BY name;
SELECT t.try('SELECT taskq_run_schedule(''nothing'')');
SELECT taskq_unschedule(name) FROM taskq.schedules;
-- the owner's rights count, at saving and at each firing
CREATE ROLE regress_saver;
CREATE ROLE regress_other;
SELECT taskq_grant('s', 'regress_saver', '{submit}'), taskq_grant('s', 'regress_other', '{submit,read}');
SET ROLE regress_saver;
SELECT taskq_schedule('mine', 'every 1 hour', 's');
SELECT t.try('SELECT taskq_schedule(''mine'', ''every 1 hour'', ''gone'')');
SELECT name, owner FROM taskq.schedules;
SET ROLE regress_other;
SELECT name, owner FROM taskq.schedules;
SELECT t.try(f) FROM unnest(ARRAY['SELECT taskq_schedule(''mine'', ''every 1 hour'', ''s'')', 'SELECT taskq_unschedule(''mine'')', 'SELECT taskq_run_schedule(''mine'')']) f;
RESET ROLE;
SELECT taskq_run_schedule('mine') IS NOT NULL AS ran;
SELECT submitted_by, run_as FROM taskq.tasks WHERE queue = 's' AND submitted_by = 'regress_saver';
SELECT taskq_revoke('s', 'regress_saver', '{submit}');
BEGIN;
SELECT t.outage('mine', '61 min');
SELECT t.fired();
COMMIT;
SELECT name, problem FROM taskq.schedules;
SELECT count(*) FROM taskq.tasks WHERE queue = 's' AND submitted_by = 'regress_saver';
SELECT taskq_revoke('s', 'regress_other', '{submit,read}'), taskq_unschedule('mine');
-- errors
SELECT left(p, 40) AS schedule, t.try(format('SELECT taskq_schedule(''e'', %L, ''s'')', p))
  FROM unnest(ARRAY['', 'daily', 'every', 'every day at noonish', 'every 1 day at', 'every 1 day at 24:00', 'every 1 day at 25:00', 'every 0 seconds', 'every -1 day', 'every 1 day -1 hour', 'every 0.5 seconds',
       'every 101 years', 'every 9999999999 years', 'at', 'at once', 'at infinity', 'at 2020-01-01', 'at 2027-02-30', '* * * *', repeat('x', 501)]) p;
SELECT t.try(f) FROM unnest(ARRAY[
    'SELECT taskq_schedule(NULL, ''every 1 h'', ''s'')', 'SELECT taskq_schedule(''e'', NULL, ''s'')', 'SELECT taskq_schedule(''e'', ''every 1 h'', NULL)',
    'SELECT taskq_schedule('''', ''every 1 h'', ''s'')', 'SELECT taskq_schedule(repeat(''n'', 201), ''every 1 h'', ''s'')', 'SELECT taskq_schedule(e''a\nb'', ''every 1 h'', ''s'')',
    'SELECT taskq_schedule(''e'', ''every 1 h'', ''nowhere'')', 'SELECT taskq_schedule(''e'', ''every 1 h'', ''*'')',
    'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', timezone => ''Mars/Olympus'')', 'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', overlap => ''x'')',
    'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', catch_up => ''x'')', 'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', options => ''[]'')',
    'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', options => ''{"queue": "gone"}'')', 'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', options => ''{"reference": null}'')',
    'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', options => ''{"colour": 1}'')', 'SELECT taskq_schedule(''e'', ''every 1 h'', ''s'', options => ''{"priority": "x"}'')',
    'SELECT taskq_preview_schedule(NULL)', 'SELECT taskq_preview_schedule(''every 1 h'', max_rows => 0)']) f;
SELECT count(*) FROM taskq.schedules;
-- text is case-insensitive; a timestamp may have a zone of its own
SELECT at AT TIME ZONE 'UTC' FROM taskq_preview_schedule(' EVERY 1 Day AT 9:00', 'Asia/Tokyo', '2026-11-01 00:00Z', max_rows => 2) at;
SELECT at AT TIME ZONE 'UTC' FROM unnest('{"at 2027-03-28 02:30","at 2027-03-28 02:30+00","at 2027-01-01 9:00 America/New_York"}'::text[]) p, taskq_preview_schedule(p, 'Europe/Berlin') at;
SELECT count(*) FROM taskq_preview_schedule('every 100 years', 'UTC', max_rows => 10000);
-- cron expressions: this server does not load pg_cron
SELECT regexp_replace(t.try(f), 'postgresql-\d+', 'postgresql-N') AS try FROM unnest(ARRAY['SELECT taskq_schedule(''c'', ''0 3 * * mon'', ''s'')', 'SELECT taskq_schedule(''c'', ''0 3 * * mon'', ''s'', enabled => false)',
    'SELECT taskq_schedule(''c'', ''0 3 * * mon'', ''s'', catch_up => ''one'')', 'SELECT taskq_schedule(repeat(''n'', 58), ''0 3 * * mon'', ''s'')',
    'SELECT taskq_preview_schedule(''0 3 * * mon'')', 'SELECT taskq.fire_cron(NULL)']) f;
SELECT count(*) FROM taskq.schedules;
-- what a job of pg_cron calls: one task a minute, as the owner; an error is kept, and the minute tried again
SELECT taskq_create_queue('cron');
SELECT taskq_grant('cron', 'regress_saver', '{submit}');
SET ROLE regress_saver;
SELECT taskq_schedule('c', 'every 1 hour', 'cron', overlap => 'skip');
SELECT t.try('SELECT taskq.fire_cron(''c'')');
RESET ROLE;
UPDATE taskq.schedule SET cron = true, plan = '* * * * *', next_run = NULL, due_at = NULL, position = 0 WHERE name = 'c';
SELECT schedule, catch_up, next_run, misses, owner FROM taskq.schedules;
BEGIN;
SELECT taskq.fire_cron('c'), taskq.fire_cron('no such schedule');
SELECT submitted_by, (headers ->> 'planned_at')::timestamptz = s.last_run AS planned, s.last_run = date_trunc('minute', s.last_run) AS minute,
       s.last_run > now() - interval '10 minutes' AS recent, reference = 'c@' || (headers ->> 'planned_at') AS reference
  FROM taskq.tasks k, taskq.schedules s WHERE k.queue = 'cron';
-- the next minute, while the task is live; then the task has ended
UPDATE taskq.schedule SET position = position - 2 WHERE name = 'c';
SELECT taskq.fire_cron('c');
SELECT count(*) FROM taskq.tasks WHERE queue = 'cron';
SELECT misses FROM taskq.schedule;
SELECT count(taskq_cancel(task_id)) FROM taskq.tasks WHERE queue = 'cron' AND state = 'pending';
-- the clock was ahead: no minute fires again
UPDATE taskq.schedule SET position = position + 60 WHERE name = 'c';
SELECT taskq.fire_cron('c');
SELECT count(*) FROM taskq.tasks WHERE queue = 'cron' AND state = 'pending';
SELECT taskq_revoke('cron', 'regress_saver', '{submit}');
UPDATE taskq.schedule SET position = 0 WHERE name = 'c';
SELECT taskq.fire_cron('c');
SELECT s.problem, s.next_run, r.due_at > now() AS later FROM taskq.schedules s JOIN taskq.schedule r USING (name);
SELECT taskq_grant('cron', 'regress_saver', '{submit}');
UPDATE taskq.schedule SET due_at = now(), position = position - 5 WHERE name = 'c';
SELECT t.fired(), t.fired();
SELECT s.problem, r.due_at, s.last_run < now() - interval '4 minutes' AS its_minute FROM taskq.schedules s JOIN taskq.schedule r USING (name);
SELECT count(taskq_cancel(task_id)) FROM taskq.tasks WHERE queue = 'cron' AND state = 'pending';
UPDATE taskq.schedule SET enabled = false;
SELECT taskq.fire_cron('c');
SELECT count(*) FROM taskq.tasks WHERE queue = 'cron' AND state = 'pending';
ROLLBACK;
SELECT taskq_unschedule('c'), taskq_revoke('cron', 'regress_saver', '{submit}');
-- workflows: started with the right submit on their queues, which the owner of the schedule needs
SELECT taskq_create_queue('flow');
SELECT taskq_define_workflow('{"name": "closing", "version": "1", "queue": "flow", "input_schema": {"required": ["region"]}, "steps": [{"name": "sum"}, {"name": "mail", "depends_on": ["sum"]}]}') IS NOT NULL AS defined;
SELECT t.try(format('SELECT taskq_schedule(''w'', ''every 1 day'', ''flow'', ''{"region": 1}'', options => %L)', o)) FROM unnest(ARRAY[
    '{"workflow": null}', '{"workflow": "closing"}', '{"workflow": {}}', '{"workflow": {"name": "nothing"}}', '{"workflow": {"name": "closing", "version": "7"}}',
    '{"workflow": {"name": 1}}', '{"workflow": {"name": "closing", "colour": 1}}', '{"workflow": {"name": "closing"}, "tags": ["x"]}',
    '{"workflow": {"name": "closing"}, "headers": []}', '{"workflow": {"name": "closing"}, "priority": "x"}', '{"workflow": {"name": "closing"}, "queue": "s"}']) o;
SELECT t.try($$SELECT taskq_schedule('w', 'every 1 day', 'flow', '{}', options => '{"workflow": {"name": "closing"}}')$$);
SELECT t.try($$SELECT taskq_schedule('w', 'every 1 day', 'gone?', '{"region": 1}', options => '{"workflow": {"name": "closing"}}')$$);
SELECT taskq_grant('cron', 'regress_saver', '{submit}');
SET ROLE regress_saver;
SELECT t.try($$SELECT taskq_schedule('w', 'every 1 day', 'flow', '{"region": 1}', options => '{"workflow": {"name": "closing"}}')$$);
RESET ROLE;
SELECT count(*) FROM taskq.schedules;
SELECT taskq_grant('flow', 'regress_saver', '{submit}');
SET ROLE regress_saver;
SELECT taskq_schedule('w ' || o, 'every 1 day', 'flow', '{"region": 1}', overlap => o,
    options => '{"workflow": {"name": "closing", "namespace": "default", "version": "1", "key": null}, "priority": 5, "headers": {"h": 1}, "correlation_id": "c"}') FROM unnest('{allow,skip,replace}'::text[]) o;
RESET ROLE;
BEGIN;
SELECT t.outage(name, '25 hours') FROM taskq.schedules;
SELECT t.fired(), t.fired();
COMMIT;
SELECT s.name, s.last_task_id, w.name AS workflow, w.state, f.headers - 'planned_at' AS headers, (f.headers ->> 'planned_at')::timestamptz = s.last_run AS planned, r.name AS started_by, w.correlation_id, w.priority
  FROM taskq.schedules s JOIN taskq.workflows w ON w.workflow_id = s.last_workflow_id JOIN taskq.workflow f USING (workflow_id) JOIN taskq.role r ON r.role_id = f.started_by ORDER BY s.name;
-- while it is live: by hand, and at the next planned time
CREATE TABLE t.flows AS SELECT name, last_workflow_id FROM taskq.schedules;
SELECT name, taskq_run_schedule(name) IS NULL AS skipped FROM t.flows ORDER BY name;
SELECT s.name, s.misses, w.state AS earlier, s.last_workflow_id = f.last_workflow_id AS same
  FROM taskq.schedules s JOIN t.flows f USING (name) JOIN taskq.workflows w ON w.workflow_id = f.last_workflow_id ORDER BY s.name;
-- the last step is running: it is asked to stop, and its instance has been cancelled
SELECT count(*) FROM taskq_claim('flow', 'w', max_tasks => 10);
SELECT taskq_run_schedule('w replace') IS NULL AS skipped;
SELECT count(*) FILTER (WHERE cancel_requested_at IS NOT NULL) AS asked_to_stop FROM taskq.tasks WHERE queue = 'flow' AND state = 'running';
-- it has ended
SELECT taskq_cancel_workflow(workflow_id) IS NOT NULL AS cancelled FROM taskq.workflows JOIN taskq.schedules ON workflow_id = last_workflow_id WHERE schedules.name = 'w skip';
SELECT taskq_run_schedule('w skip') IS NULL AS skipped;
-- a task instead; the right is taken away
SELECT taskq_schedule('w skip', 'every 1 day', 'flow', overlap => 'skip');
SELECT taskq_run_schedule('w skip') IS NULL AS skipped;
SELECT taskq_schedule('w skip', 'every 1 day', 'flow');
SELECT taskq_run_schedule('w skip') IS NULL AS skipped;
SELECT last_workflow_id, last_task_id IS NOT NULL AS task FROM taskq.schedules WHERE name = 'w skip';
SELECT taskq_revoke('flow', 'regress_saver', '{submit}'), taskq_revoke('cron', 'regress_saver', '{submit}');
BEGIN;
SELECT t.outage('w allow', '25 hours');
SELECT t.fired();
COMMIT;
SELECT name, problem FROM taskq.schedules WHERE name = 'w allow';
-- an instance with a key
SELECT taskq_schedule('w key', 'every 1 day', 'flow', '{"region": 1}', options => '{"workflow": {"name": "closing", "key": "k"}}');
SELECT taskq_run_schedule('w key') IS NULL AS skipped;
SELECT w.name, w.key FROM taskq.schedules s JOIN taskq.workflows w ON w.workflow_id = s.last_workflow_id WHERE s.name = 'w key';
SELECT count(taskq_unschedule(name)) FROM taskq.schedules;
SELECT * FROM taskq_check();
DROP ROLE regress_saver, regress_other;

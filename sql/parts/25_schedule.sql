/*
 * 25_schedule: schedules, which submit tasks at planned times.
 *
 * schedule/fire.c describes them.
 */
CREATE TABLE taskq.schedule (
    name pg_catalog.text NOT NULL COLLATE "C",
    plan pg_catalog.text NOT NULL,
    queue pg_catalog.text NOT NULL COLLATE "C",
    payload jsonb,
    timezone pg_catalog.text NOT NULL,
    overlap pg_catalog.text NOT NULL,
    catch_up pg_catalog.text NOT NULL,
    options jsonb,
    enabled boolean NOT NULL,
    role_id integer NOT NULL,
    anchor timestamp with time zone NOT NULL,
    position bigint NOT NULL,
    next_run timestamp with time zone,
    due_at timestamp with time zone,
    last_run timestamp with time zone,
    last_task_id bigint,
    misses bigint NOT NULL DEFAULT 0,
    problem pg_catalog.text,
    cron boolean NOT NULL DEFAULT false,
    job_id bigint,
    last_workflow_id bigint,
    CONSTRAINT schedule_pkey PRIMARY KEY (name)
);
CREATE INDEX schedule_due_idx ON taskq.schedule (due_at);
COMMENT ON TABLE taskq.schedule IS 'Schedules, which submit tasks at planned times';
COMMENT ON COLUMN taskq.schedule.name IS 'Name of the schedule';
COMMENT ON COLUMN taskq.schedule.plan IS 'Text that says when it fires, as given';
COMMENT ON COLUMN taskq.schedule.queue IS 'Queue of its tasks';
COMMENT ON COLUMN taskq.schedule.payload IS 'Payload of its tasks';
COMMENT ON COLUMN taskq.schedule.timezone IS 'Time zone of its planned times';
COMMENT ON COLUMN taskq.schedule.overlap IS 'What happens while an earlier task is live: allow, skip or replace';
COMMENT ON COLUMN taskq.schedule.catch_up IS 'Which missed planned times fire late: none, one or all';
COMMENT ON COLUMN taskq.schedule.options IS 'Further arguments of its tasks';
COMMENT ON COLUMN taskq.schedule.enabled IS 'Does it fire?';
COMMENT ON COLUMN taskq.schedule.role_id IS 'Role that saved it and submits its tasks';
COMMENT ON COLUMN taskq.schedule.anchor IS 'Time from which planned times are counted';
COMMENT ON COLUMN taskq.schedule.position IS 'Number of the next planned time; of a cron expression: minute since 2000 from which it may fire';
COMMENT ON COLUMN taskq.schedule.next_run IS 'Next planned time, or null if there is none';
COMMENT ON COLUMN taskq.schedule.due_at IS 'When it is tried next, later than next_run after a failure';
COMMENT ON COLUMN taskq.schedule.last_run IS 'Planned time that fired last';
COMMENT ON COLUMN taskq.schedule.last_task_id IS 'Task that was submitted last';
COMMENT ON COLUMN taskq.schedule.misses IS 'Number of planned times without a task';
COMMENT ON COLUMN taskq.schedule.problem IS 'Error of the last try, or null';
COMMENT ON COLUMN taskq.schedule.cron IS 'Is the plan a cron expression?';
COMMENT ON COLUMN taskq.schedule.job_id IS 'Job of pg_cron that fires it, or null';
COMMENT ON COLUMN taskq.schedule.last_workflow_id IS 'Instance that was started last, if it starts a workflow';
COMMENT ON CONSTRAINT schedule_pkey ON taskq.schedule IS 'One row for each schedule';
COMMENT ON INDEX taskq.schedule_due_idx IS 'Schedules that are due';

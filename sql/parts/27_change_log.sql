/*
 * 27_change_log: the log of changes to queues, rights, workers, schedules and
 * templates.
 *
 * Changes of tasks are in taskq.transition.  The view taskq.changes shows
 * these rows; maintenance/forget_change.c removes old ones.
 */
CREATE SEQUENCE taskq.change_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.change_id_seq IS 'Numbers of taskq.change_log';

CREATE TABLE taskq.change_log (
    change_id bigint NOT NULL DEFAULT pg_catalog.nextval('taskq.change_id_seq'),
    at timestamp with time zone NOT NULL,
    role_id integer NOT NULL,
    actor pg_catalog.text,
    what pg_catalog.text NOT NULL COLLATE "C",
    queue pg_catalog.text COLLATE "C",
    object pg_catalog.text NOT NULL COLLATE "C",
    detail jsonb,
    reason pg_catalog.text,
    CONSTRAINT change_log_pkey PRIMARY KEY (change_id)
);
COMMENT ON TABLE taskq.change_log IS 'Changes to queues, rights, workers, schedules and templates';
COMMENT ON COLUMN taskq.change_log.change_id IS 'Number of the row';
COMMENT ON COLUMN taskq.change_log.at IS 'When the change was made';
COMMENT ON COLUMN taskq.change_log.role_id IS 'Role that made the change';
COMMENT ON COLUMN taskq.change_log.actor IS 'Setting taskq.actor of the session that made the change; null if it was not set';
COMMENT ON COLUMN taskq.change_log.what IS 'Name of the function that made the change, without taskq_';
COMMENT ON COLUMN taskq.change_log.queue IS 'Name of the queue that the change concerns, or *; null if it concerns no queue';
COMMENT ON COLUMN taskq.change_log.object IS 'Name of the queue, worker, schedule, template or database that was changed';
COMMENT ON COLUMN taskq.change_log.detail IS 'What was changed, or how many tasks';
COMMENT ON COLUMN taskq.change_log.reason IS 'Reason that the caller gave';
COMMENT ON CONSTRAINT change_log_pkey ON taskq.change_log IS 'The order of the changes';

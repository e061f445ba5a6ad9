/*
 * 48_schedule: schedules.
 */
CREATE FUNCTION taskq_schedule(
    name text,
    schedule text,
    queue text,
    payload jsonb DEFAULT NULL,
    timezone text DEFAULT 'UTC',
    overlap text DEFAULT 'allow',
    catch_up text DEFAULT NULL,
    options jsonb DEFAULT NULL,
    enabled boolean DEFAULT true,
    reason text DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_schedule';
COMMENT ON FUNCTION taskq_schedule(text, text, text, jsonb, text, text, text, jsonb, boolean, text) IS
    'Saves a schedule, which submits a task at each planned time, or replaces it; requires submit on the queue';

CREATE FUNCTION taskq_unschedule(name text, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_unschedule';
COMMENT ON FUNCTION taskq_unschedule(text, text) IS
    'Removes a schedule; returns false if there is none; requires the owner''s privileges or manage on the queue';

CREATE FUNCTION taskq_run_schedule(name text, reason text DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_run_schedule';
COMMENT ON FUNCTION taskq_run_schedule(text, text) IS
    'Submits a task of a schedule now and returns its id, or null if overlap skips it; requires the owner''s privileges or manage on the queue';

CREATE FUNCTION taskq_preview_schedule(
    schedule text,
    timezone text DEFAULT 'UTC',
    anchor timestamp with time zone DEFAULT NULL,
    after timestamp with time zone DEFAULT NULL,
    max_rows integer DEFAULT 10
) RETURNS SETOF timestamp with time zone
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_preview_schedule';
COMMENT ON FUNCTION taskq_preview_schedule(text, text, timestamp with time zone, timestamp with time zone, integer) IS
    'Returns the next planned times of a schedule that was saved at the given time, and saves nothing';

CREATE FUNCTION taskq.fire_cron(name text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_fire_cron';
COMMENT ON FUNCTION taskq.fire_cron(text) IS
    'Fires a schedule with a cron expression for the current minute; called by jobs of pg_cron';

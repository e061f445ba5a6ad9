/*
 * 85_debug: the test build only.
 */
CREATE FUNCTION taskq.debug_wipe() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_wipe';
COMMENT ON FUNCTION taskq.debug_wipe() IS 'Loses all of the extension''s shared memory';

CREATE FUNCTION taskq.debug_move(task_id bigint, state text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_move';
COMMENT ON FUNCTION taskq.debug_move(bigint, text) IS 'Moves a task through the door';

CREATE FUNCTION taskq.debug_timers() RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_timers';
COMMENT ON FUNCTION taskq.debug_timers() IS 'How often the timer of due times has fired';

CREATE FUNCTION taskq.debug_registry(OUT entries integer, OUT complete boolean) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_registry';
COMMENT ON FUNCTION taskq.debug_registry() IS 'Entries of the registry of running tasks, and whether it is complete';

CREATE FUNCTION taskq.debug_backoff(options jsonb, attempt integer, chance double precision) RETURNS interval
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_backoff';
COMMENT ON FUNCTION taskq.debug_backoff(jsonb, integer, double precision) IS 'The wait after a failed attempt, for a chance from 0 to 1';

CREATE FUNCTION taskq.debug_reasons(OUT name text, OUT given bigint) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_reasons';
COMMENT ON FUNCTION taskq.debug_reasons() IS 'Every reason that taskq_explain and taskq_explain_claim know, and how often this session gave it';

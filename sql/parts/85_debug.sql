/*
 * 85_debug: functions that only the test build has.
 */
CREATE FUNCTION taskq.debug_wipe() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_wipe';
COMMENT ON FUNCTION taskq.debug_wipe() IS 'Clears all of the extension''s shared memory';

CREATE FUNCTION taskq.debug_move(task_id bigint, state text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_move';
COMMENT ON FUNCTION taskq.debug_move(bigint, text) IS 'Moves a task by tq_state_enter';

CREATE FUNCTION taskq.debug_timers() RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_timers';
COMMENT ON FUNCTION taskq.debug_timers() IS 'How often the timer of due times has fired';

CREATE FUNCTION taskq.debug_registry(OUT entries integer, OUT complete boolean) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_registry';
COMMENT ON FUNCTION taskq.debug_registry() IS 'Number of entries in the table of running tasks, and whether the table is complete';

CREATE FUNCTION taskq.debug_backoff(options jsonb, attempt integer, chance double precision) RETURNS interval
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_backoff';
COMMENT ON FUNCTION taskq.debug_backoff(jsonb, integer, double precision) IS 'The wait after a failed attempt, for a random number from 0 to 1';

CREATE FUNCTION taskq.debug_reasons(OUT name text, OUT given bigint) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_reasons';
COMMENT ON FUNCTION taskq.debug_reasons() IS 'Every reason that taskq_explain and taskq_explain_claim can return, and how often they did in this session';

CREATE FUNCTION taskq.debug_range_moment() RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_range_moment';
COMMENT ON FUNCTION taskq.debug_range_moment() IS 'The number of the last lower';

CREATE FUNCTION taskq.debug_range_learn(lane_id bigint, priority integer, lo_at timestamptz, lo_id bigint,
                                        hi_at timestamptz, hi_id bigint, moment bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_range_learn';
COMMENT ON FUNCTION taskq.debug_range_learn(bigint, integer, timestamptz, bigint, timestamptz, bigint, bigint) IS
    'Records, without a check, that no task between two positions can be claimed';

CREATE FUNCTION taskq.debug_range_lower(lane_id bigint, priority integer, at timestamptz, id bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_range_lower';
COMMENT ON FUNCTION taskq.debug_range_lower(bigint, integer, timestamptz, bigint) IS
    'Records that a task can be claimed at a position';

CREATE FUNCTION taskq.debug_range_read(lane_id bigint, priority integer, OUT lo_at timestamptz, OUT lo_id bigint,
                                       OUT hi_at timestamptz, OUT hi_id bigint) RETURNS SETOF record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_range_read';
COMMENT ON FUNCTION taskq.debug_range_read(bigint, integer) IS 'The dead ranges of a lane and priority';

CREATE FUNCTION taskq.debug_range_learn_priorities(lane_id bigint, priorities smallint[], moment bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_range_learn_priorities';
COMMENT ON FUNCTION taskq.debug_range_learn_priorities(bigint, smallint[], bigint) IS
    'Records the priorities of a lane';

CREATE FUNCTION taskq.debug_range_priorities(lane_id bigint) RETURNS smallint[]
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_range_priorities';
COMMENT ON FUNCTION taskq.debug_range_priorities(bigint) IS 'The priorities of a lane; null if not known';
CREATE FUNCTION taskq.debug_waiters(OUT waiting integer, OUT sleeps bigint, OUT wakes bigint, OUT passed_on bigint) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_waiters';
COMMENT ON FUNCTION taskq.debug_waiters() IS 'Waiting sessions of this database, and how often all waiting sessions have slept, were woken, and passed on a wake';

CREATE FUNCTION taskq.debug_dead(task_id bigint) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_debug_dead';
COMMENT ON FUNCTION taskq.debug_dead(bigint) IS 'Makes claims skip a pending task, as an error in the dead ranges would';

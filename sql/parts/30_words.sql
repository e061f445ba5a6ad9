/*
 * 30_words: the version, and the names of numbered states and reasons.
 */
CREATE FUNCTION taskq_version() RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_version';
COMMENT ON FUNCTION taskq_version() IS 'Version of the loaded library';

CREATE FUNCTION taskq.state_name(state smallint) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_state_name';
COMMENT ON FUNCTION taskq.state_name(smallint) IS 'Name of a state';

CREATE FUNCTION taskq.reason_name(reason smallint) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_reason_name';
COMMENT ON FUNCTION taskq.reason_name(smallint) IS 'Name of a reason; null for 0';

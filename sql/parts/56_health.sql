/*
 * 56_health: health checks.
 */
CREATE FUNCTION taskq_health() RETURNS TABLE (check_name text, ok boolean, detail text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_health';
COMMENT ON FUNCTION taskq_health() IS
    'One row for each check, passed or not, with figures and what to do; needs manage on ''*'' or membership of pg_monitor';

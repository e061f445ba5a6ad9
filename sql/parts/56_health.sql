/*
 * 56_health: health checks.
 */
CREATE FUNCTION taskq_health() RETURNS TABLE (check_name text, ok boolean, detail text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_health';
COMMENT ON FUNCTION taskq_health() IS
    'One row for each check: whether it passed, with figures and what to do; requires manage on ''*'' or membership in pg_monitor';

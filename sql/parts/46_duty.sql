/*
 * 46_duty: work that the background worker does otherwise.
 */
CREATE FUNCTION taskq_run_reapers() RETURNS TABLE (reaper text, acted bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_run_reapers';
COMMENT ON FUNCTION taskq_run_reapers() IS
    'Runs one batch of each background duty in this transaction, and returns how many tasks each acted on; needs manage on ''*''';

CREATE FUNCTION taskq_activate() RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_activate';
COMMENT ON FUNCTION taskq_activate() IS
    'Enables duties in a restored or copied database, and looks up its roles again by their names; superuser only';

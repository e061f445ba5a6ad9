/*
 * 46_duty: duties on demand, and activation of a copied database.
 */
CREATE FUNCTION taskq_run_reapers() RETURNS TABLE (reaper text, acted bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_run_reapers';
COMMENT ON FUNCTION taskq_run_reapers() IS
    'Runs one batch of each background duty in this transaction, and returns for each the number of tasks on which it acted; requires manage on ''*''';

CREATE FUNCTION taskq_activate(reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_activate';
COMMENT ON FUNCTION taskq_activate(text) IS
    'Enables the duties in a restored or copied database, and looks up its roles again by their names; superuser only';

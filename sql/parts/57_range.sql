/*
 * 57_range: numbers on the dead ranges of the dispatch index.
 *
 * Reads only shared memory.  The owner of the extension and pg_monitor may
 * call it.
 */
CREATE FUNCTION taskq.range_numbers(
    OUT entries bigint, OUT ranges bigint, OUT learned bigint, OUT refused bigint,
    OUT lowered bigint, OUT evicted bigint, OUT audited bigint, OUT repaired bigint) RETURNS record
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_range_numbers';
COMMENT ON FUNCTION taskq.range_numbers() IS
    'Numbers of dead ranges of the dispatch index in shared memory, and how often ranges were recorded, refused, lowered, evicted, checked and repaired, in all databases since the start; null without preloading';

/*
 * 80_dump: what pg_dump includes.
 *
 * A dump includes all rows that users or the extension create at run time, and
 * the identity of the installation.  It does not include heartbeats and
 * progress, which are usually in memory only.  Nor does it include the number
 * of the current archive leaf: a copy begins with leaf 0, and its background
 * worker may have begun before the rows are loaded.
 */
DO $$
DECLARE
    item record;
BEGIN
    FOR item IN
        SELECT c.oid
          FROM pg_catalog.pg_class c
         WHERE c.relnamespace OPERATOR(pg_catalog.=) 'taskq'::pg_catalog.regnamespace
           AND (c.relkind OPERATOR(pg_catalog.=) 'S'
                OR c.relname OPERATOR(pg_catalog.=) ANY (ARRAY[
                   'instance', 'role', 'queue', 'lane', 'queue_grant',
                   'worker', 'task', 'key', 'doc', 'large', 'archive_keep',
                   'template', 'workflow', 'edge', 'signal', 'timer',
                   'schedule', 'change_log', 'operation',
                   'archive_00', 'archive_01', 'archive_02', 'archive_03',
                   'archive_04', 'archive_05', 'archive_06', 'archive_07',
                   'archive_08', 'archive_09', 'archive_10', 'archive_11',
                   'archive_12', 'archive_13', 'archive_14', 'archive_15',
                   'transition_00', 'transition_01', 'transition_02',
                   'transition_03', 'transition_04', 'transition_05',
                   'transition_06', 'transition_07', 'transition_08',
                   'transition_09', 'transition_10', 'transition_11',
                   'transition_12', 'transition_13', 'transition_14',
                   'transition_15'
                   ]::pg_catalog.name[]))
         ORDER BY c.relname
    LOOP
        PERFORM pg_catalog.pg_extension_config_dump(item.oid, '');
    END LOOP;
END
$$;

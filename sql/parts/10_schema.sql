/*
 * 10_schema: the schema of tables, types and views.
 *
 * Functions go into the schema that CREATE EXTENSION picked.  If that is taskq
 * itself, it existed before and remains the user's.  Otherwise the schema is
 * created here, or taken over if it is empty and belongs to the installing
 * role.
 */
DO $$
DECLARE
    found pg_catalog.oid;
BEGIN
    IF pg_catalog.current_schema() OPERATOR(pg_catalog.=) 'taskq' THEN
        RETURN;
    END IF;
    SELECT n.oid INTO found
      FROM pg_catalog.pg_namespace n
     WHERE n.nspname OPERATOR(pg_catalog.=) 'taskq';
    IF found IS NULL THEN
        CREATE SCHEMA taskq;
        COMMENT ON SCHEMA taskq IS
            'Tables, types and views of the task queue taskq';
        RETURN;
    END IF;
    IF (SELECT n.nspowner OPERATOR(pg_catalog.<>) r.oid
          FROM pg_catalog.pg_namespace n, pg_catalog.pg_roles r
         WHERE n.oid OPERATOR(pg_catalog.=) found
           AND r.rolname OPERATOR(pg_catalog.=) current_user)
       OR EXISTS (SELECT
                    FROM pg_catalog.pg_depend d
                   WHERE d.refclassid OPERATOR(pg_catalog.=)
                         'pg_catalog.pg_namespace'::pg_catalog.regclass
                     AND d.refobjid OPERATOR(pg_catalog.=) found)
    THEN
        RAISE EXCEPTION USING
            ERRCODE = 'duplicate_schema',
            MESSAGE = 'schema "taskq" exists and is not an empty schema of this role',
            HINT = 'Use CREATE EXTENSION taskq SCHEMA taskq, or drop the schema first.';
    END IF;
    ALTER EXTENSION taskq ADD SCHEMA taskq;
END
$$;

-- The extension exists, and every object of it has a comment.
BEGIN;
SELECT plan(2);
SELECT has_extension('taskq');
SELECT is_empty($$
    SELECT pg_describe_object(d.classid, d.objid, 0)
      FROM pg_depend d
      JOIN pg_extension e ON d.refobjid = e.oid AND e.extname = 'taskq'
     WHERE d.refclassid = 'pg_extension'::regclass
       AND d.deptype = 'e'
       AND d.classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
       AND obj_description(d.objid, d.classid::regclass::text::name) IS NULL
       AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = d.objid)
$$, 'every function, table, view and sequence has a comment');
SELECT * FROM finish();
ROLLBACK;

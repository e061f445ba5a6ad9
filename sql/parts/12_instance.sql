/*
 * 12_instance: the identity of this database, and roles.
 *
 * taskq.instance has one row in a database in which the extension was created.
 * The row is dumped, so a restored copy has two; a copy made by CREATE
 * DATABASE ... TEMPLATE has a row with another database's OID.  Background
 * processing is off in both until taskq_activate() is called.  A COPY into one
 * of the tables sets the row's OID to 0, because a dump may load other tables
 * before this one.
 */
CREATE TABLE taskq.instance (
    instance uuid NOT NULL,
    database_oid pg_catalog.oid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT instance_pkey PRIMARY KEY (instance)
);
COMMENT ON TABLE taskq.instance IS
    'Identity of this database; more than one row, or another OID, marks a copy that has not been activated';
COMMENT ON COLUMN taskq.instance.instance IS 'Random number of this installation';
COMMENT ON COLUMN taskq.instance.database_oid IS 'Database in which the row was created';
COMMENT ON COLUMN taskq.instance.created_at IS 'When the row was created';
COMMENT ON CONSTRAINT instance_pkey ON taskq.instance IS 'One row for each installation';

INSERT INTO taskq.instance (instance, database_oid, created_at)
SELECT pg_catalog.gen_random_uuid(), d.oid, pg_catalog.clock_timestamp()
  FROM pg_catalog.pg_database d
 WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database();

/* Rows of other tables refer to a role by its role_id. */
CREATE SEQUENCE taskq.role_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.role_id_seq IS
    'Numbers of taskq.role; after 2147483647 free numbers are reused, from 1 on';

CREATE TABLE taskq.role (
    role_id integer NOT NULL,
    name pg_catalog.text NOT NULL COLLATE "C",
    oid pg_catalog.oid NOT NULL,
    gone boolean NOT NULL DEFAULT false,
    CONSTRAINT role_pkey PRIMARY KEY (role_id),
    CONSTRAINT role_oid_key UNIQUE (oid)
);
COMMENT ON TABLE taskq.role IS
    'Roles named by tasks, queues, workers and grants; a dropped role keeps its row and has no privileges';
COMMENT ON COLUMN taskq.role.role_id IS 'Number by which other rows refer to the role';
COMMENT ON COLUMN taskq.role.name IS 'Name, kept current by the background worker';
COMMENT ON COLUMN taskq.role.oid IS 'OID in this cluster';
COMMENT ON COLUMN taskq.role.gone IS 'The role was dropped; a later role with its name is a different role';
COMMENT ON CONSTRAINT role_pkey ON taskq.role IS 'Looked up by number';
COMMENT ON CONSTRAINT role_oid_key ON taskq.role IS 'Looked up by OID; one row for each role';

/*
 * Role numbers in a copy are those of the original database, perhaps in
 * another cluster, until taskq_activate() has looked up the names.
 */
CREATE VIEW taskq.known_role AS
SELECT r.role_id, r.oid
  FROM taskq.role r
 WHERE NOT r.gone
   AND ((SELECT pg_catalog.count(*) OPERATOR(pg_catalog.=) 1
                AND pg_catalog.bool_and(i.database_oid OPERATOR(pg_catalog.=) d.oid)
           FROM taskq.instance i, pg_catalog.pg_database d
          WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
        OR EXISTS (SELECT FROM pg_catalog.pg_roles a
                    WHERE a.oid OPERATOR(pg_catalog.=) r.oid
                      AND a.rolname OPERATOR(pg_catalog.=) r.name));
COMMENT ON VIEW taskq.known_role IS
    'Roles whose OID is valid; in a copy that has not been activated, the role with that OID must also have the same name';

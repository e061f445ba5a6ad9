/*
 * 14_queue: queues, their lanes, and privileges on them.
 *
 * Row 0 of taskq.queue, named *, has the defaults and the pause switch of all
 * queues; it exists once one of these has been set.  Every change of these
 * tables is announced to all sessions by an invalidation of the empty table
 * taskq.queue_change.  Insertions of tasks hold ROW EXCLUSIVE on that table,
 * and drop_queue SHARE ROW EXCLUSIVE.
 */
CREATE TABLE taskq.queue_change ();
COMMENT ON TABLE taskq.queue_change IS
    'Always empty: its invalidation announces changes of queues, lanes and grants; its lock makes drop_queue wait for open transactions that submit';

CREATE SEQUENCE taskq.queue_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.queue_id_seq IS
    'Numbers of taskq.queue; after 2147483647 free numbers are reused, from 1 on';

CREATE TABLE taskq.queue (
    queue_id integer NOT NULL,
    name pg_catalog.text NOT NULL COLLATE "C",
    owner_role integer NOT NULL,
    options jsonb NOT NULL,
    paused_at timestamp with time zone,
    paused_until timestamp with time zone,
    pause_reason pg_catalog.text,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT queue_pkey PRIMARY KEY (queue_id),
    CONSTRAINT queue_name_key UNIQUE (name)
);
COMMENT ON TABLE taskq.queue IS 'Queues; row 0, named *, has the switch and the defaults of all queues';
COMMENT ON COLUMN taskq.queue.queue_id IS 'Number by which tasks refer to the queue';
COMMENT ON COLUMN taskq.queue.name IS 'Name, 1 to 200 bytes';
COMMENT ON COLUMN taskq.queue.owner_role IS 'Role that has all privileges on it';
COMMENT ON COLUMN taskq.queue.options IS 'Options that were set; others have their defaults';
COMMENT ON COLUMN taskq.queue.paused_at IS 'When the queue was paused; null if no pause is set';
COMMENT ON COLUMN taskq.queue.paused_until IS 'When the pause ends; null if it lasts until taskq_resume()';
COMMENT ON COLUMN taskq.queue.pause_reason IS 'Reason given for the pause';
COMMENT ON COLUMN taskq.queue.created_at IS 'When the queue was created';
COMMENT ON CONSTRAINT queue_pkey ON taskq.queue IS 'Looked up by number';
COMMENT ON CONSTRAINT queue_name_key ON taskq.queue IS 'Looked up by name; two sessions cannot create the same queue';

CREATE SEQUENCE taskq.lane_row_seq AS bigint;
COMMENT ON SEQUENCE taskq.lane_row_seq IS 'Numbers of rows of taskq.lane';

CREATE TABLE taskq.lane (
    lane_row bigint NOT NULL DEFAULT pg_catalog.nextval('taskq.lane_row_seq'),
    lane_id bigint NOT NULL,
    queue_id integer NOT NULL,
    tags pg_catalog.text[] NOT NULL,
    CONSTRAINT lane_pkey PRIMARY KEY (lane_row)
);
COMMENT ON TABLE taskq.lane IS
    'Sets of tags in use in a queue; not unique, so that producers never wait for each other';
COMMENT ON COLUMN taskq.lane.lane_row IS 'Number of the row';
COMMENT ON COLUMN taskq.lane.lane_id IS '64-bit hash of queue and sorted tags';
COMMENT ON COLUMN taskq.lane.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.lane.tags IS 'The set of tags, sorted';
COMMENT ON CONSTRAINT lane_pkey ON taskq.lane IS 'Replica identity';
CREATE INDEX lane_queue_idx ON taskq.lane (queue_id);
COMMENT ON INDEX taskq.lane_queue_idx IS 'Lanes of a queue, read when a session first uses the queue';

CREATE TABLE taskq.queue_grant (
    queue_id integer NOT NULL,
    role_id integer NOT NULL,
    rights integer NOT NULL,
    CONSTRAINT queue_grant_pkey PRIMARY KEY (queue_id, role_id)
);
COMMENT ON TABLE taskq.queue_grant IS 'Privileges of roles on queues; queue 0 means all queues, including later ones';
COMMENT ON COLUMN taskq.queue_grant.queue_id IS 'The queue, or 0';
COMMENT ON COLUMN taskq.queue_grant.role_id IS 'The role; 0 is PUBLIC';
COMMENT ON COLUMN taskq.queue_grant.rights IS 'Sum of 1 submit, 2 work, 4 read, 8 manage, 16 observe';
COMMENT ON CONSTRAINT queue_grant_pkey ON taskq.queue_grant IS 'One row for each queue and role';

/*
 * 16_worker: workers and labels.
 *
 * A registration is a row, so is a name that claims without registering (a
 * label).  Signs of life are in shared memory only.
 */
CREATE TABLE taskq.worker_change ();
COMMENT ON TABLE taskq.worker_change IS
    'Always empty: its invalidation announces registrations and deaths of workers';

CREATE SEQUENCE taskq.worker_id_seq AS integer;
COMMENT ON SEQUENCE taskq.worker_id_seq IS 'Numbers of taskq.worker';

CREATE TABLE taskq.worker (
    worker_id integer NOT NULL DEFAULT pg_catalog.nextval('taskq.worker_id_seq'),
    name pg_catalog.text NOT NULL COLLATE "C",
    state smallint NOT NULL,
    role_id integer NOT NULL,
    queues pg_catalog.text[],
    tags pg_catalog.text[] NOT NULL,
    info jsonb,
    registered_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    draining boolean NOT NULL DEFAULT false,
    max_running integer,
    CONSTRAINT worker_pkey PRIMARY KEY (worker_id)
);
COMMENT ON TABLE taskq.worker IS 'Registrations of workers, and labels of claims without one';
COMMENT ON COLUMN taskq.worker.worker_id IS 'Number by which tasks refer to this registration';
COMMENT ON COLUMN taskq.worker.name IS 'Name, 1 to 200 bytes';
COMMENT ON COLUMN taskq.worker.state IS '1 registered, 2 declared dead, 3 label, 4 deregistered or replaced';
COMMENT ON COLUMN taskq.worker.role_id IS 'Role that registered it';
COMMENT ON COLUMN taskq.worker.queues IS 'Queues that it claims from when it names none; null is all';
COMMENT ON COLUMN taskq.worker.tags IS 'Its capabilities';
COMMENT ON COLUMN taskq.worker.info IS 'What it says of itself';
COMMENT ON COLUMN taskq.worker.registered_at IS 'When the row was made';
COMMENT ON COLUMN taskq.worker.ended_at IS 'When it was declared dead or left';
COMMENT ON COLUMN taskq.worker.draining IS 'It gets no further tasks';
COMMENT ON COLUMN taskq.worker.max_running IS 'Tasks that it may hold at once; null is any number';
COMMENT ON CONSTRAINT worker_pkey ON taskq.worker IS 'Looked up by number';
CREATE UNIQUE INDEX worker_name_idx ON taskq.worker (name) WHERE state OPERATOR(pg_catalog.=) 1;
COMMENT ON INDEX taskq.worker_name_idx IS 'One living worker of a name';
CREATE INDEX worker_label_idx ON taskq.worker (name) WHERE state OPERATOR(pg_catalog.=) 3;
COMMENT ON INDEX taskq.worker_label_idx IS 'A label by its name; not unique, so that claims never wait for each other';
CREATE INDEX worker_past_idx ON taskq.worker (name, worker_id) WHERE state OPERATOR(pg_catalog.<>) 3;
COMMENT ON INDEX taskq.worker_past_idx IS 'The newest registration of a name: a dead worker is told so';

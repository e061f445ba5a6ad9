/*
 * 16_worker: workers and labels.
 *
 * Each registration has a row, and so has each label, the name of a worker
 * that claims without registering.  Heartbeats and progress are kept in shared
 * memory.  If the library is not preloaded, there is no shared memory, and
 * they are kept in worker_sign and task_sign.  No index has the columns that
 * these updates change, so that they are heap-only updates.
 */
CREATE TABLE taskq.worker_change ();
COMMENT ON TABLE taskq.worker_change IS
    'Always empty: its invalidation announces registrations and deaths of workers';

CREATE SEQUENCE taskq.worker_id_seq AS integer CYCLE;
COMMENT ON SEQUENCE taskq.worker_id_seq IS
    'Numbers of taskq.worker; after the last one free numbers are reused';

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
    bound_instance bigint,
    bound_session bigint,
    incarnation bigint,
    CONSTRAINT worker_pkey PRIMARY KEY (worker_id)
);
COMMENT ON TABLE taskq.worker IS 'Registrations of workers, and labels of claims without one';
COMMENT ON COLUMN taskq.worker.worker_id IS 'Number by which tasks refer to this registration';
COMMENT ON COLUMN taskq.worker.name IS 'Name, 1 to 200 bytes';
COMMENT ON COLUMN taskq.worker.state IS '1 registered, 2 declared dead, 3 label, 4 deregistered or replaced';
COMMENT ON COLUMN taskq.worker.role_id IS 'Role that registered it';
COMMENT ON COLUMN taskq.worker.queues IS 'Queues from which a claim that names no queue takes tasks; null means all';
COMMENT ON COLUMN taskq.worker.tags IS 'Tags of the worker: its capabilities';
COMMENT ON COLUMN taskq.worker.info IS 'Information that the worker gave about itself';
COMMENT ON COLUMN taskq.worker.registered_at IS 'When the row was created; for a label, when it was last used, to the hour';
COMMENT ON COLUMN taskq.worker.ended_at IS 'When it was declared dead, deregistered or replaced';
COMMENT ON COLUMN taskq.worker.draining IS 'Whether the worker is draining: it gets no further tasks';
COMMENT ON COLUMN taskq.worker.max_running IS 'Number of tasks that it may hold at the same time; null means any number';
COMMENT ON COLUMN taskq.worker.bound_instance IS 'Start of the server to which bound_session belongs; a binding made under another start has ended';
COMMENT ON COLUMN taskq.worker.bound_session IS 'Number of the connection that it is bound to; null if it is not bound';
COMMENT ON COLUMN taskq.worker.incarnation IS 'Number that distinguishes the process that registered it from other processes with the same name; null for a label';
COMMENT ON CONSTRAINT worker_pkey ON taskq.worker IS 'Looked up by number';
CREATE UNIQUE INDEX worker_name_idx ON taskq.worker (name) WHERE state OPERATOR(pg_catalog.=) @WORKER_ACTIVE@;
COMMENT ON INDEX taskq.worker_name_idx IS 'At most one live worker with a name';
CREATE INDEX worker_label_idx ON taskq.worker (name) WHERE state OPERATOR(pg_catalog.=) @WORKER_LABEL@;
COMMENT ON INDEX taskq.worker_label_idx IS 'Labels by name; not unique, so that claims never wait for each other';
CREATE INDEX worker_past_idx ON taskq.worker (name, registered_at) WHERE state OPERATOR(pg_catalog.<>) @WORKER_LABEL@;
COMMENT ON INDEX taskq.worker_past_idx IS 'Newest registration of a name, to report that the worker was declared dead';
CREATE INDEX worker_bound_idx ON taskq.worker (worker_id)
    WHERE state OPERATOR(pg_catalog.=) @WORKER_ACTIVE@ AND bound_session IS NOT NULL;
COMMENT ON INDEX taskq.worker_bound_idx IS 'Live bound workers, to find workers whose connection has closed';

CREATE SEQUENCE taskq.sign_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.sign_id_seq IS 'Numbers of taskq.worker_sign and taskq.task_sign';

CREATE TABLE taskq.worker_sign (
    sign_id bigint NOT NULL DEFAULT pg_catalog.nextval('taskq.sign_id_seq'),
    worker_id integer NOT NULL,
    turn integer NOT NULL DEFAULT 0,
    seen_at timestamp with time zone NOT NULL,
    CONSTRAINT worker_sign_pkey PRIMARY KEY (sign_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskq.worker_sign IS
    'Heartbeats of registered workers on a server that does not preload the library; if a worker has several rows, the newest one counts';
COMMENT ON COLUMN taskq.worker_sign.sign_id IS 'Number of the row';
COMMENT ON COLUMN taskq.worker_sign.worker_id IS 'The registration';
COMMENT ON COLUMN taskq.worker_sign.turn IS 'Number of its claims from all of its queues, which take the queues in turn';
COMMENT ON COLUMN taskq.worker_sign.seen_at IS 'When it last sent a heartbeat';
COMMENT ON CONSTRAINT worker_sign_pkey ON taskq.worker_sign IS 'Finds the row to update';
CREATE INDEX worker_sign_worker_idx ON taskq.worker_sign (worker_id);
COMMENT ON INDEX taskq.worker_sign_worker_idx IS 'The heartbeats of a worker';

CREATE TABLE taskq.task_sign (
    sign_id bigint NOT NULL DEFAULT pg_catalog.nextval('taskq.sign_id_seq'),
    task_id bigint NOT NULL,
    token bigint NOT NULL,
    told_at timestamp with time zone NOT NULL,
    progress real,
    message pg_catalog.text,
    CONSTRAINT task_sign_pkey PRIMARY KEY (sign_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskq.task_sign IS
    'Progress of running tasks on a server that does not preload the library; if a claim has several rows, the newest value that is not null counts';
COMMENT ON COLUMN taskq.task_sign.sign_id IS 'Number of the row';
COMMENT ON COLUMN taskq.task_sign.task_id IS 'The task';
COMMENT ON COLUMN taskq.task_sign.token IS 'Token of the claim';
COMMENT ON COLUMN taskq.task_sign.told_at IS 'When the progress was reported';
COMMENT ON COLUMN taskq.task_sign.progress IS '0 to 1; null if not reported';
COMMENT ON COLUMN taskq.task_sign.message IS 'Message of the worker; null if not reported';
COMMENT ON CONSTRAINT task_sign_pkey ON taskq.task_sign IS 'Finds the row to update';
CREATE INDEX task_sign_task_idx ON taskq.task_sign (task_id);
COMMENT ON INDEX taskq.task_sign_task_idx IS 'The progress of a task';

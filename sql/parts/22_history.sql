/*
 * 22_history: each change of a task's state, in queues with the option
 * history, and each manual change of a task, in all queues.
 *
 * Sixteen leaves rotate together with those of the archive.  The view
 * taskq.history shows these rows to roles that may read the queue.
 */
CREATE SEQUENCE taskq.transition_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.transition_id_seq IS 'Numbers of taskq.transition';

CREATE TABLE taskq.transition (
    transition_id bigint NOT NULL DEFAULT pg_catalog.nextval('taskq.transition_id_seq'),
    bucket smallint NOT NULL,
    task_id bigint NOT NULL,
    queue_id integer NOT NULL,
    at timestamp with time zone NOT NULL,
    from_state smallint NOT NULL,
    to_state smallint NOT NULL,
    reason smallint NOT NULL,
    attempt integer NOT NULL,
    token bigint NOT NULL,
    worker_id integer NOT NULL,
    role_id integer NOT NULL,
    message pg_catalog.text,
    actor pg_catalog.text
) PARTITION BY LIST (bucket);
COMMENT ON TABLE taskq.transition IS 'Changes of the states of tasks, and manual changes';
COMMENT ON COLUMN taskq.transition.transition_id IS 'Number of the row, in the order of changes of one task';
COMMENT ON COLUMN taskq.transition.bucket IS 'Number of the leaf';
COMMENT ON COLUMN taskq.transition.task_id IS 'The task';
COMMENT ON COLUMN taskq.transition.queue_id IS 'Its queue';
COMMENT ON COLUMN taskq.transition.at IS 'When the task was changed';
COMMENT ON COLUMN taskq.transition.from_state IS 'State before the change; 0 if the task was submitted';
COMMENT ON COLUMN taskq.transition.to_state IS 'State after the change, the same as before if a manual change leaves it; 0 if the task was deleted, or the step was removed because the choice that created it was undone';
COMMENT ON COLUMN taskq.transition.reason IS 'Code of the reason; 0 if the change has no reason';
COMMENT ON COLUMN taskq.transition.attempt IS 'Number of attempts that had begun';
COMMENT ON COLUMN taskq.transition.token IS 'Fencing token of the newest claim';
COMMENT ON COLUMN taskq.transition.worker_id IS 'Worker that holds the task, or held it when it finished; 0 if there is no worker';
COMMENT ON COLUMN taskq.transition.role_id IS 'Role that made the change';
COMMENT ON COLUMN taskq.transition.message IS 'Message of the change';
COMMENT ON COLUMN taskq.transition.actor IS 'Setting taskq.actor of the session that made the change; null if it was not set';

CREATE TABLE taskq.transition_00 PARTITION OF taskq.transition
    (CONSTRAINT transition_00_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (0);
COMMENT ON TABLE taskq.transition_00 IS 'Changes of states, leaf 0 of 16 that rotate';
COMMENT ON CONSTRAINT transition_00_pkey ON taskq.transition_00 IS 'Replica identity';
CREATE TABLE taskq.transition_01 PARTITION OF taskq.transition
    (CONSTRAINT transition_01_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (1);
COMMENT ON TABLE taskq.transition_01 IS 'Changes of states, leaf 1 of 16 that rotate';
COMMENT ON CONSTRAINT transition_01_pkey ON taskq.transition_01 IS 'Replica identity';
CREATE TABLE taskq.transition_02 PARTITION OF taskq.transition
    (CONSTRAINT transition_02_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (2);
COMMENT ON TABLE taskq.transition_02 IS 'Changes of states, leaf 2 of 16 that rotate';
COMMENT ON CONSTRAINT transition_02_pkey ON taskq.transition_02 IS 'Replica identity';
CREATE TABLE taskq.transition_03 PARTITION OF taskq.transition
    (CONSTRAINT transition_03_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (3);
COMMENT ON TABLE taskq.transition_03 IS 'Changes of states, leaf 3 of 16 that rotate';
COMMENT ON CONSTRAINT transition_03_pkey ON taskq.transition_03 IS 'Replica identity';
CREATE TABLE taskq.transition_04 PARTITION OF taskq.transition
    (CONSTRAINT transition_04_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (4);
COMMENT ON TABLE taskq.transition_04 IS 'Changes of states, leaf 4 of 16 that rotate';
COMMENT ON CONSTRAINT transition_04_pkey ON taskq.transition_04 IS 'Replica identity';
CREATE TABLE taskq.transition_05 PARTITION OF taskq.transition
    (CONSTRAINT transition_05_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (5);
COMMENT ON TABLE taskq.transition_05 IS 'Changes of states, leaf 5 of 16 that rotate';
COMMENT ON CONSTRAINT transition_05_pkey ON taskq.transition_05 IS 'Replica identity';
CREATE TABLE taskq.transition_06 PARTITION OF taskq.transition
    (CONSTRAINT transition_06_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (6);
COMMENT ON TABLE taskq.transition_06 IS 'Changes of states, leaf 6 of 16 that rotate';
COMMENT ON CONSTRAINT transition_06_pkey ON taskq.transition_06 IS 'Replica identity';
CREATE TABLE taskq.transition_07 PARTITION OF taskq.transition
    (CONSTRAINT transition_07_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (7);
COMMENT ON TABLE taskq.transition_07 IS 'Changes of states, leaf 7 of 16 that rotate';
COMMENT ON CONSTRAINT transition_07_pkey ON taskq.transition_07 IS 'Replica identity';
CREATE TABLE taskq.transition_08 PARTITION OF taskq.transition
    (CONSTRAINT transition_08_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (8);
COMMENT ON TABLE taskq.transition_08 IS 'Changes of states, leaf 8 of 16 that rotate';
COMMENT ON CONSTRAINT transition_08_pkey ON taskq.transition_08 IS 'Replica identity';
CREATE TABLE taskq.transition_09 PARTITION OF taskq.transition
    (CONSTRAINT transition_09_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (9);
COMMENT ON TABLE taskq.transition_09 IS 'Changes of states, leaf 9 of 16 that rotate';
COMMENT ON CONSTRAINT transition_09_pkey ON taskq.transition_09 IS 'Replica identity';
CREATE TABLE taskq.transition_10 PARTITION OF taskq.transition
    (CONSTRAINT transition_10_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (10);
COMMENT ON TABLE taskq.transition_10 IS 'Changes of states, leaf 10 of 16 that rotate';
COMMENT ON CONSTRAINT transition_10_pkey ON taskq.transition_10 IS 'Replica identity';
CREATE TABLE taskq.transition_11 PARTITION OF taskq.transition
    (CONSTRAINT transition_11_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (11);
COMMENT ON TABLE taskq.transition_11 IS 'Changes of states, leaf 11 of 16 that rotate';
COMMENT ON CONSTRAINT transition_11_pkey ON taskq.transition_11 IS 'Replica identity';
CREATE TABLE taskq.transition_12 PARTITION OF taskq.transition
    (CONSTRAINT transition_12_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (12);
COMMENT ON TABLE taskq.transition_12 IS 'Changes of states, leaf 12 of 16 that rotate';
COMMENT ON CONSTRAINT transition_12_pkey ON taskq.transition_12 IS 'Replica identity';
CREATE TABLE taskq.transition_13 PARTITION OF taskq.transition
    (CONSTRAINT transition_13_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (13);
COMMENT ON TABLE taskq.transition_13 IS 'Changes of states, leaf 13 of 16 that rotate';
COMMENT ON CONSTRAINT transition_13_pkey ON taskq.transition_13 IS 'Replica identity';
CREATE TABLE taskq.transition_14 PARTITION OF taskq.transition
    (CONSTRAINT transition_14_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (14);
COMMENT ON TABLE taskq.transition_14 IS 'Changes of states, leaf 14 of 16 that rotate';
COMMENT ON CONSTRAINT transition_14_pkey ON taskq.transition_14 IS 'Replica identity';
CREATE TABLE taskq.transition_15 PARTITION OF taskq.transition
    (CONSTRAINT transition_15_pkey PRIMARY KEY (transition_id))
    FOR VALUES IN (15);
COMMENT ON TABLE taskq.transition_15 IS 'Changes of states, leaf 15 of 16 that rotate';
COMMENT ON CONSTRAINT transition_15_pkey ON taskq.transition_15 IS 'Replica identity';

CREATE INDEX transition_task_idx ON taskq.transition (task_id, transition_id);
COMMENT ON INDEX taskq.transition_task_idx IS 'The changes of one task';
CREATE INDEX transition_at_idx ON taskq.transition (at);
COMMENT ON INDEX taskq.transition_at_idx IS 'Time of a leaf''s newest row';

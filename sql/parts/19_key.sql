/*
 * 19_key: the keys of tasks whose order matters.
 *
 * A row is the mutex of its key: a transaction that adds a task of the key to
 * the line or removes one locks it, a claim never does.  engine/key.c describes
 * it, keyed/key_queue.c the line.
 */
CREATE TABLE taskq.key (
    queue_id integer NOT NULL,
    key pg_catalog.text NOT NULL COLLATE "C",
    astray bigint[],
    CONSTRAINT key_pkey PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);
COMMENT ON TABLE taskq.key IS 'Keys whose tasks wait for each other; a row is locked, seldom changed';
COMMENT ON COLUMN taskq.key.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.key.key IS 'The key';
COMMENT ON COLUMN taskq.key.astray IS
    'Tasks that may be pending or running although a blocked one comes before them';
COMMENT ON CONSTRAINT key_pkey ON taskq.key IS 'The row of a key';

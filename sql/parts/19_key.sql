/*
 * 19_key: the keys of tasks whose order matters.
 *
 * A row is the mutex of its key: a transaction that adds a task to the key
 * queue or removes one locks it, but a claim never does. engine/key.c
 * describes the row, keyed/key_queue.c the key queue.
 */
CREATE TABLE taskq.key (
    queue_id integer NOT NULL,
    key pg_catalog.text NOT NULL COLLATE "C",
    out_of_order bigint[],
    CONSTRAINT key_pkey PRIMARY KEY (queue_id, key)
) WITH (fillfactor = 70);
COMMENT ON TABLE taskq.key IS 'Keys whose tasks wait for each other; rows are locked, but rarely updated';
COMMENT ON COLUMN taskq.key.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.key.key IS 'The key';
COMMENT ON COLUMN taskq.key.out_of_order IS
    'Tasks that may be pending or running although a blocked task precedes them';
COMMENT ON CONSTRAINT key_pkey ON taskq.key IS 'Looked up by queue and key; one row for each key';

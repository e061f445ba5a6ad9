/*
 * 28_operation: operations on all tasks that match a filter.
 *
 * operation/operation_run.c describes them.
 */
CREATE SEQUENCE taskq.operation_id_seq AS bigint;
COMMENT ON SEQUENCE taskq.operation_id_seq IS 'Numbers of operations';

CREATE TABLE taskq.operation (
    operation_id bigint NOT NULL,
    action pg_catalog.text NOT NULL,
    queue_id integer NOT NULL,
    queue pg_catalog.text NOT NULL COLLATE "C",
    filter jsonb,
    role_id integer NOT NULL,
    actor pg_catalog.text,
    reason pg_catalog.text,
    dry_run boolean NOT NULL,
    batch_size integer NOT NULL,
    state pg_catalog.text NOT NULL,
    counted bigint NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    refused bigint NOT NULL DEFAULT 0,
    examples jsonb NOT NULL DEFAULT '[]',
    examined bigint NOT NULL DEFAULT 0,
    position bigint NOT NULL,
    last_id bigint NOT NULL,
    called_at timestamp with time zone NOT NULL,
    called_at_dispatch timestamp with time zone NOT NULL,
    xid_before bigint NOT NULL,
    system_id bigint NOT NULL,
    due_at timestamp with time zone,
    tries integer NOT NULL DEFAULT 0,
    waits integer NOT NULL DEFAULT 0,
    started_at timestamp with time zone,
    last_batch_at timestamp with time zone,
    finished_at timestamp with time zone,
    error pg_catalog.text,
    CONSTRAINT operation_pkey PRIMARY KEY (operation_id)
) WITH (fillfactor = 50);
CREATE INDEX operation_live_idx ON taskq.operation (operation_id) WHERE finished_at IS NULL;
COMMENT ON TABLE taskq.operation IS 'Operations on all tasks that match a filter';
COMMENT ON COLUMN taskq.operation.operation_id IS 'Number of the operation';
COMMENT ON COLUMN taskq.operation.action IS 'What is done with each task';
COMMENT ON COLUMN taskq.operation.queue_id IS 'Queue of the tasks';
COMMENT ON COLUMN taskq.operation.queue IS 'Its name at the call';
COMMENT ON COLUMN taskq.operation.filter IS 'Filter that the tasks match, as given';
COMMENT ON COLUMN taskq.operation.role_id IS 'Role that called taskq_manage_where()';
COMMENT ON COLUMN taskq.operation.actor IS 'Actor that it claimed, or null';
COMMENT ON COLUMN taskq.operation.reason IS 'Reason, as given';
COMMENT ON COLUMN taskq.operation.dry_run IS 'Are the tasks only counted?';
COMMENT ON COLUMN taskq.operation.batch_size IS 'Maximum number of tasks that one transaction changes';
COMMENT ON COLUMN taskq.operation.state IS 'pending, running, paused, done, cancelled or failed';
COMMENT ON COLUMN taskq.operation.counted IS 'Number of its tasks found so far';
COMMENT ON COLUMN taskq.operation.done IS 'Number of tasks changed so far';
COMMENT ON COLUMN taskq.operation.refused IS 'Number of tasks that could not be changed';
COMMENT ON COLUMN taskq.operation.examples IS 'The first of these tasks, with their SQLSTATEs';
COMMENT ON COLUMN taskq.operation.examined IS 'Number of tasks examined so far';
COMMENT ON COLUMN taskq.operation.position IS 'Last id that was processed';
COMMENT ON COLUMN taskq.operation.last_id IS 'Largest id at the call';
COMMENT ON COLUMN taskq.operation.called_at IS 'Time of the call';
COMMENT ON COLUMN taskq.operation.called_at_dispatch IS 'The same on the dispatch clock';
COMMENT ON COLUMN taskq.operation.xid_before IS 'Transactions with lower numbers had ended at the call';
COMMENT ON COLUMN taskq.operation.system_id IS 'System identifier of the server to which these numbers belong';
COMMENT ON COLUMN taskq.operation.due_at IS 'When its next batch is due, on the dispatch clock; null if it is paused or has ended';
COMMENT ON COLUMN taskq.operation.tries IS 'Number of failed batches in succession';
COMMENT ON COLUMN taskq.operation.waits IS 'How often it has paused for tasks that other transactions had locked';
COMMENT ON COLUMN taskq.operation.started_at IS 'When its first batch began';
COMMENT ON COLUMN taskq.operation.last_batch_at IS 'When its last batch began';
COMMENT ON COLUMN taskq.operation.finished_at IS 'When it ended';
COMMENT ON COLUMN taskq.operation.error IS 'Error of the last batch, or of the batch that ended it';
COMMENT ON CONSTRAINT operation_pkey ON taskq.operation IS 'One row for each operation';
COMMENT ON INDEX taskq.operation_live_idx IS 'Operations that have not ended; no batch changes its columns';

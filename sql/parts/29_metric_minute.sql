/*
 * 29_metric_minute: the numbers of each queue, minute by minute, for a day.
 *
 * The background worker writes the rows of one minute in one statement.  A row
 * is overwritten 1,500 minutes later, so the table has at most that number of
 * rows for each queue: those of a day, and of an hour before it, since minutes
 * in which nothing happened follow from an earlier row.  Half of each page is left free, since the rows of a page belong to
 * the same minute and are overwritten together.
 *
 * Not logged: a crash empties the table, as it resets the counters.
 */
CREATE UNLOGGED TABLE taskq.metric_minute (
    queue_id integer NOT NULL,
    slot smallint NOT NULL,
    at timestamp with time zone NOT NULL,
    submitted integer,
    claimed integer,
    completed integer,
    failed integer,
    dead integer,
    ready bigint NOT NULL,
    running bigint NOT NULL,
    oldest_ready_age real,
    wait_p50 real,
    wait_p95 real,
    run_p50 real,
    run_p95 real,
    quiet smallint NOT NULL DEFAULT 0,
    CONSTRAINT metric_minute_pkey PRIMARY KEY (slot, queue_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE taskq.metric_minute IS 'Numbers of each queue in each minute of the last day; empty after a crash';
COMMENT ON COLUMN taskq.metric_minute.queue_id IS 'The queue';
COMMENT ON COLUMN taskq.metric_minute.slot IS 'Place in the ring: number of the minute since 2000, modulo 1,500';
COMMENT ON COLUMN taskq.metric_minute.at IS 'Begin of the minute';
COMMENT ON COLUMN taskq.metric_minute.submitted IS 'Tasks that were created; as the next four, null if not known';
COMMENT ON COLUMN taskq.metric_minute.claimed IS 'Claims';
COMMENT ON COLUMN taskq.metric_minute.completed IS 'Attempts that a worker completed';
COMMENT ON COLUMN taskq.metric_minute.failed IS 'Attempts that failed';
COMMENT ON COLUMN taskq.metric_minute.dead IS 'Tasks that became dead';
COMMENT ON COLUMN taskq.metric_minute.ready IS 'Ready tasks at the end of the minute';
COMMENT ON COLUMN taskq.metric_minute.running IS 'Running tasks at the end of the minute';
COMMENT ON COLUMN taskq.metric_minute.oldest_ready_age IS 'Age of the oldest ready task at the end of the minute, seconds; null if no task was ready';
COMMENT ON COLUMN taskq.metric_minute.wait_p50 IS 'Median of the times from due to claim, seconds; null if there was no claim';
COMMENT ON COLUMN taskq.metric_minute.wait_p95 IS 'Their 95th percentile';
COMMENT ON COLUMN taskq.metric_minute.run_p50 IS 'Median of the lengths of attempts, seconds; null if none ended';
COMMENT ON COLUMN taskq.metric_minute.run_p95 IS 'Their 95th percentile';
COMMENT ON COLUMN taskq.metric_minute.quiet IS 'Number of the minutes after this one that have no row, because nothing happened in them';
COMMENT ON CONSTRAINT metric_minute_pkey ON taskq.metric_minute IS 'Finds the row to overwrite, and those of a queue';

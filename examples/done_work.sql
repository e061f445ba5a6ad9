-- The table for the results of the example workers.  The primary key makes a
-- task's result unique.  A worker writes it in the transaction that completes
-- the task, so it appears exactly once.
CREATE TABLE done_work (
    task_id bigint PRIMARY KEY,
    n       bigint NOT NULL,
    square  numeric NOT NULL,
    worker  text NOT NULL
);

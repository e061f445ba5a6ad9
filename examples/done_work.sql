-- Where the example workers write their results.  The key is what makes a
-- task's result unique; that it is written in the transaction which completes
-- the task is what makes it appear exactly once.
CREATE TABLE done_work (
    task_id bigint PRIMARY KEY,
    n       bigint NOT NULL,
    square  numeric NOT NULL,
    worker  text NOT NULL
);

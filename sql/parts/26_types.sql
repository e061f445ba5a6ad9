/*
 * 26_types: rows that functions return.
 */
CREATE TYPE taskq.claimed AS (
    task_id bigint,
    token bigint,
    queue pg_catalog.text,
    payload jsonb,
    data bytea,
    attempt integer,
    max_attempts integer,
    priority integer,
    key pg_catalog.text,
    reference pg_catalog.text,
    tags pg_catalog.text[],
    headers jsonb,
    correlation_id pg_catalog.text,
    checkpoint jsonb,
    created_at timestamp with time zone,
    run_at timestamp with time zone,
    deadline timestamp with time zone,
    lease_until timestamp with time zone,
    workflow_id bigint,
    workflow pg_catalog.text,
    step pg_catalog.text,
    handler pg_catalog.text,
    config jsonb,
    input jsonb,
    dependency_results jsonb
);
COMMENT ON TYPE taskq.claimed IS 'A task as returned by taskq_claim';

CREATE TYPE taskq.heartbeat AS (
    state pg_catalog.text,
    cancel bigint[],
    drain boolean,
    next_in interval,
    incarnation bigint
);
COMMENT ON TYPE taskq.heartbeat IS 'Result of taskq_heartbeat: state, tasks to stop, whether to drain, when to send the next heartbeat, and the incarnation of the registered process';

CREATE TYPE taskq.task_info AS (
    task_id bigint,
    queue pg_catalog.text,
    state pg_catalog.text,
    reason pg_catalog.text,
    message pg_catalog.text,
    priority integer,
    attempt integer,
    max_attempts integer,
    token bigint,
    version bigint,
    key pg_catalog.text,
    reference pg_catalog.text,
    tags pg_catalog.text[],
    payload jsonb,
    data bytea,
    headers jsonb,
    correlation_id pg_catalog.text,
    result jsonb,
    error pg_catalog.text,
    errors jsonb,
    checkpoint jsonb,
    progress real,
    worker pg_catalog.text,
    created_at timestamp with time zone,
    run_at timestamp with time zone,
    deadline timestamp with time zone,
    claimed_at timestamp with time zone,
    lease_until timestamp with time zone,
    finished_at timestamp with time zone,
    cancel_requested_at timestamp with time zone,
    submitted_by pg_catalog.text,
    run_as pg_catalog.text,
    descent pg_catalog.text,
    recreated_as bigint,
    workflow_id bigint,
    step pg_catalog.text
);
COMMENT ON TYPE taskq.task_info IS 'A task, live or finished, as taskq_get and taskq_list show it; the view taskq.tasks has the same columns';

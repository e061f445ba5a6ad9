/*
 * 45_ordered: tasks of one key, changes of several tasks, documents, and
 * counts.
 */
CREATE FUNCTION taskq_worst_outcome(outcomes text[]) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_worst_outcome';
COMMENT ON FUNCTION taskq_worst_outcome(text[]) IS
    'The worst of several outcomes: the first of fail, suspend, filter and complete that is among them; null for an empty list';

CREATE FUNCTION taskq_junction(
    queue text,
    keys text[],
    mode text DEFAULT 'singular',
    reason text DEFAULT NULL
) RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_junction';
COMMENT ON FUNCTION taskq_junction(text, text[], text, text) IS
    'Makes all suspended tasks of the keys pending and returns their ids, if each key has a suspended task (singular) or ever had a task (eternal); otherwise returns no rows';

CREATE FUNCTION taskq_change(
    worker text,
    adds jsonb DEFAULT '[]',
    updates jsonb DEFAULT '[]',
    deletes jsonb DEFAULT '[]',
    depends jsonb DEFAULT '[]',
    doc_adds jsonb DEFAULT '[]',
    doc_updates jsonb DEFAULT '[]',
    doc_deletes jsonb DEFAULT '[]',
    doc_depends jsonb DEFAULT '[]',
    reason text DEFAULT NULL
) RETURNS SETOF taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_change';
COMMENT ON FUNCTION taskq_change(text, jsonb, jsonb, jsonb, jsonb, jsonb, jsonb, jsonb, jsonb, text) IS
    'Adds, updates and deletes tasks and documents if all have the versions that the caller names, and otherwise raises TQ010, which lists every problem; returns the added tasks and then the updated tasks, in the given order';

CREATE FUNCTION taskq_claim_one(
    worker text,
    queues text[],
    lease interval,
    depends jsonb DEFAULT '[]',
    wait interval DEFAULT '0'
) RETURNS SETOF taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_claim_one';
COMMENT ON FUNCTION taskq_claim_one(text, text[], interval, jsonb, interval) IS
    'Claims one task of the queues, or returns no row if no task can be claimed; raises TQ010 if a task on which the call depends has changed; with lease 0 the task stays claimable';

CREATE FUNCTION taskq_claim_docs(
    worker text,
    namespace text,
    key text,
    lease interval
) RETURNS SETOF taskq.doc
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_claim_docs';
COMMENT ON FUNCTION taskq_claim_docs(text, text, text, interval) IS
    'Claims all documents of a key, renews the claim, or with lease 0 releases them; if other workers hold any of them, raises TQ010, which lists these workers';

CREATE FUNCTION taskq_count(
    queue text DEFAULT NULL,
    mode text DEFAULT 'total',
    state text DEFAULT NULL,
    reference text DEFAULT NULL,
    key text DEFAULT NULL,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    finished_from timestamp with time zone DEFAULT NULL,
    finished_to timestamp with time zone DEFAULT NULL
) RETURNS TABLE (queue text, state text, tasks bigint, newest bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_count';
COMMENT ON FUNCTION taskq_count(text, text, text, text, text, bigint, bigint, timestamp with time zone, timestamp with time zone) IS
    'Number of tasks that current_user may read, and their newest id, for each queue and state; mode recent counts only the newest task of each queue and key';

CREATE FUNCTION taskq_sequence_at(
    moment timestamp with time zone,
    preceding boolean DEFAULT false
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_sequence_at';
COMMENT ON FUNCTION taskq_sequence_at(timestamp with time zone, boolean) IS
    'The id of the first task created at the time or later, or 2^63 - 1 if no such task exists; with preceding, the id of the last task created at the time or before, or 0';

CREATE FUNCTION taskq_recreate_all(
    queue text,
    state text,
    insertion text DEFAULT 'append',
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    max_tasks integer DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS TABLE (old_id bigint, new_id bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_recreate_all';
COMMENT ON FUNCTION taskq_recreate_all(text, text, text, bigint, bigint, integer, text) IS
    'Calls taskq_recreate() for the tasks of a queue in a state, except poison tasks, in the order of their ids';

CREATE FUNCTION taskq_reassign(
    queue text,
    from_state text,
    to_state text,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    task_ids bigint[] DEFAULT NULL,
    reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_reassign';
COMMENT ON FUNCTION taskq_reassign(text, text, text, bigint, bigint, bigint[], text) IS
    'Moves the tasks of a queue from one state to another, except running tasks and poison tasks; returns their number';

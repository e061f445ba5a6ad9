/*
 * 45_ordered: tasks of one key, groups of keys, and repairs of the past.
 */
CREATE FUNCTION taskq_worst_outcome(outcomes text[]) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'taskq_worst_outcome';
COMMENT ON FUNCTION taskq_worst_outcome(text[]) IS
    'The outcome that counts for several: the first of fail, suspend, filter, complete that is among them; null if there are none';

CREATE FUNCTION taskq_junction(
    queue text,
    keys text[],
    mode text DEFAULT 'singular'
) RETURNS SETOF bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_junction';
COMMENT ON FUNCTION taskq_junction(text, text[], text) IS
    'Makes all suspended tasks of the keys pending, once each key has one (singular) or has had any task (eternal); returns their ids, or no rows if it is too early';

CREATE FUNCTION taskq_change(
    worker text,
    adds jsonb DEFAULT '[]',
    updates jsonb DEFAULT '[]',
    deletes jsonb DEFAULT '[]',
    depends jsonb DEFAULT '[]',
    doc_adds jsonb DEFAULT '[]',
    doc_updates jsonb DEFAULT '[]',
    doc_deletes jsonb DEFAULT '[]',
    doc_depends jsonb DEFAULT '[]'
) RETURNS SETOF taskq.task_info
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_change';
COMMENT ON FUNCTION taskq_change(text, jsonb, jsonb, jsonb, jsonb, jsonb, jsonb, jsonb, jsonb) IS
    'Adds, updates and deletes tasks, all or nothing, provided that the tasks it depends on have not changed; returns the added ones, then the updated ones, in the order given; TQ010 lists every problem';

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
    'Claims any one task of the queues, or returns no row if there is none, provided that the tasks it depends on have not changed, else TQ010; with lease 0 the task stays claimable';

CREATE FUNCTION taskq_claim_docs(
    worker text,
    namespace text,
    key text,
    lease interval
) RETURNS SETOF taskq.doc
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_claim_docs';
COMMENT ON FUNCTION taskq_claim_docs(text, text, text, interval) IS
    'Claims all documents of a key, or renews the claim, or with lease 0 releases them; TQ010 lists the holders if others hold some';

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
    'Numbers of tasks that current_user may read, by queue and state, and the newest id of each; mode recent counts only the newest task of each queue and key';

CREATE FUNCTION taskq_sequence_at(
    moment timestamp with time zone,
    preceding boolean DEFAULT false
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_sequence_at';
COMMENT ON FUNCTION taskq_sequence_at(timestamp with time zone, boolean) IS
    'The id of the first task created at the time or later, or (preceding) of the last one created then or before; 2^63 - 1, or 0, if there is none';

CREATE FUNCTION taskq_recreate_all(
    queue text,
    state text,
    insertion text DEFAULT 'append',
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    max_tasks integer DEFAULT NULL
) RETURNS TABLE (old_id bigint, new_id bigint)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_recreate_all';
COMMENT ON FUNCTION taskq_recreate_all(text, text, text, bigint, bigint, integer) IS
    'taskq_recreate() for the tasks of a queue in a state, in the order of their ids, except poison';

CREATE FUNCTION taskq_reassign(
    queue text,
    from_state text,
    to_state text,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    task_ids bigint[] DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_reassign';
COMMENT ON FUNCTION taskq_reassign(text, text, text, bigint, bigint, bigint[]) IS
    'Moves the tasks of a queue from one state to another by hand, except running ones and poison; returns their number';

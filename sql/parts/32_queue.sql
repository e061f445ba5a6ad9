/*
 * 32_queue: queues and rights on them.
 *
 * Callers need manage on the queue; create_queue and queue '*' need it on
 * '*'.  Each call but purge locks the queue's row; drop_queue and the grants also
 * lock taskq.queue_change and taskq.queue_grant.
 */
CREATE FUNCTION taskq_create_queue(
    queue text,
    options jsonb DEFAULT '{}',
    if_not_exists boolean DEFAULT false
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_create_queue';
COMMENT ON FUNCTION taskq_create_queue(text, jsonb, boolean) IS
    'Makes a queue with options; false when it exists and if_not_exists is set, else TQ006; an unknown option or bad value is TQ004';

CREATE FUNCTION taskq_alter_queue(queue text, options jsonb) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_alter_queue';
COMMENT ON FUNCTION taskq_alter_queue(text, jsonb) IS
    'Changes the named options, null resets one; queue ''*'' sets the defaults of all; TQ003, TQ004';

CREATE FUNCTION taskq_drop_queue(queue text, force boolean DEFAULT false) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_drop_queue';
COMMENT ON FUNCTION taskq_drop_queue(text, boolean) IS
    'Removes a queue and its tasks, and returns how many; 55006 while live tasks exist, unless forced; waits up to 5 s for submits in flight, then 55P03';

CREATE FUNCTION taskq_pause(
    queue text,
    reason text DEFAULT NULL,
    until timestamp with time zone DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_pause';
COMMENT ON FUNCTION taskq_pause(text, text, timestamp with time zone) IS
    'Hands out no more tasks of the queue, until a time if given; ''*'' is a switch of its own for all queues';

CREATE FUNCTION taskq_resume(queue text) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_resume';
COMMENT ON FUNCTION taskq_resume(text) IS 'Ends a pause of the queue, or of the switch ''*''';

CREATE FUNCTION taskq_grant(queue text, role text, rights text[]) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_grant';
COMMENT ON FUNCTION taskq_grant(text, text, text[]) IS
    'Gives a role (or public) rights on a queue, or on all with ''*'': submit, work, read, manage; also EXECUTE on what they need';

CREATE FUNCTION taskq_revoke(queue text, role text, rights text[]) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_revoke';
COMMENT ON FUNCTION taskq_revoke(text, text, text[]) IS
    'Takes rights on a queue, or on ''*'', from a role, and EXECUTE on functions that none of its other rights needs';

CREATE FUNCTION taskq_purge(
    queue text,
    states text[] DEFAULT NULL,
    before timestamp with time zone DEFAULT NULL,
    reason text DEFAULT NULL,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    max_tasks integer DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_purge';
COMMENT ON FUNCTION taskq_purge(text, text[], timestamp with time zone, text, bigint, bigint, integer) IS
    'Removes tasks of the queue, the finished ones or those in the named states (never running), finished or, if live, submitted before a time, with a reason code, within ids, up to max_tasks; returns how many';

/*
 * 32_queue: queues and privileges on them.
 *
 * Callers need manage on the queue; create_queue and queue '*' require it on
 * '*'.  Each call except purge locks the queue's row; drop_queue and the
 * grants also lock taskq.queue_change and taskq.queue_grant.
 */
CREATE FUNCTION taskq_create_queue(
    queue text,
    options jsonb DEFAULT '{}',
    if_not_exists boolean DEFAULT false,
    reason text DEFAULT NULL
) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_create_queue';
COMMENT ON FUNCTION taskq_create_queue(text, jsonb, boolean, text) IS
    'Creates a queue with options; if it exists, returns false with if_not_exists, and otherwise raises TQ006; an unknown option or invalid value raises TQ004';

CREATE FUNCTION taskq_alter_queue(queue text, options jsonb, reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_alter_queue';
COMMENT ON FUNCTION taskq_alter_queue(text, jsonb, text) IS
    'Changes the named options; null resets an option; queue ''*'' sets the defaults of all queues; TQ003 if the queue does not exist, TQ004 for an unknown option or invalid value';

CREATE FUNCTION taskq_drop_queue(queue text, force boolean DEFAULT false, reason text DEFAULT NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_drop_queue';
COMMENT ON FUNCTION taskq_drop_queue(text, boolean, text) IS
    'Removes a queue and its tasks, and returns their number; raises 55006 while live tasks exist, unless force is true; waits up to 5 s for open transactions that submit, then raises 55P03';

CREATE FUNCTION taskq_pause(
    queue text,
    reason text DEFAULT NULL,
    until timestamp with time zone DEFAULT NULL
) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_pause';
COMMENT ON FUNCTION taskq_pause(text, text, timestamp with time zone) IS
    'Pauses claims from the queue, until the time if one is given; ''*'' is a separate switch for all queues';

CREATE FUNCTION taskq_resume(queue text, reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_resume';
COMMENT ON FUNCTION taskq_resume(text, text) IS 'Ends the pause of the queue; ''*'' ends the pause of all queues';

CREATE FUNCTION taskq_grant(queue text, role text, rights text[], reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_grant';
COMMENT ON FUNCTION taskq_grant(text, text, text[], text) IS
    'Grants a role (or public) the privileges submit, work, read or manage on a queue (''*'': on all queues), and EXECUTE on the functions that require them';

CREATE FUNCTION taskq_revoke(queue text, role text, rights text[], reason text DEFAULT NULL) RETURNS void
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_revoke';
COMMENT ON FUNCTION taskq_revoke(text, text, text[], text) IS
    'Revokes privileges on a queue, or on ''*'', from a role, and EXECUTE on functions that its remaining privileges do not allow';

CREATE FUNCTION taskq_purge(
    queue text,
    states text[] DEFAULT NULL,
    before timestamp with time zone DEFAULT NULL,
    reason text DEFAULT NULL,
    from_id bigint DEFAULT NULL,
    to_id bigint DEFAULT NULL,
    max_tasks integer DEFAULT NULL,
    comment text DEFAULT NULL
) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'taskq_purge';
COMMENT ON FUNCTION taskq_purge(text, text[], timestamp with time zone, text, bigint, bigint, integer, text) IS
    'Removes up to max_tasks tasks of the queue and returns their number: finished tasks, or tasks in the given states except running; the other arguments select by the time at which a task finished (or, if live, was submitted), reason and id';

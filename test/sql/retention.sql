--
-- retention: how long a finished task stays
--
-- Leaf 16 holds tasks with a retention of their own, until expires_at; the
-- other leaves rotate with the server's default.
CREATE FUNCTION t.finished(queue text, outcome text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit($1);
    c record;
BEGIN
    SELECT * INTO STRICT c FROM taskq_claim($1);
    CASE outcome
        WHEN 'done' THEN PERFORM taskq_complete(id, c.token);
        WHEN 'kept' THEN PERFORM taskq_complete(id, c.token, keep => true);
        WHEN 'gone' THEN PERFORM taskq_complete(id, c.token, keep => false);
        WHEN 'dead' THEN PERFORM taskq_fail(id, c.token, 'e', false);
        WHEN 'filtered' THEN PERFORM taskq_filter(id, c.token);
        WHEN 'cancelled' THEN PERFORM taskq_cancel(id, force => true);
    END CASE;
    RETURN id;
END
$$;
-- the archive leaf of each final state, by the queue's retention
CREATE FUNCTION t.kept(options jsonb) RETURNS TABLE (outcome text, leaf text, stays text) LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
BEGIN
    PERFORM taskq_create_queue('r', options);
    FOREACH outcome IN ARRAY ARRAY['done', 'kept', 'gone', 'dead', 'filtered', 'cancelled'] LOOP
        id := t.finished('r', outcome);
        leaf := NULL; stays := NULL;
        SELECT CASE WHEN a.bucket = 16 THEN 'keep' ELSE 'rotating' END,
               CASE WHEN a.expires_at = 'infinity' THEN 'forever' ELSE date_trunc('minute', a.expires_at - a.finished_at + interval '1 s')::text END
          INTO leaf, stays
          FROM taskq.archive a WHERE a.task_id = id;
        RETURN NEXT;
    END LOOP;
    PERFORM taskq_drop_queue('r', true);
END
$$;
SELECT * FROM t.kept('{}');
SELECT * FROM t.kept('{"retention": "none"}');
SELECT * FROM t.kept('{"retention": 0}');
SELECT * FROM t.kept('{"retention": "0 s"}');
SELECT * FROM t.kept('{"retention": "forever"}');
SELECT * FROM t.kept('{"retention": "2 days"}');
SELECT * FROM t.kept('{"retention": "60 days"}');
SELECT * FROM t.kept('{"retention_dead": "3 h"}');
SELECT * FROM t.kept('{"retention": "2 days", "retention_dead": "3 h"}');
SELECT * FROM t.kept('{"retention": "none", "retention_dead": "3 h"}');
SELECT * FROM t.kept('{"retention": "none", "retention_dead": "forever"}');
-- as a default of all queues, and the queue's own value instead
SELECT taskq_alter_queue('*', '{"retention": "none"}');
SELECT * FROM t.kept('{}') WHERE outcome IN ('done', 'dead');
SELECT * FROM t.kept('{"retention": "1 day"}') WHERE outcome IN ('done', 'dead');
SELECT taskq_alter_queue('*', '{"retention": null}');
-- a task that leaves no row leaves no large parts, either
SELECT taskq_create_queue('r', '{"retention": "none"}');
SELECT taskq_submit('r', to_jsonb((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 5000) i))) AS id \gset
SELECT count(*) > 0 AS large FROM taskq.large;
SELECT token FROM taskq_claim('r') \gset
SELECT taskq_complete(:id, :token);
SELECT count(*) FROM taskq.large;
SELECT t.try(format('SELECT taskq_get(%s)', :id)) LIKE 'TQ002: %' AS gone;
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :id, :token)), 5);
SELECT taskq_drop_queue('r');
-- the duty removes what has expired, in batches, until none is left
SELECT taskq_create_queue('r', '{"retention": "1 ms", "retention_dead": "1 ms"}');
SELECT taskq_create_queue('r stays', '{"retention": "forever"}');
SELECT count(t.finished('r', o)) FROM generate_series(1, 5), unnest(ARRAY['done', 'dead']) o;
SELECT t.finished('r stays', 'done') > 0 AS finished;
SELECT taskq_submit('r') AS live \gset
CALL t.until($$SELECT count(*) >= 0 AND (SELECT done + dead = 0 FROM taskq.queues WHERE queue = 'r') FROM taskq_run_reapers()$$);
SELECT queue, pending, done, dead FROM taskq.queues ORDER BY queue;
SELECT count(*) FROM taskq.archive;
-- a retried task leaves the archive
SELECT task_id AS id FROM taskq_list('r stays') \gset
SELECT taskq_retry(:id);
SELECT count(*) FROM taskq.archive;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.kept(jsonb), t.finished(text, text);

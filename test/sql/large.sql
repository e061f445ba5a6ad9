--
-- large: values that do not fit into a row, and limits of size
--
SELECT taskq_create_queue('large', '{"retry": "fixed", "retry_base": "0 s"}');
-- text that does not compress, of n bytes
CREATE FUNCTION t.noise(n int, seed int) RETURNS text LANGUAGE sql IMMUTABLE AS
'SELECT left(string_agg(md5(seed || ''/'' || i), ''''), n) FROM generate_series(1, n / 32 + 1) i';
CREATE FUNCTION t.doc(n int, seed int) RETURNS jsonb LANGUAGE sql IMMUTABLE AS 'SELECT to_jsonb(t.noise(n, seed))';
CREATE FUNCTION t.parts(bigint) RETURNS text LANGUAGE sql AS
'SELECT string_agg(part || '' '' || CASE WHEN doc IS NULL THEN ''raw'' ELSE ''doc'' END, '', '' ORDER BY part) FROM taskq.large WHERE task_id = $1';
-- each part from submit to end, in several sizes
CREATE FUNCTION t.way(n int) RETURNS TABLE (step text, same boolean, parts text) LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    c record;
    g record;
BEGIN
    id := taskq_submit('large', t.doc(n, 1), data => convert_to(t.noise(n, 2), 'UTF8'), headers => CASE WHEN n < 60000 THEN jsonb_build_object('h', t.noise(n, 3)) END);
    g := taskq_get(id);
    step := 'submitted'; same := g.payload = t.doc(n, 1) AND g.data = convert_to(t.noise(n, 2), 'UTF8'); parts := t.parts(id);
    RETURN NEXT;
    SELECT * INTO c FROM taskq_claim('large');
    step := 'claimed'; same := c.task_id = id AND c.payload = t.doc(n, 1) AND c.data = convert_to(t.noise(n, 2), 'UTF8') AND (n >= 60000 OR c.headers ->> 'h' = t.noise(n, 3));
    RETURN NEXT;
    PERFORM taskq_checkpoint(id, c.token, t.doc(n, 4));
    step := 'checkpoint'; same := (taskq_get(id)).checkpoint = t.doc(n, 4); parts := t.parts(id);
    RETURN NEXT;
    PERFORM taskq_checkpoint(id, c.token, '"small"');
    step := 'small checkpoint'; same := (taskq_get(id)).checkpoint = '"small"'; parts := t.parts(id);
    RETURN NEXT;
    PERFORM taskq_checkpoint(id, c.token, t.doc(n, 5));
    PERFORM taskq_fail(id, c.token, t.noise(least(n, 8000), 6), detail => CASE WHEN n < 60000 THEN t.doc(n, 7) END);
    SELECT * INTO c FROM taskq_claim('large');
    g := taskq_get(id);
    step := 'second claim'; same := c.checkpoint = t.doc(n, 5) AND c.payload = t.doc(n, 1) AND g.error = t.noise(least(n, 8000), 6); parts := t.parts(id);
    RETURN NEXT;
    PERFORM taskq_release(id, c.token, reason => t.noise(least(n, 8000), 8), result => t.doc(n, 9));
    g := taskq_get(id);
    step := 'released'; same := g.message = t.noise(least(n, 8000), 8) AND g.result = t.doc(n, 9); parts := t.parts(id);
    RETURN NEXT;
    SELECT * INTO c FROM taskq_claim('large');
    PERFORM taskq_complete(id, c.token, t.doc(n, 10));
    g := taskq_get(id);
    step := 'done';
    same := g.state = 'done' AND g.payload = t.doc(n, 1) AND g.data = convert_to(t.noise(n, 2), 'UTF8') AND g.result = t.doc(n, 10) AND g.checkpoint = t.doc(n, 5)
            AND g.error = t.noise(least(n, 8000), 6) AND g.message = t.noise(least(n, 8000), 8) AND g.errors -> 0 ->> 'error' = g.error;
    parts := t.parts(id);
    RETURN NEXT;
    step := 'same in the view'; same := (SELECT v::text = g::text FROM taskq.tasks v WHERE v.task_id = id);
    RETURN NEXT;
    PERFORM taskq_retry(id);
    SELECT * INTO c FROM taskq_claim('large');
    step := 'retried'; same := c.task_id = id AND c.payload = t.doc(n, 1) AND c.data = convert_to(t.noise(n, 2), 'UTF8') AND c.checkpoint = t.doc(n, 5); parts := t.parts(id);
    RETURN NEXT;
    PERFORM taskq_complete(id, c.token, '"small"', keep => false);
    step := 'no trace'; same := NOT EXISTS (SELECT FROM taskq_get_many(ARRAY[id]) x WHERE x.task_id IS NOT NULL); parts := t.parts(id);
    RETURN NEXT;
END
$$;
SELECT n, w.step, w.same FROM unnest(ARRAY[100, 1900, 2000, 2100, 50000, 100000, 1048000]) n, t.way(n) w WHERE NOT w.same;
SELECT w.* FROM t.way(100) w;
SELECT w.* FROM t.way(100000) w;
SELECT count(*) FROM taskq.large;
-- exactly 1 MiB, and one byte more: as stored
SELECT length(t.noise(1048564, 1)) AS text, pg_column_size(t.doc(1048564, 1)) AS stored;
CREATE FUNCTION t.at_most(n int) RETURNS text LANGUAGE sql AS $$
SELECT t.try(format('SELECT taskq_submit(''large'', t.doc(%s, 1)) > 0', n))
$$;
SELECT t.at_most(1048564);
SELECT t.at_most(1048565);
SELECT t.try('SELECT taskq_submit(''large'', to_jsonb(repeat(''x'', 2000000)))');
SELECT t.try('SELECT taskq_submit(''large'', data => decode(repeat(''ab'', 1048576), ''hex'')) > 0');
SELECT t.try('SELECT taskq_submit(''large'', data => decode(repeat(''ab'', 1048577), ''hex'')) > 0');
SELECT t.try('SELECT count(*) FROM taskq_submit_many(''large'', ARRAY[''1'', t.doc(1048565, 1)])');
-- a queue's own limit, for each of the four
SELECT taskq_create_queue('small', '{"max_payload": 1000}');
SELECT t.try('SELECT taskq_submit(''small'', t.doc(980, 1)) > 0');
SELECT t.try('SELECT taskq_submit(''small'', t.doc(1000, 1))');
SELECT t.try('SELECT taskq_submit(''small'', data => decode(repeat(''ab'', 1000), ''hex'')) > 0');
SELECT t.try('SELECT taskq_submit(''small'', data => decode(repeat(''ab'', 1001), ''hex''))');
SELECT task_id, token FROM taskq_claim('small') \gset
SELECT t.try(format('SELECT taskq_complete(%s, %s, t.doc(1000, 1))', :task_id, :token));
SELECT t.try(format('SELECT taskq_release(%s, %s, result => t.doc(1000, 1))', :task_id, :token));
SELECT t.try(format('SELECT taskq_checkpoint(%s, %s, t.doc(1000, 1))', :task_id, :token));
SELECT state, result, checkpoint FROM taskq_get(:task_id);
SELECT taskq_complete(:task_id, :token, t.doc(980, 1));
-- a rollback leaves no part
SELECT count(*) AS before FROM taskq.large \gset
BEGIN;
SELECT taskq_submit('large', t.doc(100000, 1)) > 0 AS submitted;
SELECT count(*) > :before AS more FROM taskq.large;
ROLLBACK;
SELECT count(*) = :before AS same FROM taskq.large;
-- dropping a queue removes its parts, of live tasks and of finished ones
SELECT taskq_submit('large', t.doc(100000, 1)) AS id \gset
SELECT taskq_cancel(:id, t.noise(8000, 1));
SELECT taskq_submit('large', t.doc(100000, 1)) > 0 AS submitted;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
SELECT count(*) FROM taskq.large;
DROP FUNCTION t.way(int), t.at_most(int), t.parts(bigint), t.doc(int, int), t.noise(int, int);

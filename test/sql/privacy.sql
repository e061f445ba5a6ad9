--
-- privacy: the right observe, and the queue option redact
--
CREATE ROLE regress_taskq_observe;
CREATE ROLE regress_taskq_read;
CREATE ROLE regress_taskq_both;
CREATE ROLE regress_taskq_submit;
SELECT taskq_create_queue('p', '{"history": "transitions", "retry": "fixed", "retry_base": "0 s"}');
SELECT taskq_grant('p', 'regress_taskq_observe', '{observe}');
SELECT taskq_grant('p', 'regress_taskq_read', '{read}');
SELECT taskq_grant('p', 'regress_taskq_both', '{read,manage}');
SELECT taskq_grant('p', 'regress_taskq_submit', '{submit}');
GRANT USAGE ON SCHEMA t TO PUBLIC;
CREATE TABLE t.p (what text PRIMARY KEY, id bigint, token bigint);
GRANT SELECT ON t.p TO PUBLIC;
-- a query as a role
CREATE FUNCTION t.as(role text, query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    RETURN QUERY EXECUTE query;
    RESET ROLE;
EXCEPTION WHEN OTHERS THEN
    RESET ROLE;
    RETURN NEXT SQLSTATE || ': ' || regexp_replace(SQLERRM, '\d+', 'N', 'g');
END
$$;
INSERT INTO t.p SELECT 'failed', taskq_submit('p', '{"to": "ann", "card": {"no": 1, "cvc": [2, 3]}, "n": 5}', headers => '{"to": "ann", "trace": "x"}', data => '\x0102', max_attempts => 2);
UPDATE t.p SET token = c.token FROM taskq_claim('p') c;
SELECT count(taskq_checkpoint(id, token, '{"cursor": {"to": "bob"}, "to": "carol", "items": 3}')) FROM t.p;
SELECT taskq_fail(id, token, 'no route to ann', detail => '{"to": "dan", "code": 5}') FROM t.p;
-- an observer sees the task, its words and its errors, but no contents
SELECT r, t.as('regress_taskq_' || r, $$SELECT (jsonb_build_object('payload', payload, 'data', data, 'headers', headers, 'checkpoint', checkpoint, 'error', error, 'errors', (errors -> 0) - 'at'))::text FROM taskq_get((SELECT id FROM t.p WHERE what = 'failed'))$$) AS seen
  FROM unnest('{observe,read,both,submit}'::text[]) r;
-- what needs contents is refused, and the rest allowed
SELECT call, regexp_replace(t.as('regress_taskq_observe', 'SELECT (' || replace(call, '$f', (SELECT id::text FROM t.p WHERE what = 'failed')) || ' IS NULL)::text'), '^false$', 'allowed') AS answer
  FROM unnest(ARRAY['taskq_get($f)', '(taskq_list(''p'')).task_id', '(taskq_get_many(ARRAY[$f])).task_id', 'taskq_explain($f)',
                    '(taskq_lineage($f)).task_id', '(taskq_timeline($f)).task_id', '(taskq_count(''p'')).queue', '(taskq_checkpoints($f)).at',
                    'taskq_dependency_results($f)', 'taskq_ancestor_results($f)', 'taskq_submit(''p'')', 'taskq_claim(''p'')', 'taskq_cancel($f)',
                    'taskq_list(''p elsewhere'')', '(taskq_failures(''p'')).tasks', '(taskq_failures()).tasks', 'taskq_fingerprint(''x'')',
                    'taskq_openmetrics()']) WITH ORDINALITY c (call, n) ORDER BY n;
-- these need more than to observe
SELECT p.proname FROM pg_proc p
 WHERE p.proname LIKE 'taskq\_%' AND has_function_privilege('regress_taskq_observe', p.oid, 'EXECUTE') <> has_function_privilege('regress_taskq_read', p.oid, 'EXECUTE')
 ORDER BY 1;
-- errors are shown to observers, without their details
SELECT r, t.as('regress_taskq_' || r, $$SELECT kind || ' | ' || tasks || ' | ' || coalesce(error, '-') FROM taskq_failures()$$) AS seen FROM unnest('{observe,read,both}'::text[]) r;
SELECT t.as('regress_taskq_observe', format($$SELECT (regexp_match(taskq_explain(%s), 'last error: .*'))[1]$$, id)) FROM t.p;
SELECT v, t.as('regress_taskq_observe', format('SELECT count(*)::text FROM taskq.%I', v)) AS rows
  FROM unnest('{tasks,running,dead,queues,history,workers,documents}'::text[]) v;
-- read includes observe; revoking one leaves the other
SELECT taskq_grant('p', 'regress_taskq_observe', '{read}');
SELECT taskq_revoke('p', 'regress_taskq_observe', '{read}');
SELECT t.as('regress_taskq_observe', 'SELECT count(*)::text FROM taskq.tasks');
SELECT taskq_grant('p', 'regress_taskq_both', '{observe}');
SELECT taskq_revoke('p', 'regress_taskq_both', '{observe}');
SELECT t.as('regress_taskq_both', 'SELECT payload ->> ''to'' FROM taskq.tasks');
-- redact: paths that can be replaced exactly, and others
SELECT left(paths, 30) AS paths, t.try(format('SELECT taskq_alter_queue(''p'', jsonb_build_object(''redact'', %L::jsonb))', paths)) AS answer
  FROM unnest(ARRAY['["$.to"]', '["$"]', '["$.**"]', '["$.*", "$[*]", "$[0][3].a"]', '["lax $.a"]', '["$.\"a b\".**.c"]', '[]',
                    '"$.to"', '{"a": 1}', '[1]', '[null]', '[["$.a"]]', '["$.a["]', '[""]', '["strict $.a"]', '["$.a ? (@ > 1)"]', '["$.a.size()"]',
                    '["$[1 to 2]"]', '["$[last]"]', '["$[0, 1]"]', '["$[1.5]"]', '["$[-1]"]', '["$[$n]"]', '["$.**{1}"]', '["$.a + 1"]', '["$a"]',
                    '["1"]', '["$[9999999999]"]', '["$.to", "$.a == 1"]', (SELECT jsonb_agg('$.a' || i)::text FROM generate_series(1, 100) i),
                    (SELECT jsonb_agg('$.a' || i)::text FROM generate_series(1, 101) i),
                    jsonb_build_array('$' || repeat('.a', 1000))::text]) WITH ORDINALITY c (paths, n) ORDER BY n \g (format=unaligned)
SELECT t.try($$SELECT taskq_submit('p', options => '{"redact": ["$.a"]}')$$);
SELECT taskq_alter_queue('p', '{"redact": ["$.to", "$.card.*", "$.cursor.to"]}');
SELECT r, t.as('regress_taskq_' || r, $$SELECT (jsonb_build_object('payload', payload, 'data', data, 'headers', headers, 'checkpoint', checkpoint, 'error', error, 'errors', (errors -> 0) - 'at'))::text FROM taskq_get((SELECT id FROM t.p WHERE what = 'failed'))$$) AS seen
  FROM unnest('{observe,read,both}'::text[]) r;
-- in every other way to read a task
SELECT t.as('regress_taskq_read', $$SELECT payload::text FROM taskq_list('p')$$);
SELECT t.as('regress_taskq_read', $$SELECT payload::text FROM taskq_get_many((SELECT array_agg(id) FROM t.p))$$);
SELECT t.as('regress_taskq_read', $$SELECT payload::text FROM taskq.tasks$$);
SELECT t.as('regress_taskq_read', $$SELECT count(*)::text FROM taskq.tasks WHERE payload ->> 'to' = 'ann'$$);
-- a filter compares with what the role may see
SELECT r, p, t.as('regress_taskq_' || r, format('SELECT count(*)::text FROM taskq_list(''p'', filter => %L)', jsonb_build_object('payload', p))) AS found
  FROM unnest('{observe,read,both}'::text[]) r, unnest(ARRAY['$.to == "ann"', '$.to == "[redacted]"', '$.n == 5']) p;
-- a worker has the contents, and so has a role that may manage
SELECT payload, headers, checkpoint, data FROM taskq_claim('p');
UPDATE t.p SET token = s.token FROM taskq.tasks s WHERE s.task_id = id;
-- the role that submitted a task and awaits it is a reader, too
SET ROLE regress_taskq_submit;
SELECT taskq_submit('p', '{"to": "eve"}') AS mine \gset
RESET ROLE;
SELECT count(taskq_complete(task_id, token, '{"to": "eve", "sent": true}')) FROM taskq_claim('p');
SET ROLE regress_taskq_submit;
CALL taskq_await(:mine, '0');
RESET ROLE;
SET ROLE regress_taskq_both;
CALL taskq_await(:mine, '0');
RESET ROLE;
SET ROLE regress_taskq_observe;
CALL taskq_await(:mine, '0');
RESET ROLE;
-- a dead letter: what is hidden in its queue of origin, even if that changes or is dropped
SELECT taskq_create_queue('p dead', '{"redact": ["$.n"]}');
SELECT taskq_grant('p dead', 'regress_taskq_read', '{read}');
SELECT taskq_alter_queue('p', '{"dead_letter_queue": "p dead"}');
SELECT taskq_fail(id, token, 'again', detail => '{"to": "fay"}') FROM t.p;
CREATE FUNCTION t.letter(role text) RETURNS SETOF text LANGUAGE sql AS $$
SELECT t.as(role, 'SELECT payload::text || '' '' || (headers #- ''{dead_letter,task_id}'' #- ''{dead_letter,died_at}'')::text FROM taskq_list(''p dead'')')
$$;
SELECT t.letter('regress_taskq_read');
-- what a worker writes about the letter, too
SELECT count(taskq_checkpoint(task_id, token, '{"cursor": {"to": "gil", "page": 3}}')) FROM taskq_claim('p dead');
SELECT t.as('regress_taskq_read', $$SELECT checkpoint::text FROM taskq_list('p dead')$$);
SELECT taskq_alter_queue('p', '{"redact": ["$.card"]}');
SELECT t.letter('regress_taskq_read');
SELECT taskq_drop_queue('p', true);
SELECT t.letter('regress_taskq_read');
SELECT taskq_grant('p dead', 'regress_taskq_read', '{manage}');
SELECT t.letter('regress_taskq_read');
-- queue '*' sets the default; an empty list of a queue replaces it
SELECT taskq_create_queue('p all');
SELECT taskq_grant('p all', 'regress_taskq_read', '{read}');
SELECT taskq_submit('p all', '{"a": 1, "b": 2}') > 0;
SELECT taskq_alter_queue('*', '{"redact": ["$.a"]}');
SELECT t.as('regress_taskq_read', $$SELECT payload::text FROM taskq_list('p all')$$);
SELECT taskq_alter_queue('p all', '{"redact": []}');
SELECT t.as('regress_taskq_read', $$SELECT payload::text FROM taskq_list('p all')$$);
SELECT taskq_alter_queue('p all', '{"redact": null}');
SELECT t.as('regress_taskq_read', $$SELECT payload::text FROM taskq_list('p all')$$);
-- documents: of a queue, and of no queue
SELECT count(*) FROM taskq_change('w', doc_adds => '[{"namespace": "p all", "key": "k", "content": {"a": 1, "b": 2}}, {"namespace": "p none", "key": "k", "content": {"a": 1, "b": 2}}]');
SELECT t.as('regress_taskq_read', 'SELECT namespace || '' '' || content::text FROM taskq.documents WHERE namespace LIKE ''p %'' ORDER BY 1');
SELECT taskq_grant('*', 'regress_taskq_read', '{read}');
SELECT t.as('regress_taskq_read', 'SELECT namespace || '' '' || content::text FROM taskq.documents WHERE namespace LIKE ''p %'' ORDER BY 1');
SELECT taskq_revoke('*', 'regress_taskq_read', '{read}');
SELECT taskq_alter_queue('*', '{"redact": null}');
-- a scan that comes to another queue at every row needs no more memory than one queue
SELECT taskq_create_queue('p ' || i, jsonb_build_object('redact', (SELECT jsonb_agg('$.a' || n || '.b') FROM generate_series(1, 100) n)))
  FROM generate_series(1, 2) i;
SELECT taskq_grant('p ' || i, 'regress_taskq_read', '{read}') FROM generate_series(1, 2) i;
SELECT count(taskq_submit('p ' || 1 + n % 2, '{"a1": {"b": 1}}')) FROM generate_series(1, 400) n;
BEGIN;
SET LOCAL ROLE regress_taskq_read;
DECLARE c CURSOR FOR SELECT payload FROM taskq.tasks WHERE queue LIKE 'p _' ORDER BY task_id;
FETCH 2 FROM c;
RESET ROLE;
SELECT sum(used_bytes) AS used FROM pg_backend_memory_contexts \gset
SET LOCAL ROLE regress_taskq_read;
MOVE 390 IN c;
RESET ROLE;
SELECT sum(used_bytes) - :used < 500000 AS little FROM pg_backend_memory_contexts;
COMMIT;
SELECT count(taskq_drop_queue('p ' || i, true)) FROM generate_series(1, 2) i;
-- exactly what the paths select is replaced: each leaf of the documents has a
-- value of its own, and a leaf is hidden if PostgreSQL finds it below what a
-- path selects
CREATE TABLE t.doc (doc jsonb);
INSERT INTO t.doc VALUES
    ('"l1"'), ('[]'), ('{}'), ('["l1", ["l2", "l3"], {"a": "l4"}]'), ('{"a": "l1", "b": {"a": "l2", "c": ["l3", {"a": "l4"}]}}'),
    ('{"a": [{"a": "l1", "b": "l2"}, ["l3", {"a": "l4"}], "l5"], "b": [[{"a": "l6"}]], "": "l7", "a b": {"a": "l8"}}'),
    ('[[["l1"], "l2"], {"a": {"a": {"a": "l3"}}, "b": "l4"}, [{"b": {"a": ["l5", "l6"]}}]]'),
    ('{"a": {"b": {"c": {"a": {"b": "l1"}, "d": "l2"}}}, "b": {"a": "l3", "b": ["l4", ["l5"]]}, "c": "l6"}');
CREATE TABLE t.path (path text);
INSERT INTO t.path
SELECT DISTINCT '$' || a || b || c
  FROM unnest(ARRAY['', '.a', '.*', '.**', '[0]', '[1]', '[*]', '."a b"']) a, unnest(ARRAY['', '.a', '.b', '.*', '.**', '[0]', '[2]', '[*]']) b,
       unnest(ARRAY['', '.a', '.*', '.**', '[0]', '[*]']) c;
SELECT taskq_grant('p all', 'regress_taskq_both', '{read}');
CREATE FUNCTION t.compare_redaction(OUT compared bigint, OUT hidden bigint, OUT wrong bigint, OUT first text) LANGUAGE plpgsql AS $$
DECLARE
    one record;
    queue_id integer := (SELECT q.queue_id FROM taskq.queue q WHERE name = 'p all');
    selected text[];
    shown jsonb;
BEGIN
    compared := 0;
    hidden := 0;
    wrong := 0;
    FOR one IN SELECT path, array_agg(doc) AS docs FROM t.path, t.doc GROUP BY path ORDER BY path LOOP
        PERFORM taskq_alter_queue('p all', jsonb_build_object('redact', jsonb_build_array(one.path)));
        FOR i IN 1 .. array_length(one.docs, 1) LOOP
            SET LOCAL ROLE regress_taskq_both;
            shown := taskq.contents(queue_id, one.docs[i]);
            RESET ROLE;
            SELECT coalesce(array_agg(DISTINCT v #>> '{}'), '{}') INTO selected
              FROM jsonb_path_query(one.docs[i], one.path::jsonpath) s, jsonb_path_query(s, 'strict $.**') v WHERE jsonb_typeof(v) = 'string';
            compared := compared + 1;
            hidden := hidden + cardinality(selected);
            IF EXISTS (SELECT FROM jsonb_path_query(one.docs[i], 'strict $.**') v WHERE jsonb_typeof(v) = 'string'
                        AND (v #>> '{}' = ANY (selected)) = EXISTS (SELECT FROM jsonb_path_query(shown, 'strict $.**') w WHERE w = v))
               OR (SELECT count(*) FROM jsonb_path_query(shown, 'strict $.**') w WHERE w <> '"[redacted]"' AND jsonb_typeof(w) = 'string')
                  <> (SELECT count(*) FROM jsonb_path_query(one.docs[i], 'strict $.**') w WHERE jsonb_typeof(w) = 'string') - cardinality(selected) THEN
                wrong := wrong + 1;
                first := coalesce(first, format('%s of %s is %s', one.path, one.docs[i], shown));
            END IF;
        END LOOP;
    END LOOP;
END
$$;
SELECT compared, hidden > 1000 AS much_hidden, wrong, first FROM t.compare_redaction();
-- several paths together hide what each of them hides
SELECT taskq_alter_queue('p all', '{"redact": ["$.a", "$.b[1]", "$.**.c"]}');
SELECT t.as('regress_taskq_both', format('SELECT taskq.contents(%s, %L)::text', queue_id, d))
  FROM taskq.queue, unnest(ARRAY['{"a": {"c": 1}, "b": [1, 2, {"c": 3}], "d": 1.50}', '[{"a": 1}, {"b": [1, 2]}]', '1', 'null']::jsonb[]) d WHERE name = 'p all';
-- a deep document ends in an error of PostgreSQL, not in a crash, as any function on it
SELECT t.as('regress_taskq_both', format('SELECT length(taskq.contents(%s, %L)::text)::text', queue_id, repeat('{"d":', 1000) || '{"c": "secret"}' || repeat('}', 1000))) FROM taskq.queue WHERE name = 'p all';
SELECT taskq_drop_queue('p all', true);
SELECT taskq_drop_queue('p dead', true);
-- the problem of a schedule is the text of an error: for observers, and for its owner
CREATE ROLE regress_taskq_monitor IN ROLE pg_monitor;
SELECT taskq_create_queue('p planned');
SELECT taskq_grant('p planned', 'regress_taskq_observe', '{observe}'), taskq_grant('p planned', 'regress_taskq_submit', '{submit}');
SET ROLE regress_taskq_submit; SELECT taskq_schedule('p daily', 'every 1 day', 'p planned', '{"to": "ann"}'); RESET ROLE;
UPDATE taskq.schedule SET problem = 'no room for ann' WHERE name = 'p daily';
SELECT r, t.as('regress_taskq_' || r, $$SELECT concat_ws(' ', name, 'problem: ' || problem) FROM taskq.schedules WHERE name = 'p daily'$$) AS seen
  FROM unnest('{monitor,observe,submit,read}'::text[]) r;
SELECT t.as('regress_taskq_monitor', $$SELECT detail FROM taskq_health() WHERE check_name = 'schedules'$$);
SELECT taskq_unschedule('p daily'), taskq_drop_queue('p planned');
DROP ROLE regress_taskq_monitor;
DROP OWNED BY regress_taskq_observe, regress_taskq_read, regress_taskq_both, regress_taskq_submit;
DROP ROLE regress_taskq_observe, regress_taskq_read, regress_taskq_both, regress_taskq_submit;

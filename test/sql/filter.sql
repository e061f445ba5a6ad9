--
-- filter: lists by a filter, in bounded pages
--
SELECT taskq_create_queue('f', '{"retry": "fixed", "retry_base": "1 h", "max_attempts": 2}');
SELECT taskq_create_queue('g', '{"retry": "fixed", "retry_base": "0 s"}');
-- 300 tasks of two queues, in many states
SELECT count(taskq_submit(CASE WHEN i % 3 = 0 THEN 'g' ELSE 'f' END, jsonb_build_object('n', i, 'customer', 'c' || i % 7, 'when', '2026-01-01'),
       priority => i % 5 - 2, tags => CASE WHEN i % 4 = 0 THEN '{x,y}' WHEN i % 4 = 1 THEN '{y}' END::text[],
       key => 'k' || i % 6, reference => 'r' || i, correlation_id => 'c' || i % 5, delay => CASE WHEN i % 10 = 9 THEN interval '2 h' END)) FROM generate_series(1, 300) i;
CREATE TABLE t.held AS
SELECT task_id, token, (payload ->> 'n')::int AS n, 1 AS worker FROM taskq_claim('f', 'w1', max_tasks => 80, tags => '{x,y}')
 UNION ALL SELECT task_id, token, (payload ->> 'n')::int, 2 FROM taskq_claim('g', 'w2', max_tasks => 60, tags => '{x,y}');
SELECT count(taskq_complete(task_id, token)) FROM t.held WHERE n % 7 IN (0, 1);
SELECT count(taskq_fail(task_id, token, format('no row %s in "table %s"', n, n % 2), n % 7 = 2)) FROM t.held WHERE n % 7 IN (2, 3);
SELECT count(taskq_fail(task_id, token, 'quota exceeded', false, detail => '{"code": 1}')) FROM t.held WHERE n % 7 = 4;
SELECT count(taskq_suspend(task_id, token)) FROM t.held WHERE n % 7 = 5;
SELECT count(taskq_cancel(task_id)) FROM taskq.tasks WHERE state = 'pending' AND (payload ->> 'n')::int % 11 = 0;
SELECT taskq_define_workflow('{"name": "flow", "version": "1", "queue": "f", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT count(taskq_start_workflow('flow', format('{"i": %s}', i)::jsonb)) FROM generate_series(1, 3) i;
SELECT min(workflow_id) AS flow, min(task_id) AS step FROM taskq.tasks WHERE workflow_id IS NOT NULL \gset
SELECT state, count(*) FROM taskq.tasks GROUP BY state ORDER BY state;
-- all ids that a filter selects, in pages of some rows, each of which may examine some rows
CREATE FUNCTION t.all_of(filter jsonb, queue text, size int, examined bigint, newest boolean, OUT ids bigint[], OUT pages int) LANGUAGE plpgsql AS $$
DECLARE
    cursor_id bigint;
    page bigint[];
    resume bigint;
BEGIN
    ids := '{}';
    pages := 0;
    LOOP
        SELECT array_agg(l.task_id ORDER BY l.o) FILTER (WHERE l.task_id IS NOT NULL), max(l.resume_after) INTO page, resume
          FROM (SELECT task_id, resume_after, row_number() OVER () AS o
                  FROM taskq_list(queue, after => cursor_id, max_rows => size, newest_first => newest, filter => all_of.filter, max_examined => examined)) l;
        pages := pages + 1;
        ids := ids || page;
        EXIT WHEN resume IS NULL AND coalesce(cardinality(page), 0) < size;
        IF resume IS NOT NULL AND coalesce(cardinality(page), 0) = size THEN
            RAISE 'a full page has a row to resume';
        END IF;
        cursor_id := coalesce(resume, page[cardinality(page)]);
    END LOOP;
END
$$;
-- each filter, and the same condition on the view; with a bound of few rows and with many, both ways
CREATE TABLE t.filter (n int GENERATED ALWAYS AS IDENTITY, queue text, filter jsonb, condition text);
SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY created_at) AS a, percentile_disc(0.7) WITHIN GROUP (ORDER BY created_at) AS b FROM taskq.tasks \gset
SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY finished_at) AS fa, percentile_disc(0.7) WITHIN GROUP (ORDER BY finished_at) AS fb FROM taskq.tasks \gset
SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY claimed_at) AS ca, percentile_disc(0.7) WITHIN GROUP (ORDER BY claimed_at) AS cb FROM taskq.tasks \gset
SELECT taskq_fingerprint('no row 1 in "table 0"') AS print \gset
INSERT INTO t.filter (queue, filter, condition) VALUES
    (NULL, '{}', 'true'),
    (NULL, '{"state": null, "payload": null}', 'true'),
    ('g', '{}', 'true'),
    (NULL, '{"state": "dead"}', 'state = ''dead'''),
    ('f', '{"state": ["dead", "pending", "dead"]}', 'state IN (''dead'', ''pending'')'),
    (NULL, '{"state": ["dead", "cancelled"]}', 'state IN (''dead'', ''cancelled'')'),
    (NULL, '{"state": ["running", "suspended"]}', 'state IN (''running'', ''suspended'')'),
    (NULL, '{"state": "running"}', 'state = ''running'''),
    ('f', '{"state": ["blocked", "suspended"]}', 'state IN (''blocked'', ''suspended'')'),
    (NULL, '{"reason": "rejected"}', 'reason = ''rejected'''),
    (NULL, '{"reason": ["rejected", "exhausted"], "state": "dead"}', 'reason IN (''rejected'', ''exhausted'')'),
    (NULL, '{"tags": ["x"]}', 'tags @> ''{x}'''),
    (NULL, '{"tags": ["y", "x", "y"]}', 'tags @> ''{x,y}'''),
    (NULL, '{"worker": "w1"}', 'worker = ''w1'''),
    (NULL, '{"worker": "w2", "state": ["dead", "running"]}', 'worker = ''w2'' AND state IN (''dead'', ''running'')'),
    ('f', '{"worker": "w2"}', 'false'),
    (NULL, '{"worker": "w3"}', 'false'),
    (NULL, '{"key": "k2"}', 'key = ''k2'''),
    (NULL, '{"key": "k2", "state": "dead"}', 'key = ''k2'' AND state = ''dead'''),
    (NULL, '{"reference": "r17"}', 'reference = ''r17'''),
    (NULL, '{"correlation_id": "c3"}', 'correlation_id = ''c3'''),
    (NULL, '{"correlation_id": "c3", "key": "k1", "tags": ["y"]}', 'correlation_id = ''c3'' AND key = ''k1'' AND tags @> ''{y}'''),
    (NULL, '{"error": "quota"}', 'error LIKE ''%quota%'''),
    ('f', '{"error": "in \"table 1\""}', 'error LIKE ''%in "table 1"%'''),
    (NULL, '{"error": "QUOTA"}', 'false'),
    (NULL, jsonb_build_object('fingerprint', :'print'), 'error LIKE ''no row%'''),
    (NULL, jsonb_build_object('fingerprint', :'print', 'state', 'pending'), 'error LIKE ''no row%'' AND state = ''pending'''),
    (NULL, jsonb_build_object('created_from', :'a', 'created_to', :'b'), format('created_at >= %L AND created_at < %L', :'a', :'b')),
    (NULL, jsonb_build_object('created_from', :'b'), format('created_at >= %L', :'b')),
    (NULL, jsonb_build_object('finished_from', :'fa', 'finished_to', :'fb'), format('finished_at >= %L AND finished_at < %L', :'fa', :'fb')),
    (NULL, jsonb_build_object('finished_to', :'fa'), format('finished_at < %L', :'fa')),
    (NULL, jsonb_build_object('finished_from', :'fa', 'state', 'dead'), format('finished_at >= %L AND state = ''dead''', :'fa')),
    (NULL, jsonb_build_object('claimed_from', :'ca', 'claimed_to', :'cb'), format('claimed_at >= %L AND claimed_at < %L', :'ca', :'cb')),
    (NULL, jsonb_build_object('claimed_to', :'cb', 'state', 'running'), format('claimed_at < %L AND state = ''running''', :'cb')),
    (NULL, jsonb_build_object('run_from', now() + interval '90 min'), 'run_at >= now() + interval ''90 min'''),
    (NULL, jsonb_build_object('run_to', :'a'), format('run_at < %L', :'a')),
    (NULL, '{"priority_min": 1}', 'priority >= 1'),
    (NULL, '{"priority_min": -1, "priority_max": 0}', 'priority IN (-1, 0)'),
    (NULL, jsonb_build_object('workflow_id', :flow), format('workflow_id = %s', :flow)),
    (NULL, '{"template": "flow"}', 'workflow_id IS NOT NULL'),
    (NULL, '{"template": "flow", "state": "pending"}', 'workflow_id IS NOT NULL AND state = ''pending'''),
    (NULL, '{"template": "none"}', 'false'),
    (NULL, '{"payload": "$.n > 250"}', '(payload ->> ''n'')::int > 250'),
    ('g', '{"payload": "$.customer == \"c3\" && $.n < 100"}', 'payload ->> ''customer'' = ''c3'' AND (payload ->> ''n'')::int < 100'),
    (NULL, '{"payload": "$.i == 2"}', 'payload ->> ''i'' = ''2'''),
    (NULL, '{"payload": "exists($.i)"}', 'payload ? ''i'''),
    -- each payload raises an error, even if errors are suppressed, or gives no boolean
    (NULL, '{"payload": "$.when.datetime() < \"2026-01-02 00:00:00+00\".datetime()"}', 'false'),
    (NULL, '{"payload": "$.n"}', 'false'),
    (NULL, '{"payload": "strict $.none.none == 1"}', 'false'),
    (NULL, jsonb_build_object('from_id', :step - 100, 'to_id', :step - 50), format('task_id BETWEEN %s AND %s', :step - 100, :step - 50));
SELECT f.n, f.queue, f.filter, c.wrong
  FROM t.filter f,
       LATERAL (SELECT string_agg(format('%s rows, %s examined, %s: %s', size, examined, newest, a.ids), '; ') AS wrong
                  FROM (VALUES (10000), (7), (1)) s (size), (VALUES (1000000), (50), (1)) e (examined), (VALUES (false), (true)) w (newest),
                       LATERAL t.all_of(f.filter, f.queue, size, examined, newest) a,
                       LATERAL (SELECT (query_to_xml(format('SELECT string_agg(task_id::text, '','' ORDER BY task_id %s) AS ids FROM taskq.tasks WHERE %s AND %s',
                                        CASE WHEN newest THEN 'DESC' ELSE '' END, f.condition, CASE WHEN f.queue IS NULL THEN 'true' ELSE format('queue = %L', f.queue) END), true, true, ''))::text AS x) v
                 WHERE string_to_array(substring(v.x FROM '<ids>([0-9,]*)'), ',')::bigint[] IS DISTINCT FROM nullif(a.ids, '{}')) c
 WHERE c.wrong IS NOT NULL;
-- how many tasks each selects: none by mistake
SELECT f.n, coalesce(f.queue || ' ', '') || (SELECT coalesce(string_agg(k, ' ' ORDER BY k), '') FROM jsonb_object_keys(f.filter) k) AS filter, CASE WHEN f.filter::text ~ '_(from|to)"' THEN (cardinality(a.ids) > 0)::text ELSE cardinality(a.ids)::text END AS tasks
  FROM t.filter f, t.all_of(f.filter, f.queue, 10000, 100000, false) a ORDER BY f.n;
-- the arguments and the filter are combined
SELECT count(*) FROM taskq_list('f', 'dead', filter => '{"state": ["dead", "running"]}') l;
SELECT count(*) FROM taskq_list('f', 'dead', filter => '{"state": "pending"}') l;
SELECT count(*) FROM taskq_list(key => 'k1', filter => '{"key": "k1"}') l;
SELECT count(*) FROM taskq_list(key => 'k1', filter => '{"key": "k2"}') l;
SELECT count(*) FROM taskq_list(reference => 'r1', correlation_id => 'c1', filter => '{"reference": "r1", "correlation_id": "c1"}') l;
-- a bounded page says where the next one begins, and the bound is kept
SELECT count(task_id) AS tasks, count(resume_after) AS resumes, bool_and(task_id IS NULL OR queue IS NOT NULL) AS rows
  FROM taskq_list(filter => '{"payload": "$.n < 0"}', max_examined => 100);
SELECT a.pages BETWEEN 4 AND 20 AS pages FROM t.all_of('{"payload": "$.n < 0"}', NULL, 100, 100, false) a;
SELECT count(task_id) AS tasks, count(resume_after) AS resumes FROM taskq_list(max_rows => 5, max_examined => 100);
SELECT count(task_id) AS tasks, count(resume_after) AS resumes FROM taskq_list('f', filter => '{"priority_min": 10}');
SET taskq.max_examined = 40;
SELECT count(task_id) AS tasks, count(resume_after) AS resumes FROM taskq_list('f', filter => '{"priority_min": 10}');
-- calls without a filter have no bound
SELECT count(task_id) AS tasks, count(resume_after) AS resumes FROM taskq_list('f', 'dead', key => 'k4');
SELECT count(*) > 100 AS tasks, count(resume_after) AS resumes FROM taskq_list(max_rows => 1000);
RESET taskq.max_examined;
-- bad input
CREATE TABLE t.bad (n int GENERATED ALWAYS AS IDENTITY, filter text);
INSERT INTO t.bad (filter) VALUES
    ('[]'), ('1'), ('null'), ('"dead"'), ('{"states": ["dead"]}'), ('{"": 1}'), ('{"state": "lost"}'), ('{"state": []}'), ('{"state": ["dead", null]}'), ('{"state": [["dead"]]}'), ('{"state": {"a": 1}}'), ('{"state": 6}'),
    ('{"reason": "no reason"}'), ('{"reason": [1]}'), ('{"tags": "x"}'), ('{"tags": []}'), ('{"tags": [""]}'), ('{"tags": [null]}'), ('{"worker": 1}'), ('{"worker": ""}'), ('{"worker": ["a"]}'),
    ('{"key": ""}'), ('{"key": "a\nb"}'), ('{"key": true}'), ('{"reference": {}}'), ('{"correlation_id": 5}'), ('{"error": ""}'), ('{"error": 1}'), ('{"fingerprint": "x"}'), ('{"fingerprint": "0123456789ABCDEF"}'),
    ('{"created_from": "infinity"}'), ('{"created_to": "-infinity"}'), ('{"created_from": "soon"}'), ('{"created_from": "2026-13-01"}'), ('{"created_from": 5}'), ('{"created_from": "2026-02-01", "created_to": "2026-01-01"}'),
    ('{"finished_from": "2026-02-01", "finished_to": "2026-01-01"}'), ('{"run_from": "2026-02-01", "run_to": "2026-01-01"}'), ('{"claimed_from": "2026-02-01", "claimed_to": "2026-01-01"}'), ('{"created_from": "2026-01-01", "created_to": "2026-01-01"}'),
    ('{"created_from": "294276-12-31"}'), ('{"created_to": "4713-01-02 BC"}'),
    ('{"priority_min": 1.5}'), ('{"priority_min": 99999999999}'), ('{"priority_min": "1"}'), ('{"priority_min": 2, "priority_max": 1}'), ('{"workflow_id": "1"}'), ('{"workflow_id": 0}'), ('{"template": 1}'), ('{"template": ""}'),
    ('{"payload": 1}'), ('{"payload": "$.a =="}'), ('{"payload": ""}'), ('{"payload": "$.a == $b"}'), ('{"payload": "$.a == \"$\" && $.b == \"\\\"$\""}'), ('{"payload": "$.a like_regex \"(\""}'),
    ('{"from_id": 1.5}'), ('{"from_id": 5, "to_id": 4}'), ('{"from_id": 9223372036854775807}'), ('{"to_id": -9223372036854775808}'), ('{"to_id": 9223372036854775808}');
INSERT INTO t.bad (filter)
SELECT jsonb_build_object('state', array_fill('dead'::text, ARRAY[10000]))::text
 UNION ALL SELECT jsonb_build_object('tags', (SELECT array_agg('t' || i) FROM generate_series(1, 17) i))::text
 UNION ALL SELECT jsonb_build_object('tags', (SELECT array_agg('t' || i) FROM generate_series(1, 10000) i))::text
 UNION ALL SELECT jsonb_build_object('key', repeat('k', 501))::text
 UNION ALL SELECT jsonb_build_object('error', repeat('e', 8193))::text
 UNION ALL SELECT jsonb_build_object('payload', '$.a == "' || repeat('e', 65536) || '"')::text;
SELECT n, left(filter, 60) AS filter, t.try(format('SELECT count(*) FROM taskq_list(filter => %L)', filter)) FROM t.bad ORDER BY n;
SELECT t.try('SELECT taskq_list(max_examined => 0)');
SELECT t.try('SELECT taskq_list(max_examined => -1, filter => ''{}'')');
SELECT t.try('SELECT count(*) FROM taskq_list(max_examined => 9223372036854775807, filter => ''{}'')');
-- the valid members
DO $$ BEGIN PERFORM taskq_list(filter => '{"state_": 1}'); EXCEPTION WHEN invalid_parameter_value THEN DECLARE h text; BEGIN GET STACKED DIAGNOSTICS h = PG_EXCEPTION_HINT; RAISE NOTICE '%: %', SQLERRM, h; END; END $$;
-- a path that runs long can be cancelled
SELECT count(taskq_submit('long', jsonb_build_object('a', (SELECT jsonb_agg(i) FROM generate_series(1, 3000) i)))) FROM generate_series(1, 3);
SET statement_timeout = '300ms';
SELECT taskq_list('long', filter => '{"payload": "exists($.a[*] ? (exists($.a[*] ? (exists ($.a[*] ? (@ == -1))))))"}');
RESET statement_timeout;
-- conditions on contents match only what the caller may read
CREATE ROLE filter_monitor IN ROLE pg_monitor;
CREATE ROLE filter_reader;
SELECT taskq_grant('g', 'filter_reader', '{read}');
SET ROLE filter_monitor;
SELECT count(*) > 200 AS tasks FROM taskq_list(max_rows => 1000, filter => '{"priority_min": -5}');
SELECT count(*) AS tasks FROM taskq_list(filter => '{"payload": "$.n > 0"}', max_examined => 100000);
SELECT count(*) AS tasks FROM taskq_list(filter => '{"error": "quota"}', max_examined => 100000);
SELECT count(*) AS tasks FROM taskq_list(filter => jsonb_build_object('fingerprint', :'print'), max_examined => 100000);
SET ROLE filter_reader;
SELECT array_agg(DISTINCT queue) AS queues FROM taskq_list(filter => '{"payload": "$.n > 0"}', max_examined => 100000);
SELECT t.code($$SELECT taskq_list('f', filter => '{"payload": "$.n > 0"}')$$);
RESET ROLE;
-- a large payload and large errors are compared, too
SELECT taskq_submit('large', jsonb_build_object('word', 'needle', 'hay', repeat('hay', 5000))) AS large \gset
SELECT task_id = :large AS found FROM taskq_list('large', filter => '{"payload": "$.word == \"needle\""}');
SELECT taskq_fail(task_id, token, repeat('long ', 1000) || 'ending 17', false) FROM taskq_claim('large');
SELECT task_id = :large AS found FROM taskq_list('large', filter => '{"error": "ending 17"}');
SELECT task_id = :large AS found FROM taskq_list('large', filter => jsonb_build_object('fingerprint', taskq_fingerprint(repeat('long ', 1000) || 'ending 18')));
-- pages stay right while tasks move: between two pages tasks finish, are retried, and arrive
SELECT count(*) FROM taskq_submit_many('move', (SELECT array_agg(jsonb_build_object('keep', i % 3 = 0, 'i', i)) FROM generate_series(1, 200) i));
CREATE TABLE t.seen (task_id bigint, newest boolean);
CREATE TABLE t.before AS SELECT task_id FROM taskq.tasks WHERE queue = 'move' AND payload @> '{"keep": true}';
CREATE PROCEDURE t.page_through(newest boolean) LANGUAGE plpgsql AS $$
DECLARE
    after_id bigint;
    resume bigint;
    found bigint[];
    size int := 5;
BEGIN
    LOOP
        SELECT array_agg(task_id) FILTER (WHERE task_id IS NOT NULL), max(resume_after) INTO found, resume
          FROM taskq_list('move', after => after_id, max_rows => size, newest_first => newest, filter => '{"payload": "$.keep == true"}', max_examined => 20);
        INSERT INTO t.seen SELECT unnest(found), newest;
        EXIT WHEN resume IS NULL AND coalesce(cardinality(found), 0) < size;
        after_id := coalesce(resume, found[cardinality(found)]);
        COMMIT;
        PERFORM taskq_complete(task_id, token) FROM taskq_claim('move', max_tasks => 9);
        PERFORM taskq_fail(task_id, token, 'e', task_id % 2 = 0) FROM taskq_claim('move', max_tasks => 9);
        PERFORM taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'move' AND state = 'dead' AND task_id % 5 = 0;
        PERFORM taskq_cancel(task_id) FROM taskq_list('move', 'pending', newest_first => true, max_rows => 3);
        PERFORM taskq_submit('move', '{"keep": false}') FROM generate_series(1, 4);
        PERFORM taskq_submit('move', '{"keep": true}');
        COMMIT;
    END LOOP;
END
$$;
CALL t.page_through(false);
CALL t.page_through(true);
SELECT b.newest, count(*) AS tasks, count(*) FILTER (WHERE s.n IS NULL) AS missed, count(*) FILTER (WHERE s.n > 1) AS twice
  FROM (SELECT task_id, newest FROM t.before, (VALUES (false), (true)) v (newest)) b
  LEFT JOIN (SELECT task_id, newest, count(*) AS n FROM t.seen GROUP BY task_id, newest) s USING (task_id, newest) GROUP BY b.newest ORDER BY b.newest;
SELECT count(*) > 0 AS moved FROM taskq.tasks WHERE queue = 'move' AND finished_at IS NOT NULL;
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP OWNED BY filter_monitor, filter_reader;
DROP ROLE filter_monitor, filter_reader;
DROP PROCEDURE t.page_through(boolean);
DROP FUNCTION t.all_of(jsonb, text, int, bigint, boolean);
DROP TABLE t.held, t.filter, t.bad, t.seen, t.before;

--
-- look: get, lists and views
--
SELECT taskq_create_queue('look', '{"retry": "fixed", "retry_base": "0 s"}');
-- get and the view have the same columns, in the contract's order
SELECT string_agg(attname, ', ' ORDER BY attnum) AS columns FROM pg_attribute WHERE attrelid = 'taskq.task_info'::regclass AND attnum > 0;
SELECT count(*) AS different
  FROM (SELECT attnum, attname, atttypid FROM pg_attribute WHERE attrelid = 'taskq.task_info'::regclass AND attnum > 0) a
  FULL JOIN (SELECT attnum, attname, atttypid FROM pg_attribute WHERE attrelid = 'taskq.tasks'::regclass AND attnum > 0) b USING (attnum, attname, atttypid)
 WHERE a IS NULL OR b IS NULL;
-- tasks of several states, by number
CREATE TABLE t.n (n int PRIMARY KEY, id bigint);
CREATE FUNCTION t.numbers(bigint[]) RETURNS int[] LANGUAGE sql AS 'SELECT array_agg(n.n ORDER BY i.o) FROM unnest($1) WITH ORDINALITY i (id, o) LEFT JOIN t.n USING (id)';
INSERT INTO t.n SELECT i, taskq_submit('look', to_jsonb(i), key => 'k' || i % 2, reference => 'r' || i, correlation_id => 'c' || i % 3, data => '\x01', headers => '{"h": 1}') FROM generate_series(1, 9) i ORDER BY i;
SELECT count(taskq_cancel(id, 'not needed')) FROM t.n WHERE n = 1;
CREATE TABLE t.held AS SELECT task_id, token, payload::int AS n FROM taskq_claim('look', 'w', max_tasks => 5);
SELECT array_agg(n ORDER BY n) FROM t.held;
SELECT count(taskq_complete(task_id, token, '"r"')) FROM t.held WHERE n = 2;
SELECT taskq_fail(task_id, token, 'e', false) FROM t.held WHERE n = 3;
SELECT count(taskq_filter(task_id, token)) FROM t.held WHERE n = 4;
SELECT count(taskq_suspend(task_id, token)) FROM t.held WHERE n = 5;
SELECT t.n.n, g.state FROM t.n, taskq_get(id) g ORDER BY n;
-- get returns the same as the view, for each task
SELECT count(*) AS different FROM t.n, taskq_get(id) g, taskq.tasks v WHERE v.task_id = id AND v::text IS DISTINCT FROM g::text;
-- get_many keeps the order, with empty rows
SELECT t.numbers(array_agg(g.task_id)), array_agg(g.state)
  FROM taskq_get_many(ARRAY[(SELECT id FROM t.n WHERE n = 7), -1, (SELECT id FROM t.n WHERE n = 2), (SELECT id FROM t.n WHERE n = 7)])
       WITH ORDINALITY AS g (task_id, queue, state);
SELECT count(*) FROM taskq_get_many('{}');
SELECT t.try('SELECT taskq_get_many(NULL)');
SELECT t.try('SELECT taskq_get_many(ARRAY[1, NULL])');
SELECT t.try('SELECT taskq_get(NULL)');
SELECT t.try('SELECT taskq_get(0)');
-- list: filters
CREATE FUNCTION t.listed(args text) RETURNS int[] LANGUAGE plpgsql AS $$
DECLARE
    answer int[];
BEGIN
    EXECUTE format('SELECT t.numbers(array_agg(task_id)) FROM taskq_list(%s)', args) INTO answer;
    RETURN answer;
END
$$;
SELECT a, t.listed(a)
  FROM unnest(ARRAY['''look''', 'queue => ''look'', state => ''pending''', '''look'', ''running''', '''look'', ''suspended''', '''look'', ''done''', '''look'', ''dead''', '''look'', ''cancelled''',
       '''look'', ''filtered''', '''look'', ''blocked''', '''look'', ''redundant''', '''look'', ''recreated''',
       'state => ''dead''', 'reference => ''r7''', 'reference => ''r2''', '''look'', reference => ''r1''', 'key => ''k1''', '''look'', ''pending'', key => ''k1''', 'correlation_id => ''c0''',
       'key => ''k1'', correlation_id => ''c0''', 'reference => ''none''', 'newest_first => true', '''look'', newest_first => true, max_rows => 3', '''look'', max_rows => 4',
       'NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL']) a;
-- paging both ways
SELECT id AS third FROM t.n WHERE n = 3 \gset
SELECT t.listed(format('''look'', after => %s', :third)), t.listed(format('''look'', after => %s, max_rows => 2', :third)), t.listed(format('''look'', after => %s, newest_first => true', :third)),
       t.listed(format('''look'', ''pending'', after => %s', :third)), t.listed('''look'', after => 9223372036854775807'), t.listed('''look'', after => -1, max_rows => 1');
CREATE FUNCTION t.pages(newest boolean, size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    last bigint;
    page bigint[];
    pages text := '';
BEGIN
    LOOP
        SELECT array_agg(task_id) INTO page FROM taskq_list('look', after => last, max_rows => size, newest_first => newest);
        EXIT WHEN page IS NULL;
        pages := pages || t.numbers(page)::text;
        last := page[cardinality(page)];
    END LOOP;
    RETURN pages;
END
$$;
SELECT t.pages(false, 2), t.pages(true, 2), t.pages(false, 4), t.pages(true, 100);
-- without the contents of tasks
SELECT count(*) AS rows, count(payload) AS payloads, count(data) AS data FROM taskq_list('look', with_payload => false);
SELECT count(*) AS rows, count(payload) AS payloads, count(data) AS data FROM taskq_list('look');
-- words
SELECT t.try($$SELECT taskq_list(state => 'lost')$$);
SELECT t.try($$SELECT taskq_list('no such')$$);
SELECT t.try($$SELECT taskq_list(max_rows => 0)$$);
SELECT t.try($$SELECT taskq_list(max_rows => 10001)$$);
SELECT count(*) > 0 AS works FROM taskq_list(max_rows => 10000);
-- the default of 100 rows
SELECT count(*) FROM taskq_submit_many('look many', (SELECT array_agg(to_jsonb(i)) FROM generate_series(1, 150) i));
SELECT count(*) FROM taskq_list('look many');
SELECT count(*) FROM taskq_list('look many', max_rows => 1000);
-- queues
SELECT queue, pending, ready, blocked, running, suspended, done, dead, oldest_ready_age >= '0' AS waiting, active_workers, options FROM taskq.queues ORDER BY queue;
SELECT taskq_create_queue('look empty');
SELECT taskq_submit('look later', delay => '1 h') > 0 AS submitted;
SELECT queue, pending, ready, running, oldest_ready_age, active_workers FROM taskq.queues WHERE queue IN ('look empty', 'look later') ORDER BY queue;
SELECT taskq_pause('look empty', 'words');
SELECT paused FROM taskq.queues WHERE queue = 'look empty';
-- settings
SELECT name, unit, range FROM taskq.settings WHERE name IN ('taskq.auto_create_queues', 'taskq.dead_threshold', 'taskq.node_id', 'taskq.retention') ORDER BY name;
SELECT value, source FROM taskq.settings WHERE name = 'taskq.auto_create_queues';
-- a view does not write
SELECT t.code('UPDATE taskq.tasks SET state = ''done''');
SELECT t.code('DELETE FROM taskq.queues');
SELECT t.code('INSERT INTO taskq.workers (worker) VALUES (''w'')');
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;
DROP FUNCTION t.numbers(bigint[]), t.listed(text), t.pages(boolean, int);
DROP TABLE t.n, t.held;

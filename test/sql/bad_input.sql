--
-- bad_input: every function with every kind of bad argument
--
-- Nothing here may end the session or raise an internal error (class XX), and nothing may change.
-- Where the contract says which error is raised, it is checked.
--
SELECT taskq_create_queue('b');
SELECT taskq_submit('b', '1', reference => 'r') AS id \gset
SELECT token FROM taskq_claim('b') \gset
SELECT taskq_submit('b', '2') AS id2 \gset
SELECT taskq_register('bw', incarnation => 1);
SELECT taskq_define_workflow('{"namespace": "word", "name": "word", "version": "word", "queue": "bwf", "steps": [{"name": "a"}]}');
SELECT count(taskq_start_workflow('word', namespace => 'word'));
INSERT INTO taskq.operation (operation_id, action, queue_id, queue, role_id, dry_run, batch_size, state, position, last_id, called_at, called_at_dispatch, xid_before, system_id) VALUES (-1000000, 'hold', 0, 'b', 0, true, 1, 'paused', 0, 0, now(), now(), 0, 0);
-- a good call of each function; its arguments are replaced one by one
CREATE FUNCTION t.good_value(function text, name text, type text) RETURNS text LANGUAGE sql AS $$
SELECT CASE WHEN name = 'role' THEN '''public''' WHEN name = 'rights' THEN '''{read}'''
            WHEN name = 'workflow_id' THEN '(SELECT max(workflow_id) FROM taskq.workflows)'
            WHEN name = 'task_id' AND function IN ('taskq_ancestor_results', 'taskq_dependency_results', 'taskq_checkpoints') THEN '(SELECT max(task_id) FROM taskq.workflow_steps)'
            WHEN name = 'filter' AND function = 'taskq_list' THEN '''{}'''
            WHEN name = 'operation_id' THEN '(SELECT max(operation_id) FROM taskq.operations)' WHEN name = 'filter' AND function = 'taskq_manage_where' THEN '''{"state": "pending"}'''
            WHEN name = 'format' AND function = 'taskq_openmetrics' THEN '''prometheus''' WHEN name = 'format' THEN '''dot'''
            WHEN name = 'schedule' THEN '''every 1 h''' WHEN name = 'timezone' THEN '''UTC''' WHEN name = 'overlap' THEN '''allow''' WHEN name = 'catch_up' THEN '''one'''
            WHEN name = 'definition' THEN '''{"name": "x", "version": "1", "steps": []}'''
            WHEN name = 'task_id' THEN '$i' WHEN name = 'token' THEN '$t' WHEN name = 'task_ids' THEN 'ARRAY[$i]'
            WHEN name = 'tokens' THEN 'ARRAY[$t]' WHEN name = 'results' THEN 'ARRAY[''{}''::jsonb]' WHEN name IN ('tasks', 'decisions') THEN '''[]'''
            WHEN name = 'state' AND function IN ('taskq_retry_all', 'taskq_recreate_all') THEN '''dead''' WHEN name = 'states' THEN '''{done}''' WHEN name = 'reason' AND function IN ('taskq_purge', 'taskq_retry_all') THEN '''exhausted'''
            WHEN name = 'incarnation' AND function = 'taskq_claim' THEN 'NULL'
            WHEN name = 'worker' AND function = 'taskq_claim' THEN '''label''' WHEN name = 'worker' THEN '''bw'''
            WHEN name = 'queue' AND function = 'taskq_create_queue' THEN '''b2''' WHEN name = 'queue' THEN '''b'''
            WHEN name = 'insertion' OR name = 'reference' AND function = 'taskq_submit_many' THEN 'NULL'
            WHEN name = 'on_conflict' THEN '''error''' WHEN name = 'claim_order' THEN '''fifo''' WHEN name = 'state' THEN '''pending'''
            WHEN name = 'wait' THEN '''0''' WHEN name = 'bound' OR name = 'keep' THEN 'false' WHEN name = 'run_at' THEN 'NULL'
            WHEN name = 'mode' AND function = 'taskq_count' THEN '''total''' WHEN name = 'mode' THEN '''singular''' WHEN name LIKE 'finished\_%' THEN 'NULL'
            WHEN name = 'adds' THEN '''[{"queue": "b"}]''' WHEN name IN ('updates', 'deletes', 'depends') OR name LIKE 'doc\_%s' THEN '''[]''' WHEN name = 'queues' THEN '''{b}'''
            WHEN name = 'outcomes' THEN '''{fail}''' WHEN name = 'action' THEN '''hold''' WHEN name = 'from_state' THEN '''pending''' WHEN name = 'to_state' THEN '''cancelled''' WHEN name = 'filter' THEN '''{"queue": "b"}'''
            WHEN name = 'until' OR name = 'deadline' OR name = 'before' OR name = 'moment' THEN 'now() + interval ''1 h'''
            WHEN name = 'max_attempts' OR name = 'max_tasks' OR name = 'max_rows' OR name = 'max_running' THEN '5'
            WHEN type = 'text' THEN '''word''' WHEN type = 'text[]' THEN '''{a,b}''' WHEN type = 'jsonb' THEN '''{}''' WHEN type = 'jsonb[]' THEN '''{1,2}'''
            WHEN type = 'boolean' THEN 'false' WHEN type = 'interval' THEN '''1 s''' WHEN type = 'bytea' THEN '''\x00''' WHEN type = 'real' THEN '0.5'
            WHEN type = 'integer' THEN '1' WHEN type = 'bigint' THEN '1' WHEN type = 'timestamp with time zone' THEN 'now()' END;
$$;
CREATE VIEW t.argument AS
SELECT p.proname::text AS function, a.n::int AS n, a.name, format_type(p.proargtypes[a.n - 1], NULL) AS type,
       a.n > p.pronargs - p.pronargdefaults AS optional
  FROM pg_proc p, unnest(p.proargnames[1:p.pronargs]) WITH ORDINALITY a (name, n)
 WHERE p.proname LIKE 'taskq\_%' AND p.pronamespace = 'public'::regnamespace AND p.prokind = 'f';
-- the call with one argument replaced
CREATE FUNCTION t.call(function text, number int, value text) RETURNS text LANGUAGE sql AS $$
SELECT format('SELECT * FROM %s(%s)', $1,
              (SELECT string_agg(format('%s => (%s)::%s', a.name, CASE WHEN a.n = number THEN value ELSE t.good_value($1, a.name, a.type) END, a.type), ', ' ORDER BY a.n)
                 FROM t.argument a WHERE a.function = $1));
$$;
-- the SQLSTATE of a call that is rolled back
CREATE FUNCTION t.undone(statement text, id bigint, token bigint) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE replace(replace(statement, '$i', id::text), '$t', token::text);
    RAISE division_by_zero;
EXCEPTION
    WHEN division_by_zero THEN
        RETURN 'ok';
    WHEN OTHERS THEN
        RETURN SQLSTATE;
END
$$;
-- each good call succeeds (TQ005: the task is running, or the instance has not ended; TQ006, 55006:
-- the object exists, or has tasks)
SELECT p.function, t.undone(t.call(p.function, 0, NULL), :id, :token)
  FROM (SELECT DISTINCT function FROM t.argument) p ORDER BY p.function;
-- NULL in each argument: an optional one counts as not given, a required one raises 22004
SELECT a.function, a.name, a.optional, t.undone(t.call(a.function, a.n, 'NULL'), :id, :token) AS code
  FROM t.argument a
 WHERE t.undone(t.call(a.function, a.n, 'NULL'), :id, :token) IS DISTINCT FROM
       CASE WHEN a.optional THEN t.undone(t.call(a.function, 0, NULL), :id, :token) ELSE '22004' END
 ORDER BY a.function, a.n;
-- NULL in all of them, and nothing given
SELECT p.function, t.undone(format('SELECT * FROM %s(%s)', p.function, p.nulls), :id, :token) AS all_null,
       t.undone(format('SELECT * FROM %s()', p.function), :id, :token) AS none
  FROM (SELECT function, string_agg('NULL', ', ') AS nulls FROM t.argument GROUP BY function) p ORDER BY p.function;
-- values of each type that are bad, large, small or strange
CREATE TABLE t.bad (type text, what text, value text);
INSERT INTO t.bad VALUES
    ('text', 'empty', ''''''), ('text', 'control', 'E''a\nb'''), ('text', 'beep', 'E''\x07'''), ('text', 'delete', 'E''a\x7f'''), ('text', '201 bytes', 'repeat(''x'', 201)'),
    ('text', '501 bytes', 'repeat(''x'', 501)'), ('text', '1 MB', 'repeat(''x'', 1000000)'), ('text', 'star', '''*'''), ('text', 'quote', ''''''''''), ('text', 'space', ''' '''),
    ('integer', 'minus one', '(-1)'), ('integer', 'zero', '0'), ('integer', 'min', '(-2147483648)'), ('integer', 'max', '2147483647'),
    ('bigint', 'minus one', '(-1)'), ('bigint', 'zero', '0'), ('bigint', 'min', '(-9223372036854775808)'), ('bigint', 'max', '9223372036854775807'), ('bigint', '2^53', '9007199254740992'),
    ('real', 'NaN', '''NaN'''), ('real', 'infinity', '''Infinity'''), ('real', 'minus infinity', '''-Infinity'''), ('real', 'above one', '1.5'), ('real', 'below zero', '(-0.5)'), ('real', 'tiny', '1e-40'),
    ('interval', 'negative', '''-1 s'''), ('interval', 'huge', '''178000000 years'''), ('interval', 'least', '''-178000000 years'''), ('interval', 'zero', '''0'''), ('interval', 'mixed', '''1 month -31 days'''),
    ('interval', 'large time', '''2562047788 hours'''), ('interval', 'overflow', '''178000000 years 2147483647 days 2562047788 hours'''),
    ('timestamp with time zone', 'infinity', '''infinity'''), ('timestamp with time zone', 'minus infinity', '''-infinity'''), ('timestamp with time zone', 'far', '''294276-12-31 00:00:00+00'''),
    ('timestamp with time zone', 'first', '''4714-11-24 00:00:00 BC'''), ('timestamp with time zone', 'past', '''2000-01-01'''), ('timestamp with time zone', 'eleven years', 'now() + interval ''11 years'''),
    ('text[]', 'empty', '''{}'''), ('text[]', 'null element', '''{a,NULL}'''), ('text[]', 'null only', '''{NULL}'''), ('text[]', 'empty string', '''{""}'''), ('text[]', 'two dimensions', '''{{a},{b}}'''), ('text[]', 'six dimensions', '''{{{{{{a}}}}}}'''),
    ('text[]', '17', '(SELECT array_agg(''t'' || i) FROM generate_series(1, 17) i)'), ('text[]', '100000', '(SELECT array_agg(''t'' || i) FROM generate_series(1, 100000) i)'), ('text[]', 'control', 'ARRAY[E''a\nb'']'),
    ('text[]', 'long', 'ARRAY[repeat(''x'', 201)]'), ('text[]', 'other bounds', '''[5:6]={a,b}'''),
    ('bigint[]', 'empty', '''{}'''), ('bigint[]', 'null element', '''{1,NULL}'''), ('bigint[]', 'two dimensions', '''{{1},{2}}'''), ('bigint[]', 'negative', '''{-1,0,9223372036854775807}'''), ('bigint[]', 'many', '(SELECT array_agg(i) FROM generate_series(1, 10000) i)'),
    ('jsonb[]', 'empty', '''{}'''), ('jsonb[]', 'null element', '''{1,NULL}'''), ('jsonb[]', 'two dimensions', '''{{1},{2}}'''), ('jsonb[]', 'large', 'ARRAY[to_jsonb(repeat(''x'', 1100000))]'),
    ('jsonb', 'null', '''null'''), ('jsonb', 'number', '''1'''), ('jsonb', 'string', '''"x"'''), ('jsonb', 'true', '''true'''), ('jsonb', 'list', '''[1, 2]'''), ('jsonb', 'nested', '(repeat(''['', 1000) || repeat('']'', 1000))'),
    ('jsonb', 'unknown member', '''{"no such": 1}'''), ('jsonb', 'empty member', '''{"": 1}'''), ('jsonb', '70 kB', 'to_jsonb(repeat(''x'', 70000))'), ('jsonb', '1.1 MB', 'jsonb_build_object(''x'', repeat(''x'', 1100000))'), ('jsonb', 'large number', '(''1'' || repeat(''0'', 10000))'),
    ('bytea', '1.1 MB', 'decode(repeat(''00'', 1100000), ''hex'')'), ('bytea', 'empty', '''''');
SELECT taskq_drop_queue('b2') FROM taskq.queues WHERE queue = 'b2';
CREATE TABLE t.answer AS
SELECT a.function, a.n, a.name, a.type, b.what, t.undone(t.call(a.function, a.n, b.value), :id, :token) AS code
  FROM t.argument a JOIN t.bad b USING (type);
-- no internal error, no crash, no error of another kind than these
SELECT * FROM t.answer WHERE code NOT IN ('ok', '22023', '22004', '2202E', '0A000', '42704', '55006', 'TQ001', 'TQ002', 'TQ003', 'TQ004', 'TQ005', 'TQ006', 'TQ007', 'TQ009', 'TQ010', 'TQ011');
-- arrays
SELECT type, what, code, count(*), string_agg(DISTINCT name, ' ' ORDER BY name) AS names FROM t.answer WHERE type LIKE '%[]' GROUP BY type, what, code ORDER BY type, what, code;
-- infinite times, and times far away
SELECT type, what, code, count(*), string_agg(DISTINCT name, ' ' ORDER BY name) AS names FROM t.answer WHERE type IN ('interval', 'timestamp with time zone') GROUP BY type, what, code ORDER BY type, what, code;
-- numbers
SELECT type, what, code, count(*), string_agg(DISTINCT name, ' ' ORDER BY name) AS names FROM t.answer WHERE type IN ('integer', 'bigint', 'real') GROUP BY type, what, code ORDER BY type, what, code;
-- names
SELECT name, what, code, count(*) FROM t.answer WHERE type = 'text' AND name IN ('queue', 'worker', 'key', 'reference', 'correlation_id') GROUP BY name, what, code ORDER BY name, what, code;
-- free text is any text
SELECT function, name, code, count(*) FROM t.answer WHERE name IN ('reason', 'comment', 'error', 'message') AND type = 'text' AND code NOT IN ('ok', 'TQ005') GROUP BY function, name, code ORDER BY function, name;
-- words of a list
SELECT name, code, count(*) FROM t.answer WHERE name IN ('state', 'on_conflict', 'insertion', 'claim_order', 'role') AND type = 'text' GROUP BY name, code ORDER BY name, code;
-- documents and bytes
SELECT name, what, string_agg(DISTINCT code, ' ' ORDER BY code) AS codes, count(*) FROM t.answer WHERE type IN ('jsonb', 'bytea') GROUP BY name, what ORDER BY name, what;
-- lists of ids: empty, one, very many, duplicates, unknown ones, of different lengths
SELECT f, l, t.undone(format('SELECT * FROM %s(%s, %s)', f, l, coalesce(k, l)), :id, :token) AS code
  FROM unnest('{taskq_complete_many,taskq_extend_many,taskq_complete_and_claim}'::text[]) f,
       (VALUES ('''{}''', NULL), ('ARRAY[$i]', 'ARRAY[$t]'), ('ARRAY[$i,$i,$i]', 'ARRAY[$t,$t,$t]'), ('(SELECT array_agg(g::bigint) FROM generate_series(1000000, 1099999) g)', NULL), ('ARRAY[$i]', 'ARRAY[$t,$t]'), ('ARRAY[$i,NULL]', 'ARRAY[$t,1]'),
               ('ARRAY[$i,-1]', 'ARRAY[$t,-1]'), ('ARRAY[ARRAY[$i],ARRAY[$i]]', NULL)) x (l, k);
-- errors that PostgreSQL itself raises
SELECT c, t.code(c) FROM unnest(ARRAY[
    'SELECT taskq_submit(''b'', ''{'')', 'SELECT taskq_submit(''b'', ''"\u0000"'')', 'SELECT taskq_submit(''b'', ''"\ud800"'')', 'SELECT taskq_submit(''b'', E''"\xff"'')',
    'SELECT taskq_submit(E''a\x00b'')', 'SELECT taskq_submit(1)', 'SELECT taskq_submit(queue => ''b'', queue => ''b'')', 'SELECT taskq_submit(nothing => 1)', 'SELECT taskq_claim(''b'', ''w'', 2147483648)',
    'SELECT taskq_complete(9223372036854775808, 1)', 'SELECT taskq_submit(''b'', priority => 1.5)']) c;
-- and nothing changed
SELECT task_id = :id OR task_id = :id2 AS known, state, payload, attempt, reference FROM taskq.tasks ORDER BY task_id;
SELECT queue, options, paused FROM taskq.queues;
SELECT (taskq_heartbeat('bw')).state; -- the earlier calls may have taken long
SELECT worker, state, tags FROM taskq.workers WHERE state = 'active';
SELECT taskq_complete(:id, :token);
SELECT taskq_deregister('bw');
SELECT * FROM taskq_check();
SELECT taskq_drop_queue('b', true);
-- remove the workflow with all of its rows
SELECT taskq_cancel_workflow(max(workflow_id)) FROM taskq.workflows;
DELETE FROM taskq.archive_keep WHERE workflow_id IS NOT NULL;
DELETE FROM taskq.transition;
DELETE FROM taskq.edge;
DELETE FROM taskq.workflow;
DELETE FROM taskq.template;
SELECT taskq_drop_queue('bwf');
DROP TABLE t.bad, t.answer;
DROP FUNCTION t.call(text, int, text), t.good_value(text, text, text), t.undone(text, bigint, bigint);
DROP VIEW t.argument;

--
-- queue: create, change, drop, and every option
--
SELECT taskq_create_queue('q');
SELECT t.try($$SELECT taskq_create_queue('q')$$);
SELECT taskq_create_queue('q', if_not_exists => true);
SELECT t.try($$SELECT taskq_create_queue('q', '{"priority": 1}', false)$$);
SELECT queue, options FROM taskq.queues;
SELECT taskq_create_queue('with options', '{"priority": 5, "max_attempts": 7, "lease": "1 min", "order": "lifo"}');
SELECT queue, owner = current_user AS mine, paused, options, oldest_ready_age FROM taskq.queues WHERE queue = 'with options';
SELECT priority, max_attempts FROM taskq_get(taskq_submit('with options'));
SELECT priority, max_attempts FROM taskq_get(taskq_submit('with options', priority => 0, max_attempts => 1));
-- names
SELECT t.try($$SELECT taskq_create_queue('')$$);
SELECT t.try($$SELECT taskq_create_queue('*')$$);
SELECT t.try($$SELECT taskq_create_queue(NULL)$$);
SELECT t.try($$SELECT taskq_create_queue(E'a\x1bb')$$);
SELECT t.try(format('SELECT taskq_create_queue(%L)', repeat('x', 200)));
SELECT t.try(format('SELECT taskq_create_queue(%L)', repeat('x', 201)));
SELECT taskq_create_queue(n), n FROM unnest(ARRAY['Q', ' q ', '"q"', 'q;--', 'ü', 'taskq.task']) n;
SELECT count(*) FROM taskq.queues WHERE queue IN ('q', 'Q', ' q ', '"q"', 'q;--', 'ü', 'taskq.task');
-- every option, valid values and invalid ones
CREATE TABLE t.options (o text, v text);
INSERT INTO t.options
SELECT o, v FROM (VALUES
    ('priority', '{0,-32768,32767,-32769,32768,1.5,"\"1\"",true,[],1e400}'::text[]),
    ('max_attempts', '{1,-1,2147483647,0,-2,2147483648,1.5,"\"3\""}'),
    ('retry', '{"\"exponential\"","\"linear\"","\"fixed\"","\"Fixed\"","\"\"","\"list\"",1}'),
    ('retry_base', '{"\"1 s\"","\"0 s\"","\"1 day 2 h\"","\"1\"","\"\"","\"-1 s\"","\"11 years\"","\"soon\"",1,"\"P1D\""}'),
    ('retry_cap', '{"\"1 min\"","\"0 s\"","\"1\"","\"-1 s\"",1}'),
    ('retry_list', '{"[\"1 s\"]","[\"1 s\", \"2 h\"]","[]","[1]","[\"1\"]","[\"-1 s\"]","\"1 s\"","{\"a\": \"1 s\"}","[[\"1 s\"]]","[null]"}'),
    ('retry_jitter', '{0,1,0.5,-0.1,1.1,"\"0.5\""}'),
    ('lease', '{"\"1 ms\"","\"1 d\"","\"0 s\"","\"-1 s\"","\"5\"",5,"\"11 years\""}'),
    ('time_limit', '{"\"1 s\"","\"0 s\"","\"1\"",1}'),
    ('order', '{"\"fifo\"","\"lifo\"","\"random\"","\"best\"",1}'),
    ('max_payload', '{1,1048576,268435456,0,-1,268435457,1.5,"\"1 MB\""}'),
    ('retention', '{"\"1 d\"","\"forever\"","\"none\"",0,"\"0\"","\"0 s\"",1,"\"1\"","\"-1 d\"","\"never\"","null"}'),
    ('retention_dead', '{"\"1 d\"","\"forever\"","\"none\"",0,"\"0\"","\"0 s\"","\"-1 d\""}')
    ) x (o, vs), unnest(x.vs) v;
SELECT o, v,
       replace(t.try(format('SELECT taskq_alter_queue(''q'', %L)', format('{%s: %s}', to_json(o), v))), 'queue option ', '') AS answer
  FROM t.options;
DROP TABLE t.options;
SELECT options FROM taskq.queues WHERE queue = 'q';
-- list needs its list, given now or before
SELECT t.try($$SELECT taskq_create_queue('list', '{"retry": "list"}')$$);
SELECT t.try($$SELECT taskq_create_queue('list', '{"retry": "list", "retry_list": ["1 s"]}')$$);
SELECT t.try($$SELECT taskq_alter_queue('list', '{"retry_list": null}')$$);
SELECT t.try($$SELECT taskq_alter_queue('list', '{"retry": null, "retry_list": null}')$$);
-- unknown ones, and documents that are no objects
SELECT t.try($$SELECT taskq_alter_queue('q', '{"colour": "red"}')$$);
SELECT t.try($$SELECT taskq_alter_queue('q', '{"Priority": 1}')$$);
SELECT t.try($$SELECT taskq_alter_queue('q', '{"": 1}')$$);
SELECT t.code($$SELECT taskq_alter_queue('q', '{"colour": null}')$$);
SELECT d, t.try(format('SELECT taskq_alter_queue(''q'', %L)', d))
  FROM unnest(ARRAY['[]', '1', '"x"', 'null', 'true', '[["priority", 1]]']) d;
SELECT t.try($$SELECT taskq_alter_queue('q', NULL)$$);
SELECT t.try($$SELECT taskq_alter_queue(NULL, '{}')$$);
SELECT t.try($$SELECT taskq_alter_queue('no such', '{}')$$);
-- an invalid option changes nothing, not even the valid ones with it
SELECT options AS before FROM taskq.queues WHERE queue = 'q' \gset
SELECT t.code($$SELECT taskq_alter_queue('q', '{"priority": 77, "retry": "never"}')$$);
SELECT t.code($$SELECT taskq_create_queue('half', '{"priority": 77, "retry": "never"}')$$);
SELECT options = :'before' AS unchanged FROM taskq.queues WHERE queue = 'q';
SELECT count(*) FROM taskq.queues WHERE queue = 'half';
-- only the named options change, null resets an option
SELECT taskq_create_queue('change', '{"priority": 1, "lease": "1 h"}');
SELECT taskq_alter_queue('change', '{"priority": 2}');
SELECT options FROM taskq.queues WHERE queue = 'change';
SELECT taskq_alter_queue('change', '{"priority": null}');
SELECT options FROM taskq.queues WHERE queue = 'change';
SELECT taskq_alter_queue('change', '{}');
SELECT options FROM taskq.queues WHERE queue = 'change';
SELECT priority FROM taskq_get(taskq_submit('change'));
-- defaults of all queues
SELECT taskq_alter_queue('*', '{"priority": 9, "max_attempts": 8, "lease": "2 h"}');
SELECT priority, max_attempts FROM taskq_get(taskq_submit('change'));
SELECT taskq_alter_queue('change', '{"priority": 3}');
SELECT priority, max_attempts FROM taskq_get(taskq_submit('change'));
SELECT lease_until - now() BETWEEN interval '59 min' AND interval '61 min' AS own
  FROM taskq_claim('change');
SELECT priority, max_attempts FROM taskq_get(taskq_submit('born later'));
SELECT lease_until - now() BETWEEN interval '119 min' AND interval '121 min' AS of_all
  FROM taskq_claim('born later');
-- options of existing tasks stay
SELECT taskq_submit('change') AS id \gset
SELECT taskq_alter_queue('change', '{"priority": -5, "max_attempts": 2}');
SELECT priority, max_attempts FROM taskq_get(:id);
SELECT taskq_alter_queue('*', '{"priority": null, "max_attempts": null, "lease": null}');
SELECT priority, max_attempts FROM taskq_get(taskq_submit('born later'));
SELECT t.try($$SELECT taskq_alter_queue('*', '{"colour": "red"}')$$) LIKE 'TQ004: %' AS refused;
-- '*' is not a queue
SELECT count(*) FROM taskq.queues WHERE queue = '*';
-- drop
SELECT t.try($$SELECT taskq_drop_queue('no such')$$);
SELECT t.try($$SELECT taskq_drop_queue('*', true)$$);
SELECT t.try($$SELECT taskq_drop_queue(NULL)$$);
SELECT t.try($$SELECT taskq_drop_queue('born later')$$);
SELECT t.try($$SELECT taskq_drop_queue('born later', NULL)$$);
SELECT count(*) FROM taskq_list('born later');
SELECT taskq_drop_queue('born later', true);
SELECT t.try($$SELECT count(*) FROM taskq_list('born later')$$);
-- with finished tasks only, no force is needed
SELECT taskq_submit('finished') AS id \gset
SELECT taskq_cancel(:id);
SELECT taskq_submit('finished') AS id \gset
SELECT task_id, token FROM taskq_claim('finished') \gset
SELECT taskq_complete(:task_id, :token);
SELECT taskq_drop_queue('finished');
SELECT t.try(format('SELECT taskq_get(%s)', :id)) LIKE 'TQ002: %' AS gone;
-- a worker of a dropped queue loses its task
SELECT taskq_submit('dropped') AS id \gset
SELECT token FROM taskq_claim('dropped') \gset
SELECT taskq_drop_queue('dropped', true);
SELECT left(t.try(format('SELECT taskq_complete(%s, %s)', :id, :token)), 5);
-- the name is free, and a new queue has nothing of the former one
SELECT taskq_create_queue('dropped');
SELECT options, pending, running, done FROM taskq.queues WHERE queue = 'dropped';
SELECT count(*) FROM taskq_claim('dropped');
-- in a transaction that is rolled back
BEGIN;
SELECT taskq_drop_queue('dropped');
SELECT taskq_create_queue('brief');
SELECT taskq_submit('brief') > 0 AS submitted;
SELECT taskq_alter_queue('change', '{"priority": 1000}');
ROLLBACK;
SELECT queue FROM taskq.queues WHERE queue IN ('dropped', 'brief') ORDER BY queue;
SELECT priority FROM taskq_get(taskq_submit('change'));
-- dropped and created again in one transaction
BEGIN;
SELECT taskq_submit('dropped') > 0 AS submitted;
SELECT taskq_drop_queue('dropped', true);
SELECT taskq_submit('dropped', '"second"') > 0 AS submitted;
COMMIT;
SELECT payload FROM taskq_claim('dropped', max_tasks => 5);
SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) AS dropped FROM taskq.queues;

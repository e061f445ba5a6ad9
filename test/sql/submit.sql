--
-- submit: what a task can have, and what is shown of it
--
-- no argument: the queue "default", and the defaults of queues
SELECT taskq_submit() AS id \gset
SELECT queue, state, reason, message, priority, attempt, max_attempts, token,
       key, reference, tags, payload, data, headers, correlation_id
  FROM taskq_get(:id);
SELECT result, error, errors, checkpoint, progress, worker, deadline,
       claimed_at, lease_until, finished_at, cancel_requested_at,
       submitted_by = current_user AS mine, run_as = current_user AS as_me,
       descent, recreated_as, workflow_id, step
  FROM taskq_get(:id);
SELECT abs(extract(epoch FROM run_at - created_at)) < 1 AS due_at_once,
       now() - created_at < interval '1 min' AS just_now
  FROM taskq_get(:id);
-- the queue was created with it, and belongs to the extension's owner
SELECT q.queue, q.owner = e.rolname AS owned_by_extension, q.paused, q.pending,
       q.ready, q.blocked, q.running, q.suspended, q.done, q.dead, q.options
  FROM taskq.queues q, (SELECT extowner::regrole::text AS rolname
                          FROM pg_extension WHERE extname = 'taskq') e
 WHERE q.queue = 'default';
-- all arguments
SELECT taskq_submit(queue => 'submit', payload => '{"a": [1, "é", null]}',
    priority => -7, run_at => now() + interval '1 h',
    deadline => now() + interval '2 h', max_attempts => 9,
    tags => '{gpu,eu,gpu}', key => 'k1', reference => 'r1',
    on_conflict => 'error', headers => '{"h": 1}', correlation_id => 'c1',
    data => '\x00ff', insertion => 'append', suspended => false,
    options => NULL) AS id \gset
SELECT queue, state, reason, message, priority, attempt, max_attempts, token,
       key, reference, tags, payload, data, headers, correlation_id,
       run_at - now() > interval '59 min' AS later,
       deadline - run_at > interval '59 min' AS deadline_later
  FROM taskq_get(:id);
-- an optional argument of NULL counts as not given
SELECT taskq_submit(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS id \gset
SELECT queue, state, priority, max_attempts, tags, payload, abs(extract(epoch FROM run_at - created_at)) < 1 AS due_at_once
  FROM taskq_get(:id);
-- a JSON null is a payload, SQL's NULL is not
SELECT taskq_submit('submit', payload => 'null') AS id \gset
SELECT payload, payload IS NULL AS none FROM taskq_get(:id);
SELECT p.payload, (taskq_get(taskq_submit('submit', p.payload))).payload = p.payload AS same
  FROM (VALUES ('1'::jsonb), ('"x"'), ('true'), ('[]'), ('{}'), ('[[1], {"a": {"b": 2}}]')) p (payload);
-- due times
SELECT abs(extract(epoch FROM run_at - created_at) - 90) < 1 AS after_delay
  FROM taskq_get(taskq_submit('submit', delay => '90 s'));
SELECT abs(extract(epoch FROM run_at - created_at)) < 1 AS at_once
  FROM taskq_get(taskq_submit('submit', delay => '0'));
SELECT abs(extract(epoch FROM run_at - created_at)) < 1 AS at_once, run_at < created_at AS past
  FROM taskq_get(taskq_submit('submit', run_at => now() - interval '1 h'));
SELECT t.try($$SELECT taskq_submit('submit', run_at => now(), delay => '1 s')$$);
SELECT t.try($$SELECT taskq_submit('submit', delay => '-1 s')$$);
SELECT t.try($$SELECT taskq_submit('submit', delay => '11 years')$$);
SELECT t.try($$SELECT taskq_submit('submit', run_at => 'infinity')$$);
SELECT t.try($$SELECT taskq_submit('submit', run_at => '-infinity')$$);
SELECT t.try($$SELECT taskq_submit('submit', run_at => now() + interval '11 years')$$);
SELECT t.try($$SELECT taskq_submit('submit', run_at => now() - interval '11 years')$$);
SELECT t.try($$SELECT taskq_submit('submit', deadline => now() - interval '1 s')$$);
SELECT t.try($$SELECT taskq_submit('submit', deadline => 'infinity')$$);
SELECT t.try($$SELECT taskq_submit('submit', deadline => now() + interval '11 years')$$);
SELECT t.try($$SELECT taskq_submit('submit', delay => '2 h', deadline => now() + interval '1 h')$$);
SELECT t.try($$SELECT taskq_submit('submit', run_at => now() + interval '2 h', deadline => now() + interval '1 h')$$);
-- numbers
SELECT t.try(format('SELECT taskq_submit(''submit'', priority => %s) > 0', p)) AS priority, p
  FROM unnest(ARRAY[-32768, 32767, -32769, 32768, 2147483647]) p;
SELECT t.try(format('SELECT taskq_submit(''submit'', max_attempts => %s) > 0', n)) AS max_attempts, n
  FROM unnest(ARRAY[1, -1, 2147483647, 0, -2]) n;
-- names and words
SELECT t.try($$SELECT taskq_submit('')$$);
SELECT t.try($$SELECT taskq_submit('*')$$);
SELECT t.try($$SELECT taskq_submit(E'a\tb')$$);
SELECT t.try($$SELECT taskq_submit(E'a\x7fb')$$);
SELECT t.try(format('SELECT taskq_submit(%L) > 0', repeat('q', 200)));
SELECT t.try(format('SELECT taskq_submit(%L)', repeat('q', 201)));
-- bytes count, not characters
SELECT t.try(format('SELECT taskq_submit(%L) > 0', repeat('é', 100)));
SELECT t.try(format('SELECT taskq_submit(%L)', repeat('é', 101)));
SELECT a, n, t.try(format('SELECT taskq_submit(''submit'', %s => %L) > 0', a, repeat('x', n)))
  FROM unnest(ARRAY['key', 'reference', 'correlation_id']) a,
       unnest(ARRAY[0, 500, 501]) n;
SELECT a, t.try(format('SELECT taskq_submit(''submit'', %s => %L)', a, E'a\nb'))
  FROM unnest(ARRAY['key', 'reference', 'correlation_id']) a;
SELECT t.try($$SELECT taskq_submit('submit', on_conflict => 'ignore')$$);
SELECT t.try($$SELECT taskq_submit('submit', insertion => 'prepend')$$);
-- tags: sorted, once each, at most 16 of up to 63 bytes
SELECT tags FROM taskq_get(taskq_submit('submit', tags => '{b,a,b,a}'));
SELECT tags FROM taskq_get(taskq_submit('submit', tags => '{}'));
SELECT cardinality(tags) FROM taskq_get(taskq_submit('submit',
    tags => (SELECT array_agg('t' || i) FROM generate_series(1, 16) i)));
SELECT cardinality(tags) FROM taskq_get(taskq_submit('submit',
    tags => (SELECT array_agg('t' || i % 16) FROM generate_series(1, 100) i)));
SELECT t.try($$SELECT taskq_submit('submit', tags => (SELECT array_agg('t' || i) FROM generate_series(1, 17) i))$$);
SELECT t.try(format('SELECT (taskq_get(taskq_submit(''submit'', tags => ARRAY[%L]))).tags[1] = %1$L', repeat('x', 63)));
SELECT t.try(format('SELECT taskq_submit(''submit'', tags => ARRAY[%L])', repeat('x', 64)));
SELECT t.try($$SELECT taskq_submit('submit', tags => '{a,NULL}')$$);
SELECT t.try($$SELECT taskq_submit('submit', tags => '{a,""}')$$);
SELECT t.try($$SELECT taskq_submit('submit', tags => ARRAY[E'a\nb'])$$);
SELECT t.try($$SELECT taskq_submit('submit', tags => '{{a},{b}}')$$);
-- headers: an object of up to 64 kB
SELECT t.try($$SELECT taskq_submit('submit', headers => '[1]')$$);
SELECT t.try(format('SELECT taskq_submit(''submit'', headers => %L) > 0', jsonb_build_object('h', repeat('x', 60000))));
SELECT t.try(format('SELECT taskq_submit(''submit'', headers => %L)', jsonb_build_object('h', repeat('x', 65536))));
-- suspended: it waits until it is retried by hand
SELECT taskq_submit('parked', suspended => true) AS id \gset
SELECT state, reason FROM taskq_get(:id);
SELECT count(*) FROM taskq_claim('parked');
SELECT taskq_retry(:id);
SELECT state, reason, attempt FROM taskq_get(:id);
SELECT task_id = :id AS the_same FROM taskq_claim('parked');
-- many: ids in the order of the payloads, all other arguments apply to each
SELECT array_agg(m.id ORDER BY m.o) = array_agg(m.id ORDER BY m.id) AS rising,
       array_agg((taskq_get(m.id)).payload ORDER BY m.o) AS payloads
  FROM taskq_submit_many('many', ARRAY['1', '{"x": 2}', 'null']::jsonb[],
       priority => 4, tags => '{t}', correlation_id => 'all', delay => '1 h',
       headers => '{"h": 1}', data => '\x01', key => 'k', max_attempts => 2)
       WITH ORDINALITY m (id, o);
SELECT state, priority, tags, correlation_id, headers, data, key, max_attempts,
       count(*), count(payload) AS with_payload
  FROM taskq_list('many')
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8;
SELECT count(*) FROM taskq_submit_many('many', '{}');
SELECT count(*) AS n, count(DISTINCT m) AS different
  FROM taskq_submit_many('many', (SELECT array_agg(to_jsonb(i)) FROM generate_series(1, 3000) i)) m;
SELECT bool_and(payload::int = o) AS in_order
  FROM (SELECT payload, row_number() OVER (ORDER BY task_id) AS o
          FROM taskq.tasks WHERE queue = 'many' AND priority = 0) s;
SELECT t.try($$SELECT taskq_submit_many(NULL, '{1}')$$);
SELECT t.try($$SELECT taskq_submit_many('many', ARRAY['1', NULL]::jsonb[])$$);
SELECT t.try($$SELECT taskq_submit_many('many', NULL)$$);
SELECT t.try($$SELECT taskq_submit_many('many', ARRAY[ARRAY['1'], ARRAY['2']]::jsonb[])$$);
-- if one argument is invalid, no task is submitted
SELECT count(*) AS before FROM taskq.tasks WHERE queue = 'many' \gset
SELECT t.code($$SELECT taskq_submit_many('many', '{1,2,3}', priority => 99999)$$);
SELECT count(*) = :before AS same FROM taskq.tasks WHERE queue = 'many';
-- a list of tasks, each with its own arguments
SELECT array_agg(l.id ORDER BY l.o) = array_agg(l.id ORDER BY l.id) AS rising, count(*)
  FROM taskq_submit_tasks(format('[{"queue": "list", "payload": {"x": 1}, "priority": 4, "deadline": "%s", "max_attempts": 7, "tags": ["b", "a", "b"], "key": "k", "reference": "r", "on_conflict": "error", "headers": {"h": 1},
        "correlation_id": "c", "data": "\\x00ff", "insertion": "append", "suspended": true, "options": {"lease": "1 h"}, "run_at": "%s"},
    {"queue": "list", "payload": null, "delay": "1 h", "data": "text"}, {}, {"queue": "list", "payload": [1], "tags": []}, {"queue": "list", "payload": "null", "suspended": false},
    {"queue": "list", "payload": null, "priority": null, "run_at": null, "delay": null, "deadline": null, "max_attempts": null, "tags": null, "key": null, "reference": null, "on_conflict": null, "headers": null, "correlation_id": null,
     "data": null, "insertion": null, "suspended": null, "options": null}, {"queue": null}]', now() + interval '480 h', now() + interval '240 h')::jsonb) WITH ORDINALITY l (id, o);
SELECT queue, state, payload, priority, max_attempts, tags, key, reference, headers, correlation_id, data, date_trunc('hour', deadline - created_at + interval '1 min') AS deadline, date_trunc('hour', run_at - created_at + interval '1 min') AS later
  FROM taskq.tasks WHERE queue IN ('list', 'default') ORDER BY task_id DESC LIMIT 7;
SELECT count(*) FROM taskq_submit_tasks('[]');
-- conflicts: each entry sees those before it, and a skipped one has no id
SELECT array_agg(l IS NULL) AS skipped FROM taskq_submit_tasks('[{"queue": "list", "reference": "s"}, {"queue": "list", "reference": "s", "on_conflict": "skip"}, {"queue": "list 2", "reference": "s", "on_conflict": "skip"}]') l;
SELECT count(l), count(DISTINCT l) FROM taskq_submit_tasks('[{"queue": "list", "reference": "t", "payload": {"a": 1}}, {"queue": "list", "reference": "t", "on_conflict": "merge", "payload": {"b": 2}}, {"queue": "list", "reference": "t", "on_conflict": "return"}]') l;
SELECT payload FROM taskq_list('list', reference => 't');
-- 100,000 in order
SELECT count(*), count(DISTINCT l) FROM taskq_submit_tasks((SELECT jsonb_agg(jsonb_build_object('queue', 'list 3', 'payload', g)) FROM generate_series(1, 100000) g)) l;
SELECT bool_and(payload::int = o) AS in_order FROM (SELECT payload, row_number() OVER (ORDER BY task_id) AS o FROM taskq.tasks WHERE queue = 'list 3') s;
-- if one entry is invalid, no task is submitted; the message says what is wrong
SELECT count(*) AS before FROM taskq.tasks \gset
SELECT e, t.try(format('SELECT count(*) FROM taskq_submit_tasks(%L)', format('[{"queue": "list"}, %s, {"queue": "list"}]', e)))
  FROM unnest(ARRAY['1', 'null', '"x"', '[]', '{"colour": "red"}', '{"Queue": "list"}', '{"": 1}', '{"queue": 1}', '{"queue": ""}', '{"queue": "*"}', '{"priority": "1"}', '{"priority": 1.5}', '{"priority": 32768}', '{"priority": 1e30}', '{"max_attempts": 0}', '{"max_attempts": true}',
    '{"run_at": 1}', '{"run_at": "soon"}', '{"run_at": "infinity"}', '{"delay": 1}', '{"delay": "-1 s"}', '{"delay": "1 s", "run_at": "2030-01-01"}', '{"deadline": "2000-01-01"}', '{"tags": "a"}', '{"tags": {"a": 1}}', '{"tags": [1]}', '{"tags": [null]}', '{"tags": [""]}', '{"tags": [["a"]]}',
    '{"key": 1}', '{"key": ""}', '{"reference": true}', '{"on_conflict": "ignore"}', '{"on_conflict": 1}', '{"headers": []}', '{"headers": "x"}', '{"correlation_id": 1}', '{"data": 1}', '{"data": "\\xgg"}', '{"insertion": "prepend"}', '{"suspended": "true"}', '{"suspended": 1}', '{"options": []}', '{"options": {"retry": "never"}}']) e;
SELECT left(t.try($$SELECT count(*) FROM taskq_submit_tasks('[{"queue": "list", "reference": "new"}, {"queue": "list", "reference": "s"}]')$$), 5);
SELECT count(*) = :before AS same FROM taskq.tasks;
SELECT d, t.try(format('SELECT count(*) FROM taskq_submit_tasks(%L)', d)) FROM unnest(ARRAY['null', '{}', '1', '"x"', '{"queue": "list"}']) d;
SELECT t.try($$SELECT count(*) FROM taskq_submit_tasks(NULL)$$);
-- without auto-creation an unknown queue is an error, a known one is not
SET taskq.auto_create_queues = off;
SELECT t.try($$SELECT taskq_submit('no such')$$);
SELECT t.try($$SELECT taskq_submit_many('no such', '{1}')$$);
SELECT t.try($$SELECT taskq_submit_many('no such', '{}')$$);
SELECT t.try($$SELECT * FROM taskq_claim('no such')$$);
SELECT taskq_submit('submit') > 0 AS submitted;
RESET taskq.auto_create_queues;
SELECT count(*) FROM taskq_claim('no such');
SELECT count(*) FROM taskq.queues WHERE queue = 'no such';
-- ids are below 2^53 and increase
SELECT bool_and(task_id < 2::numeric ^ 53) AS fit FROM taskq.tasks;
SELECT * FROM taskq_check();
SELECT taskq_drop_queue(queue, true) IS NOT NULL AS dropped FROM taskq.queues;

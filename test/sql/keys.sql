-- Tasks of one key: order, insertions, groups, searching and reviving.
SELECT taskq_create_queue('invoices', '{"key_policy": "serial_hold_on_failure", "retention": "7 d"}');

-- One after the other, by key; other keys and tasks without one do not wait.
SELECT count(taskq_submit('invoices', to_jsonb(k || n), key => k)) FROM generate_series(1, 3) n, unnest(ARRAY['a', 'b']) k;
SELECT taskq_submit('invoices', '"alone"') > 0 AS submitted;
SELECT payload, state FROM taskq.tasks WHERE queue = 'invoices' ORDER BY payload;
SELECT payload FROM taskq_claim('invoices', max_tasks => 10) ORDER BY payload;
SELECT count(*) FROM taskq_claim('invoices', max_tasks => 10);

-- A failed task keeps its position; when a task ends, the next one starts.
SELECT taskq_fail(task_id, token, 'not yet', retry_in => '0') FROM taskq.tasks WHERE payload = '"a1"';
SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE payload = '"b1"';
SELECT payload, attempt FROM taskq_claim('invoices', max_tasks => 10) ORDER BY payload;

-- A dead task holds its key until it is resolved.
SELECT taskq_fail(task_id, token, 'no such customer', retryable => false) FROM taskq.tasks WHERE payload = '"a1"';
SELECT count(*) FROM taskq_claim('invoices', max_tasks => 10);
SELECT regexp_replace(taskq_explain(task_id), '[0-9]+', 'N', 'g') FROM taskq.tasks WHERE payload = '"a2"';
SELECT regexp_replace(taskq_explain(task_id), '[0-9]+', 'N', 'g') FROM taskq.tasks WHERE payload = '"b3"';
SELECT taskq_purge('invoices', '{dead}');
SELECT taskq_resolve(task_id, '{"by": "hand"}') FROM taskq.dead WHERE queue = 'invoices';
SELECT payload FROM taskq_claim('invoices', max_tasks => 10);

-- Another policy takes effect immediately.
SELECT payload, state FROM taskq.tasks WHERE queue = 'invoices' AND state IN ('pending', 'blocked', 'running') ORDER BY payload;
SELECT taskq_alter_queue('invoices', '{"key_policy": "none"}');
SELECT payload, state FROM taskq.tasks WHERE queue = 'invoices' AND state IN ('pending', 'blocked', 'running') ORDER BY payload;
SELECT taskq_alter_queue('invoices', '{"key_policy": "serial"}');
SELECT payload, state FROM taskq.tasks WHERE queue = 'invoices' AND state IN ('pending', 'blocked', 'running') ORDER BY payload;
SELECT taskq_alter_queue('invoices', '{"key_policy": null, "max_running_per_key": 2}');
SELECT payload, state FROM taskq.tasks WHERE queue = 'invoices' AND state IN ('pending', 'blocked', 'running') ORDER BY payload;
SELECT taskq_alter_queue('invoices', '{"max_running_per_key": 0}');
SELECT taskq_alter_queue('invoices', '{"key_policy": "parallel"}');

-- A released task keeps its position, or holds the key.
SELECT taskq_create_queue('crew', '{"key_policy": "serial_hold_on_failure", "lease": "1 ms"}');
SELECT count(taskq_submit('crew', to_jsonb(n), key => 'c', options => CASE n WHEN 1 THEN '{"on_worker_death": "hold"}'::jsonb END)) FROM generate_series(1, 3) n;
SELECT taskq_register('sailor');
SELECT payload FROM taskq_claim('crew', worker => 'sailor');
SELECT taskq_register('sailor');
SELECT payload, state, reason FROM taskq.tasks WHERE queue = 'crew' ORDER BY payload;
SELECT taskq_retry(task_id) FROM taskq.tasks WHERE queue = 'crew' AND state = 'suspended';
SELECT payload FROM taskq_claim('crew', worker => 'sailor');
SELECT taskq_deregister('sailor');
SELECT payload, state, reason FROM taskq.tasks WHERE queue = 'crew' ORDER BY payload;
SELECT taskq_cancel(task_id) FROM taskq.tasks WHERE queue = 'crew' AND payload = '1';
SELECT payload FROM taskq_claim('crew');
SELECT pg_sleep(0.01);
SELECT count(*) FROM taskq_run_reapers();
SELECT payload, state, reason FROM taskq.tasks WHERE queue = 'crew' AND payload <> '1' ORDER BY payload;
SELECT taskq_drop_queue('crew', true);

-- Insertions.
SELECT taskq_create_queue('ledger', '{"retention": "7 d"}');
SELECT taskq_submit('ledger', to_jsonb(n), key => 'k') > 0 FROM generate_series(1, 3) n;
SELECT taskq_submit('ledger', '"supersedes"', key => 'k', insertion => 'supersede') > 0;
SELECT payload, state FROM taskq.tasks WHERE queue = 'ledger' ORDER BY task_id;
SELECT count(*) FROM taskq_submit_many('ledger', ARRAY['"x"', '"y"', '"z"']::jsonb[], key => 'k', insertion => 'supersede');
SELECT payload, state FROM taskq.tasks WHERE queue = 'ledger' AND state <> 'redundant' ORDER BY task_id;
SELECT taskq_complete(task_id, token) FROM taskq_claim('ledger');
SELECT taskq_submit('ledger', '"replaces"', key => 'k', insertion => 'replace') > 0;
SELECT state, count(*) FROM taskq.tasks WHERE queue = 'ledger' GROUP BY state ORDER BY state;
SELECT task_id IS NULL AS none FROM taskq_submit_many('ledger', ARRAY['"v"', '"w"']::jsonb[], key => 'k', insertion => 'delete') task_id;
SELECT payload, state FROM taskq.tasks WHERE queue = 'ledger' ORDER BY task_id;
SELECT count(*) FROM taskq_submit_tasks('[{"queue": "ledger", "key": "k", "payload": 1, "insertion": "supersede"}, {"queue": "ledger", "key": "l", "payload": 2},
                                          {"queue": "ledger", "key": "k", "payload": 3, "insertion": "supersede"}]');
SELECT payload, state FROM taskq.tasks WHERE queue = 'ledger' ORDER BY task_id;
SELECT taskq_submit('ledger', insertion => 'supersede');
SELECT taskq_submit('ledger', key => 'k', insertion => 'overwrite');
-- the same reference is no conflict if the earlier task is superseded
SELECT taskq_submit('ledger', '"r1"', key => 'r', reference => 'R') > 0;
SELECT taskq_submit('ledger', '"r2"', key => 'r', reference => 'R', insertion => 'supersede') > 0;
SELECT taskq_submit('ledger', '"r3"', key => 'r', reference => 'R', insertion => 'supersede', on_conflict => 'skip') IS NULL AS skipped;
SELECT t.code('SELECT taskq_submit(''ledger'', ''"r4"'', key => ''s'', reference => ''R'', insertion => ''supersede'')');
SELECT payload, state FROM taskq.tasks WHERE queue = 'ledger' AND key IN ('r', 's') ORDER BY task_id;

-- Groups of suspended tasks.
SELECT taskq_create_queue('parts');
SELECT count(taskq_submit('parts', to_jsonb(k), key => k, suspended => true)) FROM unnest(ARRAY['p', 'q']) k;
SELECT count(*) FROM taskq_junction('parts', '{p,q,r}');
SELECT taskq_submit('parts', '"r"', key => 'r') > 0;
SELECT count(*) FROM taskq_junction('parts', '{p,q,r}');
SELECT count(*) FROM taskq_junction('parts', '{p,q,r,q}', 'eternal');
SELECT payload, state FROM taskq.tasks WHERE queue = 'parts' ORDER BY payload;
SELECT taskq_hold(task_id) FROM taskq.tasks WHERE queue = 'parts';
SELECT count(*) FROM taskq_junction('parts', '{p,q,r}');
SELECT count(*) FROM taskq_junction('parts', '{p,q,r}');
SELECT count(*) FROM taskq_junction('parts', '{}');
SELECT taskq_junction('parts', '{p,NULL}');
SELECT taskq_junction('parts', NULL);
SELECT taskq_junction('parts', '{p,""}');
SELECT taskq_junction('parts', '{p}', 'plural');
SELECT taskq_junction('no such queue', '{p}');
SELECT taskq_alter_queue('parts', '{"retention": "none"}');
SELECT taskq_junction('parts', '{p}', 'eternal');
SELECT taskq_worst_outcome('{complete,suspend,filter}'), taskq_worst_outcome('{filter,complete}'), taskq_worst_outcome('{complete,fail}'), taskq_worst_outcome('{}');
SELECT taskq_worst_outcome('{complete,release}');
SELECT taskq_worst_outcome(NULL);

-- Searching backward and reviving.
SELECT taskq_create_queue('past', '{"retention": "forever"}');
SELECT count(taskq_submit('past', to_jsonb(n), key => 'k' || n % 2)) FROM generate_series(1, 6) n;
SELECT taskq_complete(task_id, token) FROM taskq_claim('past', max_tasks => 3);
SELECT taskq_fail(task_id, token, 'x', retryable => false) FROM taskq_claim('past', max_tasks => 2);
SELECT queue, state, tasks FROM taskq_count('past');
SELECT queue, state, tasks FROM taskq_count('past', 'recent');
SELECT queue, state, tasks FROM taskq_count('past', 'recent', state => 'dead');
SELECT queue, state, tasks FROM taskq_count('past', key => 'k0');
SELECT queue, state, tasks FROM taskq_count('past', finished_from => '-infinity', finished_to => now() + interval '1 h');
SELECT state, tasks FROM taskq_count('past', to_id => (SELECT min(task_id) + 1 FROM taskq.tasks WHERE queue = 'past'));
SELECT taskq_count('no such queue');
SELECT taskq_count('past', 'latest');
SELECT taskq_count('past', state => 'lost');
SELECT taskq_sequence_at(min(created_at)) = min(task_id), taskq_sequence_at(max(created_at), true) = max(task_id),
       taskq_sequence_at(max(created_at) + interval '1 s') AS after_all, taskq_sequence_at('infinity', true) = max(task_id)
  FROM taskq.tasks WHERE queue IN (SELECT queue FROM taskq.queues);
SELECT new_id > old_id AS newer FROM taskq_recreate_all('past', 'dead', max_tasks => 1);
SELECT count(*) FROM taskq_recreate_all('past', 'dead', insertion => 'supersede');
SELECT state, tasks FROM taskq_count('past');
SELECT * FROM taskq_recreate_all('past', 'running');
SELECT taskq_reassign('past', 'done', 'dead', from_id => 0);
SELECT taskq_reassign('past', 'dead', 'suspended', task_ids => (SELECT array_agg(task_id) FROM taskq.dead WHERE queue = 'past' AND key = 'k0'));
SELECT state, tasks FROM taskq_count('past');
SELECT payload, state, descent FROM taskq.tasks WHERE queue = 'past' AND state = 'suspended';
SELECT taskq_reassign('past', 'suspended', 'pending', 0), taskq_reassign('past', 'pending', 'filtered', 0), taskq_reassign('past', 'filtered', 'redundant', 0);
SELECT state, tasks FROM taskq_count('past');
SELECT taskq_reassign('past', 'redundant', 'done');
SELECT taskq_reassign('past', 'running', 'done');
-- A bound that finds no task, and a list that is NULL, choose no task.
SELECT taskq_sequence_at('2000-01-01', true) AS before_all, taskq_sequence_at('-infinity', true) AS before_time;
SELECT taskq_purge('past', to_id => taskq_sequence_at('2000-01-01', true)) AS purged_old,
       taskq_purge('past', from_id => taskq_sequence_at('infinity')) AS purged_new,
       taskq_retry_all('past', to_id => taskq_sequence_at('2000-01-01', true)) AS retried_old,
       taskq_retry_all('past', from_id => taskq_sequence_at('infinity')) AS retried_new,
       taskq_reassign('past', 'dead', 'done', from_id => taskq_sequence_at('infinity')) AS moved;
SELECT count(*) FROM taskq_recreate_all('past', 'dead', from_id => taskq_sequence_at('infinity'));
SELECT taskq_reassign('past', 'dead', 'done', task_ids => (SELECT array_agg(task_id) FROM taskq.tasks WHERE false));
SELECT taskq_reassign('past', 'dead', 'done', task_ids => '{}');
SELECT state, tasks FROM taskq_count('past');
SELECT taskq_reassign('past', 'done', 'finished');

-- Retention and purge keep a dead task that holds its key, and no other task.
SELECT taskq_create_queue('kept', '{"key_policy": "serial_hold_on_failure", "retention_dead": "1 ms", "max_attempts": 1}');
SELECT count(taskq_submit('kept', to_jsonb(k), key => k)) FROM unnest(ARRAY['holds', 'poison', 'revived', NULL]) k;
SELECT count(taskq_fail(task_id, token, 'x')) FROM taskq_claim('kept', max_tasks => 4);
SELECT taskq_poison(task_id) FROM taskq.dead WHERE queue = 'kept' AND key = 'poison';
CREATE FUNCTION pg_temp.old() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WHILE clock_timestamp() <= (SELECT max(finished_at) + interval '2 ms' FROM taskq.dead WHERE queue = 'kept') LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
    PERFORM taskq_run_reapers();
END $$;
SELECT pg_temp.old();
SELECT key, state, reason FROM taskq.tasks WHERE queue = 'kept' ORDER BY task_id;
SELECT taskq_purge('kept', '{dead}');
SELECT taskq_submit('kept', '"next"', key => 'holds') > 0, taskq_submit('kept', '"next"', key => 'revived') > 0;
SELECT key, state, payload FROM taskq.tasks WHERE queue = 'kept' ORDER BY task_id;
SELECT taskq_retry(task_id) FROM taskq.dead WHERE queue = 'kept' AND key = 'revived';
SELECT taskq_complete(task_id, token) FROM taskq_claim('kept');
SELECT payload FROM taskq_claim('kept');
SELECT taskq_alter_queue('kept', '{"key_policy": "serial"}');
SELECT pg_temp.old();
SELECT key, state, payload FROM taskq.tasks WHERE queue = 'kept' AND state <> 'done' ORDER BY task_id;

-- A key whose row was removed and created several times, in calls with many tasks.
SELECT taskq_create_queue('often', '{"key_policy": "serial", "retention": "none"}');
CREATE FUNCTION pg_temp.often() RETURNS bigint LANGUAGE sql AS $$
    SELECT count(*) FROM taskq_submit_many('often', array_fill('1'::jsonb, ARRAY[5]), key => 'one');
    SELECT count(taskq_cancel(task_id)) FROM taskq.tasks WHERE queue = 'often';
$$;
SELECT pg_temp.often();
SELECT count(*) FROM taskq_run_reapers();
SELECT pg_temp.often();
SELECT count(*) FROM taskq_run_reapers();
SELECT pg_temp.often();
SELECT count(*) FROM taskq_run_reapers();
SELECT count(*) FROM taskq.key WHERE key = 'one';
SELECT pg_temp.often();

-- The next task of a key has an id far above those that were close to each other.
SELECT taskq_create_queue('apart', '{"key_policy": "serial", "retention": "none"}'),
       taskq_create_queue('apart_lifo', '{"key_policy": "serial", "order": "lifo", "retention": "none"}');
CREATE FUNCTION pg_temp.apart(wanted text) RETURNS SETOF jsonb LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskq_submit(wanted, to_jsonb(i), key => CASE WHEN i BETWEEN 7 AND 306 OR i BETWEEN 310 AND 409 THEN 'other ' || i ELSE 'this' END)
       FROM generate_series(1, 412) i;
    PERFORM taskq_purge(wanted, '{pending}', from_id => min(task_id), to_id => max(task_id))
       FROM taskq.tasks WHERE queue = wanted AND key <> 'this';
    FOR i IN 1 .. 20 LOOP
        RETURN QUERY SELECT payload FROM taskq_claim(wanted) c, taskq_complete(c.task_id, c.token);
    END LOOP;
END $$;
SELECT array_agg(i) FROM pg_temp.apart('apart') i;
SELECT array_agg(i) FROM pg_temp.apart('apart_lifo') i;

SELECT * FROM taskq_check();
SELECT count(taskq_drop_queue(queue, true)) FROM taskq.queues
 WHERE queue IN ('invoices', 'ledger', 'parts', 'past', 'kept', 'often', 'apart', 'apart_lifo');
SELECT count(*) FROM taskq.key;

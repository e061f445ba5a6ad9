-- Every key_policy × every state of another task of the key × fifo and lifo: what happens to a new
-- task of the key, and to the other one, as this table says, which is written by hand; and every
-- way out of a state: which task is released.
BEGIN;
SELECT no_plan();

SELECT taskq_create_queue(p || ' ' || o, jsonb_build_object('key_policy', p, 'order', o, 'retention', 'forever'))
  FROM unnest(ARRAY['none', 'serial', 'serial_hold_on_failure', 'serial_until_success']) p,
       unnest(ARRAY['fifo', 'lifo']) o;

-- What happens to the new task, and to the earlier one if it changes.
CREATE TEMP TABLE expected (earlier text PRIMARY KEY, fifo_serial text, fifo_hold text, fifo_until text,
                            lifo_serial text, lifo_hold text, lifo_until text);
INSERT INTO expected VALUES
 --             fifo: serial, hold_on_failure, until_success        lifo
 ('pending',    'blocked', 'blocked', 'blocked',   'pending, blocked', 'pending, blocked', 'pending, blocked'),
 ('delayed',    'blocked', 'blocked', 'blocked',   'pending, blocked', 'pending, blocked', 'pending, blocked'),
 ('retrying',   'blocked', 'blocked', 'blocked',   'pending, blocked', 'pending, blocked', 'pending, blocked'),
 ('running',    'blocked', 'blocked', 'blocked',   'blocked', 'blocked', 'blocked'),
 ('asked',      'blocked', 'blocked', 'blocked',   'blocked', 'blocked', 'blocked'),
 ('suspended',  'pending', 'pending', 'blocked',   'pending', 'pending', 'blocked'),
 ('held',       'pending', 'pending', 'blocked',   'pending', 'pending', 'blocked'),
 ('orphan',     'pending', 'blocked', 'blocked',   'pending', 'blocked', 'blocked'),
 ('done',       'pending', 'pending', 'pending',   'pending', 'pending', 'pending'),
 ('dead',       'pending', 'blocked', 'blocked',   'pending', 'blocked', 'blocked'),
 ('poison',     'pending', 'pending', 'pending',   'pending', 'pending', 'pending'),
 ('resolved',   'pending', 'pending', 'pending',   'pending', 'pending', 'pending'),
 ('cancelled',  'pending', 'pending', 'pending',   'pending', 'pending', 'pending'),
 ('filtered',   'pending', 'pending', 'pending',   'pending', 'pending', 'pending'),
 ('redundant',  'pending', 'pending', 'pending',   'pending', 'pending', 'pending'),
 ('recreated',  'blocked', 'blocked', 'blocked',   'pending', 'pending', 'pending'),
 ('gone',       'pending', 'pending', 'pending',   'pending', 'pending', 'pending');

-- A task of the key in a state.
CREATE FUNCTION pg_temp.make(q text, wanted text, k text DEFAULT 'k', OUT id bigint, OUT token bigint) LANGUAGE plpgsql AS $$
BEGIN
    id := taskq_submit(q, key => k, max_attempts => 5, suspended => wanted = 'suspended',
                       delay => CASE wanted WHEN 'delayed' THEN interval '1 h' END);
    IF wanted IN ('pending', 'suspended', 'delayed') THEN
        RETURN;
    END IF;
    SELECT c.token INTO STRICT token FROM taskq_claim(q) c WHERE c.task_id = id;
    CASE wanted
        WHEN 'running' THEN NULL;
        WHEN 'asked' THEN PERFORM taskq_cancel(id);
        WHEN 'retrying' THEN PERFORM taskq_fail(id, token, 'oops', retry_in => '1 h');
        WHEN 'held' THEN PERFORM taskq_suspend(id, token);
        -- a worker's death needs a transaction of its own
        WHEN 'orphan' THEN
            PERFORM taskq_suspend(id, token);
            UPDATE taskq.task t SET reason = 4 WHERE t.task_id = id;
        WHEN 'done' THEN PERFORM taskq_complete(id, token);
        WHEN 'dead', 'poison', 'resolved' THEN
            PERFORM taskq_fail(id, token, 'no', retryable => false);
            IF wanted = 'poison' THEN
                PERFORM taskq_poison(id);
            ELSIF wanted = 'resolved' THEN
                PERFORM taskq_resolve(id);
            END IF;
        WHEN 'cancelled' THEN PERFORM taskq_cancel(id, force => true);
        WHEN 'filtered' THEN PERFORM taskq_filter(id, token);
        WHEN 'redundant' THEN
            PERFORM taskq_suspend(id, token);
            PERFORM taskq.debug_move(id, 'redundant');
        WHEN 'recreated' THEN
            PERFORM taskq_complete(id, token);
            PERFORM taskq_recreate(id);
        WHEN 'gone' THEN
            PERFORM taskq_complete(id, token, keep => false);
    END CASE;
END
$$;

CREATE FUNCTION pg_temp.state(id bigint) RETURNS text LANGUAGE sql AS $$
SELECT coalesce((SELECT state FROM taskq.tasks WHERE task_id = id), 'gone')
$$;

-- A new task after one in that state: its own state, and the other's if it changes. Rolled back, so
-- that each starts with the same state.
CREATE FUNCTION pg_temp.attempt(q text, earlier text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    m record;
    before text;
    new bigint;
BEGIN
    m := pg_temp.make(q, earlier);
    before := pg_temp.state(m.id);
    new := taskq_submit(q, key => 'k');
    PERFORM taskq_submit(q, key => 'another'), taskq_submit(q);
    RAISE SQLSTATE 'RB000' USING MESSAGE = concat_ws(', ', pg_temp.state(new), nullif(pg_temp.state(m.id), before));
EXCEPTION WHEN SQLSTATE 'RB000' THEN
    RETURN SQLERRM;
END
$$;

CREATE TEMP TABLE cell AS
SELECT e.earlier, o.policy, o.o AS "order", to_jsonb(e) ->> concat(o.o, '_', o.short) AS wanted
  FROM expected e,
       (VALUES ('serial', 'serial'), ('serial_hold_on_failure', 'hold'), ('serial_until_success', 'until')) p (policy, short),
       LATERAL (SELECT p.policy, p.short, o FROM unnest(ARRAY['fifo', 'lifo']) o) o
 UNION ALL
SELECT e.earlier, 'none', o, 'pending' FROM expected e, unnest(ARRAY['fifo', 'lifo']) o;

SELECT is(pg_temp.attempt(concat(policy, ' ', "order"), earlier), wanted,
          concat(policy, ', ', "order", ': a new task after one that is ', earlier))
  FROM cell ORDER BY policy, "order", earlier;
SELECT diag(concat(count(*), ' cells of policy, order and state of the earlier task')) FROM cell;

-- Ways out of a state, with a task waiting behind: its state afterwards.
CREATE TEMP TABLE way (name text PRIMARY KEY, was text, call text, serial text, hold text, until text);
INSERT INTO way VALUES
 ('complete',         'running',   'SELECT taskq_complete(:id, :token)',                          'pending', 'pending', 'pending'),
 ('complete, no trace', 'running', 'SELECT taskq_complete(:id, :token, keep => false)',           'pending', 'pending', 'pending'),
 ('complete_many',    'running',   'SELECT FROM taskq_complete_many(ARRAY[:id], ARRAY[:token])',  'pending', 'pending', 'pending'),
 ('complete_and_claim', 'running', 'SELECT FROM taskq_complete_and_claim(ARRAY[:id], ARRAY[:token], queue => :queue)', 'running', 'running', 'running'),
 ('decide_many',      'running',   'SELECT FROM taskq_decide_many(jsonb_build_array(jsonb_build_object(''task_id'', :id, ''token'', :token, ''outcome'', ''complete'')))', 'pending', 'pending', 'pending'),
 ('fail',             'running',   'SELECT taskq_fail(:id, :token, ''x'')',                       'blocked', 'blocked', 'blocked'),
 ('fail for good',    'running',   'SELECT taskq_fail(:id, :token, ''x'', retryable => false)',   'pending', 'blocked', 'blocked'),
 ('release',          'running',   'SELECT taskq_release(:id, :token)',                           'blocked', 'blocked', 'blocked'),
 ('suspend',          'running',   'SELECT taskq_suspend(:id, :token)',                           'pending', 'pending', 'blocked'),
 ('filter',           'running',   'SELECT taskq_filter(:id, :token)',                            'pending', 'pending', 'pending'),
 ('cancel a running one', 'running', 'SELECT taskq_cancel(:id, force => true)',                   'pending', 'pending', 'pending'),
 ('cancel one that waits', 'pending', 'SELECT taskq_cancel(:id)',                                 'pending', 'pending', 'pending'),
 ('cancel a suspended one', 'suspended', 'SELECT taskq_cancel(:id)',                              'pending', 'pending', 'pending'),
 ('resolve by force', 'running',   'SELECT taskq_resolve(:id, force => true)',                    'pending', 'pending', 'pending'),
 ('resolve a dead one', 'dead',    'SELECT taskq_resolve(:id)',                                   'pending', 'pending', 'pending'),
 ('poison one that waits', 'pending', 'SELECT taskq_poison(:id)',                                 'pending', 'pending', 'pending'),
 ('poison a dead one', 'dead',     'SELECT taskq_poison(:id)',                                    'pending', 'pending', 'pending'),
 ('unpoison',         'poison',    'SELECT taskq_unpoison(:id)',                                  'pending', 'blocked', 'blocked'),
 ('hold',             'pending',   'SELECT taskq_hold(:id)',                                      'pending', 'pending', 'blocked'),
 ('retry a suspended one', 'suspended', 'SELECT taskq_retry(:id)',                                'blocked', 'blocked', 'blocked'),
 ('retry a dead one', 'dead',      'SELECT taskq_retry(:id)',                                     'blocked', 'blocked', 'blocked'),
 ('retry all dead ones', 'dead',   'SELECT taskq_retry_all(:queue)',                              'blocked', 'blocked', 'blocked'),
 ('retry an orphan',  'orphan',    'SELECT taskq_retry(:id)',                                     'blocked', 'blocked', 'blocked'),
 ('recreate',         'dead',      'SELECT taskq_recreate(:id)',                                  'pending', 'pending', 'pending'),
 ('manage_many cancel', 'pending', 'SELECT FROM taskq_manage_many(''cancel'', ARRAY[:id])',       'pending', 'pending', 'pending'),
 ('manage_many delete', 'pending', 'SELECT FROM taskq_manage_many(''delete'', ARRAY[:id])',       'pending', 'pending', 'pending'),
 ('delete a dead one', 'dead',     'SELECT FROM taskq_manage_many(''delete'', ARRAY[:id])',       'pending', 'pending', 'pending'),
 ('delete a suspended one', 'suspended', 'SELECT FROM taskq_manage_many(''delete'', ARRAY[:id])', 'pending', 'pending', 'pending'),
 ('purge',            'pending',   'SELECT taskq_purge(:queue, ''{pending}'')',                   'pending', 'pending', 'pending'),
 ('purge of dead ones', 'dead',    'SELECT taskq_purge(:queue, ''{dead}'')',                      'pending', 'blocked', 'blocked'),
 ('purge of suspended ones', 'suspended', 'SELECT taskq_purge(:queue, ''{suspended}'')',          'pending', 'pending', 'pending'),
 ('another key',      'pending',   'SELECT taskq_update_task(:id, ''{"key": "elsewhere"}'')',     'pending', 'pending', 'pending'),
 ('no key',           'pending',   'SELECT taskq_update_task(:id, ''{"key": null}'')',            'pending', 'pending', 'pending'),
 ('another queue',    'pending',   'SELECT taskq_update_task(:id, ''{"queue": "away"}'')',        'pending', 'pending', 'pending'),
 ('another key of a suspended one', 'suspended', 'SELECT taskq_update_task(:id, ''{"key": "elsewhere"}'')', 'pending', 'pending', 'pending'),
 ('other words',      'pending',   'SELECT taskq_update_task(:id, ''{"payload": 1}'')',           'blocked', 'blocked', 'blocked');

CREATE FUNCTION pg_temp.way_out(q text, was text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    m record;
    next bigint;
    last bigint;
BEGIN
    m := pg_temp.make(q, was);
    next := taskq_submit(q, key => 'k');
    last := taskq_submit(q, key => 'k');
    EXECUTE replace(replace(replace(call, ':id', m.id::text), ':token', coalesce(m.token, 0)::text), ':queue', quote_literal(q));
    RAISE SQLSTATE 'RB000' USING MESSAGE =
        pg_temp.state(next) || CASE WHEN pg_temp.state(last) <> 'blocked' THEN ', and the last one ' || pg_temp.state(last) ELSE '' END;
EXCEPTION WHEN SQLSTATE 'RB000' THEN
    RETURN SQLERRM;
END
$$;

CREATE TEMP TABLE step AS
SELECT w.name, w.was, w.call, p.policy, to_jsonb(w) ->> p.short AS wanted
  FROM way w,
       (VALUES ('serial', 'serial'), ('serial_hold_on_failure', 'hold'), ('serial_until_success', 'until')) p (policy, short);

SELECT is(pg_temp.way_out(policy || ' fifo', was, call), wanted, concat(policy, ': ', name))
  FROM step ORDER BY name, policy;
SELECT diag(concat(count(*), ' cells of policy and way out of a state')) FROM step;

-- Insertions: the earlier task afterwards; the new one is pending, or blocked by a task that still
-- runs if the queue wants that.
CREATE TEMP TABLE touched (earlier text PRIMARY KEY, supersede text, "replace" text, "delete" text);
INSERT INTO touched VALUES
 ('pending',   'redundant', 'redundant', 'gone'),
 ('delayed',   'redundant', 'redundant', 'gone'),
 ('retrying',  'redundant', 'redundant', 'gone'),
 ('blocked',   'redundant', 'redundant', 'gone'),
 ('running',   'running',   'running',   'running'),
 ('asked',     'running',   'running',   'running'),
 ('suspended', 'suspended', 'redundant', 'gone'),
 ('held',      'suspended', 'redundant', 'gone'),
 ('orphan',    'suspended', 'redundant', 'gone'),
 ('done',      'done',      'redundant', 'gone'),
 ('dead',      'dead',      'redundant', 'gone'),
 ('poison',    'dead',      'redundant', 'gone'),
 ('resolved',  'done',      'redundant', 'gone'),
 ('cancelled', 'cancelled', 'cancelled', 'gone'),
 ('filtered',  'filtered',  'redundant', 'gone'),
 ('redundant', 'redundant', 'redundant', 'gone'),
 ('recreated', 'recreated', 'recreated', 'gone'),
 ('gone',      'gone',      'gone',      'gone');

CREATE FUNCTION pg_temp.insertion(q text, earlier text, how text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    m record;
    other bigint;
    elsewhere bigint;
    new bigint;
    wanted text;
BEGIN
    IF earlier = 'blocked' THEN
        m := pg_temp.make(q, 'pending');
        PERFORM taskq.debug_move(m.id, 'blocked') WHERE q ~ '^none';
        IF q !~ '^none' THEN
            m.id := taskq_submit(q, key => 'k');
        END IF;
    ELSE
        m := pg_temp.make(q, earlier);
    END IF;
    other := taskq_submit(q, key => 'another');
    elsewhere := taskq_submit('somewhere else', key => 'k');
    IF earlier = 'blocked' AND pg_temp.state(m.id) <> 'blocked' THEN
        RAISE SQLSTATE 'RB000' USING MESSAGE = 'could not be made';
    END IF;
    new := taskq_submit(q, key => 'k', insertion => how);
    -- the tasks that block the new one
    wanted := CASE WHEN q ~ '^none' OR NOT EXISTS (
                       SELECT FROM taskq.tasks t WHERE t.queue = q AND t.key = 'k' AND t.task_id <> new
                          AND (t.state IN ('pending', 'running')
                               OR q ~ '_' AND t.state = 'dead' AND t.reason <> 'poison'
                               OR q ~ '_' AND t.state = 'suspended' AND (q ~ 'until' OR t.reason = 'worker_dead')))
                   THEN 'pending' ELSE 'blocked' END;
    RAISE SQLSTATE 'RB000' USING MESSAGE = concat_ws(', ', pg_temp.state(m.id),
        CASE WHEN pg_temp.state(new) <> wanted THEN concat('the new one is ', pg_temp.state(new), ', not ', wanted) END,
        CASE WHEN pg_temp.state(other) <> 'pending' OR pg_temp.state(elsewhere) <> 'pending' THEN 'others were touched' END);
EXCEPTION WHEN SQLSTATE 'RB000' THEN
    RETURN SQLERRM;
END
$$;

CREATE TEMP TABLE touch AS
SELECT t.earlier, j.key AS how, j.value AS wanted, p AS policy
  FROM touched t CROSS JOIN LATERAL jsonb_each_text(to_jsonb(t) - 'earlier') j,
       unnest(ARRAY['none', 'serial', 'serial_hold_on_failure', 'serial_until_success']) p
 UNION ALL
SELECT t.earlier, 'append', t.supersede, p FROM touched t,
       unnest(ARRAY['none', 'serial', 'serial_hold_on_failure', 'serial_until_success']) p
 WHERE t.earlier NOT IN ('pending', 'delayed', 'retrying', 'blocked')
 UNION ALL
SELECT t, 'append', CASE t WHEN 'blocked' THEN 'blocked' ELSE 'pending' END, p
  FROM unnest(ARRAY['pending', 'delayed', 'retrying', 'blocked']) t,
       unnest(ARRAY['none', 'serial', 'serial_hold_on_failure', 'serial_until_success']) p;

SELECT is(pg_temp.insertion(policy || ' fifo', earlier, how), wanted,
          concat(policy, ': ', how, ' after one that is ', earlier))
  FROM touch ORDER BY how, earlier, policy;
SELECT diag(concat(count(*), ' cells of insertion, policy and state of the earlier task')) FROM touch;

SELECT is_empty('SELECT * FROM taskq_check()', 'taskq_check() finds nothing');
SELECT * FROM finish();
ROLLBACK;

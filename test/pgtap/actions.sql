-- Every action of operators and of workers × every state × with and without the right token: the
-- new state, or the error, as this table says, which is written by hand.
--
-- Workers' calls are made with the token of the task's last claim (held: true while it runs) and
-- with another one.
BEGIN;
SELECT no_plan();

-- the call; :id and :token are inserted; "held" for calls that take a token
CREATE TEMP TABLE action (name text PRIMARY KEY, call text, takes_token boolean);
INSERT INTO action VALUES
    ('cancel', 'SELECT taskq_cancel(:id)', false),
    ('cancel force', 'SELECT taskq_cancel(:id, force => true)', false),
    ('retry', 'SELECT taskq_retry(:id)', false),
    ('retry keep', 'SELECT taskq_retry(:id, reset_attempts => false)', false),
    ('retry force', 'SELECT taskq_retry(:id, force => true)', false),
    ('recreate', 'SELECT taskq_recreate(:id)', false),
    ('resolve', 'SELECT taskq_resolve(:id, ''{"by": "hand"}'')', false),
    ('resolve force', 'SELECT taskq_resolve(:id, force => true)', false),
    ('hold', 'SELECT taskq_hold(:id)', false),
    ('poison', 'SELECT taskq_poison(:id)', false),
    ('unpoison', 'SELECT taskq_unpoison(:id)', false),
    ('update', 'SELECT taskq_update_task(:id, ''{"priority": 9}'')', false),
    ('delete', 'SELECT error_code FROM taskq_manage_many(''delete'', ARRAY[:id])', false),
    ('complete', 'SELECT taskq_complete(:id, :token)', true),
    ('fail', 'SELECT taskq_fail(:id, :token, ''x'')', true),
    ('fail final', 'SELECT taskq_fail(:id, :token, ''x'', retryable => false)', true),
    ('release', 'SELECT taskq_release(:id, :token)', true),
    ('suspend', 'SELECT taskq_suspend(:id, :token)', true),
    ('filter', 'SELECT taskq_filter(:id, :token)', true),
    ('extend', 'SELECT lease_until FROM taskq_extend(:id, :token)', true),
    ('progress', 'SELECT cancel FROM taskq_progress(:id, :token, 0.5)', true),
    ('checkpoint', 'SELECT cancel FROM taskq_checkpoint(:id, :token, ''1'')', true),
    ('complete_many', 'SELECT error_code FROM taskq_complete_many(ARRAY[:id], ARRAY[:token])', true),
    ('complete_many strict', 'SELECT error_code FROM taskq_complete_many(ARRAY[:id], ARRAY[:token], strict => true)', true),
    ('decide_many', 'SELECT error_code FROM taskq_decide_many(''[{"task_id": :id, "token": :token, "outcome": "fail", "error": "x"}]'', strict => false)', true),
    ('extend_many', 'SELECT CASE WHEN NOT ok THEN ''TQ001'' END FROM taskq_extend_many(ARRAY[:id], ARRAY[:token])', true),
    ('complete_and_claim', 'SELECT task_id FROM taskq_complete_and_claim(ARRAY[:id], ARRAY[:token], queue => ''nothing'')', true);

-- The result: the state afterwards, or the error (nothing changed). "asked" is running with a
-- request to stop, "poison" dead for that reason, "spent" a dead task whose attempts are used up
-- (the others have some left).
CREATE TEMP TABLE expected (action text, pending text, blocked text, running text,
                            asked text, suspended text, done text, dead text,
                            spent text, poison text, cancelled text, filtered text,
                            redundant text, recreated text);
INSERT INTO expected VALUES
 --                 pending      blocked      running      asked        suspended    done         dead         spent        poison       cancelled    filtered     redundant    recreated
 ('cancel',         'cancelled', 'cancelled', 'asked',     'asked',     'cancelled', 'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005'),
 ('cancel force',   'cancelled', 'cancelled', 'cancelled', 'cancelled', 'cancelled', 'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005'),
 ('retry',          'TQ005',     'TQ005',     'TQ005',     'TQ005',     'pending',   'pending',   'pending',   'pending',   'pending',   'pending',   'pending',   'TQ005',     'TQ005'),
 ('retry keep',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'pending',   'pending',   'pending',   'TQ005',     'pending',   'pending',   'pending',   'TQ005',     'TQ005'),
 ('retry force',    'TQ005',     'TQ005',     'pending',   'pending',   'pending',   'pending',   'pending',   'pending',   'pending',   'pending',   'pending',   'TQ005',     'TQ005'),
 ('recreate',       'TQ005',     'TQ005',     'TQ005',     'TQ005',     'recreated', 'recreated', 'recreated', 'recreated', 'recreated', 'recreated', 'recreated', 'TQ005',     'TQ005'),
 ('resolve',        'done',      'done',      'TQ005',     'TQ005',     'done',      'TQ005',     'done',      'done',      'done',      'TQ005',     'done',      'TQ005',     'TQ005'),
 ('resolve force',  'done',      'done',      'done',      'done',      'done',      'TQ005',     'done',      'done',      'done',      'TQ005',     'done',      'TQ005',     'TQ005'),
 ('hold',           'suspended', 'suspended', 'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005'),
 ('poison',         'poison',    'poison',    'TQ005',     'TQ005',     'poison',    'TQ005',     'poison',    'poison',    'poison',    'TQ005',     'TQ005',     'TQ005',     'TQ005'),
 ('unpoison',       'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'dead',      'TQ005',     'TQ005',     'TQ005',     'TQ005'),
 ('update',         'pending',   'blocked',   'TQ005',     'TQ005',     'suspended', 'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005',     'TQ005'),
 ('delete',         'gone',      'gone',      'TQ005',     'TQ005',     'gone',      'gone',      'gone',      'gone',      'gone',      'gone',      'gone',      'gone',      'gone'),
 ('complete',       'TQ001',     'TQ001',     'done',      'done',      'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('fail',           'TQ001',     'TQ001',     'pending',   'cancelled', 'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('fail final',     'TQ001',     'TQ001',     'dead',      'cancelled', 'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('release',        'TQ001',     'TQ001',     'pending',   'cancelled', 'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('suspend',        'TQ001',     'TQ001',     'suspended', 'cancelled', 'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('filter',         'TQ001',     'TQ001',     'filtered',  'cancelled', 'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('extend',         'TQ001',     'TQ001',     'running',   'asked',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('progress',       'TQ001',     'TQ001',     'running',   'asked',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('checkpoint',     'TQ001',     'TQ001',     'running',   'asked',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('complete_many',  'TQ001',     'TQ001',     'done',      'done',      'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('complete_many strict', 'TQ010', 'TQ010',   'done',      'done',      'TQ010',     'TQ010',     'TQ010',     'TQ010',     'TQ010',     'TQ010',     'TQ010',     'TQ010',     'TQ010'),
 ('decide_many',    'TQ001',     'TQ001',     'pending',   'cancelled', 'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('extend_many',    'TQ001',     'TQ001',     'running',   'asked',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001'),
 ('complete_and_claim', 'TQ001', 'TQ001',     'done',      'done',      'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001',     'TQ001');

SELECT set_eq('SELECT name FROM action', 'SELECT action FROM expected', 'each action has a row of expectations');

-- A task in a state, after one claim; its token.
CREATE FUNCTION pg_temp.make(wanted text, OUT id bigint, OUT token bigint) LANGUAGE plpgsql AS $$
BEGIN
    id := taskq_submit('actions', max_attempts => CASE wanted WHEN 'spent' THEN 1 ELSE 5 END, payload => '{"p": 1}');
    SELECT c.token INTO STRICT token FROM taskq_claim('actions', claim_order => 'lifo') c WHERE c.task_id = id;
    CASE wanted
        WHEN 'running' THEN NULL;
        WHEN 'asked' THEN PERFORM taskq_cancel(id);
        WHEN 'pending' THEN PERFORM taskq_fail(id, token, 'oops', retry_in => '0');
        WHEN 'suspended' THEN PERFORM taskq_suspend(id, token);
        WHEN 'done' THEN PERFORM taskq_complete(id, token, '{"r": 1}');
        WHEN 'dead' THEN PERFORM taskq_fail(id, token, 'no', retryable => false);
        WHEN 'spent' THEN PERFORM taskq_fail(id, token, 'no');
        WHEN 'poison' THEN
            PERFORM taskq_fail(id, token, 'no', retryable => false);
            PERFORM taskq_poison(id);
        WHEN 'cancelled' THEN PERFORM taskq_cancel(id, force => true);
        WHEN 'filtered' THEN PERFORM taskq_filter(id, token);
        WHEN 'recreated' THEN
            PERFORM taskq_complete(id, token);
            PERFORM taskq_recreate(id);
        WHEN 'redundant' THEN
            PERFORM taskq_fail(id, token, 'oops', retry_in => '0');
            PERFORM taskq.debug_move(id, wanted);
        ELSE PERFORM taskq.debug_move(id, wanted);
    END CASE;
END
$$;

-- Everything about the tasks, to show that nothing has changed.
CREATE FUNCTION pg_temp.all_rows() RETURNS text LANGUAGE sql AS $$
SELECT md5(string_agg(r, ';' ORDER BY r COLLATE "C"))
  FROM (SELECT row(t.*)::text FROM taskq.task t
         UNION ALL SELECT row(a.*)::text FROM taskq.archive a
         UNION ALL SELECT row(l.*)::text FROM taskq.large l) x (r)
$$;

-- Where the task is now.
CREATE FUNCTION pg_temp.place(id bigint) RETURNS text LANGUAGE sql AS $$
SELECT coalesce((SELECT CASE WHEN t.state = 'running' AND t.cancel_requested_at IS NOT NULL THEN 'asked'
                             WHEN t.state = 'dead' AND t.reason = 'poison' THEN 'poison'
                             WHEN t.state = 'dead' AND t.reason = 'exhausted' AND t.attempt = t.max_attempts THEN 'spent'
                             ELSE t.state END
                   FROM taskq.tasks t WHERE t.task_id = id), 'gone')
$$;

-- One action on one task: its result; "changed!" if an error left a change. Rolled back, so that
-- each starts with the same state.
CREATE FUNCTION pg_temp.attempt(call text, was text, held boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    m record;
    before text;
    code text;
    outcome text;
BEGIN
    BEGIN
        m := pg_temp.make(was);
        IF pg_temp.place(m.id) <> was THEN
            RETURN 'could not be made: ' || pg_temp.place(m.id);
        END IF;
        before := pg_temp.all_rows();
        BEGIN
            EXECUTE replace(replace(call, ':id', m.id::text), ':token',
                            (m.token + CASE WHEN held THEN 0 ELSE 1 END)::text) INTO code;
            outcome := pg_temp.place(m.id);
            IF code ~ '^TQ' THEN
                outcome := code;
            END IF;
        EXCEPTION WHEN OTHERS THEN
            outcome := SQLSTATE;
        END;
        IF outcome ~ '^(TQ|[0-9])' AND pg_temp.all_rows() <> before THEN
            outcome := outcome || ', changed!';
        END IF;
        RAISE SQLSTATE 'RB000' USING MESSAGE = outcome;
    EXCEPTION WHEN SQLSTATE 'RB000' THEN
        RETURN SQLERRM;
    END;
END
$$;

CREATE TEMP TABLE cell AS
SELECT a.name, s.key AS was, h.held, a.call,
       CASE WHEN NOT h.held THEN CASE WHEN a.name = 'complete_many strict' THEN 'TQ010' ELSE 'TQ001' END
            ELSE s.value END AS wanted
  FROM action a
  JOIN expected e ON e.action = a.name
 CROSS JOIN LATERAL jsonb_each_text(to_jsonb(e) - 'action') s
 CROSS JOIN LATERAL (SELECT true UNION ALL SELECT false WHERE a.takes_token) h (held);

SELECT is(pg_temp.attempt(c.call, c.was, c.held), c.wanted,
          concat(c.name, CASE WHEN NOT c.held THEN ' with another token' END, ' of a task that is ', c.was))
  FROM cell c ORDER BY c.name, c.was, c.held;

SELECT diag(concat(count(*), ' cells of action, state and token')) FROM cell;

-- Bulk forms do the same for each task, and skip poison tasks.
SELECT is((SELECT string_agg(concat(m.ok, ' ', m.error_code), ', ')
             FROM taskq_manage_many('retry', ARRAY[(SELECT id FROM pg_temp.make('poison')), (SELECT id FROM pg_temp.make('dead')),
                                                   (SELECT id FROM pg_temp.make('done')), (SELECT id FROM pg_temp.make('pending')), 0]) m),
          'f TQ005, t , t , f TQ005, f TQ002', 'a list of tasks to retry');
SELECT is((SELECT string_agg(concat(m.ok, ' ', m.error_code), ', ')
             FROM unnest(ARRAY['cancel', 'recreate', 'resolve', 'hold', 'poison', 'unpoison', 'delete']) a
            CROSS JOIN LATERAL pg_temp.make(CASE WHEN a IS NOT NULL THEN 'suspended' END) t
            CROSS JOIN LATERAL taskq_manage_many(a, ARRAY[t.id]) m),
          't , t , t , f TQ005, t , f TQ005, t ', 'each action once');

SELECT * FROM finish();
ROLLBACK;

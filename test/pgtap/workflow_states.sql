-- The state of an instance by the states of its steps: every combination that decides it, compared
-- with the table of precedence in the documentation.
BEGIN;
SELECT no_plan();

-- The kinds of steps. A live step keeps an instance with a failed step from being in error; a step
-- that has begun keeps an instance with a time in the future from being pending.
CREATE TEMP TABLE kind (kind text PRIMARY KEY, goes_on boolean, finished boolean, failed boolean, begun boolean);
INSERT INTO kind VALUES
 --                 goes_on  finished failed begun
 ('ready',          true,    false,   false, false),
 ('running',        true,    false,   false, true),
 ('backoff',        true,    false,   false, true),
 ('later',          true,    false,   false, false),
 ('held',           true,    false,   false, false),
 ('suspended',      true,    false,   false, true),
 ('signal',         true,    false,   false, false),
 ('in line',        true,    false,   false, false),
 ('blocked',        false,   false,   false, false),
 ('done',           false,   true,    false, true),
 ('resolved',       false,   true,    false, true),
 ('filtered',       false,   true,    false, false),
 ('dead',           false,   false,   true,  true),
 ('cancelled',      false,   false,   true,  false),
 ('redundant',      false,   false,   true,  false);

-- The first one that applies.
CREATE FUNCTION pg_temp.expected(kinds text[], ahead boolean, ended_by_call boolean DEFAULT false)
RETURNS text LANGUAGE sql AS $$
    SELECT CASE
        WHEN ended_by_call THEN 'cancelled'
        WHEN bool_or(k.failed) AND bool_or(k.goes_on) THEN 'blocked_by_failures'
        WHEN bool_or(k.failed) THEN 'error'
        WHEN bool_and(k.finished) AND 'resolved' = ANY (kinds) THEN 'resolved'
        WHEN bool_and(k.finished) THEN 'done'
        WHEN kinds && '{ready,running}' THEN 'running'
        WHEN ahead AND NOT bool_or(k.begun) THEN 'pending'
        WHEN 'backoff' = ANY (kinds) THEN 'waiting_for_retry'
        WHEN kinds && '{held,suspended}' THEN 'suspended'
        ELSE 'waiting_for_dependencies'
    END
    FROM pg_temp.kind k WHERE k.kind = ANY (kinds)
$$;

-- One step of each kind, produced by calls, in an instance of its own.
SELECT lives_ok($$
    SELECT taskq_create_queue('states', '{"retry_base": "1 day", "retry_cap": "1 day"}');
    SELECT taskq_create_queue('states line', '{"key_policy": "serial"}');
    SELECT taskq_define_workflow(jsonb_build_object('name', 'states', 'version', '1', 'queue', 'states', 'steps',
        (SELECT jsonb_agg(jsonb_build_object('name', kind)
                || CASE kind WHEN 'signal' THEN '{"type": "signal", "signal": {"name": "s"}}'
                             WHEN 'in line' THEN '{"queue": "states line", "key": "k"}'
                             WHEN 'blocked' THEN '{"depends_on": ["ready"]}'
                             WHEN 'filtered' THEN '{"when": "$.input.n == 1"}'
                             ELSE '{}' END::jsonb ORDER BY kind) FROM pg_temp.kind)))$$,
    'a step of each kind is created');

CREATE FUNCTION pg_temp.claim(id bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    answer bigint;
BEGIN
    -- the wanted row is first
    PERFORM taskq_update_task(id, '{"priority": 9}');
    SELECT c.token INTO STRICT answer FROM taskq_claim('states') c WHERE c.task_id = id;
    RETURN answer;
END
$$;

-- Makes a step one of a kind, by a call.
CREATE FUNCTION pg_temp.bring(id bigint, kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE kind
        WHEN 'running' THEN PERFORM pg_temp.claim(id);
        WHEN 'backoff' THEN PERFORM taskq_fail(id, pg_temp.claim(id), 'oops');
        WHEN 'later' THEN PERFORM taskq_update_task(id, jsonb_build_object('run_at', now() + interval '1 day'));
        WHEN 'held' THEN PERFORM taskq_hold(id);
        WHEN 'suspended' THEN PERFORM taskq_suspend(id, pg_temp.claim(id));
        WHEN 'done' THEN PERFORM taskq_complete(id, pg_temp.claim(id));
        WHEN 'resolved' THEN PERFORM taskq_resolve(id);
        WHEN 'dead' THEN PERFORM taskq_fail(id, pg_temp.claim(id), 'no', retryable => false);
        WHEN 'cancelled' THEN PERFORM taskq_cancel(id);
        WHEN 'redundant' THEN PERFORM taskq.debug_move(id, 'redundant');
        ELSE NULL; -- it is so by itself
    END CASE;
END
$$;

SELECT taskq_submit('states line', key => 'k');
CREATE TEMP TABLE sample AS SELECT taskq_start_workflow('states') AS workflow_id;
SELECT lives_ok($$
    SELECT pg_temp.bring(s.task_id, s.step) FROM taskq.workflow_steps s JOIN pg_temp.sample USING (workflow_id)
     ORDER BY s.step$$, 'each step was made one of its kind');
SELECT results_eq($$
    SELECT s.step, s.state FROM taskq.workflow_steps s JOIN pg_temp.sample USING (workflow_id) ORDER BY s.step$$,
    $$VALUES ('backoff', 'pending'), ('blocked', 'blocked'), ('cancelled', 'cancelled'), ('dead', 'dead'), ('done', 'done'),
             ('filtered', 'filtered'), ('held', 'suspended'), ('in line', 'blocked'), ('later', 'pending'),
             ('ready', 'pending'), ('redundant', 'redundant'), ('resolved', 'done'),
             ('running', 'running'), ('signal', 'suspended'), ('suspended', 'suspended')$$, 'each step has the state of its kind');

-- Every set of kinds, similar kinds in turn, now or later: an instance with copies of these steps.
CREATE TEMP TABLE combination AS
SELECT n * 2 + ahead AS n, ahead = 1 AS ahead,
       array_remove(ARRAY[
           CASE WHEN n & 1 <> 0 THEN 'ready' END, CASE WHEN n & 2 <> 0 THEN 'running' END,
           CASE WHEN n & 4 <> 0 THEN 'backoff' END, CASE WHEN n & 8 <> 0 THEN 'later' END,
           CASE WHEN n & 16 <> 0 THEN (ARRAY['held', 'suspended'])[n % 2 + 1] END,
           CASE WHEN n & 32 <> 0 THEN 'signal' END, CASE WHEN n & 64 <> 0 THEN 'in line' END,
           CASE WHEN n & 128 <> 0 THEN 'blocked' END, CASE WHEN n & 256 <> 0 THEN 'done' END,
           CASE WHEN n & 512 <> 0 THEN 'resolved' END, CASE WHEN n & 1024 <> 0 THEN 'filtered' END,
           CASE WHEN n & 2048 <> 0 THEN (ARRAY['dead', 'cancelled', 'redundant'])[n % 3 + 1] END], NULL) AS kinds
  FROM generate_series(1, 4095) n, generate_series(0, 1) ahead;

CREATE FUNCTION pg_temp.plant(relation regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns text;
    copies text;
BEGIN
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum),
           string_agg(CASE attname WHEN 'task_id' THEN '1000000000 + c.n * 100 + t.step_id'
                                   WHEN 'workflow_id' THEN '1000000000 + c.n'
                                   ELSE 't.' || quote_ident(attname) END, ', ' ORDER BY attnum)
      INTO columns, copies
      FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped;
    EXECUTE format('INSERT INTO %s (%s) SELECT %s FROM %s t JOIN pg_temp.sample s USING (workflow_id)'
                   ' JOIN pg_temp.step k USING (step_id) JOIN pg_temp.combination c ON k.step = ANY (c.kinds)',
                   relation, columns, copies, relation);
END
$$;
CREATE TEMP TABLE step AS
SELECT row_number() OVER (ORDER BY kind) - 1 AS step_id, kind AS step FROM pg_temp.kind;
SELECT pg_temp.plant('taskq.task'), pg_temp.plant('taskq.archive_keep');
INSERT INTO taskq.workflow (workflow_id, template_id, state, started_by, created_at, run_at, input)
SELECT 1000000000 + c.n, w.template_id, 0, w.started_by, now(), CASE WHEN c.ahead THEN now() + interval '1 day' END, '{}'
  FROM pg_temp.combination c, taskq.workflow w JOIN pg_temp.sample USING (workflow_id);

SELECT is(w.state, pg_temp.expected(c.kinds, c.ahead),
          array_to_string(c.kinds, ', ') || CASE WHEN c.ahead THEN '; later' ELSE '' END)
  FROM pg_temp.combination c JOIN taskq.workflows w ON w.workflow_id = 1000000000 + c.n
 ORDER BY c.n;
SELECT diag(count(*) || ' combinations of steps; of states: ' ||
            string_agg(DISTINCT pg_temp.expected(c.kinds, c.ahead), ', ')) FROM pg_temp.combination c;
-- for an ended instance the instance's own state decides
UPDATE taskq.workflow SET state = 4 WHERE workflow_id > 1000000000;
SELECT is_empty($$SELECT * FROM taskq.workflows WHERE workflow_id > 1000000000 AND state <> 'cancelled'$$,
    'an instance that was cancelled by a call is cancelled, whatever its steps are');

-- the counts agree with the steps
SELECT is_empty($$
    SELECT w.workflow_id, c.kinds, w.steps_total, w.steps_done, w.steps_dead, w.steps_running
      FROM pg_temp.combination c JOIN taskq.workflows w ON w.workflow_id = 1000000000 + c.n
     WHERE w.steps_total <> (SELECT count(*) FROM pg_temp.kind)
        OR w.steps_done <> (SELECT count(*) FROM pg_temp.kind k WHERE k.kind = ANY (c.kinds) AND k.finished)
        OR w.steps_dead <> ('dead' = ANY (c.kinds))::int OR w.steps_running <> ('running' = ANY (c.kinds))::int$$,
    'the counts of steps are right');
SELECT * FROM finish();
ROLLBACK;

-- All pairs of states: which transitions tq_state_enter allows.
BEGIN;
SELECT plan(308);

CREATE TEMP TABLE word (state text, number int, live boolean);
INSERT INTO word VALUES
    ('pending', 1, true), ('blocked', 2, true), ('running', 3, true),
    ('suspended', 4, true), ('done', 5, false), ('dead', 6, false),
    ('cancelled', 7, false), ('filtered', 8, false), ('redundant', 9, false),
    ('recreated', 10, false);

-- The table of the contract, written a second time.
CREATE TEMP TABLE legal (origin text, target text);
INSERT INTO legal
SELECT m.origin, regexp_split_to_table(m.targets, ' ')
  FROM (VALUES
    ('pending', 'running blocked suspended dead cancelled redundant done filtered'),
    ('blocked', 'pending suspended dead cancelled redundant done filtered'),
    ('running', 'done pending blocked dead suspended filtered cancelled'),
    ('suspended', 'pending blocked done filtered dead cancelled redundant recreated'),
    ('done', 'pending blocked suspended dead filtered redundant recreated'),
    ('dead', 'pending blocked suspended done filtered redundant recreated'),
    ('filtered', 'pending blocked suspended done dead redundant recreated'),
    ('cancelled', 'pending blocked recreated')) AS m (origin, targets);
SELECT is((SELECT count(*) FROM legal), 54::bigint, 'the table has 54 moves');

-- A task in each state, with something in every column that it may have.
CREATE FUNCTION pg_temp.make(wanted text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    id bigint;
    t bigint;
BEGIN
    id := taskq_submit('moves', jsonb_build_object('for', wanted),
                       priority => 5, deadline => now() + interval '1 day',
                       tags => '{a,b}', key => 'k',
                       headers => '{"h": 1}', correlation_id => 'c',
                       data => '\x00ff', max_attempts => 5,
                       reference => 'of ' || wanted);
    /* one attempt that failed, and a checkpoint */
    SELECT c.token INTO STRICT t FROM taskq_claim('moves', tags => '{a,b}') c
     WHERE c.task_id = id;
    PERFORM taskq_checkpoint(id, t, '{"at": 1}');
    PERFORM taskq_fail(id, t, 'oops', retry_in => '0');
    IF wanted = 'pending' THEN
        NULL;
    ELSIF wanted IN ('running', 'blocked', 'suspended', 'cancelled', 'redundant') THEN
        PERFORM taskq.debug_move(id, wanted);
    ELSIF wanted IN ('done', 'dead', 'filtered') THEN
        SELECT c.token INTO STRICT t FROM taskq_claim('moves', tags => '{a,b}') c
         WHERE c.task_id = id;
        IF wanted = 'done' THEN
            PERFORM taskq_complete(id, t, '{"r": 1}');
        ELSIF wanted = 'dead' THEN
            PERFORM taskq_fail(id, t, 'no', retryable => false);
        ELSE
            PERFORM taskq_filter(id, t, 'irrelevant');
        END IF;
    ELSE
        PERFORM taskq.debug_move(id, 'cancelled');
        PERFORM taskq.debug_move(id, wanted);
    END IF;
    RETURN id;
END
$$;

-- Where a task is and what its whole row says.
CREATE TEMP VIEW whereabouts AS
SELECT t.task_id, 'task' AS place, t.state, t.version, t.reason, t.descent,
       t.token, t.attempt, t.available_at, t.claimed_at, t.lease_until,
       t.worker_id, NULL::timestamptz AS finished_at,
       row(t.*)::text AS whole, t.payload, t.reference
  FROM taskq.task t
 UNION ALL
SELECT a.task_id, 'archive', a.state, a.version, a.reason, a.descent,
       a.token, a.attempt, a.available_at, a.claimed_at, a.lease_until,
       a.worker_id, a.finished_at, row(a.*)::text, a.payload, a.reference
  FROM taskq.archive a;

-- Tries one transition; the result in one row.
CREATE FUNCTION pg_temp.try_move(id bigint, target text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    message text;
BEGIN
    PERFORM taskq.debug_move(id, target);
    RETURN 'moved';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT;
    RETURN SQLSTATE || ' ' || message;
END
$$;

-- Three tests for each of the 100 pairs.
CREATE FUNCTION pg_temp.try_pair(origin text, target text)
RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    o pg_temp.word;
    n pg_temp.word;
    id bigint;
    before pg_temp.whereabouts;
    after pg_temp.whereabouts;
    places int;
    answer text;
    what text := origin || ' -> ' || target;
BEGIN
    SELECT * INTO STRICT o FROM pg_temp.word w WHERE w.state = origin;
    SELECT * INTO STRICT n FROM pg_temp.word w WHERE w.state = target;
    id := pg_temp.make(origin);
    SELECT * INTO STRICT before FROM pg_temp.whereabouts w WHERE w.task_id = id;
    IF before.state <> o.number THEN
        RAISE 'set-up: task is in state %, not %', before.state, origin;
    END IF;

    answer := pg_temp.try_move(id, target);
    SELECT count(*) INTO places FROM pg_temp.whereabouts w WHERE w.task_id = id;
    SELECT * INTO after FROM pg_temp.whereabouts w WHERE w.task_id = id;

    IF EXISTS (SELECT FROM pg_temp.legal l
                WHERE l.origin = try_pair.origin AND l.target = try_pair.target) THEN
        RETURN NEXT is(answer, 'moved', what);
        RETURN NEXT is(
            format('%s rows, in %s, state %s, version +%s, reason %s',
                   places, after.place, after.state,
                   after.version - before.version, after.reason),
            format('1 rows, in %s, state %s, version +1, reason %s',
                   CASE WHEN n.live THEN 'task' ELSE 'archive' END, n.number,
                   CASE target WHEN 'cancelled' THEN 11 ELSE 0 END),
            what || ': one row, in its place');
        RETURN NEXT ok(
            after.payload = before.payload
            AND after.reference = before.reference
            AND after.token = before.token + (target = 'running')::int
            AND after.attempt = before.attempt + (target = 'running')::int
            AND (after.finished_at IS NOT NULL) = NOT n.live
            AND (NOT n.live OR target = 'running'
                 OR after.worker_id = 0 AND after.lease_until = 'infinity'
                    AND after.claimed_at = '-infinity')
            AND (target NOT IN ('blocked', 'suspended')
                 OR after.available_at = 'infinity')
            AND (target <> 'pending' OR isfinite(after.available_at)),
            what || ': the rest of the row fits');
    ELSE
        RETURN NEXT is(answer,
            format('TQ005 cannot move task %s because it is %s', id, origin),
            what || ' is refused');
        RETURN NEXT is(places, 1, what || ': one row');
        RETURN NEXT is(after.place || after.whole, before.place || before.whole,
            what || ': the row is as before');
    END IF;

    /* out of the way of the others */
    PERFORM taskq_cancel(t.task_id, force => true) FROM taskq.task t
      WHERE t.task_id = id AND t.state = 3;
    PERFORM taskq_manage_many('delete', ARRAY[id]);
END
$$;

SELECT pg_temp.try_pair(o.state, n.state)
  FROM word o CROSS JOIN word n ORDER BY o.number, n.number;

-- Other words are not states.
SELECT throws_ok($$SELECT taskq.debug_move(taskq_submit('moves'), 'deleted')$$,
    '22023', NULL, 'an unknown state is refused');
SELECT throws_ok('SELECT taskq.debug_move(-1, ''done'')', 'TQ002', NULL,
    'an unknown task is refused');

-- The worst final state that a task has left stays with it.
CREATE FUNCTION pg_temp.path(VARIADIC states text[]) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    id bigint := taskq_submit('moves');
    s text;
BEGIN
    FOREACH s IN ARRAY states LOOP
        PERFORM taskq.debug_move(id, s);
    END LOOP;
    RETURN coalesce((SELECT t.descent FROM taskq.tasks t WHERE t.task_id = id), '-');
END
$$;
SELECT is(pg_temp.path('running', 'done'), '-', 'no descent at first');
SELECT is(pg_temp.path('running', 'done', 'pending', 'running', 'dead'), 'done',
    'descent: moved out of done');
SELECT is(pg_temp.path('running', 'dead', 'done', 'filtered'), 'dead',
    'descent: failure is worse than success');
SELECT is(pg_temp.path('done', 'suspended', 'pending'), 'suspended',
    'descent: suspension is worse than success');
SELECT is_empty('SELECT * FROM taskq_check()',
    'after all transitions taskq_check finds nothing');

SELECT * FROM finish();
ROLLBACK;

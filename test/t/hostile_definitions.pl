# The test draws two thousand definitions of workflows, valid ones and ones with
# mutations anywhere. A definition is refused with TQ011 and the paths of its
# problems, or with 0A000 if it uses what is not built yet; or it is accepted,
# and then its instance runs to its end, with workers that sometimes return
# invalid results. Signals come before a step waits for them, while it waits, or
# never. Steps that wait for longer than a test runs, or for a role that does
# not exist, are resolved by hand. Sometimes a step that is done is retried,
# also a decision or batch, whose choice is then undone. Some steps start other
# workflows, also their own. No call hangs or raises an internal error.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $COUNT = $ENV{LONG} ? 20000 : 2000;
my $AT_ONCE = 100;    # definitions tried by one statement
my $BOUND = 30;       # seconds for such a statement

plan skip_all => 'needs python3' if system('python3 -c "import json" 2>/dev/null') != 0;
my $seed = $ENV{SEED} // time;
my $file = "$PostgreSQL::Test::Utils::tmp_check/hostile_$$";
note "seed $seed";

my $node = start_node('hostile', 'fsync' => 'off', 'taskq.reaper_interval' => "'200ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };
IPC::Run::run([ 'python3', "$FindBin::Bin/lib/workflow_definitions.py", 'hostile', $seed, $COUNT ], '>', $file)
  or die 'no definitions were generated';
$sql->(<<"SQL");
CREATE TABLE line (n serial, line json NOT NULL);
COPY line (line) FROM '$file' (FORMAT csv, QUOTE E'\\x01', DELIMITER E'\\x02');
CREATE TABLE attempt AS
    SELECT n, (line -> 'definition')::text::jsonb AS definition, (line -> 'input')::text::jsonb AS input,
           NULL::timestamptz AS begun, NULL::text AS defined, NULL::jsonb AS problems, NULL::text AS started, NULL::text AS words,
           NULL::bigint AS workflow_id, 0 AS compared
      FROM line;
ALTER TABLE attempt ADD PRIMARY KEY (n);
CREATE TABLE worker_error (n int, step text, state text, words text);
SQL
unlink $file;

$sql->(<<'SQL');
-- those that steps of others may start
SELECT taskq_define_workflow('{"name": "called", "version": "1", "queue": "called", "steps": [
    {"name": "s1"}, {"name": "s2", "type": "signal", "depends_on": ["s1"], "signal": {"name": "go"}}]}');
SELECT taskq_define_workflow('{"name": "failing", "version": "1", "queue": "called", "steps": [{"name": "fails"}]}');
CREATE INDEX ON attempt (workflow_id);
CREATE INDEX ON attempt ((definition ->> 'name'));

-- the definition of a step's workflow, which another instance may have started
CREATE FUNCTION definition_of(c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
SELECT coalesce((SELECT a.definition FROM attempt a WHERE a.workflow_id = c.workflow_id),
                (SELECT a.definition FROM attempt a WHERE a.definition ->> 'name' = c.workflow AND a.defined = '00000' ORDER BY n DESC LIMIT 1))
$$;

-- what a worker answers: a result that fits the step's type, or nonsense
CREATE FUNCTION answer(d jsonb, c taskq.claimed) RETURNS jsonb LANGUAGE sql AS $$
SELECT CASE
    WHEN random() < 0.05 THEN (ARRAY['null', '[]', '{"create": "s1"}', '{"create": ["s1", "s1", "missing", 1]}', '{"total": -1}',
        '{"total": 1e30, "size": 1}', '{"batches": [[]]}', '{"batches": 7}', '{"total": 3, "size": 0}']::jsonb[])[1 + (random() * 8)::int]
    WHEN s.type = 'decision' THEN jsonb_build_object('create', coalesce((SELECT jsonb_agg(x -> 'name') FILTER (WHERE random() < 0.6)
        FROM jsonb_array_elements(d -> 'steps') x WHERE x -> 'depends_on' @> to_jsonb(c.step)), '[]'))
    WHEN s.type = 'batch' AND random() < 0.5 THEN '{"total": 7, "size": 3, "max_workers": 4}'
    WHEN s.type = 'batch' THEN '{"batches": [{"cursor": 1}, {"cursor": 2}]}'
    ELSE '{"ok": true, "n": 1, "span": "0 s", "time": "now"}' END
FROM (SELECT (SELECT x ->> 'type' FROM jsonb_array_elements(d -> 'steps') x WHERE x ->> 'name' = c.step) AS type) s
$$;

-- an instance, and the instances that its steps have started
CREATE FUNCTION family(first bigint) RETURNS bigint[] LANGUAGE sql AS $$
WITH RECURSIVE f AS (
    SELECT first AS workflow_id
    UNION ALL
    SELECT w.workflow_id FROM f JOIN taskq.task t ON t.workflow_id = f.workflow_id JOIN taskq.workflow w ON w.parent_task_id = t.task_id)
SELECT array_agg(workflow_id) FROM f
$$;

-- gives one waiting step what it waits for
CREATE FUNCTION end_wait(attempt_n int, task bigint, wf bigint, name text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    signal text := (SELECT x -> 'signal' ->> 'name' FROM attempt a, jsonb_array_elements(a.definition -> 'steps') x
                     WHERE a.workflow_id = wf AND x ->> 'name' = name);
    wrong text;
    words text;
BEGIN
    IF signal IS NULL THEN
        signal := 'go';
    END IF;
    PERFORM taskq_signal(wf, signal, (ARRAY['null', '{"approved": "yes"}', '{"approved": false}', '{"approved": true, "n": 2}',
        '{"approved": true}', '{"approved": true}']::jsonb[])[1 + (random() * 5)::int]);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS wrong = RETURNED_SQLSTATE, words = MESSAGE_TEXT;
    IF wrong NOT IN ('22023', '42501', 'TQ005') THEN
        INSERT INTO worker_error VALUES (attempt_n, name, wrong, words);
    END IF;
END
$$;

-- the other steps of an instance
CREATE FUNCTION others(wf bigint, but text) RETURNS jsonb LANGUAGE sql AS $$
SELECT jsonb_object_agg(step, concat_ws(' ', state, parents_left)) FROM taskq.workflow_steps WHERE workflow_id = wf AND step <> but AND state IS NOT NULL
$$;

-- does a condition read a result of a step that its own step does not follow? That step may have
-- ended in the meantime.
CREATE FUNCTION looks_aside(d jsonb) RETURNS boolean LANGUAGE sql AS $$
WITH RECURSIVE step AS (
    SELECT s ->> 'name' AS name, s -> 'depends_on' AS parents,
           concat(s ->> 'when', (SELECT string_agg(b ->> 'when', ' ') FROM jsonb_array_elements(s -> 'branches') b)) AS condition
      FROM jsonb_array_elements(d -> 'steps') s
), after AS (
    SELECT name, p AS other FROM step, jsonb_array_elements_text(parents) p
    UNION
    SELECT a.name, p FROM after a JOIN step s ON s.name = a.other, jsonb_array_elements_text(s.parents) p)
SELECT EXISTS (SELECT FROM step s, step o
                WHERE (strpos(s.condition, '.results.' || o.name) > 0 OR strpos(s.condition, format('.results."%s"', o.name)) > 0)
                  AND NOT EXISTS (SELECT FROM after a WHERE a.name = s.name AND a.other = o.name))
$$;

-- a decision that makes the same choice again leaves the instance as it was before; true: it was
-- tried
CREATE FUNCTION same_again(attempt_n int, wf bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    s record;
    before jsonb;
    after jsonb;
BEGIN
    SELECT c.step, c.task_id, c.result INTO s FROM taskq.workflow_steps c JOIN attempt a USING (workflow_id)
     WHERE c.workflow_id = wf AND c.type IN ('decision', 'batch') AND c.state = 'done' AND c.reason IS NULL
       -- a step that failed immediately would fail again in another place, and the time of a
       -- waiting step may come in the meantime
       AND NOT EXISTS (SELECT FROM taskq.workflow_steps o WHERE o.workflow_id = wf AND o.state IN ('dead', 'cancelled', 'suspended'))
       AND NOT EXISTS (SELECT FROM jsonb_array_elements(a.definition -> 'steps') d WHERE d ->> 'name' = c.step AND d ? 'branches')
       AND NOT looks_aside(a.definition)
     ORDER BY random() LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    before := others(wf, s.step);
    PERFORM taskq_retry(s.task_id);
    PERFORM taskq_resolve(s.task_id, s.result);
    after := others(wf, s.step);
    RAISE EXCEPTION USING ERRCODE = 'ZZ001', MESSAGE = CASE WHEN after IS DISTINCT FROM before
        THEN format('%s: before %s, after %s', s.step, before - (SELECT array_agg(key) FROM jsonb_each(before) WHERE after -> key = value),
            after - (SELECT array_agg(key) FROM jsonb_each(after) WHERE before -> key = value)) ELSE '' END;
EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
    IF SQLERRM <> '' THEN
        INSERT INTO worker_error VALUES (attempt_n, s.step, 'other', SQLERRM);
    END IF;
    RETURN true;
WHEN SQLSTATE 'TQ005' OR SQLSTATE 'TQ006' THEN
    RETURN false;
END
$$;

-- one more attempt of a step that is done; false: it is not allowed, or there is no such step
CREATE FUNCTION try_again(attempt_n int, wf bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    s record;
    wrong text;
    words text;
BEGIN
    SELECT task_id, step INTO s FROM taskq.workflow_steps WHERE workflow_id = ANY (family(wf)) AND state IN ('done', 'filtered')
     ORDER BY type NOT IN ('decision', 'batch'), random() LIMIT 1;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM taskq_retry(s.task_id);
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS wrong = RETURNED_SQLSTATE, words = MESSAGE_TEXT;
    IF wrong NOT IN ('TQ005', 'TQ006') THEN
        INSERT INTO worker_error VALUES (attempt_n, s.step, wrong, words);
    END IF;
    RETURN false;
END
$$;

-- does everything there is to do for an instance
CREATE PROCEDURE work(attempt_n int, wf bigint) LANGUAGE plpgsql AS $$
DECLARE
    c taskq.claimed;
    d jsonb;
    q record;
    found_any boolean := true;
    wrong text;
    words text;
BEGIN
    FOR i IN 1 .. 200 LOOP
        EXIT WHEN NOT found_any;
        found_any := false;
        FOR q IN SELECT t.queue, t.tags FROM taskq.tasks t WHERE t.workflow_id = ANY (family(wf)) AND t.state = 'pending'
                   GROUP BY t.queue, t.tags LOOP
            FOR c IN SELECT * FROM taskq_claim(q.queue, max_tasks => 100, tags => q.tags) LOOP
                found_any := true;
                BEGIN
                    IF random() < 0.03 OR c.workflow = 'failing' THEN
                        PERFORM taskq_fail(c.task_id, c.token, 'no', retryable => false);
                    ELSE
                        d := definition_of(c);
                        PERFORM taskq_complete(c.task_id, c.token, answer(d, c));
                    END IF;
                EXCEPTION WHEN OTHERS THEN
                    GET STACKED DIAGNOSTICS wrong = RETURNED_SQLSTATE, words = MESSAGE_TEXT;
                    INSERT INTO worker_error VALUES (attempt_n, c.step, wrong, words);
                    PERFORM taskq_fail(c.task_id, c.token, words, retryable => false);
                END;
            END LOOP;
            COMMIT;
            IF same_again(attempt_n, wf) THEN
                UPDATE attempt SET compared = compared + 1 WHERE n = attempt_n;
            END IF;
            IF random() < 0.1 AND try_again(attempt_n, wf) THEN
                found_any := true;
            END IF;
            COMMIT;
        END LOOP;
        CONTINUE WHEN found_any;
        FOR q IN SELECT t.task_id, t.workflow_id, t.step FROM taskq.tasks t
                  WHERE t.workflow_id = ANY (family(wf)) AND t.state = 'suspended' LOOP
            -- a step that waits for another instance ends with it
            CONTINUE WHEN EXISTS (SELECT FROM taskq.workflow w WHERE w.parent_task_id = q.task_id);
            found_any := true;
            PERFORM end_wait(attempt_n, q.task_id, q.workflow_id, q.step);
            COMMIT;
            BEGIN
                PERFORM taskq_resolve(q.task_id, '{"by": "hand"}') FROM taskq.tasks t WHERE t.task_id = q.task_id AND t.state = 'suspended';
            EXCEPTION WHEN OTHERS THEN
                -- its time may just have come
                GET STACKED DIAGNOSTICS wrong = RETURNED_SQLSTATE, words = MESSAGE_TEXT;
                IF wrong <> 'TQ005' THEN
                    INSERT INTO worker_error VALUES (attempt_n, q.step, wrong, words);
                END IF;
            END;
            COMMIT;
        END LOOP;
    END LOOP;
END
$$;

CREATE PROCEDURE try_definition(attempt_n int) LANGUAGE plpgsql AS $$
DECLARE
    a attempt;
    wrong text := '00000';
    detail text;
    said text;
BEGIN
    UPDATE attempt SET begun = clock_timestamp() WHERE n = attempt_n RETURNING * INTO a;
    COMMIT;
    BEGIN
        PERFORM taskq_define_workflow(a.definition);
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS wrong = RETURNED_SQLSTATE, detail = PG_EXCEPTION_DETAIL, said = MESSAGE_TEXT;
    END;
    UPDATE attempt SET defined = wrong, words = said,
           problems = CASE WHEN wrong = 'TQ011' THEN detail::jsonb -> 'problems' END
     WHERE n = attempt_n;
    COMMIT;
    IF wrong <> '00000' THEN
        RETURN;
    END IF;
    BEGIN
        a.workflow_id := taskq_start_workflow(a.definition ->> 'name', a.input, coalesce(a.definition ->> 'namespace', 'default'),
            a.definition ->> 'version', key => 'key ' || a.n);
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS wrong = RETURNED_SQLSTATE, said = MESSAGE_TEXT;
    END;
    UPDATE attempt SET started = wrong, words = said, workflow_id = a.workflow_id WHERE n = attempt_n;
    COMMIT;
    IF a.n % 3 = 0 AND a.workflow_id IS NOT NULL THEN
        PERFORM end_wait(a.n, NULL, a.workflow_id, s ->> 'name') FROM jsonb_array_elements(a.definition -> 'steps') s WHERE s ? 'signal';
        COMMIT;
    END IF;
    CALL work(a.n, a.workflow_id);
END
$$;

CREATE PROCEDURE try_some(first int, last int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN first .. last LOOP
        CALL try_definition(i);
    END LOOP;
END
$$;

-- the instances that have not ended, though no worker has anything to do
CREATE VIEW open_one AS
SELECT a.n, a.workflow_id, w.state, a.definition FROM attempt a JOIN taskq.workflows w USING (workflow_id) WHERE w.finished_at IS NULL;
CREATE PROCEDURE work_again() LANGUAGE plpgsql AS $$
DECLARE
    left_over attempt[] := ARRAY(SELECT a FROM attempt a JOIN open_one USING (n));
BEGIN
    FOR i IN 1 .. cardinality(left_over) LOOP
        CALL work(left_over[i].n, left_over[i].workflow_id);
    END LOOP;
END
$$;
SQL

for (my $n = 1; $n <= $COUNT; $n += $AT_ONCE)
{
	my $state = error_of($node, "SET statement_timeout = '${BOUND}s'; CALL try_some($n, least($n + $AT_ONCE - 1, $COUNT))");
	next if $state eq '';
	is($state, '', "definitions $n and following, in $BOUND seconds");
	diag $sql->('SELECT n, definition FROM attempt WHERE begun IS NOT NULL ORDER BY begun DESC LIMIT 1');
	last;
}

sub none
{
	my ($what, $query) = @_;
	is($sql->("SELECT string_agg(r::text, E'\\n') FROM (SELECT left(x::text, 1500) AS r FROM ($query) x LIMIT 5) y"), '', "$what (seed $seed)");
	return;
}

none('each definition was tried', 'SELECT n FROM attempt WHERE defined IS NULL');
none('a refused definition has TQ011, 0A000, or TQ006 for a version that exists', <<'SQL');
SELECT n, defined, words, definition FROM attempt a WHERE defined NOT IN ('00000', 'TQ011', '0A000')
   AND NOT (defined = 'TQ006' AND EXISTS (SELECT FROM attempt b WHERE b.n < a.n AND b.definition ->> 'name' = a.definition ->> 'name'))
SQL
none('each problem has a path and a message', <<'SQL');
SELECT n, problems, definition FROM attempt a WHERE defined = 'TQ011'
   AND (coalesce(jsonb_array_length(problems), 0) = 0
        OR EXISTS (SELECT FROM jsonb_array_elements(problems) p
                    WHERE coalesce(p ->> 'problem', '') = '' OR p ->> 'path' IS NULL
                       OR (p ->> 'path' = '' AND jsonb_typeof(definition) = 'object' AND NOT definition ? '')))
SQL
none('an accepted definition can be started, unless the input does not fit', <<'SQL');
SELECT n, started, words, definition FROM attempt WHERE defined = '00000' AND started <> '00000'
   AND NOT (started = '22023' AND definition ? 'input_schema')
SQL
none('workers may finish the tasks that they hold', 'SELECT * FROM worker_error');
ok(within(20, sub { $sql->("SET statement_timeout = '${BOUND}s'; CALL work_again(); SELECT count(*) = 0 FROM open_one") eq 't' }),
	'all instances have ended');
none('the ended instances are in a state that an ended instance may have', <<'SQL');
SELECT * FROM open_one
SQL
none('no instance is lost', <<'SQL');
SELECT n, a.workflow_id, w.state, definition FROM attempt a LEFT JOIN taskq.workflows w USING (workflow_id)
 WHERE a.workflow_id IS NOT NULL AND NOT definition ? 'retention' AND (w.state IS NULL OR w.state NOT IN ('done', 'resolved', 'error'))
SQL
my ($waited) = $sql->(q{SELECT string_agg(type || ' ' || n, ', ' ORDER BY type) FROM (
    SELECT type, count(*) AS n FROM attempt a JOIN taskq.workflow_steps s USING (workflow_id)
     WHERE s.finished_at IS NOT NULL AND type IN ('signal', 'approval', 'timer', 'workflow') GROUP BY type) t});
note "figure: ended: $waited";
is(scalar(grep { $_ < 20 } $waited =~ / (\d+)/g), 0, 'there were enough steps of each type that no worker does');
my ($accepted, $refused, $unbuilt, $done, $error, $compensated) = split /\|/, $sql->(<<'SQL');
SELECT count(*) FILTER (WHERE started = '00000'), count(*) FILTER (WHERE defined = 'TQ011'), count(*) FILTER (WHERE defined = '0A000'),
       count(*) FILTER (WHERE w.state = 'done'), count(*) FILTER (WHERE w.state = 'error'),
       count(*) FILTER (WHERE EXISTS (SELECT FROM taskq.workflow_steps s WHERE s.workflow_id = w.workflow_id AND s.type = 'compensation'))
  FROM attempt LEFT JOIN taskq.workflows w USING (workflow_id)
SQL
my $undone = $sql->('SELECT count(*) FROM taskq.history WHERE from_state IS NOT NULL AND to_state IS NULL');
my $compared = $sql->('SELECT sum(compared) FROM attempt');
note "figure: $undone steps were undone with a choice, $compared times the same choice was made again";
note "figure: $accepted accepted and started, $refused refused, $unbuilt not built; $done done, $error ended with an error, $compensated compensated";
cmp_ok($_->[0], '>=', $COUNT / $_->[1], "enough were $_->[2]")
  for [ $accepted, 5, 'accepted' ], [ $refused, 5, 'refused' ], [ $done, 10, 'done' ], [ $error, 100, 'an error' ],
  [ $compensated, 1000, 'compensated' ], [ $undone, 200, 'undone' ], [ $compared, 100, 'chosen again' ];
sound($node);
$node->stop('fast');
done_testing();

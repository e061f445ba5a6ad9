# Ten clients start workflows of a few kinds, complete and fail their steps one
# by one and in lists, suspend, filter or abandon them, send signals, and retry,
# resolve, hold, poison and cancel steps, all on the few existing instances. The
# workflows have sub-workflows, keys of few values, choices, batches, timers,
# compensations, and failures that do and do not hold up other steps. No client
# gets an undocumented error, every instance ends, and no deadlock occurs.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $CLIENTS = 10;
my $SECONDS = $ENV{LONG} ? 300 : 12;
my $seed    = $ENV{SEED} || int(rand(1_000_000)) + 1;
my $node    = start_node('contention', 'fsync' => 'off', 'deadlock_timeout' => "'200ms'", 'taskq.reaper_interval' => "'200ms'");
my $sql     = sub { $node->safe_psql('postgres', shift) };

diag("SEED=$seed");

$sql->(<<'SQL');
SELECT taskq_create_queue('free', '{"max_attempts": 1}'), taskq_create_queue('serial', '{"max_attempts": 1, "key_policy": "serial"}');

CREATE FUNCTION define(name text, on_failure text, steps jsonb) RETURNS void LANGUAGE sql AS $$
    SELECT FROM taskq_define_workflow(jsonb_build_object('name', name, 'version', '1', 'queue', 'free', 'on_failure', on_failure, 'steps', steps)) $$;

-- a path that cannot be followed, conditions that are not true, joins after both
SELECT define('behind ' || how, how, '[{"name": "a"}, {"name": "b"}, {"name": "h"}, {"name": "z", "depends_on": ["h"]},
    {"name": "c", "depends_on": ["a"], "when": "$.input.n + 1"}, {"name": "d", "depends_on": ["b"]},
    {"name": "f", "depends_on": ["b"], "when": "$.input.n == 99"}, {"name": "g", "depends_on": ["f", "a"]}, {"name": "e", "depends_on": ["a", "b", "h"]}]')
  FROM unnest(array['stop', 'continue']) how;

-- keys next to and after each other
SELECT define('keys ' || how, how, '[{"name": "a", "queue": "serial", "key": "k1"}, {"name": "b", "queue": "serial", "key": "k2"},
    {"name": "c", "queue": "serial", "key": "k2", "depends_on": ["a"]}, {"name": "d", "queue": "serial", "key": "k1", "depends_on": ["b"]},
    {"name": "e", "queue": "serial", "key": "k3", "depends_on": ["a", "b"]}]')
  FROM unnest(array['stop', 'continue']) how;

-- choices by workers and by the engine, members that end their batch
SELECT define('chooses ' || how, how, '[{"name": "a", "type": "decision"}, {"name": "p", "depends_on": ["a"], "queue": "serial", "key": "k1"}, {"name": "q", "depends_on": ["a"]},
    {"name": "x"}, {"name": "y", "type": "decision", "depends_on": ["x"], "branches": [{"when": "$.input.n == \"x\"", "steps": ["r"]}, {"steps": ["s"]}]},
    {"name": "r", "depends_on": ["y"]}, {"name": "s", "depends_on": ["y"]},
    {"name": "both", "type": "deferred", "depends_on": ["p", "q", "r"]},
    {"name": "split", "type": "batch"}, {"name": "member", "type": "batch_worker", "depends_on": ["split"]},
    {"name": "join", "type": "deferred", "depends_on": ["member"]}, {"name": "end", "depends_on": ["both", "join"]}]')
  FROM unnest(array['stop', 'continue']) how;

-- around these, with steps, signals and keys at the same time
SELECT define('around ' || how, how, ('[{"name": "w1", "type": "workflow", "workflow": {"name": "keys ' || how || '"}}, {"name": "w2", "type": "workflow", "workflow": {"name": "behind ' || other || '"}},
    {"name": "a", "queue": "serial", "key": "k2"}, {"name": "w3", "type": "workflow", "workflow": {"name": "chooses ' || how || '"}, "depends_on": ["a"]},
    {"name": "g", "type": "signal", "signal": {"name": "go"}, "depends_on": ["a"]}, {"name": "b", "depends_on": ["a", "w1"]},
    {"name": "c", "queue": "serial", "key": "k1", "depends_on": ["w2", "g"]}, {"name": "d", "depends_on": ["w1", "w2", "w3"]}]')::jsonb)
  FROM (VALUES ('stop', 'continue'), ('continue', 'stop')) h (how, other);
SELECT define('outside ' || how, how, ('[{"name": "v1", "type": "workflow", "workflow": {"name": "around ' || other || '"}}, {"name": "a"},
    {"name": "b", "depends_on": ["v1", "a"]}, {"name": "v2", "type": "workflow", "workflow": {"name": "keys stop"}, "depends_on": ["a"]}]')::jsonb)
  FROM (VALUES ('stop', 'continue'), ('continue', 'stop')) h (how, other);

-- instances inside, of which there must be only one
SELECT define('once ' || how, how, '[{"name": "a", "queue": "serial", "key": "k3"}, {"name": "i"}, {"name": "j", "depends_on": ["a", "i"]}]')
  FROM unnest(array['stop', 'continue']) how;
SELECT define('named ' || how, how, ('[{"name": "a"}, {"name": "b"}, {"name": "h"},
    {"name": "w1", "type": "workflow", "workflow": {"name": "once ' || how || '", "key": "one"}, "depends_on": ["a"]},
    {"name": "w2", "type": "workflow", "workflow": {"name": "once ' || how || '", "key": "two"}, "depends_on": ["b"]},
    {"name": "c", "depends_on": ["a", "b"]}, {"name": "d", "depends_on": ["w1", "w2"]}, {"name": "e", "depends_on": ["b", "h"]}]')::jsonb)
  FROM unnest(array['stop', 'continue']) how;

-- completed steps are compensated, one after the other
SELECT define('undoes', 'compensate', '[{"name": "a", "queue": "serial", "key": "k1", "compensate": {"handler": "undo", "queue": "serial"}}, {"name": "b", "compensate": {"handler": "undo"}},
    {"name": "c", "queue": "serial", "key": "k2", "depends_on": ["a", "b"], "compensate": {"handler": "undo", "queue": "serial"}}, {"name": "h"},
    {"name": "w", "type": "workflow", "workflow": {"name": "keys stop"}, "depends_on": ["a"]}, {"name": "e", "depends_on": ["c", "h", "w"]}]');

-- timers with ends, signals and failures that hold up nothing
SELECT define('times ' || how, how, ('[{"name": "a", "queue": "serial", "key": "k1", "continue_on_failure": true}, {"name": "t1", "type": "timer", "timer": {"after": "20 ms"}, "depends_on": ["a"]},
    {"name": "t2", "type": "timer", "timer": {"after": "20 ms"}}, {"name": "g", "type": "signal", "signal": {"name": "go", "timeout": "100 ms"}, "depends_on": ["a"], "continue_on_failure": true},
    {"name": "p", "type": "approval", "signal": {"name": "ok", "timeout": "1 s"}, "depends_on": ["t2"]}, {"name": "b", "depends_on": ["t1", "t2"], "continue_on_failure": true},
    {"name": "w", "type": "workflow", "workflow": {"name": "once ' || how || '", "key": "one"}, "continue_on_failure": true, "depends_on": ["t1"]},
    {"name": "c", "queue": "serial", "key": "k2", "depends_on": ["g", "b"]}, {"name": "d", "queue": "serial", "key": "k1", "depends_on": ["b", "p"]}, {"name": "e", "depends_on": ["c", "w", "d"]}]')::jsonb)
  FROM unnest(array['stop', 'continue']) how;

CREATE TABLE met (call text, code text, detail text, whole text, pid int DEFAULT pg_backend_pid(), since timestamptz, until timestamptz DEFAULT clock_timestamp());

-- one call of the extension
CREATE FUNCTION try(call text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    words text;
    since timestamptz := clock_timestamp();
BEGIN
    EXECUTE 'SELECT count(*) FROM ' || call;
    INSERT INTO met (call, code, whole, since) VALUES (left(call, strpos(call, '(') - 1), 'ok', call, since);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS words = PG_EXCEPTION_DETAIL;
    INSERT INTO met (call, code, detail, whole, since) VALUES (left(call, strpos(call, '(') - 1), SQLSTATE, concat_ws(': ', call, SQLERRM, words), call, since);
END $$;

CREATE FUNCTION live_workflow(kind text) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((SELECT workflow_id FROM taskq.workflow JOIN taskq.template USING (template_id) WHERE state = 0 AND (kind = '' OR name LIKE kind || '%') ORDER BY random() LIMIT 1), 999999999) $$;

-- a step that waits, or has failed
CREATE FUNCTION live_step() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((SELECT task_id FROM taskq.task WHERE workflow_id IS NOT NULL ORDER BY random() LIMIT 1), 999999999) $$;
CREATE FUNCTION failed_step() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((SELECT task_id FROM (SELECT task_id FROM taskq.archive_keep WHERE state IN (6, 7) ORDER BY task_id DESC LIMIT 50) s ORDER BY random() LIMIT 1), 999999999) $$;

-- a suspended step
CREATE FUNCTION suspended_step() RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce((SELECT task_id FROM taskq.task WHERE workflow_id IS NOT NULL AND state = 4 AND reason <> 0 ORDER BY random() LIMIT 1), 999999999) $$;

-- what a worker says at the end of one task, or of several
CREATE FUNCTION finish(ids bigint[], tokens bigint[], steps text[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    results jsonb[] := array(SELECT CASE s WHEN 'a' THEN '{"create": ["p", "q"]}' WHEN 'split' THEN '{"batches": [{"n": 1}, {"n": 2}, {"n": 3}]}' ELSE '1' END::jsonb FROM unnest(steps) s);
    dice float := random();
BEGIN
    IF cardinality(ids) = 0 THEN
        RETURN;
    ELSIF cardinality(ids) > 1 THEN
        IF dice < 0.7 THEN
            PERFORM try(format('taskq_decide_many(%L::jsonb, false)', (SELECT jsonb_agg(jsonb_build_object('task_id', i, 'token', t) || CASE WHEN random() < 0.8 THEN jsonb_build_object('outcome', 'complete', 'result', r) WHEN random() < 0.5 THEN '{"outcome": "fail", "error": "no"}' ELSE '{"outcome": "release"}' END ORDER BY random()) FROM unnest(ids, tokens, results) u (i, t, r))));
        ELSE
            PERFORM try(format('taskq_complete_many(%L::bigint[], %L::bigint[], %L::jsonb[])', ids, tokens, results));
        END IF;
    ELSIF dice < 0.7 THEN
        PERFORM try(format('taskq_complete(%s, %s, %L)', ids[1], tokens[1], results[1]));
    ELSIF dice < 0.85 THEN
        PERFORM try(format('taskq_fail(%s, %s, %L)', ids[1], tokens[1], 'no'));
    ELSIF dice < 0.9 THEN
        PERFORM try(format('taskq_release(%s, %s)', ids[1], tokens[1]));
    ELSIF dice < 0.93 THEN
        PERFORM try(format('taskq_suspend(%s, %s)', ids[1], tokens[1]));
    ELSIF dice < 0.96 THEN
        PERFORM try(format('taskq_filter(%s, %s)', ids[1], tokens[1]));
    ELSIF dice < 0.98 THEN
        PERFORM try(format('taskq_complete_and_claim(%L::bigint[], %L::bigint[], %L::jsonb[])', ids, tokens, results));
    END IF; -- else its lease ends
END $$;

CREATE FUNCTION by_hand(dice float) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF dice < 0.3 THEN
        IF (SELECT count(*) FROM taskq.workflow WHERE state = 0) < 25 THEN
            PERFORM try(format('taskq_start_workflow(%L, %L, key => %L)', name, '{"n": "x"}', CASE WHEN name LIKE 'once%' THEN (array['one', 'two'])[1 + (random() < 0.5)::int] END))
               FROM (SELECT name FROM taskq.template ORDER BY random() LIMIT 1) t;
        END IF;
    ELSIF dice < 0.5 THEN
        IF random() < 0.5 THEN
            PERFORM try(format('taskq_signal(%s, %L)', live_workflow((array['around', 'times'])[1 + (random() < 0.5)::int]), 'go'));
        ELSE
            PERFORM try(format('taskq_signal(%s, %L, %L)', live_workflow('times'), 'ok', jsonb_build_object('approved', random() < 0.7)));
        END IF;
    ELSIF dice < 0.53 THEN
        PERFORM try(format('taskq_cancel_workflow(%s)', live_workflow('')));
    ELSIF dice < 0.58 THEN
        PERFORM try(format('taskq_cancel(%s)', live_step()));
    ELSIF dice < 0.68 THEN
        PERFORM try(format('taskq_retry(%s)', failed_step()));
    ELSIF dice < 0.7 THEN
        PERFORM try(format('taskq_retry(%s, force => true)', live_step()));
    ELSIF dice < 0.78 THEN
        PERFORM try(format('taskq_resolve(%s, %L)', failed_step(), '{"create": ["p"]}'));
    ELSIF dice < 0.8 THEN
        PERFORM try(format('taskq_resolve(%s, %L, force => true)', live_step(), '{"create": ["p"]}'));
    ELSIF dice < 0.89 THEN
        PERFORM try(format('taskq_manage_many(%L, array[%s, %s, %s])', (array['cancel', 'retry', 'resolve', 'hold', 'poison'])[ceil(random() * 5)], live_step(), failed_step(), live_step()));
    ELSIF dice < 0.94 THEN
        PERFORM try(format('taskq_retry(%s)', suspended_step()));
    ELSIF dice < 0.96 THEN
        PERFORM try(format('taskq_hold(%s)', live_step()));
    ELSIF dice < 0.97 THEN
        PERFORM try(format('taskq_poison(%s)', failed_step()));
    ELSE
        PERFORM try(format('taskq_submit(%L, key => %L)', 'serial', 'k' || ceil(random() * 3)));
    END IF;
END $$;
SQL

my $file = "$PostgreSQL::Test::Utils::tmp_check/contention.sql";
append_to_file($file, <<'SQL');
\set many random(1, 4)
SELECT by_hand(random());
SELECT quote_literal(coalesce(array_agg(task_id), '{}')) AS ids, quote_literal(coalesce(array_agg(token), '{}')) AS tokens, quote_literal(coalesce(array_agg(coalesce(step, '')), '{}')) AS steps FROM taskq_claim('free', max_tasks => :many, lease => '1 s') \gset
SELECT finish(:ids, :tokens, :steps);
SELECT quote_literal(coalesce(array_agg(task_id), '{}')) AS ids, quote_literal(coalesce(array_agg(token), '{}')) AS tokens, quote_literal(coalesce(array_agg(coalesce(step, '')), '{}')) AS steps FROM taskq_claim('serial', max_tasks => :many, lease => '1 s') \gset
SELECT finish(:ids, :tokens, :steps);
SQL
my $ended = sub { $sql->("SELECT count(*) FROM taskq.workflow WHERE state IN ($_[0])") };
# until there is enough to count, even if the machine is slow
for my $round (0 .. 9)
{
	$node->command_ok([ 'pgbench', '-n', '-c', $CLIENTS, '-j', 2, '-T', $SECONDS, '--random-seed=' . ($seed + $round), '-f', $file, 'postgres' ],
		'no client ends early');
	last if $ended->('1, 2') && $ended->('3');
}

diag($sql->("SELECT call || ' ' || string_agg(code || ' ' || n, ', ' ORDER BY n DESC) FROM (SELECT call, code, count(*) AS n FROM met GROUP BY 1, 2) m GROUP BY call ORDER BY 1"));
# the statements of the other sessions of a deadlock
diag($sql->("SELECT format('%s to %s, process %s: %s', o.since, o.until, o.pid, o.whole) FROM met m JOIN met o ON (o.since, o.until) OVERLAPS (m.since, m.until)
	WHERE m.code = '40P01' AND m.detail ~ format('rocess %s\\M', o.pid) ORDER BY m.since, o.since"));
# and the steps on which they did it
diag($sql->("SELECT format('%s is step %s (%s) of %s, workflow %s (%s) in %s', s.task_id, s.step, s.state, w.name, w.workflow_id, w.state, w.parent_workflow_id)
	FROM taskq.workflow_steps s JOIN taskq.workflows w USING (workflow_id)
	WHERE EXISTS (SELECT FROM met m JOIN met o ON (o.since, o.until) OVERLAPS (m.since, m.until)
		WHERE m.code = '40P01' AND m.detail ~ format('rocess %s\\M', o.pid) AND o.whole ~ format('\\m%s\\M', s.task_id)) ORDER BY s.task_id"));
is($sql->("SELECT detail FROM met WHERE code <> 'ok' AND code NOT LIKE 'TQ%'"), '', 'calls met errors of the contract only, and no deadlock');
cmp_ok($ended->('1, 2'), '>', 0, 'some instances have ended successfully');
cmp_ok($ended->('3'), '>', 0, 'some instances have ended in error');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check() finds nothing');
$node->stop;
done_testing();

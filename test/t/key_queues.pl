# Many clients use tasks of few keys. Eight sessions submit tasks with every
# insertion, claim them, finish them in every way, suspend, revive and move them
# to other keys and queues, and commit, roll back and roll back to savepoints,
# while the policy changes and memory is lost. More tasks of a key than allowed
# never run at the same time, and no task is claimed before an earlier one of
# its key. At the end all waiting tasks can be processed.
# LONG=1: a minute
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $CLIENTS = 8;
my $SECONDS = $ENV{LONG} ? 60 : 10;
my %LEAST = (worked => 10 * $SECONDS, ways => 15, wipes => 5);

my $node = start_node('lines', 'fsync' => 'off', 'deadlock_timeout' => "'100ms'", 'max_prepared_transactions' => 10);
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(<<'SQL');
SELECT taskq_create_queue('serial', '{"key_policy": "serial", "retention": "7 d", "max_attempts": 4, "retry_base": "10 ms", "retry": "fixed"}');
SELECT taskq_create_queue('hold', '{"key_policy": "serial_hold_on_failure", "retention": "none", "max_attempts": 2, "retry_base": "0 s", "retry": "fixed"}');
SELECT taskq_create_queue('until', '{"key_policy": "serial_until_success", "order": "lifo", "retention": "7 d", "max_attempts": -1, "retry_base": "0 s", "retry": "fixed"}');
SELECT taskq_create_queue('three', '{"max_running_per_key": 3, "retention": "none", "max_attempts": -1, "retry_base": "0 s", "retry": "fixed"}');
CREATE TABLE event (n bigserial PRIMARY KEY, what text NOT NULL, detail text);

-- Errors of two transactions that conflict, or of a task that has moved, are allowed; all others
-- are reported.
CREATE FUNCTION expected(code text) RETURNS boolean LANGUAGE sql AS
    $$ SELECT code IN ('TQ001', 'TQ002', 'TQ005', 'TQ006', '40001', '40P01', '55P03') $$;

CREATE FUNCTION some_task(q text, states text[]) RETURNS bigint LANGUAGE sql AS
    $$ SELECT task_id FROM taskq.tasks WHERE queue = q AND state = ANY (states) ORDER BY random() LIMIT 1 $$;

-- One action on a task; what was done.
CREATE FUNCTION act(q text, k text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    dice double precision := random();
    id bigint;
BEGIN
    IF dice < 0.30 THEN
        PERFORM taskq_submit(q, key => k, suspended => random() < 0.05);
        RETURN 'append';
    ELSIF dice < 0.36 THEN
        PERFORM taskq_submit(q, key => k, insertion => 'supersede');
        RETURN 'supersede';
    ELSIF dice < 0.39 THEN
        PERFORM taskq_submit(q, key => k, insertion => 'replace');
        RETURN 'replace';
    ELSIF dice < 0.41 THEN
        PERFORM taskq_submit(q, key => k, insertion => 'delete');
        RETURN 'delete';
    ELSIF dice < 0.47 THEN
        PERFORM taskq_submit_tasks(jsonb_build_array(jsonb_build_object('queue', q, 'key', k),
                                                     jsonb_build_object('queue', q, 'key', 'k0'), jsonb_build_object('queue', 'three', 'key', k)));
        RETURN 'list';
    ELSIF dice < 0.53 THEN
        id := some_task(q, '{pending,blocked,suspended}');
        PERFORM taskq_cancel(id) WHERE id IS NOT NULL;
        RETURN 'cancel';
    ELSIF dice < 0.59 THEN
        id := some_task(q, '{pending,blocked}');
        PERFORM taskq_hold(id) WHERE id IS NOT NULL;
        RETURN 'hold';
    ELSIF dice < 0.75 THEN
        id := some_task(q, '{suspended,dead}');
        PERFORM taskq_retry(id, reset_attempts => true) WHERE id IS NOT NULL;
        RETURN 'retry';
    ELSIF dice < 0.80 THEN
        id := some_task(q, '{dead}');
        PERFORM taskq_resolve(id) WHERE id IS NOT NULL;
        RETURN 'resolve';
    ELSIF dice < 0.83 THEN
        id := some_task(q, '{dead,done,suspended}');
        PERFORM taskq_recreate(id) WHERE id IS NOT NULL;
        RETURN 'recreate';
    ELSIF dice < 0.88 THEN
        id := some_task(q, '{pending,blocked,suspended}');
        PERFORM taskq_update_task(id, jsonb_build_object('key', 'k' || floor(random() * 4))) WHERE id IS NOT NULL;
        RETURN 'other key';
    ELSIF dice < 0.92 THEN
        id := some_task(q, '{pending,blocked}');
        PERFORM taskq_update_task(id, '{"queue": "three"}') WHERE id IS NOT NULL;
        RETURN 'other queue';
    ELSIF dice < 0.95 THEN
        PERFORM taskq_junction(q, ARRAY['k0', 'k1']);
        RETURN 'junction';
    ELSIF dice < 0.97 THEN
        id := some_task(q, '{dead}');
        PERFORM taskq_manage_many('poison', ARRAY[id]) WHERE id IS NOT NULL;
        RETURN 'poison';
    ELSIF dice < 0.985 THEN
        PERFORM taskq_retry_all(q, max_tasks => 5);
        RETURN 'retry all';
    ELSE
        PERFORM taskq_purge(q, '{done,redundant,cancelled,dead}', max_tasks => 20);
        RETURN 'purge';
    END IF;
END
$$;

-- Claim one and end it in some way; a lock of the session stands for the work, taken after the
-- claim and released before its end is committed.
CREATE PROCEDURE work(q text) LANGUAGE plpgsql AS $$
DECLARE
    c record;
    dice double precision := random();
    slot integer;
    others bigint;
BEGIN
    SELECT task_id, token, key INTO c FROM taskq_claim(q);
    IF c.task_id IS NULL THEN
        COMMIT;
        RETURN;
    END IF;
    IF random() < 0.1 THEN
        ROLLBACK;
        RETURN;
    END IF;
    IF c.key IS NOT NULL THEN
        FOR i IN 1 .. CASE q WHEN 'three' THEN 3 ELSE 1 END LOOP
            IF pg_try_advisory_lock(hashtext(q || c.key), i) THEN
                slot := i;
                EXIT;
            END IF;
        END LOOP;
        IF slot IS NULL THEN
            INSERT INTO event (what, detail) VALUES ('too many', concat(q, ' ', c.key, ' ', c.task_id));
        END IF;
        SELECT count(*) INTO others FROM taskq.tasks t
         WHERE t.queue = q AND t.key = c.key AND t.state IN ('pending', 'running') AND q <> 'three'
           AND t.task_id <> c.task_id AND (q <> 'until' AND t.task_id < c.task_id OR q = 'until' AND t.task_id > c.task_id);
        IF others > 0 THEN
            INSERT INTO event (what, detail) VALUES ('overtaken', concat(q, ' ', c.key, ' ', c.task_id));
        END IF;
    END IF;
    COMMIT;
    IF random() < 0.1 THEN
        -- an end that is rolled back
        BEGIN
            PERFORM taskq_complete(c.task_id, c.token);
            RAISE SQLSTATE 'RB000';
        EXCEPTION WHEN SQLSTATE 'RB000' THEN NULL;
        END;
    END IF;
    FOR i IN 1 .. 10 LOOP
        BEGIN
            CASE
                WHEN dice < 0.60 THEN PERFORM taskq_complete(c.task_id, c.token);
                WHEN dice < 0.75 THEN PERFORM taskq_fail(c.task_id, c.token, 'x');
                WHEN dice < 0.80 THEN PERFORM taskq_fail(c.task_id, c.token, 'x', retryable => false);
                WHEN dice < 0.87 THEN PERFORM taskq_release(c.task_id, c.token);
                WHEN dice < 0.93 THEN PERFORM taskq_suspend(c.task_id, c.token);
                ELSE PERFORM taskq_complete_many(ARRAY[c.task_id], ARRAY[c.token]);
            END CASE;
            EXIT;
        EXCEPTION WHEN OTHERS THEN
            IF SQLSTATE = 'TQ001' THEN
                EXIT;
            END IF;
            IF NOT expected(SQLSTATE) THEN
                INSERT INTO event (what, detail) VALUES ('error', concat(SQLSTATE, ' end ', SQLERRM));
            END IF;
        END;
    END LOOP;
    PERFORM pg_advisory_unlock(hashtext(q || c.key), slot) WHERE slot IS NOT NULL;
    INSERT INTO event (what) VALUES ('worked');
    COMMIT;
END
$$;

CREATE PROCEDURE client(seconds double precision) LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + seconds * interval '1 s';
    q text;
    k text;
    did text;
    state text;
    problem text;
BEGIN
    WHILE clock_timestamp() < until LOOP
        q := (ARRAY['serial', 'hold', 'until', 'three'])[1 + floor(random() * 4)];
        k := 'k' || floor(random() * 4);
        IF random() < 0.5 THEN
            CALL work(q);
            CONTINUE;
        END IF;
        BEGIN
            did := act(q, k);
            IF random() < 0.15 THEN
                RAISE SQLSTATE 'RB000';
            END IF;
            INSERT INTO event (what) VALUES (did);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, problem = MESSAGE_TEXT;
            IF state <> 'RB000' AND NOT expected(state) THEN
                INSERT INTO event (what, detail) VALUES ('error', concat(state, ' ', did, ' ', problem));
            END IF;
        END;
        IF random() < 0.1 THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
    END LOOP;
END
$$;
SQL

my $clients = start_clients($node, $CLIENTS, "CALL client(0.5);\n");
my $end = time + $SECONDS;
my ($policies, $wipes) = (0, 0);
my $worked = sub { $sql->("SELECT count(*) FROM event WHERE what = 'worked'") };
my $ways = sub { $sql->('SELECT count(DISTINCT what) FROM event') };
my $enough = sub { $wipes > $LEAST{wipes} && $worked->() > $LEAST{worked} && $ways->() > $LEAST{ways} };
# enough to count, even if the machine is slow
while (time < $end - 1 || time < $end + 120 && !$enough->())
{
	within(0.3, sub { 0 });
	$wipes++ if eval { $sql->('SELECT taskq.debug_wipe()'); 1 };
	$policies++ if eval { $sql->(sprintf q{SELECT taskq_alter_queue('three', '{"max_running_per_key": %d}')}, 1 + $wipes % 3); 1 };
}
$sql->(q{SELECT taskq_alter_queue('three', '{"max_running_per_key": 3}')});
end_clients($clients);
is(join(' ', grep { /ERROR/ } said($clients)), '', 'no client met an error that it did not expect');

is($sql->("SELECT string_agg(DISTINCT concat(what, ' ', detail), '; ') FROM event WHERE detail IS NOT NULL"), '',
	'no task of a key ran with another one or was overtaken, no error');
note 'figure: ' . $sql->("SELECT string_agg(concat(what, ' ', n), ', ' ORDER BY what) FROM (SELECT what, count(*) AS n FROM event GROUP BY what) e");
cmp_ok($worked->(), '>', $LEAST{worked}, 'tasks were processed');
cmp_ok($ways->(), '>', $LEAST{ways}, 'tasks ended in all ways');
cmp_ok($wipes, '>', $LEAST{wipes}, "memory was lost $wipes times, the policy changed $policies times");
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check() finds nothing');

# process all tasks that are left
my $left = sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE state IN ('pending', 'blocked', 'running')") };
$sql->(q{SELECT taskq_resolve(task_id) FROM taskq.dead});
$sql->(q{SELECT taskq_retry(task_id, reset_attempts => true) FROM taskq.tasks WHERE state = 'suspended'});
$sql->(q{SELECT taskq_resolve(task_id, force => true) FROM taskq.running});
ok(within(60, sub {
		$sql->("SELECT count(taskq_complete(c.task_id, c.token)) FROM unnest(ARRAY['serial', 'hold', 'until', 'three']) q, taskq_claim(q, max_tasks => 100) c");
		$left->() == 0;
	}), 'all tasks can be processed') or diag $sql->('SELECT queue, key, state, count(*) FROM taskq.tasks GROUP BY 1, 2, 3 ORDER BY 1, 2, 3');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check() finds nothing at the end');
$sql->('SELECT taskq_run_reapers()');
is($sql->('SELECT count(*) FROM taskq.key WHERE out_of_order IS NULL'), '0', 'keys without a task are removed');
$node->stop;
done_testing();

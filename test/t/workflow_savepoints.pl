# Eight clients end the steps of a few instances in transactions of several
# calls. Some calls are in savepoints that are rolled back, or that a lock
# timeout ends (on a lock that a prepared transaction or another client holds).
# Some transactions are prepared, some are rolled back. Each instance has 16
# parents and 40 joins of two to four of these. At the end no join is lost: all
# instances have ended, and taskq_check() finds nothing.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $CLIENTS   = 8;
my $INSTANCES = $ENV{LONG} ? 400 : 40;
my $seed      = $ENV{SEED} || int(rand(1_000_000)) + 1;
my $node      = start_node('savepoints', 'fsync' => 'off', 'max_prepared_transactions' => 20, 'max_connections' => 40);
my $sql       = sub { $node->safe_psql('postgres', shift) };

diag("SEED=$seed");
$sql->("SELECT setseed($seed / 1000000.0)");

$sql->(<<"SQL");
SELECT setseed($seed / 1000001.0);
SELECT taskq_define_workflow(jsonb_build_object('name', 'web', 'version', '1', 'queue', 'web', 'steps',
    (SELECT jsonb_agg(jsonb_build_object('name', 'p' || p)) FROM generate_series(1, 16) p)
    || (SELECT jsonb_agg(jsonb_build_object('name', 'j' || j, 'depends_on',
                 (SELECT jsonb_agg(DISTINCT 'p' || ceil(random() * 16)) FROM generate_series(1, 2 + j % 3))))
          FROM generate_series(1, 40) j)));
CREATE TABLE held (workflow_id bigint, task_id bigint, token bigint);
CREATE TABLE met (code text);
CREATE TABLE guard ();
SELECT count(taskq_start_workflow('web')) FROM generate_series(1, $INSTANCES);
INSERT INTO held SELECT workflow_id, task_id, token FROM taskq_claim('web', max_tasks => 100000);

-- end one step that no other client is ending, of one of the first instances, or of this one
CREATE FUNCTION done(of bigint) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE
    h held;
BEGIN
    SELECT * INTO h FROM held
     WHERE workflow_id = of OR (of = 0 AND workflow_id <= (SELECT min(workflow_id) + 2 FROM held))
     ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN of;
    END IF;
    DELETE FROM held WHERE task_id = h.task_id;
    PERFORM taskq_complete(h.task_id, h.token);
    RETURN h.workflow_id;
END \$\$;

-- the same in a savepoint: it is released, is rolled back, may be given up in a wait for another
-- client, or is always given up
CREATE FUNCTION done_within(of bigint, fate int) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
    IF fate IN (2, 4) THEN
        PERFORM set_config('lock_timeout', '20ms', true);
    END IF;
    PERFORM done(of), done(of), done(of);
    IF fate = 3 THEN
        RAISE EXCEPTION USING ERRCODE = 'TT001';
    ELSIF fate = 4 THEN
        LOCK TABLE guard;
    END IF;
    PERFORM set_config('lock_timeout', '0', true);
EXCEPTION WHEN OTHERS THEN
    INSERT INTO met VALUES (SQLSTATE);
    PERFORM set_config('lock_timeout', '0', true);
END \$\$;

BEGIN;
LOCK TABLE guard;
PREPARE TRANSACTION 'guard';
SQL

my $file = "$PostgreSQL::Test::Utils::tmp_check/savepoints.sql";
append_to_file($file, <<'SQL');
\set fate random(1, 4)
\set end random(1, 10)
BEGIN;
SELECT done(0) AS of \gset
SELECT done_within(:of, :fate);
SELECT done(:of);
\if :end > 4
COMMIT;
\elif :end = 1
ROLLBACK;
\else
PREPARE TRANSACTION 'c:client_id';
\if :end = 2
ROLLBACK PREPARED 'c:client_id';
\else
COMMIT PREPARED 'c:client_id';
\endif
\endif
SQL

# until the parents have all ended
my $runs = 0;
while ($sql->('SELECT count(*) FROM held') > 0 && $runs++ < 100) {
    last if !run_log([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', $CLIENTS, '-j', 2, '-t', $INSTANCES, "--random-seed=$seed", '-f', $file, 'postgres' ]);
}
is($sql->('SELECT count(*) FROM held'), 0, 'all parents have ended, without an error outside of a savepoint');
is($sql->(q{SELECT string_agg(DISTINCT code, ' ' ORDER BY code) FROM met}), '55P03 TT001', 'savepoints were given up and rolled back, and there was no deadlock');
is($sql->(q{SELECT count(*) FROM taskq.workflow_steps WHERE state = 'blocked'}), 0, 'no join is lost');
$sql->(q{ROLLBACK PREPARED 'guard'});
$sql->(q{SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('web', max_tasks => 100000)});
is($sql->('SELECT DISTINCT state, steps_done, steps_total FROM taskq.workflows'), 'done|56|56', 'all instances are done');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check finds nothing');
$node->stop;
done_testing();

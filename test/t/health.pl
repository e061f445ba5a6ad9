# Each check of taskq_health() fails once, for the reason for which it exists,
# and passes again. Steps of the clock replace waits of several minutes.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use TaskqWaiters;

my @CHECKS = qw(preloaded activated background_worker launcher leases
  deadlines retention silent_workers claims paused schedules cron_jobs operations process_slots executors databases
  worker_slots counters running_tasks waiting snapshots prepared_transactions
  replication_slots vacuum transaction_ids settings table_additions);
my %failed_once;

# health(NODE, DATABASE, BEFORE): name => detail of the checks that fail; BEFORE
# is sent in the same session. All checks are always listed.
sub health
{
	my ($node, $database, $before) = @_;
	my $rows = $node->safe_psql($database // 'postgres',
		($before // '') . ";SELECT 'row', check_name, ok, detail FROM taskq_health()");
	my @rows = map { [ split /\|/, $_, 4 ] } grep { /^row\|/ } split /\n/, $rows;

	die 'rows are missing: ' . $rows
	  if join(' ', map { $_->[1] } @rows) ne "@CHECKS"
	  || grep { $_->[3] eq '' } @rows;
	return map { $_->[1] => $_->[3] } grep { $_->[2] eq 'f' } @rows;
}

# fails(WHAT, NODE, { check => pattern, ... }, DATABASE, BEFORE): these checks
# fail, and no others.
sub fails
{
	my ($what, $node, $expected, $database, $before) = @_;
	my %found = health($node, $database, $before);

	is(join(' ', sort keys %found), join(' ', sort keys %$expected), $what)
	  or diag(map { "$_: $found{$_}\n" } sort keys %found);
	for (sort keys %$expected)
	{
		$failed_once{$_} = 1;
		like($found{$_} // '', $expected->{$_}, "$what: $_");
	}
	return;
}

sub well
{
	my ($what, $node, $database) = @_;
	my %found;

	ok(within(60, sub { %found = health($node, $database); return !%found; }), "$what: all is well")
	  or diag(map { "$_: $found{$_}\n" } sort keys %found);
	return;
}

my $node = start_node(
	'health',
	'init' => { allows_streaming => 1 },
	'fsync' => 'on',
	'taskq.reaper_interval' => "'100 ms'",
	'taskq.deadline_interval' => "'100 ms'",
	'taskq.retention_interval' => "'1 s'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $set = sub {
	my ($name, $value) = @_;
	$sql->("ALTER SYSTEM SET $name = '$value'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('$name') = '$value'")
	  or die "$name was not set";
};

well('a new server', $node);

# Who may call it.

$sql->("CREATE ROLE visitor; CREATE ROLE watcher IN ROLE pg_monitor; CREATE ROLE manager;"
	  . " SELECT taskq_grant('*', 'manager', '{manage}')");
is(error_of($node, 'SET ROLE visitor; SELECT * FROM taskq_health()'), '42501', 'a role without the privilege cannot call it');
is($sql->("SET ROLE $_; SELECT count(*) FROM taskq_health()"), scalar @CHECKS, "$_ may")
  for qw(watcher manager);
is($sql->('BEGIN READ ONLY; SELECT count(*) FROM taskq_health() WHERE NOT ok; COMMIT'),
	'0', 'it works in a read-only transaction, too');

# Time passes, and the background worker is late.

$sql->(<<'SQL');
SELECT taskq_create_queue('left', '{"retention": "1 min", "max_attempts": 9}');
SELECT taskq_create_queue('full', '{"max_running": 1}');
SELECT taskq_submit('left', '1'), taskq_submit('left', '2'), taskq_submit('left', '3');
SELECT taskq_create_queue('nightly', '{"expect_workers": false}');
SELECT taskq_submit('nightly');
SELECT taskq_submit('paused'), taskq_submit('full'), taskq_submit('full'), taskq_submit('busy'), taskq_submit('busy');
SELECT taskq_pause('paused');
SELECT taskq_register('dying'), taskq_register('other');
SELECT taskq_complete(task_id, token) FROM taskq_claim('left');
SELECT count(*) FROM taskq_claim('left');
SELECT taskq_submit('held'), taskq_submit('held');
SELECT count(*) FROM taskq_claim('held', worker => 'dying');
SQL
my $worker = worker_pid($node);
ok( within(30, sub {
		# between two rounds: during one it would be the holder of a snapshot
		kill 'STOP', $worker;
		return 1 if $sql->("SELECT state FROM pg_stat_activity WHERE pid = $worker") eq 'idle';
		kill 'CONT', $worker;
		return 0 }),
	'the background worker is stopped');
$sql->("SELECT taskq_submit('paused', deadline => clock_timestamp() + interval '1 s')");
ok( within(30, sub { $sql->("SELECT taskq_expire('other', '1 ms')");
		return $sql->("SELECT state FROM taskq.workers WHERE worker = 'dying'") eq 'dead' }),
	'the worker is dead');
$sql->("SELECT taskq_register('keeper'); SELECT count(*) FROM taskq_claim('full', worker => 'keeper')");
my $holder = $node->background_psql('postgres');
$holder->query_safe("SET application_name = 'long report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
$sql->("BEGIN; SELECT count(*) FROM taskq_claim('busy'); PREPARE TRANSACTION 'forgotten'");
$sql->('SELECT count(*) FROM taskq.queues');
$set->('taskq.debug_clock_skew', '1h');
$sql->("SELECT count(*) FROM taskq_claim('busy')");
fails('an hour later', $node, {
	background_worker => qr/^Process $worker is running, but its last turn began 1 h .*ago/,
	leases => qr/^1 running tasks are past .* first for 55 min/,
	deadlines => qr/^1 waiting tasks are past .* first for (59 min|1 h)/,
	retention => qr/^1 finished tasks should have been removed, the first (58|59) min/,
	silent_workers => qr/\b1 tasks of dead or deregistered workers/,
	claims => qr/^(Queue "held": 1 tasks are ready.*last claim was 1 h.*ago\. )(Queue "left": 1 tasks are ready.*, and the last claim was 1 h.*ago\.) Start workers/,
	snapshots => qr/held for 1 h.*application "long report", idle in transaction/,
	prepared_transactions => qr/^1 prepared transactions are open, the oldest for 1 h.*: "forgotten" of user/ });
$sql->("SELECT taskq_alter_queue('*', '{\"expect_workers\": false}'); SELECT taskq_alter_queue('left', '{\"expect_workers\": true}')");
like({ health($node) }->{claims}, qr/^Queue "left": [^"]*$/, 'the default is long, and one queue has its own value');
$sql->("SELECT taskq_alter_queue('*', '{\"expect_workers\": null}')");
like({ health($node) }->{claims}, qr/^Queue "held": .* Queue "left": [^"]*$/, 'everything is well as before');
$sql->("ROLLBACK PREPARED 'forgotten'");
$holder->query_safe('COMMIT');
$holder->quit;
$sql->("SELECT count(*) FROM taskq_claim('left'); SELECT count(*) FROM taskq_claim('held')");
$set->('taskq.debug_clock_skew', '0');
kill 'CONT', $worker;
well('the worker continues', $node);

# A pause of all queues, settings, autovacuum, ids.

$sql->("SELECT taskq_pause('*', 'moving house')");
fails('all queues paused', $node, { paused => qr/^All queues are paused.*moving house/ });
$sql->("SELECT taskq_resume('*')");
fails("without $_->[0]", $node, { settings => qr/^$_->[0] is off/ }, 'postgres', "SET $_->[0] = off")
  for [ 'synchronous_commit' ], [ 'track_counts' ];
$set->('autovacuum', 'off');
fails('without autovacuum', $node, { settings => qr/^autovacuum is off/ });

$sql->(<<'SQL');
SELECT count(*) FROM taskq_submit_many('dead rows', array_fill('{}'::jsonb, ARRAY[3000]), delay => '1 d');
ALTER TABLE taskq.task SET (autovacuum_vacuum_threshold = 100);
SQL
# nothing is pruned in the meantime
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
$sql->('UPDATE taskq.task SET version = version + 1') for 1 .. 5;
fails('dead rows', $node, {
	settings => qr/^autovacuum is off/,
	vacuum => qr/^taskq\.task has 1\d{4} dead rows .*autovacuum does not keep up/ });
$holder->query_safe('COMMIT');
$holder->quit;
$sql->('VACUUM taskq.task');
$sql->('ALTER TABLE taskq.task SET (autovacuum_vacuum_threshold = 5000, autovacuum_enabled = off)');
fails('no autovacuum for the table', $node, {
	settings => qr/^autovacuum is off/,
	vacuum => qr/Autovacuum is disabled for taskq\.task/ });
$sql->('ALTER TABLE taskq.task RESET (autovacuum_enabled)');
$set->('autovacuum', 'on');
fails('old transaction ids', $node, { transaction_ids => qr/^The oldest transaction id .* is 3000\d{5} old, / }, 'postgres',
	"BEGIN; UPDATE pg_class SET relfrozenxid = ((2^32)::bigint + txid_current() - 300000500)::text::xid"
	  . " WHERE oid = 'taskq.large'::regclass");

# What a user has added to tables of tasks. Tasks are written all the same; an
# exclusion constraint is enforced.

$sql->(<<'SQL');
CREATE TABLE known (id bigint PRIMARY KEY);
CREATE TABLE mine (task_id bigint REFERENCES taskq.task);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
SQL
my $flow = "SELECT taskq_submit('additions'); INSERT INTO mine SELECT max(task_id) FROM taskq.task;"
  . " SELECT taskq_complete(task_id, token) FROM taskq_claim('additions')";
# a command that locks several tables may meet a duty that locks them in another
# order: 40P01
my $alter = sub {
	my ($ddl) = @_;
	my $error;

	within(60, sub { $error = error_of($node, $ddl); $error ne '40P01' });
	die "$ddl: $error" if $error ne '';
};
for ([ 'trigger "t" of taskq.task', 'CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON taskq.task FOR EACH ROW EXECUTE FUNCTION refuse()', 'DROP TRIGGER t ON taskq.task' ],
	[ 'trigger "t" of taskq.archive', 'CREATE TRIGGER t AFTER INSERT ON taskq.archive FOR EACH ROW EXECUTE FUNCTION refuse()', 'DROP TRIGGER t ON taskq.archive' ],
	[ 'rule "r" of taskq.task', 'CREATE RULE r AS ON INSERT TO taskq.task DO INSTEAD NOTHING', 'DROP RULE r ON taskq.task' ],
	[ 'check constraint "c" of taskq.task', 'ALTER TABLE taskq.task ADD CONSTRAINT c CHECK (key IS NOT NULL) NOT VALID', 'ALTER TABLE taskq.task DROP CONSTRAINT c' ],
	[ 'check constraint "c" of taskq.archive', 'ALTER TABLE taskq.archive ADD CONSTRAINT c CHECK (key IS NOT NULL) NOT VALID', 'ALTER TABLE taskq.archive DROP CONSTRAINT c' ],
	[ 'foreign key "f" of taskq.task', 'ALTER TABLE taskq.task ADD CONSTRAINT f FOREIGN KEY (task_id) REFERENCES known NOT VALID', 'ALTER TABLE taskq.task DROP CONSTRAINT f' ],
	[ 'deferrable constraint "u" of taskq.task', 'ALTER TABLE taskq.task ADD CONSTRAINT u UNIQUE (task_id, correlation_id) DEFERRABLE', 'ALTER TABLE taskq.task DROP CONSTRAINT u' ],
	[ 'row security of taskq.task', 'ALTER TABLE taskq.task ENABLE ROW LEVEL SECURITY', 'ALTER TABLE taskq.task DISABLE ROW LEVEL SECURITY' ],
	[ 'NOT NULL of column "expires_at" of taskq.archive_09', 'ALTER TABLE taskq.archive_09 ALTER expires_at SET NOT NULL', 'ALTER TABLE taskq.archive_09 ALTER expires_at DROP NOT NULL' ])
{
	my ($what, $add, $drop) = @$_;

	$alter->($add);
	fails($what, $node, { table_additions => qr/^(?=.*foreign key "mine_task_id_fkey" of public\.mine, which refers to taskq\.task[,.]).*\Q$what\E[,.]/ });
	is(error_of($node, $flow), '', "$what: tasks are written all the same");
	$alter->($drop);
}
is($sql->('SELECT count(*) > 0 FROM mine WHERE NOT EXISTS (SELECT FROM taskq.task t WHERE t.task_id = mine.task_id)'), 't', 'a foreign key that refers to tasks holds no task back');
$sql->('DROP TABLE mine; ALTER TABLE taskq.task ADD CONSTRAINT x EXCLUDE (correlation_id WITH =)');
is(error_of($node, "SELECT taskq_submit('additions', correlation_id => 'one') FROM generate_series(1, 2)"), '23P01', 'an exclusion constraint is enforced');
$sql->('ALTER TABLE taskq.task DROP CONSTRAINT x');
well('without additions', $node);

$sql->(<<'SQL');
SELECT taskq_create_queue('planned'), taskq_schedule('planned', 'every 1 day', 'planned');
UPDATE taskq.schedule SET problem = 'disk full', cron = true;
SQL
fails('a schedule', $node, { schedules => qr/^1 of 1 .*"planned"\. The column/, cron_jobs => qr/^pg_cron is not loaded/ });
$sql->("SELECT taskq_unschedule('planned')");
well('without the schedule', $node);

$sql->("SELECT taskq_create_queue('operated'), taskq_pause_operation(taskq_manage_where('hold', 'operated'))");
$sql->("UPDATE taskq.operation SET state = 'failed', error = 'disk full', finished_at = now()");
fails('an operation', $node, { operations => qr/^Operation \d+ failed within the last day/ });
$sql->("UPDATE taskq.operation SET finished_at = now() - interval '2 days'");
well('without the operation', $node);

# Rows of tables with other columns cannot be written.
for my $table (qw(task archive transition))
{
	$sql->("DROP DATABASE IF EXISTS wider; CREATE DATABASE wider");
	$node->safe_psql('wider', "CREATE EXTENSION taskq; SELECT taskq_create_queue('q', '{\"history\": \"transitions\"}'), taskq_submit('q');"
		  . " ALTER TABLE taskq.$table ADD g bigint GENERATED ALWAYS AS (task_id + 1) STORED, ADD h text DEFAULT 'x'");
	is(error_of($node, "SELECT taskq_complete(task_id, token) FROM taskq_claim('q')", 'wider'), '55000', "a column was added to taskq.$table");
}
$sql->('DROP DATABASE wider');

# A replication slot that is not used.

$set->('max_wal_size', '32MB');
$sql->("SELECT pg_create_physical_replication_slot('unused', true)");
$sql->("SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()") for 1 .. 4;
fails('a slot without a user', $node, { replication_slots => qr/^Slot "unused", which is not in use, keeps more WAL/ });
$sql->("SELECT pg_drop_replication_slot('unused')");
well('later', $node);

# A standby.

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
well('a standby', $standby);
$standby->stop('immediate');

# A database without a background worker, and a copy.

$sql->('CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION taskq');
well('another database', $node, 'other');
$sql->('CREATE DATABASE copied TEMPLATE other');
# a worker starts, and exits when it finds that it must not run there
within(30, sub { my %found = health($node, 'copied'); exists $found{background_worker} });
fails('a copy', $node, {
	activated => qr/has not been activated/,
	background_worker => qr/No background worker runs until this database is activated/ }, 'copied');
$node->safe_psql('copied', 'SELECT taskq_activate()');
well('an activated copy', $node, 'copied');
$node->stop('fast');

# Where everything is scarce.

my $small = start_node(
	'small',
	'fsync' => 'on',
	'max_connections' => 8,
	'max_logical_replication_workers' => 0,
	'taskq.max_databases' => 1,
	'taskq.max_workers' => 1,
	'taskq.max_counters' => 16,
	'taskq.max_running_tracked' => 128);
my $small_sql = sub { $small->safe_psql('postgres', shift) };
well('a small server', $small);
$small_sql->("SELECT taskq_register('a')");
fails('one worker too many', $small, { worker_slots => qr/^1 of "taskq\.max_workers" \(1\) are in use.*53400/ });
$small_sql->("SELECT taskq_deregister('a')");
$small_sql->("SELECT taskq_submit('q' || n, delay => '1 d') FROM generate_series(1, 15) n");
$small_sql->('SELECT count(*) FROM taskq.queues');
fails('one queue too many', $small, { counters => qr/^16 of "taskq\.max_counters" \(16\) / });
$small_sql->("SELECT taskq_drop_queue('q' || n, force => true) FROM generate_series(1, 15) n");
$small_sql->("SELECT count(*) FROM taskq_submit_many('q', array_fill('1'::jsonb, ARRAY[120]));");
$small_sql->("SELECT count(*) FROM taskq_claim('q', max_tasks => 120)");
fails('one task too many', $small, { running_tasks => qr/^120 of "taskq\.max_running_tracked" \(128\) / });
$small_sql->("SELECT taskq_drop_queue('q', force => true)");
well('with room again', $small);

# Thresholds: a number without a unit means seconds, and each must be longer
# than what has to happen before it.

my $set_small = sub {
	my ($name, $value, $shown) = @_;
	$small_sql->("ALTER SYSTEM SET $name = '$value'");
	$small->reload;
	ok($small->poll_query_until('postgres', "SHOW $name", $shown // $value), "$name $value is shown as " . ($shown // $value));
};
$set_small->('taskq.stale_threshold', '0.2', '200ms');
$set_small->('taskq.stale_threshold', '1500 ms', '1500ms');
$set_small->('taskq.dead_threshold', '60', '1min');
well('longer than a threshold in milliseconds', $small);
$set_small->('taskq.stale_threshold', '30s');
for my $bad (
	[ '30s', qr/"taskq\.dead_threshold" \(30s\) is not longer than "taskq\.stale_threshold" \(30s\): workers are declared dead without/ ],
	[ '9s', qr/"taskq\.dead_threshold" \(9s\) is not longer than .* third of "taskq\.stale_threshold" \(30s\): workers that send heartbeats on time/ ])
{
	$set_small->('taskq.dead_threshold', $bad->[0]);
	fails("dead_threshold $bad->[0]", $small, { settings => qr/^$bad->[1]/ });
	ok(within(30, sub { slurp_file($small->logfile) =~ /WARNING:  $bad->[1]/ }), 'the log has it, too');
}
$set_small->('taskq.stale_threshold', '2s');
well('both thresholds are shorter', $small);
$set_small->('taskq.dead_threshold', '2min');
$set_small->('taskq.stale_threshold', '30s');
is(() = slurp_file($small->logfile) =~ /WARNING:  "taskq\.dead_threshold"/g, 2, 'one WARNING for each change');

# Three of the eight connections are reserved.
waiters_of($small);
my @waiters = map { start("CALL taskq_wait('nothing', '5 min');") } 1 .. 5;
ok(asleep(@waiters), 'five sessions sleep');
fails('one session too many', $small, {
	waiting => qr/^5 sessions wait in the server, which has 5 connections .*other clients will soon be unable to connect.*increase "max_connections"/ });
give_up(@waiters);
well('no session waits', $small);

$small_sql->('CREATE DATABASE second');
$small->safe_psql('second', 'CREATE EXTENSION taskq');
my %found;
ok(within(60, sub { %found = health($small); return $found{databases} }), 'one database too many');
like($found{databases}, qr/Increase "taskq\.max_databases" \(currently 1\)/, 'the answer says what to do');
like({ health($small, 'second') }->{background_worker} // '', qr/^No background worker is running: expired leases/,
	'that database has no background worker');
$failed_once{databases} = 1;
$small->safe_psql('second', 'DROP EXTENSION taskq');
well('one database', $small);

# as many slots as the processes that are always there
$small->restart;
my $slots = $small->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('taskq launcher', 'logical replication launcher')") + 1;
$small->append_conf('postgresql.conf', "max_worker_processes = $slots");
$small->restart;
ok(within(60, sub { $small->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND datname = 'postgres'") eq '1' }),
	'the background worker has the last slot');
$small_sql->(q(SELECT taskq_create_queue('sql', '{"executor": {"workers": 1}}'), taskq_submit('sql', '{"sql": "SELECT 1"}')));
ok(within(60, sub { %found = health($small); return $found{executors} }), 'no slot is free for an executor');
like($found{executors}, qr/Increase "max_worker_processes" \(currently $slots\)/, 'the answer says what to do');
$failed_once{executors} = 1;
$small_sql->("SELECT taskq_drop_queue('sql', true)");
ok(within(60, sub { %found = health($small); return !$found{executors} }), 'none is needed when the queue is gone');

$small->safe_psql('postgres', "SELECT taskq_register('lives on')");
$small->append_conf('postgresql.conf', 'max_worker_processes = 1');
$small->restart;
ok(within(60, sub { %found = health($small); return $found{process_slots} }), 'there is one slot, which the launcher has');
like($found{process_slots}, qr/Increase "max_worker_processes" \(currently 1\)/, 'the answer says what to do');
is($small->safe_psql('postgres', 'SELECT problem, detail FROM taskq_check()'), '',
	'a worker without a background worker is not reported as a disagreement');
$small->safe_psql('postgres', "SELECT taskq_deregister('lives on')");
$failed_once{process_slots} = 1;
$small->append_conf('postgresql.conf', 'max_worker_processes = 0');
$small->restart;
fails('no slot', $small, {
	background_worker => qr/^No background worker is running: expired leases/,
	launcher => qr/"max_worker_processes" \(currently 0\)/ });

$small->append_conf('postgresql.conf', "max_worker_processes = 8\nshared_preload_libraries = ''");
$small->restart;
fails('not preloaded', $small, {
	preloaded => qr/Add taskq to shared_preload_libraries/,
	background_worker => qr/because taskq is not loaded via shared_preload_libraries/,
	launcher => qr/because taskq is not loaded via shared_preload_libraries/ });
$small->stop('fast');

is(join(' ', sort keys %failed_once), join(' ', sort @CHECKS), 'every check failed once');
done_testing();

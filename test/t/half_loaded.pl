# Only one server of a pair preloads the library, a session loads it in another
# way, or the library is missing: nothing crashes.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $primary = start_node('primary', init => { allows_streaming => 1 }, 'fsync' => 'off');
my $set = sub { my ($node, $name, $value) = @_; $node->append_conf('postgresql.conf', "$name = '$value'") };
my $words = sub { $_[0] ? 'preloaded' : 'not preloaded' };

# --- the standby of each takes over from it
my @lookers = (
	'count(*) FROM taskq.tasks', 'count(*) FROM taskq.queues', 'count(*) FROM taskq.workers', 'count(*) FROM taskq.history',
	'count(*) > 5 FROM taskq.settings', 'count(*) FROM taskq_list()', 'count(*) FROM taskq_check()');

for my $pair ([ 1, 0 ], [ 0, 1 ], [ 0, 0 ], [ 1, 1 ])
{
	my ($old, $new) = @$pair;
	my $name = $words->($old) . ' to ' . $words->($new);
	my $queue = "q $old$new";
	my $worker = "w $old$new";
	my $sql = sub { $primary->safe_psql('postgres', shift) };

	$set->($primary, 'shared_preload_libraries', $old ? 'taskq' : '');
	$primary->restart;
	$sql->(qq{SELECT taskq_create_queue('$queue', '{"max_attempts": 9, "retry": "fixed", "retry_base": "0 s"}'), taskq_register('$worker'), taskq_register('silent $old$new')});
	my ($id, $token) = split /\|/, $sql->("SELECT FROM taskq_submit('$queue'); SELECT task_id, token FROM taskq_claim('$queue', '$worker')");
	my $lost = $sql->("SELECT FROM taskq_submit('$queue'); SELECT task_id FROM taskq_claim('$queue', lease => '3 s')");
	my $held = $sql->("SELECT FROM taskq_submit('$queue'); SELECT task_id FROM taskq_claim('$queue', 'silent $old$new')");
	$sql->("SELECT taskq_progress($id, $token, 0.25, 'on the way')");
	$primary->backup("base$old$new");
	my $standby = PostgreSQL::Test::Cluster->new("standby$old$new");
	$standby->init_from_backup($primary, "base$old$new", has_streaming => 1);
	$set->($standby, 'shared_preload_libraries', $new ? 'taskq' : '');
	$set->($standby, 'taskq.dead_threshold', '4 s');
	$set->($standby, 'taskq.reaper_interval', '100 ms');
	$standby->start;
	$sql->("SELECT taskq_heartbeat('$worker'), taskq_heartbeat('silent $old$new')");
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	is(error_of($standby, "SELECT $_"), '', "$name: standby: $_") for @lookers;
	is($standby->safe_psql('postgres', "SELECT state, progress FROM taskq_get($id)"), $old ? 'running|' : 'running|0.25',
		"$name: standby: a task, and what its row says");
	is($standby->safe_psql('postgres', "SELECT state, last_seen IS NOT NULL FROM taskq.workers WHERE worker = '$worker'"), $old ? 'active|f' : 'active|t',
		"$name: standby: a worker, and what its row says");
	for my $call ("taskq_submit('$queue')", "taskq_claim('$queue', '$worker')", "taskq_register('x')", 'taskq_run_reapers()', "taskq_complete($id, $token)")
	{
		is(error_of($standby, "SELECT $call"), '25006', "$name: standby: $call");
	}
	unlike(error_of($standby, "SELECT taskq_heartbeat('$worker')"), qr/^(XX|exit)/, "$name: standby: taskq_heartbeat() fails with a clear error");
	unlike(error_of($standby, "SELECT taskq_progress($id, $token, 0.5)"), qr/^(XX|exit)/, "$name: standby: taskq_progress() fails with a clear error");

	$primary->stop('fast');
	$standby->promote;
	my $there = sub { $standby->safe_psql('postgres', shift) };
	my $reap = sub { $there->('SELECT count(*) FROM taskq_run_reapers()') unless $new };
	is($there->("SELECT pg_is_in_recovery()"), 'f', "$name: promoted");
	$reap->();
	is($there->("SELECT string_agg(state, ' ') FROM taskq.workers WHERE worker IN ('$worker', 'silent $old$new')"), 'active active',
		"$name: no worker dies because of what was before");
	is($there->("SELECT (taskq_heartbeat('$worker')).state"), 'active', "$name: the worker continues");
	is($there->("SELECT token > $token FROM (SELECT taskq_submit('$queue')) s, taskq_claim('$queue', '$worker')"), 't', "$name: the worker can claim");
	ok(within(20, sub { $there->("SELECT taskq_heartbeat('$worker')"); $reap->(); $there->("SELECT error FROM taskq_get($lost)") eq 'the lease expired' }),
		"$name: a lease from before expires");
	ok(within(20, sub { $there->("SELECT taskq_heartbeat('$worker')"); $reap->(); $there->("SELECT state FROM taskq_get($held)") eq 'pending' }),
		"$name: a worker that is silent from now on dies");
	is($there->("SELECT taskq_complete($id, $token); SELECT state FROM taskq_get($id)"), "\ndone", "$name: a token from before is valid");
	sound($standby);
	$standby->stop('fast');
	$primary->start;
}

# --- loaded by a session, with settings that need shared memory
my $warned = sub {
	my ($rc, $out, $err) = $primary->psql($_[0], $_[1]);
	return "$rc:$out:$err";
};
$set->($primary, 'shared_preload_libraries', '');
$set->($primary, 'taskq.max_workers', '77');
$primary->restart;
$primary->safe_psql('postgres', 'CREATE DATABASE bare');
is($warned->('bare', "LOAD 'taskq'"), '0::', 'LOAD without the extension, and no complaints about settings');
is($warned->('postgres', "SET client_min_messages = warning; SELECT taskq_submit('s') > 0"), '0:t:', 'loaded by a call');
is($warned->('postgres', "LOAD 'taskq'; SELECT count(*) FROM taskq_claim('s')"), '0:1:', 'LOAD');
my $lib = `pg_config --pkglibdir`;
chomp $lib;
mkdir "$lib/plugins";
symlink '../taskq.so', "$lib/plugins/taskq.so";
for my $how (qw(session_preload_libraries local_preload_libraries))
{
	$set->($primary, $how, 'taskq');
	$primary->reload;
	ok(within(20, sub { $primary->safe_psql('bare', "SELECT count(*) FROM pg_settings WHERE name = 'taskq.retention'") eq '1' }), "$how loads it");
	is($warned->('bare', "CREATE TABLE t$how (); BEGIN; SAVEPOINT s; SELECT 1; ROLLBACK TO s; COMMIT"), '0:1:', "$how: any work");
	is($warned->('postgres', "SELECT taskq_submit('s') > 0; SELECT count(*) FROM taskq_claim('s')"), "0:t\n1:", "$how: tasks");
	is(error_of($primary, "SELECT taskq_register('s', max_running => 1)"), '55000', "$how does not allow limits");
	is($primary->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'taskq%'"), '0', "$how: no background process");
	is($warned->('bare', 'CREATE EXTENSION taskq; SET client_min_messages = warning; SELECT taskq_submit(); DROP EXTENSION taskq'), '0:1:', "$how: the extension can be created and dropped");
	$set->($primary, $how, '');
	$primary->reload;
	within(20, sub { $primary->safe_psql('bare', "SHOW $how") eq '' });
}

# --- preloaded, and the objects of a database belong to another library, or its
# library is missing
$set->($primary, 'shared_preload_libraries', 'taskq');
$set->($primary, 'session_preload_libraries', 'taskq');
$primary->restart;
is($warned->('postgres', "LOAD 'taskq'; SELECT taskq_submit('s') > 0"), '0:t:', 'loaded twice');
$primary->safe_psql('bare', "CREATE EXTENSION taskq; SELECT taskq_submit('b'); SET allow_system_table_mods = on;"
	  . " UPDATE pg_proc SET probin = '\$libdir/taskq of another version' WHERE probin ~ 'taskq'");
is(error_of($primary, "SELECT taskq_submit('b')", 'bare'), '58P01', 'a library that is not there');
is(error_of($primary, "SELECT * FROM taskq.tasks", 'bare'), '58P01', 'views fail, too');
ok(within(20, sub { worker_pid($primary, 'bare') ne '' }), 'the background worker needs no function of it');
is($warned->('postgres', "SELECT taskq_submit('s') > 0"), '0:t:', 'other databases work');
$primary->safe_psql('bare', "SET allow_system_table_mods = on; UPDATE pg_proc SET probin = '\$libdir/taskq' WHERE probin ~ 'taskq'");
$primary->safe_psql('bare', 'ALTER EXTENSION taskq DROP TABLE taskq.worker_sign; DROP TABLE taskq.worker_sign CASCADE; ALTER TABLE taskq.task ADD COLUMN more int');
is(error_of($primary, "SELECT taskq_submit('b')", 'bare'), '55000', 'objects of another version');
is(error_of($primary, 'DROP DATABASE bare WITH (FORCE)'), '', 'the database can be dropped');

# --- pg_cron calls the duties, once a minute
if ($ENV{LONG})
{
	$set->($primary, 'shared_preload_libraries', 'pg_cron');
	$set->($primary, 'session_preload_libraries', '');
	$set->($primary, 'cron.host', $primary->host);
	$primary->restart;
	my $lost = $primary->safe_psql('postgres', "SELECT FROM taskq_submit('cron'); SELECT task_id FROM taskq_claim('cron', lease => '1 ms')");
	$primary->safe_psql('postgres', "CREATE EXTENSION pg_cron; SELECT cron.schedule('* * * * *', 'SELECT taskq_run_reapers()')");
	ok(within(130, sub { $primary->safe_psql('postgres', "SELECT state FROM taskq_get($lost)") eq 'pending' }), 'pg_cron calls the duties')
	  or diag $primary->safe_psql('postgres', 'SELECT status, return_message FROM cron.job_run_details');
}
my $log = slurp_file($primary->logfile);
unlike($log, qr/\] XX\w{3} |PANIC|terminated by signal/, 'nothing crashed, no internal error');
$primary->stop('fast');
done_testing();

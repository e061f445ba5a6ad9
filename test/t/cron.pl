# Cron expressions are handed to pg_cron, which is loaded together with taskq:
# jobs are written, removed and fired, and other jobs are never touched.
# taskq_health() reports what keeps a job from running. (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

# a server that was built for the tests has none
my $library = qx(pg_config --pkglibdir);
chomp $library;
plan skip_all => 'there is no pg_cron' unless -e "$library/pg_cron.so";

my $LONG = 130;    # seconds: two minutes, at whose beginnings pg_cron fires
my $node = start_cron('cron');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $JOBS = "SELECT jobname, schedule, command, database, username, active FROM cron.job ORDER BY jobid";

sub start_cron
{
	my ($name, %settings) = @_;

	return start_node($name, 'shared_preload_libraries' => "'taskq,pg_cron'", 'cron.database_name' => "'postgres'",
		'cron.use_background_workers' => 'on', 'max_worker_processes' => 20, %settings);
}

# set(NAME, VALUE): change a setting of pg_cron, which needs a restart
sub set
{
	$sql->("ALTER SYSTEM SET $_[0] = '$_[1]'");
	$node->restart;
	return;
}

# refused(WHAT, DATABASE, CALL, SQLSTATE, PATTERN)
sub refused
{
	my ($what, $database, $call, $state, $pattern) = @_;
	my (undef, undef, $error) = $node->psql($database, "\\set VERBOSITY verbose\n$call");

	like($error, qr/ERROR:  $state: .*$pattern/s, $what);
	return;
}

# unwell(WHAT, PATTERN): the check cron_jobs fails; '' if it passes
sub unwell
{
	my ($what, $pattern) = @_;

	like($sql->("SELECT coalesce((SELECT detail FROM taskq_health() WHERE check_name = 'cron_jobs' AND NOT ok), 'well')"), $pattern, $what);
	return;
}

sub fired { return $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = '$_[0]'"); }

# --- a server that does not preload taskq: pg_cron calls what the page says
my $bare = PostgreSQL::Test::Cluster->new('bare');
$bare->init;
$bare->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_cron'\ncron.use_background_workers = on\n");
$bare->start;
my ($clock) = slurp_file("$FindBin::Bin/../../doc/reference/without_preloading.md") =~ /^(SELECT cron\.schedule\(.*\);)$/m;
$bare->safe_psql('postgres', "CREATE EXTENSION taskq; CREATE EXTENSION pg_cron");
$bare->safe_psql('postgres', <<"SQL");
$clock
SELECT taskq_create_queue('q'), taskq_submit('q', '1');
SELECT taskq_submit('q', '2', deadline => now() + interval '1 s');
SELECT taskq_schedule('a', 'every 1 second', 'q'), taskq_schedule('b', '* * * * *', 'q');
SELECT task_id FROM taskq_claim('q', lease => '1 s');
SQL

# --- the extension is missing here, or in use elsewhere
$sql->("SELECT taskq_create_queue('q'), taskq_create_queue('rights')");
refused('the extension was not created', 'postgres', "SELECT taskq_schedule('a', '* * * * *', 'q')", '55000', 'CREATE EXTENSION pg_cron.*every <interval> at <time>');
$sql->("CREATE EXTENSION pg_cron; CREATE DATABASE other");
$node->safe_psql('other', "CREATE EXTENSION taskq; SELECT taskq_create_queue('q')");
refused('pg_cron runs in another database', 'other', "SELECT taskq_schedule('a', '* * * * *', 'q')", '55000',
	'database "postgres".*cron.database_name.*every <interval> at <time>');
is($node->safe_psql('other', 'SELECT count(*) FROM taskq.schedules'), '0', 'nothing was saved');

# --- jobs of users
my $name = "o'clock\\";
$sql->(<<'SQL');
CREATE ROLE someone LOGIN;
GRANT USAGE ON SCHEMA cron TO someone;
SELECT cron.schedule('taskq:mine', '0 0 1 1 *', 'SELECT 1'), cron.schedule('other', '0 0 1 1 *', 'SELECT 2');
SET ROLE someone;
SELECT cron.schedule('taskq:a', '0 0 1 1 *', 'SELECT 3');
SQL
my $users = $sql->($JOBS);
refused('the name of a job of a user is refused', 'postgres', "SELECT taskq_schedule('mine', '* * * * *', 'q')", '42710', 'taskq:mine.*another name');

# --- the job of a schedule
$sql->("SELECT taskq_schedule('a', '* * * * *', 'q', '1')");
my $job = 'taskq:a|* * * * *|SELECT taskq.fire_cron(\'a\')|postgres|' . $sql->('SELECT current_user') . '|t';
is($sql->($JOBS), "$users\n$job", 'a job is written, beside that of a user with the same name');
my $id = $sql->("SELECT job_id FROM taskq.schedule WHERE name = 'a'");
$sql->("SELECT taskq_schedule('a', '* * * * *', 'q', '2')");
is($sql->("SELECT job_id FROM taskq.schedule WHERE name = 'a'"), $id, 'saving it again keeps the job');
is($sql->('SELECT schedule, next_run, misses, catch_up FROM taskq.schedules'), '* * * * *|||', 'next_run, misses and catch_up are null');
$sql->("SELECT taskq_schedule('b', '0 3 * * mon-fri', 'q'), taskq_schedule('b', '0 4 * * *', 'q')");
is($sql->("SELECT schedule FROM cron.job WHERE jobname = 'taskq:b'"), '0 4 * * *', 'another expression replaces the job');
$sql->("SELECT taskq_schedule('b', '0 4 * * *', 'q', enabled => false)");
is($sql->("SELECT count(*) FROM cron.job WHERE jobname = 'taskq:b'"), '0', 'a disabled schedule has no job');
$sql->("SELECT taskq_schedule('b', '0 4 * * *', 'q')");
$sql->("SELECT taskq_schedule('b', 'every 1 day', 'q')");
is($sql->("SELECT count(*) FROM cron.job WHERE jobname = 'taskq:b'"), '0', 'nor has one of another form');
is($sql->("SELECT taskq_unschedule('b')"), 't', 'it is removed');
$sql->("SELECT taskq_schedule('b', '0 4 * * *', 'q')");
$sql->("SELECT taskq_unschedule('b')");
is($sql->($JOBS), "$users\n$job", 'a schedule is removed with its job');
$node->psql('postgres', "BEGIN; SELECT taskq_schedule('b', '0 4 * * *', 'q'), taskq_unschedule('a'); ROLLBACK");
is($sql->($JOBS), "$users\n$job", 'a rollback undoes both');
my $quoted = $name =~ s/'/''/gr;
$sql->("SELECT taskq_schedule('$quoted', '0 0 1 1 *', 'q')");
$sql->($sql->("SELECT command FROM cron.job WHERE jobname = 'taskq:$quoted'"));
is($sql->("SELECT payload IS NULL FROM taskq.tasks WHERE headers ->> 'schedule' = '$quoted'"), 't', 'a name with quotes');
$sql->("SELECT taskq_unschedule('$quoted'), taskq_purge('q', '{pending}')");

for (['invalid schedule', "'a b c d e'", '22023', 'invalid schedule'], ['invalid field', "'61 * * * *'", '22023', 'invalid schedule'],
	['catch_up', "'* * * * *', 'q', catch_up => 'one'", '22023', 'catch_up'], ['a zone', "'* * * * *', 'q', timezone => 'Europe/Berlin'", '0A000', 'Europe/Berlin.*GMT.*every <interval> at <time>'])
{
	my ($what, $arguments, $state, $pattern) = @$_;
	$arguments .= ", 'q'" if $arguments !~ /'q'/;
	refused("$what is refused", 'postgres', "SELECT taskq_schedule('e', $arguments)", $state, $pattern);
}
refused('a long name', 'postgres', "SELECT taskq_schedule(repeat('n', 58), '* * * * *', 'q')", 'TQ009', 'maximum length 57');
$sql->("SELECT taskq_schedule(repeat('n', 57), '0 0 1 1 *', 'q', timezone => z), taskq_unschedule(repeat('n', 57)) FROM unnest('{UTC,GMT,Etc/UTC}'::text[]) z");
is($sql->($JOBS), "$users\n$job", 'no job is left');
$sql->("CREATE ROLE retired; SELECT taskq_grant('rights', 'retired', '{submit}'); SET ROLE retired; SELECT taskq_schedule('rights', '0 0 1 1 *', 'rights')");
$sql->("SELECT taskq.fire_cron('rights')");
is($sql->("SELECT submitted_by FROM taskq.tasks WHERE queue = 'rights'"), 'retired', 'a role that cannot log in has a schedule');
$sql->("ALTER ROLE retired RENAME TO absent; UPDATE taskq.schedule SET position = 0; SELECT count(taskq_run_schedule('rights')) FROM taskq_run_reapers() WHERE reaper = 'roles'");
is($sql->("SELECT string_agg(DISTINCT submitted_by, ' ') FROM taskq.tasks WHERE queue = 'rights'"), 'absent', 'and another name');
refused('another role cannot fire it', 'postgres', "SET ROLE absent; SELECT taskq.fire_cron('rights')", '42501', 'permission denied');

# --- pg_cron fires
unwell('all is well', qr/^well$/);
ok(within($LONG, sub { fired('q') > 0 }), 'pg_cron fires the schedule');
ok(within($LONG, sub { $sql->("SELECT count(*) > 0 FROM cron.job_run_details WHERE jobid = $id AND status = 'succeeded'") eq 't' }), 'the run succeeded');
is($sql->(<<'SQL'), 't|t|t|t', 'its planned time is the minute');
SELECT min((headers ->> 'planned_at')::timestamptz) = date_trunc('minute', min(created_at)), bool_and(reference = 'a@' || (headers ->> 'planned_at')),
       count(*) = count(DISTINCT reference), bool_and(payload = '2') FROM taskq.tasks WHERE queue = 'q'
SQL
my $states = "SELECT string_agg(coalesce(payload::text, headers ->> 'schedule') || ' ' || state, ', ' ORDER BY task_id) FROM (SELECT DISTINCT ON (payload, headers ->> 'schedule') * FROM taskq.tasks) t";
ok(within($LONG, sub { $bare->safe_psql('postgres', $states) =~ /^1 pending, 2 dead, (?:a pending, b pending|b pending, a pending)$/ }),
	'without preloading, pg_cron returns tasks, ends those past their deadline, and fires schedules')
  or diag($bare->safe_psql('postgres', $states));
$bare->stop('fast');

# two more calls in one minute, which ends during few tries
ok(within($LONG, sub { $sql->("SELECT taskq.fire_cron('a') FROM generate_series(1, 2)"); 1 }), 'it is called again');
is($sql->("SELECT count(*) - count(DISTINCT headers ->> 'planned_at') FROM taskq.tasks WHERE queue = 'q'"), '0', 'no minute fires twice');

# --- changed by hand
sub repaired
{
	$sql->("SELECT taskq_schedule('a', '* * * * *', 'q', '2')");
	unwell('saving it again repairs the job', qr/^well$/);
	is($sql->($JOBS) =~ s/\ntaskq:rights.*//r, "$users\n$job", 'there is one job, and those of users');
	return;
}
$sql->("SELECT cron.unschedule(job_id) FROM taskq.schedule WHERE name = 'a'");
unwell('a job was deleted', qr/"taskq:a" does not exist/);
repaired();
for (['active', 'active => false', 'is not active'], ['schedule', "schedule => '0 0 * * *'", 'was changed'],
	['command', "command => 'SELECT 1'", 'was changed'], ['role', "username => 'someone'", 'belongs to another role'])
{
	my ($what, $argument, $pattern) = @$_;
	# for the role, the user's job of that name and role must be away
	$sql->("UPDATE cron.job SET jobname = 'away' WHERE command = 'SELECT 3'");
	$sql->("SELECT cron.alter_job(job_id, $argument) FROM taskq.schedule WHERE name = 'a'");
	unwell("$what of a job was changed", qr/"taskq:a" \Q$pattern\E/);
	$sql->("SELECT taskq_schedule('a', '* * * * *', 'q', '2'); UPDATE cron.job SET jobname = 'taskq:a' WHERE command = 'SELECT 3'");
	repaired();
}
$sql->("BEGIN; SELECT cron.schedule('taskq:gone', '0 0 1 1 *', \$\$SELECT taskq.fire_cron('gone')\$\$); COMMIT");
unwell('a job has no schedule', qr/"taskq:gone" has no schedule/);
$sql->("SELECT cron.unschedule('taskq:gone')");
$sql->("UPDATE taskq.schedule SET problem = 'disk full' WHERE name = 'a'");
like($sql->("SELECT ok, detail FROM taskq_health() WHERE check_name = 'schedules'"), qr/^f\|1 of 2 .*"a"\. The column/, 'a schedule has a problem');
$sql->("UPDATE taskq.schedule SET problem = NULL");

# --- pg_cron cannot run jobs
set('cron.enable_superuser_jobs', 'off');
unwell('no jobs of superusers', qr/cron\.enable_superuser_jobs/);
refused('nor is one saved', 'postgres', "SELECT taskq_schedule('c', '* * * * *', 'q')", '55000', 'cron.enable_superuser_jobs');
$sql->('ALTER SYSTEM RESET cron.enable_superuser_jobs');
$sql->("ALTER SYSTEM SET cron.host = '/nowhere'");
set('cron.use_background_workers', 'off');
ok(within($LONG, sub { $sql->("SELECT detail FROM taskq_health() WHERE check_name = 'cron_jobs'") =~ /failed: "taskq:a"\. The column.*cron\.use_background_workers/ }),
	'pg_cron cannot connect');
$sql->('ALTER SYSTEM RESET cron.host; ALTER SYSTEM RESET cron.use_background_workers');
set('cron.database_name', 'other');
unwell('pg_cron moved to another database', qr/"other".*cron\.database_name/);
is($sql->("SELECT taskq_unschedule('rights')"), 't', 'a schedule can be removed all the same');
$sql->('ALTER SYSTEM RESET cron.database_name');
set('shared_preload_libraries', 'taskq');
unwell('pg_cron is not loaded', qr/not loaded/);
refused('a cron expression without pg_cron', 'postgres', "SELECT taskq_schedule('c', '* * * * *', 'q')", '55000', 'postgresql-\d+-cron');
$sql->('ALTER SYSTEM RESET shared_preload_libraries');
$node->restart;

# --- a dump with jobs in it
my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $copy = start_cron('copy');
my $copied = sub { $copy->safe_psql('postgres', shift) };
command_ok([ 'pg_dump', '-Fc', '-d', $node->connstr('postgres'), '-f', "$dir/cron.dump" ], 'a dump');
$copied->('DROP EXTENSION taskq; CREATE ROLE someone; CREATE ROLE absent');
command_ok([ 'pg_restore', '-d', $copy->connstr('postgres'), "$dir/cron.dump" ], 'it is restored');
my $base = $copied->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q'");
is($copied->($JOBS) =~ s/.*\n//rs, $job, 'it contains the job');
$copied->("UPDATE taskq.schedule SET position = 0");
$copied->("SELECT taskq.fire_cron('a')");
is($copied->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q'"), $base, 'which fires nothing in a copy');
$copied->("SELECT cron.unschedule(job_id) FROM taskq.schedule WHERE name = 'a'");
$copied->('SELECT taskq_activate()');
is($copied->($JOBS) =~ s/.*\n//rs, $job, 'taskq_activate() writes it again');
$copied->("SELECT taskq.fire_cron('a')");
ok($copied->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q'") > $base, 'and it fires');
$copied->('DROP EXTENSION pg_cron; SELECT taskq_activate()');
like($copied->("SELECT problem FROM taskq.schedules WHERE name = 'a'"), qr/pg_cron does not exist/, 'without pg_cron, the schedule says so');
$copy->stop('fast');

# --- the end
$sql->("SELECT taskq_drop_queue('q', true)");
is($sql->($JOBS), "$users\n$job", 'the job outlives its queue, as the schedule does');
unwell('the job is sound', qr/^(?:well|The last run)/);
$node->psql('postgres', 'BEGIN; DROP EXTENSION taskq; ROLLBACK');
is($sql->($JOBS), "$users\n$job", 'a rollback keeps the job');
$sql->('DROP EXTENSION taskq');
is($sql->($JOBS), $users, 'the job is dropped with the extension, and no other job');

$node->stop('fast');
done_testing();

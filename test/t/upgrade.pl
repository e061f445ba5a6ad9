# After pg_upgrade and after point-in-time recovery everything is kept, duties
# continue without taskq_activate(), a copy stays a copy, and no id and no pair
# of id and token is used twice.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqDump;
use TaskqTest;

# --- pg_upgrade, to the same version
my @settings = ('fsync' => 'off', 'taskq.reaper_interval' => "'100 ms'", 'taskq.dead_threshold' => "'1 h'");
my $old = start_node('old', @settings);
$old->safe_psql('postgres', 'CREATE ROLE gap; ' . join '', map { "CREATE ROLE $_;" } role_names());
$old->safe_psql('postgres', 'DROP ROLE gap');
fill($old, 'postgres');
$old->safe_psql('postgres', "CREATE SCHEMA apart; CREATE DATABASE elsewhere");
$old->safe_psql('elsewhere', "CREATE SCHEMA apart; CREATE EXTENSION taskq SCHEMA apart; SELECT apart.taskq_submit('other')");
$old->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE postgres');
is(contents($old, 'copied'), contents($old, 'postgres'), 'a copy by TEMPLATE has every row');
$old->safe_psql('copied', "UPDATE taskq.task SET lease_until = clock_timestamp() - interval '1 s' WHERE state = 3 AND lease_until < 'infinity'");
my %before = map { $_ => contents($old, $_) . "\n" . numbers($old, $_) . "\n" . $old->safe_psql($_, 'TABLE taskq.instance') }
  qw(postgres copied elsewhere);
my $grants = q{SELECT proname, array_agg(a::text ORDER BY a::text) FROM pg_proc, unnest(coalesce(proacl, acldefault('f', proowner))) a WHERE proname ~ '^taskq_' GROUP BY 1 ORDER BY 1};
my $rights = $old->safe_psql('postgres', $grants);
ok(stays(1, sub { contents($old, 'copied') . "\n" . numbers($old, 'copied') . "\n" . $old->safe_psql('copied', 'TABLE taskq.instance') eq $before{copied} }),
	'the copy is inactive');
$old->stop('fast');

my $new = PostgreSQL::Test::Cluster->new('new');
$new->init;
$new->append_conf('postgresql.conf', "shared_preload_libraries = 'taskq'\nfsync = off\ntaskq.reaper_interval = '100 ms'\ntaskq.dead_threshold = '1 h'");
chomp(my $bin = `pg_config --bindir`);
my @upgrade = ('pg_upgrade', '--no-sync', '-b', $bin, '-B', $bin, '-d', $old->data_dir, '-D', $new->data_dir,
	'-s', $new->host, '-p', $old->port, '-P', $new->port);
chdir $PostgreSQL::Test::Utils::tmp_check;
command_ok([ @upgrade, '--check' ], 'pg_upgrade --check');
command_ok(\@upgrade, 'pg_upgrade');
$new->start;
for my $database (qw(postgres copied elsewhere))
{
	is(contents($new, $database) . "\n" . numbers($new, $database) . "\n" . $new->safe_psql($database, 'TABLE taskq.instance'),
		$before{$database}, "$database: every row and number is there, and the mark of a copy");
}
is($new->safe_psql('postgres', $grants), $rights, 'privileges are unchanged');
ok(within(40, sub { worker_pid($new) ne '' && worker_pid($new, 'elsewhere') ne '' }), 'background workers run');
ok(stays(20, sub { worker_pid($new, 'copied') eq '' && $new->safe_psql('copied', "SELECT state FROM taskq.tasks WHERE queue = 'held'") eq 'running' }),
	'the copy is still inactive');
is($new->safe_psql('postgres', "SET ROLE bob; SELECT payload FROM taskq_claim('q', tags => '{b}')"), '"deadline"', 'roles have their rights');
is($new->safe_psql('elsewhere', 'SELECT task_id, token > 0 FROM apart.taskq_claim(\'other\')'), '1|t', 'the extension in another schema works');
my ($held, $token) = split /\|/, $new->safe_psql('postgres', "SELECT task_id, token FROM taskq.tasks WHERE queue = 'held'");
is(error_of($new, "SELECT taskq_extend($held, $token, '100 ms')"), '', 'an old token is valid');
ok(within(40, sub { $new->safe_psql('postgres', "SELECT state FROM taskq.tasks WHERE task_id = $held") eq 'pending' }), 'its lease expires');
cmp_ok($new->safe_psql('postgres', "SELECT taskq_submit('q')"), '>', $new->safe_psql('postgres', 'SELECT max(task_id) FROM taskq.archive'), 'ids continue');
is(error_of($new, 'DROP EXTENSION taskq', 'elsewhere'), '', 'an upgraded extension can be dropped');
is($new->safe_psql('elsewhere', "SELECT count(*) FROM pg_namespace WHERE nspname = 'taskq'"), '0', 'all of it is dropped');
sound($new);
amcheck($new);
$new->stop('fast');

# --- recovery to a point in time
my $primary = start_node('primary', init => { allows_streaming => 1, has_archiving => 1 }, @settings);
my $sql = sub { $primary->safe_psql('postgres', $_[0]) };
my $work = <<'SQL';
SELECT 'submitted', taskq_submit('p') FROM generate_series(1, 20);
SELECT 'claimed', task_id, token FROM taskq_claim('p', max_tasks => 10, lease => '1 h');
SELECT taskq_release(task_id, token) FROM taskq.tasks WHERE queue = 'p' AND state = 'running' AND task_id % 2 = 0;
SQL
my (%given, @twice);
sub given
{
	for (split /\n/, $_[0])
	{
		push @twice, $_ if /^(submitted|claimed)/ && $given{$_}++;
	}
	return;
}
given($sql->($work));
$sql->("SELECT taskq_submit('lease'); SELECT FROM taskq_claim('lease', lease => '3 s')");
$primary->backup('base');
given($sql->($work));
my $point = $sql->("SELECT count(*), sum(token) FROM taskq.tasks WHERE queue = 'p'");
$sql->("SELECT pg_create_restore_point('point')");
given($sql->($work)) for 1 .. 3;
$sql->('SELECT pg_switch_wal()');
my $archived = $sql->('SELECT pg_walfile_name(pg_current_wal_lsn())');
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$archived' OR pg_walfile_name(pg_current_wal_lsn()) > last_archived_wal FROM pg_stat_archiver");

my $recovered = PostgreSQL::Test::Cluster->new('recovered');
$recovered->init_from_backup($primary, 'base', has_restoring => 1, standby => 0);
$recovered->append_conf('postgresql.conf', "recovery_target_name = 'point'\nrecovery_target_action = 'promote'");
$recovered->start;
$recovered->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
is($recovered->safe_psql('postgres', "SELECT count(*), sum(token) FROM taskq.tasks WHERE queue = 'p'"), $point,
	'recovered: the rows are as they were at that point');
ok(within(40, sub { worker_pid($recovered) ne '' }), 'duties continue');
ok(within(40, sub { $recovered->safe_psql('postgres', "SELECT state FROM taskq.tasks WHERE queue = 'lease'") eq 'pending' }), 'a lease expires');
given($recovered->safe_psql('postgres', $work)) for 1 .. 3;
given($sql->($work));
is("@twice", '', 'no id was given twice, and no pair of id and token');
cmp_ok(scalar(keys %given), '>', 200, 'many were compared');
sound($recovered);
amcheck($recovered);
$_->stop('fast') for $recovered, $primary;
done_testing();

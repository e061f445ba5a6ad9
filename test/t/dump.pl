# All forms of a dump restore every row and every number. A copy is inactive,
# and trusts no number of a role, until it is activated; then it works.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqDump;
use TaskqTest;

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $source = start_node('source', 'fsync' => 'off', 'taskq.retention_interval' => "'1 s'");
my $target = start_node('target', 'fsync' => 'off', 'taskq.reaper_interval' => "'100 ms'",
	'taskq.deadline_interval' => "'100 ms'", 'taskq.retention_interval' => "'1 s'",
	'taskq.dead_threshold' => "'1 s'", 'taskq.stale_threshold' => "'500 ms'");
my $psql = sub { my ($db, $sql) = @_; $target->safe_psql($db, $sql) };

$source->safe_psql('postgres', join '', map { "CREATE ROLE $_;" } role_names(), 'left_us');
$target->safe_psql('postgres', join '', map { "CREATE ROLE $_;" } reverse(role_names()), 'left_us');
$source->safe_psql('postgres', "SELECT taskq_grant('*', 'left_us', '{read}'); DROP OWNED BY left_us; DROP ROLE left_us");
fill($source, 'postgres');
ok(within(40, sub { $source->safe_psql('postgres', "SELECT gone FROM taskq.role WHERE name = 'left_us'") eq 't' }),
	'a dropped role is marked as dropped');

# Rows that a dump should have; an empty table would hide that they are
# missing.
my $contents = contents($source, 'postgres');
my $numbers = numbers($source, 'postgres');
my @empty = map { /^(\w+)\|0\|/ ? $1 : () } split /\n/, $contents;
is("@empty", join(' ', (map { "archive_$_" } '01', '02', '04' .. '14'), (map { "transition_$_" } '01', '02', '04' .. '14')),
	'all tables have rows, except the leaves that are not in use');
is($source->safe_psql('postgres', 'SELECT string_agg(DISTINCT state, \' \' ORDER BY state) FROM taskq.tasks'),
	'blocked cancelled dead done filtered pending running suspended', 'there are tasks in every state');

sub dump_to
{
	my ($file, $database, @options) = @_;
	my $node = ref $options[0] ? shift @options : $source;

	command_ok([ 'pg_dump', '-d', $node->connstr($database), '-f', "$dir/$file", @options ], "pg_dump @options");
	return;
}

dump_to('plain.sql', 'postgres');
dump_to('custom', 'postgres', '-Fc');
dump_to('data', 'postgres', '-Fc', '--data-only');
dump_to('directory', 'postgres', '-Fd', '-j', '2');
dump_to('bare', 'postgres', '-Fc', '--no-privileges', '--no-owner');
dump_to('root', 'postgres', '-Fc', '--load-via-partition-root');
is(contents($source, 'postgres'), $contents, 'nothing has changed during the dump');

sub restore
{
	my ($database, $file, $prepared, @options) = @_;

	$psql->('postgres', "CREATE DATABASE $database");
	$psql->($database, 'CREATE EXTENSION taskq') if $prepared;
	command_ok($file =~ /sql$/
		? [ 'psql', '-X', '-q', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr($database), '-f', "$dir/$file" ]
		: [ 'pg_restore', '-d', $target->connstr($database), '--exit-on-error', @options, "$dir/$file" ],
		"$database: restored without error");
	is(contents($target, $database), $contents, "$database: every row is there");
	is(numbers($target, $database), $numbers, "$database: numbers continue from the same value");
	return;
}

restore('plain', 'plain.sql', 0);
restore('custom', 'custom', 0);
restore('data', 'data', 1);
restore('directory', 'directory', 1, '-j', '2');
restore('bare', 'bare', 1);
restore('root', 'root', 0, '--single-transaction');
my @copies = qw(plain custom data directory bare root);

# --- a dump of the copy is the same as the first dump
sub text_of
{
	my ($file) = @_;
	my $text = slurp_file("$dir/$file");

	$text =~ s/^COPY taskq\.instance .*?^\\\.$//ms;
	$text =~ s/^\\(?:un)?restrict .*$//mg;
	$text =~ s/^-- (?:Dumped|Started|Completed).*$//mg;
	return $text;
}

dump_to('again.sql', 'custom', $target);
my @before = sort split /\n/, text_of('plain.sql');
my @after = sort split /\n/, text_of('again.sql');
ok("@after" eq "@before", 'a dump of the copy is the same but for taskq.instance');

# --- the copy is inactive: times pass, and nothing happens
my $pass = <<'SQL';
UPDATE taskq.task SET lease_until = clock_timestamp() - interval '1 s' WHERE state = 3 AND lease_until < 'infinity';
UPDATE taskq.task SET deadline = clock_timestamp() - interval '1 s' WHERE deadline IS NOT NULL;
UPDATE taskq.archive_keep SET expires_at = clock_timestamp() - interval '1 s' WHERE expires_at < 'infinity';
UPDATE taskq.archive_03 SET finished_at = clock_timestamp() - interval '30 d';
UPDATE taskq.transition_03 SET at = clock_timestamp() - interval '30 d';
SQL
$psql->($_, $pass) for @copies;
my %passed = map { $_ => contents($target, $_) } @copies;
ok(stays(20, sub { !grep { contents($target, $_) ne $passed{$_} } @copies }),
	'no lease or deadline ends, no worker dies, nothing is removed in any copy');
for my $copy (@copies)
{
	my ($status, $out, $err) = $target->psql($copy, 'SET client_min_messages = notice; SELECT sum(acted), count(*) > 9 FROM taskq_run_reapers()');
	is($out, '0|t', "$copy: a call does no duty");
	like($err, qr/NOTICE:  taskq_run_reapers\(\) does nothing, because this database is a copy that has not been activated\nHINT:  Background processing is disabled until a superuser calls taskq_activate\(\)\.$/,
		'and says so');
	is(contents($target, $copy), $passed{$copy}, 'nothing is changed');
}
is(join(' ', map { worker_pid($target, $_) } @copies), ' ' x (@copies - 1), 'no copy has a background worker');
is(join(' ', map { $psql->($_, 'SELECT problem, detail FROM taskq_check()') } @copies), ' ' x (@copies - 1),
	'taskq_check finds nothing in any of them');

# Inactive from the first row on: taskq.instance may come last, or not at all.
$psql->('postgres', 'CREATE DATABASE part');
$psql->('part', 'CREATE EXTENSION taskq');
ok(within(40, sub { worker_pid($target, 'part') ne '' }), 'a new database has a background worker');
command_ok([ 'pg_restore', '-d', $target->connstr('part'), '--exit-on-error', (map { ('-t', $_) } qw(role queue lane task large)), "$dir/data" ],
	'some tables are restored');
$psql->('part', $pass);
ok(within(40, sub { worker_pid($target, 'part') eq '' }), 'the background worker leaves the copy');
is($psql->('part', "SELECT string_agg(DISTINCT state, ' ') FROM taskq.tasks WHERE queue IN ('held', 'asked', 'limited') AND attempt > 0"), 'running',
	'it has changed nothing');
$psql->('part', 'SELECT taskq_activate()');
ok(within(40, sub { $psql->('part', "SELECT state FROM taskq.tasks WHERE queue = 'held'") eq 'pending' }), 'the activated copy works');

# --- before the activation, calls of superusers work; no role has another's
# rights
is($psql->('custom', "SELECT string_agg(role_id::text, ' ') FROM taskq.known_role WHERE oid <> 10"), '',
	'no number of a role is trusted');
for my $role (role_names())
{
	is(error_of($target, "SET ROLE $role; SELECT FROM taskq_claim('q', tags => '{b}')", 'custom'), '42501',
		"$role cannot claim yet");
	is($psql->('custom', "SET ROLE $role; SELECT count(*) FROM taskq.tasks"), '0', "$role cannot see a task");
}
my ($held, $token) = split /\|/, $psql->('custom', "SELECT task_id, token FROM taskq.tasks WHERE queue = 'held'");
is(error_of($target, "SELECT taskq_complete($held, $token)", 'custom'), '', 'an old token completes its task');
is($psql->('custom', "SELECT count(*) FROM taskq_claim('limited', max_tasks => 9)"), '0',
	'max_running counts what was loaded');
is($psql->('custom', "SELECT payload FROM taskq_claim('q', tags => '{a,b}')") =~ /^"x{20000}"$/ ? 1 : 0, 1,
	'a claim works, and large values are there');
is(error_of($target, "SELECT taskq_submit('unique', reference => 'r live')", 'custom'), 'TQ006', 'references hold');
is(error_of($target, "SELECT taskq_submit('unique', reference => 'r done')", 'custom'), 'TQ006', 'references hold in their windows, too');
is($psql->('custom', "SELECT count(*) FROM taskq_claim('paused')"), '0', 'a pause holds');

# A role with the number that another role had is not taken for that role.
my $number = $psql->('custom', "SELECT min(oid) FROM taskq.role WHERE name IN ('alice', 'bob')");
$psql->('postgres', "ALTER ROLE erin SUPERUSER");
my $mine = $psql->('custom', "SET ROLE erin; SELECT taskq_submit('by erin')");
is($psql->('custom', "SELECT submitted_by FROM taskq.tasks WHERE task_id = $mine"), 'erin',
	'a task that is submitted before the activation has the name of its submitter');
$psql->('postgres', "ALTER ROLE erin NOSUPERUSER");

# --- activated
$psql->($_, 'SELECT taskq_activate()') for 'plain', 'custom', 'bare', 'directory';
is($psql->('custom', "SELECT submitted_by FROM taskq.tasks WHERE task_id = $mine"), 'erin', 'the activation keeps that name');
my $state = sub { $psql->('plain', "SELECT state FROM taskq.tasks WHERE queue = '$_[0]'") };
ok(within(40, sub { $state->('held') eq 'pending' }), 'activated: a lease expires');
is($psql->('plain', "SELECT count(*) FROM taskq.tasks WHERE queue = 'limited' AND state = 'running'"), '0', 'all leases expire');
ok(within(40, sub { $state->('asked') eq 'cancelled' }), 'a task that was asked to stop is cancelled');
ok(within(40, sub { $state->('registered') eq 'pending' }), 'a worker without a heartbeat since then is declared dead');
ok(within(40, sub { $psql->('plain', "SELECT reason FROM taskq.tasks WHERE payload = '\"deadline\"'") ne '' }), 'a deadline passes');
ok(within(40, sub { $psql->('plain', "SELECT count(*) FROM taskq.archive_keep WHERE expires_at < clock_timestamp()") eq '0' }),
	'expired tasks are removed');
ok(within(40, sub { $psql->('plain', 'SELECT (SELECT count(*) FROM taskq.archive_03) + (SELECT count(*) FROM taskq.transition_03)') eq '0' }),
	'old leaves are emptied');
ok(within(40, sub { $psql->('plain', 'SELECT count(*) FROM taskq.large l WHERE NOT EXISTS (SELECT FROM taskq.tasks t WHERE t.task_id = l.task_id)') eq '0' }),
	'large parts of their tasks are removed, too');
my $highest = $psql->('plain', 'SELECT max(task_id) FROM taskq.tasks');
cmp_ok($psql->('plain', "SELECT taskq_submit('new')"), '>', $highest, 'ids continue');

# --- rights by name
is($psql->('directory', "SET ROLE bob; SELECT payload FROM taskq_claim('q', tags => '{b}')"), '"of alice"', 'bob works');
is($psql->('directory', "SET ROLE carol; SELECT count(*) > 20 FROM taskq.tasks"), 't', 'carol reads');
is(error_of($target, "SET ROLE carol; SELECT FROM taskq_claim('q')", 'directory'), '42501', 'carol has no other right');
is(error_of($target, "SET ROLE dora; SELECT taskq_pause('limited')", 'directory'), '', 'dora manages');
is(error_of($target, "SET ROLE erin; SELECT taskq_alter_queue('erins', '{\"priority\": 1}')", 'directory'), '', 'an owner is still the owner');
is(error_of($target, "SET ROLE erin; SELECT taskq_register('erins worker', keep => true)", 'directory'), '', 'a worker still belongs to its role');
is($psql->('directory', "SELECT DISTINCT submitted_by FROM taskq.tasks WHERE payload = '\"of alice\"'"), 'alice', 'submitters are known');
is($psql->('directory', "SET ROLE left_us; SELECT count(*) FROM taskq.tasks"), '0',
	'the rights of a dropped role do not go to a role of the same name');
is($psql->('bare', "SET ROLE bob; SELECT payload FROM taskq_claim('q', tags => '{b}')"), '"of alice"',
	'activating gives EXECUTE again where the dump has no privileges');

# --- roles that the target does not have
$psql->($_, 'DROP OWNED BY ghost') for 'postgres', @copies;
$psql->('postgres', 'DROP ROLE ghost; ALTER ROLE dora RENAME TO dorothy; CREATE DATABASE lacking');
my ($out, $err);
ok(!IPC::Run::run([ 'pg_restore', '-d', $target->connstr('lacking'), "$dir/custom" ], '>', \$out, '2>', \$err),
	'roles are missing: pg_restore ends with errors');
my @failed = $err =~ /^Command was: (.*)$/mg;
cmp_ok(scalar @failed, '>', 0, 'it names the statements');
is(join("\n", grep { !/^GRANT ALL ON (?:FUNCTION|PROCEDURE) public\.taskq_/ } @failed), '', 'they are only GRANTs on functions and procedures');
my @why = $err =~ /ERROR:  (.*)$/mg;
is(join("\n", grep { !/^role "(?:ghost|dora)" does not exist$/ } @why), '', 'each of them names a missing role');
is(contents($target, 'lacking'), $contents, 'no row is lost');
$psql->('lacking', 'SELECT taskq_activate()');
is($psql->('lacking', "SET ROLE bob; SELECT payload FROM taskq_claim('q', tags => '{b}')"), '"deadline"',
	'other roles have their rights, also an EXECUTE that was not restored because of a missing role');
is($psql->('lacking', "SELECT count(*) FROM taskq.known_role JOIN taskq.role USING (role_id) WHERE name IN ('ghost', 'dora') AND EXISTS (SELECT FROM pg_roles a WHERE a.oid = role.oid)"),
	'0', 'names without a role have no right');
$psql->('postgres', 'CREATE ROLE ghost');
for my $role ('ghost', 'dorothy')
{
	$psql->('lacking', "SELECT taskq_grant('other', '$role', '{work,read}') FROM taskq_create_queue('other', if_not_exists => true)");
	is(error_of($target, "SET ROLE $role; SELECT FROM taskq_claim('q')", 'lacking'), '42501', "a $role that is created later has no right");
	is($psql->('lacking', "SET ROLE $role; SELECT count(*) FROM taskq.tasks"), '0', 'it sees no task');
}
is($psql->('lacking', "SELECT state FROM taskq_get((SELECT task_id FROM taskq.tasks WHERE queue = 'held'))") ne '', 1, 'the tasks are there');
sound($target, database => $_) for 'plain', 'custom', 'lacking';
amcheck($target, $_) for 'plain', 'directory';

# --- a dump by a role that is not a superuser, as the page on backups describes
for my $grants ([ 'GRANT pg_read_all_data TO keeper', 'REVOKE pg_read_all_data FROM keeper' ],
	[ 'GRANT SELECT ON ALL TABLES IN SCHEMA taskq TO keeper; GRANT SELECT ON ALL SEQUENCES IN SCHEMA taskq TO keeper', 'DROP OWNED BY keeper' ])
{
	my @dump = ('pg_dump', '-d', $source->connstr('postgres') . ' user=keeper', '-Fc', '-f', "$dir/kept");
	my $name = $grants->[0] =~ /pg_read/ ? 'kept' : 'kept_alone';

	$source->safe_psql('postgres', 'CREATE ROLE keeper LOGIN');
	$psql->('postgres', 'DROP ROLE IF EXISTS keeper; CREATE ROLE keeper');
	command_fails(\@dump, 'a role that is not a superuser cannot dump');
	$source->safe_psql('postgres', $grants->[0]);
	# workers of the source may have died since
	$contents = contents($source, 'postgres');
	command_ok(\@dump, "with grants it can: $grants->[0]");
	$source->safe_psql('postgres', "$grants->[1]; DROP ROLE keeper");
	$psql->('postgres', 'CREATE DATABASE ' . $name);
	command_ok([ 'pg_restore', '-d', $target->connstr($name), '--no-privileges', '--exit-on-error', "$dir/kept" ], 'its dump can be restored');
	is(contents($target, $name), $contents, 'it has every row');
	is(numbers($target, $name), $numbers, 'it has every number');
}

# --- a dump while clients work
$source->safe_psql('postgres', 'CREATE TABLE effect (task_id bigint PRIMARY KEY); CREATE TABLE outbox (task_id bigint PRIMARY KEY)');
my $clients = start_clients($source, 4, "\\set VERBOSITY sqlstate\n" . <<'SQL' x 50);
WITH s AS (SELECT taskq_submit('flow', to_jsonb(repeat('z', 3000))) AS task_id) INSERT INTO outbox SELECT task_id FROM s;
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('flow', lease => '1 h') \gset
\if :{?c_task_id}
BEGIN;
INSERT INTO effect SELECT :c_task_id FROM taskq_complete(:c_task_id, :c_token);
COMMIT;
\endif
\unset c_task_id
SQL
my $done = sub { $source->safe_psql('postgres', "SELECT count(*) FROM effect") };
ok(within(40, sub { $done->() > 300 }), 'clients work');
dump_to('busy', 'postgres', '-Fd', '-j', '2');
my $ids = $source->safe_psql('postgres', 'SELECT max(task_id) FROM outbox');
my $more = $done->();
ok(within(40, sub { $done->() > $more }), 'they continued during the dump');
end_clients($clients);
my %errors = errors_of($clients);
is(join(' ', %errors), '', 'the dump raises no error');
$psql->('postgres', 'CREATE DATABASE busy');
($out, $err) = ('', '');
IPC::Run::run([ 'pg_restore', '-d', $target->connstr('busy'), '-j', '2', '--no-privileges', '--exit-on-error', "$dir/busy" ], '>', \$out, '2>', \$err)
  or fail("restored: $err");
is($psql->('busy', <<'SQL'), 't|0|0|0', 'all rows fit together');
SELECT (SELECT count(*) FROM effect) > 300,
       (SELECT count(*) FROM (SELECT task_id FROM outbox EXCEPT SELECT task_id FROM taskq.tasks WHERE queue = 'flow') a),
       (SELECT count(*) FROM (SELECT task_id FROM taskq.tasks WHERE queue = 'flow' EXCEPT SELECT task_id FROM outbox) a),
       (SELECT count(*) FROM effect FULL JOIN (SELECT task_id FROM taskq.tasks WHERE queue = 'flow' AND state = 'done') d USING (task_id)
         WHERE effect.task_id IS NULL OR d.task_id IS NULL)
SQL
$psql->('busy', 'SELECT taskq_activate()');
cmp_ok($psql->('busy', "SELECT taskq_submit('flow')"), '>', $psql->('busy', 'SELECT max(task_id) FROM outbox'), 'ids continue');
sound($target, database => 'busy');

$_->stop('fast') for $source, $target;
done_testing();

# The extension can be created in any schema, DROP EXTENSION leaves nothing
# behind, and a dump is restored.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('schema', 'fsync' => 'off');
my $psql = sub { my ($db, $sql) = @_; $node->safe_psql($db, $sql) };
my $catalog = <<'SQL';
SELECT 'relation', relnamespace::regnamespace::text, relname::text FROM pg_class WHERE relnamespace::regnamespace::text !~ '^pg_'
UNION ALL SELECT 'function', pronamespace::regnamespace::text, proname FROM pg_proc WHERE pronamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')
UNION ALL SELECT 'type', typnamespace::regnamespace::text, typname FROM pg_type WHERE typnamespace::regnamespace::text !~ '^pg_'
UNION ALL SELECT 'schema', nspname, '' FROM pg_namespace WHERE nspname !~ '^pg_'
UNION ALL SELECT 'dependency', classid::regclass::text, '' FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND classid <> 'pg_proc'::regclass
UNION ALL SELECT 'grant', '', '' FROM pg_default_acl
ORDER BY 1, 2, 3
SQL

sub comes_and_goes
{
	my ($words, $before, $create, $check, $schema_stays) = @_;
	$psql->('postgres', 'CREATE DATABASE d');
	$psql->('d', $before) if $before ne '';
	my $first = $psql->('d', $catalog);
	$psql->('d', $create);
	is($psql->('d', "SELECT n.nspname FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace WHERE proname = 'taskq_submit'"),
		$check, "$words: functions are there");
	is($psql->('d', "SELECT $check.taskq_submit(payload => '1')"), '1', "$words: it works");
	is($psql->('d', "SET search_path = pg_catalog; SELECT payload FROM $check.taskq_claim()"), '1', "$words: from any search_path");
	is($psql->('d', "SELECT state FROM taskq.tasks"), 'running', "$words: views are in schema taskq");
	is($psql->('d', "SELECT count(*) FROM $check.taskq_check()"), '0', "$words: taskq_check finds nothing");
	$psql->('d', 'DROP EXTENSION taskq');
	is($psql->('d', $catalog), $first, "$words: DROP EXTENSION leaves what was there before");
	$psql->('d', $create);
	is($psql->('d', "SELECT $check.taskq_submit()"), '1', "$words: it can be created again");
	$psql->('postgres', 'DROP DATABASE d');
	return;
}

comes_and_goes('default schema', '', 'CREATE EXTENSION taskq', 'public');
comes_and_goes('SCHEMA s', 'CREATE SCHEMA s', 'CREATE EXTENSION taskq SCHEMA s', 's');
comes_and_goes('SCHEMA taskq', 'CREATE SCHEMA taskq', 'CREATE EXTENSION taskq SCHEMA taskq', 'taskq');

$psql->('postgres', 'CREATE DATABASE e');
$psql->('e', 'CREATE SCHEMA taskq; CREATE TABLE taskq.mine ()');
my ($rc, $out, $err) = $node->psql('e', "\\set VERBOSITY verbose\nCREATE EXTENSION taskq");
like($err, qr/42P06.*not an empty schema/s, 'an existing schema taskq with something in it is refused');
$psql->('e', 'DROP TABLE taskq.mine; CREATE EXTENSION taskq; DROP EXTENSION taskq');
is($psql->('e', "SELECT count(*) FROM pg_namespace WHERE nspname = 'taskq'"), '0', 'an empty one is taken over');
$psql->('e', 'CREATE ROLE other; CREATE SCHEMA taskq AUTHORIZATION other');
($rc, $out, $err) = $node->psql('e', 'CREATE EXTENSION taskq');
isnt($rc, 0, 'one of another role is refused');

# --- a dump is restored, and inactive until it is activated
$psql->('postgres', 'CREATE DATABASE source');
$psql->('source', 'CREATE EXTENSION taskq');
$psql->('source', "CREATE ROLE worker_role; SELECT taskq_grant('*', 'worker_role', '{work}')");
$psql->('source', q{SELECT taskq_create_queue('q', '{"max_attempts": 7}')});
$psql->('source', q{SELECT taskq_submit('q', to_jsonb(repeat('x', 10000)), tags => '{a}')});
$psql->('source', q{SELECT taskq_complete(task_id, token, '{"r": 1}') FROM (SELECT taskq_submit('q')) s, LATERAL taskq_claim('q')});
$psql->('source', q{SELECT taskq_fail(task_id, token, 'no', false) FROM (SELECT taskq_submit('q')) s, LATERAL taskq_claim('q')});
$psql->('source', q{SELECT FROM (SELECT taskq_submit('q')) s, LATERAL taskq_claim('q', lease => '8 s')});
$psql->('source', q{SELECT taskq_pause('*', 'held')});
my $rows = 'SELECT task_id, queue, state, tags, result, reason, attempt, token, md5(payload::text), submitted_by FROM taskq.tasks ORDER BY 1';
my $dump = $PostgreSQL::Test::Utils::tmp_check . '/taskq.dump';
command_ok(['pg_dump', '-h', $node->host, '-p', $node->port, '-Fc', '-f', $dump, 'source'], 'pg_dump');
my $dumped = $psql->('source', $rows);
$psql->('postgres', 'CREATE DATABASE restored');
command_ok(['pg_restore', '-h', $node->host, '-p', $node->port, '-d', 'restored', '--exit-on-error', $dump], 'pg_restore');
like($psql->('restored', $rows), qr/done/, 'the tasks are there');
is($psql->('restored', "SELECT count(*) FROM taskq.instance"), '2', 'the copy is marked as a copy');
is($psql->('restored', "SELECT taskq_version()"), '1.0', 'its functions work');
ok(within(20, sub { worker_pid($node, 'restored') eq '' }), 'no background worker stays in it');
is($psql->('restored', 'SELECT state FROM taskq.tasks WHERE task_id = 4'), 'running', 'a task was running at the time of the dump');
within(20, sub { $psql->('restored', 'SELECT clock_timestamp() > lease_until FROM taskq.tasks WHERE task_id = 4') eq 't' });
is($psql->('restored', "SELECT state FROM taskq.tasks WHERE task_id = 4"), 'running', 'its lease does not expire in the copy');
$psql->('restored', 'SELECT taskq_activate()');
ok(within(20, sub { worker_pid($node, 'restored') ne '' }), 'after taskq_activate() there is a background worker');
ok(within(20, sub { $psql->('restored', 'SELECT state FROM taskq.tasks WHERE task_id = 4') eq 'pending' }), 'and duties run');
is($psql->('restored', "SELECT options->>'max_attempts' FROM taskq.queues WHERE queue = 'q'"), '7', 'the options are there');
is($psql->('restored', 'SELECT count(*) FROM taskq_claim(\'q\')'), '0', 'the pause is there');
is($psql->('restored', "SELECT taskq_resume('*'); SELECT task_id > 16777216 OR task_id > 4 FROM (SELECT taskq_submit('q') AS task_id) s") =~ /t$/ ? 't' : 'f', 't', 'ids continue');
sound($node, database => 'restored');

# --- a copy by CREATE DATABASE ... TEMPLATE is inactive, too
$psql->('postgres', 'CREATE DATABASE copied TEMPLATE source');
ok(within(20, sub { worker_pid($node, 'source') ne '' }), 'the source has its background worker again');
is($psql->('copied', $rows) ne '', 1, 'the copy has its rows');
ok(within(20, sub { worker_pid($node, 'copied') eq '' }), 'the copy has no background worker');
$psql->('copied', 'SELECT taskq_activate()');
ok(within(20, sub { worker_pid($node, 'copied') ne '' }), 'it has one when it is activated');

$node->stop('fast');
done_testing();

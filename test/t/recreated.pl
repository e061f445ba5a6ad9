# Sessions outlive DROP EXTENSION and CREATE EXTENSION, in one transaction or
# in two, by the session itself or by another one. For the new extension they
# do not use what they have cached of the former extension, or have done
# earlier in the transaction. The same holds after rows are loaded by other
# means than the session's calls, and with a library that is not preloaded.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('recreated', 'autovacuum' => 'off');
my ($session, $name);
my $made = 0;

$node->safe_psql('postgres', 'CREATE ROLE alice; CREATE ROLE bob; GRANT CREATE ON DATABASE postgres TO alice; DROP EXTENSION taskq');

# Each way replaces the extension while the session is in use.
my $apart = 'DROP EXTENSION taskq; CREATE EXTENSION taskq';
my @ways = (
	[ 'by itself', sub { $session->query_safe($apart) } ],
	[ 'in one transaction', sub { $session->query_safe("BEGIN; $apart; COMMIT") } ],
	[ 'by another session', sub { $node->safe_psql($name, $apart) } ],
	[ 'by another session in one transaction', sub { $node->safe_psql($name, "BEGIN; $apart; COMMIT") } ],
	[ 'in a schema that stays', sub { $session->query_safe('DROP EXTENSION taskq; CREATE EXTENSION taskq SCHEMA taskq') } ],
	[   'after a rollback',
		sub {
			$session->query_safe("BEGIN; $apart; SELECT taskq_create_queue('phantom'); ROLLBACK; SELECT taskq_submit('other'); $apart");
		} ]);

for my $server ('preloaded', 'not preloaded')
{
	if ($server eq 'not preloaded')
	{
		$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
		$node->restart;
	}
	for my $way (@ways)
	{
		lives_on("$server, $way->[0]", $way->[1]);
	}
	loaded($server);
}

# lives_on(NAME, REPLACE): a session that has used the extension continues with
# its replacement.
sub lives_on
{
	my ($what, $replace) = @_;
	my $say = sub { $session->query_safe(shift) };

	$name = 'recreated' . ++$made;
	$session = open_in($name, $what =~ /schema/
		? "CREATE SCHEMA taskq; CREATE EXTENSION taskq SCHEMA taskq; ALTER DATABASE $name SET search_path = public, taskq"
		: 'CREATE EXTENSION taskq');

	# the numbers 1 and 2 of roles, queues, workers and templates
	$say->(<<'SQL');
SELECT taskq_create_queue('secret'), taskq_create_queue('other'), taskq_create_queue('keyed', '{"key_policy": "serial"}');
SELECT taskq_grant('*', 'alice', '{submit,work,read,manage}');
SELECT taskq_submit('secret'), taskq_submit_many('other', array_fill('{}'::jsonb, ARRAY[5]));
SELECT taskq_register('first'), taskq_register('second');
SELECT task_id FROM taskq_claim('other', 'label', max_tasks => 2);
SELECT taskq_define_workflow('{"name": "old", "version": "1", "queue": "old", "steps": [
    {"name": "old_a"}, {"name": "old_b", "depends_on": ["old_a"]}]}');
SELECT taskq_start_workflow('old');
SELECT taskq_submit('keyed', key => 'k') FROM generate_series(1, 20);
DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM taskq_complete(task_id, token) FROM taskq_claim('keyed'); END LOOP; END $$;
SET ROLE alice;
SELECT taskq_submit('other');
RESET ROLE;
SQL
	$replace->();

	# in another order, so that each number has another meaning
	is($say->(<<'SQL'), "1\n2\n3", "$what: numbers start again");
SELECT taskq_submit('public_first');
SELECT taskq_submit('keyed_not');
SELECT taskq_submit('secret', '{"password": "x"}');
SQL
	$say->(<<'SQL');
SELECT taskq_create_queue('keyed', '{"key_policy": "serial"}');
SELECT taskq_grant('public_first', 'bob', '{submit,work,read}');
SELECT taskq_define_workflow('{"name": "new", "version": "1", "queue": "new", "steps": [
    {"name": "x"}, {"name": "y", "depends_on": ["x"]}, {"name": "z", "depends_on": ["x"]}]}');
SELECT taskq_start_workflow('new');
SQL
	is($say->("SELECT string_agg(DISTINCT owner, ',') FROM taskq.queues"), 'postgres', "$what: the owner of queues");
	is($say->("SELECT string_agg(DISTINCT submitted_by, ',') FROM taskq.tasks"), 'postgres', "$what: the submitters");
	is($say->('SELECT string_agg(name, \',\' ORDER BY role_id) FROM taskq.role'), 'postgres,bob', "$what: roles by number");
	is($say->("SELECT string_agg(queue || ':' || step || ':' || state, ',' ORDER BY task_id) FROM taskq.tasks WHERE step IS NOT NULL"),
		'new:x:pending,new:y:blocked,new:z:blocked', "$what: a workflow has the steps of its own definition");
	is($say->("SELECT string_agg(step, ',') FROM taskq_claim('new', max_tasks => 10)"), 'x', "$what: the workflow starts");

	is(error_of($node, "SET ROLE bob; SELECT payload FROM taskq_claim('secret')", $name), '42501', "$what: no rights of others");
	is($node->safe_psql($name, "SET ROLE alice; SELECT count(*) FROM taskq.tasks"), '0', "$what: no grant of the former extension");

	# the key starts with the first task, and one runs at a time
	$say->("SELECT taskq_submit('keyed', key => 'k'), taskq_submit('keyed', key => 'k')");
	is($say->("SELECT count(*) FROM taskq_claim('keyed', 'label', max_tasks => 5)"), '1', "$what: one task of a key");
	is($say->("SELECT string_agg(DISTINCT worker, ',') FROM taskq.tasks WHERE queue = 'keyed' AND state = 'running'"),
		'label', "$what: by the name of its worker");
	is($say->(q{SELECT code_of('SELECT taskq_heartbeat(''first'')')}), 'TQ007', "$what: the former workers are gone");
	if ($what !~ /not preloaded/)
	{
		$say->(q{SELECT taskq_create_queue('limited', '{"max_running": 2}')});
		$say->("SELECT taskq_submit_many('limited', array_fill('{}'::jsonb, ARRAY[5]))");
		is($say->("SELECT count(*) FROM taskq_claim('limited', max_tasks => 5)"), '2', "$what: a limit counts from zero");
	}
	$session->quit;
	sound($node, database => $name);
	$node->safe_psql('postgres', "DROP DATABASE $name WITH (FORCE)");
	return;
}

# loaded(NAME): rows of other data are loaded past a session, which continues
# when they are activated.
sub loaded
{
	my ($what) = @_;

	$name = 'loaded' . ++$made;
	$session = open_in($name, 'CREATE EXTENSION taskq');
	$session->query_safe(<<'SQL');
SELECT taskq_create_queue('q');
SELECT taskq_define_workflow('{"name": "w", "version": "1", "queue": "q", "steps": [{"name": "mine"}]}');
SELECT taskq_start_workflow('w');
SQL
	my $rows = "$PostgreSQL::Test::Utils::tmp_check/$name";
	$node->safe_psql($name, <<SQL);
BEGIN;
COPY (SELECT template_id, namespace, name, version, replace(definition::text, 'mine', 'loaded')::jsonb,
             2, defined_at, undefined_at FROM taskq.template) TO '$rows.template';
COPY (SELECT 2, name, oid, gone FROM taskq.role) TO '$rows.role';
DELETE FROM taskq.template;
DELETE FROM taskq.role;
UPDATE taskq.queue SET owner_role = 2 WHERE owner_role = 1;
UPDATE taskq.task SET submitted_by = 2, run_as = 2;
UPDATE taskq.workflow SET started_by = 2;
UPDATE taskq.transition SET role_id = 2;
UPDATE taskq.change_log SET role_id = 2;
COPY taskq.role (role_id, name, oid, gone) FROM '$rows.role';
COPY taskq.template (template_id, namespace, name, version, definition, defined_by, defined_at, undefined_at)
    FROM '$rows.template';
COMMIT;
SQL
	# without preloading a COPY is not noticed
	is($session->query_safe("SELECT step FROM taskq.tasks WHERE step IS NOT NULL"), 'loaded', "$what: a definition that was loaded")
	  if $what eq 'preloaded';
	$node->safe_psql($name, 'SELECT taskq_activate()');
	$session->query_safe("SELECT taskq_start_workflow('w'), taskq_submit('q')");
	is($session->query_safe("SELECT string_agg(step, ',' ORDER BY task_id) FROM taskq.tasks WHERE step IS NOT NULL"),
		'loaded,loaded', "$what: after the copy is activated");
	is($session->query_safe("SELECT string_agg(DISTINCT coalesce(submitted_by, '-'), ',') FROM taskq.tasks"),
		'postgres', "$what: the number of a role that was loaded");
	$session->quit;
	sound($node, database => $name);
	$node->safe_psql('postgres', "DROP DATABASE $name WITH (FORCE)");
	return;
}

# open_in(DATABASE, COMMAND): a new database with the extension, a function that
# returns the SQLSTATE of a statement, and a session that stays.
sub open_in
{
	my ($database, $create) = @_;

	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$node->safe_psql($database, <<SQL);
$create;
CREATE FUNCTION code_of(statement text) RETURNS text LANGUAGE plpgsql AS
\$\$ BEGIN EXECUTE statement; RETURN ''; EXCEPTION WHEN OTHERS THEN RETURN SQLSTATE; END \$\$;
SQL
	return open_session($node, $database);
}

$node->stop('fast');
done_testing();

# Rights are right after roles are renamed, dropped, created again with the same
# name or number, and dumped and restored. Plans, statistics and sequences
# reveal nothing.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqRights;
use TaskqTest;

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my %settings = ('fsync' => 'off', 'client_min_messages' => 'notice', 'taskq.reaper_interval' => "'1 h'", 'taskq.retention_interval' => "'1 d'",
	'taskq.stale_threshold' => "'1 h'", 'taskq.dead_threshold' => "'2 h'");
my $node = start_node('source', %settings);
my $m = read_matrix();
my $sql = sub { $node->safe_psql('rights', join ";\n", @_) };
my $as = sub { my ($role, $text) = @_; error_of($node, "SET ROLE $role; $text", 'rights') };

make_extension($node, 'rights', $m);
fill_queues($node, 'rights', $m);

# Which existing roles have EXECUTE on what, and rights on which queues.
my $rights = <<'SQL';
SELECT r.rolname, p.proname FROM pg_roles r, pg_proc p
 WHERE p.proname LIKE 'taskq\_%' AND NOT r.rolsuper AND r.rolname !~ 'pg_|ext|shifts' AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
 UNION ALL
SELECT q.name, concat_ws(' ', coalesce(o.rolname, 'of one gone'), coalesce(a.rolname, CASE WHEN g.role_id = 0 THEN 'public' ELSE 'of one gone' END), g.rights)
  FROM taskq.queue_grant g LEFT JOIN taskq.queue q USING (queue_id)
  LEFT JOIN taskq.known_role k ON k.role_id = g.role_id LEFT JOIN pg_roles a ON a.oid = k.oid
  LEFT JOIN taskq.known_role w ON w.role_id = q.owner_role LEFT JOIN pg_roles o ON o.oid = w.oid
 ORDER BY 1, 2
SQL

# --- dump and restore, into a cluster that gives roles other numbers
my $before = $sql->($rights);
cmp_ok(() = $before =~ /\n/g, '>', 200, 'there are rights to be dumped');
command_ok([ 'pg_dumpall', '-d', $node->connstr('postgres'), '--roles-only', '-f', "$dir/roles.sql" ], 'pg_dumpall --roles-only');
command_ok([ 'pg_dump', '-d', $node->connstr('rights'), '-f', "$dir/rights.sql" ], 'pg_dump');
my $copy = start_node('copy', %settings);
$copy->safe_psql('postgres', 'CREATE ROLE shifts_the_numbers; CREATE ROLE shifts_them_more; CREATE DATABASE rights');
append_to_file("$dir/known.sql", join '', grep { !/^(?:CREATE|ALTER) ROLE postgres\b/ } map { "$_\n" } split /\n/, slurp_file("$dir/roles.sql"));
for my $file ([ 'known.sql', 'postgres' ], [ 'rights.sql', 'rights' ])
{
	command_ok([ 'psql', '-X', '-q', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-d', $copy->connstr($file->[1]), '-f', "$dir/$file->[0]" ],
		"$file->[0] is restored");
}
isnt($copy->safe_psql('rights', "SELECT oid FROM pg_roles WHERE rolname = 'work_q1'"),
	$sql->("SELECT oid FROM pg_roles WHERE rolname = 'work_q1'"), 'a role has another number there');
$copy->safe_psql('rights', 'SELECT taskq_activate()');
is($copy->safe_psql('rights', $rights), $before, 'activated, rights are the same');
# the extension and the rights of its queues belong to the role that restores it
my @others = grep { $_->[1] ne 'ext' } roles_of($m);
my @cells = run_calls($copy, 'rights', $m, @others);
is(join("\n", map { "$_->{name} $_->{role} $_->{object}: $_->{code}, not $_->{expected}" } grep { $_->{code} ne $_->{expected} } @cells), '',
	'every call does what it did in the source');
my @views = run_views($copy, 'rights', $m, @others);
is(join("\n", map { "$_->{name} $_->{role}" } grep { $_->{got} ne $_->{wanted} } @views), '', 'every view shows what it did in the source');
sound($copy, database => 'rights');
$copy->stop('fast');

# --- a renamed role keeps its rights, its queue and its worker
$sql->('ALTER ROLE work_q1 RENAME TO worked_q1', 'ALTER ROLE owner_q1 RENAME TO owned_q1');
is($as->('worked_q1', "SELECT taskq_claim('q1')"), '', 'a renamed role keeps its rights');
is($as->('worked_q1', "SELECT taskq_heartbeat('worker of work_q1')"), '', 'it keeps its worker');
is($as->('heir_of_work', "SELECT taskq_claim('q1')"), '', 'its members keep their rights');
$sql->('CREATE ROLE work_q1');
is($as->('work_q1', "SELECT taskq_claim('q1')"), '42501', 'a new role of its old name has none');
is($as->('work_q1', 'SELECT 1/count(*) FROM taskq.workers'), '22012', 'the new role does not own the worker');
is($as->('owner_granted', "SELECT taskq_complete(task_id, token) FROM m.task"), '42501', 'tables of a test give no access to functions');
is($sql->("SET ROLE owned_q1; SELECT DISTINCT queue FROM taskq.tasks"), 'q1', 'a renamed owner still owns its queue');
$sql->('SELECT taskq_run_reapers()');
is($sql->("SELECT owner FROM taskq.queues WHERE queue = 'q1'"), 'owned_q1', 'the owner is shown under its new name');
is($sql->("SELECT role FROM taskq.workers WHERE worker = 'worker of work_q1'"), 'worked_q1', 'so is the role of a worker');
is($as->('work_q1', "SELECT taskq_claim('q1')"), '42501', 'a new role of the old name still has no right');

# --- dropping a role: EXECUTE prevents it
$sql->("SELECT taskq_grant(q, 'mixed', '{read}') FROM unnest(ARRAY['q1', 'q2', '*']) q");
$sql->("SET ROLE mixed; SELECT taskq_submit('q3', '\"of mixed\"')");
my ($rc, $out, $err) = $node->psql('rights', 'DROP ROLE mixed');
like($err, qr/role "mixed" cannot be dropped because some objects depend on it.*privileges for function taskq_get\(/s,
	'EXECUTE stands in the way of DROP ROLE');
unlike($err, qr/secret|mark of/, 'the error says nothing about queues');
$sql->("SELECT taskq_revoke(q, 'mixed', '{submit,work,read,manage}') FROM unnest(ARRAY['q1', 'q2', 'q3', '*']) q");
is($node->psql('rights', 'BEGIN; DROP ROLE mixed; ROLLBACK'), 0, 'after the revoke it can be dropped');
$sql->("SELECT taskq_grant(q, 'mixed', '{submit,work,read,manage}') FROM unnest(ARRAY['q1', '*']) q");
$sql->('DROP OWNED BY mixed');
is($as->('mixed', "SELECT taskq_get(1)"), '42501', 'DROP OWNED takes EXECUTE');
my $oid = $sql->("SELECT oid FROM pg_roles WHERE rolname = 'mixed'");
$sql->('DROP ROLE mixed');

# --- a later role with the same name, before and after the background worker
# has noticed
my $nothing = sub {
	my ($when) = @_;

	# with every EXECUTE that can be granted
	$sql->("SELECT taskq_create_queue('other', if_not_exists => true)",
		"SELECT taskq_grant('other', 'mixed', '{submit,work,read,manage}')");
	is($as->('mixed', $_), '42501', "$when: not $_")
	  for "SELECT taskq_claim('q1')", "SELECT taskq_submit('q2')", "SELECT taskq_list('q1')", "SELECT taskq_alter_queue('q1', '{}')",
	  "SELECT taskq_check()", "SELECT taskq_heartbeat('worker of mixed')", "SELECT taskq_claim('other', 'worker of mixed')";
	is($as->('mixed', "SELECT taskq_get(task_id) FROM (SELECT " . $sql->("SELECT task_id FROM m.task WHERE queue = 'q1' LIMIT 1") . " AS task_id) t"),
		'TQ002', "$when: no task");
	is($sql->('SET ROLE mixed; SELECT (SELECT count(*) FROM taskq.tasks) + (SELECT count(*) FROM taskq.workers) + (SELECT count(*) FROM taskq.history)'),
		'0', "$when: no row");
	$sql->("SELECT taskq_revoke('other', 'mixed', '{submit,work,read,manage}')");
};
$sql->('CREATE ROLE mixed');
is($sql->('SET ROLE mixed; SELECT (SELECT count(*) FROM taskq.tasks) + (SELECT count(*) FROM taskq.workers)'), '0', 'the same name: no row');
# before the new role has any right, and so a row of its own
$sql->('SELECT taskq_activate()');
$nothing->('taskq_activate() is called by mistake');
$sql->('SELECT taskq_run_reapers()');
$nothing->('noticed');
$sql->('DROP ROLE mixed', 'CREATE ROLE mixed', 'SET allow_system_table_mods = on', "UPDATE pg_authid SET oid = $oid WHERE rolname = 'mixed'");
$nothing->('the same name and number');
is($sql->("SET ROLE mixed; SELECT count(*) FROM taskq.queues"), '0', 'the new role owns no queue');

# --- the rows that a dropped role leaves
is($sql->("SELECT submitted_by, run_as FROM taskq.tasks WHERE payload = '\"of mixed\"'"), 'mixed|mixed', 'the tasks of a dropped role show who submitted them');
is($sql->("SELECT role FROM taskq.workers WHERE worker = 'worker of mixed'"), 'mixed', 'the worker of a dropped role is shown');
is($as->('work_all', "SELECT taskq_register('worker of mixed')"), '42501', 'its name is not free');
$sql->("SELECT taskq_grant('*', 'manage_all', '{work}')");
is($as->('manage_all', "SELECT taskq_deregister('worker of mixed')"), '', 'it is free for a role that manages all queues');
is($as->('work_all', "SELECT taskq_register('worker of mixed')"), '', 'then it is free');
$sql->('DROP OWNED BY owned_q1', 'DROP ROLE owned_q1', 'SELECT taskq_run_reapers()');
is($sql->("SELECT owner FROM taskq.queues WHERE queue = 'q1'"), 'owned_q1', 'the queue shows who owned it');
is($sql->('SET ROLE owner_granted; SELECT DISTINCT queue FROM taskq.tasks'), 'q3', 'members of the dropped role have lost the queue');
is($as->('manage_all', "SELECT taskq_alter_queue('q1', '{\"priority\": 2}')"), '', 'a role that manages all queues still manages it');
$sql->('CREATE ROLE owned_q1');
is($sql->('SET ROLE owned_q1; SELECT count(*) FROM taskq.queues'), '0', 'a new role of that name owns nothing');

# --- pg_monitor, and the owner, keep what CREATE EXTENSION gave them
$before = $sql->("SELECT proname, proacl FROM pg_proc WHERE proname LIKE 'taskq\\_%' ORDER BY 1");
$sql->("SELECT taskq_grant('q1', r, '{submit,work,read,manage}'), taskq_revoke('q1', r, '{submit,work,read,manage}') FROM unnest(ARRAY['pg_monitor', 'ext_owner']) r");
is($sql->("SELECT proname FROM pg_proc WHERE proname LIKE 'taskq\\_%' AND NOT has_function_privilege('ext_owner', oid, 'EXECUTE')"), '',
	'revoking leaves the owner EXECUTE');
is($sql->("SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE proname ~ '^taskq_(get|get_many|list|lineage|explain|explain_claim|health)\$'"
	  . " AND NOT has_function_privilege('pg_monitor', oid, 'EXECUTE')"), '', 'the members of pg_monitor keep EXECUTE, too');
$sql->("SELECT taskq_grant('q1', 'guest', '{work,read}'), taskq_revoke('q1', 'guest', '{read}')");
is($as->('guest', "SELECT taskq_explain_claim('q1')"), '', 'a function that two rights allow stays with one of them');
$sql->("SELECT taskq_revoke('q1', 'guest', '{work}')");
is($sql->("SELECT proname FROM pg_proc WHERE proname LIKE 'taskq\\_%' AND has_function_privilege('guest', oid, 'EXECUTE')"), 'taskq_version',
	'it is revoked with the last one');

# --- plans and conditions: a function that reveals its arguments
$sql->(<<'SQL');
CREATE FUNCTION m.leak(anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS $$BEGIN RAISE NOTICE 'told %', $1; RETURN true; END$$;
CREATE OPERATOR public.<<< (FUNCTION = m.leak, RIGHTARG = anyelement);
GRANT USAGE ON SCHEMA m TO PUBLIC;
ANALYZE;
SQL
for my $view (grep { $_ ne 'settings' } sort keys %{ $m->{views} })
{
	my %told;

	for my $role ('guest', 'submit_q1', 'manage_q1', 'rights_q2', 'monitor')
	{
		my @masked = map { "SELECT count(*) FROM taskq.$view WHERE m.leak(${_}::text)" } @{ $m->{masked}{$view} // [] };
		for my $text ("SELECT count(*) FROM taskq.$view v WHERE m.leak(v::text)",
			"SELECT count(*) FROM taskq.$view v WHERE <<< v::text",
			"SELECT count(*) FROM taskq.$view v JOIN (VALUES (1)) o (n) ON m.leak(v::text || n)",
			"SELECT count(*) FROM (SELECT v, m.leak(v::text) FROM taskq.$view v OFFSET 0) s",
			"EXPLAIN (ANALYZE, VERBOSE) SELECT * FROM taskq.$view v WHERE m.leak(v::text)", @masked)
		{
			my ($rc, $out, $err) = $node->psql('rights', "SET ROLE $role; SET jit = off; $text");
			my @allowed = $role eq 'monitor' ? () : $role eq 'rights_q2' ? 'q2' : ();

			$told{"$role: error $err"}++ if $rc != 0;
			for my $queue ('q1', 'q2', 'q3')
			{
				next if grep { $_ eq $queue } @allowed;
				my $hex = unpack 'H*', "secret of $queue";
				$told{"$role: secret of $queue by $text"}++ if "$out$err" =~ /secret of $queue|$hex/;
				$told{"$role: mark of $queue by $text"}++ if $role ne 'monitor' && "$out$err" =~ /mark of $queue/;
			}
		}
	}
	is(join("\n", sort keys %told), '', "view $view: conditions and plans reveal nothing");
}
my ($code, $said, $notices) = $node->psql('rights', 'SET ROLE read_all; SELECT count(*) FROM taskq.tasks WHERE m.leak(payload::text)');
like($notices, qr/secret of q1/, 'the function does reveal its argument');

# estimates do not come from statistics of rows that the views hide
my %guess;
for my $text ("SELECT * FROM taskq.history WHERE message = 'secret of q1'", "SELECT * FROM taskq.history WHERE message = 'nothing like it'",
	"SELECT * FROM taskq.tasks WHERE correlation_id = 'mark of q1'", "SELECT * FROM taskq.tasks WHERE correlation_id = 'unknown'",
	"SELECT * FROM taskq.workers WHERE worker = 'worker of root'", "SELECT * FROM taskq.workers WHERE worker = 'unknown'")
{
	my ($view, $rows) = ($text =~ /taskq\.(\w+)/, $sql->("SET ROLE guest; EXPLAIN $text") =~ /rows=(\d+)/);
	$guess{$view}{$rows} = 1;
}
is(join(' ', map { scalar keys %{ $guess{$_} } } sort keys %guess), '1 1 1', 'estimates are the same for existing and missing tasks');
is($sql->("SET ROLE guest; SELECT count(*) FROM pg_stats WHERE schemaname = 'taskq'"), '0', 'pg_stats shows nothing');
is($sql->("SET ROLE guest; SELECT count(last_value) FROM pg_sequences WHERE schemaname = 'taskq'"), '0', 'pg_sequences shows nothing');
is($as->('guest', "SELECT pg_sequence_last_value('taskq.task_id_seq')"), '42501', 'its function shows nothing');
is($as->('guest', 'SELECT currval(\'taskq.task_id_seq\')'), '42501', 'currval shows nothing');
is($sql->('SELECT count(*) FROM pg_largeobject_metadata'), '0', 'there are no large objects');

# the functions that the views call, called directly
my ($id, $token) = split /\|/, $sql->("SELECT task_id, token FROM m.task WHERE queue = 'q1' AND what = 'running'");
$sql->("SELECT taskq_progress($id, $token, 0.5, 'secret of q1')");
my $look = "SELECT concat_ws(' ', progress, message) FROM taskq.task_progress($id, $token)";
is($sql->("SET ROLE $_; $look"), '', "task_progress tells $_ nothing") for 'guest', 'manage_q1', 'rights_q2';
is($sql->("SET ROLE monitor; $look"), '0.5', 'a monitor how far it is');
is($sql->("SET ROLE read_q1; $look"), '0.5 secret of q1', 'a reader sees everything');
my ($queue) = $sql->("SELECT queue_id FROM taskq.queue WHERE name = 'q1'");
is($sql->("SET ROLE guest; SELECT num_nonnulls(VARIADIC ARRAY[(n).pending, (n).done, (n).dead]) FROM taskq.queue_numbers($queue) n"), '0',
	'queue_numbers shows nothing to a role without rights');
my $worker = $sql->("SELECT worker_id FROM taskq.worker WHERE name = 'worker of root'");
is($sql->("SET ROLE guest; SELECT num_nonnulls(taskq.worker_seen($worker), taskq.worker_running($worker))"), '0', 'worker_seen and worker_running show nothing, either');
is($sql->("SET ROLE manage_all; SELECT num_nonnulls(taskq.worker_seen($worker), taskq.worker_running($worker))"), '2', 'a role that manages all queues sees everything');

sound($node, database => 'rights');
$node->stop('fast');
done_testing();

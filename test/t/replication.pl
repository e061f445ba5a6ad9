# All tables are replicated logically. Rows that are written below the executor
# can be decoded, a publication breaks no call, and replicas have the same rows
# and run no duties. One replica takes over.
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

my $publisher = start_node('publisher', init => { allows_streaming => 'logical' }, 'fsync' => 'off',
	'max_wal_senders' => 20, 'max_replication_slots' => 20, 'taskq.retention_interval' => "'1 s'");
my $replica = start_node('replica', 'fsync' => 'off', 'max_logical_replication_workers' => 10,
	'max_sync_workers_per_subscription' => 4, 'max_worker_processes' => 24, 'max_replication_slots' => 30,
	'taskq.reaper_interval' => "'100 ms'", 'taskq.deadline_interval' => "'100 ms'", 'taskq.retention_interval' => "'1 s'");
my $sql = sub { $publisher->safe_psql('postgres', $_[0]) };
# Decoding reads what is on disk.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});

is($sql->(<<'SQL'), '', 'every table with columns has a replica identity');
SELECT c.relname FROM pg_class c
 WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'r' AND c.relnatts > 0
   AND NOT (c.relreplident = 'd' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate))
SQL

# --- each change of a task can be decoded
$sql->('CREATE PUBLICATION everything FOR ALL TABLES');
$sql->("SELECT FROM pg_create_logical_replication_slot('decoded', 'test_decoding')");

sub decoded
{
	my @lines = split /\n/, $sql->("SELECT data FROM pg_logical_slot_get_changes('decoded', NULL, NULL, 'include-xids', '0')");
	my @out;

	for (@lines)
	{
		# not archive_rotation, which the background worker writes when it
		# starts
		next unless /^table taskq\.(task|archive_(?:\d+|keep)|large): (\w+): (.*)$/;
		my ($table, $what, $columns) = ($1, $2, $3);
		my %c = $columns =~ /(?:^| )(task_id|state|token|attempt|part)\[\w+\]:(\d+)/g;
		push @out, "$table $what " . join ' ', map { "$_=$c{$_}" } grep { defined $c{$_} } qw(task_id part state token attempt);
	}
	return join "\n", @out;
}

my $id = $sql->("SELECT taskq_submit('d', reference => 'unique')");
is(decoded(), "task INSERT task_id=$id state=1 token=0 attempt=0", 'a submit is decoded');
isnt(error_of($publisher, "SELECT taskq_submit('d', reference => 'unique')"), '', 'the reference is taken');
$sql->("BEGIN; SAVEPOINT s; SELECT FROM taskq_claim('d'); ROLLBACK TO s; COMMIT");
is(decoded(), '', 'nothing that failed or was rolled back is decoded');
my $claimed = $sql->("SELECT token FROM taskq_claim('d')");
is(decoded(), "task UPDATE task_id=$id state=3 token=$claimed attempt=1", 'a claim is decoded');
$sql->("SELECT taskq_extend($id, $claimed, '3 h')");
is(decoded(), "task UPDATE task_id=$id state=3 token=$claimed attempt=1", 'an extension of a lease is decoded');
$sql->("SELECT taskq_complete($id, $claimed, to_jsonb(repeat('r', 5000)))");
is(join("\n", sort split /\n/, decoded()),
	"archive_00 INSERT task_id=$id state=5 token=$claimed attempt=1\nlarge INSERT task_id=$id part=3\ntask DELETE task_id=$id",
	'a completion is decoded');
$sql->("SELECT taskq_retry($id)");
is(join("\n", sort grep { !/large/ } split /\n/, decoded()),
	"archive_00 DELETE task_id=$id\ntask INSERT task_id=$id state=1 token=$claimed attempt=0", 'a retry is decoded');
$sql->("SELECT pg_drop_replication_slot('decoded')");

# --- two replicas: one with the extension, one with only the tables
$sql->('CREATE ROLE ' . $_) for role_names();
fill($publisher, 'postgres');
my $effect = 'CREATE TABLE effect (task_id bigint PRIMARY KEY)';
$sql->($effect);
$replica->safe_psql('postgres', 'CREATE DATABASE bare');
$replica->safe_psql($_, $effect) for 'postgres', 'bare';
$replica->safe_psql('postgres', 'UPDATE taskq.instance SET database_oid = 0');
ok(within(40, sub { worker_pid($replica) ne '' ? $replica->reload && 0 : 1 }), 'a database that is marked as a copy has no worker');
$replica->safe_psql('postgres', 'TRUNCATE taskq.function_right, taskq.finished_leaf, taskq.finished_count');
$replica->safe_psql('bare', 'CREATE SCHEMA taskq;' . $sql->(<<'SQL'));
SELECT format('CREATE TABLE taskq.%I (%s%s);', c.relname,
              string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum),
              (SELECT ', ' || pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'))
  FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'r'
 GROUP BY c.oid, c.relname
SQL
my $connection = $publisher->connstr . ' dbname=postgres';
$replica->safe_psql('postgres', "CREATE SUBSCRIPTION with_extension CONNECTION '$connection' PUBLICATION everything");
$replica->safe_psql('bare', "CREATE SUBSCRIPTION without CONNECTION '$connection' PUBLICATION everything");
$replica->wait_for_subscription_sync($publisher, 'with_extension', 'postgres');
$replica->wait_for_subscription_sync($publisher, 'without', 'bare');

# Both replicas have the publisher's rows; the archive is replicated by leaf.
sub same
{
	my ($words) = @_;
	my $contents;

	$publisher->wait_for_catchup($_) for 'with_extension', 'without';
	$contents = contents($publisher, 'postgres');
	is(contents($replica, 'postgres'), $contents, "with extension: $words");
	is(contents($replica, 'bare'), $contents, "tables alone: $words");
	return;
}
same('the rows from before');

# --- work continues, and is replicated
my $clients = start_clients($publisher, 4, "\\set VERBOSITY sqlstate\n" . <<'SQL' x 50);
SELECT taskq_submit('flow', to_jsonb(repeat('z', 3000))) \g /dev/null
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('flow') \gset
\if :{?c_task_id}
BEGIN;
INSERT INTO effect SELECT :c_task_id FROM taskq_complete(:c_task_id, :c_token, '{"a": 1}');
COMMIT;
\endif
\unset c_task_id
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('q') \gset
\if :{?c_task_id}
SELECT taskq_release(:c_task_id, :c_token) \g /dev/null
\endif
\unset c_task_id
SQL
ok(within(40, sub { $sql->('SELECT count(*) > 500 FROM effect') eq 't' }), 'clients work');
end_clients($clients);
my %errors = errors_of($clients);
is(join(' ', %errors), '', 'the clients meet no error');
$sql->("SELECT taskq_retry(task_id), taskq_cancel(task_id) FROM (SELECT task_id FROM taskq.tasks WHERE queue = 'flow' AND state = 'done' LIMIT 20) t");
$sql->("SELECT taskq_purge('finished', '{filtered}')");
$sql->("SELECT taskq_drop_queue('paused', true)");
same('the work of clients and managers');

# --- a leaf is truncated
is($replica->safe_psql('postgres', 'SELECT count(*) > 0 FROM taskq.archive_03'), 't', 'a leaf has rows');
$sql->("UPDATE taskq.archive_03 SET finished_at = now() - interval '30 d'; UPDATE taskq.transition_03 SET at = now() - interval '30 d'");
ok(within(40, sub { $sql->('SELECT count(*) FROM taskq.archive_03') eq '0' }), 'the publisher empties it');
ok(within(40, sub { $replica->safe_psql($_, 'SELECT count(*) FROM taskq.archive_03') eq '0' }), "$_ empties it, too")
  for 'postgres', 'bare';

# --- the replica is inactive: tasks that became due on the publisher just
# before it was stopped are not processed there
$publisher->safe_psql('postgres', 'UPDATE taskq.instance SET database_oid = 0');
ok(within(70, sub { $publisher->reload; worker_pid($publisher) eq '' }), 'the publisher is inactive, too');
$sql->("UPDATE taskq.task SET lease_until = now() - interval '1 s' WHERE state = 3 AND lease_until < 'infinity'");
$sql->("UPDATE taskq.archive_keep SET expires_at = now() - interval '1 s' WHERE expires_at < 'infinity'");
same('leases have expired');
$publisher->stop('fast');
my $before = contents($replica, 'postgres');
ok(stays(20, sub { contents($replica, 'postgres') eq $before }), 'nothing happens in the replica');
is(worker_pid($replica), '', 'it has no background worker');

# --- the replica takes over
my $highest = $replica->safe_psql('postgres', 'SELECT max(task_id) FROM taskq.tasks');
$replica->safe_psql('postgres', $_)
  for 'ALTER SUBSCRIPTION with_extension DISABLE', 'ALTER SUBSCRIPTION with_extension SET (slot_name = NONE)',
  'DROP SUBSCRIPTION with_extension', 'SELECT taskq_activate()';
ok(within(40, sub { worker_pid($replica) ne '' }), 'activated, it has a background worker');
ok(within(40, sub { $replica->safe_psql('postgres', "SELECT state FROM taskq.tasks WHERE queue = 'held'") eq 'pending' }),
	'leases expire');
cmp_ok($replica->safe_psql('postgres', "SELECT taskq_submit('new')"), '>', $highest, 'ids continue above the replicated ones');
is(error_of($replica, "SELECT taskq_create_queue('another'), taskq_register('another'), taskq_grant('another', current_user, '{work}'), taskq_submit('another', tags => '{t}')"),
	'', 'all other numbers continue, too');
my ($held, $token) = split /\|/, $replica->safe_psql('postgres', "SELECT task_id, token FROM taskq_claim('held')");
cmp_ok($token, '>', 2**32, 'tokens are far above the replicated ones');
is(error_of($replica, "SELECT taskq_complete($held, $token)"), '', 'tasks can be finished');
sound($replica);
amcheck($replica);
$replica->stop('fast');
unlike(slurp_file($publisher->logfile), qr/replica identity/, 'the publication refused no change');
done_testing();

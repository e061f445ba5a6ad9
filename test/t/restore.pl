# Databases are restored while workers poll. However the rows are loaded, and
# whatever the polling workers have left in shared memory, every task can be
# claimed after taskq_activate(), limits hold and numbers are right. The same
# holds for a transaction that the apply worker of a subscription prepares and
# commits, and for a logical replica that takes over.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $dir = "$PostgreSQL::Test::Utils::tmp_check/restore";
mkdir $dir;
my $node = start_node('node', init => { allows_streaming => 'logical' }, 'fsync' => 'off',
	'max_wal_senders' => 10, 'max_replication_slots' => 10, 'max_logical_replication_workers' => 8,
	'max_worker_processes' => 30, 'max_connections' => 80);
my $in = sub { my ($db, $sql) = @_; $node->safe_psql($db, $sql) };

# --- the contents to be restored
my $fill = <<'SQL';
SELECT taskq_create_queue('q');
SELECT taskq_create_queue('m', '{"max_running": 2, "max_depth": 10}');
SELECT taskq_create_queue('k', '{"key_policy": "serial"}');
SELECT taskq_submit('q', priority => n % 3, tags => CASE WHEN n % 2 = 0 THEN '{a}'::text[] END) FROM generate_series(1, 60) n;
SELECT taskq_submit('m') FROM generate_series(1, 8);
SELECT FROM taskq_claim('m', max_tasks => 2, lease => '1 h');
SELECT taskq_submit('k', key => 'k' || n % 3) FROM generate_series(1, 9) n;
SQL
my $queues = 'SELECT queue, pending, running, blocked FROM taskq.queues ORDER BY queue';
my $as_filled = "k|3|0|6\nm|6|2|0\nq|60|0|0";
$in->('postgres', 'CREATE DATABASE source');
$in->('source', "CREATE EXTENSION taskq;\n$fill");
is($in->('source', $queues), $as_filled, 'the source');
for (['plain.sql'], ['inserts.sql', '--inserts'], ['custom', '-Fc'], ['directory', '-Fd'], ['data', '-Fc', '--data-only'], ['clean.sql', '--clean'])
{
	my ($file, @options) = @$_;
	command_ok([ 'pg_dump', '-d', $node->connstr('source'), '-f', "$dir/$file", @options ], "pg_dump $file");
}

# Poll as a worker of other queues does, without taking a task: this leaves
# entries in shared memory.
my $look = <<'SQL';
SELECT count(*) FROM taskq_claim('q', tags => '{a}');
SELECT count(*) FROM taskq_claim('m');
SELECT count(*) FROM taskq_claim('k');
SELECT count(*) FROM taskq.queues;
SQL
my $polls = <<'SQL';
BEGIN; SELECT count(*) FROM taskq_claim('q', tags => '{a}'); ROLLBACK;
BEGIN; SELECT count(*) FROM taskq_claim('m'); ROLLBACK;
BEGIN; SELECT count(*) FROM taskq_claim('k'); ROLLBACK;
SELECT count(*) FROM taskq.queues;
SELECT count(*) FROM taskq_claim('none', wait => '100 ms');
SQL

# All tasks can be claimed, each with one call, immediately after the
# activation.
sub complete
{
	my ($database, $name) = @_;

	$in->($database, 'SELECT taskq_activate()');
	is($in->($database, $queues), $as_filled, "$name: the counters match the rows");
	is($in->($database, "SELECT count(*) FROM taskq_claim('q', max_tasks => 100, tags => '{a}')"), 60, "$name: all tasks are claimed");
	is($in->($database, "SELECT count(*) FROM taskq_claim('m', max_tasks => 100)"), 0, "$name: max_running counts the running tasks");
	is(error_of($node, "SELECT taskq_submit('m') FROM generate_series(1, 3)", $database), 'TQ008', "$name: max_depth counts all tasks");
	$in->($database, "SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'm' AND state = 'running'");
	is($in->($database, "SELECT count(*) FROM taskq_claim('m', max_tasks => 100)"), 2, "$name: then other tasks can run");
	for my $turn (1 .. 3)
	{
		is($in->($database, "SELECT count(*) FROM (SELECT taskq_complete(task_id, token) FROM taskq_claim('k', max_tasks => 9)) c"),
			3, "$name: the tasks of keys, turn $turn");
	}
	is($in->($database, 'SELECT problem, detail FROM taskq_check()'), '', "$name: taskq_check finds nothing");
	return;
}

# A command that loads, repeated if it met a deadlock with the polling workers.
sub load
{
	my ($name, @command) = @_;
	my ($out, $err);

	for (1 .. 5)
	{
		($out, $err) = ('', '');
		return pass("$name: restored") if IPC::Run::run(\@command, '>', \$out, '2>', \$err);
		last unless $err =~ /deadlock detected|could not obtain lock|taskq was dropped/;
		note("$name: again: $err");
	}
	return fail("$name: $err");
}

sub psql_of { my ($db, $file, @options) = @_; return ('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', @options, '-d', $node->connstr($db), '-f', "$dir/$file") }
sub restore_of { my ($db, $file, @options) = @_; return ('pg_restore', '--exit-on-error', @options, '-d', $node->connstr($db), "$dir/$file") }

my @kinds = (
	# name, whether the extension is there before, command
	[ 'plain', 0, sub { psql_of($_[0], 'plain.sql') } ],
	[ 'plain_single', 0, sub { psql_of($_[0], 'plain.sql', '--single-transaction') } ],
	[ 'inserts', 0, sub { psql_of($_[0], 'inserts.sql') } ],
	[ 'custom', 0, sub { restore_of($_[0], 'custom') } ],
	[ 'custom_single', 0, sub { restore_of($_[0], 'custom', '--single-transaction') } ],
	[ 'parallel', 1, sub { restore_of($_[0], 'directory', '-j', '4') } ],
	[ 'data_only', 1, sub { restore_of($_[0], 'data', '--data-only') } ],
	[ 'data_single', 1, sub { restore_of($_[0], 'data', '--data-only', '--single-transaction') } ],
	[ 'data_triggers', 1, sub { restore_of($_[0], 'data', '--data-only', '--disable-triggers', '-j', '4') } ],
	[ 'clean', 2, sub { restore_of($_[0], 'custom', '--clean', '--if-exists') } ],
	[ 'clean_single', 2, sub { restore_of($_[0], 'custom', '--clean', '--if-exists', '--single-transaction') } ],
	[ 'clean_sql', 2, sub { psql_of($_[0], 'clean.sql') } ]);

for (@kinds)
{
	my ($name, $before, $command) = @$_;

	$in->('postgres', "CREATE DATABASE $name");
	$in->($name, 'CREATE EXTENSION taskq') if $before;
	$in->($name, $fill) if $before == 2;
	my $clients = start_clients($node, 2, "\\connect $name\n" . $polls x 20);
	within(0.5, sub { 0 });
	load($name, $command->($name));
	within(0.3, sub { 0 });
	end_clients($clients);
	complete($name, $name);
}

# --- by list: everything but the rows of tasks, a check of each queue, then
# the rest
for my $name ('by_list', 'by_list_single')
{
	my @options = $name eq 'by_list' ? () : ('--single-transaction');
	my ($list, @lines);

	IPC::Run::run([ 'pg_restore', '-l', "$dir/custom" ], '>', \$list);
	@lines = split /\n/, $list;
	my ($task) = grep { $lines[$_] =~ /TABLE DATA taskq task / } 0 .. $#lines;
	$in->('postgres', "CREATE DATABASE $name");
	append_to_file("$dir/$name.1", join "\n", @lines[ 0 .. $task - 1 ], '');
	append_to_file("$dir/$name.2", join "\n", @lines[ $task .. $#lines ], '');
	load($name, restore_of($name, 'custom', '-L', "$dir/$name.1", @options));
	$in->($name, $look);
	load($name, restore_of($name, 'custom', '-L', "$dir/$name.2", @options));
	complete($name, $name);
}

# --- COPY by its short name, in a transaction that is prepared
$in->('postgres', 'CREATE DATABASE copied');
load('copied', restore_of('copied', 'custom', '-L', "$dir/by_list.1"));
$in->('copied', $look);
$in->('source', "COPY taskq.task TO '$dir/rows'");
$in->('copied', "SELECT taskq_activate(); BEGIN; SET search_path = taskq, pg_catalog, public; COPY task FROM '$dir/rows'; PREPARE TRANSACTION 'rows'");
$in->('copied', $look);
$in->('copied', "COMMIT PREPARED 'rows'");
is($in->('copied', 'SELECT count(*) FROM taskq.instance WHERE database_oid = 0'), 1, 'COPY by a short name makes a copy, too');
complete('copied', 'copied');

# --- taskq_check finds a task that claims do not see
my $hidden = $in->('copied', "SELECT taskq_submit('hidden')");
$in->('copied', "SELECT taskq.debug_dead($hidden)");
is($in->('copied', 'SELECT problem, detail FROM taskq_check()'), "claims skip a pending task|task $hidden", 'a hidden task is found');
# before the background worker finds it, too, and logs a bug
$in->('copied', 'DROP EXTENSION taskq CASCADE');

# --- an apply worker that prepares and commits
$in->('postgres', 'CREATE DATABASE feeds');
$in->('postgres', 'CREATE DATABASE fed');
my $table = 'CREATE TABLE feed (n integer PRIMARY KEY)';
$in->('feeds', $table);
$in->('fed', <<"SQL");
CREATE EXTENSION taskq;
$table;
CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.taskq_submit(\$\$q\$\$, priority => NEW.n); RETURN NULL; END';
CREATE TRIGGER takes AFTER INSERT ON feed FOR EACH ROW EXECUTE FUNCTION take();
ALTER TABLE feed ENABLE ALWAYS TRIGGER takes;
SQL
$in->('feeds', 'CREATE PUBLICATION p FOR TABLE feed');
$in->('feeds', "SELECT pg_create_logical_replication_slot('s', 'pgoutput', false, true)");
my $connection = $node->connstr . ' dbname=feeds';
$in->('fed', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p WITH (two_phase = true, create_slot = false, copy_data = false)");
my $claim = "SELECT count(*) FROM taskq_claim('q')";
ok(within(60, sub { $in->('fed', "SELECT subtwophasestate FROM pg_subscription WHERE subname = 's'") eq 'e' }), 'two phases are enabled');
my $prepared = "SELECT count(*) FROM pg_prepared_xacts WHERE database = 'fed'";
$in->('feeds', 'INSERT INTO feed VALUES (100)');
ok(within(60, sub { $in->('fed', $claim) eq '1' }), 'a task of the apply worker');
for my $n (1 .. 3)
{
	$in->('feeds', "BEGIN; INSERT INTO feed VALUES ($n); PREPARE TRANSACTION 'feed $n'");
	ok(within(60, sub { $in->('postgres', $prepared) eq '1' }), "is prepared: $n");
	is($in->('fed', $claim), '0', 'a claim does not get it yet');
	is($in->('fed', "SELECT count(*) FROM taskq.queues WHERE pending > 0"), '0', 'the counters do not include it');
	$in->('feeds', "COMMIT PREPARED 'feed $n'");
	ok(within(60, sub { $in->('postgres', $prepared) eq '0' }), 'is committed');
	ok(within(10, sub { $in->('fed', $claim) eq '1' }), 'a claim gets it');
}
is($in->('fed', 'SELECT problem, detail FROM taskq_check()'), '', 'taskq_check finds nothing');
$in->('fed', $_) for 'ALTER SUBSCRIPTION s DISABLE', 'ALTER SUBSCRIPTION s SET (slot_name = NONE)', 'DROP SUBSCRIPTION s';
ok(within(60, sub { $in->('feeds', "SELECT pg_drop_replication_slot('s')"); 1 }), 'the slot is dropped');

# --- a logical replica that takes over
$in->('postgres', 'CREATE DATABASE replica');
$in->('replica', 'CREATE EXTENSION taskq');
$in->('replica', 'UPDATE taskq.instance SET database_oid = 0');
ok(within(60, sub { worker_pid($node, 'replica') ne '' ? $node->reload && 0 : 1 }), 'a replica has no background worker');
$in->('replica', 'TRUNCATE taskq.function_right, taskq.finished_leaf, taskq.finished_count');
$in->('postgres', 'CREATE DATABASE published');
$in->('published', 'CREATE EXTENSION taskq');
$in->('published', 'CREATE PUBLICATION everything FOR ALL TABLES');
$in->('published', "SELECT pg_create_logical_replication_slot('r', 'pgoutput')");
$connection = $node->connstr . ' dbname=published';
$in->('replica', "CREATE SUBSCRIPTION r CONNECTION '$connection' PUBLICATION everything WITH (create_slot = false, slot_name = r)");
my $clients = start_clients($node, 2, "\\connect replica\n" . $polls x 20);
ok(within(120, sub { $in->('replica', "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')") eq '0' }), 'the replica has the rows from before');
$in->('published', $fill);
ok(within(60, sub { $in->('replica', 'SELECT count(*) FROM taskq.task') eq '77' }), 'it has the new rows');
ok(within(60, sub { $in->('replica', "SELECT count(*) FROM taskq.task WHERE state = 3") eq '2' }), 'it has the running tasks');
end_clients($clients);
$in->('replica', $_) for 'ALTER SUBSCRIPTION r DISABLE', 'ALTER SUBSCRIPTION r SET (slot_name = NONE)', 'DROP SUBSCRIPTION r';
complete('replica', 'replica');

$node->stop('fast');
unlike(slurp_file($node->logfile), qr/\] XX\w{3} |PANIC/, 'no class XX and no PANIC in the log');
done_testing();

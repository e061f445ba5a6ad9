# The disk is full. Calls that need space get 53100, the server stays alive,
# nothing that was acknowledged is lost, and work continues when there is space
# again.
#
# An ordinary user cannot create a small file system: full_disk.c is loaded into
# the server and lets no file of tables and indexes grow.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my $full = "$dir/disk_is_full";
my $node;
{
	# for the server that start_node starts; the server keeps it
	local $ENV{LD_PRELOAD} = build_c('full_disk', '-shared', '-fPIC', '-ldl');
	local $ENV{FULL_DISK} = $full;
	$node = start_node('disk_full', 'autovacuum' => 'off');
}
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});

$sql->(<<'SQL');
CREATE TABLE outbox (name text PRIMARY KEY);
SELECT taskq_create_queue('q', '{"max_attempts": 3, "retry": "fixed", "retry_base": "0 s", "max_payload": 100000}');
SQL
my @before = map { $sql->("SELECT taskq_submit('q', '{\"n\": $_}', reference => 'before $_')") } 1 .. 20;
my ($task, $token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('q', lease => '1 h')");

# Clients submit tasks, each with a row of their own, and print what was
# acknowledged; payloads that do not compress fill the disk.
my $script = <<'SQL';
\set VERBOSITY sqlstate
SELECT md5(random()::text) AS name \gset
BEGIN;
INSERT INTO outbox VALUES (:'name');
SELECT taskq_submit('q', jsonb_build_object('x', (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 60))), reference => :'name');
COMMIT;
SELECT 'acknowledged', :'name' FROM outbox WHERE name = :'name';
SQL
append_to_file($full, '');
my $clients = start_clients($node, 4, $script x 20);
my $errors = sub { my %e = errors_of($clients); return $e{53100} // 0 };
ok(within(60, sub { $errors->() >= 50 }), 'submits get 53100');
my %first = errors_of($clients);
is(join(' ', sort grep { !/^(53100|25P02)$/ } keys %first), '', 'no other error is raised');
is($sql->('SELECT 1'), '1', 'the server is alive');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE reference LIKE 'before %'"), '20', 'reading works');

# A claim and its end may need space, too, and then get the same error.
my $state = error_of($node, "SELECT taskq_complete($task, $token)");
like($state, qr/^(53100)?$/, 'completing works or gets 53100');
my $known = $sql->("SELECT state FROM taskq_get($task)");
is($known, $state eq '' ? 'done' : 'running', 'a task is done exactly if the call succeeded');
my $claim = error_of($node, "SELECT task_id FROM taskq_claim('q', lease => '1 h') \\g /dev/null");
like($claim, qr/^(53100)?$/, 'claiming works or gets 53100');

# The server crashes with the disk full. It may need space to start again.
$node->stop('immediate');
unlink $full;
{
	local $ENV{LD_PRELOAD} = "$dir/full_disk.program";
	local $ENV{FULL_DISK} = $full;
	$node->start;
}
ok(within(20, sub { worker_pid($node) ne '' }), 'the server recovers from a crash when there is space');
my $more = $errors->();
append_to_file($full, '');
ok(within(60, sub { $errors->() > $more + 20 }), 'the disk is full again');

unlink $full;
my $count = $sql->('SELECT count(*) FROM outbox');
ok(within(30, sub { $sql->('SELECT count(*) FROM outbox') > $count + 100 }), 'submits succeed when there is space again');
end_clients($clients);

my @said = said($clients);
my %acknowledged = map { $_ => 1 } map { /^acknowledged (\w+)$/ } @said;
my $count_said = keys %acknowledged;
note sprintf 'figure: %d submits acknowledged, %d refused', $count_said, $errors->();
cmp_ok($count_said, '>=', 100, 'enough were acknowledged (void otherwise)');
append_to_file("$dir/acknowledged", join '', map { "$_\n" } sort keys %acknowledged);
$sql->("CREATE TABLE acknowledged (name text PRIMARY KEY);\n"
	  . "\\copy acknowledged FROM '$dir/acknowledged'");
is($sql->('SELECT count(*) FROM acknowledged a WHERE NOT EXISTS (SELECT FROM taskq.tasks t WHERE t.reference = a.name)'),
	'0', 'no acknowledged task is lost');
is($sql->("SELECT count(*) FROM outbox o FULL JOIN (SELECT reference FROM taskq.tasks WHERE reference NOT LIKE 'before %') t"
	  . ' ON o.name = t.reference WHERE o.name IS NULL OR t.reference IS NULL'),
	'0', 'a task is there exactly if its row is');
is($sql->("SELECT count(*), count(DISTINCT task_id) FROM taskq.tasks WHERE reference LIKE 'before %'"),
	'20|20', 'tasks from before are there');

# All tasks can be processed.
my $live = q{SELECT sum(pending + running) FROM taskq.queues WHERE queue = 'q'};
is($live && $sql->("SELECT error_code FROM taskq_complete_many(ARRAY[$task], ARRAY[$token])"),
	$state eq '' ? 'TQ001' : '', 'the claim is still valid, unless its task was completed');
$sql->("SELECT count(taskq_release(task_id, token)::text) FROM taskq.tasks WHERE state = 'running'");
ok(within(120, sub {
	$sql->("SELECT count(x.ok) FROM (SELECT array_agg(task_id) AS i, array_agg(token) AS t FROM taskq_claim('q', max_tasks => 2000)) c,"
		  . ' taskq_complete_many(c.i, c.t) AS x');
	return $sql->($live) eq '0';
}), 'all tasks are processed');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'q' AND state <> 'done'"), '0', 'each of them is done');
sound($node);
amcheck($node);
$node->stop('fast');
done_testing();

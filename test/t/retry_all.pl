# One call retries many dead tasks. Its memory does not grow with their number,
# and it can be cancelled.
# LONG=1: a hundred thousand
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $tasks = $ENV{LONG} ? 100_000 : 40_000;
my $MOST_BYTES = 90;    # bytes of memory for each further task
my $node = start_node('retry_all');
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(<<"SQL");
SELECT taskq_create_queue('dead', '{"max_attempts": 1}');
SELECT count(*) FROM taskq_submit_many('dead', array_fill('{"some": "payload"}'::jsonb, ARRAY[$tasks]));
SQL
$sql->("SELECT count(*) FROM (SELECT taskq_fail(task_id, token, 'x') FROM taskq_claim('dead', max_tasks => $tasks / 2)) f") for 1 .. 2;
is($sql->("SELECT count(*) FROM taskq.archive WHERE state = 6"), $tasks, "$tasks tasks are dead");

# --- cancelled in the middle: immediately, and nothing is changed
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_until(qr/begun/, "\\echo begun\nSELECT taskq_retry_all('dead');\n");
ok( within(
		30,
		sub { $sql->("SELECT count(*) FROM pg_locks l WHERE l.pid = $pid AND l.locktype = 'transactionid'") ne '0' }),
	'the call has begun to write');
$sql->("SELECT pg_cancel_backend($pid)");
ok(within(20, sub { $sql->("SELECT state FROM pg_stat_activity WHERE pid = $pid") eq 'idle' }),
	'a cancel ends it');
is($sql->("SELECT count(*) FROM taskq.archive WHERE state = 6"), $tasks, 'nothing was changed');
$session->quit;

# --- memory: the peak of a backend that retries all, compared with one that
# retries 5,000
my $peak = sub {
	my ($call) = @_;
	my $work = $node->background_psql('postgres', timeout => 300);
	my $worker = $work->query_safe('SELECT pg_backend_pid()');
	my $count = $work->query_safe($call);
	my ($kb) = slurp_file("/proc/$worker/status") =~ /^RssAnon:\s+(\d+) kB/m;
	$work->quit;
	return ($count, $kb);
};
my ($some, $some_kb) = $peak->("SELECT taskq_retry_all('dead', max_tasks => 5000)");
is($some, 5000, 'some tasks are retried');
my ($rest, $rest_kb) = $peak->("SELECT taskq_retry_all('dead')");
is($rest, $tasks - 5000, 'the other tasks are retried');
note "figure: memory of the backend after $some tasks $some_kb kB, after $rest $rest_kb kB";
cmp_ok($rest_kb - $some_kb, '<', ($rest - $some) * $MOST_BYTES / 1024, 'many more tasks need no more memory');
is($sql->("SELECT pending FROM taskq.queues WHERE queue = 'dead'"), $tasks, 'all tasks are pending');
is($sql->('SELECT count(*) FROM taskq_check()'), '0', 'nothing is wrong');

sound($node);
$node->stop('fast');
done_testing();

# A worker claims from all queues, but nothing can be claimed from some of them.
# The claim skips these queues with a warning, and the worker gets the tasks of
# all other queues.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('all', 'fsync' => 'off', 'taskq.max_counters' => 16);
my $sql = sub { $node->safe_psql('postgres', shift) };

# claims(N, SQL): makes N claims from all queues in one session; returns the
# warnings and errors.
sub claims
{
	my ($n, $first) = @_;
	my ($rc, $out, $err) = $node->psql('postgres',
		"\\set VERBOSITY sqlstate\n" . ($first // '') . "SELECT queue FROM taskq_claim(NULL, 'all');\n" x $n,
		on_error_stop => 0);
	my @words = $err =~ /(?:WARNING|ERROR):\s+(\w{5})/g;

	return join(' ', (split /\n/, $out), @words);
}

# --- no counter is left for a queue with a limit
$sql->("SELECT taskq_register('all')");
$sql->("SELECT taskq_create_queue('limited' || n, '{\"max_running\": 2}') FROM generate_series(1, 30) n");
$sql->("SELECT taskq_submit('limited' || n) FROM generate_series(1, 30) n");
$sql->(<<'SQL');
DO $$ BEGIN FOR n IN 1..30 LOOP
    BEGIN PERFORM FROM taskq_claim('limited' || n); EXCEPTION WHEN SQLSTATE '53400' THEN END;
END LOOP; END $$;
SELECT count(*) FROM taskq_submit_many('plain', array_fill('{}'::jsonb, ARRAY[6]));
SQL
my $left = $sql->("SELECT count(*) FROM taskq.tasks WHERE queue LIKE 'limited%' AND state = 'pending'");
cmp_ok($left, '>', 5, 'some queues get no counter');
my $got = claims(8);
is(($got =~ s/plain ?//g), 6, 'each claim from all queues gets a task of another queue');
unlike($got, qr/TQ|42|55/, 'such a claim raises no error');
is(join(' ', sort keys %{ { map { $_ => 1 } split / /, $got } }), '53400', 'the warning names the missing counters');
cmp_ok(scalar(split / /, $got), '<=', $left, 'each queue is warned of once, however many claims skip it');
my $one = $sql->("SELECT min(queue) FROM taskq.tasks WHERE queue LIKE 'limited%' AND state = 'pending'");
is(error_of($node, "SELECT FROM taskq_claim('$one')"), '53400', 'a claim that names the queue fails');
is($sql->("SET client_min_messages = error; CALL taskq_wait(NULL, '0 s', NULL, 'all')"), 'f', 'taskq_wait does not report the queue as ready');
$sql->("SELECT count(taskq_drop_queue('limited' || n, true)) FROM generate_series(1, 30) n");

# --- another error, in one queue only
$sql->("SELECT taskq_create_queue('broken'), taskq_create_queue('sound')");
$sql->("SELECT taskq_submit('broken'), taskq_submit('sound'), taskq_submit('sound')");
$sql->("UPDATE taskq.queue SET options = '{\"max_attempts\": \"many\"}' WHERE name = 'broken'; SELECT taskq_alter_queue('sound', '{}')");
like(error_of($node, "SELECT FROM taskq_claim('broken')"), qr/^\w{5}$/, 'claims from one queue fail');
$got = claims(6);
is(($got =~ s/sound ?//g), 2, 'the tasks of the other queues are claimed');
like($got, qr/^(TQ004) \1$/, 'the queue is skipped after one error, with one warning');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE state = 'running' AND queue = 'sound'"), 2, 'what was claimed is kept');
$sql->("UPDATE taskq.queue SET options = '{}' WHERE name = 'broken'; SELECT taskq_alter_queue('sound', '{}')");
is(claims(2), 'broken', 'the queue is served again when the error is gone');
sound($node);

# --- without preloading, limits cannot be kept
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
$sql->("SELECT taskq_create_queue('unlimited')");
$sql->("UPDATE taskq.queue SET options = '{\"max_running\": 2}' WHERE name = 'sound'; SELECT taskq_alter_queue('unlimited', '{}')");
$sql->("SELECT taskq_submit('sound'), taskq_submit('unlimited')");
is(error_of($node, "SELECT FROM taskq_claim('sound')"), '55000', 'a limit needs preloading');
is(claims(3), 'unlimited 55000', 'without preloading, a queue with a limit is skipped');
$node->stop('fast');
done_testing();

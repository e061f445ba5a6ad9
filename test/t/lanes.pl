# Sets of tags without a live task do not count towards taskq.max_lanes and are
# removed. No task is lost when its set is removed: a task of a producer that
# knows the set from before, of an open transaction, or a task that is retried.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $LONG = 45;    # seconds: far more than it takes
my $node = start_node('lanes', 'fsync' => 'off', 'taskq.max_lanes' => 20, 'taskq.retention_interval' => "'1h'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $lanes = sub { $sql->("SELECT count(DISTINCT lane_id) FROM taskq.lane JOIN taskq.queue USING (queue_id) WHERE name = '$_[0]'") };

sub submit { my ($tag, $queue) = @_; $queue //= 'q'; return $sql->("SELECT taskq_submit('$queue', tags => '{$tag}')") }
sub claim { my ($tag, $queue) = @_; $queue //= 'q'; return $sql->("SELECT string_agg(task_id::text, ' ' ORDER BY task_id) FROM taskq_claim('$queue', max_tasks => 100, tags => '{$tag}')") }

# done(TAG...): tasks with these tags, which are done and kept
sub done
{
	for my $tag (@_)
	{
		submit($tag);
		$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('q', tags => '{$tag}')");
	}
	return;
}

sub ask { $node->adjust_conf('postgresql.conf', 'taskq.retention_interval', "'$_[0]'"); $node->reload; return }

# --- a session that knows the first sets, and a task of each
my $old = open_session($node);
$old->query_safe("SELECT taskq_submit('q', tags => ARRAY['v' || n]) FROM generate_series(1, 20) n");
is(error_of($node, "SELECT taskq_submit('q', tags => '{w}')"), 'TQ009', 'as many sets as allowed are accepted');
my ($rc, $out, $err) = $node->psql('postgres', "SELECT taskq_submit('q', tags => '{w}')");
like($err, qr/HINT:.*taskq\.max_lanes/, 'the error says what to do');
$sql->("SELECT count(*) FROM (SELECT taskq_complete(c.task_id, c.token) FROM generate_series(1, 20) n, taskq_claim('q', max_tasks => 9, tags => ARRAY['v' || n]) c) d");
is($sql->("SELECT count(*) FROM taskq.task"), 0, 'all tasks are done');

# --- other sets can be used immediately, and the old ones are removed
done(map { "w$_" } 1 .. 15);
is($sql->("SELECT count(*) FROM taskq.tasks WHERE state = 'done'"), 35, 'other sets can be used when the tasks of these are done');
ok(within($LONG, sub { $lanes->('q') <= 20 }), 'the background worker, which was asked, has removed some sets without a task');
ok(within($LONG, sub { $sql->('SELECT FROM taskq_run_reapers()'); $lanes->('q') == 0 }), 'taskq_run_reapers removes all of them');

# --- a session that knows a set that was removed
$old->query_safe("SELECT taskq_submit('q', tags => '{v1}')");
like(claim('v1'), qr/^\d+$/, 'a task of a set that a session knew is claimed');
submit('v2');
isnt(claim('v2'), '', 'a task of another session is claimed, too');

# --- finished tasks that are retried
my ($retried, $again, $managed) = map { $sql->("SELECT min(task_id) FROM taskq.tasks WHERE tags = '{$_}' AND state = 'done'") } qw(v3 v4 v5);
$sql->("SELECT taskq_retry($retried), taskq_recreate($again)");
$sql->("SELECT count(*) FROM taskq_manage_many('retry', '{$managed}')");
is(claim('v3'), $retried, 'a retried task has its set again');
isnt(claim('v4'), '', 'a recreated task has its set again');
is(claim('v5'), $managed, 'tasks that are retried by list have their sets again');
$sql->(<<'SQL');
SELECT taskq_define_workflow('{"name": "f", "version": "1", "queue": "q", "steps": [{"name": "a", "max_attempts": 1, "tags": ["v6"]}, {"name": "b", "tags": ["v7"]},
  {"name": "c", "depends_on": ["a", "b"], "tags": ["v8"]}]}');
SELECT taskq_start_workflow('f');
SELECT taskq_fail(task_id, token, 'e', retryable => false) FROM taskq_claim('q', tags => '{v6}');
SQL
$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('q', tags => '{v7}')");

# --- an open transaction, which keeps all sets for a while
$old->query_safe("BEGIN; SELECT taskq_submit('q', tags => '{v9}')");
done(map { "x$_" } 1 .. 12);
ask('1 s');
ok(stays(4, sub { $lanes->('q') > 12 }), 'while a producer\'s transaction is open no set is removed');
timely(1, 'other sessions do not wait for it', sub { my $begun = time; submit('x1'); return time - $begun });
$old->query_safe('COMMIT');
claim('x1');
ok(within(60, sub { $sql->('VACUUM taskq.task'); $sql->("SELECT count(*) FROM taskq.lane WHERE tags = '{x2}'") eq '0' }), 'after its end they are removed');
isnt(claim('v9'), '', 'its task is claimed');
ok(within($LONG, sub { $sql->("SELECT count(*) FROM taskq.lane WHERE tags = '{v6}'") eq '0' }), 'the set of a dead step is removed');
$sql->("SELECT taskq_retry(task_id) FROM taskq.tasks WHERE step = 'a' AND state = 'dead'");
is($sql->("SELECT step FROM taskq_claim('q', tags => '{v6}')"), 'a', 'a step that is retried has its set again');

# --- a queue with few sets keeps them
submit('a', 'few');
$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('few', tags => '{a}')");
ok(stays(3, sub { $lanes->('few') == 1 }), 'a queue with few sets keeps them');

# --- as many again, if they cannot be removed
$old->query_safe("BEGIN; SELECT taskq_submit('other')");
my $error = '';
for my $n (1 .. 60)
{
	$error = error_of($node, "SELECT taskq_submit('q', tags => '{y$n}')");
	last if $error ne '';
	$sql->("SELECT taskq_complete(task_id, token, keep => false) FROM taskq_claim('q', tags => '{y$n}')");
}
is($error, 'TQ009', 'not more than as many again are accepted');
cmp_ok($lanes->('q'), '<=', 41, 'that is a hard limit');
$old->query_safe('COMMIT');
ok(within(60, sub { error_of($node, "SELECT taskq_submit('q', tags => '{z}')") eq '' }), 'the limit holds until they are removed');
$old->quit;
sound($node);
$node->stop('fast');
done_testing();

# The background worker ends steps, and the consequences may depend on an open
# transaction that is about to end the last other parent, or the last other
# step. The background worker does not wait for it, handles all other steps in
# the meantime, and tries again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('workflow_duties');
my $sql = sub { $node->safe_psql('postgres', shift) };

sub state_of
{
	my ($id, $step) = @_;
	return "(SELECT state FROM taskq.workflow_steps WHERE workflow_id = $id AND step = '$step')";
}

$sql->(<<'SQL');
SELECT taskq_create_queue('q'), taskq_create_queue('others');
SELECT taskq_define_workflow('{"name": "both", "version": "1", "queue": "q", "steps": [{"name": "work"}, {"name": "go"},
    {"name": "pause", "type": "timer", "depends_on": ["go"], "timer": {"after": "100 ms"}}, {"name": "child", "depends_on": ["work", "pause"]}]}');
SELECT taskq_define_workflow('{"name": "two", "version": "1", "queue": "q", "steps": [{"name": "one", "max_attempts": 1}, {"name": "other", "max_attempts": 1}]}');
SQL

# An instance whose steps are claimed: (its number, "task, token" by step)
sub begun
{
	my $id = $sql->("SELECT taskq_start_workflow('both')");
	my %held = map { split /\|/ } split /\n/, $sql->("SELECT step, task_id || ', ' || token FROM taskq_claim('q', max_tasks => 2)");

	return ($id, \%held);
}

# --- a timer whose step is one of the last two parents; the other parent is
# just ending
my ($id, $held) = begun();
my $open = open_session($node);
$open->query_safe("BEGIN; SELECT taskq_complete($held->{work})");
$sql->("SELECT taskq_complete($held->{go})");

# another timer that is due later, and the end of a lease
my ($later, $held_later) = begun();
$sql->("SELECT taskq_complete($held_later->{go})");
$sql->("SELECT taskq_submit('others')");
$sql->("SELECT taskq_claim('others', lease => '1 s')");
ok($node->poll_query_until('postgres', 'SELECT ' . state_of($later, 'pause') . " = 'done'"), 'another timer fires while a transaction is open');
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM taskq.task WHERE queue_id = (SELECT queue_id FROM taskq.queue WHERE name = 'others') AND state = 1}),
	'another lease expires');
is($sql->('SELECT ' . state_of($id, 'pause')), 'suspended', 'the step is skipped while another session ends its sibling');
$open->query_safe('COMMIT');
ok($node->poll_query_until('postgres', 'SELECT ' . state_of($id, 'child') . " = 'pending'"), 'its timer fires when that has ended');
$sql->("SELECT taskq_cancel_workflow($_)") for $id, $later;

# --- a lease that ends with the last attempt, while the other step fails
$id = $sql->("SELECT taskq_start_workflow('two')");
my $one = $sql->("SELECT task_id || ', ' || token FROM taskq_claim('q', lease => '1 h')");
$open->query_safe("BEGIN; SELECT taskq_fail($one, 'no', retryable => false)");
$sql->("SELECT taskq_claim('q', lease => '1 s')");
$sql->("SELECT taskq_submit('others', payload => '{}')");
$sql->("SELECT taskq_claim('others', max_tasks => 2, lease => '1 s')");
ok($node->poll_query_until('postgres', q{SELECT count(*) = 2 FROM taskq.task WHERE queue_id = (SELECT queue_id FROM taskq.queue WHERE name = 'others') AND state = 1}),
	'leases expire while a transaction is open');
is($sql->('SELECT ' . state_of($id, 'other')), 'running', 'the lease of a step that would have to wait for it does not');
$open->query_safe('COMMIT');
ok($node->poll_query_until('postgres', "SELECT state = 'error' FROM taskq.workflows WHERE workflow_id = $id"), 'it expires afterwards, and the instance ends with it');

# --- an interval that becomes shorter counts immediately: it was ten minutes
$sql->(q{SELECT taskq_define_workflow('{"name": "gone", "version": "1", "queue": "q", "retention": "0 s", "steps": [{"name": "one"}]}')});
$id = $sql->("SELECT taskq_start_workflow('gone')");
$sql->("SELECT taskq_cancel_workflow($id)");
is($sql->("SELECT count(*) FROM taskq.workflow WHERE workflow_id = $id"), 1, 'an instance has ended');
$node->append_conf('postgresql.conf', "taskq.retention_interval = '1s'");
$node->reload;
ok($node->poll_query_until('postgres', "SELECT count(*) = 0 FROM taskq.workflow WHERE workflow_id = $id"), 'it is removed soon after the change');
is($sql->('SELECT * FROM taskq_check()'), '', 'nothing is wrong');

$open->quit;
$node->stop;
done_testing();

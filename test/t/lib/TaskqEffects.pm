# Clients that record an effect in the transaction that completes a task, and
# what must hold of their tasks in the end, wherever the server crashed.
package TaskqEffects;
use strict;
use warnings;
use Exporter 'import';
use Test::More;
use TaskqTest;

our @EXPORT = qw(start_effect_clients check_effects);

# Start four clients that claim tasks of a queue and insert the ids of those
# that they complete into the table effect.
sub start_effect_clients
{
	my ($node, $queue) = @_;

	return start_clients($node, 4, <<"SQL" x 200);
\\unset c_task_id
SELECT task_id AS c_task_id, token AS c_token FROM taskq_claim('$queue') \\gset
\\if :{?c_task_id}
\\echo claimed :c_task_id :c_token
BEGIN;
INSERT INTO effect (task_id) VALUES (:c_task_id);
SELECT taskq_complete(:c_task_id, :c_token) \\g /dev/null
\\if :ERROR
ROLLBACK;
\\else
COMMIT;
\\if :ERROR
\\else
\\echo completed :c_task_id
\\endif
\\endif
\\endif
SQL
}

# Wait until all tasks are done, end the clients, and check the tasks, of which
# there must be as many as were submitted. Returns the number of completions
# that were acknowledged.
sub check_effects
{
	my ($node, $queue, $clients, $tasks) = @_;
	my $sql = sub { $node->safe_psql('postgres', shift) };
	my %pairs;

	ok(within($ENV{LONG} ? 120 : 60, sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = '$queue' AND state <> 'done'") eq '0' }),
		'all tasks are done in the end');
	end_clients($clients);
	my @said = said($clients);
	my @completed = map { /^completed (\d+)/ ? $1 : () } @said;
	my $twice = grep { /^claimed (.*)/ && $pairs{$1}++ } @said;
	is($twice, 0, 'no pair of id and token was given out twice');
	is($sql->(<<"SQL"), "$tasks|$tasks|$tasks", 'no task is lost, and each has exactly one effect');
SELECT count(DISTINCT t.task_id), count(e.task_id), count(DISTINCT e.task_id)
  FROM taskq.tasks t LEFT JOIN effect e USING (task_id) WHERE t.queue = '$queue'
SQL
	is($sql->("SELECT count(*) FROM unnest('{" . join(',', @completed) . "}'::bigint[]) c"
			  . ' WHERE NOT EXISTS (SELECT FROM effect e WHERE e.task_id = c)'),
		'0', 'no acknowledged completion is lost');
	return scalar(@completed);
}

1;

# A random run is compared with a model. Eight clients make some 14,000 calls of
# every kind that concerns keys, insertions, junctions, changes and documents,
# on few tasks. TaskqModel replays the committed calls in the order of the
# commits. Whenever no client is working, each task and each document must be as
# the model says.
# SEED=n: the same draws, as far as the order of eight clients lets them be
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run ();
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqModel;
use TaskqTest;

my $CLIENTS = 8;
my ($LEAST, $MOST) = (11, 22);    # rounds: until everything has happened often enough
my $CALLS = 150;    # of a client in a round
my $seed = $ENV{SEED} || 1 + int rand 1_000_000;
diag "SEED=$seed";

my $node = start_node('model', 'fsync' => 'off', 'deadlock_timeout' => "'100ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };
$sql->(slurp_file("$FindBin::Bin/lib/model_clients.psql"));

my $model = TaskqModel->new(
	plain => { open => 0 },
	serial => { open => 1 },
	hold => { open => 1, dead => 1 },
	until => { open => 1, dead => 1, suspended => 1, lifo => 1 },
	three => { open => 3 });
my $json = JSON::PP->new->allow_nonref;
my ($replayed, $ahead, @impossible, @differ, @said) = (0, 0);

# {op => [how often it was done, and failed]}
sub counts
{
	return map { my ($op, @n) = split /\|/; $op => \@n }
	  split /\n/, $sql->('SELECT op, count(*) FILTER (WHERE failed IS NULL), count(*) FILTER (WHERE failed IS NOT NULL) FROM call GROUP BY op');
}

sub is_void { return scalar grep { $_->[0] < 200 || $_->[1] < 50 } @_ }

for my $round (1 .. $MOST)
{
	my @running = map {
		my $script = sprintf "CALL client(%d, %.6f, %d)", $_, (($seed * 7919 + $round * 104729 + $_ * 15485863) % 1_000_003) / 1_000_003, $CALLS;
		my $out = '';
		# not on standard input, which is written only when the test waits for
		# the client
		my $process = IPC::Run::start([ 'psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', $script ],
			'<', \undef, '>', \my $words, '2>&1', IPC::Run::timeout(300));
		[ $process, \$words ];
	} 1 .. $CLIENTS;
	for (@running)
	{
		my ($process, $words) = @$_;
		$process->finish;
		push @said, $$words if $$words ne '';
	}
	for (split /\n/, $sql->("SELECT json_build_object('op', op, 'a', a, 'r', r, 'began', began) FROM call WHERE n > $replayed ORDER BY n"))
	{
		my $call = $json->decode($_);
		my $problem = $model->replay($call);

		$replayed++;
		push @impossible, "call $replayed: $problem, " . $json->canonical->encode($call) if $problem ne '';
	}
	my @is = split /\n/, $sql->(<<'SQL');
SELECT concat_ws(' ', 'task', task_id, queue, state, coalesce(key, '-'), coalesce(payload::text, '-'), coalesce(reference, '-'),
                 CASE WHEN state = 'running' THEN worker ELSE '-' END) FROM taskq.tasks ORDER BY task_id;
SELECT concat_ws(' ', 'document', key, secondary_key, version, coalesce(content::text, '-'), coalesce(worker, '-')) FROM taskq.documents ORDER BY key, secondary_key;
SQL
	# those that a session was claiming when an earlier one arrived stay ahead
	# of it
	my @ahead = split /\n/, $sql->(<<'SQL');
SELECT t.task_id FROM taskq.key k JOIN taskq.task t ON t.task_id = ANY (k.out_of_order) AND t.queue_id = k.queue_id AND t.key = k.key
  JOIN taskq.queue q ON q.queue_id = t.queue_id
 WHERE t.state = 1
   AND EXISTS (SELECT FROM taskq.task b WHERE b.queue_id = t.queue_id AND b.key = t.key AND b.state = 2
                  AND CASE WHEN q.options ->> 'order' = 'lifo' THEN b.task_id > t.task_id ELSE b.task_id < t.task_id END)
SQL
	my @should = $model->told(@ahead);
	$ahead += @ahead;
	my %both = map { $_ => 1 } @is;
	my %should = map { $_ => 1 } @should;
	push @differ, map { "round $round: $_" } (map { "is: $_" } grep { !$should{$_} } @is), (map { "should be: $_" } grep { !$both{$_} } @should);
	push @differ, map { "round $round: $_" } $model->wrong_versions({ map { split /\|/ } split /\n/, $sql->('SELECT task_id, version FROM taskq.tasks') });
	last if @impossible || @differ || ($round >= $LEAST && !is_void(values %{ { counts() } }));
}
if (my ($id) = "@differ" =~ /task (\d+)/)
{
	diag $sql->("SELECT concat_ws(' ', n, began, client, op, a, r, failed) FROM call WHERE concat(a, ' ', r) ~ '\\m$id\\M' ORDER BY began");
	diag $sql->("SELECT concat_ws(' ', n, began, client, op, a, r) FROM call WHERE a::text ~ (SELECT format('\"%s\"', key) FROM taskq.tasks WHERE task_id = $id)
	                AND a::text ~ (SELECT format('\"%s\"', queue) FROM taskq.tasks WHERE task_id = $id) ORDER BY n DESC LIMIT 30");
}
is(join('', @said), '', 'no client met an error of its own');
is(join("\n", @impossible[ 0 .. ($#impossible < 9 ? $#impossible : 9) ]), '', 'each call that was committed is possible in its order');
is(join("\n", @differ[ 0 .. ($#differ < 19 ? $#differ : 19) ]), '', 'tasks, documents and versions are as the model says');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check() finds nothing');
is($sql->("SELECT string_agg(DISTINCT concat(op, ' ', failed, ' ', a), '; ') FROM call WHERE failed NOT IN ('nothing', 'TQ001', 'TQ002', 'TQ003', 'TQ005', 'TQ006', 'TQ010', '22023', '40001')"),
	'', 'no call failed that should succeed');

# The run is void if some action hardly occurred.
my %count = counts();
note $sql->("SELECT string_agg(concat(op, ' ', failed, ' ', n, ' ', w), '; ' ORDER BY op, n DESC) FROM (SELECT op, failed, count(*) AS n, min(left(a::text, 60)) AS w FROM call WHERE failed IS NOT NULL GROUP BY op, failed) f");
diag 'done/failed: ' . join ', ', map { "$_ $count{$_}[0]/$count{$_}[1]" } sort keys %count;
is(join(' ', grep { $count{$_}[0] < 200 } sort keys %count), '', 'each kind was done 200 times');
is(join(' ', grep { $count{$_}[1] < 50 } sort keys %count), '', 'each kind failed 50 times');
cmp_ok($ahead, '<', 10, "$ahead tasks were pending ahead of an earlier one, which arrived while they were being claimed");
cmp_ok($replayed, '>', 5000, "$replayed calls were replayed");
$node->stop;
done_testing();

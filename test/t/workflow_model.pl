# The test draws workflows at random. Four workers run them: they are
# disconnected again and again, also between a claim and its end, roll back
# what they have done, also to savepoints, and use all isolation levels.
# Another worker prepares its transactions. Dead or suspended steps are retried
# and resolved by hand. TaskqFlowModel, which was written from the
# documentation, replays the committed calls in the order of the commits. After
# each transaction each step must be in the right state, each claim must have
# returned the expected rows, and each instance must have the right end, counts
# and result. SEED=n: the same workflows and the same answers. LONG=1: 2,000
# workflows. If a kind of event has hardly happened, as many workflows are
# drawn again.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use IPC::Run qw(start);
use Test::More;
use Time::HiRes qw(time);
use TaskqCrowd;
use TaskqFlowGraphs;
use TaskqFlowModel;
use TaskqTest;

my $GRAPHS = $ENV{GRAPHS} || ($ENV{LONG} ? 2000 : 150);
my $WORKERS = 4;
my $AT_ONCE = 40;    # workflows that are started together
my $BOUND = $ENV{LONG} ? 900 : 240;
my $ROUNDS = 4;      # at most
my $shown = 0;       # workflows that were not as they should be, with everything that happened

my $seed = $ENV{SEED} || 1 + int rand 1_000_000;
diag "SEED=$seed";
srand $seed;

my $node = start_node('workflow_model', 'fsync' => 'off', 'track_commit_timestamp' => 'on', 'autovacuum' => 'off',
	'max_prepared_transactions' => 5, 'taskq.reaper_interval' => "'200ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };
$sql->(slurp_file("$FindBin::Bin/lib/workflow_model_clients.psql"));
$sql->(qq(SELECT taskq_create_queue(q, '{"lease": "1 s", "retry": "fixed", "retry_base": "1 ms"}') FROM unnest('{ma,mb}'::text[]) q));

my $void = $ENV{TASKQ_FIRST_FAILURE} ? 0 : $GRAPHS / 2000;
my %graph;
for my $round (0 .. $ROUNDS - 1)
{
	srand $seed + 1_000_000 * $round;
	my @graphs = map { draw_graph('g' . ($round * $GRAPHS + $_)) } 1 .. $GRAPHS;
	my @inner = map { $_->{inner} // () } map { @{ $_->{steps} } } @graphs;

	$graph{ $_->{name} } = $_ for @graphs, @inner;
	define(splice(@$_, 0, 100)) for map { my $some = $_; map { $some } 0 .. $#$some / 100 } [@inner], [@graphs];
	last if !run(@graphs) || !grep { !happened(@$_) } ends_by_type();
}
my @problems = judge();
my $drawn = $sql->('SELECT count(*) FROM run');

is(join("\n", @problems[ 0 .. ($#problems < 9 ? $#problems : 9) ]), '', "each of $drawn workflows did what it should");
is($sql->(<<'SQL'), '', 'a task that a worker has finished is finished once');
SELECT task_id, token, outcome, count(t.task_id) FROM said LEFT JOIN taskq.transition t USING (task_id, token)
 WHERE from_state IS NULL OR from_state = 3 GROUP BY task_id, token, outcome HAVING count(t.task_id) <> 1 LIMIT 5
SQL
is($sql->('SELECT count(*) FROM taskq.task WHERE state = 3'), 0, 'no task is claimed any longer');

# The run is void if some kind of event hardly occurred.
for (ends_by_type())
{
	my ($type, $done, $dead) = @$_;

	ok(happened(@$_), "$type: $done times done, $dead times dead");
	note "figure: $type: $done times done, $dead times dead";
}
my ($claims, $lost, $late) = @{ (lines(<<'SQL'))[0] };
SELECT concat_ws(E'\x1f', count(*) FILTER (WHERE to_state = 3), count(*) FILTER (WHERE from_state = 3 AND said.task_id IS NULL), count(*) FILTER (WHERE from_state = 7))
  FROM taskq.transition t LEFT JOIN said ON said.task_id = t.task_id AND said.token = t.token AND t.from_state = 3
SQL
cmp_ok($lost, '>=', 100 * $void, "of $claims claims $lost were reclaimed, $late steps came back after a failure");

for my $way ('prepared', 'repeatable read', 'savepoint', 'serializable')
{
	my $times = $sql->("SELECT count(*) FROM way WHERE name = '$way'");

	cmp_ok($times, '>=', 20 * $void, "transactions with $way");
	note "figure: transactions with $way: $times";
}

sub happened
{
	my ($type, $done, $dead) = @_;
	return $done >= 200 * $void && $dead >= 50 * $void;
}

# [type, how often such a step was done, and dead], ...
sub ends_by_type
{
	return lines(<<'SQL');
SELECT concat_ws(E'\x1f', s.type, count(*) FILTER (WHERE t.to_state = 5), count(*) FILTER (WHERE t.to_state = 6))
  FROM taskq.transition t JOIN (SELECT s.type, s.task_id FROM taskq.workflows w JOIN taskq.workflow_steps s USING (workflow_id)) s USING (task_id) GROUP BY s.type ORDER BY s.type
SQL
}

sub quoted { return "'" . ($_[0] =~ s/'/''/gr) . "'"; }

sub value { return defined $_[0] ? quoted(json($_[0])) : 'NULL'; }

# Templates and plans
sub define
{
	my (@some) = @_;
	my (@plan, @hand, @signal);

	for my $graph (@some)
	{
		for my $name (sort keys %{ $graph->{answers} })
		{
			my $n = 0;
			push @plan, sprintf "('%s', '%s', %d, '%s', %s)", $graph->{name}, $name, ++$n, $_->[0], value($_->[1]) for @{ $graph->{answers}{$name} };
		}
		for my $name (sort keys %{ $graph->{signals} })
		{
			my $n = 0;
			push @signal, sprintf "('%s', '%s', %d, %s, %s)", $graph->{name}, $name, ++$n, $graph->{early}{$name} ? 'true' : 'false', value($_) for @{ $graph->{signals}{$name} };
		}
		for my $name (sort keys %{ $graph->{hands} })
		{
			my $n = 0;
			push @hand, sprintf "('%s', '%s', %d, '%s', %s)", $graph->{name}, $name, ++$n, $_->[0], value($_->[1]) for @{ $graph->{hands}{$name} };
		}
	}
	$sql->('SELECT count(taskq_define_workflow(d::jsonb)) FROM unnest(ARRAY[' . join(', ', map { quoted(json(definition($_))) } @some) . ']) d;'
		  . 'INSERT INTO plan SELECT w, s, n, o, r::jsonb FROM (VALUES ' . join(', ', @plan) . ') v (w, s, n, o, r);'
		  . (@signal ? 'INSERT INTO signal_plan SELECT w, s, n, e, p::jsonb FROM (VALUES ' . join(', ', @signal) . ') v (w, s, n, e, p);' : '')
		  . (@hand ? 'INSERT INTO hand_plan SELECT w, s, n, o, r::jsonb FROM (VALUES ' . join(', ', @hand) . ') v (w, s, n, o, r)' : ''));
	return;
}

sub begin_worker
{
	my ($i) = @_;
	my ($worker) = crowd($node, 1);

	return if !$worker;
	$worker->{i} = $i;
	ask(sprintf("CALL work('worker %d', %s, %.6f, 0.01)", $i, $i % 2 ? 'true' : 'false', rand), $worker);
	return $worker;
}

# For two seconds
sub begin_preparing
{
	my @file = ('-f', "$FindBin::Bin/lib/workflow_model_prepared.pgbench");

	return start([ 'pgbench', '-n', '-h', $node->host, '-p', $node->port, '-c', 2, '-T', 2, '--max-tries=100', @file, 'postgres' ], '>', \my $out, '2>', \my $err);
}

sub run
{
	my @graphs = @_;
	my @workers = map { begin_worker($_) } 1 .. $WORKERS;
	my ($started, $cut, $by_hand, $over) = (0, 0, 0, 0);
	my $begun = time;
	my ($next_cut, $next_hand) = ($begun, $begun);
	my $prepares = begin_preparing();

	$node->safe_psql('postgres', 'ANALYZE plan, hand_plan');
	until ($over || time > $begun + $BOUND)
	{
		my $ready = $sql->('SELECT count(*) FROM taskq.task WHERE state IN (1, 3)');

		if ($started < $GRAPHS && $ready < $AT_ONCE)
		{
			my $last = $started + $AT_ONCE > $GRAPHS ? $GRAPHS : $started + $AT_ONCE;
			my $names = join ', ', map { sprintf "('%s', %s)", $_->{name}, value($_->{input}) } @graphs[ $started .. $last - 1 ];

			$sql->("INSERT INTO run SELECT name, taskq_start_workflow(name, input::jsonb) FROM (VALUES $names) v (name, input)");
			$sql->('CALL give_early(ARRAY[' . join(', ', map { "'$_->{name}'" } @graphs[ $started .. $last - 1 ]) . '])');
			$started = $last;
		}
		if (time > $next_hand)
		{
			my $done = $sql->('CALL hand()');
			my $waiting = $sql->('CALL give_all()');

			$by_hand += $done;
			$next_hand = time + 0.3;
			$over = $started == $GRAPHS && $done == 0 && $waiting == 0 && $sql->('SELECT count(*) FROM taskq.task WHERE state IN (1, 3)') == 0;
		}
		if (time > $next_cut)
		{
			$cut += $sql->("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL work%' ORDER BY random() LIMIT 1) a");
			$next_cut = time + rand 0.6;
		}
		answers(1, 0.05, @workers);
		if (!$prepares->pumpable)
		{
			$prepares->finish or die 'pgbench failed';
			$prepares = begin_preparing();
		}
		for my $i (0 .. $#workers)
		{
			next if $workers[$i] && $workers[$i]{asked};
			leave($workers[$i]);
			$workers[$i] = begin_worker($i + 1);
		}
	}
	answers($WORKERS, 30, @workers);
	leave(@workers);
	$prepares->finish or die 'pgbench failed';
	ok($over, 'all instances end')
	  or diag $sql->("SELECT concat_ws(' ', workflow_id, step, state, count(*) OVER ()) FROM taskq.tasks WHERE state IN ('pending', 'running', 'suspended') LIMIT 5");
	diag sprintf '%.1f s, %d cut off, %d by hand', time - $begun, $cut, $by_hand;
	return $over;
}

sub lines { return map { [ split /\x1f/, $_, -1 ] } split /\n/, $sql->(shift) }

# The differences from the model. Instances inside others come first, since the
# others wait for their ends.
sub judge
{
	my (%is, @problems);

	$sql->(<<'SQL');
CREATE TABLE instance AS
SELECT f.workflow_id, w.name, coalesce(p.workflow_id, 0) AS outer_id, p.step,
       row_number() OVER (PARTITION BY f.parent_task_id ORDER BY f.workflow_id) AS n,
       concat_ws(' ', w.state, w.steps_total, w.steps_done, w.steps_dead, w.steps_running, coalesce(w.result::text, '-')) AS words
  FROM taskq.workflow f JOIN taskq.workflows w USING (workflow_id) LEFT JOIN taskq.tasks p ON p.task_id = f.parent_task_id;
CREATE TABLE step_of AS SELECT s.* FROM taskq.workflows w JOIN taskq.workflow_steps s USING (workflow_id);
ANALYZE instance, step_of, given, said, handed, signalled;
SQL
	for (lines(<<'SQL'))
SELECT concat_ws(E'\x1f', e.workflow_id, e.at, e.kind, e.step, a, b, c, d, f, g)
  FROM (SELECT s.workflow_id, s.step, pg_xact_commit_timestamp(t.xmin) AS at, 1 AS nth, transition_id AS id, 'move' AS kind,
               coalesce(taskq.state_name(t.from_state), '') AS a, taskq.state_name(t.to_state) AS b, coalesce(taskq.reason_name(t.reason), '') AS c,
               t.attempt::text AS d, coalesce(said.outcome, '') AS f,
               CASE WHEN t.to_state = 3 THEN coalesce((SELECT concat_ws(' ', (c).attempt, (c).workflow, (c).step, coalesce((c).handler, '-'), coalesce((c).config::text, '-'),
                   (c).input, coalesce((c).payload::text, '-'), (c).dependency_results) FROM given WHERE given.task_id = t.task_id AND given.token = t.token), 'nothing') ELSE '' END AS g
          FROM taskq.transition t JOIN step_of s USING (task_id)
          LEFT JOIN said ON said.task_id = t.task_id AND said.token = t.token AND t.from_state = 3
         UNION ALL
        SELECT s.workflow_id, s.step, pg_xact_commit_timestamp(h.xmin), 0, id, 'hand', n::text, op, '', '', '', '' FROM handed h JOIN step_of s USING (task_id)
         UNION ALL
        SELECT workflow_id, step, pg_xact_commit_timestamp(xmin), 0, id, 'signal', n::text, CASE WHEN answer THEN '1' ELSE '' END, '', '', '', '' FROM signalled) e
 ORDER BY e.workflow_id, e.at, e.nth, e.id
SQL
	{
		my ($id, $at, $kind, $step, @rest) = @$_;
		my %event = (at => $at, kind => $kind, step => $step);

		@event{ $kind eq 'move' ? qw(from to reason attempt said given) : qw(n op) } = @rest;
		push @{ $is{$id}{events} }, \%event;
	}
	push @{ $is{ $_->[0] }{steps} }, $_->[1]
	  for lines(q{SELECT concat_ws(E'\x1f', workflow_id, concat_ws(' ', step, coalesce(state, '-'), CASE WHEN task_id IS NOT NULL THEN coalesce(result::text, 'null') END)) FROM step_of});
	for (lines(q{SELECT concat_ws(E'\x1f', workflow_id, name, outer_id, coalesce(step, ''), n, words) FROM instance ORDER BY outer_id = 0, workflow_id}))
	{
		my ($id, $name, $outer, $step, $n, $words) = @$_;
		my ($model, @wrong) = judge_one($graph{$name}, $words, $is{$id});

		push @problems, "$name ($id): @wrong" if @wrong;
		if ($outer && $model->{ended_at})
		{
			my $state = $model->instance_state;
			my %end = (at => $model->{ended_at}, kind => 'inner', step => $step, n => $n, state => $state, result => $model->result($state));

			insert($is{$outer}{events}, \%end);
		}
	}
	return @problems;
}

# The end of an inner instance: the end of the step that waits for it, or else
# the time of its commit.
sub insert
{
	my ($events, $end) = @_;
	my ($place) = grep { my $e = $events->[$_]; $e->{at} eq $end->{at} && $e->{kind} eq 'move' && $e->{step} eq $end->{step} && $e->{from} eq 'suspended' } 0 .. $#$events;

	($place) = grep { $events->[$_]{at} ge $end->{at} } 0 .. $#$events if !defined $place;
	splice @$events, $place // scalar @$events, 0, $end;
	return;
}

sub judge_one
{
	my ($graph, $words, $is) = @_;
	my $model = TaskqFlowModel->new($graph);
	my @wrong = $model->replay(@{ $is->{events} });

	if (!@wrong)
	{
		my $steps = join ', ', sort @{ $is->{steps} };
		my $should = join ', ', sort $model->steps;

		push @wrong, "steps are $steps, and should be $should" if $steps ne $should;
		$should = $model->instance;
		push @wrong, "instance is $words, and should be $should" if $words ne $should;
	}
	if (@wrong && !$shown++)
	{
		note json(definition($graph));
		for my $event (@{ $is->{events} })
		{
			note join ' ', map { "$_=$event->{$_}" } grep { defined $event->{$_} && !ref $event->{$_} && $event->{$_} ne '' } sort keys %$event;
		}
	}
	return ($model, @wrong);
}

sound($node);
$node->stop('fast');
done_testing();

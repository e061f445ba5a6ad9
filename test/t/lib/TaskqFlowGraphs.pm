# TaskqFlowGraphs: workflows drawn at random, and what happens to each of their
# steps: what a worker answers each time that it claims the step, and what is
# done by hand each time that the step is dead or suspended.
package TaskqFlowGraphs;

use strict;
use warnings;
use Exporter 'import';
use List::Util qw(max min shuffle);

our @EXPORT = qw(draw_graph definition json is_passive);

my $MOST = 30;      # steps of a graph
my $MEMBERS = 4;    # of a batch

# json(VALUE): as PostgreSQL prints it.  Whole numbers are numbers, \1 and \0
# true and false.
sub json
{
	my ($value) = @_;

	return 'null' if !defined $value;
	return '[' . join(', ', map { json($_) } @$value) . ']' if ref $value eq 'ARRAY';
	return '{' . join(', ', map { qq("$_": ) . json($value->{$_}) } sort { length $a <=> length $b || $a cmp $b } keys %$value) . '}'
	  if ref $value eq 'HASH';
	return $$value ? 'true' : 'false' if ref $value;
	return $value if $value =~ /^-?\d+$/;
	return q(") . $value =~ s/(["\\])/\\$1/gr . q(");
}

sub one_of { return $_[ rand @_ ]; }

# chance(N): true in N of a hundred cases
sub chance { return rand(100) < $_[0]; }

# --- paths: the choices on the way to a step, which tell the steps that may
# meet only in a deferred step from others

sub below
{
	my ($graph, $parent, $child) = @_;
	my $step = $graph->{step}{$parent};

	return $step->{type} =~ /^(?:decision|batch)$/ ? [ @{ $step->{path} }, "$parent>$child" ] : $step->{path};
}

sub common
{
	my ($a, $b) = @_;
	my @common;

	for (0 .. min($#$a, $#$b))
	{
		last if $a->[$_] ne $b->[$_];
		push @common, $a->[$_];
	}
	return \@common;
}

# path_of(GRAPH, NAME, PARENTS): undef when such a step would have to be
# deferred
sub path_of
{
	my ($graph, $name, @parents) = @_;
	my @deepest;

	for (map { below($graph, $_, $name) } @parents)
	{
		return if @{ common($_, \@deepest) } < min(scalar @$_, scalar @deepest);
		@deepest = @$_ if @$_ > @deepest;
	}
	return \@deepest;
}

# path_of_deferred(GRAPH, PARENTS): where the ways to it parted; if they did
# not, it is next to the steps below which they are
sub path_of_deferred
{
	my ($graph, @parents) = @_;
	my @paths = map { $graph->{step}{$_}{path} } @parents;
	my $common = $paths[0];

	$common = common($common, $_) for @paths;
	my @common = @$common;
	pop @common if !grep { @$_ != @common } @paths;
	return \@common;
}

# --- steps

sub add
{
	my ($graph, %step) = @_;

	$step{name} = ($step{stem} // 's') . @{ $graph->{steps} };
	delete $step{stem};
	$step{parents} //= [];
	$step{path} //= path_of($graph, $step{name}, @{ $step{parents} });
	push @{ $graph->{steps} }, \%step;
	$graph->{step}{ $step{name} } = \%step;
	return \%step;
}

# Steps from which one that is not deferred may follow
sub some_parents
{
	my ($graph, $deferred) = @_;
	my @from = grep { $_->{type} !~ /^(?:decision|batch)$/ && ($deferred || $_->{type} ne 'batch_worker') } @{ $graph->{steps} };
	my @parents;

	return if !@from || chance($deferred ? 0 : 15);
	for (1 .. one_of(1, 1, 1, 2, 2, 3))
	{
		my $step = chance(70) ? $from[ -1 - int rand min(4, scalar @from) ] : one_of(@from);

		next if grep { $_ eq $step->{name} } @parents;
		push @parents, $step->{name} if $deferred || path_of($graph, '', @parents, $step->{name});
	}
	return @parents;
}

sub some_type { return one_of(('standard') x 9, ('decision') x 2, ('batch') x 3, 'signal', 'signal', 'approval', 'approval', 'timer', 'timer', 'workflow', 'workflow'); }

# A type that no worker does
sub is_passive { return $_[0]{type} =~ /^(?:signal|approval|timer|workflow)$/; }

sub draw_block
{
	my ($graph, $type, @parents) = @_;

	if ($type eq 'deferred')
	{
		@parents = some_parents($graph, 1) if !@parents;
		return if !@parents;
		return add($graph, type => 'deferred', parents => \@parents, path => path_of_deferred($graph, @parents));
	}
	@parents = some_parents($graph) if !@parents;
	my $step = add($graph, type => $type, parents => \@parents);

	if ($type eq 'decision')
	{
		my @children = map { draw_block($graph, chance(80) ? 'standard' : some_type(), $step->{name}) } 1 .. 1 + int rand 3;
		my @ends = map { $_->{type} =~ /^(?:decision|batch)$/ ? () : $_->{name} } @children;

		$step->{children} = [ map { $_->{name} } @children ];
		if (chance(40))
		{
			$step->{branches} = [ map { {
				$_ && !chance(70) ? () : (when => condition($graph, $step)),
				steps => [ grep { chance(60) } @{ $step->{children} } ] } } 0 .. int rand 2 ];
		}
		draw_block($graph, 'deferred', @ends) if @ends && chance(65);
	}
	elsif ($type eq 'batch')
	{
		$step->{strategy} = one_of(undef, 'fail_fast', 'continue_on_failure', 'isolate', 'continue_on_failure') if chance(80);
		my $worker = add($graph, stem => 'w', type => 'batch_worker', parents => [ $step->{name} ]);

		draw_block($graph, 'deferred', $worker->{name}) if chance(85);
	}
	return $step;
}

# ancestors(GRAPH, STEP): the names of all steps before it
sub ancestors
{
	my ($graph, $step) = @_;
	my (%seen, @left);

	@left = @{ $step->{parents} };
	while (defined(my $name = shift @left))
	{
		next if $seen{$name}++;
		push @left, @{ $graph->{step}{$name}{parents} };
	}
	return sort keys %seen;
}

# condition(GRAPH, STEP): [kind, ...], of what is known when the step begins
sub condition
{
	my ($graph, $step) = @_;
	my @seen = chance(70) ? @{ $step->{parents} } : ancestors($graph, $step);

	return ['broken'] if chance(4);
	return [ 'input', one_of(0 .. 6) ] if !@seen || chance(40);
	return [ 'result', one_of(@seen), one_of(0, 1, 2, 3, 8) ];
}

sub some_payload
{
	my ($graph, $step) = @_;
	my @seen = chance(70) ? @{ $step->{parents} } : ancestors($graph, $step);

	return { x => ['broken'] } if chance(4);
	return {
		n => ['input'],
		list => [ one_of(1, 2, 3), ['nothing'] ],
		@seen ? (of => [ 'result', one_of(@seen) ]) : () };
}

sub some_result
{
	my ($graph, $step, $name, $good) = @_;

	if ($step->{type} eq 'decision')
	{
		return { create => [ grep { chance(60) } @{ $step->{children} } ] } if $good || !chance(8);
		return one_of(undef, 5, { create => ['missing'] }, { made => [] }, { create => 'x' });
	}
	if ($step->{type} eq 'batch')
	{
		return one_of(undef, 5, {}, { batches => 7 }, { batches => [1] }, { total => 5 }, { total => 3, size => 0 }) if !$good && chance(10);
		return { batches => [ map { { cursor => $_, of => $step->{name} } } 1 .. int rand $MEMBERS + 1 ] } if chance(50);
		return { total => int rand 40, size => 7 + int rand 20, max_workers => 1 + int rand $MEMBERS };
	}
	return one_of(undef, 7, [1]) if chance(6);
	return { v => int rand 10, from => $name };
}

# What a worker answers: a list of lists; the last one is used from then on
sub some_answers
{
	my ($graph, $step, $name) = @_;
	my @answers;

	push @answers, [ one_of('retry', 'retry', 'retry', 'reject', 'lose', 'release', $graph->{inner} ? 'reject' : 'suspend') ] while @answers < 3 && chance($graph->{trouble});
	push @answers, chance(6) ? ['filter'] : chance($graph->{trouble} / 3) ? ['reject'] : [ 'complete', some_result($graph, $step, $name) ];
	return \@answers;
}

sub members
{
	my ($step) = @_;
	return map { sprintf '%s_%03d', $step->{name}, $_ } 1 .. 1 + max(6, $MEMBERS);
}

# What a step waits for that no worker does
sub draw_wait
{
	my ($graph, $step) = @_;
	my $name = $step->{name};

	if ($step->{type} eq 'timer')
	{
		$step->{after} = one_of('0 s', '5 ms', '30 ms', '30 ms', undef);
	}
	elsif ($step->{type} eq 'workflow')
	{
		$step->{inner} = draw_graph("$graph->{name}i$name", $graph->{input});
	}
	elsif ($step->{type} eq 'signal' && chance(45))
	{
		$step->{timeout} = one_of('5 ms', '30 ms');
		$step->{on_timeout} = one_of(undef, 'fail', 'complete');
	}
	else
	{
		my $approval = $step->{type} eq 'approval';
		my @payloads = map { { v => int rand 10, from => $name, $approval ? (approved => chance(60) ? \1 : \0) : () } } 1 .. 3;

		$payloads[-1]{approved} = \1 if $approval;
		$graph->{signals}{$name} = \@payloads;
		$graph->{early}{$name} = 1 if chance(30);
	}
	return;
}

# draw_graph(NAME): by rand(); a graph inside another one is small, and nothing
# is done by hand there
sub draw_graph
{
	my ($name, $input) = @_;
	my $graph = { name => $name, steps => [], step => {}, input => $input // { n => int(rand 7) },
		on_failure => one_of(undef, 'continue', 'continue', 'stop'), trouble => one_of(3, 8, 20), hand => $input ? 0 : one_of(0, 50, 90), inner => $input && 1 };
	my $most = $input ? one_of(1, 1, 2, 3) : one_of(3, 6, 8, 10, 12, 12, 14, 20, $MOST - 6);

	draw_block($graph, $input ? 'standard' : one_of(some_type(), some_type(), 'deferred')) while @{ $graph->{steps} } < $most;
	for my $step (@{ $graph->{steps} })
	{
		$step->{when} = condition($graph, $step) if chance(10);
		$step->{queue} = 'mb' if chance(15);
		if (is_passive($step))
		{
			draw_wait($graph, $step);
			$graph->{hands}{ $step->{name} } = some_hands($graph, $step, $step->{name}) if chance($graph->{hand});
			next;
		}
		$step->{payload} = some_payload($graph, $step) if chance(20) && $step->{type} ne 'batch_worker' && !$step->{branches};
		$step->{continues} = 1 if $step->{type} =~ /^(?:standard|deferred)$/ && !($step->{payload} && $step->{payload}{x}) && chance(20);
		$step->{max_attempts} = one_of(1, 2, 2, 5, 5) if chance(30);
		$step->{retryable} = 0 if chance(3);
		$step->{handler} = "do $step->{name}" if chance(30);
		$step->{config} = [ $step->{name} ] if chance(30);
		for my $one ($step->{type} eq 'batch_worker' ? members($step) : $step->{name})
		{
			$graph->{answers}{$one} = some_answers($graph, $step, $one);
			my $excused = $step->{type} eq 'batch_worker' && ($graph->{step}{ $step->{parents}[0] }{strategy} // '') eq 'continue_on_failure';
			$graph->{hands}{$one} = some_hands($graph, $step, $one) if !$excused && chance($graph->{hand});
		}
	}
	return $graph;
}

# What is done by hand each time that the step waits for it; it is too late to
# retry a step for which no other step waits
sub some_hands
{
	my ($graph, $step, $name) = @_;
	my @hands;

	push @hands, ['retry'] for 1 .. ($step->{continues} ? 0 : one_of(0, 1, 1, 2, 4));
	push @hands, [ 'resolve', some_result($graph, $step, $name, 1) ] if !$step->{branches} && chance(50);
	return \@hands;
}

# --- the definition

sub path_text
{
	my ($way) = @_;
	my ($kind, $what, $bound) = @$way;

	return '$.input.n + 1' if $kind eq 'broken';
	return "\$.input.n >= $what" if $kind eq 'input';
	return "\$.results.$what.v >= $bound";
}

sub payload_text
{
	my ($value) = @_;

	return { map { $_ => payload_text($value->{$_}) } keys %$value } if ref $value eq 'HASH';
	return $value if !ref $value;
	my ($kind, $what) = @$value;
	return { '$' => '$.input.n' } if $kind eq 'input';
	return { '$' => '$.input.none' } if $kind eq 'nothing';
	return { '$' => 'strict $.input.none' } if $kind eq 'broken';
	return { '$' => "\$.results.$what" } if $kind eq 'result';
	return [ map { payload_text($_) } @$value ];
}

# definition(GRAPH): what taskq_define_workflow gets
sub definition
{
	my ($graph) = @_;
	my @steps;

	for my $step (@{ $graph->{steps} })
	{
		my %is = (name => "$step->{name}", depends_on => $step->{parents});

		$is{type} = $step->{type} if $step->{type} ne 'standard';
		$is{when} = path_text($step->{when}) if $step->{when};
		$is{payload} = payload_text($step->{payload}) if $step->{payload};
		$is{failure_strategy} = $step->{strategy} if $step->{strategy};
		$is{branches} = [ map { { steps => $_->{steps}, $_->{when} ? (when => path_text($_->{when})) : () } } @{ $step->{branches} } ] if $step->{branches};
		$is{retryable} = \0 if defined $step->{retryable};
		$is{continue_on_failure} = \1 if $step->{continues};
		$is{$_} = $step->{$_} for grep { defined $step->{$_} } qw(queue max_attempts handler config);
		$is{timer} = { after => $step->{after} // { '$' => '$.input.none' } } if $step->{type} eq 'timer';
		$is{workflow} = { name => $step->{inner}{name} } if $step->{inner};
		$is{signal} = { name => "signal $step->{name}", map { defined $step->{$_} ? ($_ => $step->{$_}) : () } qw(timeout on_timeout) }
		  if $step->{type} =~ /^(?:signal|approval)$/;
		push @steps, \%is;
	}
	return { name => $graph->{name}, version => 'v1', queue => 'ma', steps => \@steps,
		$graph->{on_failure} ? (on_failure => $graph->{on_failure}) : () };
}

1;

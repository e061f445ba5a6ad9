# TaskqFlowModel: what a workflow does: a simple model with one thread.
#
# It gets, transaction by transaction in the order of their commits, what
# happened: which steps were claimed, what workers answered and which claims
# were lost, what was done by hand. It returns in which state each step is after
# each transaction, what a worker was given, and what the instance is in the
# end. The answers of workers are laid down by the graph.
package TaskqFlowModel;

use strict;
use warnings;
use TaskqFlowGraphs;

my %ENDED = map { $_ => 1 } qw(done dead cancelled filtered);

sub new
{
	my ($class, $graph) = @_;
	my $self = bless { graph => $graph, steps => {}, choice => {}, made => {}, children => {}, touched => {}, count => {} }, $class;

	for my $step (@{ $graph->{steps} })
	{
		push @{ $self->{children}{$_} }, $step->{name} for @{ $step->{parents} };
	}
	$self->make_what_can_be;
	return $self;
}

# --- which steps there are

sub chosen
{
	my ($self, $decision, $child) = @_;
	my $choice = $self->{choice}{$decision};

	return $choice && (ref $choice eq 'ARRAY' || $choice->{$child});
}

# Is it certain that the step will never exist?
sub never
{
	my ($self, $name) = @_;
	my $step = $self->{graph}{step}{$name};

	return 0 if $self->{made}{$name};
	return scalar grep { $self->never_by(split />/) } @{ $step->{path} } if $step->{type} eq 'deferred';
	return scalar grep { $self->never_by($_, $name) } @{ $step->{parents} };
}

sub never_by
{
	my ($self, $parent, $child) = @_;

	return 1 if $self->never($parent);
	return $self->{graph}{step}{$parent}{type} =~ /^(?:decision|batch)$/ && $self->{choice}{$parent} && !$self->chosen($parent, $child);
}

sub can_be
{
	my ($self, $step) = @_;

	if ($step->{type} eq 'deferred')
	{
		return 0 if grep { !$self->chosen(split />/) } @{ $step->{path} };
		return !grep { !$self->{made}{$_} && !$self->never($_) } @{ $step->{parents} };
	}
	for my $parent (@{ $step->{parents} })
	{
		return 0 if !$self->{made}{$parent};
		return 0 if $self->{graph}{step}{$parent}{type} =~ /^(?:decision|batch)$/ && !$self->chosen($parent, $step->{name});
	}
	return 1;
}

# Parents come before their children in a graph.
sub make_what_can_be
{
	my ($self) = @_;

	return if $self->is_stopped;
	for my $step (@{ $self->{graph}{steps} })
	{
		next if $self->{made}{ $step->{name} } || !$self->can_be($step);
		my @made = $step->{name};
		my @payloads;

		if ($step->{type} eq 'batch_worker')
		{
			@payloads = @{ $self->{choice}{ $step->{parents}[0] } };
			@made = map { sprintf '%s_%03d', $step->{name}, $_ } 1 .. @payloads;
		}
		$self->{made}{ $step->{name} } = \@made;
		for my $name (@made)
		{
			$self->{steps}{$name} = { name => $name, of => $step, attempt => 0, claims => 0, hands => 0, payload => shift @payloads };
			$self->to($self->{steps}{$name}, 'blocked');
			push @{ $self->{look} }, $name;
		}
	}
	return;
}

# --- one step

sub to
{
	my ($self, $one, $state, $reason) = @_;

	$one->{state} = $state;
	$one->{reason} = $reason // ($state eq 'cancelled' ? 'dependency_failed' : '');
	$self->{touched}{ $one->{name} } = 1;
	return;
}

sub strategy
{
	my ($self, $one) = @_;

	return '' if $one->{of}{type} ne 'batch_worker';
	return $self->{graph}{step}{ $one->{of}{parents}[0] }{strategy} // 'fail_fast';
}

sub finished
{
	my ($self, $one) = @_;
	return $one->{state} =~ /^(?:done|filtered)$/ || ($one->{state} eq 'dead' && $self->strategy($one) eq 'continue_on_failure');
}

# Do the steps after it no longer wait for it?
sub passed
{
	my ($self, $one) = @_;
	return $self->finished($one) || ($one->{state} eq 'dead' && $one->{of}{continues});
}

sub is_free
{
	my ($self, $one) = @_;
	return !grep { !$self->passed($self->{steps}{$_}) } map { @{ $self->{made}{$_} // [] } } @{ $one->{of}{parents} };
}

# results(NAME): of a step of the graph, as the steps after it see them; a list
# for members, in which a dead member has an error in place of a result; the
# last returned value is whether there is any
sub result_of
{
	my ($self, $name) = @_;
	my $made = $self->{made}{$name} or return;
	my @made = map { $self->{steps}{$_} } @$made;

	return ([ map { $_->{state} eq 'dead' ? { error => $_->{error} } : $_->{result} } @made ], 1)
	  if $self->{graph}{step}{$name}{type} eq 'batch_worker';
	return ($made[0]{state} ne 'dead' ? $made[0]{result} : $self->passed($made[0]) ? { error => $made[0]{error} } : undef, 1);
}

sub dependency_results
{
	my ($self, $one) = @_;
	my %results;

	for my $name (@{ $one->{of}{parents} })
	{
		my ($result, $is) = $self->result_of($name);
		# a member has its own part as payload, and does not get the parts of others
		$result = { map { $_ => $result->{$_} } grep { $_ ne 'batches' } keys %$result } if $one->{of}{type} eq 'batch_worker' && ref $result eq 'HASH';
		$results{$name} = $result if $is;
	}
	return \%results;
}

# true, false, or 'broken'
sub holds
{
	my ($self, $condition) = @_;
	my ($kind, $what, $bound) = @$condition;

	return 'broken' if $kind eq 'broken';
	return $self->{graph}{input}{n} >= $what if $kind eq 'input';
	my ($result) = $self->result_of($what);
	return scalar grep { ref $_ eq 'HASH' && defined $_->{v} && $_->{v} >= $bound } ref $result eq 'ARRAY' ? @$result : $result;
}

sub payload
{
	my ($self, $value) = @_;

	return { map { $_ => scalar $self->payload($value->{$_}) } keys %$value } if ref $value eq 'HASH';
	return $value if !ref $value;
	my ($kind, $what) = @$value;
	return $self->{graph}{input}{n} if $kind eq 'input';
	return undef if $kind eq 'nothing';    ## no critic (ProhibitExplicitReturnUndef)
	die "broken\n" if $kind eq 'broken';
	return ($self->result_of($what))[0] if $kind eq 'result';
	return [ map { scalar $self->payload($_) } @$value ];
}

# Everything that the step has waited for has ended.
sub release
{
	my ($self, $one) = @_;
	my $step = $one->{of};

	# a step that a worker has had keeps its payload
	return $self->to($one, 'pending') if $one->{claims};
	if ($step->{when})
	{
		my $holds = $self->holds($step->{when});

		return $self->dies($one, 'rejected', 'when: ($."input"."n" + 1): single boolean result is expected') if $holds eq 'broken';
		return $self->ends($one, 'filtered') if !$holds;
	}
	return $self->decides($one) if $step->{branches};
	return $self->waits($one) if is_passive($step);
	$one->{payload} = $self->{graph}{input} if !$step->{payload} && $step->{type} ne 'batch_worker';
	if ($step->{payload})
	{
		my $payload = eval { $self->payload($step->{payload}) };

		return $self->dies($one, 'rejected') if $@;
		$one->{payload} = $payload;
	}
	$self->to($one, 'pending');
	return;
}

# A step that no worker does: what it waits for may have happened before.
sub waits
{
	my ($self, $one) = @_;
	my $step = $one->{of};

	return $self->dies($one, 'rejected') if $step->{type} eq 'timer' && !defined $step->{after};
	return $self->ends($one, 'done') if $step->{type} eq 'timer' && $step->{after} eq '0 s';
	$self->to($one, 'suspended');
	return $self->timed($one) if $self->{over}{ $one->{name} };
	return $self->inner_has_ended($one, ++$one->{inner}) if $step->{type} eq 'workflow';
	return $self->answers($one, delete $self->{early}{ $one->{name} }) if $self->{early}{ $one->{name} };
	return;
}

sub answers
{
	my ($self, $one, $payload) = @_;

	return $self->dies($one, 'rejected') if $one->{of}{type} eq 'approval' && !${ $payload->{approved} };
	return $self->ends($one, 'done', $payload);
}

sub inner_has_ended
{
	my ($self, $one, $n) = @_;
	my $end = $self->{inner}{ $one->{name} }{$n};

	return if !$end || $n != $one->{inner} || $one->{state} ne 'suspended';
	return $self->dies($one, 'dependency_failed') if $end->{state} eq 'error';
	return $self->ends($one, 'done', $end->{result});
}

sub decides
{
	my ($self, $one) = @_;
	my (@create, %seen);

	for my $branch (@{ $one->{of}{branches} })
	{
		my $holds = $branch->{when} ? $self->holds($branch->{when}) : 1;

		return $self->dies($one, 'rejected') if $holds eq 'broken';
		push @create, grep { !$seen{$_}++ } @{ $branch->{steps} } if $holds;
	}
	return $self->ends($one, 'done', { create => \@create });
}

# --- ends

# {child => 1} or a list of members' payloads; nothing for what is not possible
sub choice
{
	my ($self, $one, $result) = @_;
	my $step = $one->{of};

	return [] if $step->{type} eq 'batch' && (!defined $result || (ref $result eq 'HASH' && !%$result));
	return if ref $result ne 'HASH';
	if ($step->{type} eq 'decision')
	{
		return if ref $result->{create} ne 'ARRAY';
		my %may = map { $_ => 1 } @{ $step->{children} };
		return if grep { !$may{$_} } @{ $result->{create} };
		return { map { $_ => 1 } @{ $result->{create} } };
	}
	if (exists $result->{batches})
	{
		return if ref $result->{batches} ne 'ARRAY' || grep { ref $_ ne 'HASH' } @{ $result->{batches} };
		return $result->{batches};
	}
	my ($total, $size, $most) = @$result{qw(total size max_workers)};
	return if !defined $total || !$size;
	my $n = int(($total + $size - 1) / $size);
	$n = $most if defined $most && $most < $n;
	my ($start, @parts) = (0);
	for my $i (1 .. $n)
	{
		my $end = $start + int($total / $n) + ($i <= $total % $n ? 1 : 0);

		push @parts, { index => $i, start => $start, end => $end };
		$start = $end;
	}
	return \@parts;
}

sub ends
{
	my ($self, $one, $state, $result, $reason) = @_;
	my $step = $one->{of};

	if ($step->{type} =~ /^(?:decision|batch)$/)
	{
		my $choice = $state eq 'filtered' ? ($step->{type} eq 'batch' ? [] : {}) : $self->choice($one, $result);

		return $self->dies($one, 'rejected') if !$choice;
		$self->{choice}{ $step->{name} } = $choice;
	}
	$one->{result} = $result;
	$self->to($one, $state, $reason);
	$self->{has_chosen} = 1 if $step->{type} =~ /^(?:decision|batch)$/;
	$self->pass_on($one);
	return;
}

sub pass_on
{
	my ($self, $one) = @_;

	for my $child (@{ $self->{children}{ $one->{of}{name} } // [] })
	{
		push @{ $self->{look} }, @{ $self->{made}{$child} // [] };
	}
	return;
}

# What holds other steps up
sub failed { return grep { $_->{state} eq 'dead' && !$_[0]->passed($_) } values %{ $_[0]{steps} }; }

# May no new step begin?
sub is_stopped
{
	my ($self) = @_;
	return ($self->{graph}{on_failure} // '') eq 'stop' && $self->failed > 0;
}

sub dies
{
	my ($self, $one, $reason, $error) = @_;

	$one->{error} = $error;
	$self->to($one, 'dead', $reason);
	return $self->pass_on($one) if $self->passed($one);
	push @{ $self->{failures} }, $one;
	return;
}

# The steps that have not begun are cancelled: all of them, or those of a batch.
# A step that waits for a signal or a time has not begun, one that waits for an
# inner instance has.
sub cancels
{
	my ($self, $failure) = @_;
	my $stops = $self->is_stopped;

	return if !$stops && $self->strategy($failure) ne 'fail_fast';
	for (grep { $_->{of} == $failure->{of} || $stops } values %{ $self->{steps} })
	{
		$self->to($_, 'cancelled')
		  if ($_->{state} =~ /^(?:blocked|pending)$/ && !$_->{claims})
		  || ($_->{state} eq 'suspended' && $_->{of}{type} =~ /^(?:signal|approval|timer)$/);
	}
	return;
}

# Steps that were cancelled because of a failure are restored when it is
# repaired, and what was chosen in the meantime is created, even if the
# repaired step fails again immediately.
sub comes_back
{
	my ($self) = @_;

	return if $self->is_stopped;
	my %failed = map { $_->{of}{name} => 1 } $self->failed;
	for (sort { $a->{name} cmp $b->{name} } grep { $_->{state} eq 'cancelled' && !$failed{ $_->{of}{name} } } values %{ $self->{steps} })
	{
		$self->to($_, 'blocked');
		push @{ $self->{look} }, $_->{name};
	}
	$self->make_what_can_be;
	return;
}

# What follows from what has happened. Everything that one call ends has ended
# at the same time. What was chosen is created first, if a failure does not
# forbid it, then the steps that no longer wait for anything begin; some of them
# may end immediately, and what follows from that comes next. In the end
# failures are handled.
sub settle
{
	my ($self) = @_;

	while (1)
	{
		$self->make_what_can_be if delete $self->{has_chosen};
		if (my @names = splice @{ $self->{look} // [] })
		{
			my %seen;
			my @free = grep { $_->{state} eq 'blocked' && $self->is_free($_) } map { $self->{steps}{$_} } grep { !$seen{$_}++ } @names;

			$self->release($_) for @free;
		}
		elsif (defined(my $failure = shift @{ $self->{failures} }))
		{
			$self->cancels($failure);
		}
		else
		{
			return;
		}
	}
	return;
}

# --- what happens outside; each dies with a message if it is not possible

sub claimed
{
	my ($self, $one, $attempt) = @_;

	die "was claimed, and is $one->{state}\n" if $one->{state} ne 'pending';
	$one->{attempt}++;
	$one->{claims}++;
	die "is attempt $attempt, and should be $one->{attempt}\n" if $attempt != $one->{attempt};
	$self->to($one, 'running');
	return;
}

# given(STEP): what its claim should have returned
sub given
{
	my ($self, $one) = @_;
	my ($graph, $step) = ($self->{graph}, $one->{of});

	return join ' ', $one->{attempt}, $graph->{name}, $one->{name}, $step->{handler} // '-', defined $step->{config} ? json($step->{config}) : '-',
	  json($graph->{input}), defined $one->{payload} ? json($one->{payload}) : '-', json($self->dependency_results($one));
}

sub most_attempts
{
	my ($one) = @_;
	return 1 if defined $one->{of}{retryable};
	return $one->{of}{max_attempts} // 3;
}

# A worker has ended the claim as laid down.
sub said
{
	my ($self, $one, $outcome) = @_;
	my $answers = $self->{graph}{answers}{ $one->{name} };
	my ($does, $result) = @{ $answers->[ $one->{claims} - 1 ] // $answers->[-1] };

	die "was ended, and is $one->{state}\n" if $one->{state} ne 'running';
	die "said $outcome in place of $does\n" if $outcome ne $does;
	$self->{last} = $does;
	return $self->ends($one, 'done', $result) if $does eq 'complete';
	return $self->ends($one, 'filtered') if $does eq 'filter';
	return $self->dies($one, 'rejected', 'never') if $does eq 'reject';
	if ($does eq 'retry')
	{
		return $self->dies($one, 'exhausted', 'not now') if $one->{attempt} >= most_attempts($one);
		return $self->to($one, 'pending');
	}
	# neither costs an attempt
	$one->{attempt}--;
	$self->to($one, $does eq 'release' ? 'pending' : 'suspended');
	return;
}

# Its worker was lost in some way.
sub lost
{
	my ($self, $one, $reason) = @_;

	die "was lost, and is $one->{state}\n" if $one->{state} ne 'running';
	if ($one->{attempt} >= most_attempts($one))
	{
		die "should be lease_expired or worker_dead\n" if $reason !~ /^(?:lease_expired|worker_dead)$/;
		return $self->dies($one, $reason, $reason eq 'worker_dead' ? 'the worker died' : 'the lease expired');
	}
	$self->to($one, 'pending');
	return;
}

# A signal was sent: it ends a step that waits, or will wait.
sub signalled
{
	my ($self, $name, $n, $answer) = @_;
	my $one = $self->{steps}{$name};
	my $payloads = $self->{graph}{signals}{$name};
	my $payload = $payloads->[ $n - 1 ] // $payloads->[-1];

	die "was not taken, though the step waits\n" if !$answer && $one && $one->{state} =~ /^(?:blocked|suspended)$/ && !$self->{early}{$name};
	die "was taken, and is $one->{state}\n" if $answer && $one && $one->{state} =~ /^(?:done|dead|filtered)$/;
	return if !$answer;
	return $self->answers($one, $payload) if $one && $one->{state} eq 'suspended';
	$self->{early}{$name} = $payload;
	return;
}

# An inner instance has ended; it may have done so when it began.
sub inner_ended
{
	my ($self, $name, $n, $state, $result) = @_;

	$self->{inner}{$name}{$n} = { state => $state, result => $result };
	$self->inner_has_ended($self->{steps}{$name}, $n) if $self->{steps}{$name} && $self->{steps}{$name}{inner};
	return;
}

# Its time has come.
sub timed
{
	my ($self, $one) = @_;

	return if $one->{state} ne 'suspended';
	return $self->ends($one, 'done') if $one->{of}{type} eq 'timer' || ($one->{of}{on_timeout} // '') eq 'complete';
	return $self->dies($one, 'timeout') if defined $one->{of}{timeout};
	return;
}

# What was laid down was done by hand.
sub handed
{
	my ($self, $one, $n, $op) = @_;
	my $hand = $self->{graph}{hands}{ $one->{name} }[ $n - 1 ];

	die "was $op by hand the $n-th time, after $one->{hands}\n" if $n != ++$one->{hands} || !$hand || $hand->[0] ne $op;
	die "was $op by hand, and is $one->{state}\n" if $one->{state} !~ /^(?:dead|suspended)$/;
	$one->{attempt} = 0 if $one->{state} eq 'dead' && $op eq 'retry';
	if ($op eq 'retry')
	{
		$self->to($one, 'blocked');
		push @{ $self->{look} }, $one->{name};
	}
	else
	{
		$one->{by_hand} = 1;
		$self->ends($one, 'done', $hand->[1], 'manual');
	}
	$self->comes_back;
	return;
}

# The steps of the first one's transaction that waited for a time which was over
# before they could begin: where a call takes long.
sub note_over
{
	my ($self, @events) = @_;

	$self->{over} = {};
	for (@events)
	{
		last if $_->{at} ne $events[0]{at};
		$self->{over}{ $_->{step} } = 1
		  if $_->{kind} eq 'move' && $_->{from} eq 'blocked' && $_->{to} eq 'done' && ($self->{graph}{step}{ $_->{step} }{type} // '') eq 'timer';
	}
	return;
}

# replay(EVENTS): the differences from the model. An event is {at, kind, step,
# ...}; those with the same time belong to one transaction, after which each
# step must be in the right state.
sub replay
{
	my ($self, @events) = @_;
	my (@wrong, %is);

	for my $i (0 .. $#events)
	{
		my $event = $events[$i];

		my $more = $i < $#events && $events[ $i + 1 ]{at} eq $event->{at};
		$self->note_over(@events[ $i .. $#events ]) if !$i || $events[ $i - 1 ]{at} ne $event->{at};
		eval {
			$self->happens($event, \%is);
			$self->settle if !$more || !is_end($event) || !is_end($events[ $i + 1 ]);
			1;
		} or push @wrong, "$event->{step} $@";
		next if $more;
		$self->{ended_at} = $event->{at} if !$self->{ended_at} && $self->instance_state =~ /^(?:done|resolved|error)$/;
		for my $name (sort keys %{ $self->{touched} })
		{
			my $one = $self->{steps}{$name};
			my $should = $one ? "$one->{state} $one->{reason}" : 'not there';
			my $is = $is{$name} // 'not there';

			push @wrong, "$name is $is, and should be $should\n" if $is ne $should;
		}
		$self->{touched} = {};
		return map { "at $event->{at}: $_" } @wrong if @wrong;
	}
	return;
}

# Has something ended, maybe together with other steps? A cancelled step follows
# from a failure.
sub is_end
{
	my ($event) = @_;
	return $event->{kind} eq 'inner' || ($event->{kind} eq 'move' && $event->{from} =~ /^(?:running|suspended)$/ && $event->{to} ne 'cancelled');
}

sub happens
{
	my ($self, $event, $is) = @_;
	my $one = $self->{steps}{ $event->{step} };

	if ($event->{kind} eq 'hand')
	{
		return $self->handed($one // die("is not there\n"), $event->{n}, $event->{op}) if $event->{op} ne 'refused';
		die "was refused\n";
	}
	return $self->signalled(@$event{qw(step n op)}) if $event->{kind} eq 'signal';
	return $self->inner_ended(@$event{qw(step n state result)}) if $event->{kind} eq 'inner';
	my ($from, $to, $reason) = @$event{qw(from to reason)};
	my ($was) = split / /, $is->{ $event->{step} } // '';

	die "comes from $from, and was $was\n" if ($was // '') ne $from;
	$is->{ $event->{step} } = "$to $reason";
	$self->{touched}{ $event->{step} } = 1;
	if ($to eq 'running')
	{
		die "is not there\n" if !$one;
		$self->claimed($one, $event->{attempt});
		my $should = $self->given($one);
		die "was given $event->{given}, and should be $should\n" if $event->{given} ne $should;
	}
	elsif ($from eq 'suspended' && $to ne 'cancelled' && $one && is_passive($one->{of}))
	{
		$self->timed($one);
	}
	elsif ($from eq 'running')
	{
		return $event->{said} ne '' ? $self->said($one, $event->{said}) : $self->lost($one, $reason);
	}
	return;
}

# --- in the end

sub instance_state
{
	my ($self) = @_;
	my @steps = values %{ $self->{steps} };
	my $failed = grep { $_->{state} =~ /^(?:dead|cancelled)$/ && !$self->finished($_) } @steps;
	my $goes_on = grep { $_->{state} =~ /^(?:pending|running|suspended)$/ } @steps;

	return $goes_on ? 'blocked_by_failures' : 'error' if $failed;
	return (grep { $_->{by_hand} && $_->{state} eq 'done' } @steps) ? 'resolved' : 'done' if !grep { !$self->finished($_) } @steps;
	return 'running' if grep { $_->{state} =~ /^(?:pending|running)$/ } @steps;
	return 'suspended' if grep { $_->{state} eq 'suspended' && !is_passive($_->{of}) } @steps;
	return 'waiting_for_dependencies';
}

sub instance
{
	my ($self) = @_;
	my @steps = values %{ $self->{steps} };
	my $state = $self->instance_state;
	my $result = $self->result($state);

	return join ' ', $state, $self->steps_total, (scalar grep { $self->finished($_) } @steps), (scalar grep { $_->{state} eq 'dead' && !$self->finished($_) } @steps),
	  (scalar grep { $_->{state} eq 'running' } @steps), defined $result ? json($result) : '-';
}

# A batch that has come to nothing: it has no members, and never will.
sub is_empty
{
	my ($self, $step) = @_;
	my $parts = $step->{type} eq 'batch_worker' && $self->{choice}{ $step->{parents}[0] };

	return $parts && !@$parts;
}

# Shown as a step that will not exist
sub is_skipped
{
	my ($self, $step) = @_;

	return $self->{made}{ $step->{name} } || $self->is_empty($step) || $self->never($step->{name});
}

# All but those that are skipped
sub steps_total
{
	my ($self) = @_;
	my $total = 0;

	for (@{ $self->{graph}{steps} })
	{
		$total += $self->{made}{ $_->{name} } ? @{ $self->{made}{ $_->{name} } } : !$self->is_skipped($_);
	}
	return $total;
}

# The result of the last existing step; of several, an object by their names
sub result
{
	my ($self, $state) = @_;
	my $result;

	if ($state =~ /^(?:done|resolved)$/)
	{
		my @last = grep { !$self->{children}{ $_->{name} } } @{ $self->{graph}{steps} };
		my %results;

		for (@last)
		{
			my ($one, $is) = $self->result_of($_->{name});
			$results{ $_->{name} } = $one if $is && @{ $self->{made}{ $_->{name} } };
		}
		$result = keys %results > 1 ? \%results : (values %results)[0];
	}
	return $result;
}

# steps(): how each is shown, also those that do not exist
sub steps
{
	my ($self) = @_;
	my @shown;

	for my $step (@{ $self->{graph}{steps} })
	{
		if (!@{ $self->{made}{ $step->{name} } // [] })
		{
			push @shown, join ' ', $step->{name}, $self->is_skipped($step) ? 'skipped' : '-';
			next;
		}
		push @shown, map { join ' ', $_, @{ $self->{steps}{$_} }{qw(state)}, json($self->{steps}{$_}{result}) } @{ $self->{made}{ $step->{name} } };
	}
	return @shown;
}

1;

# Chaos::Flow: the rules of Chaos::Rules that are about workflows.
#
# They check what happened to each instance by its template (Chaos::Templates,
# but only as the log has it), by what clients did to its steps, and by the rows
# at the end. How a step that no worker did can have ended follows from its
# parents.
package Chaos::Flow;

use strict;
use warnings;
use JSON::PP;
use List::Util qw(any max min);
use Chaos::History;

use constant FOREVER => Chaos::History::FOREVER;

my %final = map { $_ => 1 } qw(done resolved error cancelled);
my %failed = map { $_ => 1 } qw(dead cancelled redundant recreated);
my $json = JSON::PP->new->canonical->allow_nonref;

sub ok { return Chaos::History::ok(@_); }
sub maybe { return Chaos::History::maybe(@_); }

# --- the contents of templates

sub type { return $_[0]{type} // 'standard'; }

# Is it ended by the server, not by a worker?
sub is_passive
{
	my ($definition) = @_;
	return type($definition) =~ /^(signal|approval|timer|workflow)$/ || defined $definition->{branches};
}

# Is the condition true in that instance?
sub holds
{
	my ($condition, $flow) = @_;
	my ($what, $number) = $condition =~ /^\$\.input\.n (<|>=) (\d+)$/ or die "no such condition: $condition";

	return $what eq '<' ? $flow->{n} < $number : $flow->{n} >= $number;
}

# Microseconds
sub interval { my ($text) = @_; my ($n) = $text =~ /^(\d+) ms$/ or die "no such interval: $text"; return $n * 1000; }

# May a member of that batch fail, and the batch continue?
sub is_excused
{
	my ($h, $flow, $definition) = @_;
	return 0 if type($definition) ne 'batch_worker';
	my $batch = $h->definition_of($flow, $definition->{depends_on}[0]);
	return ($batch->{failure_strategy} // '') eq 'continue_on_failure';
}

# How many members a batch of that result has
sub member_count
{
	my ($result) = @_;
	return scalar @{ $result->{batches} // [] } unless defined $result->{total};
	my $parts = int(($result->{total} + $result->{size} - 1) / $result->{size});
	return min($parts, $result->{max_workers} // $parts);
}

# --- the history of steps

# The first task of a step
sub task_of { my ($h, $flow, $name) = @_; return ($h->{steps}{$flow}{$name} // [])->[0]; }

sub is_finished
{
	my ($h, $flow, $name) = @_;
	my $task = task_of($h, $flow, $name);

	return $task->{state} =~ /^(done|filtered)$/
	  || ($task->{state} eq 'dead' && is_excused($h, $flow, $h->definition_of($flow, $name)));
}

# The existing steps of a name: the step itself, or the members of a batch
sub made
{
	my ($h, $flow, $name) = @_;
	my $steps = $h->{steps}{$flow} // {};

	return $name if $steps->{$name};
	return sort { substr($a, length($name) + 1) <=> substr($b, length($name) + 1) } grep { /^\Q$name\E_\d{3,}$/ } keys %$steps;
}

sub parents
{
	my ($h, $flow, $name) = @_;
	return map { made($h, $flow, $_) } @{ ($h->definition_of($flow, $name) // {})->{depends_on} // [] };
}

sub value { my ($text) = @_; return $json->decode($text); }
sub text { my ($value) = @_; return $json->encode($value); }
sub same { my ($one, $other) = @_; return $one eq $other || text(value($one)) eq text(value($other)); }

# The instances around an instance, the instance itself first
sub around
{
	my ($h, $flow) = @_;
	my @around;

	while ($flow ne '-' && @around < 30)
	{
		push @around, $flow;
		$flow = ($h->{flows}{$flow} // { parent => '-' })->{parent};
	}
	return @around;
}

sub calls { my ($h, $flow, $what) = @_; return grep { $_->{op} eq $what } @{ $h->{flow_calls}{$flow} // [] }; }

sub in_order { return sort { $a <=> $b } @_; }

# --- rules

# The instances inside an instance, the instance itself first
sub within
{
	my ($h, $flow) = @_;
	my @within = ($flow);

	if (!$h->{inside})
	{
		$h->{inside} = {};
		push @{ $h->{inside}{ $_->{parent} } }, $_->{id} for values %{ $h->{flows} };
	}
	for (my $i = 0; $i < @within; $i++)
	{
		push @within, @{ $h->{inside}{ $within[$i] } // [] };
	}
	return @within;
}

# Two instances of one name and key: was the first certainly live all the time
# in which the other one was started? Not after it may have been brought back:
# a retry of a step of an inner instance does that, too.
sub surely_live
{
	my ($h, $flow, $from, $till) = @_;
	my $start = ($h->{starts}{ $flow->{in} } // return 0)->{op};

	return 0 unless ok($start) && $start->{t1} < $from;
	my @within = within($h, $flow->{id});
	return 0 if any { maybe($_) } map { calls($h, $_, 'cancel') } @within;
	return 0 if any { $h->hands_on($_->{id}) } map { map { @$_ } values %{ $h->{steps}{$_} // {} } } @within;
	my @tasks = map { @$_ } values %{ $h->{steps}{ $flow->{id} } // {} };
	return any { ok($_) && $_->{t0} > $till } map { @{ $h->{completions}{ $_->{id} } // [] } } @tasks;
}

# An acknowledged start has created an instance, or has found the instance with
# its key. A start that failed has created no instance. No other instances
# exist.
sub no_loss
{
	my ($h) = @_;
	my (@bad, %made, %of_key);

	push @{ $made{ $_->{in} } }, $_ for grep { $_->{parent} eq '-' } values %{ $h->{flows} };
	push @{ $of_key{"$_->{name} $_->{key}"} }, $_ for grep { $_->{key} ne '-' } values %{ $h->{flows} };
	for my $in (sort keys %{ $h->{starts} })
	{
		my $start = $h->{starts}{$in};
		my @flows = @{ $made{$in} // [] };
		my $told = $start->{sure} ? $h->{flows}{ $start->{op}{id} } : undef;

		push @bad, "instance $in is there " . @flows . ' times' if @flows > 1;
		push @bad, "instance $in is there, but was not started in the end" if @flows && !$start->{may};
		next unless $start->{sure};
		if (!$told) { push @bad, "instance $in (workflow $start->{op}{id}) was acknowledged and is not there"; }
		elsif ($told->{in} eq $in)
		{
			push @bad, "workflow $told->{id} has another template or key than was asked for"
			  if $told->{name} ne $start->{op}{name} || $told->{key} ne $start->{op}{key};
			my ($other) = grep { $_->{id} != $told->{id} && surely_live($h, $_, @{ $start->{op} }{qw(t0 t1)}) } @{ $of_key{"$told->{name} $told->{key}"} // [] };
			push @bad, "workflow $told->{id} was started while $other->{id} had its key" if $other;
		}
		else
		{
			push @bad, "instance $in was answered by workflow $told->{id}, which is another one"
			  if $start->{op}{conflict} ne 'return' || $told->{key} ne $start->{op}{key} || $told->{name} ne $start->{op}{name};
			push @bad, "instance $in was answered by another one, and is there" if @flows;
		}
	}
	for my $flow (map { $h->{flows}{$_} } in_order(keys %{ $h->{flows} }))
	{
		my $from = $flow->{parent} eq '-' ? $h->{starts}{ $flow->{in} } : inner_of($h, $flow);
		push @bad, "workflow $flow->{id} ($flow->{in}) exists, and was never started" unless $from;
	}
	for my $flow (in_order(keys %{ $h->{steps} }))
	{
		push @bad, "there are steps of workflow $flow, and no such instance" unless $h->{flows}{$flow};
	}
	for my $claim (@{ $h->{claims} })
	{
		my ($flow, $step) = Chaos::History::step_of($claim->{key}) or next;
		push @bad, "task $claim->{id} ($claim->{key}) was handed out, and there is no such step" unless task_of($h, $flow, $step);
	}
	return @bad;
}

# The definition of the step that has started an instance
sub inner_of
{
	my ($h, $flow) = @_;
	my $task = $h->{tasks}{ $flow->{via} } // return;
	my ($outer, $step) = Chaos::History::step_of($task->{key}) or return;
	my $definition = $h->definition_of($outer, $step) // return;

	return $outer eq $flow->{parent} && type($definition) eq 'workflow' && $definition->{workflow}{name} eq $flow->{name} ? $definition : undef;
}

# After the drain each instance is in a final state, the one that follows from
# its steps; blocked steps wait for a failed one; a cancel counts.
sub ends
{
	my ($h) = @_;
	my @bad;

	for my $flow (map { $h->{flows}{$_} } in_order(keys %{ $h->{flows} }))
	{
		my $id = $flow->{id};
		my $steps = $h->{steps}{$id} // {};
		my @names = sort keys %$steps;
		my @failed = grep { $failed{ $steps->{$_}[0]{state} } && !is_finished($h, $id, $_) } @names;
		my @blocked = grep { $steps->{$_}[0]{state} eq 'blocked' } @names;
		my $by_hand = any { $steps->{$_}[0]{state} eq 'done' && $steps->{$_}[0]{reason} eq 'manual' } @names;
		my @cancels = map { calls($h, $_, 'cancel') } around($h, $id);
		my $should = @failed ? 'error' : $by_hand ? 'resolved' : 'done';

		if (!$final{ $flow->{state} }) { push @bad, "workflow $id is stuck: $flow->{state}"; next; }
		if ($flow->{state} eq 'cancelled')
		{
			push @bad, "workflow $id is cancelled, and no client has cancelled it" unless any { maybe($_) } @cancels;
			push @bad, map { "workflow $id is cancelled, and $_ is blocked" } @blocked;
			next;
		}
		push @bad, "workflow $id was cancelled, and is $flow->{state}" if any { ok($_) } calls($h, $id, 'cancel');
		push @bad, "workflow $id is $flow->{state}, by its steps it is $should" if $flow->{state} ne $should;
		for my $name (@blocked)
		{
			push @bad, "workflow $id: $name is blocked, and waits for nothing"
			  unless any { !is_finished($h, $id, $_) } parents($h, $id, $name);
		}
	}
	for my $via (in_order(keys %{ $h->{inner} // {} }))
	{
		my ($inner) = sort { $b->{id} <=> $a->{id} } @{ $h->{inner}{$via} };
		my $task = $h->{tasks}{$via} // next;
		push @bad, "workflow $inner->{id} is $inner->{state}, and the step that waits for it $task->{state}"
		  if $inner->{state} =~ /^(done|resolved)$/ && $task->{state} !~ /^(done|cancelled)$/;
	}
	return @bad;
}

# What decides whether a step exists: the first decision or batch before it
sub decider
{
	my ($h, $flow, $definition) = @_;

	for my $name (@{ $definition->{depends_on} // [] })
	{
		my ($parent) = grep { $_->{name} eq $name } @{ $h->template_of($flow)->{steps} };
		my $found = decider($h, $flow, $parent);
		return $found if $found;
		return $parent if type($parent) =~ /^(decision|batch)$/;
	}
	return;
}

# What a completed decision has chosen
sub chosen
{
	my ($h, $flow, $decision) = @_;

	return map { @{ $_->{steps} } } grep { !defined $_->{when} || holds($_->{when}, $h->{flows}{$flow}) } @{ $decision->{branches} }
	  if $decision->{branches};
	return @{ value(task_of($h, $flow, $decision->{name})->{result})->{create} // [] };
}

# The names under which a step of the template should be there
sub should_be
{
	my ($h, $flow, $definition) = @_;
	my $decider = decider($h, $flow, $definition) // return $definition->{name};
	my $task = task_of($h, $flow, $decider->{name});
	my $name = $definition->{name};

	return unless $task && $task->{state} eq 'done';
	return map { sprintf '%s_%03d', $name, $_ } 1 .. member_count(value($task->{result})) if type($definition) eq 'batch_worker';
	return $name if type($definition) eq 'deferred';
	return (grep { $_ eq $name } chosen($h, $flow, $decider)) ? $name : () if grep { $_ eq $decider->{name} } @{ $definition->{depends_on} };
	for my $parent (@{ $definition->{depends_on} })
	{
		my ($of) = grep { $_->{name} eq $parent } @{ $h->template_of($flow)->{steps} };
		return unless should_be($h, $flow, $of);
	}
	return $name;
}

# Each step that should exist does, once, and no other one; a step that a
# condition forbids was not done.
sub steps
{
	my ($h) = @_;
	my @bad;

	for my $flow (in_order(keys %{ $h->{flows} }))
	{
		my $template = $h->template_of($flow);
		my $steps = $h->{steps}{$flow} // {};
		my (%should, %skipped, %late);

		if (!$template) { push @bad, "workflow $flow has no template that we know"; next; }
		for my $definition (@{ $template->{steps} })
		{
			my @names = should_be($h, $flow, $definition);
			my $decider = @names ? undef : decider($h, $flow, $definition);
			my $settled = $decider && task_of($h, $flow, $decider->{name});
			$should{$_} = 1 for @names;
			# the steps of a decision do not exist if the instance has been
			# cancelled
			$late{$_} = 1 for $h->{flows}{$flow}{state} eq 'cancelled' && decider($h, $flow, $definition) ? (@names, $definition->{name}) : ();
			$skipped{ $definition->{name} } = 1 if $settled && $settled->{state} eq 'done';
		}
		push @bad, map { "workflow $flow: step $_ is missing" } grep { !$steps->{$_} && !$late{$_} } sort keys %should;
		push @bad, map { "workflow $flow: step $_ should not be there" } grep { !$should{$_} } sort keys %$steps;
		push @bad, map { "workflow $flow: step $_ is there " . @{ $steps->{$_} } . ' times' } grep { @{ $steps->{$_} } > 1 } sort keys %$steps;
		push @bad, map { "workflow $flow: step $_ is not told to be skipped" } grep { !$h->{skipped}{$flow}{$_} && !$late{$_} } sort keys %skipped;
		push @bad, map { "workflow $flow: step $_ is told to be skipped" } grep { !$skipped{$_} && !$late{$_} } sort keys %{ $h->{skipped}{$flow} // {} };
		for my $name (sort keys %$steps)
		{
			my $when = ($h->definition_of($flow, $name) // {})->{when};
			my $state = $steps->{$name}[0]{state};
			my $true = !defined $when || holds($when, $h->{flows}{$flow});
			push @bad, "workflow $flow: step $name is done, and its condition is false" if $state eq 'done' && !$true && !$h->hands_on($steps->{$name}[0]{id}, 'resolve');
			push @bad, "workflow $flow: step $name is filtered, and its condition is true" if $state eq 'filtered' && $true;
		}
	}
	return @bad;
}

# Before that time a step certainly had not begun: its parents had not ended, or
# its instance had not been started.
sub earliest_begin
{
	my ($h, $flow, $name) = @_;

	return $h->{earliest_begin}{"$flow/$name"} //= do
	{
		my @parents = parents($h, $flow, $name);
		my $row = $h->{flows}{$flow};
		my $start = ($h->{starts}{ $row->{in} } // {})->{op};
		my $outer = $h->{tasks}{ $row->{via} };
		my $time = 0;

		if ($outer) { $time = earliest_begin($h, Chaos::History::step_of($outer->{key})); }
		elsif ($start) { $time = $start->{t0} + ($start->{delay} // 0) - $h->slack; }
		max($time, map { earliest_end($h, $flow, $_) } @parents);
	};
}

# Before that time a step certainly had not ended so that others could begin
sub earliest_end
{
	my ($h, $flow, $name) = @_;

	return $h->{earliest_end}{"$flow/$name"} //= do
	{
		my $task = task_of($h, $flow, $name);
		my $begin = earliest_begin($h, $flow, $name);
		my $definition = $h->definition_of($flow, $name) // {};
		my @ways = map { $_->{t0} } $h->hands_on($task->{id}, 'resolve');

		if (!is_finished($h, $flow, $name)) { FOREVER; }
		# filtered; or it has died before, and the others continued without it
		elsif ($task->{state} ne 'done' || (is_excused($h, $flow, $definition) && $h->hands_on($task->{id}))) { $begin; }
		else
		{
			push @ways, passive_end($h, $flow, $task, $definition, $begin) if is_passive($definition);
			push @ways, map { $_->{t0} } grep { maybe($_) } @{ $h->{completions}{ $task->{id} } // [] };
			max($begin, min(@ways) // 0);
		}
	};
}

# The same for a step that no worker has ended
sub passive_end
{
	my ($h, $flow, $task, $definition, $begin) = @_;
	my @ways;

	return $begin if defined $definition->{branches};
	return $begin + interval($definition->{timer}{after}) - $h->slack if type($definition) eq 'timer';
	if (type($definition) eq 'signal')
	{
		my $signal = $definition->{signal};
		push @ways, map { $_->{t0} } grep { maybe($_) } calls($h, $flow, 'signal');
		push @ways, $begin + interval($signal->{timeout}) - $h->slack if ($signal->{on_timeout} // '') eq 'complete';
	}
	for my $inner (@{ $h->{inner}{ $task->{id} } // [] })
	{
		push @ways, max(map { earliest_end($h, $inner->{id}, $_) } sort keys %{ $h->{steps}{ $inner->{id} } // {} })
		  if $inner->{state} =~ /^(done|resolved)$/;
	}
	return @ways;
}

# A step is claimed only when all steps on which it depends have ended, at
# the time of its instance, and not after that was cancelled.
sub order
{
	my ($h) = @_;
	my @bad;

	for my $claim (@{ $h->{claims} })
	{
		my ($flow, $step) = Chaos::History::step_of($claim->{key}) or next;
		next unless $h->{flows}{$flow} && task_of($h, $flow, $step);
		my $too_early = earliest_begin($h, $flow, $step) - $claim->{t1};
		my ($open) = grep { earliest_end($h, $flow, $_) == FOREVER } parents($h, $flow, $step);
		my ($cancel) = grep { ok($_) && $_->{t1} < $claim->{t0} } map { calls($h, $_, 'cancel') } around($h, $flow);

		push @bad, "workflow $flow: $step was handed out, and $open has never ended" if $open;
		push @bad, "workflow $flow: $step was handed out $too_early us too early" if $too_early > 0 && !$open;
		push @bad, "workflow $flow: $step was handed out when workflow $cancel->{flow} had been cancelled" if $cancel;
	}
	return @bad;
}

# The possible result of a completed step, as JSON; an empty list if it is unknown
sub possible_results
{
	my ($h, $flow, $task, $definition) = @_;
	my @completions = @{ $h->{completions}{ $task->{id} } // [] };
	my @sure = grep { ok($_) } @completions;
	my @results = map { $_->{result} } $h->hands_on($task->{id}, 'resolve');

	return map { $_->{result} } @sure if @sure;
	push @results, map { $_->{result} } grep { maybe($_) } @completions;
	push @results, map { $_->{result} } @{ $h->{inner}{ $task->{id} } // [] } if type($definition) eq 'workflow';
	push @results, map { "{\"n\":$_->{v}}" } grep { maybe($_) } calls($h, $flow, 'signal') if type($definition) eq 'signal';
	push @results, 'null' if type($definition) eq 'timer' || ($definition->{signal} // {})->{on_timeout};
	return defined $definition->{branches} ? () : @results;
}

# The result that a step gets from a step on which it depends; an empty list if it
# is unknown
sub told_of
{
	my ($h, $flow, $name, $told) = @_;
	my $task = task_of($h, $flow, $name);

	return $told if $h->hands_on($task->{id}) && is_excused($h, $flow, $h->definition_of($flow, $name));
	return ref $told eq 'HASH' && exists $told->{error} ? $told : 'an error' if $task->{state} eq 'dead';
	return value($task->{result});
}

# The results and the payload that a claim returned are right.
sub told_wrongly
{
	my ($h, $flow, $name, $told) = @_;
	my $definition = $h->definition_of($flow, $name);
	my $deps = value($told->{deps});
	my $payload = value($told->{payload});
	my (%should, @bad);

	for my $parent (@{ $definition->{depends_on} // [] })
	{
		my ($of) = grep { $_->{name} eq $parent } @{ $h->template_of($flow)->{steps} };
		my @made = made($h, $flow, $parent);
		my $given = ref $deps eq 'HASH' ? $deps->{$parent} : undef;

		if (type($of) eq 'batch_worker')
		{
			$should{$parent} = [ map { told_of($h, $flow, $made[$_], ref $given eq 'ARRAY' ? $given->[$_] : undef) } 0 .. $#made ];
		}
		elsif (@made) { $should{$parent} = told_of($h, $flow, $parent, $given); }
	}
	# a member has its own part as payload, and does not get the parts of others
	if (type($definition) eq 'batch_worker' && ref $should{ $definition->{depends_on}[0] } eq 'HASH')
	{
		my %batch = %{ $should{ $definition->{depends_on}[0] } };
		delete $batch{batches};
		$should{ $definition->{depends_on}[0] } = \%batch;
	}
	push @bad, "results $told->{deps} instead of " . text(\%should) if text($deps) ne text(\%should);
	if (type($definition) eq 'batch_worker')
	{
		push @bad, "payload $told->{payload}" unless is_part($h, $flow, $definition, $name, $payload);
	}
	elsif ($definition->{payload})
	{
		my %filled = map { $_ => value(task_of($h, $flow, ($definition->{payload}{$_}{'$'} =~ /^\$\.results\.(\w+)$/)[0])->{result}) } keys %{ $definition->{payload} };
		push @bad, "payload $told->{payload} instead of " . text(\%filled) if text($payload) ne text(\%filled);
	}
	elsif (ref $payload ne 'HASH' || ($payload->{key} // '') ne $h->{flows}{$flow}{in}) { push @bad, "payload $told->{payload}"; }
	return @bad;
}

# Is that the payload of that member?
sub is_part
{
	my ($h, $flow, $definition, $name, $payload) = @_;
	my $result = value(task_of($h, $flow, $definition->{depends_on}[0])->{result});
	my ($number) = $name =~ /_(\d+)$/;

	return text($payload) eq text($result->{batches}[ $number - 1 ]) unless defined $result->{total};
	my $count = member_count($result);
	my ($low, $high) = (int($result->{total} / $count), int(($result->{total} + $count - 1) / $count));
	my ($index, $start, $end) = @$payload{qw(index start end)};
	return 0 if $index != $number || $end - $start < $low || $end - $start > $high;
	return 0 if $start < ($number - 1) * $low || $start > ($number - 1) * $high;
	return ($number > 1 || $start == 0) && ($number < $count || $end == $result->{total});
}

# Results are those that a worker gave; claims return them; and the result of an
# instance is that of its last steps.
sub results
{
	my ($h) = @_;
	my @bad;

	for my $flow (map { $h->{flows}{$_} } in_order(keys %{ $h->{flows} }))
	{
		my $id = $flow->{id};
		my $steps = $h->{steps}{$id} // {};

		for my $name (sort keys %$steps)
		{
			my $task = $steps->{$name}[0];
			my $definition = $h->definition_of($id, $name) // next;
			next if $task->{state} ne 'done';
			my @possible = possible_results($h, $id, $task, $definition);
			push @bad, "workflow $id: the result of $name is $task->{result}, and not one of @possible"
			  if @possible && !any { same($_, $task->{result}) } @possible;
		}
		next unless $flow->{state} =~ /^(done|resolved)$/ && $h->template_of($id);
		my %parent = map { $_ => 1 } map { @{ $_->{depends_on} // [] } } @{ $h->template_of($id)->{steps} };
		my @last = grep { $steps->{$_} } grep { !$parent{$_} } map { $_->{name} } @{ $h->template_of($id)->{steps} };
		my %results = map { $_ => value($steps->{$_}[0]{result}) } @last;
		my $should = @last == 1 ? $results{ $last[0] } : @last ? \%results : undef;
		push @bad, "workflow $id: its result is $flow->{result}, and not " . text($should) if text(value($flow->{result})) ne text($should);
	}
	for my $claim (@{ $h->{claims} })
	{
		my ($flow, $name) = Chaos::History::step_of($claim->{key}) or next;
		my $told = $h->{told}{"$claim->{id} $claim->{token}"} // next;
		next unless $h->{flows}{$flow} && task_of($h, $flow, $name) && $h->definition_of($flow, $name);
		# otherwise no claim should have returned it
		next if any { !is_finished($h, $flow, $_) } parents($h, $flow, $name);
		push @bad, map { "workflow $flow: $name was told $_" } told_wrongly($h, $flow, $name, $told);
	}
	return @bad;
}

# Of the signals of an instance the first one counts, and no other; a step that
# was retried waits for another signal.
sub signals
{
	my ($h) = @_;
	my @bad;

	for my $flow (in_order(keys %{ $h->{flow_calls} // {} }))
	{
		my $task = task_of($h, $flow, 'signal') // next;
		my @calls = calls($h, $flow, 'signal');
		my @first = grep { ok($_) && $_->{said} eq 't' } @calls;
		my @retries = $h->hands_on($task->{id}, 'retry');
		my $definition = $h->definition_of($flow, 'signal') // next;

		push @bad, "workflow $flow: " . @first . ' signals were the first' if @first > 1 + @retries;
		next if @retries || $h->hands_on($task->{id}) || any { maybe($_) } map { calls($h, $_, 'cancel') } around($h, $flow);
		push @bad, "workflow $flow: a signal was the first, and its step is dead" if @first && $task->{state} eq 'dead';
		push @bad, "workflow $flow: the signal with $first[0]{v} was the first, and the result is $task->{result}"
		  if @first && $task->{state} eq 'done' && !same($task->{result}, "{\"n\":$first[0]{v}}");
		next if $definition->{signal}{timeout};
		for my $late (grep { ok($_) && $_->{said} eq 'f' } @calls)
		{
			push @bad, "workflow $flow: the signal with $late->{v} was not the first, and there was none before it"
			  unless any { maybe($_) && $_ != $late && $_->{t0} < $late->{t1} } @calls;
		}
	}
	return @bad;
}

1;

# Chaos::Rules: the rules, one function each; two that are about time are in
# Chaos::Liveness, those about workflows in Chaos::Flow. A step of a workflow is
# a task, and the rules about tasks hold for it, too.
#
# Each takes a history (Chaos::History) and returns the violations as texts.
# Only what is wrong whatever the outcome of the unknown operations is a
# violation, so that each one is a defect. "Certainly" below means: for every
# possible outcome.
package Chaos::Rules;

use strict;
use warnings;
use List::Util qw(any max min);
use Chaos::Flow;
use Chaos::History;
use Chaos::Liveness;

use constant FOREVER => Chaos::History::FOREVER;

our @rules = (
	[ 1, 'no loss', \&no_loss ],
	[ 2, 'no phantom', \&no_phantom ],
	[ 3, 'atomic with the caller', \&atomic ],
	[ 4, 'one end', \&one_end ],
	[ 5, 'one completion', \&one_completion ],
	[ 6, 'exactly-once effects', \&effects_once ],
	[ 7, 'one owner', \&one_owner ],
	[ 8, 'fencing', \&fencing ],
	[ 9, 'attempts', \&attempts ],
	[ 10, 'no redelivery after completion', \&no_redelivery ],
	[ 11, 'delays', \&delays ],
	[ 12, 'priority', \&priority ],
	[ 13, 'bounded recovery', \&bounded_recovery ],
	[ 14, 'server', \&server ],
	[ 15, 'limits', \&limits ],
	[ 16, 'no lost wake-up', \&Chaos::Liveness::no_lost_wake ],
	[ 17, 'bound workers', \&Chaos::Liveness::bound_workers ],
	[ 18, 'the audit finds nothing', \&audit ],
	[ 19, 'taskq_check is silent', \&check ],
	[ 20, 'order of a key', \&order_of_key ],
	[ 21, 'groups', \&groups ],
	[ 22, 'no instance lost', \&Chaos::Flow::no_loss ],
	[ 23, 'instances end', \&Chaos::Flow::ends ],
	[ 24, 'each step once', \&Chaos::Flow::steps ],
	[ 25, 'order of steps', \&Chaos::Flow::order ],
	[ 26, 'results are carried', \&Chaos::Flow::results ],
	[ 27, 'signals', \&Chaos::Flow::signals ]);

my %finished = map { $_ => 1 } qw(done dead cancelled filtered redundant recreated);

sub ok { return Chaos::History::ok(@_); }
sub maybe { return Chaos::History::maybe(@_); }

# An acknowledged task is stored exactly once, under the id that was given;
# or it was done and its queue keeps no finished tasks.
sub no_loss
{
	my ($h) = @_;
	my @bad;

	for my $key (sort keys %{ $h->{submits} })
	{
		my $submit = $h->{submits}{$key};
		my @stored = @{ $h->{stored}{$key} // [] };

		push @bad, "key $key is stored " . @stored . ' times' if @stored > 1;
		next unless $submit->{sure};
		if (@stored == 0)
		{
			next if $h->leaves_nothing($submit->{op}{q}) && $h->maybe_completed($submit->{id});
			push @bad, "key $key (task $submit->{id}) was acknowledged and is not there";
		}
		elsif ($stored[0]{id} != $submit->{id})
		{
			push @bad, "key $key was acknowledged as task $submit->{id} and is stored as $stored[0]{id}";
		}
	}
	return @bad;
}

# A step of a workflow?  Its instance answers for it.
sub is_step { return Chaos::History::step_of($_[0]{key}) ? 1 : 0; }

# What was refused, rolled back or never submitted is neither stored nor handed
# out.
sub no_phantom
{
	my ($h) = @_;
	my @bad;

	for my $task (grep { !is_step($_) } @{ $h->{task_rows} // [] })
	{
		my $submit = $h->{submits}{ $task->{key} };
		push @bad, "task $task->{id} (key $task->{key}) is stored, but was "
		  . ($submit ? 'not submitted in the end' : 'never submitted')
		  unless $submit && $submit->{may};
	}
	for my $claim (grep { !is_step($_) } @{ $h->{claims} })
	{
		my $submit = $h->{submits}{ $claim->{key} };
		push @bad, "task $claim->{id} (key $claim->{key}) was handed out, but never submitted"
		  unless $submit && $submit->{may};
	}
	return @bad;
}

# The row in the outbox is there exactly if the task is, or was, or the instance is.
sub atomic
{
	my ($h) = @_;
	my @bad;
	my %was = map { $_->{key} => 1 } @{ $h->{claims} };

	for my $key (sort keys %{ $h->{submits} })
	{
		my $submit = $h->{submits}{$key};
		my $rows = $h->{outbox}{$key} // 0;
		my $stored = @{ $h->{stored}{$key} // [] };

		next if defined $submit->{op}{box}; # without one: taskq_call commits by itself
		push @bad, "key $key has $rows rows in the outbox" if $rows > 1;
		push @bad, "key $key is a task without its row in the outbox" if !$rows && ($stored || $was{$key});
		next if !$rows || $stored;

		# done without a row: a worker had it, and may have completed it
		next if $h->leaves_nothing($submit->{op}{q}) && (!$submit->{id} || $h->maybe_completed($submit->{id}));
		push @bad, "key $key has a row in the outbox, but there is no task";
	}
	my %flow = map { $_->{in} => 1 } grep { $_->{parent} eq '-' } values %{ $h->{flows} };
	for my $in (sort keys %{ $h->{starts} })
	{
		my $rows = $h->{outbox}{$in} // 0;

		push @bad, "instance $in has $rows rows in the outbox" if $rows > 1;
		push @bad, "instance $in is there without its row in the outbox" if $flow{$in} && !$rows;
		push @bad, "instance $in has a row in the outbox, and is not there" if $rows && !$flow{$in};
	}
	for my $key (sort keys %{ $h->{outbox} })
	{
		push @bad, "the outbox has key $key, which was never submitted" unless $h->{submits}{$key} || $h->{starts}{$key};
	}
	return @bad;
}

# After the drain every task is in one final state. (Rule 23 checks the blocked
# steps.)
sub one_end
{
	my ($h) = @_;
	my @bad;

	for my $task (@{ $h->{task_rows} // [] })
	{
		push @bad, "task $task->{id} is stuck: $task->{state}, attempt $task->{attempt}, queue $task->{q}"
		  unless $finished{ $task->{state} } || ($task->{state} eq 'blocked' && is_step($task));
	}
	for my $id (sort { $a <=> $b } keys %{ $h->{task_of_id} // {} })
	{
		my $n = @{ $h->{task_of_id}{$id} };
		push @bad, "task $id is there $n times" if $n > 1;
	}
	return @bad;
}

# May a step be done without a worker's completion? By hand; or no worker does
# it.
sub ends_otherwise
{
	my ($h, $task) = @_;
	my $definition = is_step($task) ? $h->definition_of(Chaos::History::step_of($task->{key})) : undef;

	return $h->hands_on($task->{id}, 'resolve') || ($definition && Chaos::Flow::is_passive($definition));
}

# A change by id and version holds after the end of the lease, until another
# worker claims the task.
sub deleted_by_former_owner
{
	my ($task, @ops) = @_;

	return $task->{state} eq 'cancelled' && $task->{reason} eq 'deleted' && any { ($_->{by} // '') eq 'change' } @ops;
}

# At most one accepted completion; accepted = done = a worker completed it, and
# a session that waited for the end got the right one.
sub one_completion
{
	my ($h) = @_;
	my @bad;

	for my $id (sort { $a <=> $b } keys %{ $h->{completions} // {} })
	{
		my @accepted = grep { ok($_) } @{ $h->{completions}{$id} };
		my $task = $h->{tasks}{$id};

		push @bad, "task $id was completed " . @accepted . ' times' if @accepted > 1;
		next unless @accepted;
		if (!$task)
		{
			push @bad, "task $id was completed and is not there" unless $h->leaves_nothing($accepted[0]{q});
		}
		elsif ($task->{state} ne 'done' && !deleted_by_former_owner($task, @accepted))
		{
			push @bad, "task $id was completed, but is $task->{state}";
		}
	}
	for my $task (@{ $h->{task_rows} // [] })
	{
		push @bad, "task $task->{id} is done, but no worker completed it"
		  if $task->{state} eq 'done' && !$h->maybe_completed($task->{id}) && !ends_otherwise($h, $task);
	}
	for my $op (grep { $_->{op} =~ /^(await|call)$/ && ok($_) } @{ $h->{ops} })
	{
		my $id = $op->{id} // $op->{ids};
		my $task = $h->{tasks}{$id} // next;
		push @bad, "$op->{process} was told that task $id is $op->{state}, and it is $task->{state}"
		  if ($finished{ $op->{state} } || $op->{state} eq 'null') && $op->{state} ne $task->{state};
	}
	return @bad;
}

# Completed together with an effect: done exactly if there is one effect; no
# effect of an answer that was refused or rolled back.
sub effects_once
{
	my ($h) = @_;
	my @bad;

	for my $id (sort { $a <=> $b } keys %{ $h->{effects} })
	{
		my $count = 0;
		for my $token (keys %{ $h->{effects}{$id} })
		{
			$count += $h->{effects}{$id}{$token};
			push @bad, "task $id has an effect under token $token, whose completion did not happen"
			  unless grep { maybe($_) && $_->{op} eq 'complete' && $_->{effect} }
			  @{ $h->{answers}{"$id $token"} // [] };
		}
		push @bad, "task $id has $count effects" if $count > 1;
	}
	for my $id (sort { $a <=> $b } keys %{ $h->{completions} // {} })
	{
		my @maybe = grep { maybe($_) } @{ $h->{completions}{$id} };
		my @sure = grep { ok($_) } @maybe;
		my $effect = $h->{effects}{$id};
		my $task = $h->{tasks}{$id};

		next unless @maybe;
		if (!grep { !$_->{effect} } @maybe)
		{
			# a task that left nothing is done, or its queue was dropped
			my $done = $task ? $task->{state} eq 'done' || deleted_by_former_owner($task, @maybe) : $h->leaves_nothing($maybe[0]{q});
			push @bad, "task $id is done, but its effect is missing" if $done && !$effect && !$h->hands_on($id, 'resolve');
			push @bad, "task $id is not done, but has an effect" if $effect && !$done;
		}
		elsif (@sure && !$sure[0]{effect} && $effect)
		{
			push @bad, "task $id was completed without an effect, but has one";
		}
	}
	return @bad;
}

# Two claims of a task are never certainly alive at the same time, and none lies
# inside the certain life of another.
sub one_owner
{
	my ($h) = @_;
	my @bad;

	for my $id (sort { $a <=> $b } keys %{ $h->{claims_of} // {} })
	{
		my @claims = @{ $h->{claims_of}{$id} };

		for my $i (0 .. $#claims)
		{
			my $one = $claims[$i];
			next if $one->{until} <= $one->{from};
			for my $j (0 .. $#claims)
			{
				my $other = $claims[$j];
				next if $i == $j;
				my $inside = $other->{t0} >= $one->{from} && $other->{t1} <= $one->{until};
				my $together = $j > $i
				  && max($one->{from}, $other->{from}) < min($one->{until}, $other->{until});
				push @bad, "task $id: token $one->{token} of $one->{w} was alive while $other->{w} got token $other->{token}"
				  if $inside || $together;
			}
		}
	}
	return @bad;
}

# No answer counts that was sent after another claim of the task had been
# answered; tokens increase; no pair of task and token is used twice.
sub fencing
{
	my ($h) = @_;
	my @bad;

	for my $id (sort { $a <=> $b } keys %{ $h->{claims_of} // {} })
	{
		my @claims = @{ $h->{claims_of}{$id} };
		my %seen;

		for my $claim (@claims)
		{
			push @bad, "task $id was given out twice under token $claim->{token}" if $seen{ $claim->{token} }++;
		}
		for my $i (0 .. $#claims)
		{
			my $claim = $claims[$i];
			my @later = grep { $_->{t0} > $claim->{t1} } @claims[ $i + 1 .. $#claims ];

			for my $other (@later)
			{
				push @bad, "task $id: token $other->{token} was given out after $claim->{token}"
				  if $other->{token} < $claim->{token};
			}
			my $taken = min(map { $_->{t1} } grep { $_->{token} > $claim->{token} } @claims);
			next unless defined $taken;
			for my $answer (@{ $h->{answers}{"$id $claim->{token}"} // [] })
			{
				push @bad, "task $id: $answer->{op} under the stale token $claim->{token} was accepted"
				  if ok($answer) && $answer->{t0} > $taken;
			}
		}
	}
	return @bad;
}

# The maximum of attempts of a task: its own, or that of its queue; -1: no
# limit
sub max_attempts
{
	my ($h, $key, $queue) = @_;
	my ($flow, $step) = Chaos::History::step_of($key);
	if ($flow)
	{
		my $definition = $h->definition_of($flow, $step) // {};
		return 1 if exists $definition->{retryable} && !$definition->{retryable};
		return $definition->{max_attempts} || ($h->{queues}{$queue} // {})->{max} || -1;
	}
	my $op = ($h->{submits}{$key} // {})->{op} // {};
	return $op->{max} || ($h->{queues}{ $op->{q} // '' } // {})->{max} || -1;
}

# May one of these operations have come between two claims?
sub met
{
	my ($ops, $claim, $next) = @_;
	return scalar grep { $_->{t0} < $next->{t1} && $_->{t1} > $claim->{t0} } @$ops;
}

# Never more attempts than allowed; their numbers increase; dead for lack of
# attempts only when they are used up.
sub attempts
{
	my ($h) = @_;
	my @bad;
	my %costs = map { $_ => 1 } qw(exhausted timeout lease_expired worker_dead);

	for my $id (sort { $a <=> $b } keys %{ $h->{claims_of} // {} })
	{
		my @claims = @{ $h->{claims_of}{$id} };
		my $max = max_attempts($h, @{ $claims[0] }{qw(key q)});
		my $paid = grep { !$h->maybe_free($_) } @claims;
		my @retries = $h->hands_on($id, 'retry');    # each gives it all attempts once more

		push @bad, "task $id was handed out $paid times, with $max attempts" if $max > 0 && $paid > $max * (1 + @retries);
		for my $i (0 .. $#claims)
		{
			my $claim = $claims[$i];
			push @bad, "task $id: attempt $claim->{attempt} of $max" if $max > 0 && $claim->{attempt} > $max;
			push @bad, "task $id: attempt $claim->{attempt}" if $claim->{attempt} < 1;
			my ($next) = grep { $_->{t0} > $claim->{t1} } @claims[ $i + 1 .. $#claims ];
			next if !$next || met(\@retries, $claim, $next);
			push @bad, "task $id: attempt $next->{attempt} came after attempt $claim->{attempt}"
			  if $next->{attempt} < $claim->{attempt} + ($h->maybe_free($claim) ? 0 : 1);
		}
	}
	for my $task (@{ $h->{task_rows} // [] })
	{
		my $max = max_attempts($h, @$task{qw(key q)});
		push @bad, "task $task->{id} ended at attempt $task->{attempt} of $max"
		  if $max > 0 && $task->{attempt} > $max;
		# a step that waits for a signal makes no attempts
		next if $task->{reason} eq 'timeout' && ends_otherwise($h, $task);
		push @bad, "task $task->{id} is dead ($task->{reason}) at attempt $task->{attempt} of $max"
		  if $task->{state} eq 'dead' && $costs{ $task->{reason} } && ($max < 0 || $task->{attempt} < $max);
	}
	return @bad;
}

# After an accepted completion the task is not claimed again.
sub no_redelivery
{
	my ($h) = @_;
	my @bad;

	for my $id (sort { $a <=> $b } keys %{ $h->{completions} // {} })
	{
		for my $done (grep { ok($_) } @{ $h->{completions}{$id} })
		{
			for my $claim (@{ $h->{claims_of}{$id} // [] })
			{
				push @bad, "task $id was completed under token $done->{token} and handed out again under $claim->{token}"
				  if $claim->{token} > $done->{token} || $claim->{t0} > $done->{t1};
			}
		}
	}
	return @bad;
}

# No claim before the task's time, and none before the wait after a failure
# or a release is over.
sub delays
{
	my ($h) = @_;
	my @bad;

	for my $claim (@{ $h->{claims} })
	{
		my $op = ($h->{submits}{ $claim->{key} } // {})->{op};
		my $early = $op ? $op->{t0} + ($op->{delay} // 0) - $h->slack - $claim->{t1} : 0;

		push @bad, "task $claim->{id} was handed out $early us before its time" if $early > 0;
		for my $answer (grep { ok($_) } @{ $h->{answers}{"$claim->{id} $claim->{token}"} // [] })
		{
			my $wait =
			    $answer->{op} eq 'release' ? $answer->{delay}
			  : $answer->{op} ne 'fail' || !$answer->{retryable} ? next
			  : $answer->{retry_in} >= 0 ? $answer->{retry_in}
			  : $h->backoff($claim->{q}, $claim->{attempt});

			for my $next (grep { $_->{token} > $claim->{token} } @{ $h->{claims_of}{ $claim->{id} } })
			{
				next if met([ $h->hands_on($claim->{id}, 'retry') ], $claim, $next);
				my $too_early = $answer->{t0} + $wait - $h->slack - $next->{t1};
				push @bad, "task $claim->{id} was handed out $too_early us before its wait after $answer->{op} was over"
				  if $too_early > 0;
			}
		}
	}
	return @bad;
}

sub tags_fit
{
	my ($some, $all) = @_;
	my %has = map { $_ => 1 } Chaos::History::words($all);

	return !grep { !$has{$_} } Chaos::History::words($some);
}

# In each queue, by priority and tags: the tasks that certainly waited for a
# first claim, as lists of [since, till], by increasing since; till is the
# greatest so far. Left out are those of which an unknown claim may have taken
# an attempt.
sub waiting_tasks
{
	my ($h) = @_;
	my %waiting;

	for my $submit (grep { $_->{sure} } values %{ $h->{submits} })
	{
		my $op = $submit->{op};
		my ($first) = sort { $a <=> $b } @{ $h->{touches}{ $submit->{id} } // [] };
		my ($claim) = @{ $h->{claims_of}{ $submit->{id} } // [] };

		next unless $claim && $claim->{attempt} == 1;
		next if $h->waits_for_others($op->{q});
		my $till = min($first, $op->{deadline} ? $op->{t0} + $op->{deadline} - $h->slack : FOREVER);
		my $since = $op->{t1} + $op->{delay} + $h->slack;
		push @{ $waiting{ $op->{q} }{ $op->{prio} }{ $op->{tags} } }, [ $since, $till ] if $since < $till;
	}
	for my $list (map { values %$_ } map { values %$_ } values %waiting)
	{
		my $most = 0;
		@$list = sort { $a->[0] <=> $b->[0] } @$list;
		$_->[1] = $most = max($most, $_->[1]) for @$list;
	}
	return \%waiting;
}

# waited(LIST, FROM, TO): did some task of the list wait all that time?
sub waited
{
	my ($list, $from, $to) = @_;
	my ($low, $high) = (0, scalar @$list);

	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if ($list->[$middle][0] < $from) { $low = $middle + 1; }
		else { $high = $middle; }
	}
	return $low && $list->[ $low - 1 ][1] > $to;
}

# A claim must not return a task while a better one certainly waited. Under
# faults five in a hundred may.
sub priority
{
	my ($h) = @_;
	my $waiting = waiting_tasks($h);
	my (@bad, $claims);

	for my $op (grep { $_->{op} eq 'claim' && ok($_) && ($_->{tasks} // '-') ne '-' } @{ $h->{ops} })
	{
		my $lowest = min(map { $h->priority_of(split /:/) } Chaos::History::words($op->{tasks}));
		my $of_queue = $waiting->{ $op->{q} } // next;
		my $better = 0;

		$claims++;
		for my $prio (grep { $_ > $lowest } keys %$of_queue)
		{
			for my $tags (keys %{ $of_queue->{$prio} })
			{
				$better ||= tags_fit($tags, $op->{tags}) && waited($of_queue->{$prio}{$tags}, $op->{t0}, $op->{t1});
			}
		}
		push @bad, "a claim of $op->{w} got priority $lowest of $op->{q} while a higher one waited" if $better;
	}
	my $allowed = $h->{sabotage} ? 0.05 * ($claims // 0) : 0;
	$h->{priority_inversions} = @bad;
	return @bad > $allowed ? @bad : ();
}

# What may delay a recovery, and has a bound itself
my %disturbs = map { $_ => 1 }
  qw(kill_backend kill_duties stop_duties restart promote wipe freeze_backend vacuum);

sub disturbances
{
	my ($h) = @_;
	my $after = $h->setting('recovery', 15_000_000);

	return map { [ $_->{t0}, min($_->{t1}, $_->{t0} + 60_000_000) + $after ] } grep { $disturbs{ $_->{op} } } @{ $h->{ops} };
}

# undisturbed(BEGIN, SINCE, SPAN, LIMIT, DISTURBANCES in order): when something
# is late that takes a span since that moment, or since the end of a disturbance
# that met it
sub undisturbed
{
	my ($begin, $since, $span, $limit, @disturbed) = @_;
	my $over = $since + $span + $limit;

	for my $time (@disturbed)
	{
		$over = max($over, $time->[1] + $span) if $time->[0] < $over && $time->[1] > $begin;
	}
	return $over;
}

# A task whose worker has ended is requeued in time. It is late if it is
# claimed after the limit, while a less urgent task of the queue was claimed.
sub bounded_recovery
{
	my ($h) = @_;
	my $dead = $h->setting('dead_threshold', 120_000_000) + $h->setting('reaper_interval', 15_000_000);
	my $limit = $h->setting('late', 2_000_000);
	my @disturbed = sort { $a->[0] <=> $b->[0] } disturbances($h);
	my (@bad, %served);

	push @bad, map { "after $_->{op} the background worker was not back in time" }
	  grep { $disturbs{ $_->{op} } && $_->{op} =~ /duties|backend|restart|promote/ && $_->{outcome} eq 'fail' } @{ $h->{ops} };
	push @{ $served{ $_->{q} } }, $_ for sort { $a->{t0} <=> $b->{t0} } @{ $h->{claims} };
	for my $id (sort { $a <=> $b } keys %{ $h->{claims_of} // {} })
	{
		my @claims = @{ $h->{claims_of}{$id} };

		for my $i (0 .. $#claims - 1)
		{
			my ($claim, $next) = @claims[ $i, $i + 1 ];
			next if $claim->{own_end} != FOREVER || $next->{attempt} != $claim->{attempt} + 1;
			next if $h->waits_for_others($claim->{q});
			# another worker had it in between, and rolled back
			next if grep { $_ > $claim->{t0} && $_ < $next->{t0} } @{ $h->{touches}{$id} };
			# the ways back: since when, and what has to pass then, which starts
			# again when the background worker returns
			my @ways = ([ $claim->{lease_over}, 0 ]);
			if (Chaos::History::by_worker($claim))
			{
				my $sign = $h->last_sign($claim->{w}, $next->{t0}) // $claim->{t1};
				# another life of the worker, or one that never ended
				next if grep { $_->{t1} > $claim->{t0} && $_->{t0} < $next->{t1} } @{ $h->{ends}{ $claim->{w} } // [] };
				my $backoff = $h->backoff($claim->{q}, $claim->{attempt});
				push @ways, [ max($sign, $claim->{t1}), $dead + $backoff ];
				my $silent = $claim->{held} eq 'connection' ? $h->{silent}{ $claim->{process} } : undef;
				push @ways, [ max($silent, $claim->{t1}), $backoff ] if $silent;
			}
			my $over = min(map { undisturbed($claim->{t0}, $_->[0], $_->[1], $limit, @disturbed) } @ways);
			next if $over >= FOREVER;
			next if $next->{t0} <= $over;
			my $tags = ($h->{submits}{ $claim->{key} } // {})->{op}{tags};
			my ($less) = grep {
				$_->{t0} > $over && $_->{t1} < $next->{t0} && $_->{prio} < $claim->{prio} && tags_fit($tags, $_->{tags})
			} @{ $served{ $claim->{q} } };
			push @bad, sprintf 'task %s came back %.1f s late, after task %s of lower priority', $id,
			  ($next->{t0} - $over) / 1e6, $less->{id}
			  if $less;
		}
	}
	return @bad;
}

# What the audit says of a task that it had to repair
my $repair = qr/claims skipped claimable task/;

# PostgreSQL's own: a backend that ends has closed its socket; if the server is
# stopped immediately just then, it tries to report that, and cannot.
my $ends = qr/\[(\d+)\] 57P01 client backend FATAL:/;
my $unsaid = qr/\[(\d+)\] XX000 client backend LOG:  could not send data to client: Bad file descriptor$/;

# No crash that the test did not cause, no error of class XX, sound tables.
sub server
{
	my ($h) = @_;
	my @bad;
	my %ended;
	my $killed = grep { $_->{op} =~ /^kill_(backend|duties)$/ } @{ $h->{ops} };
	my $crashes = 0;

	for my $line (@{ $h->{server_log} })
	{
		next if $line =~ $repair;
		$ended{$1} = 1 if $line =~ $ends;
		next if $line =~ $unsaid && $ended{$1};
		if ($line =~ /was terminated by signal 9\b/) { $crashes++; }
		elsif ($line =~ /PANIC:|TRAP:|was terminated by|\] XX\w{3} /) { push @bad, "in the server's log: $line"; }
	}
	push @bad, "$crashes processes were killed, but only $killed by the test" if $crashes > $killed;
	for my $op (@{ $h->{ops} })
	{
		push @bad, "$op->{op} of $op->{process} met $op->{code}" if ($op->{code} // '') =~ /^XX/;
	}
	push @bad, @{ $h->{complaints} };
	return @bad;
}

# Claims never skip a task by mistake, so the audit repairs no entries.
sub audit
{
	my ($h) = @_;
	my @bad = map { "in the server's log: $_" } grep { /$repair/ } @{ $h->{server_log} };
	my ($most) = sort { $b <=> $a } map { $_->{repaired} } @{ $h->{audits} };

	push @bad, "the audit has mended $most tasks" if $most && !@bad;
	return @bad;
}

# Tables and memory agree, during the run and at its end.
sub check
{
	my ($h) = @_;
	return @{ $h->{problems} };
}

# Of the tasks and steps of a key one runs at a time, and no task was handed out
# while an earlier one certainly waited, which was completed only later.
sub order_of_key
{
	my ($h) = @_;
	my (@bad, %line, %steps);

	for my $claim (@{ $h->{claims} })
	{
		my ($flow, $step) = Chaos::History::step_of($claim->{key}) or next;
		my $key = ($h->definition_of($flow, $step) // {})->{key} // next;
		push @{ $steps{"$claim->{q} $key"} }, $claim;
	}
	for my $submit (grep { $_->{sure} && ($h->{queues}{ $_->{op}{q} } // {})->{serial} } values %{ $h->{submits} })
	{
		push @{ $line{"$submit->{op}{q} $submit->{op}{line}"} }, $submit;
	}
	for my $line (sort keys %line)
	{
		my @tasks = sort { $a->{id} <=> $b->{id} } @{ $line{$line} };
		my ($most, $when) = most_alive((map { @{ $h->{claims_of}{ $_->{id} } // [] } } @tasks), @{ $steps{$line} // [] });
		my @earlier;

		push @bad, "key $line: $most claims were alive at $when" if $most > 1;
		for my $task (@tasks)
		{
			my @claims = @{ $h->{claims_of}{ $task->{id} } // [] };
			my ($done) = map { $_->{t0} } grep { ok($_) } @{ $h->{completions}{ $task->{id} } // [] };

			@earlier = grep { $_->{done} > $claims[0]{t1} } @earlier if @claims;
			for my $claim (@claims)
			{
				my ($other) = grep { $_->{since} < $claim->{t0} && $_->{done} > $claim->{t1} } @earlier;
				push @bad, "key $line: task $claim->{id} was handed out while task $other->{id} waited" if $other;
			}
			push @earlier, { id => $task->{id}, since => $task->{op}{t1}, done => $done } if defined $done;
		}
	}
	return @bad;
}

# The parts of a group are released together, when both exist, and once; no
# release is lost; no part is claimed before.
sub groups
{
	my ($h) = @_;
	my (@bad, %part, %of_group, %released);

	for my $submit (grep { ($h->{queues}{ $_->{op}{q} // '' } // {})->{group} } values %{ $h->{submits} })
	{
		my ($group) = split m{/}, $submit->{op}{line};
		push @{ $part{$group} }, $submit;
	}
	push @{ $of_group{ $_->{g} } }, $_ for grep { $_->{op} eq 'junction' && maybe($_) } @{ $h->{ops} };
	for my $group (sort { $a <=> $b } keys %of_group)
	{
		my @parts = @{ $part{$group} // [] };
		my @calls = @{ $of_group{$group} };
		my @successful = grep { ok($_) && $_->{released} ne '-' } @calls;

		for my $call (@successful)
		{
			my @ids = Chaos::History::words($call->{released});
			my $there = grep { $_->{may} && $_->{op}{t0} < $call->{t1} } @parts;

			push @bad, "group $group: " . @ids . ' parts were released' if @ids != 2;
			push @bad, "group $group was released when $there of its parts were there" if $there < 2;
			push @bad, map { "group $group: task $_ was released twice" } grep { $released{$_}++ } @ids;
		}
		my $all = max(map { $_->{sure} ? $_->{op}{t1} : FOREVER } @parts);
		push @bad, "group $group was not released when all of it was there"
		  if @parts == 2 && !@successful && !(grep { !ok($_) } @calls) && grep { $_->{t0} > $all } @calls;
		my $first = min(map { $_->{t0} } grep { !ok($_) || $_->{released} ne '-' } @calls) // FOREVER;
		push @bad, map { "group $group: task $_->{id} was handed out before it was released" }
		  grep { $_->{t1} < $first } map { @{ $h->{claims_of}{ $_->{id} // '' } // [] } } @parts;
	}
	return @bad;
}

# The most claims certainly alive at the same time, and the first such time
sub most_alive
{
	my (@claims) = @_;
	my ($alive, $most, $when) = (0, 0, 0);

	# ends first: an end may be the cause of what begins
	for my $event (
		sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] }
		map { ([ $_->{from}, 1 ], [ $_->{until}, -1 ]) } grep { $_->{from} < $_->{until} } @claims)
	{
		$alive += $event->[1];
		($most, $when) = ($alive, $event->[0]) if $alive > $most;
	}
	return ($most, $when);
}

# Those claims, for the report
sub alive_at
{
	my ($when, @claims) = @_;

	return join '; ', map { "$_->{id} $_->{token} of $_->{w}, sent $_->{t0}, answered $_->{t1}, alive until $_->{until} ($_->{held})" }
	  grep { $_->{from} <= $when && $when < $_->{until} } @claims;
}

# In any time t at most count + count * t / per claims: the most by which
# some window of operations exceeds that.  A window begins when its earliest
# operation was sent and ends when its last one was answered.
sub rate_excess
{
	my ($count, $per, @ops) = @_;
	my ($sum, $begin, $end, $worst) = (0, 0, 0, 0);

	for my $op (sort { $a->[1] <=> $b->[1] } @ops)
	{
		my ($t0, $t1, $n) = @$op;
		my $longer = $t1 - $end + max(0, $begin - $t0);
		my $alone = $n - ($t1 - $t0) * $count / $per;
		my $with = $sum + $n - $longer * $count / $per;

		($sum, $begin) = $with > $alone ? ($with, min($begin, $t0)) : ($alone, $t0);
		$end = $t1;
		$worst = max($worst, $sum - $count);
	}
	return $worst;
}

# Limits of queues and of workers
sub limits
{
	my ($h) = @_;
	my (@bad, %of_queue, %of_worker, %limit);

	push @{ $of_queue{ $_->{q} } }, $_ for @{ $h->{claims} };
	push @{ $of_worker{ $_->{w} } }, $_ for grep { Chaos::History::by_worker($_) } @{ $h->{claims} };
	for my $name (sort keys %of_queue)
	{
		my $queue = $h->{queues}{$name} // next;
		if ($queue->{running})
		{
			my ($most, $when) = most_alive(@{ $of_queue{$name} });
			push @bad, "queue $name: $most claims were alive at $when, allowed are $queue->{running}: " . alive_at($when, @{ $of_queue{$name} })
			  if $most > $queue->{running};
		}
		if ($queue->{rate})
		{
			my %n;
			$n{ $_->{op} }++ for @{ $of_queue{$name} };
			my %op = map { $_->{op} => $_->{op} } @{ $of_queue{$name} };
			my $excess = rate_excess($queue->{rate}, $queue->{per}, map { [ $_->{t0}, $_->{t1}, $n{$_} ] } values %op);
			push @bad, "queue $name: $excess claims more than its rate allows" if $excess > 0.01;
		}
	}
	for my $op (grep { $_->{op} eq 'register' } @{ $h->{ops} })
	{
		$limit{ $op->{w} } = max($limit{ $op->{w} } // 0, $op->{limit} || FOREVER);
	}
	for my $name (sort keys %of_worker)
	{
		my ($most, $when) = most_alive(@{ $of_worker{$name} });
		push @bad, "worker $name: $most claims were alive at $when, allowed are $limit{$name}: " . alive_at($when, @{ $of_worker{$name} })
		  if $most > ($limit{$name} // FOREVER);
	}
	return @bad;
}

1;

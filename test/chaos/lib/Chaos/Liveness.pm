# Chaos::Liveness: two rules of Chaos::Rules about how long something may take.
# They consider only times in which the server, as far as the test knows, could
# do what it promises: "recovery" after sabotage, and with room for a busy
# machine.
package Chaos::Liveness;

use strict;
use warnings;
use List::Util qw(max min);
use Chaos::History;

sub ok { return Chaos::History::ok(@_); }

# Tasks of a queue without limits
sub has_limits
{
	my ($h, $name) = @_;
	my $queue = $h->{queues}{$name} // return 1;

	return $queue->{running} || $queue->{rate};
}

# --- lost wake-ups

# When a claim has ended so that the task could be claimed again, and which
# attempt comes then; returns nothing if that is not certain.
sub free_after
{
	my ($h, $claim) = @_;
	my ($answer) = grep { ok($_) && $_->{op} =~ /^(fail|release)$/ } @{ $h->{answers}{"$claim->{id} $claim->{token}"} // [] };
	my $jitter = ($h->{queues}{ $claim->{q} } // {})->{jitter} // 0;

	return unless $answer;
	return ($answer->{t1} + $answer->{delay} + $h->slack, $claim->{attempt}) if $answer->{op} eq 'release';
	return unless $answer->{retryable};
	return ($answer->{t1} + $answer->{retry_in} + $h->slack, $claim->{attempt} + 1) if $answer->{retry_in} >= 0;
	return ($answer->{t1} + $h->backoff($claim->{q}, $claim->{attempt}) * (1 + $jitter) + $h->slack, $claim->{attempt} + 1);
}

# Until when an operation without an answer may have lasted: its transaction
# ends soon after its client or its connection, but a prepared one when the
# saboteur ends it.
sub over_by
{
	my ($h, $op) = @_;
	my $until = min($op->{t1}, $h->{silent}{ $op->{process} } // Chaos::History::FOREVER) + 1_000_000;

	$until += 3_000_000 if ($op->{end} // '') =~ /prepared/;
	if (($op->{held} // 'lease') ne 'lease')
	{
		# a worker that deregisters releases what it does not know of
		my ($end) = grep { $_->{t0} >= $op->{t0} } @{ $h->{ends}{ $op->{w} } // [] };
		$until = max($until, min($end->{t1}, $end->{t0} + 5_000_000)) if $end;
	}
	return $until;
}

# Times, by queue, in which a task may have been in a claim that is not known
sub unsure_times
{
	my ($h) = @_;
	my %unsure;

	for my $op (grep { $_->{op} eq 'claim' && !$_->{replied} } @{ $h->{ops} })
	{
		my $time = [ $op->{t0}, over_by($h, $op) ];
		push @{ $unsure{$_} }, $time for Chaos::History::words($op->{of} // $op->{q});
	}
	return \%unsure;
}

# The rest of a span of time when others are cut out
sub cut_out
{
	my ($from, $till, @others) = @_;
	my @left;

	for my $other (sort { $a->[0] <=> $b->[0] } @others)
	{
		push @left, [ $from, min($till, $other->[0]) ] if $other->[0] > $from;
		$from = max($from, $other->[1]);
		last if $from >= $till;
	}
	push @left, [ $from, $till ] if $from < $till;
	return @left;
}

# The times, longer than that, in which tasks of these queues could certainly be
# claimed, by queue: [from, till, task, claim that ended it]
sub long_claimable
{
	my ($h, $limit, %of_interest) = @_;
	my $unsure = unsure_times($h);
	my @disturbed = Chaos::Rules::disturbances($h);
	my %free;

	for my $submit (grep { $_->{sure} } values %{ $h->{submits} })
	{
		my $op = $submit->{op};
		my ($since, $attempt) = ($op->{t1} + ($op->{delay} // 0) + $h->slack, 1);

		next if !$of_interest{ $op->{q} } || has_limits($h, $op->{q}) || $op->{deadline};
		for my $claim (sort { $a->{token} <=> $b->{token} } @{ $h->{claims_of}{ $submit->{id} } // [] })
		{
			if (defined $since && $claim->{attempt} == $attempt && $claim->{t1} - $since > $limit)
			{
				push @{ $free{ $op->{q} } }, map { [ @$_, $submit, $claim ] } grep { $_->[1] - $_->[0] > $limit }
				  cut_out($since, $claim->{t1}, @disturbed, @{ $unsure->{ $op->{q} } // [] }, @{ $h->{undone}{ $submit->{id} } // [] });
			}
			($since, $attempt) = free_after($h, $claim);
		}
	}
	return \%free;
}

# Times, by worker, in which the saboteur had stopped its process: it could not
# read an answer
sub frozen_times
{
	my ($h) = @_;
	my %frozen;

	push @{ $frozen{ $_->{w} } }, [ $_->{t0}, $_->{t1} ] for grep { $_->{op} eq 'freeze_worker' } @{ $h->{ops} };
	return \%frozen;
}

# How long a claimable task and a sleeping worker existed at the same time. For
# the worker that took the task its answer counts, for another one the moment
# when the task was certainly free; times in which one of them was frozen do not
# count.
sub overslept
{
	my ($h, $waiter, $time, $frozen) = @_;
	my ($from, $till, undef, $claim) = @$time;
	my $taker = $claim->{op};
	my @apart = map { @{ $frozen->{ $_->{w} } // [] } } $waiter, $taker;

	$till = min($till, $taker->{wait} ? $taker->{t1} - $h->setting('answer', 3_000_000) : $taker->{t0})
	  if $taker != $waiter;
	return max(0, map { $_->[1] - $_->[0] } cut_out(max($from, $waiter->{t0}), min($till, $waiter->{t1}), @apart));
}

# A waiter does not sleep while there has been something for it for some time:
# neither for tasks nor for the end of one.
sub no_lost_wake
{
	my ($h) = @_;
	my $limit = $h->setting('asleep', 10_000_000);
	my %limited = map { $_->{w} => 1 } grep { $_->{op} eq 'register' && $_->{limit} } @{ $h->{ops} };
	my @waiters = grep { $_->{wait} && ok($_) && $_->{t1} - $_->{t0} > $limit && !$limited{ $_->{w} } } @{ $h->{ops} };
	my $free = long_claimable($h, $limit, map { $_ => 1 } map { Chaos::History::words($_->{of} // $_->{q}) } @waiters);
	my $frozen = frozen_times($h);
	my (@bad, %told);

	for my $waiter (@waiters)
	{
		for my $time (map { @{ $free->{$_} // [] } } Chaos::History::words($waiter->{of} // $waiter->{q}))
		{
			my $submit = $time->[2];
			next unless Chaos::Rules::tags_fit($submit->{op}{tags}, $waiter->{tags});
			my $asleep = overslept($h, $waiter, $time, $frozen);
			push @bad, sprintf '%s slept for %.1f s while task %s of %s could be claimed', $waiter->{process},
			  $asleep / 1e6, $submit->{id}, $submit->{op}{q}
			  if $asleep > $limit && !$told{ $submit->{id} }++;
		}
	}
	for my $op (grep { $_->{op} =~ /^(await|call)$/ && ok($_) } @{ $h->{ops} })
	{
		my $id = $op->{id} // $op->{ids};
		my ($done) = grep { ok($_) } @{ $h->{completions}{$id} // [] } or next;
		my $asleep = $op->{t1} - max($op->{t0}, $done->{t1});
		push @bad, sprintf '%s slept for %.1f s after task %s had ended', $op->{process}, $asleep / 1e6, $id
		  if $asleep > $limit;
	}
	return @bad;
}

# --- bound workers

# Claims, by queue, of workers that could have had any task of it
sub free_claims
{
	my ($h) = @_;
	my %limited = map { $_->{w} => 1 } grep { $_->{op} eq 'register' && $_->{limit} } @{ $h->{ops} };
	my %of_queue;

	push @{ $of_queue{ $_->{q} } }, $_
	  for grep { $_->{op} eq 'claim' && ok($_) && $_->{q} ne '*' && !$limited{ $_->{w} } } @{ $h->{ops} };
	return \%of_queue;
}

# Does the result of a claim show that a task could not be claimed, which should
# be back by then? It got nothing, or something less urgent: of lower priority,
# or, if the oldest comes first, submitted later.
sub shows_absence
{
	my ($h, $op, $claim, $back) = @_;
	my $in_order = !($h->{queues}{ $op->{q} } // {})->{order} && ($op->{order} // '') eq 'queue';
	my @got = Chaos::History::words($op->{tasks});

	for my $text (@got)
	{
		my (undef, undef, $attempt, undef, undef, $key) = split /:/, $text;
		my $prio = $h->priority_of(split /:/, $text);
		return 1 if $prio < $claim->{prio};
		return 1 if $in_order && $prio == $claim->{prio} && $attempt == 1 && $h->earliest($key) > $back;
	}
	return !@got;
}

# Tasks of a bound worker can be claimed soon after its connection has ended.
sub bound_workers
{
	my ($h) = @_;
	my $limit = $h->setting('bound', 2_000_000);
	my @disturbed = Chaos::Rules::disturbances($h);
	my ($claims, $unsure, @bad);

	for my $claim (grep { $_->{held} eq 'connection' && $h->{silent}{ $_->{process} } } @{ $h->{claims} })
	{
		my ($next) = grep { $_->{t1} > $claim->{t1} } @{ $h->{claims_of}{ $claim->{id} } };
		next if $claim->{own_end} != Chaos::History::FOREVER || has_limits($h, $claim->{q});
		next if !$next || $next->{attempt} != $claim->{attempt} + 1;
		# another worker had it in between, and rolled back
		next if grep { $_ > $claim->{t0} && $_ < $next->{t0} } @{ $h->{touches}{ $claim->{id} } };

		my $jitter = $h->{queues}{ $claim->{q} }{jitter} // 0;
		my $back = max($h->{silent}{ $claim->{process} }, $claim->{t1}) + $limit + $h->slack
		  + $h->backoff($claim->{q}, $claim->{attempt}) * (1 + $jitter);
		for my $time (sort { $a->[0] <=> $b->[0] } @disturbed)
		{
			# it was over when the task was claimed, or is still to come
			next if $time->[1] - $h->setting('recovery', 15_000_000) < $claim->{t0} || $time->[0] >= $back;
			$back = max($back, $time->[1]);
		}
		next if $next->{t0} <= $back;
		$claims //= free_claims($h);
		$unsure //= unsure_times($h);
		my $tags = ($h->{submits}{ $claim->{key} } // {})->{op}{tags};
		my ($witness) = grep {
			$_->{t0} > $back && $_->{t1} < $next->{t0} && Chaos::Rules::tags_fit($tags, $_->{tags})
			  && shows_absence($h, $_, $claim, $back) && !meets($_, $unsure->{ $claim->{q} })
		} @{ $claims->{ $claim->{q} } // [] };
		push @bad, sprintf 'task %s of %s was not back %.1f s after its connection had ended, for a claim of %s',
		  $claim->{id}, $claim->{w}, ($witness->{t0} - $h->{silent}{ $claim->{process} }) / 1e6, $witness->{w}
		  if $witness;
	}
	return @bad;
}

# Does an operation meet one of these times?
sub meets
{
	my ($op, $times) = @_;
	return scalar grep { $_->[0] < $op->{t1} && $_->[1] > $op->{t0} } @{ $times // [] };
}

1;

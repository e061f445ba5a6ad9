# Chaos::Report: the verdict on a history: a line for each rule, and the counts
# that show that the run did enough.
package Chaos::Report;

use strict;
use warnings;
use Chaos::History;
use Chaos::Rules;

# SQLSTATEs that the contract gives for what clients do here
my %expected = map { $_ => 1 } qw(TQ001 TQ006 TQ007 TQ010 22023 40001 40P01 55P03 57014 lost rollback);

# and what attendants of workflows may meet, as others do the same
my %by_hand = map { $_ => 1 } qw(signal cancel retry resolve);

# judge(HISTORY): one [number, name, violations...] for each rule
sub judge
{
	my ($h) = @_;
	return map { [ $_->[0], $_->[1], $_->[2]->($h) ] } @Chaos::Rules::rules;
}

sub rule_lines
{
	my ($number, $name, @bad) = @{ $_[0] };
	my @lines = (sprintf 'rule %2d %s: %d violation%s', $number, $name, scalar @bad, @bad == 1 ? '' : 's');

	push @lines, map { "        $_" } @bad > 5 ? (@bad[ 0 .. 4 ], '...') : @bad;
	return @lines;
}

# Did the process hold a task at that time, according to its log?
sub held_something
{
	my ($h, $process, $time) = @_;
	return scalar grep { $_->{process} eq $process && $_->{from} < $time && $time < $_->{until} } @{ $h->{claims} };
}

# Did it probably hold one by its connection?
sub held_by_connection
{
	my ($h, $process, $time) = @_;
	return scalar grep {
		$_->{process} eq $process && $_->{held} eq 'connection' && $_->{t1} < $time && $_->{t1} > $time - 2e6 && $_->{own_end} == Chaos::History::FOREVER
	} @{ $h->{claims} };
}

# Number of entries that the audit has checked, over all starts of the server
sub audited
{
	my ($h) = @_;
	my ($sum, $last) = (0, 0);

	for my $audited (map { $_->{audited} } sort { $a->{at} <=> $b->{at} } @{ $h->{audits} })
	{
		$sum += $audited < $last ? $audited : $audited - $last;
		$last = $audited;
	}
	return $sum;
}

# counts(HISTORY): what happened, as a hash
sub counts
{
	my ($h) = @_;
	my %n = map { $_ => 0 }
	  qw(acknowledged unknown holders died claims completions refused redeliveries crashes restarts wipes frozen
	  waits slept woken awaited lists bound checks ordered released instances steps signals repairs told);

	$n{acknowledged} = grep { $_->{sure} } values %{ $h->{submits} };
	$n{claims} = @{ $h->{claims} };
	$n{ordered} = grep { ($h->{queues}{ $_->{q} } // {})->{serial} } @{ $h->{claims} };
	$n{instances} = keys %{ $h->{flows} };
	$n{states}{ $_->{state} }++ for values %{ $h->{flows} };
	$n{steps} = grep { Chaos::Rules::is_step($_) } @{ $h->{claims} };
	$n{told} = keys %{ $h->{told} // {} };
	$n{redeliveries} += @$_ - 1 for values %{ $h->{claims_of} // {} };
	for my $op (@{ $h->{ops} })
	{
		my $what = $op->{op};
		my $code = $op->{code} // '';

		$n{operations}++;
		$n{unknown}++ if $op->{outcome} eq 'unknown' && $op->{process} ne 'saboteur' && $what !~ /^(die|snapshot)$/;
		$n{completions}++ if $what eq 'complete' && $op->{outcome} eq 'ok';
		$n{refused}++ if defined $op->{token} && $code eq 'TQ001';
		$n{died}++ if $what eq 'die' && held_something($h, $op->{process}, $op->{t0});
		$n{holders}++ if $what eq 'kill_worker' && held_something($h, $op->{of}, $op->{t0});
		$n{crashes}++ if $what =~ /^kill_(backend|duties)$/;
		$n{restarts}++ if $what =~ /^(restart|promote)$/;
		$n{wipes}++ if $what eq 'wipe' && $op->{outcome} eq 'ok';
		$n{frozen}++ if $what =~ /^freeze/;
		$n{lists}++ if $op->{many} && $op->{outcome} eq 'ok';
		$n{checks}++ if $what eq 'check' && $op->{outcome} eq 'ok';
		$n{bound}++ if $what eq 'kill_worker' && held_by_connection($h, $op->{of}, $op->{t0});
		$n{signals}++ if $what eq 'signal' && $op->{outcome} eq 'ok' && $op->{said} eq 't';
		$n{repairs}++ if $what =~ /^(retry|resolve)$/ && $op->{outcome} eq 'ok';
		$n{released}++ if $what eq 'junction' && $op->{outcome} eq 'ok' && $op->{released} ne '-';
		$n{awaited}++ if $what =~ /^(await|call)$/ && $op->{outcome} eq 'ok' && $op->{state} =~ /^(done|dead)$/;
		if ($op->{wait} && $op->{outcome} eq 'ok')
		{
			$n{waits}++;
			# slept, as it took some time, and got something
			next if $op->{t1} - $op->{t0} < 100_000;
			$n{slept} += ($op->{t1} - $op->{t0}) / 1e6;
			$n{woken}++ if $op->{ready} || ($op->{tasks} // '-') ne '-';
		}
		next if $op->{outcome} ne 'fail' || $code =~ /^(rollback|)$/;
		$n{errors}{ $by_hand{$what} ? "$code by hand" : $code }++;
	}
	$n{inversions} = $h->{priority_inversions} // 0;
	$n{audited} = audited($h);
	($n{repaired}) = (sort({ $b <=> $a } map { $_->{repaired} } @{ $h->{audits} }), 0);
	return \%n;
}

sub count_lines
{
	my ($n) = @_;
	my $states = join ', ', map { "$n->{states}{$_} $_" } sort keys %{ $n->{states} // {} };
	my $errors = join ', ', map { "$_ $n->{errors}{$_}" } sort keys %{ $n->{errors} // {} };

	return (
		"$n->{operations} operations, $n->{acknowledged} acknowledged submits, $n->{unknown} unknown outcomes",
		"$n->{claims} claims, $n->{completions} completions, $n->{redeliveries} redeliveries,"
		  . " $n->{refused} refused stale answers, $n->{inversions} priority inversions",
		"$n->{holders} holders of tasks killed, $n->{died} died, $n->{frozen} freezes, $n->{crashes} crashes,"
		  . " $n->{restarts} restarts, $n->{wipes} wipes",
		sprintf('%d waits, of %d s in all, %d of them woken; %d ends awaited; %d tasks in calls on lists',
			@$n{qw(waits slept woken awaited lists)}),
		"$n->{bound} bound workers killed with tasks; the audit has checked $n->{audited} entries and repaired $n->{repaired};"
		  . " $n->{checks} runs of taskq_check under way",
		"$n->{ordered} claims of tasks with keys in order, $n->{released} groups released",
		"$n->{instances} workflows" . ($states eq '' ? '' : " ($states)") . ", $n->{steps} claims of steps, $n->{told} of them with what they were told,"
		  . " $n->{signals} signals, $n->{repairs} repairs",
		"errors: " . ($errors eq '' ? 'none' : $errors));
}

# What makes a run void: too little of what it must have seen
sub void
{
	my ($n, %least) = @_;
	return map { "only $n->{$_} $_, at least $least{$_} are needed" } grep { $n->{$_} < $least{$_} } sort keys %least;
}

sub unexpected_errors
{
	my ($n) = @_;
	return grep { !($expected{s/ by hand//r} || $_ eq 'TQ005 by hand') } sort keys %{ $n->{errors} // {} };
}

1;

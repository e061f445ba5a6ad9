# Chaos::History: the logs of the clients of a run, and what was in the
# tables at its end.
#
# Lines:
#
#	P process                      the lines below are of this process
#	B number time operation n=v    an operation begins (before sending)
#	E number time outcome n=v      it has ended (after the answer)
#	Q name=... max=... retry=...   a queue and its options
#	S name=value ...               settings of the server and of the run
#	D {...}                        a template of workflows, as JSON
#	T id=... q=... state=... ...   a task, at the end; of a step the key is w,
#	                               its instance, a slash and its name, and there
#	                               is its result
#	W id=... name=... state=...    an instance of a workflow, at the end
#	V flow=... step=...            a step that was skipped, at the end
#	G id=... token=... deps=... payload=...   what a claim returned for a step
#	O key=...                      a row of the outbox, at the end
#	F id=... token=...             an effect, at the end
#	R at=... audited=... repaired=...   numbers of the audit, at that time
#	L text                         a line of the server's log
#	A text                         a complaint of pg_amcheck
#	K text                         a problem that taskq_check reports
#
# Times are microseconds of the machine's monotonic clock.  An operation
# without an end is unknown, like one that says so.
#
# After finish() there are: ops; submits (by key); claims and claims_of (by
# task); answers (by "task token"); tasks, outbox, effects; signs and ends of
# each worker; connections and ends of processes; starts (by the name that an
# instance has in its input), flows (by id), steps (by instance and name), and
# by_hand (by task).  A claim is one task that was returned by one operation
# that is known to have happened, not before {t0}; it lives certainly from {from}
# to {until}.
package Chaos::History;

use strict;
use warnings;
use JSON::PP;
use List::Util qw(min max);

use constant FOREVER => 9e18;

my %sabotage = map { $_ => 1 } qw(kill_worker kill_sleeper freeze_worker kill_backend end_backend freeze_backend
  stop_duties kill_duties restart promote wipe snapshot vacuum);
my %ends_claim = map { $_ => 1 } qw(complete fail release);

sub new
{
	my ($class) = @_;
	return bless {
		process => 'none', open => {}, ops => [], queues => {}, settings => {}, tasks => {}, key_count => {},
		outbox => {}, effects => {}, server_log => [], complaints => [], problems => [], audits => [],
		templates => {}, flows => {}, steps => {}, starts => {}, by_hand => {}, skipped => {} }, $class;
}

sub load_file
{
	my ($self, $file, $process) = @_;

	open my $in, '<', $file or die "$file: $!";
	$self->add_line("P $process") if defined $process;
	while (my $line = <$in>)
	{
		# a killed process may leave half a line, which is ignored
		$self->add_line($line) if chomp $line;
	}
	close $in;
	return;
}

# load_directory(DIRECTORY): all logs of a run
sub load_directory
{
	my ($dir) = @_;
	my $self = __PACKAGE__->new;

	$self->load_file($_, m{([^/]+)\.log$}) for sort glob "$dir/*.log";
	return $self->finish;
}

sub add_text
{
	my ($self, $text) = @_;
	s/^\s+// || 1 and length && !/^#/ && $self->add_line($_) for split /\n/, $text;
	return;
}

sub fields { return map { my ($n, $v) = split /=/, $_, 2; ($n, $v // '') } @_; }

sub words { return grep { $_ ne '-' } split /,/, $_[0] // '-'; }

my %add = (
	P => sub { $_[0]{process} = $_[1] },
	B => sub {
		my ($self, $rest) = @_;
		my ($n, $time, $what, @more) = split / /, $rest;
		my $op = { fields(@more), n => $n, t0 => $time, t1 => FOREVER, op => $what, outcome => 'unknown',
			process => $self->{process} };
		$self->{open}{"$self->{process} $n"} = $op;
		push @{ $self->{ops} }, $op;
	},
	E => sub {
		my ($self, $rest) = @_;
		my ($n, $time, $outcome, @more) = split / /, $rest;
		my $op = delete $self->{open}{"$self->{process} $n"} or die "an end without a beginning: $rest";
		my %more = fields(@more);
		@$op{ keys %more } = values %more;
		@$op{qw(t1 outcome)} = ($time, $outcome);
	},
	Q => sub { my ($self, $rest) = @_; my %q = fields(split / /, $rest); $self->{queues}{ $q{name} } = \%q },
	S => sub { my ($self, $rest) = @_; my %s = fields(split / /, $rest); @{ $self->{settings} }{ keys %s } = values %s },
	T => sub {
		my ($self, $rest) = @_;
		my %task = fields(split / /, $rest);
		push @{ $self->{task_rows} }, \%task;
	},
	O => sub { my ($self, $rest) = @_; my %row = fields(split / /, $rest); $self->{outbox}{ $row{key} }++ },
	F => sub { my ($self, $rest) = @_; my %row = fields(split / /, $rest); $self->{effects}{ $row{id} }{ $row{token} }++ },
	D => sub { my ($self, $rest) = @_; my $template = decode_json($rest); $self->{templates}{ $template->{name} } = $template },
	W => sub { my ($self, $rest) = @_; my %flow = fields(split / /, $rest); push @{ $self->{flow_rows} }, \%flow },
	V => sub { my ($self, $rest) = @_; my %step = fields(split / /, $rest); $self->{skipped}{ $step{flow} }{ $step{step} } = 1 },
	G => sub { my ($self, $rest) = @_; my %told = fields(split / /, $rest); $self->{told}{"$told{id} $told{token}"} = \%told },
	R => sub { my ($self, $rest) = @_; push @{ $self->{audits} }, { fields(split / /, $rest) } },
	L => sub { push @{ $_[0]{server_log} }, $_[1] },
	K => sub { push @{ $_[0]{problems} }, $_[1] },
	A => sub { push @{ $_[0]{complaints} }, $_[1] });

sub add_line
{
	my ($self, $line) = @_;
	my ($kind, $rest) = split / /, $line, 2;

	($add{$kind} // die "a line of an unknown kind: $line")->($self, $rest // '');
	return;
}

sub ok { return $_[0]{outcome} eq 'ok'; }

# It happened, or may have happened.
sub maybe { return $_[0]{outcome} ne 'fail'; }

sub setting { return $_[0]{settings}{ $_[1] } // $_[2]; }

# finish(): what follows from the lines
sub finish
{
	my ($self) = @_;

	for my $op (@{ $self->{ops} })
	{
		$op->{replied} = $op->{t1} != FOREVER && $op->{outcome} ne 'unknown' && ($op->{code} // '') ne 'lost';
		# a transaction that was to be rolled back cannot have happened
		$op->{outcome} = 'fail' if ($op->{end} // '') =~ /rollback/;
		$op->{outcome} = 'fail' if $op->{outcome} eq 'unknown' && ($op->{code} // '') ne '';
	}
	$self->index_tasks;
	$self->index_submits;
	$self->index_flows;
	$self->index_claims;
	$self->index_workers;
	$self->index_connections;
	$self->set_life($_) for @{ $self->{claims} };
	$self->{sabotage} = grep { $sabotage{ $_->{op} } } @{ $self->{ops} };
	return $self;
}

sub index_tasks
{
	my ($self) = @_;

	for my $task (@{ $self->{task_rows} // [] })
	{
		push @{ $self->{stored}{ $task->{key} } }, $task;
		push @{ $self->{task_of_id}{ $task->{id} } }, $task;
		$self->{tasks}{ $task->{id} } = $task;
	}
	return;
}

# submits: key => {op, id, may (could it be stored?), sure (must it be?)}
sub index_submits
{
	my ($self) = @_;

	$self->{submits} = {};
	for my $op (grep { $_->{op} =~ /^(submit|call)$/ } @{ $self->{ops} })
	{
		my @keys = words($op->{keys});
		my @ids = ok($op) ? split(/,/, $op->{ids}) : ();

		for my $i (0 .. $#keys)
		{
			my $none = ok($op) && $ids[$i] eq '-';
			$self->{submits}{ $keys[$i] } = {
				op => $op, key => $keys[$i], id => $none ? undef : $ids[$i],
				sure => ok($op) && !$none, may => maybe($op) && !$none };
		}
		$self->{submits}{$_} = { op => $op, key => $_, sure => 0, may => 0 } for words($op->{void});
	}
	return;
}

# step_of(KEY): the instance and the name, if it is the key of a step
sub step_of { return $_[0] =~ m{^w(\d+)/(.+)}; }

# starts: name in the input => {op, may (could it be there?), sure (must it?)};
# by_hand: task => retries and resolutions; flow_calls: instance => the other
# calls about it
sub index_flows
{
	my ($self) = @_;

	$self->{flows}{ $_->{id} } = $_ for @{ $self->{flow_rows} // [] };
	for my $task (@{ $self->{task_rows} // [] })
	{
		my ($flow, $step) = step_of($task->{key}) or next;
		push @{ $self->{steps}{$flow}{$step} }, $task;
	}
	push @{ $self->{inner}{ $_->{via} } }, $_ for grep { $_->{via} ne '-' } values %{ $self->{flows} };
	for my $op (@{ $self->{ops} })
	{
		if ($op->{op} eq 'start')
		{
			$self->{starts}{ $op->{in} } = { op => $op, in => $op->{in}, sure => ok($op), may => maybe($op) };
			$self->{starts}{$_} = { op => $op, in => $_, sure => 0, may => 0 } for words($op->{void});
		}
		elsif ($op->{op} =~ /^(retry|resolve)$/) { push @{ $self->{by_hand}{ $op->{id} } }, $op if maybe($op); }
		elsif ($op->{op} =~ /^(signal|cancel)$/) { push @{ $self->{flow_calls}{ $op->{flow} } }, $op; }
	}
	return;
}

# The template of an instance, and the definition of a step or of a member of
# a batch by its name; both return nothing for an unknown instance
sub template_of { my ($self, $flow) = @_; return $self->{templates}{ ($self->{flows}{$flow} // return)->{name} }; }

sub definition_of
{
	my ($self, $flow, $step) = @_;
	my $template = $self->template_of($flow) // return;
	my $of = $template->{by_name} //= { map { $_->{name} => $_ } @{ $template->{steps} } };

	return $of->{$step} if $of->{$step} && ($of->{$step}{type} // '') ne 'batch_worker';
	return unless $step =~ /^(.+)_\d{3,}$/;
	return $of->{$1} && ($of->{$1}{type} // '') eq 'batch_worker' ? $of->{$1} : undef;
}

# Retries and resolutions that may have happened to a task, of one kind if it is
# given
sub hands_on
{
	my ($self, $id, $what) = @_;
	return grep { !$what || $_->{op} eq $what } @{ $self->{by_hand}{$id} // [] };
}

# claims: the tasks that claims returned, from what is known to have happened;
# touches: every moment at which a task is known to have been in a claim.
sub index_claims
{
	my ($self) = @_;

	$self->{claims} = [];
	for my $op (@{ $self->{ops} })
	{
		if ($op->{op} eq 'claim')
		{
			my $waits = $op->{wait} && ok($op);

			for my $text (words($op->{tasks}))
			{
				my %claim;
				@claim{qw(t1 q w lease held process tags op)} = (@$op{qw(t1 q w lease held process tags)}, $op);
				@claim{qw(id token attempt max prio key q)} = (split(/:/, $text), $op->{q})[ 0 .. 6 ];
				$claim{t0} = max($op->{t0}, $waits ? map { $self->earliest((split /:/)[5]) } words($op->{tasks}) : ());
				push @{ $self->{touches}{ $claim{id} } }, $claim{t0};
				next unless ok($op);
				push @{ $self->{claims} }, \%claim;
				push @{ $self->{claims_of}{ $claim{id} } }, \%claim;
			}
			for my $text (words($op->{void}))
			{
				my ($id) = split /:/, $text;
				push @{ $self->{touches}{$id} }, $op->{t0};
				push @{ $self->{undone}{$id} }, [ $op->{t0}, $op->{t1} ];
			}
		}
		elsif (defined $op->{token})
		{
			push @{ $self->{answers}{"$op->{id} $op->{token}"} }, $op;
			push @{ $self->{completions}{ $op->{id} } }, $op if $op->{op} eq 'complete';
		}
	}
	for my $list (values %{ $self->{claims_of} })
	{
		@$list = sort { $a->{t1} <=> $b->{t1} } @$list;
	}
	return;
}

# Before that time the task certainly could not be claimed; a claim that waits
# was made, and all its tasks were claimed, after it.
sub earliest
{
	my ($self, $key) = @_;
	my $op = ($self->{submits}{$key} // return 0)->{op};

	return $op->{t0} + ($op->{delay} // 0) - $self->slack;
}

sub index_workers
{
	my ($self) = @_;

	for my $op (@{ $self->{ops} })
	{
		next unless defined $op->{w};
		if ($op->{op} eq 'register' || $op->{op} eq 'deregister')
		{
			push @{ $self->{ends}{ $op->{w} } }, $op if maybe($op);
		}
		elsif ($op->{op} =~ /^(heartbeat|claim|wait)$/)
		{
			push @{ $self->{signs}{ $op->{w} } }, $op->{t0} if ok($op);
			# a waiting worker stays alive, also if the answer gets lost
			push @{ $self->{waited}{ $op->{w} } }, [ $op->{t0}, min($op->{t1}, $op->{t0} + $op->{wait} + 1_000_000) ]
			  if $op->{wait} && maybe($op);
		}
	}
	@$_ = sort { $a->{t0} <=> $b->{t0} } @$_ for values %{ $self->{ends} };
	@$_ = sort { $a <=> $b } @$_ for values %{ $self->{signs} };
	for my $waits (values %{ $self->{waited} })
	{
		# how long the last one lasts that has begun by then
		my $most = 0;
		@$waits = sort { $a->[0] <=> $b->[0] } @$waits;
		$_->[1] = $most = max($most, $_->[1]) for @$waits;
	}
	return;
}

# The last heartbeat of a worker that may have been sent before that time
sub last_sign
{
	my ($self, $worker, $time) = @_;
	my $sign = last_below($self->{signs}{$worker} // [], $time);
	my $waits = $self->{waited}{$worker} // [];
	my ($low, $high) = (0, scalar @$waits);

	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if ($waits->[$middle][0] < $time) { $low = $middle + 1; }
		else { $high = $middle; }
	}
	return $low ? max($sign // 0, min($waits->[ $low - 1 ][1], $time)) : $sign;
}

# Does the claim live while its worker does?
sub by_worker { return $_[0]{held} ne 'lease'; }

# connections: of each process that says when it connects, its connections in
# order, [since, heard]: when it was there, and the last time at which it
# certainly still was, as an operation that was sent then had a reply.
# silent: when a process is known to have ended.
sub index_connections
{
	my ($self) = @_;

	for my $op (@{ $self->{ops} })
	{
		my $connections = $self->{connections}{ $op->{process} };
		if ($op->{op} eq 'connect')
		{
			push @{ $self->{connections}{ $op->{process} } }, [ $op->{t0}, $op->{t0} ];
		}
		elsif ($connections && $op->{replied})
		{
			$connections->[-1][1] = $op->{t0};
		}
		$self->{silent}{ $op->{of} } = $op->{t1} if $op->{op} =~ /^kill_(worker|sleeper)$/;
		$self->{silent}{ $op->{process} } = $op->{t0} if $op->{op} eq 'die';
	}
	return;
}

# Until when the connection of a claim was certainly there
sub connected_until
{
	my ($self, $claim) = @_;
	my ($connection) = grep { $_->[0] <= $claim->{t0} } reverse @{ $self->{connections}{ $claim->{process} } // [] };

	return $connection ? max($connection->[1], $claim->{from}) : $claim->{from};
}

# last_below(LIST, LIMIT): of numbers in order, the last one below
sub last_below
{
	my ($list, $limit) = @_;
	my ($low, $high) = (0, scalar @$list);

	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if ($list->[$middle] < $limit) { $low = $middle + 1; }
		else { $high = $middle; }
	}
	return $low ? $list->[ $low - 1 ] : undef;
}

# What may have ended a registration of the claim's worker, in order, from a
# minute before the claim, since a call whose answer is missing may take
# effect later: the list, and where to begin in it.
sub ends_near
{
	my ($self, $claim) = @_;
	my $ends = $self->{ends}{ $claim->{w} } // [];
	my ($low, $high) = (0, scalar @$ends);

	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if ($ends->[$middle]{t0} < $claim->{t0} - 60_000_000) { $low = $middle + 1; }
		else { $high = $middle; }
	}
	return ($ends, $low);
}

# Until when a claim without a lease is certainly alive: its worker sent
# something less than the dead threshold ago, and has not begun to register
# again or to deregister.
sub worker_lives_until
{
	my ($self, $claim) = @_;
	my $next_end = FOREVER;

	my ($ends, $first) = $self->ends_near($claim);
	for my $i ($first .. $#$ends)
	{
		my $op = $ends->[$i];
		# answered before the claim was sent: it was the claim's own
		next if $op->{t1} < $claim->{t0};
		return $claim->{from} if $op->{t0} < $claim->{t1};
		$next_end = $op->{t0};
		last;
	}
	my $sign = last_below($self->{signs}{ $claim->{w} } // [], $next_end) // $claim->{t0};
	return min($next_end, max($sign, $claim->{t0}) + $self->setting('dead_threshold', 120_000_000) - $self->slack);
}

# How far the clocks of server and clients may differ in this run
sub slack { return $_[0]->setting('slack', 5000); }

# from, until: the claim is certainly alive between them. lease_over: its lease
# has certainly expired then, whatever was answered.
sub set_life
{
	my ($self, $claim) = @_;
	my $queue = $self->{queues}{ $claim->{q} } // {};
	my ($lease, $lease_over) = (FOREVER, FOREVER);
	my ($proven, $own_end) = (0, FOREVER);

	$claim->{from} = $claim->{t1};
	$claim->{answered} = FOREVER;
	my $span = $claim->{lease} > 0 ? $claim->{lease} : $claim->{held} eq 'lease' ? $queue->{lease} : 0;
	($lease, $lease_over) = ($claim->{t0} + $span - $self->slack, $claim->{t1} + $span) if $span > 0;
	for my $answer (sort { $a->{t0} <=> $b->{t0} } @{ $self->{answers}{"$claim->{id} $claim->{token}"} // [] })
	{
		next unless maybe($answer);
		# by taskq_change the former owner may end a task until it is claimed again
		$proven = max($proven, $answer->{t0}) if ok($answer) && ($answer->{by} // '') ne 'change';
		if ($ends_claim{ $answer->{op} })
		{
			$own_end = min($own_end, $answer->{t0});
			$claim->{answered} = $answer->{t1} if ok($answer);
		}
		elsif ($answer->{op} eq 'extend')
		{
			my $new = $answer->{t0} + $answer->{lease} - $self->slack;
			$lease = ok($answer) ? $new : min($lease, $new);
			$lease_over = FOREVER if $lease_over == FOREVER && !ok($answer);
			$lease_over = $answer->{t1} + $answer->{lease} if ok($answer);
			$lease_over = max($lease_over, $answer->{t1} + $answer->{lease}) if !ok($answer) && $lease_over != FOREVER;
		}
	}
	my $until = $lease;
	$until = min($until, $claim->{t0} + $queue->{time_limit} - $self->slack) if $queue->{time_limit};
	$until = min($until, $self->worker_lives_until($claim)) if by_worker($claim);
	$until = min($until, $self->connected_until($claim)) if $claim->{held} eq 'connection';
	$claim->{until} = min(max($until, $proven), $own_end);
	$claim->{lease_over} = $lease_over;
	$claim->{own_end} = $own_end;
	return;
}

# May the end of this claim have cost no attempt? Released, or its worker
# deregistered while it may have held it.
sub maybe_free
{
	my ($self, $claim) = @_;

	return $claim->{free} //= do
	{
		my $free = 0;
		for my $answer (@{ $self->{answers}{"$claim->{id} $claim->{token}"} // [] })
		{
			$free = 1 if $answer->{op} eq 'release' && maybe($answer);
		}
		my ($ends, $first) = by_worker($claim) ? $self->ends_near($claim) : ([], 0);
		for my $i ($first .. $#$ends)
		{
			my $op = $ends->[$i];
			next if $op->{t1} < $claim->{t0};
			last if $op->{t0} > $claim->{answered};
			$free = 1 if $op->{op} eq 'deregister';
			last if ok($op) && $op->{t0} > $claim->{t1};
		}
		$free;
	};
}

# Was the task certainly or possibly completed, in a queue that keeps no
# finished tasks?
sub maybe_completed
{
	my ($self, $id) = @_;
	return scalar grep { maybe($_) } @{ $self->{completions}{$id} // [] };
}

# May a task of the queue wait for others, though its time has come?
sub waits_for_others
{
	my ($self, $queue) = @_;
	my $options = $self->{queues}{$queue} // {};
	return $options->{serial} || $options->{group};
}

sub leaves_nothing
{
	my ($self, $queue) = @_;
	return (($self->{queues}{$queue} // {})->{retention} // '') eq 'none';
}

# The requested priority; if it is unknown, the priority in the claim's answer
sub priority_of
{
	my ($self, undef, undef, undef, undef, $told, $key) = @_;
	my $submit = $self->{submits}{$key};
	return $submit ? $submit->{op}{prio} : $told;
}

# The shortest wait of an attempt that failed, microseconds
sub backoff
{
	my ($self, $queue, $attempt) = @_;
	my $options = $self->{queues}{$queue} // {};
	my $retry = $options->{retry} // 'exponential';
	my $base = $options->{base} // 1_000_000;
	my $cap = $options->{cap} // 300_000_000;

	return $base if $retry eq 'fixed';
	return min($base * $attempt, $cap) if $retry eq 'linear';
	return min($base * 2**$attempt, $cap);
}

1;

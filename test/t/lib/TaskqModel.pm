# What keys, insertions, junctions and changes mean: a model with one thread
# that replays what was committed, call by call.
#
# A task waits, runs, is suspended or has ended; whether a waiting task is
# pending or blocked follows from all tasks of its key, and is checked when no
# client is working. Versions that no call has returned are only known to be
# above the former ones; so is the version of each task of an ordered key, which
# other tasks of the key move.
package TaskqModel;
use strict;
use warnings;

my %LIVE = map { $_ => 1 } qw(waiting running suspended);
my %REVIVABLE = map { $_ => 1 } qw(done dead cancelled filtered suspended);

# new(QUEUE => {open, dead, suspended, lifo}): open 0 is no order
sub new
{
	my ($class, %rules) = @_;
	return bless { rules => \%rules, tasks => {}, docs => {} }, $class;
}

# replay(CALL): what is impossible about it, '' for nothing
sub replay
{
	my ($self, $call) = @_;
	$self->{calls}++;
	my $play = $self->can("play_$call->{op}") or return "no such call: $call->{op}";
	my $problem = eval { $play->($self, $call->{a}, $call->{r}, $call->{began}); '' } // $@;

	chomp $problem;
	return $problem eq '' ? '' : "$call->{op}: $problem";
}

sub task
{
	my ($self, $id) = @_;
	return $self->{tasks}{$id} // die "there is no task $id\n";
}

sub live
{
	my ($self, $id) = @_;
	my $task = $self->task($id);

	die "task $id is $task->{state}\n" if !$LIVE{ $task->{state} };
	return $task;
}

# changed(TASK, {what is reported of it})
sub changed
{
	my ($self, $task, $told) = @_;

	if (defined $told)
	{
		die "version $told->{version} of task $told->{task_id} is not above $task->{version}\n" if $told->{version} <= $task->{version};
		@$task{ 'version', 'exact' } = ($told->{version}, 1);
	}
	else
	{
		$task->{version}++;
		$task->{exact} = 0;
	}
	return;
}

sub move
{
	my ($self, $task, $state, $reason) = @_;

	$task->{state} = $state;
	$task->{reason} = $reason;
	delete $task->{worker} if $state ne 'running';
	$self->changed($task);
	return;
}

# --- submitting

sub enter
{
	my ($self, $id, $entry, $insertion) = @_;

	die "id $id is there already\n" if $self->{tasks}{$id};
	$self->in_order($id, $entry->{queue}, $entry->{key});
	$self->make_way($id, $entry->{queue}, $entry->{key}, $insertion // 'append');
	if (defined $entry->{reference})
	{
		my @others = grep {
			$LIVE{ $_->{state} } && $_->{queue} eq $entry->{queue} && defined $_->{reference} && $_->{reference} eq $entry->{reference}
		} values %{ $self->{tasks} };
		die "reference $entry->{reference} is taken\n" if @others;
	}
	$self->{tasks}{$id} = { id => $id, state => $entry->{suspended} ? 'suspended' : 'waiting', reason => '', version => 1, exact => 1,
		map { $_ => $entry->{$_} } qw(queue key payload reference suspended) };
	return $self->{tasks}{$id};
}

# Ids are drawn when the key is locked, and it stays locked until the commit.
sub in_order
{
	my ($self, $id, $queue, $key) = @_;

	return if !$self->{rules}{$queue}{open} || !defined $key;
	my $newest = $self->{newest}{$queue}{$key} // 0;
	die "id $id comes after $newest of its key\n" if $id < $newest;
	$self->{newest}{$queue}{$key} = $id;
	return;
}

sub make_way
{
	my ($self, $id, $queue, $key, $insertion) = @_;

	return if $insertion eq 'append';
	for my $other (values %{ $self->{tasks} })
	{
		next if $other->{queue} ne $queue || !defined $other->{key} || $other->{key} ne $key || $other->{id} > $id || $other->{state} eq 'running';
		if ($insertion eq 'delete')
		{
			delete $self->{tasks}{ $other->{id} };
			next;
		}
		next if $other->{state} ne 'waiting' && ($insertion ne 'replace' || $other->{state} !~ /^(?:suspended|done|dead|filtered)$/);
		$self->move($other, 'redundant', '');
	}
	return;
}

sub play_append { my ($self, $a, $r) = @_; $self->enter($r, $a); return }
sub play_supersede { my ($self, $a, $r) = @_; $self->enter($r, $a, 'supersede'); return }
sub play_replace { my ($self, $a, $r) = @_; $self->enter($r, $a, 'replace'); return }
sub play_delete { my ($self, $a, $r) = @_; $self->enter($r, $a, 'delete'); return }

sub play_list
{
	my ($self, $a, $r) = @_;

	my $last = 0;
	for my $i (0 .. $#$a)
	{
		die "ids fall\n" if $r->[$i] <= $last;
		$last = $r->[$i];
		$self->enter($r->[$i], $a->[$i]);
	}
	return;
}

# --- claims and their ends

# Claims of other sessions may be in progress; the order is checked when they
# are not.
sub claimed
{
	my ($self, $task, $worker) = @_;
	my $rule = $self->{rules}{ $task->{queue} };

	die "task $task->{id} was claimed, and is $task->{state}\n" if $task->{state} ne 'waiting';
	if ($rule->{open} && defined $task->{key})
	{
		my @line = $self->line($task->{queue}, $task->{key});
		die "task $task->{id} was claimed beside others of its key\n" if (grep { $_->{state} eq 'running' } @line) >= $rule->{open};
		die "task $task->{id} was claimed, and its key is held\n" if $self->is_held($task->{queue}, $task->{key});
	}
	$self->move($task, 'running', '');
	$task->{worker} = $worker;
	return;
}

sub play_claim { my ($self, $a, $r) = @_; $self->claimed($self->live($r->{task_id}), $a->{worker}); return }

sub play_claim_one
{
	my ($self, $a, $r) = @_;
	my $task = $self->live($r->{task_id});

	die "of another queue\n" if !grep { $_ eq $task->{queue} } @{ $a->{queues} };
	$self->depends($_) for @{ $a->{depends} };
	$self->claimed($task, $a->{worker});
	@$task{ 'version', 'exact' } = ($r->{version}, 1) if $r->{version} >= $task->{version} || die "version fell\n";
	return;
}

sub ended
{
	my ($self, $a, $state, $reason) = @_;
	my $task = $self->live($a->{task_id});

	die "task $a->{task_id} is $task->{state}\n" if $task->{state} ne 'running';
	die "task $a->{task_id} is of $task->{worker}\n" if $task->{worker} ne $a->{worker};
	$self->move($task, $state, $reason);
	return;
}

sub play_complete { my ($self, $a) = @_; $self->ended($a, 'done', ''); return }
sub play_fail { my ($self, $a) = @_; $self->ended($a, $a->{retryable} ? 'waiting' : 'dead', ''); return }
sub play_suspend { my ($self, $a) = @_; $self->ended($a, 'suspended', ''); return }
sub play_filter { my ($self, $a) = @_; $self->ended($a, 'filtered', ''); return }
sub play_release { my ($self, $a) = @_; $self->ended($a, 'waiting', ''); return }

sub play_decide
{
	my ($self, $a) = @_;
	my %state = (complete => 'done', suspend => 'suspended', filter => 'filtered');

	$self->ended({ %$_, worker => $a->{worker} }, $state{ $_->{outcome} }, '') for @{ $a->{decisions} };
	return;
}

# --- calls by operators

sub by_hand
{
	my ($self, $id, $from, $state, $reason) = @_;
	my $task = $self->task($id);

	die "task $id is $task->{state}\n" if $task->{state} !~ /^(?:$from)$/;
	$self->move($task, $state, $reason // '');
	return $task;
}

sub play_cancel { my ($self, $a) = @_; $self->by_hand($a, 'waiting|suspended', 'cancelled'); return }
sub play_hold { my ($self, $a) = @_; $self->by_hand($a, 'waiting', 'suspended', 'held'); return }
sub play_retry { my ($self, $a) = @_; $self->by_hand($a, 'done|dead|cancelled|filtered|suspended', 'waiting'); return }
sub play_resolve { my ($self, $a) = @_; $self->by_hand($a, 'waiting|suspended|dead|filtered', 'done', 'manual'); return }

# Poison stays as it is.
sub play_poison
{
	my ($self, $a) = @_;

	$self->by_hand($a, 'waiting|suspended|dead', 'dead', 'poison') if $self->task($a)->{state} ne 'dead' || $self->task($a)->{reason} ne 'poison';
	return;
}


sub play_recreate
{
	my ($self, $a, $r) = @_;
	my $old = $self->task($a->{task_id});

	die "task $a->{task_id} is $old->{state}\n" if !$REVIVABLE{ $old->{state} };
	$self->move($old, 'recreated', '');
	$self->enter($r, { map { $_ => $old->{$_} } qw(queue key payload reference suspended) }, $a->{insertion});
	return;
}

sub play_update
{
	my ($self, $a) = @_;
	my $task = $self->live($a->{task_id});

	die "task $a->{task_id} runs\n" if $task->{state} eq 'running';
	$self->in_version($task, $a->{version});
	$task->{$_} = $a->{changes}{$_} for grep { exists $a->{changes}{$_} } qw(queue key payload);
	$self->changed($task);
	return;
}

sub play_junction
{
	my ($self, $given, $released) = @_;
	my %of = map { $_ => 0 } @{ $given->{keys} };
	my @suspended = grep { $_->{state} eq 'suspended' && $_->{queue} eq $given->{queue} && defined $_->{key} && exists $of{ $_->{key} } }
	  values %{ $self->{tasks} };

	$of{ $_->{key} }++ for @suspended;
	die "keys without suspended tasks\n" if grep { !$_ } values %of;
	my ($is, $should) = map { join ' ', sort { $a <=> $b } @$_ } $released, [ map { $_->{id} } @suspended ];
	die "released $is, should have been $should\n" if $is ne $should;
	$self->move($_, 'waiting', '') for @suspended;
	return;
}

sub play_reassign
{
	my ($self, $a, $r) = @_;
	my @of = grep { $self->{tasks}{$_} && $self->{tasks}{$_}{queue} eq $a->{queue} && $self->{tasks}{$_}{state} eq $a->{from} && $self->{tasks}{$_}{reason} ne 'poison' }
	  @{ $a->{task_ids} };
	my ($to, $reason) = $a->{to} eq 'pending' ? ('waiting', '') : ($a->{to}, 'manual');

	die "$r tasks were moved, should have been " . @of . "\n" if $r != @of;
	$self->move($self->{tasks}{$_}, $to, $reason) for @of;
	return;
}

# --- changes

sub in_version
{
	my ($self, $task, $version) = @_;

	return if !defined $version;
	die "version $version of task $task->{id}, which is $task->{version}\n"
	  if $self->is_exact($task) ? $version != $task->{version} : $version < $task->{version};
	@$task{ 'version', 'exact' } = ($version, 1);
	return;
}

sub is_exact
{
	my ($self, $task) = @_;

	return $task->{exact} && !($self->{rules}{ $task->{queue} }{open} && defined $task->{key});
}

sub depends
{
	my ($self, $entry) = @_;

	$self->in_version($self->live($entry->{task_id}), $entry->{version});
	return;
}

sub not_of_others
{
	my ($self, $task, $worker) = @_;

	die "task $task->{id} is of $task->{worker}\n" if $task->{state} eq 'running' && $task->{worker} ne $worker;
	return;
}

sub play_change
{
	my ($self, $a, $r) = @_;
	my @told = @$r;
	my @adds = @{ $a->{adds} // [] };
	my @new = splice @told, 0, scalar @adds;

	$self->depends($_) for @{ $a->{depends} // [] };
	for my $entry (@{ $a->{deletes} // [] }, @{ $a->{updates} // [] })
	{
		my $task = $self->live($entry->{task_id});

		$self->in_version($task, $entry->{version});
		$self->not_of_others($task, $a->{worker});
	}
	for my $entry (@{ $a->{deletes} // [] })
	{
		my $task = $self->task($entry->{task_id});

		$self->move($task, $task->{state} eq 'running' ? ('done', '') : ('cancelled', 'deleted'));
	}
	for my $entry (@{ $a->{updates} // [] })
	{
		my $task = $self->task($entry->{task_id});

		$task->{payload} = $entry->{payload} if exists $entry->{payload};
		if ($entry->{lease})
		{
			$task->{state} = 'running';
			$task->{worker} = $a->{worker};
		}
		elsif ($task->{state} eq 'running')
		{
			$task->{state} = 'waiting';
			delete $task->{worker};
		}
		$self->changed($task, shift @told);
	}
	for my $entry (@adds)
	{
		my $told = shift @new;
		my $task = $self->enter($told->{task_id}, $entry, $entry->{insertion});

		@$task{ 'state', 'worker' } = ('running', $a->{worker}) if $entry->{lease};
		$task->{version} = $told->{version};
	}
	$self->docs($a);
	return;
}

sub play_docs { my ($self, $a) = @_; $self->docs($a); return }

sub docs
{
	my ($self, $a) = @_;
	my $docs = $self->{docs};

	for my $entry (@{ $a->{doc_depends} // [] }, @{ $a->{doc_updates} // [] }, @{ $a->{doc_deletes} // [] })
	{
		my $doc = $docs->{ $entry->{key} }{ $entry->{secondary_key} } // die "no document $entry->{key} $entry->{secondary_key}\n";
		die "document $entry->{key} $entry->{secondary_key} is in version $doc->{version}, not $entry->{version}\n"
		  if defined $entry->{version} && $entry->{version} != $doc->{version};
	}
	for my $entry (@{ $a->{doc_updates} // [] }, @{ $a->{doc_deletes} // [] })
	{
		my $doc = $docs->{ $entry->{key} }{ $entry->{secondary_key} };
		die "document $entry->{key} $entry->{secondary_key} is of $doc->{worker}\n" if defined $doc->{worker} && $doc->{worker} ne $a->{worker};
	}
	delete $docs->{ $_->{key} }{ $_->{secondary_key} } for @{ $a->{doc_deletes} // [] };
	for my $entry (@{ $a->{doc_updates} // [] })
	{
		my $doc = $docs->{ $entry->{key} }{ $entry->{secondary_key} };

		$doc->{version}++;
		$doc->{content} = $entry->{content} if exists $entry->{content};
		$doc->{worker} = $entry->{lease} ? $a->{worker} : undef;
	}
	for my $entry (@{ $a->{doc_adds} // [] })
	{
		my $doc = \$docs->{ $entry->{key} }{ $entry->{secondary_key} };

		die "document $entry->{key} $entry->{secondary_key} is there already\n" if $$doc;
		$$doc = { version => 1, content => $entry->{content}, worker => $entry->{lease} ? $a->{worker} : undef, born => $self->{calls} };
	}
	return;
}

# A document that was added after the claim began may come after it.
sub play_claim_docs
{
	my ($self, $a, $r, $began) = @_;
	my %told = map { $_->{secondary_key} => 1 } @$r;
	my $all = $self->{docs}{ $a->{key} } // {};
	my $docs = { map { $_ => $all->{$_} } grep { $told{$_} || $all->{$_}{born} <= $began } keys %$all };

	for my $second (keys %$docs)
	{
		my $doc = $docs->{$second};

		die "document $a->{key} $second is of $doc->{worker}\n" if defined $doc->{worker} && $doc->{worker} ne $a->{worker};
		next if !$a->{lease} && !defined $doc->{worker};
		$doc->{version}++;
		$doc->{worker} = $a->{lease} ? $a->{worker} : undef;
	}
	my ($is, $should) = map { join ', ', @$_ } [ map { "$_->{secondary_key} $_->{version}" } @$r ], [ map { "$_ $docs->{$_}{version}" } sort keys %$docs ];
	die "claimed $is, should have been $should\n" if $is ne $should;
	return;
}

# --- key queues

# The tasks of a key that wait or run, in their order.
sub line
{
	my ($self, $queue, $key) = @_;
	my @line = sort { $a->{id} <=> $b->{id} }
	  grep { $_->{queue} eq $queue && defined $_->{key} && $_->{key} eq $key && $_->{state} =~ /^(?:waiting|running)$/ } values %{ $self->{tasks} };

	@line = reverse @line if $self->{rules}{$queue}{lifo};
	return @line;
}

sub is_held
{
	my ($self, $queue, $key) = @_;
	my $rule = $self->{rules}{$queue};

	return scalar grep {
		$_->{queue} eq $queue && defined $_->{key} && $_->{key} eq $key
		  && ($rule->{dead} && $_->{state} eq 'dead' && $_->{reason} ne 'poison'
			|| $rule->{suspended} && $_->{state} eq 'suspended')
	} values %{ $self->{tasks} };
}

# told(ID, ...): the expected state of each task and document, as sorted lines.
# Of those that wait for other tasks of their key, these tasks are the first
# ones.
sub told
{
	my ($self, @ahead) = @_;
	my %ahead = map { $_ => 1 } @ahead;
	my (%blocked, %seen, @lines);

	for my $task (values %{ $self->{tasks} })
	{
		my ($queue, $key) = @$task{ 'queue', 'key' };
		my $rule = $self->{rules}{$queue};

		next if !$rule->{open} || !defined $key || $seen{"$queue $key"}++;
		my @line = $self->line($queue, $key);
		my $room = $self->is_held($queue, $key) ? 0 : $rule->{open} - grep { $_->{state} eq 'running' } @line;
		my @waiting = grep { $_->{state} eq 'waiting' } @line;
		$blocked{ $_->{id} } = $room-- <= 0 for (grep { $ahead{ $_->{id} } } @waiting), (grep { !$ahead{ $_->{id} } } @waiting);
	}
	for my $task (sort { $a->{id} <=> $b->{id} } values %{ $self->{tasks} })
	{
		my $state = $task->{state} eq 'waiting' ? ($blocked{ $task->{id} } ? 'blocked' : 'pending') : $task->{state};

		push @lines, join ' ', 'task', map { $_ // '-' } @$task{ 'id', 'queue' }, $state, @$task{ 'key', 'payload', 'reference', 'worker' };
	}
	for my $key (sort keys %{ $self->{docs} })
	{
		for my $second (sort keys %{ $self->{docs}{$key} })
		{
			my $doc = $self->{docs}{$key}{$second};

			push @lines, join ' ', 'document', $key, $second, $doc->{version}, map { $_ // '-' } @$doc{ 'content', 'worker' };
		}
	}
	return @lines;
}

# Versions: what is wrong with the existing ones, {id => version}
sub wrong_versions
{
	my ($self, $is) = @_;

	return map { "task $_->{id}: version $is->{$_->{id}}, " . ($self->is_exact($_) ? '' : 'at least ') . $_->{version} }
	  grep { $self->is_exact($_) ? $is->{ $_->{id} } != $_->{version} : $is->{ $_->{id} } < $_->{version} }
	  grep { defined $is->{ $_->{id} } } values %{ $self->{tasks} };
}

1;

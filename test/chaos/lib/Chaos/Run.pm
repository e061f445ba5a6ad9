# Chaos::Run: servers, clients and sabotage of one run of the chaos test.
#
# new() starts a server and the clients; sabotage() carries out the plan that
# was drawn from the seed; drain() lets the workers finish; history() gives what
# the checker checks. Everything that is written lies in one directory, where
# test/chaos/check can check it again.
package Chaos::Run;

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX qw(WNOHANG);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_REALTIME);
use Chaos::History;
use Chaos::Templates;

# A worker without heartbeats gets more time than a worker whose connection has
# ended, so that the two can be distinguished.
my %interval = (dead_threshold => 3000, reaper_interval => 300);

# The queues: what the server gets, and what the checker knows of them (times in
# microseconds). Completions in "bare" write no effects; "tied" has tasks that
# bound workers hold for long; those of "serial" have keys, those of "group"
# wait for each other; "flow" has the steps of workflows, of which there are
# some elsewhere, too; only sleepers serve "idle", "pile" and "stack".
my @queues = (
	[ plain => '"notify": true, "max_attempts": 6, "retry": "fixed", "retry_base": "100 ms", "lease": "1 s"',
		'max=6 retry=fixed base=100000 lease=1000000' ],
	[ lease => '"max_attempts": 8, "retry_base": "40 ms", "retry_cap": "1 s", "retry_jitter": 0.2, "lease": "700 ms"',
		'max=8 retry=exponential base=40000 cap=1000000 lease=700000 jitter=0.2' ],
	[ few => '"max_attempts": 2, "order": "lifo", "retry": "linear", "retry_base": "60 ms", "lease": "800 ms"',
		'max=2 retry=linear base=60000 lease=800000 order=lifo' ],
	[ random => '"max_attempts": 5, "order": "random", "retention": "none", "retry": "fixed", "retry_base": "50 ms", "lease": "900 ms"',
		'max=5 retry=fixed base=50000 lease=900000 retention=none order=random' ],
	[ timed => '"max_attempts": 6, "time_limit": "600 ms", "retry": "fixed", "retry_base": "80 ms", "lease": "2 s"',
		'max=6 retry=fixed base=80000 lease=2000000 time_limit=600000' ],
	[ bare => '"max_attempts": 4, "retry": "fixed", "retry_base": "20 ms", "lease": "600 ms"',
		'max=4 retry=fixed base=20000 lease=600000' ],
	[ five => '"max_attempts": 6, "max_running": 5, "retry": "fixed", "retry_base": "50 ms", "lease": "800 ms"',
		'max=6 retry=fixed base=50000 lease=800000 running=5' ],
	[ rated => '"max_attempts": 6, "rate_limit": {"count": 4, "per": "250 ms"}, "retry": "fixed", "retry_base": "50 ms", "lease": "800 ms"',
		'max=6 retry=fixed base=50000 lease=800000 rate=4 per=250000' ],
	[ tied => '"max_attempts": 9, "retry": "fixed", "retry_base": "50 ms", "lease": "2 s"',
		'max=9 retry=fixed base=50000 lease=2000000' ],
	[ serial => '"key_policy": "serial", "max_attempts": 6, "retry": "fixed", "retry_base": "30 ms", "lease": "800 ms"',
		'max=6 retry=fixed base=30000 lease=800000 serial=1' ],
	[ group => '"max_attempts": 9, "retry": "fixed", "retry_base": "50 ms", "lease": "1 s", "reference_window": "1 d"',
		'max=9 retry=fixed base=50000 lease=1000000 group=1' ],
	[ flow => '"max_attempts": 4, "retry": "fixed", "retry_base": "60 ms", "lease": "900 ms"',
		'max=4 retry=fixed base=60000 lease=900000' ],
	[ idle => '"max_attempts": 9, "retry": "fixed", "retry_base": "200 ms", "lease": "2 s"',
		'max=9 retry=fixed base=200000 lease=2000000' ],
	[ pile => '"max_attempts": 9, "order": "lifo", "notify": true, "retry": "fixed", "retry_base": "150 ms", "lease": "2 s"',
		'max=9 retry=fixed base=150000 lease=2000000 order=lifo' ],
	[ stack => '"max_attempts": 9, "order": "lifo", "retry": "fixed", "retry_base": "100 ms", "lease": "2 s"',
		'max=9 retry=fixed base=100000 lease=2000000 order=lifo' ]);

my %asleep = map { $_ => 1 } qw(idle pile stack);

# The clients: role, name, queues (templates, for a starter; what it does, for
# an attendant), tags, and for workers how they hold tasks and how many they may
# hold (0 = any); for producers and starters, their rate.
my @clients = (
	[ 'producer', 'p1', 'plain,lease,few,serial,serial' ],
	[ 'producer', 'p2', 'random,timed,bare,plain' ],
	[ 'producer', 'p3', 'five,five,five,five,rated,lease,bare,plain,bare' ],
	[ 'producer', 'p4', 'idle,pile,stack,tied', '', '', 6 ],
	[ 'grouper', 'g1', 'group' ],
	[ 'grouper', 'g2', 'group' ],
	[ 'caller', 'c1', 'few,bare,tied' ],
	[ 'starter', 'f1', join(',', Chaos::Templates::names()), '', '', 3 ],
	[ 'starter', 'f2', join(',', Chaos::Templates::names()), '', '', 3 ],
	[ 'attendant', 'a1', 'repair' ],
	[ 'attendant', 'a2', 'signal,cancel' ],
	[ 'worker', 'w1', 'plain,few,tied', '', 'bound', 0 ],
	[ 'worker', 'w2', 'plain,random,five,serial,group,flow,flow', 'a', 'registered', 0 ],
	[ 'worker', 'w3', 'random,timed,few,five,serial,flow', 'a,b', 'registered', 0 ],
	[ 'worker', 'w4', 'five,bare,plain,flow', 'b', 'bound', 4 ],
	[ 'worker', 'w5', 'timed,random,rated,plain,serial,group,flow,flow', 'a,b', 'registered', 0 ],
	[ 'worker', 'w6', 'tied,tied,tied,bare', 'a,b', 'bound', 0 ],
	[ 'worker', 'u1', 'lease,few,serial,flow', 'a', 'lease', 0 ],
	[ 'worker', 'u2', 'lease,rated,bare,five,serial,flow', 'a,b', 'lease', 0 ],
	[ 'worker', 'u3', 'lease,timed,plain,five,group,flow', '', 'lease', 0 ],
	[ 'worker', 'u4', 'lease,random,few,tied,serial,flow', 'b', 'lease', 0 ],
	[ 'sleeper', 's1', 'idle', 'a', 'lease', 0 ],
	[ 'sleeper', 's2', 'idle,pile', 'b', 'registered', 0 ],
	[ 'sleeper', 's3', 'stack', 'a', 'bound', 0 ],
	[ 'sleeper', 's4', 'pile', 'a', 'lease', 0 ]);

# What is done in each twenty seconds, in an order that is drawn; and in every
# third one, when the server is spared, so that sleepers can sleep long
my %basket = (
	kill_worker => 7, freeze_worker => 2, kill_backend => 4, freeze_backend => 1, stop_duties => 1, kill_duties => 1,
	restart => 1, wipe => 2, snapshot => 1, vacuum => 1, end_backend => 2, kill_sleeper => 1, check => 2);
my %quiet_basket = (kill_worker => 6, freeze_worker => 2, end_backend => 1, check => 2);
my $hush = 14;         # seconds without a task for the sleepers
my $snapshot = 20;     # seconds for which a snapshot is held

# A line for the log, about the time since the server was started
sub audit_numbers
{
	return "SELECT format('R at=" . now() . " audited=%s repaired=%s', audited, repaired) FROM taskq.range_numbers()";
}

sub is_quiet { my ($round) = @_; return $round % 3 == 2; }

sub now { return int(clock_gettime(CLOCK_MONOTONIC) * 1e6); }

sub clock_offset { return (clock_gettime(CLOCK_REALTIME) - clock_gettime(CLOCK_MONOTONIC)) * 1e6; }

# plan(SEED, SECONDS): the sabotage, in order: [time, action, which, how long]
sub plan
{
	my ($seed, $seconds) = @_;
	my $rounds = int(($seconds + 19) / 20);
	my $workers = grep { $_->[0] eq 'worker' } @clients;
	my @plan;

	srand($seed);
	for my $round (0 .. $rounds - 1)
	{
		my $basket = is_quiet($round) ? \%quiet_basket : \%basket;
		my @actions = map { ($_) x $basket->{$_} } sort keys %$basket;
		for my $i (reverse 1 .. $#actions)
		{
			my $j = int(rand($i + 1));
			@actions[ $i, $j ] = @actions[ $j, $i ];
		}
		my $length = $seconds / $rounds;
		push @plan, map { [ $round * $length + 0.5, $_, 0, 0 ] } qw(hush snapshot) if is_quiet($round);
		for my $i (0 .. $#actions)
		{
			my $time = $round * $length + 1 + ($length - 1) * ($i + rand(0.8)) / @actions;
			push @plan, [ $time, $actions[$i], int(rand($workers)), rand(1) ];
		}
	}
	# the last one, so that it meets what all others have left
	push @plan, [ $seconds * 0.95, 'promote', 0, 0 ] if $seconds >= 60;
	return sort { $a->[0] <=> $b->[0] } @plan;
}

sub new
{
	my ($class, %options) = @_;
	my $self = bless { %options, owner => $$ }, $class;

	local $SIG{PIPE} = 'IGNORE';
	$self->{plan} = [ plan(@options{qw(seed seconds)}) ];
	mkdir $self->{dir} or die "$self->{dir}: $!";
	$self->{number} = 0;
	open $self->{log}, '>>', "$self->{dir}/saboteur.log" or die "$self->{dir}: $!";
	$self->{log}->autoflush(1);
	$self->{offset} = clock_offset();
	$self->start_servers;
	$self->make_queues;
	$self->start_client($_) for @clients;
	return $self;
}

sub write_line { my ($self, $line) = @_; print { $self->{log} } "$line\n"; return; }

sub begin_op
{
	my ($self, $what, $more) = @_;
	my $n = ++$self->{number};

	$self->write_line("B $n " . now() . " $what" . (defined $more ? " $more" : ''));
	return $n;
}

sub end_op
{
	my ($self, $n, $outcome) = @_;
	$self->write_line("E $n " . now() . " $outcome -");
	return;
}

# --- servers

sub start_servers
{
	my ($self) = @_;
	my $node = PostgreSQL::Test::Cluster->new("$self->{name}_a");
	my %settings = (
		'shared_preload_libraries' => "'taskq'",
		'max_worker_processes' => 16,
		'max_connections' => 60,
		'max_prepared_transactions' => 30,
		'restart_after_crash' => 'on',
		'fsync' => 'off',
		'wal_retrieve_retry_interval' => "'100ms'",
		'wal_keep_size' => "'2GB'",
		'deadlock_timeout' => "'100ms'",
		'log_statement' => 'none',
		'log_line_prefix' => "'%m [%p] %e %b '",
		'taskq.stale_threshold' => "'400ms'",
		'taskq.dead_threshold' => "'$interval{dead_threshold}ms'",
		'taskq.reaper_interval' => "'$interval{reaper_interval}ms'",
		'taskq.deadline_interval' => "'300ms'");

	$node->init(allows_streaming => $self->has_promotion ? 1 : 0);
	$node->append_conf('postgresql.conf', "$_ = $settings{$_}") for sort keys %settings;
	$node->start;
	$self->{node} = $node;
	$self->{nodes} = [$node];
	$node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION taskq;
CREATE TABLE outbox (key text NOT NULL);
CREATE TABLE effect (task_id bigint NOT NULL, token bigint NOT NULL, key text NOT NULL);
SQL
	return unless $self->has_promotion;
	$node->backup('base');
	my $standby = PostgreSQL::Test::Cluster->new("$self->{name}_b");
	$standby->init_from_backup($node, 'base', has_streaming => 1);
	$standby->start;
	$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_replication')
	  or die 'the standby does not connect';
	$node->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
	$node->reload;
	push @{ $self->{nodes} }, $standby;
	return;
}

sub has_promotion { my ($self) = @_; return scalar grep { $_->[1] eq 'promote' } @{ $self->{plan} }; }

sub make_queues
{
	my ($self) = @_;

	# the rules on owners take an acknowledged claim for certain
	$self->{node}->safe_psql('postgres', q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});
	for my $queue (@queues)
	{
		my ($name, $options, $words) = @$queue;
		my ($rc, $out, $err) =
		  $self->{node}->psql('postgres', "\\set VERBOSITY verbose\nSELECT taskq_create_queue('$name', '{$options}')");
		# an option that is known and not built yet
		next if $rc != 0 && $err =~ /ERROR:  0A000/;
		die "queue $name: $err" if $rc != 0;
		push @{ $self->{queue_names} }, $name;
		$self->write_line("Q name=$name $words");
	}
	for my $template (map { Chaos::Templates::as_text($_) } Chaos::Templates::all())
	{
		$self->{node}->safe_psql('postgres', "SELECT taskq_define_workflow(\$d\$$template\$d\$)");
		$self->write_line("D $template");
	}
	my ($rc, $out, $err) = $self->{node}
	  ->psql('postgres', "\\set VERBOSITY verbose\nSELECT taskq_register('probe', max_running => 1), taskq_deregister('probe')");
	$self->{worker_limits} = $rc == 0;
	die "max_running of a worker: $err" if $rc != 0 && $err !~ /ERROR:  0A000/;
	return;
}

# sql(TEXT): the answer, or undef while there is no server to answer
sub sql
{
	my ($self, $text) = @_;
	my ($out, $err) = ('', '');
	my $rc = eval { $self->{node}->psql('postgres', $text, stdout => \$out, stderr => \$err, timeout => 60) };

	return defined $rc && $rc == 0 ? $out : undef;
}

sub wait_until
{
	my ($self, $seconds, $code) = @_;
	my $end = now() + $seconds * 1e6;

	until ($code->())
	{
		return 0 if now() > $end;
		$self->look_after_clients;
		select(undef, undef, undef, 0.02);
	}
	return 1;
}

sub server_answers
{
	my ($self) = @_;
	return system('pg_isready', '-q', '-h', $self->{node}->host, '-p', $self->{node}->port) == 0
	  && defined $self->sql('SELECT 1');
}

# --- clients

sub start_client
{
	my ($self, $client) = @_;
	my ($role, $name, $queues, $tags, $kind, $limit) = @$client;
	my $life = ++$self->{lives}{$name};
	my $process = "$name.$life";
	# some register again under their old name and some under another name, so
	# that what they held is found in both ways
	my $own_name = $life > 1 && $name =~ /^(p|c|f|w[3456])/ ? "$name-$life" : $name;
	my %known = map { $_ => 1 } @{ $self->{queue_names} };
	my $host = $self->{node}->host;
	my $conninfo = "host=" . join(',', ($host) x @{ $self->{nodes} })
	  . " port=" . join(',', map { $_->port } @{ $self->{nodes} })
	  . " dbname=postgres application_name=$name target_session_attrs=read-write connect_timeout=5";
	my @command = (
		$self->{client}, '-r', $role, '-n', $own_name,
		'-l', "$self->{dir}/$process.log", '-s', seed_of("$self->{seed} $process"), '-d', $self->{dir},
		'-c', $conninfo, '-q', join(',', grep { $known{$_} || $role =~ /^(starter|attendant)$/ } split /,/, $queues),
		'-a', join(',', grep { !$asleep{$_} } @{ $self->{queue_names} }), '-t', $tags // '', '-k', $kind // '',
		'-m', $self->{worker_limits} ? $limit // 0 : 0, '-R', $limit || $self->{rate} // 25);
	my $pid = fork // die "could not fork: $!";

	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', "$self->{dir}/clients.out";
		open STDERR, '>&', \*STDOUT;
		exec @command or POSIX::_exit(127);
	}
	$self->{process}{$pid} = { client => $client, name => $name, process => $process, role => $role };
	$self->{pid}{$name} = $pid;
	return;
}

# a number from some text, the same each time
sub seed_of
{
	my ($text) = @_;
	my $n = 5381;

	$n = ($n * 33 + ord) % 2147483647 for split //, $text;
	return $n;
}

# Resume frozen processes in time; start dead clients again; end prepared
# transactions whose owner, according to their names, has ended.
sub look_after_clients
{
	my ($self) = @_;

	for my $frozen (splice @{ $self->{frozen} //= [] })
	{
		if (now() < $frozen->{until}) { push @{ $self->{frozen} }, $frozen; next; }
		kill 'CONT', $frozen->{pid};
		$self->end_op($frozen->{op}, 'ok');
	}
	for my $pid (keys %{ $self->{process} })
	{
		next unless waitpid($pid, WNOHANG) == $pid;
		my $dead = delete $self->{process}{$pid};
		push @{ $self->{bad_ends} }, "$dead->{process} ended with exit status " . ($? >> 8)
		  if $? != 0 && ($? & 127) == 0 && $? >> 8 != 3;
		$self->{frozen} = [ grep { $_->{pid} != $pid } @{ $self->{frozen} } ];
		next if $self->{stopping} || $dead->{role} eq 'snapshot' || ($self->{draining} && submits($dead));
		$self->start_client($dead->{client});
	}
	$self->end_hush if $self->{hush} && now() > $self->{hush}{until};
	if (now() > ($self->{next_prepared} // 0) && !$self->{busy})
	{
		$self->{next_prepared} = now() + 700_000;
		$self->end_prepared('1 s');
		$self->look_at_queues unless $self->{draining};
	}
	return;
}

sub submits { my ($process) = @_; return $process->{role} =~ /^(producer|caller|grouper|starter)$/; }

# Producers leave out queues that have enough to do for now, so that the drain
# of a long run is no longer than that of a short one. What the audit has done
# is lost with the server, so it is read from time to time.
sub look_at_queues
{
	my ($self) = @_;
	local $self->{busy} = 1;
	my %full;

	for my $line (split /\n/, $self->sql("SELECT queue FROM taskq.queues WHERE pending > 150 UNION ALL " . audit_numbers()) // '')
	{
		if ($line =~ /^R /) { $self->write_line($line); }
		else { $full{$line} = 1; }
	}

	for my $name (@{ $self->{queue_names} })
	{
		my $file = "$self->{dir}/full_$name";
		if ($full{$name}) { append_to_file($file, '') unless -e $file; }
		else { unlink $file; }
	}
	return;
}

sub end_prepared
{
	my ($self, $age) = @_;
	local $self->{busy} = 1;
	my $left = $self->sql("SELECT gid FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '$age'") // '';

	for my $gid (split /\n/, $left)
	{
		$self->sql(($gid =~ /_commit$/ ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$gid'");
	}
	return;
}

# --- sabotage

sub sabotage
{
	my ($self) = @_;
	my $begin = now();

	local $SIG{PIPE} = 'IGNORE';
	for my $step (@{ $self->{plan} })
	{
		my ($time, $action, $which, $length) = @$step;
		$self->wait_until(3600, sub { now() >= $begin + $time * 1e6 });
		# on a slow machine less is done, and the server is spared for as long
		if ($action eq 'hush') { $begin = now() - $time * 1e6; }
		elsif ($action ne 'promote' && now() > $begin + ($time + 10) * 1e6) { $self->{left_out}++; next; }
		$self->can("do_$action")->($self, $which, $length);
	}
	$self->wait_until(3600, sub { now() >= $begin + $self->{seconds} * 1e6 });
	# on a slow machine some of those killed may have held nothing
	for my $try (1 .. 40)
	{
		last if ($self->{holders_killed} // 0) >= ($self->{holders} // 0);
		$self->do_kill_worker($try % scalar(worker_names()));
	}
	return;
}

sub worker_names { return map { $_->[1] } grep { $_->[0] eq 'worker' } @clients; }

# Does a stopped worker hold a task, by its log?
sub holds_task
{
	my ($self, $process) = @_;
	my $file = "$self->{dir}/$process.log";
	my %held;

	open my $in, '<', $file or return 0;
	seek $in, -20_000, 2 if -s $file > 20_000;
	while (<$in>)
	{
		if (/^E \d+ \d+ ok tasks=(\S+)/)
		{
			%held = map { join(' ', (split /:/)[ 0, 1 ]) => 1 } grep { $_ ne '-' } split /,/, $1;
		}
		elsif (/^B .* (?:complete|fail|release) .*?id=(\d+) token=(\d+)/) { delete $held{"$1 $2"}; }
		elsif (/ (?:complete|fail|release) /) { /id=(\d+) token=(\d+)/ && delete $held{"$1 $2"}; }
		elsif (/^B .*(?:register|deregister|claim) /) { %held = (); }
	}
	return scalar keys %held;
}

# A worker is killed while it holds a task, if it does within some seconds.
sub do_kill_worker
{
	my ($self, $which) = @_;
	my $name = (worker_names())[$which];
	my $end = now() + 3e6;

	for (;;)
	{
		my $pid = $self->{pid}{$name};
		my $process = $self->{process}{$pid};
		if ($process)
		{
			kill 'STOP', $pid;
			my $holds = $self->holds_task($process->{process});
			if ($holds || now() > $end)
			{
				$self->{holders_killed}++ if $holds;
				my $op = $self->begin_op('kill_worker', "of=$process->{process}");
				kill 'KILL', $pid;
				$self->end_op($op, 'ok');
				return;
			}
			kill 'CONT', $pid unless grep { $_->{pid} == $pid } @{ $self->{frozen} // [] };
		}
		$self->look_after_clients;
		select(undef, undef, undef, 0.013);
	}
}

# A sleeper usually holds nothing; what woke it must not be lost.
sub do_kill_sleeper
{
	my ($self, $which) = @_;
	my @names = map { $_->[1] } grep { $_->[0] eq 'sleeper' } @clients;
	my $name = $names[ $which % @names ];
	my $process = $self->{process}{ $self->{pid}{$name} } // return;
	my $op = $self->begin_op('kill_sleeper', "of=$process->{process}");

	kill 'KILL', $self->{pid}{$name};
	$self->end_op($op, 'ok');
	return;
}

sub do_freeze_worker
{
	my ($self, $which, $length) = @_;
	my $name = (worker_names())[$which];
	my $pid = $self->{pid}{$name};
	my $op = $self->begin_op('freeze_worker', "w=$name");

	kill 'STOP', $pid;
	push @{ $self->{frozen} }, {
		pid => $pid, op => $op, until => now() + 1000 * ($interval{dead_threshold} + $interval{reaper_interval} + 200 + 800 * $length) };
	return;
}

sub backend_of
{
	my ($self, $name) = @_;
	return $self->sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$name' LIMIT 1");
}

# If a process of the server is killed, the server ends all others.
sub kill_and_wait
{
	my ($self, $what, $pid) = @_;
	my $op = $self->begin_op($what);

	kill 'KILL', $pid;
	# the crash has been noticed once that process has ended
	return $self->end_when_back($op, sub { !kill(0, $pid) && $self->server_answers });
}

# The server is ready when it answers and has its background worker.
sub end_when_back
{
	my ($self, $op, $answers) = @_;

	$self->wait_until(30, $answers);
	$self->end_op($op, $self->wait_until(15, sub { $self->duties_pid }) ? 'ok' : 'fail');
	return;
}

sub do_kill_backend
{
	my ($self, $which) = @_;
	my $pid = $self->backend_of((worker_names())[$which]) || return;

	return $self->kill_and_wait('kill_backend', $pid);
}

# A connection ends, and all others continue.
sub do_end_backend
{
	my ($self, $which) = @_;
	my $name = (worker_names())[$which];
	my $op = $self->begin_op('end_backend', "w=$name");
	my $done = $self->sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$name'");

	$self->end_op($op, defined $done ? 'ok' : 'fail');
	return;
}

# Not longer than necessary: it may hold a lock that every session needs, and
# nothing else can be done at the same time.
sub do_freeze_backend
{
	my ($self, $which, $length) = @_;
	my $pid = $self->backend_of((worker_names())[$which]) || return;
	my $op = $self->begin_op('freeze_backend');
	local $self->{busy} = 1;

	kill 'STOP', $pid;
	my $until = now() + 900_000 + 600_000 * $length;
	$self->wait_until(3, sub { now() > $until });
	kill 'CONT', $pid;
	$self->end_op($op, 'ok');
	return;
}

sub duties_pid { return $_[0]->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq worker'"); }

sub do_stop_duties
{
	my ($self) = @_;
	my $pid = $self->duties_pid || return;
	my $op = $self->begin_op('stop_duties');

	kill 'TERM', $pid;
	my $back = $self->wait_until(15, sub { my $now = $self->duties_pid; $now && $now != $pid });
	$self->end_op($op, $back ? 'ok' : 'fail');
	return;
}

sub do_kill_duties
{
	my ($self) = @_;
	my $pid = $self->duties_pid || return;

	return $self->kill_and_wait('kill_duties', $pid);
}

sub do_restart
{
	my ($self) = @_;
	my $op = $self->begin_op('restart');

	$self->{node}->stop('immediate');
	$self->{node}->start;
	return $self->end_when_back($op, sub { $self->server_answers });
}

# The old primary is shut down; its synchronous standby has everything that was
# acknowledged.
sub do_promote
{
	my ($self) = @_;
	my $op = $self->begin_op('promote');

	$self->{nodes}[0]->stop('immediate');
	$self->{node} = $self->{nodes}[1];
	$self->{node}->promote;
	return $self->end_when_back($op, sub { $self->server_answers });
}

sub do_wipe
{
	my ($self) = @_;
	my $op = $self->begin_op('wipe');

	$self->end_op($op, defined $self->sql('SELECT taskq.debug_wipe()') ? 'ok' : 'fail');
	return;
}

sub do_snapshot
{
	my ($self) = @_;
	$self->start_client([ 'snapshot', 'snapshot', '', '', '', $snapshot ]);
	return;
}

# For some time nothing is submitted to the sleepers: a task for which no
# sleeper was woken stays where it is.
sub do_hush
{
	my ($self) = @_;

	append_to_file("$self->{dir}/hush", '');
	$self->{hush} = { op => $self->begin_op('hush'), until => now() + $hush * 1e6 };
	return;
}

sub end_hush
{
	my ($self) = @_;
	my $hush = delete $self->{hush};

	unlink "$self->{dir}/hush";
	$self->end_op($hush->{op}, 'ok');
	return;
}

# Tables and memory are compared while all clients work.
sub do_check
{
	my ($self) = @_;
	my $op = $self->begin_op('check');
	my $problems = $self->sql("SELECT concat_ws(' ', 'K', problem, detail) FROM taskq_check()");

	$self->write_line($_) for split /\n/, $problems // '';
	$self->end_op($op, defined $problems ? 'ok' : 'fail');
	return;
}

sub do_vacuum
{
	my ($self) = @_;
	my $op = $self->begin_op('vacuum');
	my $sleepers = join ',', map { "'$_->[1]'" } grep { $_->[0] eq 'sleeper' } @clients;
	my $done = $self->sql(<<"SQL");
-- a claim that waits keeps its lock on the table
SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE application_name IN ($sleepers);
SET lock_timeout = '1500ms';
VACUUM FULL taskq.task
SQL

	$self->end_op($op, defined $done ? 'ok' : 'fail');
	return;
}

# --- the end

# drain(SECONDS): the sabotage has ended; the workers continue until no task is
# left
sub drain
{
	my ($self, $seconds) = @_;

	my $begin = now();

	local $SIG{PIPE} = 'IGNORE';
	$self->{draining} = 1;
	append_to_file("$self->{dir}/drain", '');
	$_->{until} = 0 for @{ $self->{frozen} };
	$self->look_after_clients;
	# live tasks are counted, again after each end of a prepared transaction,
	# and at the end the counts are checked
	my $count = sub { $self->sql('SELECT sum(pending) FROM taskq.queues') };
	$self->wait_until(20, sub { $count->(); !grep { submits($_) } values %{ $self->{process} } });
	$self->{busy} = 1;
	$self->end_prepared('0 s');
	my $drained = $self->wait_until($seconds, sub {
		$count->();
		return !$self->tasks_left;
	});
	$self->{drain_time} = (now() - $begin) / 1e6;
	$self->stop_clients;
	return $drained;
}

# Is there a task to do, or no server to answer? Steps that a failed step
# holds up stay blocked when its instance has ended.
sub tasks_left
{
	my ($self) = @_;
	my $left = $self->sql(<<'SQL') // return 1;
SELECT count(*) FROM taskq.tasks WHERE state IN ('pending', 'running', 'suspended') OR state = 'blocked' AND workflow_id IS NULL
SQL

	$left ||= $self->sql(<<'SQL') // return 1;
SELECT count(*) FROM taskq.workflows WHERE state NOT IN ('done', 'resolved', 'error', 'cancelled')
SQL
	return $left;
}

sub stop_clients
{
	my ($self) = @_;

	$self->{stopping} = 1;
	append_to_file("$self->{dir}/stop", '');
	# these would notice it when they wake up
	kill 'KILL', grep { $self->{process}{$_}{role} eq 'sleeper' } keys %{ $self->{process} };
	return if $self->wait_until(8, sub { !%{ $self->{process} } });
	kill 'KILL', keys %{ $self->{process} };
	$self->wait_until(5, sub { !%{ $self->{process} } });
	return;
}

# What the checker checks, as a file next to the logs
sub write_final
{
	my ($self) = @_;
	my $node = $self->{node};
	my $drift = abs(clock_offset() - $self->{offset});

	open my $out, '>', "$self->{dir}/final.log" or die "$self->{dir}: $!";
	printf $out "S dead_threshold=%d reaper_interval=%d late=2000000 recovery=3000000"
	  . " asleep=10000000 answer=3000000 bound=2000000 slack=%d\n",
	  $interval{dead_threshold} * 1000, $interval{reaper_interval} * 1000, 5000 + $drift;
	print $out map { "$_\n" } grep { length } map { $node->safe_psql('postgres', $_) } (
		q{SELECT format('T id=%s q=%s state=%s reason=%s attempt=%s key=%s', task_id, queue, state,
		                coalesce(reason, '-'), attempt, coalesce(payload->>'key', '-')) FROM taskq.tasks WHERE workflow_id IS NULL},
		q{SELECT format('T id=%s q=%s state=%s reason=%s attempt=%s key=w%s/%s result=%s', task_id, queue, state, coalesce(reason, '-'),
		                attempt, workflow_id, step, replace(coalesce(result, 'null')::text, ' ', '')) FROM taskq.tasks WHERE workflow_id IS NOT NULL},
		q{SELECT format('W id=%s name=%s key=%s in=%s n=%s state=%s parent=%s via=%s result=%s', workflow_id, v.name, coalesce(w.key, '-'),
		                w.input->>'key', w.input->>'n', v.state, coalesce(w.parent_id::text, '-'), coalesce(w.parent_task_id::text, '-'),
		                replace(coalesce(w.result, 'null')::text, ' ', '')) FROM taskq.workflow w JOIN taskq.workflows v USING (workflow_id)},
		q{SELECT format('V flow=%s step=%s', workflow_id, step) FROM taskq.workflow_steps WHERE state = 'skipped'},
		q{SELECT format('O key=%s', key) FROM outbox},
		q{SELECT format('F id=%s token=%s', task_id, token) FROM effect},
		audit_numbers(),
		q{SELECT concat_ws(' ', 'K', problem, detail) FROM taskq_check()});
	for my $file (map { $_->logfile } @{ $self->{nodes} })
	{
		print $out map { "L $_\n" } grep { /PANIC:|TRAP:|was terminated by|\] (?:XX\w{3}|57P01) / } split /\n/, slurp_file($file);
	}
	my ($stdout, $stderr);
	my $sound = IPC::Run::run(
		[ 'pg_amcheck', '-h', $node->host, '-p', $node->port, '--install-missing', '--heapallindexed', '-d', 'postgres' ],
		'>', \$stdout, '2>', \$stderr);
	print $out map { "A pg_amcheck: $_\n" } split /\n/, $stdout . $stderr unless $sound;
	print $out map { "A $_\n" } @{ $self->{bad_ends} // [] };
	close $out or die "$self->{dir}: $!";
	return;
}

sub stop
{
	my ($self) = @_;
	$self->stop_clients if %{ $self->{process} };
	$self->{node}->stop('fast');
	return;
}

# Whatever happens, no client outlives the run.
sub DESTROY
{
	my ($self) = @_;
	local ($?, $@);

	kill 'KILL', keys %{ $self->{process} // {} } if $self->{owner} == $$;
	return;
}

1;

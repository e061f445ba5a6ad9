# Many sessions use one server at the same time: a thousand sleep in it,
# sixty-four claim the same task, and as many connect as the server accepts.
# (takes long)
# expect-log: terminating background worker
# expect-log: could not map anonymous shared memory|exceeded available memory
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use TaskqCrowd;
use TaskqTest;
use TaskqWaiters;
use Time::HiRes qw(time);

my $LONG = 45;     # seconds: far more than it takes, less than a waiter's minute
my $MANY = 1000;

# The server's own timers would wake sleepers once: an idle process sets one for
# its statistics, and one for the login may still fire.
my $node = start_node(
	'crowd',
	'track_counts' => 'off',
	'authentication_timeout' => "'10min'",
	'max_connections' => $MANY + 20,
	'autovacuum' => 'off',
	'checkpoint_timeout' => "'1h'",
	'bgwriter_delay' => "'10s'");
my $sql = sub { $node->safe_psql('postgres', shift) };

waiters_of($node);

# How often each of these processes has gone to sleep
sub sleeps_of
{
	return map { slurp_file("/proc/$_/status") =~ /^voluntary_ctxt_switches:\s+(\d+)/m ? "$_ $1" : () } @_;
}

# Processor time of these processes, in ticks
sub ticks_of
{
	my $sum = 0;

	for (@_)
	{
		my @stat = split ' ', slurp_file("/proc/$_/stat") =~ s/^.*\) //sr;
		$sum += $stat[11] + $stat[12];
	}
	return $sum;
}

# all_wait(CLIENTS...): sessions without an answer sleep
sub all_wait
{
	my $count = unanswered(@_);

	return within($LONG, sub {
		$sql->("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%taskq_claim%' AND wait_event = 'Extension'") == $count;
	});
}

# --- as many sessions are woken as there are tasks
$sql->("SELECT taskq_create_queue('q')");
my @crowd = crowd($node, $MANY);
is(scalar @crowd, $MANY, 'a thousand sessions connect');
my @pids = backends(@crowd);
ask("SELECT payload FROM taskq_claim('q', wait => '5 min', lease => '1 h')", @crowd);
ok(all_wait(@crowd), 'wait');
my $before = numbers();
is($before->{waiting}, $MANY, 'the server lists all of them as waiting');
my %slept = map { $_ => 1 } sleeps_of(@pids);
is(scalar keys %slept, $MANY, 'all have been checked');
$sql->("SELECT taskq_submit('q', '\"one\"')");
is(join(' ', answers(1, $LONG, @crowd)), '"one"', 'one of them gets a task');
cmp_ok(numbers()->{wakes} - $before->{wakes}, '<=', 2, 'at most two were woken for it');
cmp_ok(scalar(grep { !$slept{$_} } sleeps_of(@pids)), '<=', 2, 'no other process has run');
$before = numbers();
$sql->("SELECT taskq_submit_many('q', array_fill('\"ten\"'::jsonb, ARRAY[10]))");
is(join(' ', answers(10, $LONG, @crowd)), join(' ', ('"ten"') x 10), 'ten of them get ten tasks');
cmp_ok(numbers()->{wakes} - $before->{wakes}, '<=', 15, 'hardly more were woken');

# --- memory is lost
$sql->('SELECT taskq.debug_wipe()');
ok(within($LONG, sub { numbers()->{waiting} == unanswered(@crowd) }) && all_wait(@crowd), 'memory is lost: the sessions check again and sleep');

# --- a sleeping session costs nothing, except for a check once a minute
# After the loss the archive is counted again, which writes.
$sql->('SELECT count(*) FROM taskq_run_reapers()');
my $idle = 'SELECT sleeps, wakes FROM taskq.debug_waiters()';
my $asleep = $sql->($idle);
my $wal = $sql->('SELECT pg_current_wal_insert_lsn()');
my $ticks = ticks_of(@pids);
within(3, sub { 0 });
is($sql->($idle), $asleep, 'sleeping sessions do not wake up');
cmp_ok($sql->("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$wal')"), '<', 2000, 'or writes WAL');
cmp_ok(ticks_of(@pids) - $ticks, '<=', 1, 'or needs CPU');
$sql->("SELECT taskq_submit('q', '\"after\"')");
is(join(' ', answers(1, $LONG, @crowd)), '"after"', 'they are woken as before');
$sql->("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE '%taskq_claim%' AND wait_event = 'Extension'");
is(join(' ', answers($MANY, $LONG, @crowd)), join(' ', ('57014') x ($MANY - 12)), 'the other sessions are cancelled');
is(numbers()->{waiting}, 0, 'no session waits any longer');
leave(@crowd);

# --- one task for many
$sql->("SELECT taskq_create_queue('one')");
@crowd = crowd($node, 64);
my $wrong = 0;
for my $round (1 .. 20)
{
	$sql->("SELECT taskq_submit('one', '$round')");
	ask("SELECT payload FROM taskq_claim('one', lease => '1 h')", @crowd);
	my @got = sort { $b cmp $a } answers(64, $LONG, @crowd);
	$wrong++ if join(' ', @got) ne join(' ', $round, ('') x 63);
}
is($wrong, 0, '64 sessions claim one task at the same time: one gets it and the others nothing, twenty times');
$sql->("SELECT taskq_submit_many('one', array_agg(to_jsonb(i))) FROM generate_series(101, 132) i");
ask("SELECT payload FROM taskq_claim('one', lease => '1 h')", @crowd);
is(join(' ', sort { $a <=> $b } grep { $_ ne '' } answers(64, $LONG, @crowd)), join(' ', 101 .. 132), 'half as many tasks as sessions: each task goes to one session');
leave(@crowd);

# --- a fast shutdown
my $running = "SELECT count(*) FROM taskq.tasks WHERE state = 'running'";
$before = $sql->($running);
timely(2, 'a fast shutdown with a hundred waiting sessions succeeds', sub {
	@crowd = crowd($node, 100);
	ask("SELECT payload FROM taskq_claim('q', wait => '5 min')", @crowd);
	ok(all_wait(@crowd), 'a hundred sessions wait');
	my $began = time;
	$node->stop('fast');
	my $took = time - $began;
	is(join(' ', answers(100, $LONG, @crowd)), join(' ', ('57P01') x 100), 'they report the shutdown');
	$node->start;
	return $took;
});
is($sql->($running), $before, 'no task was taken');

# --- no connection is left
$node->append_conf('postgresql.conf', <<'CONF');
max_connections = 20
superuser_reserved_connections = 1
CONF
$node->restart;
$sql->("SELECT taskq_create_queue('r', '{\"retry\": \"fixed\", \"retry_base\": \"0 s\"}')");
my $worker = worker_pid($node);
my ($sleeper, $other) = crowd($node, 2);
ask("SELECT payload FROM taskq_claim('r', wait => '5 min')", $sleeper);
ok(all_wait($sleeper), 'one session waits');
my @rest = crowd($node, 100);
cmp_ok(scalar @rest, '<', 20, 'all connections are in use');
is(scalar $node->psql('postgres', 'SELECT 1', stdout => \my $out, stderr => \my $err), 2, 'no other session can connect');
ask("SELECT taskq_submit('r', '1')", $other);
like(join(' ', answers(1, $LONG, $other)), qr/^\d+$/, 'a connected session can submit');
is(join(' ', answers(1, $LONG, $sleeper)), '1', 'the submit wakes the waiting session');
ask("SELECT count(*) FROM taskq_submit('r', '2', priority => 5), taskq_claim('r', lease => '100 ms')", $other);
answers(1, $LONG, $other);
ask("SELECT pg_terminate_backend($worker)", $other);
is(join(' ', answers(1, $LONG, $other)), 't', 'the background worker is ended');
ask("SELECT payload, attempt FROM taskq_claim('r', wait => '40 s')", $sleeper);
is(join(' ', answers(1, $LONG, $sleeper)), '2|2', 'it starts again, and ends a lease, without a free connection');
leave($sleeper, $other, @rest);
ok(within($LONG, sub { $sql->('SELECT 1') eq '1' }), 'there are connections again');

sound($node);

# --- settings that need more memory than the machine has
$node->append_conf('postgresql.conf', 'taskq.max_running_tracked = 100000000');
$node->stop;
my $limited = fork // die "could not fork: $!";
if ($limited == 0)
{
	exec 'sh', '-c', 'ulimit -v 2000000; exec pg_ctl -w -t 30 -D "$1" -l "$2" start >/dev/null 2>&1', 'sh', $node->data_dir, $node->logfile
	  or POSIX::_exit(127);
}
waitpid $limited, 0;
isnt($?, 0, 'the server does not start if it cannot get the memory for its settings');
like(slurp_file($node->logfile),
	qr/could not allocate \d+ MB of shared memory for taskq.*\n.*DETAIL:.*"taskq\.max_running_tracked", which is 100000000\.\n.*HINT:  Reduce "taskq\.max_running_tracked"/,
	'the error names the setting that asks for that much');
done_testing();

# TaskqWaiters: sessions that sleep in the server until there is something.
package TaskqWaiters;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use TaskqTest;

our @EXPORT = qw(waiters_of numbers start asleep sleeper claimer has_ended
  answer pid_of at_point give_up);

my $LONG = 45; # seconds: far more than it takes, less than a waiter's minute
my $node;
my $made = 0;

# waiters_of(NODE): the server in which sessions sleep from now on.
sub waiters_of { ($node) = @_; return; }

sub sql { return $node->safe_psql('postgres', shift) }

# The number of waiting sessions, and how often waiters have slept, were woken,
# and have passed a wake on.
sub numbers
{
	my @n = split /\|/, sql('SELECT waiting, sleeps, wakes, passed_on FROM taskq.debug_waiters()');
	return { waiting => $n[0], sleeps => $n[1], wakes => $n[2], passed_on => $n[3] };
}

# start(TEXT): a session of its own that runs it; answer() returns its output.
sub start
{
	my ($text) = @_;
	my $w = { name => 'waiter' . ++$made, in => $text, out => '', err => '' };
	my $file = $node->basedir . "/$w->{name}.sql";

	append_to_file($file, $text);
	$w->{run} = IPC::Run::start(
		[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=sqlstate',
			'-f', $file, '-d', $node->connstr('postgres') . " application_name=$w->{name}" ],
		'<', '/dev/null', '>', \$w->{out}, '2>', \$w->{err});
	return $w;
}

# asleep(W...): all of them sleep.
sub asleep
{
	my $names = join ',', map { "'$_->{name}'" } @_;
	my $count = @_;

	return within($LONG, sub {
		sql('SELECT count(*) FROM pg_stat_activity WHERE application_name IN '
			  . "($names) AND wait_event = 'Extension'") == $count;
	});
}

sub sleeper
{
	my $w = start(@_);

	asleep($w) or die "does not sleep: $w->{in}: " . answer($w, 1) . "\n"
	  . sql('SELECT task_id, queue, state, payload, tags, worker FROM taskq.tasks ORDER BY 1');
	return $w;
}

# claimer(ARGUMENTS): a claim that waits, and sleeps.
sub claimer
{
	my ($args, $before) = @_;
	return sleeper(($before // '') . "SELECT payload FROM taskq_claim($args, wait => '5 min', lease => '1 h');");
}

sub has_ended
{
	my ($w) = @_;

	return 1 if $w->{ended};
	# it dies if the other side has just ended
	return 0 if $w->{run}->pumpable && eval { $w->{run}->pump_nb; 1 } && $w->{run}->pumpable;
	eval { $w->{run}->finish };
	return $w->{ended} = 1;
}

# answer(W): what it printed, or its SQLSTATE; 'none' if it still runs.
sub answer
{
	my ($w, $seconds) = @_;

	return 'none' if !within($seconds // $LONG, sub { has_ended($w) });
	return $1 if $w->{err} =~ /(?:ERROR|FATAL):\s+(\w{5})\s*$/m;
	return $w->{out} =~ s/\s+$//r . $w->{err};
}

sub pid_of { my ($w) = @_; return sql("SELECT pid FROM pg_stat_activity WHERE application_name = '$w->{name}'") }

# at_point(W): it has reached a debug point, and waits there.
sub at_point
{
	my ($w) = @_;

	return within($LONG, sub {
		sql("SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
			  . " WHERE locktype = 'advisory' AND NOT granted AND application_name = '$w->{name}'") eq '1';
	});
}

# give_up(W...): they are cancelled.
sub give_up
{
	sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = '$_->{name}'") for @_;
	answer($_) for @_;
	return;
}

1;

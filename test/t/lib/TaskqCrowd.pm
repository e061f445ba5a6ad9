# TaskqCrowd: many connections of one process, which sends a statement to each
# and takes the answers as they arrive.
package TaskqCrowd;

use strict;
use warnings;
use Exporter 'import';
use IO::Poll qw(POLLIN POLLHUP POLLERR);
use Time::HiRes qw(time);
use TaskqClient;

our @EXPORT = qw(crowd ask answers unanswered leave backends);

# crowd(NODE, N): up to N connections, fewer if the server accepts no more.
sub crowd
{
	my ($node, $n) = @_;
	my @crowd;

	while (@crowd < $n)
	{
		my $client = TaskqClient::begin($node, 'postgres');

		if (defined $client->{failed})
		{
			leave($client);
			last;
		}
		push @crowd, $client;
	}
	return @crowd;
}

# ask(STATEMENT, CLIENTS...): sends it, and does not wait.
sub ask
{
	my ($statement, @crowd) = @_;

	for (@crowd)
	{
		TaskqClient::put($_, pack 'aNZ*', 'Q', 5 + length $statement, $statement);
		$_->{asked} = 1;
	}
	return;
}

# answers(N, SECONDS, CLIENTS...): the answers of N of them, in the order of
# arrival, or of fewer when the time is up: rows, or the SQLSTATE of an error.
sub answers
{
	my ($n, $seconds, @crowd) = @_;
	my $until = time + $seconds;
	my $poll = IO::Poll->new;
	my @answers;

	$poll->mask($_->{socket} => POLLIN) for unanswered(@crowd);
	while (@answers < $n && time < $until && $poll->handles)
	{
		$poll->poll(0.1);
		for my $client (grep { $poll->events($_->{socket}) & (POLLIN | POLLHUP | POLLERR) } unanswered(@crowd))
		{
			push @answers, answer($client);
			$poll->remove($client->{socket});
		}
	}
	return @answers;
}

# The rest of an answer arrives together with its beginning.
sub answer
{
	my ($client) = @_;
	my (@rows, $code);

	$client->{asked} = 0;
	while (my ($type, $body) = TaskqClient::get($client))
	{
		push @rows, join '|', TaskqClient::row($body) if $type eq 'D';
		($code) = $body =~ /\0C(\w{5})\0/ if $type eq 'E';
		last if $type eq 'Z';
	}
	return $code // join "\n", @rows;
}

sub unanswered { return grep { $_->{asked} } @_; }

# backends(CLIENTS...): the process numbers of their sessions
sub backends
{
	my (@crowd) = @_;

	ask('SELECT pg_backend_pid()', @crowd);
	return answers(scalar @crowd, 60, @crowd);
}

sub leave
{
	TaskqClient::finish($_) for @_;
	return;
}

1;

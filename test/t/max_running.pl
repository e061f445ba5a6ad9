# Sixteen clients use a queue that may run five tasks and a worker that may run
# three. They commit, roll back, roll back to savepoints and prepare claims and
# finishes. Clients and connections are killed, once the server too, and all
# shared memory is lost again and again. The records of the clients show that
# there were never more claims at the same time than allowed, and at the end as
# many as allowed can be made. LONG=1: half a minute
# expect-log: terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $CLIENTS = 16;
my $SECONDS = $ENV{LONG} ? 30 : 9;
my $WIPES = $ENV{LONG} ? 5 : 3;
my $CRASHES = $ENV{LONG} ? 2 : 1;
my $LEAST = 500;
my %MAX = (queue => 5, worker => 3);
my %KINDS = (queue => 'qa', worker => 'av');

my $seed = $ENV{SEED} || 1 + int(rand(1_000_000));
srand($seed);
note "figure: seed $seed";

my $node = start_node(
	'max_running',
	'max_connections' => 80,
	'max_prepared_transactions' => 60,
	'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});

$sql->(<<'SQL');
SELECT taskq_create_queue(q, o::jsonb || '{"max_attempts": -1, "retry": "fixed", "retry_base": "0 s", "retention": "none"}')
  FROM (VALUES ('q', '{"max_running": 5}'), ('v', '{}')) AS x (q, o);
SELECT count(*) FROM taskq_submit_many('q', array_fill('{}'::jsonb, ARRAY[6000]));
SELECT count(*) FROM taskq_submit_many('v', array_fill('{}'::jsonb, ARRAY[3000]));
SELECT taskq_register('a', max_running => 3);
SQL

my $clients = start_limit_clients($node, 'max', $CLIENTS, $seed);
my %done = map { $_ => 0 } qw(wipes crashes terminated killed);

# The actions of an administrator; errors of a server that is shutting down do
# not count.
my $try = sub {
	my $answer = eval { $sql->(shift) };
	return $answer // '';
};
my $begin = time;
# all planned actions, even if the machine is slow
while ((my $at = (time - $begin) / $SECONDS) < 3)
{
	last if $at >= 1 && $done{wipes} >= $WIPES && $done{crashes} >= $CRASHES;
	if ($done{wipes} < $WIPES && $at > ($done{wipes} + 0.7) / $WIPES)
	{
		$done{wipes}++ if eval { $sql->('SELECT taskq.debug_wipe()'); 1 };
	}
	elsif ($done{crashes} < $CRASHES && $at > ($done{crashes} + 0.5) / $CRASHES)
	{
		my $pid = $try->("SELECT pid FROM pg_stat_activity WHERE application_name = 'limit_client' ORDER BY random() LIMIT 1");
		if ($pid ne '' && hit($node, $pid))
		{
			recovered($node, ++$done{crashes}, 20) or die 'the server did not recover';
		}
	}
	elsif (rand() < 0.4)
	{
		kill_limit_client($clients, int rand $CLIENTS);
		$done{killed}++;
	}
	else
	{
		$done{terminated}++ if $try->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
			  . " WHERE application_name = 'limit_client' ORDER BY random() LIMIT 1") eq 't';
	}
	within(0.25, sub { 0 });
}
# enough to count, even if the machine is slow
within(60, sub { (grep { /^B / } said($clients)) >= $LEAST });
end_clients($clients);
my $seconds = time - $begin;

# --- the records of the clients
my (@lines, %claim, %of_gid, %errors, @early);
push @lines, said($clients);
for (@lines)
{
	my @word = split / /;

	if ($word[0] eq 'B')
	{
		my (undef, $kind, $task, $token, $from, $to, $gid) = @word;

		$claim{"$task $token"} = { kind => $kind, from => $from, to => $to };
		$of_gid{$gid}{"$task $token"} = 1 if $gid ne '-';
	}
	elsif ($word[0] eq 'I')
	{
		# a token may be used again after a rollback
		my $key = join ' ', @word[ 2 .. 4 ];
		$claim{"I $key"} = { kind => $word[1], from => $word[4], to => $word[5] };
	}
	elsif ($word[0] eq 'T')
	{
		push @early, $_;
	}
	elsif ($word[0] eq 'X')
	{
		$errors{ $word[1] }++;
	}
}
my $cut = sub {
	my ($claim, $at) = @_;
	$claim->{to} = $at if $claim && $at < $claim->{to};
};
for (@lines)
{
	my @word = split / /;

	$cut->($claim{"$word[1] $word[2]"}, $word[3]) if $word[0] eq 'E';
	if ($word[0] eq 'R')
	{
		$cut->($claim{$_}, $word[2]) for keys %{ $of_gid{ $word[1] } // {} };
	}
}

my $acknowledged = grep { $_ !~ /^I/ } keys %claim;
my %kinds;
$kinds{ $claim{$_}{kind} . ($_ =~ /^I/ ? ' undone' : '') }++ for keys %claim;
note sprintf 'figure: %d claims acknowledged in %.1f s (%s)', $acknowledged, $seconds,
  join ', ', map { "$_ $kinds{$_}" } sort keys %kinds;
note 'figure: ' . join ', ', map { "$_ $done{$_}" } sort keys %done;
note 'figure: errors ' . join ', ', map { "$_ $errors{$_}" } sort keys %errors;

cmp_ok($acknowledged, '>=', $LEAST, 'enough claims were acknowledged (void otherwise)');
is("$done{wipes} $done{crashes}", "$WIPES $CRASHES", 'memory was lost as often as planned (void otherwise)');
cmp_ok($done{killed} && $done{terminated}, '>=', 1, 'clients and connections were killed (void otherwise)');
for my $what (sort keys %MAX)
{
	my @ends;
	my ($now, $most) = (0, 0);

	for my $claim (values %claim)
	{
		next if index($KINDS{$what}, $claim->{kind}) < 0 || $claim->{to} <= $claim->{from};
		push @ends, [ $claim->{from}, 1 ], [ $claim->{to}, -1 ];
	}
	for my $end (sort { $a->[0] <=> $b->[0] || $a->[1] <=> $b->[1] } @ends)
	{
		$now += $end->[1];
		$most = $now if $now > $most;
	}
	is($most, $MAX{$what}, "$what: as many at the same time as allowed, and never more");
}
is("@early", '', 'no client lost a claim before its lease had expired');
is(join(' ', grep { !/^(57P0[123]|08006|42704|55000)$/ } sort keys %errors), '', 'no unexpected errors');

# --- at the end all of the limit is available
ok(within(20, sub {
	my $left = $sql->('SELECT gid FROM pg_prepared_xacts');
	$sql->("ROLLBACK PREPARED '$_'") for split /\n/, $left;
	return $sql->("SELECT sum(running) FROM taskq.queues WHERE queue IN ('q', 'v')") eq '0';
}), 'nothing is left behind');

# Wherever it is rolled back, a claim returns its reservation.
sub fill
{
	my ($name) = @_;
	my $out = $sql->(<<'SQL');
SELECT count(*) FROM taskq_claim('q', max_tasks => 4, lease => '1 h');
SELECT count(*) FROM taskq_claim('q', max_tasks => 4, lease => '1 h');
SELECT count(*) FROM taskq_claim('q', lease => '1 h');
SELECT count(*) FROM taskq_claim('v', 'a', max_tasks => 2, lease => '1 h');
SELECT count(*) FROM taskq_claim('v', 'a', max_tasks => 2, lease => '1 h');
SELECT count(*) FROM taskq_claim('v', 'a', lease => '1 h');
SELECT count(*) FROM taskq_claim('v', lease => '1 h');
SELECT count(taskq_release(task_id, token)::text) FROM taskq.tasks WHERE state = 'running';
SQL
	$out =~ s/\n/ /g;
	is($out, '4 1 0 2 1 0 1 9', "$name: five of the queue, three of the worker, and no more");
	return;
}
fill('in the end');
for my $i (1 .. 6)
{
	$sql->(<<'SQL');
BEGIN;
SAVEPOINT s;
SELECT taskq_claim('q', 'a', max_tasks => 2, lease => '1 h');
ROLLBACK TO s;
SELECT taskq_claim('q', 'a', lease => '1 h');
ROLLBACK;
SQL
}
fill('after rollbacks');
sound($node, crashes => $done{crashes});
amcheck($node);
$node->stop('fast');
done_testing();

# TaskqTest: what the TAP tests share.
package TaskqTest;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use POSIX ();
use TaskqClient;
use TaskqInit;
use Time::HiRes qw(time);

our @EXPORT = qw(start_node open_session within stays timely sound worker_pid error_of hit recovered start_again amcheck
  start_clients end_clients said errors_of words_of_errors start_limit_clients kill_limit_client build_c);

# What is sent to background sessions is not a result of a test.
{
	no warnings 'redefine', 'once';
	*PostgreSQL::Test::BackgroundPsql::note = sub { };
}

my $clients_made = 0;

# start_node(NAME, SETTINGS): a server with the extension in database postgres,
# its background worker running and its first round over: the duties of a start
# do not affect what a test does from then on.
sub start_node
{
	my ($name, %settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my %all = (
		'shared_preload_libraries' => "'taskq'",
		'max_worker_processes' => 16,
		'max_connections' => 60,
		'max_prepared_transactions' => 10,
		'log_statement' => 'none',
		'log_line_prefix' => "'%m [%p] %e %b '",
		%settings);

	$node->init(%{ delete $all{init} // {} });
	$node->append_conf('postgresql.conf', "$_ = $all{$_}") for sort keys %all;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION taskq');
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND wait_event = 'Extension'")
	  or die 'the background worker did not start';
	return $node;
}

# open_session(NODE, DATABASE): a session that stays, for transactions that are
# open while the test continues; each of its queries has the whole time limit.
sub open_session
{
	my ($node, $database) = @_;
	my $session = $node->background_psql($database // 'postgres');

	$session->set_query_timer_restart;
	return $session;
}

# within(SECONDS, CODE): polls until CODE is true; false if the time is up.
sub within
{
	my ($seconds, $code) = @_;
	my $begun = time;

	while (time < $begun + $seconds)
	{
		# a client dies if the server is just shutting down
		return 1 if eval { $code->() };
		TaskqClient::pause($begun);
	}
	return eval { $code->() } ? 1 : 0;
}

# stays(SECONDS, CODE): CODE is true for that time. It is called four times, the
# last time at the end: for conditions that would not become true again by
# themselves.
sub stays
{
	my ($seconds, $code) = @_;

	for (1 .. 4)
	{
		within($seconds / 4, sub { 0 });
		return 0 if !$code->();
	}
	return 1;
}

# timely(BOUND, NAME, CODE): CODE does something and returns how long that took.
# A busy machine makes single attempts late, so there are up to eight of them,
# and the fastest counts; what is always late fails.
sub timely
{
	my ($bound, $name, $code) = @_;
	my @took;

	for (1 .. 8)
	{
		push @took, $code->();
		last if $took[-1] < $bound;
	}
	Test::More::note("figure: $name: ", join(', ', @took));
	return Test::More::cmp_ok($took[-1], '<', $bound, $name);
}

sub worker_pid
{
	my ($node, $database) = @_;
	return $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq worker'"
		  . " AND datname = '" . ($database // 'postgres') . "'");
}

# sound(NODE, crashes => N): tables and memory agree, and the log shows no bug,
# and no crash except the expected ones.
sub sound
{
	my ($node, %expected) = @_;
	my $log = slurp_file($node->logfile);
	my @crashes = $log =~ /(was terminated by signal \d+)/g;

	is($node->safe_psql($expected{database} // 'postgres',
			'SELECT problem, detail FROM taskq_check()'),
		'', 'taskq_check finds nothing');
	my @bugs = $expected{bugs} ? $expected{bugs}->($node) : grep { /\] XX\w{3} |PANIC/ } split /\n/, $log;
	is("@bugs", '', 'no class XX and no PANIC in the log');
	is(scalar @crashes, $expected{crashes} // 0, 'crashes as expected');
	return;
}

# error_of(NODE, TEXT): the SQLSTATE that a statement ends with, '' if none.
sub error_of
{
	my ($node, $text, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database // 'postgres',
		"\\set VERBOSITY sqlstate\n$text", on_error_stop => 1);

	return '' if $rc == 0;
	return $err =~ /(?:ERROR|FATAL):\s+(\w{5})\s*$/m ? $1 : "exit $rc: $err";
}

# recovered(NODE, N, SECONDS): the server has started again after its Nth crash,
# with its background worker, in time. Nothing is sent before the server accepts
# connections.
sub recovered
{
	my ($node, $n, $seconds) = @_;

	return within($seconds // 30, sub {
		my @crashes = slurp_file($node->logfile) =~ /(all server processes terminated; reinitializing)/g;
		return @crashes >= $n
		  && TaskqClient::accepts($node)
		  && worker_pid($node) ne '';
	});
}

# hit(NODE, PID): a backend is killed, and the server logs it. A backend that
# had already finished its work, and had only its exit left, is not hit.
sub hit
{
	my ($node, $pid) = @_;
	my $told = qr/\(PID $pid\) was terminated by signal 9/;

	return kill('KILL', $pid) && within(10, sub {
		return slurp_file($node->logfile) =~ $told || !kill(0, $pid);
	}) && within(5, sub { slurp_file($node->logfile) =~ $told });
}

# start_again(NODE): after the postmaster was killed; its children may take
# a moment to notice.
sub start_again
{
	my ($node) = @_;

	return within(30, sub {
		return 1 if $node->start(fail_ok => 1);
		$node->stop('fast', fail_ok => 1);
		return 0;
	});
}

# amcheck(NODE): tables and indexes are correct; system catalogs are not
# checked.
sub amcheck
{
	my ($node, $database) = @_;

	$node->command_ok(
		[ 'pg_amcheck', '--install-missing', '--heapallindexed', '--parent-check',
			'--exclude-schema', 'pg_catalog', '-d', $database // 'postgres' ],
		'tables and indexes are sound');
	return;
}

# start_clients(NODE, N, SCRIPT): N processes that send a psql script again and
# again, whatever happens to their connections, until end_clients(). The output
# of psql, including errors, is collected: said() gives the lines of all.
sub start_clients
{
	my ($node, $n, $script) = @_;
	my $name = $node->name . '_' . (++$clients_made);
	my $dir = $PostgreSQL::Test::Utils::tmp_check;
	my $clients = { stop => "$dir/$name.stop", pids => [], logs => [] };
	my $parent = $$;

	for my $i (1 .. $n)
	{
		my $log = "$dir/$name.$i.log";
		my $pid = fork // die "could not fork: $!";
		push @{ $clients->{pids} }, $pid;
		push @{ $clients->{logs} }, $log;
		next if $pid;
		open STDOUT, '>>', $log or POSIX::_exit(1);
		open STDERR, '>', '/dev/null';
		until (-e $clients->{stop} || getppid != $parent)
		{
			my $good = eval {
				IPC::Run::run(
					[ 'psql', '-X', '-q', '-A', '-t', '-F', ' ', '-d', $node->connstr('postgres') ],
					'<', \$script, '2>&1');
			};
			within(0.1, sub { -e $clients->{stop} }) unless $good;
		}
		POSIX::_exit(0);
	}
	return $clients;
}

sub end_clients
{
	my ($clients) = @_;

	append_to_file($clients->{stop}, '');
	waitpid $_, 0 for @{ $clients->{pids} };
	return;
}

# build_c(NAME, OPTIONS...): compiles NAME.c of this directory.
sub build_c
{
	my ($name, @options) = @_;
	my $program = "$PostgreSQL::Test::Utils::tmp_check/$name.program";
	my ($source) = grep { -e } map { "$_/$name.c" } @INC;

	# one test builds it while another one runs it
	system('gcc', '-std=gnu11', '-O1', '-Wall', '-Wextra', '-Werror', '-o', "$program.$$", $source, @options) == 0
	  && rename "$program.$$", $program
	  or die "could not build $source";
	return $program;
}

# start_limit_clients(NODE, MODE, N, SEED): N processes of limit_client.c, until
# end_clients(); said() gives what they wrote down.
sub start_limit_clients
{
	my ($node, $mode, $n, $seed) = @_;
	my $dir = $PostgreSQL::Test::Utils::tmp_check;
	my $name = $node->name . '_' . (++$clients_made);
	my $program = build_c('limit_client', "-I$ENV{TASKQ_INCLUDE}", "-L$ENV{TASKQ_LIB}", '-lpq');
	my $clients = { node => $node, mode => $mode, seed => $seed, program => $program,
		stop => "$dir/$name.stop", pids => [], logs => [ map { "$dir/$name.$_.log" } 0 .. $n - 1 ] };

	unlink $clients->{stop}, @{ $clients->{logs} };
	start_limit_client($clients, $_) for 0 .. $n - 1;
	return $clients;
}

sub start_limit_client
{
	my ($clients, $i) = @_;
	my @command = ($clients->{program}, $clients->{mode},
		$clients->{node}->connstr('postgres') . ' application_name=limit_client',
		$i, $clients->{logs}[$i], $clients->{stop}, $clients->{seed}++);
	my $pid = fork // die "could not fork: $!";

	if ($pid == 0)
	{
		eval { exec { $command[0] } @command };
		POSIX::_exit(1);
	}
	$clients->{pids}[$i] = $pid;
	return;
}

# Another process replaces it.
sub kill_limit_client
{
	my ($clients, $i) = @_;

	kill 'KILL', $clients->{pids}[$i];
	waitpid $clients->{pids}[$i], 0;
	start_limit_client($clients, $i);
	return;
}

# errors_of(CLIENTS): SQLSTATE => how often; scripts say VERBOSITY sqlstate.
sub errors_of
{
	my %count;

	/(?:ERROR|FATAL):\s+(\w{5})\s*$/ && $count{$1}++ for said(@_);
	return %count;
}

# words_of_errors(NODE, SQLSTATE...): what the log says of these errors, each
# once, with how often and in which context.
sub words_of_errors
{
	my ($node, @codes) = @_;
	my $code = join '|', @codes;
	my (%count, $of);

	for (split /\n/, slurp_file($node->logfile))
	{
		$of = $_ if s/^.*\] (?:$code) .*?((?:ERROR|FATAL):)/$1/;
		$count{$of}++, next if defined $of && $of eq $_;
		next if !defined $of || !s/^.*\] (?:$code) .*?((?:HINT|DETAIL|CONTEXT|STATEMENT|LOCATION):)/$1/;
		$count{"$of\n    $_"}++;
	}
	return join "\n", map { "$count{$_} times $_" } sort keys %count;
}

sub said
{
	my ($clients) = @_;

	return map { -e $_ ? split /\n/, slurp_file($_) : () } @{ $clients->{logs} };
}

1;

# The examples of coordination work. Workers that are killed while they hold
# tasks count words, and the result is that of sort | uniq -c. Leaders are
# frozen (also during an action), killed and disconnected, and two leaders never
# act at the same time.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run ();
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $top = "$FindBin::Bin/../..";
plan skip_all => 'needs python3-psycopg' if system('python3 -c "import psycopg" 2>/dev/null') != 0;

my $node = start_node('examples', 'fsync' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $dir = $PostgreSQL::Test::Utils::tmp_check;
@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', scalar getpwuid($<));

my %pid_of;

# begin_process(NAME, COMMAND...)
sub begin_process
{
	my ($name, @command) = @_;
	my $pid = fork // die "could not fork: $!";

	if ($pid == 0)
	{
		open STDOUT, '>>', "$dir/$name.log";
		open STDERR, '>>', "$dir/$name.log";
		exec @command or POSIX::_exit(1);
	}
	$pid_of{$name} = $pid;
	return;
}

sub end_process
{
	my ($name, $signal) = @_;

	kill $signal, $pid_of{$name};
	kill 'CONT', $pid_of{$name};
	waitpid $pid_of{$name}, 0;
	delete $pid_of{$name};
	return;
}

END { kill 'KILL', values %pid_of }

# --- words
my @program = ('python3', "$top/examples/word_count/word_count.py");
my @files = sort glob("$top/doc/*.md $top/src/*/*.c $top/src/*/*/*.c $top/sql/parts/*.sql");
cmp_ok(scalar @files, '>', 100, 'there are ' . @files . ' files');
command_ok([ @program, 'begin', @files ], 'begun');
command_ok([ @program, 'begin', @files ], 'the words are submitted again');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'map'"), scalar @files, 'a task for each file');
begin_process("worker $_", @program, 'work', "worker $_") for 1 .. 4;
my ($killed, $held) = (0, 0);
my $left = sub { $sql->("SELECT count(*) FROM taskq.tasks WHERE queue IN ('map', 'reduce')") };
my $worker = 0;
while ($held < 5 && $left->() > 0)
{
	my $name = 'worker ' . (1 + $worker++ % 4);

	# the worker is frozen first, so that the test knows what it holds
	next if !within(5, sub { $sql->("SELECT count(*) FROM taskq.running WHERE worker = '$name'") > 0 || $left->() == 0 });
	kill 'STOP', $pid_of{$name};
	within(0.2, sub { 0 });
	$held += $sql->("SELECT count(*) FROM taskq.running WHERE worker = '$name'");
	end_process($name, 'KILL');
	$killed++;
	begin_process($name, @program, 'work', $name);
}
cmp_ok($held, '>=', 5, "$killed workers were killed, while they held $held tasks");
ok(within(120, sub { $left->() == 0 }), 'all tasks are done');
for my $name (sort keys %pid_of)
{
	waitpid $pid_of{$name}, 0;
	is($?, 0, "$name ended by itself") or diag slurp_file("$dir/$name.log");
	delete $pid_of{$name};
}
my ($result, $should) = ('', '');
IPC::Run::run([ @program, 'result' ], '>', \$result);
IPC::Run::run([ 'bash', '-c', q{export LC_ALL=C; cat "$@" | tr A-Z a-z | grep -oE '[a-z0-9_]+' | sort | uniq -c}, 'bash', @files ], '>', \$should);
is($result, $should, 'the result is the same as that of sort | uniq -c');
cmp_ok(scalar(split /\n/, $result), '>', 1000, 'there are many words');

# --- leaders
$sql->('CREATE TABLE leader_act (n bigserial PRIMARY KEY, name text NOT NULL, version bigint NOT NULL)');
my $leader = sub { $sql->("SELECT name FROM leader_act ORDER BY n DESC LIMIT 1") };
my @leading = ('python3', "$top/examples/leader/leader.py");
begin_process($_, @leading, $_) for 'ann', 'bob', 'cyd';
ok(within(30, sub { $leader->() ne '' }), 'there is a leader');
for my $way ('STOP', 'KILL', 'STOP', 'cut', 'STOP amid an act', 'STOP', 'TERM')
{
	# a leader whose session was ended while it slept ends, and is started again
	for my $gone (grep { waitpid($pid_of{$_}, POSIX::WNOHANG) > 0 } sort keys %pid_of)
	{
		begin_process($gone, @leading, $gone);
	}
	my $name = $leader->();

	if ($way eq 'STOP') { kill 'STOP', $pid_of{$name}; }
	elsif ($way eq 'STOP amid an act')
	{
		my $lock = $node->background_psql('postgres');
		my $acting = q{SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO leader_act%'};

		$lock->query_safe('BEGIN; LOCK TABLE leader_act IN SHARE MODE');
		ok(within(30, sub { ($name = $sql->($acting)) ne '' }), 'a leader acts');
		kill 'STOP', $pid_of{$name};
		$lock->query_safe('COMMIT');
		$lock->quit;
	}
	elsif ($way eq 'cut')
	{
		$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$name'");
		waitpid delete $pid_of{$name}, 0;
	}
	else { end_process($name, $way); }
	ok(within(30, sub { $leader->() ne $name }), "$way: another leader follows");
	kill 'CONT', $pid_of{$name} if $way =~ /^STOP/;
	begin_process($name, @leading, $name) if !$pid_of{$name};
	my $after = $sql->('SELECT max(n) FROM leader_act');
	ok(within(30, sub { $sql->('SELECT max(n) FROM leader_act') > $after + 5 }), 'the leaders continue to act');
}
end_process($_, 'TERM') for sort keys %pid_of;
is($sql->('SELECT count(*) FROM (SELECT version <= lag(version) OVER (ORDER BY n) AS back FROM leader_act) a WHERE back'), '0',
	'each action has a later version than the one before');
is($sql->(<<'SQL'), '0', 'no leader acted after another one without a new claim');
SELECT count(*) FROM (SELECT name <> lag(name) OVER w AS other, version - lag(version) OVER w AS step FROM leader_act WINDOW w AS (ORDER BY n)) a WHERE other AND step < 2
SQL
cmp_ok($sql->('SELECT count(DISTINCT name) FROM leader_act'), '>', 1, 'several processes have led');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check() finds nothing');
$node->stop;
done_testing();

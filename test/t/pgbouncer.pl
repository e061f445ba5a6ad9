# pgbouncer in transaction mode may run every transaction on another connection
# and resets it afterwards. No call needs anything of its session, and workers
# continue after the pooler is killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../examples/c";
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $pgbouncer = '/usr/sbin/pgbouncer';
my $TASKS = 400;
my $WORKERS = 6;

plan skip_all => 'there is no pgbouncer' unless -x $pgbouncer;

my $node = start_node('pooled');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $user = getpwuid($<);
my $dir = $node->host;    # short enough for a socket
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $ini = "$PostgreSQL::Test::Utils::tmp_check/pgbouncer.ini";
my ($pooler, %pid);

append_to_file($ini, <<"INI");
[databases]
postgres = host=$dir port=${\$node->port} dbname=postgres user=$user
[pgbouncer]
unix_socket_dir = $dir
listen_port = $port
auth_type = any
pool_mode = transaction
server_reset_query = DISCARD ALL
server_reset_query_always = 1
default_pool_size = 2
server_round_robin = 1
admin_users = $user
INI

# Every process that is started ends with this test.
sub start_process
{
	my ($name, @command) = @_;
	my $log = "$PostgreSQL::Test::Utils::log_path/pgbouncer_$name.txt";
	my $child = fork // die "could not fork: $!";

	if ($child == 0)
	{
		eval {
			open STDOUT, '>>', $log or die;
			open STDERR, '>&', \*STDOUT or die;
			exec 'setpriv', '--pdeathsig', 'KILL', '--', @command;
		};
		POSIX::_exit(1);
	}
	return $child;
}

sub kill_process
{
	my ($child) = @_;
	kill 'KILL', $child;
	waitpid $child, 0;
	return;
}

sub start_pooler
{
	$pooler = start_process('pooler', $pgbouncer, $ini);
	return within(20, sub { system('pg_isready', '-q', '-h', $dir, '-p', $port) == 0 });
}

END
{
	my $status = $?;
	kill 'KILL', grep { defined } $pooler, values %pid;
	$? = $status;
}

my $connstr = "host=$dir port=$port dbname=postgres user=$user";

# pooled(SCRIPT): the output of a psql that is connected to the pooler
sub pooled
{
	my ($script) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(['psql', '-X', '-q', '-A', '-t', '-F', ' ', '-v', 'VERBOSITY=sqlstate', '-d', $connstr],
		'<', \$script, '>', \$out, '2>', \$err);
	return $out . $err;
}

# The pool has both its connections, whose processes are returned.
sub open_both
{
	my ($in, $out, $err) = ("BEGIN;\nSELECT pg_backend_pid();\n", '', '');
	my $holder = IPC::Run::start(['psql', '-X', '-q', '-A', '-t', '-d', $connstr], '<', \$in, '>', \$out, '2>', \$err,
		IPC::Run::timeout(60));

	$holder->pump until $out =~ /\d+\n/;
	my @pids = map { /(\d+)/ } $out, pooled('SELECT pg_backend_pid();');
	$in .= "COMMIT;\n\\q\n";
	$holder->finish;
	return @pids;
}

# call_all(CALLS...): one by one, each in a transaction of its own that shows on
# which connection it ran; the answers.
my @at;

sub call_all
{
	my @answers;

	for (grep { /^(?:\d+|-) / } split /\n/, pooled(join '', map {
		"SELECT pg_backend_pid(), $_->[1];\n\\if :ERROR\n\\echo - :SQLSTATE\n\\endif\n" } @_))
	{
		my ($at, $answer) = split / /, $_, 2;
		push @at, $at if $at ne '-';
		push @answers, $answer;
	}
	return @answers;
}

# call_all, and compare the answers.
sub make
{
	my @answers = call_all(@_);

	is(shift(@answers) // 'nothing', $_->[2], $_->[0]) for @_;
	return;
}

# How often the calls changed the connection
sub changes { return scalar grep { $at[$_] ne $at[ $_ - 1 ] } 1 .. $#at }

ok(start_pooler(), 'the pooler is there');
my @both = open_both();
isnt($both[0], $both[1], 'it has two connections');

my @calls = (
	[ register => q{taskq_register('w', '{a,b}', tags => '{x}', max_running => 50)}, '0' ],
	[ submit => q{taskq_submit('a', '{"n": 1}', reference => 'r')}, '1' ],
	[ 'submit many' => q{(SELECT count(*) FROM taskq_submit_many('a', array_fill('{"n": 2}'::jsonb, ARRAY[9]), tags => '{x}'))}, '9' ],
	[ 'submit tasks' => q{(SELECT count(*) FROM taskq_submit_tasks('[{"queue": "b"}, {"queue": "b"}]'))}, '2' ],
	[ 'submit again' => q{taskq_submit('a', reference => 'r', on_conflict => 'return')}, '1' ],
	[ claim => q{(SELECT string_agg(task_id || '/' || token, ',' ORDER BY task_id) FROM taskq_claim('a', 'w', 10))},
		join ',', map { "$_/1" } 1 .. 10 ],
	[ heartbeat => q{(SELECT h.state FROM taskq_heartbeat('w') AS h)}, 'active' ],
	[ progress => q{(SELECT p.cancel FROM taskq_progress(1, 1, 0.5, 'half') AS p)}, 'f' ],
	[ 'progress is seen' => q{(SELECT progress FROM taskq_get(1))}, '0.5' ],
	[ extend => q{(SELECT e.lease_until > now() FROM taskq_extend(1, 1, '1 h') AS e)}, 't' ],
	[ checkpoint => q{(SELECT c.cancel FROM taskq_checkpoint(1, 1, '{"at": 7}') AS c)}, 'f' ],
	[ complete => q{(SELECT count(*) FROM (SELECT taskq_complete(1, 1, '{"r": 1}')) AS x)}, '1' ],
	[ 'fail and retry' => q{taskq_fail(2, 1, 'no', retry_in => '0')}, 'pending' ],
	[ 'fail for good' => q{taskq_fail(3, 1, 'no', retryable => false)}, 'dead' ],
	[ release => q{(SELECT count(*) FROM (SELECT taskq_release(4, 1)) AS x)}, '1' ],
	[ suspend => q{(SELECT count(*) FROM (SELECT taskq_suspend(5, 1)) AS x)}, '1' ],
	[ filter => q{(SELECT count(*) FROM (SELECT taskq_filter(6, 1)) AS x)}, '1' ],
	[ cancel => q{taskq_cancel(7)}, 'requested' ],
	[ 'heartbeat reports it' => q{(SELECT h.cancel FROM taskq_heartbeat('w') AS h)}, '{7}' ],
);
my @later = (
	[ 'extend many' => q{(SELECT string_agg(x.ok::text || x.cancel, ',') FROM taskq_extend_many('{7,8}', '{1,1}') AS x)},
		'truetrue,truefalse' ],
	[ 'complete and claim' => q{(SELECT count(*) FROM taskq_complete_and_claim('{8}', '{1}', queue => 'a', worker => 'w'))}, '1' ],
	[ 'all queues in turn' => q{(SELECT count(DISTINCT c.queue) FROM taskq_claim(NULL, 'w', 1) AS c)}, '1' ],
	[ 'complete many' => q{(SELECT bool_and(x.ok) FROM taskq_complete_many('{9,10}', '{1,1}') AS x)}, 't' ],
	[ list => q{(SELECT string_agg(t.state, ',' ORDER BY t.task_id) FROM taskq_list('a') AS t WHERE t.task_id IN (1, 3, 5, 6, 7))},
		'done,dead,suspended,filtered,running' ],
	[ 'stale token' => q{taskq_fail(1, 1, 'late')}, 'TQ001' ],
	[ drain => q{(SELECT count(*) FROM (SELECT taskq_drain('w')) AS x)}, '1' ],
	[ 'heartbeat reports that' => q{(SELECT h.drain FROM taskq_heartbeat('w') AS h)}, 't' ],
	[ 'the claim gets that, too' => q{(SELECT count(*) FROM taskq_claim('a', 'w'))}, '0' ],
	[ deregister => q{taskq_deregister('w')}, '3' ],
	[ 'no such worker' => q{(SELECT h.state FROM taskq_heartbeat('w') AS h)}, 'TQ007' ]);
make(@calls);
my @heartbeats = map { [ "heartbeat $_" => q{(SELECT h.state FROM taskq_heartbeat('w') AS h)}, 'active' ] } 1 .. 40;
make(@heartbeats);
# a busy machine may delay the reset of one connection for long
ok(within(30, sub { changes() > 5 || do { call_all(@heartbeats); 0 } }), 'the calls changed between the two connections');
make(@later);
my %seen = map { $_ => 1 } @at;
is_deeply([ sort keys %seen ], [ sort @both ], 'the calls used both');

# Features that do not work with a pooler, according to doc/operate/pooling.md
is(pooled("PREPARE p AS SELECT 1;\nEXECUTE p;\n\\echo :SQLSTATE\n") =~ /^(\w{5})$/m ? $1 : '', '26000',
	'a prepared statement is not there in the next transaction');
is(pooled("BEGIN;\nPREPARE p AS SELECT 'here';\nEXECUTE p;\nCOMMIT;\n"), "here\n", 'it is there in the same transaction');

# Workers on few connections; the pooler is killed twice
$sql->(slurp_file("$FindBin::Bin/../../examples/done_work.sql"));
$sql->("SELECT taskq_create_queue('work', '{\"retry\": \"fixed\", \"retry_base\": \"10 ms\"}')");
is(pooled("SELECT count(*) FROM taskq_submit_many('work', ARRAY(SELECT jsonb_build_object('n', i, 'ms', 5)"
	  . " FROM generate_series(1, $TASKS) AS i));"), "$TASKS\n", 'tasks are submitted');
my $program = build_c('worker', "-I$ENV{TASKQ_INCLUDE}", "-L$ENV{TASKQ_LIB}", '-lpq');
@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($dir, $port, 'postgres', $user);
$pid{$_} = start_process("w$_", $program, 'work', "w$_") for 1 .. $WORKERS;
for my $part (1, 2)
{
	ok(within(60, sub { $sql->('SELECT count(*) FROM done_work') >= $part * $TASKS / 4 }), 'the workers process tasks');
	is($sql->("SELECT count(DISTINCT worker) > 2 FROM done_work"), 't', 'there are more workers than connections');
	# one of the test's sessions may just be ending; the pooler keeps its
	# connections
	ok(within(20, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
		  . ' AND pid <> pg_backend_pid()') <= 2 }), 'they use two connections');
	kill_process($pooler);
	ok(start_pooler(), 'the pooler was killed, and has started again');
}
ok(within(60, sub { $sql->("SELECT pending + running FROM taskq.queues WHERE queue = 'work'") eq '0' }), 'all tasks have ended');
is($sql->("SELECT t.state, count(*), count(d), bool_and(d.square = d.n * d.n) FROM taskq.tasks t LEFT JOIN done_work d"
	  . " USING (task_id) WHERE t.queue = 'work' GROUP BY 1"), "done|$TASKS|$TASKS|t", 'each task is done with one row');
kill_process($pooler);
ok(start_pooler(), 'the pooler was killed again');
kill 'TERM', values %pid;    # most workers have not noticed
for my $i (1 .. $WORKERS)
{
	ok(within(30, sub { waitpid($pid{$i}, POSIX::WNOHANG()) == $pid{$i} }) && $? == 0, 'a worker ends without an error');
	delete $pid{$i};
}
is($sql->("SELECT count(*) FROM taskq.workers WHERE state <> 'dead'"), '0', 'no worker is left')
  or diag map { slurp_file($_) } glob "$PostgreSQL::Test::Utils::log_path/pgbouncer_*.txt";
kill_process($pooler);
undef $pooler;
sound($node);
$node->stop('fast');
done_testing();

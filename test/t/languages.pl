# These run on one server for each language: the snippets of
# doc/guides/languages.md, the workers of README.md in Python and Node, and the
# example workers in C, Python, Node, Java and shell, two of each. One worker is
# killed and one is frozen while they hold tasks. Every task is done once, and
# the transaction that completed it has written one row. A failing task dies
# after its attempts. A cancelled task is stopped. The workers survive 40001,
# 40P01, lost connections and lost tasks. On SIGTERM a worker finishes its task
# and claims no other. TASKQ_LANGUAGES="c node" selects languages.
# (takes long)
use strict;
use warnings;
use File::Copy;
use FindBin;
use lib "$FindBin::Bin/lib";
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test2::IPC;    # languages are tested in processes, which report to this one
use Test::More;
use TaskqTest;

my $TASKS = 120;
my $SHELL_TASKS = 50;    # each of them starts several processes
my $BOUND = 180;    # seconds, for anything, on a machine that is busy
my $AT_ONCE = 3;    # languages: most of the time each waits for something

my $examples = "$FindBin::Bin/../../examples";
my $made = "$PostgreSQL::Test::Utils::tmp_check/made_060";
my $parent = $$;
my $node;    # the server of a language
my $sql = sub { $node->safe_psql('postgres', shift) };

# Two attempts of 1013 conflict with other sessions, and the result of 1014 is
# not allowed.
my $meet = q{
CREATE SEQUENCE meeting;
CREATE FUNCTION meet() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.n = 1013 THEN
		CASE nextval('meeting')
			WHEN 1 THEN RAISE EXCEPTION 'another session was faster' USING ERRCODE = '40001';
			WHEN 2 THEN RAISE EXCEPTION 'each waits for the other' USING ERRCODE = '40P01';
			ELSE NULL;
		END CASE;
	ELSIF NEW.n = 1014 THEN
		RAISE EXCEPTION 'not 1014' USING ERRCODE = '23514';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER meet BEFORE INSERT ON done_work FOR EACH ROW EXECUTE FUNCTION meet();
};

# JDBC knows no Unix sockets.
sub start_server
{
	my ($name) = @_;
	$node = start_node(
		"languages_$name",
		'listen_addresses' => "'127.0.0.1'",
		'taskq.stale_threshold' => "'1500ms'",
		'taskq.dead_threshold' => "'1h'",    # a slow worker is not dead
		'taskq.reaper_interval' => "'200ms'");
	$sql->(slurp_file("$examples/done_work.sql"));
	$sql->($meet);
	@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', scalar getpwuid($<));
	return;
}

# soon(SECONDS, CODE): waits until CODE is true; false if that takes too long.
# A language's process ends immediately if its parent has ended.
sub soon
{
	my ($seconds, $code) = @_;
	return within($seconds, sub {
		end_language(1) if getppid != $parent;
		return $code->();
	});
}

# made(COMMAND...): runs the command; true if it succeeds. Its output is in a
# file.
sub made
{
	my $log = "$made/log";
	return 1 if IPC::Run::run([@_], '<', \undef, '>', $log, '2>&1');
	diag "@_: ", slurp_file($log);
	return 0;
}

sub there { return scalar grep { -x "$_/$_[0]" } split /:/, $ENV{PATH} }

# The command of a worker, without its queue and name; or nothing if something
# is missing.
sub c
{
	# the file that it reads must exist; leaks are found with ptrace, which is
	# not everywhere
	$ENV{ASAN_OPTIONS} = 'detect_leaks=0';
	return made('make', '-s', '-C', "$examples/c", "OUT=$made", "CFLAGS=-O1 -g -fsanitize=address -I$ENV{TASKQ_INCLUDE}",
		"LDFLAGS=-L$ENV{TASKQ_LIB}")
	  ? "$made/worker" : ();
}

# Debian's psycopg belongs to Debian's Python.
sub python
{
	my ($python) = grep { system("$_ -c 'import psycopg' 2>/dev/null") == 0 } '/usr/bin/python3', 'python3';
	return $python ? ($python, "$examples/python/worker.py") : ();
}

# npm's pg as in the lock file, or else Debian's
sub node
{
	return () unless there('node');
	mkdir "$made/node";
	copy("$examples/node/$_", "$made/node") for qw(worker.js package.json package-lock.json);
	my $npm = there('npm') && made('npm', 'ci', '--prefix', "$made/node", '--no-audit', '--no-fund');
	note 'pg from ', $npm ? 'npm' : 'Debian';
	return () unless $npm || -d '/usr/share/nodejs/pg';
	$ENV{NODE_PATH} = '/usr/share/nodejs' unless $npm;
	return ('node', "$made/node/worker.js");
}

sub java
{
	my $jdbc = '/usr/share/java/postgresql.jar';
	return () unless there('javac') && -e $jdbc;
	return () unless made('javac', '-Xlint:all', '-Werror', '-d', $made, "$examples/java/Worker.java");
	return ('java', '-XX:TieredStopAtLevel=1', '-Xshare:auto', '-Xmx64m', '-cp', "$made:$jdbc", 'Worker');
}

sub shell { return "$examples/shell/worker.sh" }

sub jdbc_url
{
	my ($name) = @_;
	return 'jdbc:postgresql://127.0.0.1:' . $node->port . "/postgres?user=$ENV{PGUSER}&ApplicationName=$name";
}

# Workers: those that run, by name.  Each is the leader of a process group and
# ends with this test.
my %pid;

sub start_worker
{
	my ($name, $queue, @command) = @_;
	my $log = "$PostgreSQL::Test::Utils::log_path/languages_$name.txt";
	my @url = $queue eq 'java' ? jdbc_url($name) : ();
	my $child = fork // die "could not fork: $!";

	if ($child == 0)
	{
		eval {
			setpgrp;
			open STDOUT, '>>', $log or die;
			open STDERR, '>&', \*STDOUT or die;
			$ENV{PGAPPNAME} = $name;
			exec 'setpriv', '--pdeathsig', 'KILL', '--', @command, $queue, $name, @url;
		};
		POSIX::_exit(1);
	}
	$pid{$name} = $child;
	return;
}

# only the process; its children must end by themselves
sub kill_worker
{
	my ($name) = @_;
	my $child = delete $pid{$name};
	kill 'KILL', $child;
	kill 'CONT', -$child;
	waitpid $child, 0;
	return;
}

# reported(NAME): the exit status, when it ends in time
sub exit_of
{
	my ($name) = @_;
	my $child = delete $pid{$name};
	my $ended = soon(20, sub { waitpid($child, POSIX::WNOHANG()) == $child });
	my $status = $?;

	kill 'KILL', -$child unless $ended;
	waitpid $child, 0 unless $ended;
	return $ended ? $status : 'never';
}

# end_language(STATUS): the end of a language's process
sub end_language
{
	my ($status) = @_;
	kill 'KILL', -$_ for values %pid;
	waitpid $_, 0 for values %pid;
	$node->teardown_node if $node;
	POSIX::_exit($status);
	return;
}

# Without this the rest of a language makes no sense.
sub must
{
	my ($good, $what) = @_;
	ok($good, $what) or die "$what: no\n";
	return;
}

# comes(QUERY, VALUE): in time
sub comes
{
	my ($query, $value) = @_;
	my $is = '';
	my $came = soon($BOUND, sub {
		$is = $sql->($query);
		select undef, undef, undef, 0.05 if $is ne $value;
		return $is eq $value;
	});
	diag "$query: $is" unless $came;
	return $came;
}

sub submit
{
	my ($queue, $payload, $more) = @_;
	return $sql->("SELECT taskq_submit('$queue', '$payload'" . ($more ? ", $more" : '') . ')');
}

sub state_is
{
	my ($id, $state) = @_;
	return comes("SELECT state FROM taskq_get($id)", $state);
}

# freeze(NAME): while it holds a task and has sent nothing that would end it
sub freeze
{
	my ($name) = @_;
	return soon($BOUND, sub {
		kill 'STOP', -$pid{$name};
		return 1 if $sql->("SELECT running, (SELECT count(*) FROM pg_stat_activity"
			  . " WHERE application_name = '$name' AND state <> 'idle')"
			  . " FROM taskq.workers WHERE worker = '$name'") eq '1|0';
		kill 'CONT', -$pid{$name};
		select undef, undef, undef, 0.02;
		return 0;
	});
}

# From now on: workers that send no heartbeats
sub dead_after
{
	my ($time) = @_;

	$sql->("ALTER SYSTEM SET taskq.dead_threshold = '$time'");
	$node->reload;
	return;
}

sub check_kill
{
	my ($q, @command) = @_;
	my ($killed, $frozen) = ("$q-killed", "$q-frozen");

	start_worker($_, $q, @command) for $killed, $frozen;
	must(comes("SELECT count(*) >= 20 FROM done_work WHERE worker IN ('$killed', '$frozen')", 't'), 'the workers process tasks');
	must(freeze($killed) && freeze($frozen), 'both hold a task');
	my $held = $sql->("SELECT string_agg(task_id::text, ',' ORDER BY task_id) FROM taskq.tasks"
		  . " WHERE queue = '$q' AND state = 'running'");
	like($held, qr/^\d+,\d+$/, 'two tasks run');
	kill_worker($killed);
	dead_after('3s');
	must(comes("SELECT string_agg(state, ',') FROM taskq.workers WHERE worker IN ('$killed', '$frozen')", 'dead,dead'),
		'the killed worker and the frozen one are declared dead');
	dead_after('1h');
	must(comes("SELECT count(*) FROM taskq.tasks WHERE task_id IN ($held) AND state = 'pending'", 2),
		'their tasks are back');
	kill 'CONT', -$pid{$frozen};
	must(comes("SELECT pending + running FROM taskq.queues WHERE queue = '$q'", '0'), 'the remaining worker does all tasks');
	is($sql->("SELECT state, count(*) FROM taskq.tasks WHERE queue = '$q' GROUP BY 1"), "done|$TASKS", 'each task is done');
	is($sql->('SELECT count(*), count(d), bool_and(d.square = d.n * d.n AND d.n = (t.payload->>\'n\')::int)'
			  . " FROM taskq.tasks t LEFT JOIN done_work d USING (task_id) WHERE t.queue = '$q'"),
		"$TASKS|$TASKS|t", 'each has one row with the right content');
	is($sql->("SELECT min(attempt), max(attempt) FROM taskq.tasks WHERE task_id IN ($held)"), '2|2',
		'the tasks of the dead workers were done at the second attempt');
	return $frozen;
}

sub check_faults
{
	my ($q) = @_;
	my $fails = submit($q, '{"fail": true}', 'max_attempts => 2');
	my $never = submit($q, '{}');
	my $refused = submit($q, '{"n": 1014}', 'max_attempts => 2');

	$sql->('ALTER SEQUENCE meeting RESTART');
	my $meets = submit($q, '{"n": 1013}');
	must(state_is($fails, 'dead'), 'a task that fails is dead');
	is($sql->("SELECT reason, attempt, error LIKE '%told to fail%' FROM taskq_get($fails)"), 'exhausted|2|t',
		'it is dead after its attempts');
	must(state_is($never, 'dead'), 'an invalid task is dead');
	is($sql->("SELECT reason, attempt FROM taskq_get($never)"), 'rejected|1', 'it is dead immediately');
	must(state_is($meets, 'done'), 'a task that met conflicts is done');
	is($sql->("SELECT errors IS NULL, attempt FROM taskq_get($meets)"), 't|1', 'it is done in the same attempt');
	is($sql->('SELECT last_value FROM meeting'), '3', 'it is done at the third try');
	must(state_is($refused, 'dead'), 'a result that the table refuses is a failure');
	is($sql->("SELECT count(*) FROM done_work WHERE task_id IN ($fails, $never, $refused)"), '0', 'nothing was written');
	return;
}

sub check_cancel
{
	my ($q) = @_;
	my $long = submit($q, '{"n": 1, "ms": 600000}');

	must(state_is($long, 'running'), 'a long task runs');
	is($sql->("SELECT taskq_cancel($long)"), 'requested', 'and is to stop');
	must(state_is($long, 'cancelled'), 'the task stops');
	# reclaimed: the worker notices it when it wants to complete
	my $taken = submit($q, '{"n": 2, "ms": 1500}');
	must(state_is($taken, 'running'), 'another task runs');
	is($sql->("SELECT taskq_cancel($taken, force => true)"), 'cancelled', 'the task is reclaimed');
	my $next = submit($q, '{"n": 3}');
	must(state_is($next, 'done'), 'the next task is done');
	is($sql->("SELECT count(*) FROM done_work WHERE task_id IN ($long, $taken)"), '0', 'neither task has written anything');
	return;
}

sub check_connection
{
	my ($q, $name) = @_;
	my $cut = submit($q, '{"n": 4, "ms": 1500}');

	must(state_is($cut, 'running'), 'a task runs');
	$sql->(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()});
	must(state_is($cut, 'done'), 'all connections are cut, and it is done');
	my $next = submit($q, '{"n": 5}');
	must(state_is($next, 'done'), 'the next task is done, too');
	is($sql->("SELECT count(*), bool_and(worker = '$name') FROM done_work WHERE task_id IN ($cut, $next)"), '2|t',
		'each has one row');
	$node->restart;
	$next = submit($q, '{"n": 6}');
	must(state_is($next, 'done'), 'a task after a restart of the server is done');
	return;
}

sub check_stop
{
	my ($q, $name) = @_;
	my $last = submit($q, '{"n": 7, "ms": 1500}');

	must(state_is($last, 'running'), 'a task runs');
	my $later = submit($q, '{"n": 8}');
	kill 'TERM', $pid{$name};
	is(exit_of($name), 0, 'SIGTERM ends the worker with status 0');
	is($sql->("SELECT state, attempt FROM taskq_get($last)"), 'done|1', 'the worker has finished the task that it had');
	is($sql->("SELECT state, attempt FROM taskq_get($later)"), 'pending|0', 'the worker has done no other task');
	is($sql->("SELECT running FROM taskq.queues WHERE queue = '$q'"), '0', 'no task runs');
	is($sql->("SELECT count(*) FROM taskq.workers WHERE worker = '$name' AND state <> 'dead'"), '0', 'the worker has deregistered');
	return;
}

sub check_language
{
	my ($q, @command) = @_;

	$sql->("SELECT taskq_create_queue('$q', '{\"max_attempts\": 5, \"retry\": \"fixed\", \"retry_base\": \"10 ms\"}')");
	$sql->("SELECT count(*) FROM taskq_submit_many('$q', ARRAY(SELECT jsonb_build_object('n', i, 'ms', 20)"
		  . " FROM generate_series(1, $TASKS) AS i))");
	my $name = check_kill($q, @command);
	check_faults($q);
	check_cancel($q);
	check_connection($q, $name);
	check_stop($q, $name);
	return;
}

# The snippet of doc/guides/languages.md in a language
sub snippet_says
{
	my ($q, $fence, $file, @command) = @_;
	my ($text) = slurp_file("$FindBin::Bin/../../doc/guides/languages.md") =~ /^```$fence\n(.*?)^```/ms;
	my ($out, $err) = ('', '');

	append_to_file("$made/$file", $text);
	if ($fence eq 'c')
	{
		made('gcc', '-Wall', '-Werror', "-I$ENV{TASKQ_INCLUDE}", '-o', "$made/snippet", "$made/$file",
			"-L$ENV{TASKQ_LIB}", '-lpq');
		@command = "$made/snippet";
	}
	$sql->("SELECT taskq_create_queue('snippet_$q')");
	IPC::Run::run([@command], '<', \undef, '>', \$out, '2>', \$err);
	is($out . $err, "TQ001\n", 'the snippet prints what the page says');
	is($sql->("SELECT state, result FROM taskq_list('snippet_$q')"), 'done|[1, 2]', 'its task is done');
	return if $q ne 'node';
	is($sql->("SELECT errors->0->>'error', errors->0->'detail'->>'name', errors->0->'detail'->>'message',"
			  . " errors->0->'detail'->>'stack' LIKE 'RangeError: no more of it%' FROM taskq_list('snippet_node_fails')"),
		'no more of it|RangeError|no more of it|t', 'an Error of JavaScript is stored with what it says');
	return;
}

# The worker of README.md in a language: it sleeps in the server until there is a
# task, and lives on after a task that fails.
sub readme_works
{
	my ($fence, $file, @command) = @_;
	my ($text) = slurp_file("$FindBin::Bin/../../README.md") =~ /^```$fence\n(.*?)^```/ms;

	append_to_file("$made/$file", $text);
	$sql->("SELECT taskq_create_queue('mail')");
	my $worker = IPC::Run::start([ @command, "$made/$file" ], '<', \undef, '>', "$made/readme.log", '2>&1');
	my $good = eval {
		must(comes("SELECT waiters FROM taskq.queues WHERE queue = 'mail'", '1'), 'the worker of the README waits');
		my $none = submit('mail', 'null', 'max_attempts => 1');
		must(state_is($none, 'dead'), 'a task that its handler cannot do fails');
		my $task = submit('mail', '{"to": "ann@example.org"}');
		must(state_is($task, 'done'), 'and the next one is done');
		is($sql->("SELECT result FROM taskq_get($task)"), '{"sent": true}', 'with its result');
		1;
	};
	fail($@) unless $good;
	$worker->kill_kill(grace => 5);
	like(slurp_file("$made/readme.log"), qr/^mail to ann\@example\.org$/m, 'and the handler has said so');
	$sql->("SELECT taskq_drop_queue('mail', force => true)");
	return;
}

my %readme = (
	python => sub { readme_works('python', 'readme.py', shift) },
	node => sub { readme_works('js', 'node/readme.js', 'node') });

my %snippet = (
	c => sub { snippet_says('c', 'c', 'snippet.c') },
	python => sub { snippet_says('python', 'python', 'snippet.py', shift, "$made/snippet.py") },
	node => sub { snippet_says('node', 'js', 'node/snippet.js', 'node', "$made/node/snippet.js") },
	java => sub { snippet_says('java', 'java', 'Snippet.java', @_[ 0 .. 5 ], "$made/Snippet.java", jdbc_url('snippet')) },
	shell => sub { snippet_says('shell', 'sh', 'snippet.sh', 'sh', "$made/snippet.sh") });

# The test of a language, in a process of its own
sub test_language
{
	my ($name, $made_of) = @_;

	subtest $name => sub {
		mkdir $made;
		$TASKS = $SHELL_TASKS if $name eq 'shell';
		my @command = $made_of->() or plan skip_all => "not installed: what $name needs";
		start_server($name);
		$snippet{$name}->(@command);
		$readme{$name}->(@command) if $readme{$name};
		eval { check_language($name, @command); 1 } or fail($@);
		sound($node);
	};
	return;
}

my %child;

sub collect
{
	my $child = wait;
	is($?, 0, "$child{$child} has finished");
	delete $child{$child};
	return;
}

# the slowest first
for my $language ([ 'shell', \&shell ], [ 'java', \&java ], [ 'python', \&python ], [ 'node', \&node ], [ 'c', \&c ])
{
	my ($name, $made_of) = @$language;
	next if $ENV{TASKQ_LANGUAGES} && $ENV{TASKQ_LANGUAGES} !~ /\b$name\b/;
	collect() if keys %child >= $AT_ONCE;
	my $child = fork // die "could not fork: $!";
	if ($child == 0)
	{
		$made .= "_$name";
		end_language(eval { test_language($name, $made_of); 1 } ? 0 : do { diag $@; 1 });
	}
	$child{$child} = $name;
}
collect() while %child;
done_testing();

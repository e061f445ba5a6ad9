# Each incident of doc/operate/runbook.md happens on a real server; the
# statements of the page find its cause, fix it, and show that it is fixed; then
# the waiting tasks are processed. The statements are taken from the page.
#
# How the page is read: "## N. Title" begins an incident, "### Title" one of
# its forms, and a title without a number ends them; in each the words
# "**Symptom", "**Find", "**Fix", "**Fixed when" and "**Prevent" begin a part,
# to which the blocks of SQL behind them belong. Each form has a database of
# its own and one psql session, the operator's, for all its statements; a
# superuser sends the statements that only superusers may send.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $time = qr/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?[+-]\d\d/;
my @PARTS = ('Symptom', 'Find', 'Fix', 'Fixed when', 'Prevent');

# read_page(): the blocks at the beginning, and [name, { part => [text, block,
# ...] }] of each form of an incident
sub read_page
{
	my ($code, $part, @first, @forms, $title, $number);

	for (split /\n/, slurp_file("$FindBin::Bin/../../doc/operate/runbook.md"))
	{
		last if $number && /^## \D/;
		my $blocks = $part // \@first;

		if (/^```(\w*)/)
		{
			die "a block that is no SQL: $_" if !$code && $1 ne 'sql';
			$code = !$code;
			push @$blocks, '' if $code;
		}
		elsif ($code) { $blocks->[-1] .= "$_\n"; }
		elsif (/^## (\d+)\. (.+)/)
		{
			is($1, ++$number, "incident $number: $2");
			$title = $2;
			push @forms, [ $title, {} ];
		}
		elsif (/^### (.+)/)
		{
			pop @forms if !%{ $forms[-1][1] };
			push @forms, [ "$title: $1", {} ];
		}
		elsif (@forms && /^\*\*(Symptom|Find|Fixed when|Fix|Prevent)\b/)
		{
			$part = $forms[-1][1]{$1} = [$_];
		}
	}
	return (\@first, \@forms, $number);
}

my ($first, $forms, $number) = read_page();
my $node = start_node(
	'incidents',
	'datestyle' => 'iso',
	'max_logical_replication_workers' => 0,
	'taskq.stale_threshold' => "'100 ms'",
	'taskq.dead_threshold' => "'1 h'",
	'taskq.reaper_interval' => "'100 ms'");
my ($database, $admin, @children);
$node->safe_psql('postgres', 'CREATE ROLE clerk LOGIN; CREATE ROLE operator LOGIN IN ROLE pg_monitor, pg_signal_backend');
my $sql = sub { $node->safe_psql($database, shift) };

# --- people and programs

# child(CODE): a process that ends with the test
sub child
{
	my ($code) = @_;
	my $parent = $$;
	my $pid = fork // die "could not fork: $!";

	if ($pid == 0)
	{
		setpgrp;
		eval { $code->(sub { getppid == $parent }) };
		POSIX::_exit(0);
	}
	push @children, $pid;
	return $pid;
}

sub kill_child
{
	my ($pid) = @_;

	kill 'KILL', -$pid, $pid;
	waitpid $pid, 0;
	@children = grep { $_ != $pid } @children;
	return;
}

# client(SCRIPT): one psql; false if it was cut off or met an error
sub client
{
	my ($script) = @_;

	return IPC::Run::run(
		[ 'psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($database) ],
		'<', \$script, '>', '/dev/null', '2>', '/dev/null');
}

# beating(WORKER): the worker sends heartbeats, and does nothing else
sub beating
{
	my ($worker) = @_;
	return child(sub { client("SELECT taskq_heartbeat('$worker') \\watch 0.02\n") });
}

# work_off(WORKER, TAGS): a worker that processes tasks until nothing waits or
# runs
sub work_off
{
	my ($worker, $tags) = @_;
	my $left = "SELECT count(*) FROM taskq.tasks WHERE queue = 'mail' AND state IN ('pending', 'running')";

	$tags //= '{}';
	$sql->("SELECT taskq_register('$worker', tags => '$tags', keep => true)");
	return within(
		30,
		sub {
			$sql->("SELECT count(taskq_complete(task_id, token)::text)"
				  . " FROM taskq_claim('mail', '$worker', max_tasks => 100)");
			return $sql->($left) eq '0';
		});
}

sub submit
{
	my ($n, $arguments) = @_;

	return split /\n/,
	  $sql->("SELECT taskq_submit('mail', to_jsonb(n)" . ($arguments ? ", $arguments" : '') . ") FROM generate_series(1, $n) n");
}

sub state_of
{
	my ($id) = @_;
	return $sql->("SELECT state FROM taskq_get($id)");
}

# setting(NAME, VALUE): of the server
sub setting
{
	my ($name, $value) = @_;

	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	$node->reload;
	$node->poll_query_until($database, "SELECT current_setting('$name') = '$value'")
	  or die "$name was not set";
	return;
}

# --- the operator

# session_of(ROLE)
sub session_of
{
	my ($role) = @_;
	return $node->background_psql($database, on_error_stop => 0, extra_params => [ '-U', $role ]);
}

sub begin_session
{
	$admin = session_of('operator');
	ask($_) for @$first[0];
	return;
}

# ask(BLOCK): the output of psql, with errors
sub ask
{
	my ($block) = @_;
	my $said;

	if ($block =~ /^(?:ALTER SYSTEM|VACUUM)\b/m)
	{
		my ($code, $out, $error) = $node->psql($database, $block);
		return "$out\n$error";
	}
	$admin->{stderr} = '';
	($said) = $admin->query($block);
	$said .= "\n$admin->{stderr}" if $admin->{stderr} ne '';
	$admin->{stderr} = '';
	return $said;
}

# runs(FORM, PART, CHANGES): runs the blocks of a part, all or a range;
# CHANGES are made in their text, for ids that are examples
sub runs
{
	my ($form, $part, %how) = @_;
	my ($text, @blocks) = @{ $form->[1]{$part} };
	my $said = '';

	@blocks = @blocks[ @{ $how{blocks} } ] if $how{blocks};
	for my $block (@blocks)
	{
		$block =~ s/^(\\set $_) .*$/$1 $how{set}{$_}/m for keys %{ $how{set} // {} };
		$said .= ask($block) . "\n";
	}
	return $said;
}

# finds(FORM, HOW, PATTERN...): the statements that search for the cause name
# it; with HOW "again" also if one of them has met a task that was being claimed
sub finds
{
	my ($form, $how, @patterns) = @_;
	my $said = runs($form, 'Find', %$how);

	within(30, sub { $said !~ /an open transaction is changing it/ || !($said = runs($form, 'Find', %$how)) })
	  if $how->{again};
	unlike($said, qr/ERROR:/, "$form->[0]: the statements run") or diag($said);
	like($said, $_, "$form->[0]: the cause is named") for @patterns;
	return $said;
}

sub mends
{
	my ($form, %how) = @_;
	my $said = runs($form, 'Fix', %how);

	unlike($said, qr/ERROR:/, "$form->[0]: the fix runs") or diag($said);
	return $said;
}

# mended(FORM, PATTERN, ...): in the end the statements show the fix
sub mended
{
	my ($form, @patterns) = @_;
	my $said;

	ok( within(30,
			sub {
				$said = runs($form, 'Fixed when');
				return !grep { $said !~ $_ } @patterns, qr/\A(?!.*ERROR:)/s;
			}),
		"$form->[0]: the statements show that it is fixed")
	  or diag($said);
	return;
}

sub flows
{
	my ($form, @worker) = @_;

	ok(work_off(@worker), "$form->[0]: tasks flow again")
	  or diag($sql->("SELECT task_id, taskq_explain(task_id) FROM taskq_list('mail')"));
	return;
}

# --- the scenes

my %plays;

# A worker that loses its session at one of the tasks is started again and again
# under its name.
$plays{'Poison task'} = sub {
	my ($form) = @_;

	$sql->(q{SELECT taskq_create_queue('mail', '{"max_attempts": 100, "retry_base": "1 ms", "retry_cap": "1 ms"}')});
	my ($bomb) = submit(1, 'priority => 9');
	my @others = submit(10);
	my $worker = <<'SQL';
SELECT taskq_register('mailer');
SELECT task_id, token, priority = 9 AS bomb FROM taskq_claim('mail', 'mailer') \gset
\if :bomb
SELECT pg_terminate_backend(pg_backend_pid());
\endif
SELECT taskq_complete(:task_id, :token);
SQL
	my $lost = 0;
	ok(within(30, sub { $lost++ if !client($worker); return $lost >= 4 && state_of($bomb) eq 'running' }),
		"$form->[0]: one worker after the other dies");

	# a worker that started before the bomb was due again has done another task
	my ($next) = grep { state_of($_) eq 'pending' } @others;

	finds($form, {}, qr/^$bomb\|running\|\d+\|100\|the worker died$/m,
		qr/^Task $bomb of queue "mail" has been running .*Its last error: "the worker died"\.$/m,
		qr/\|mailer\|the worker died$/m);
	mends($form);
	mended($form, qr/^Task $bomb .* has been dead since $time \(poison\): it was at attempt \d+ of 100, with message "kills its workers"; its last error: "the worker died"/m,
		qr/would get a task now: $next\.$/m);
	$sql->("SELECT taskq_retry_all('mail')");
	ok(client($worker), "$form->[0]: the worker stays alive");
	flows($form, 'mailer');
	is(state_of($bomb), 'dead', "$form->[0]: it was not retried with others");
	return;
};

# A worker's process is killed while it holds a task.
$plays{'Dead worker'} = sub {
	my ($form) = @_;
	my ($id) = submit(2);
	my $blocker = $node->background_psql($database);
	$blocker->query_safe('SELECT pg_advisory_lock(1)');
	my $pid = child(
		sub {
			client("SELECT taskq_register('killed'); SELECT count(*) FROM taskq_claim('mail', 'killed');"
				  . ' SELECT pg_advisory_lock(1);');
		});
	ok(within(20, sub { state_of($id) eq 'running' }), "$form->[0]: the worker has a task");
	kill_child($pid);
	$blocker->quit;
	ok(within(20, sub { $sql->("SELECT state FROM taskq.workers WHERE worker = 'killed'") eq 'stale' }),
		"$form->[0]: the worker is silent");

	finds($form, {}, qr/^killed\|stale\|1\|/m, qr/^$id\|$time\|1\|3$/m,
		qr/^Task $id .* worker "killed" holds it, but is silent: it was last seen at $time,/m);
	mends($form);
	mended($form, qr/^Task $id of queue "mail" is pending: it is ready, .*Its last error: "the worker died"/m, qr/^0$/m);
	flows($form, 'successor');
	return;
};

# A worker that hangs and sends heartbeats holds the only place; then there is
# no worker at all.
$plays{'Stuck queue'} = sub {
	my ($form) = @_;

	$sql->(q{SELECT taskq_create_queue('mail', '{"max_running": 1}')});
	my ($id, $next) = submit(2);
	$sql->("SELECT taskq_register('hanging'); SELECT count(*) FROM taskq_claim('mail', 'hanging')");
	my $pid = beating('hanging');
	finds($form, {}, qr/gets nothing now: queue "mail" has reached its max_running of 1: worker "hanging" holds 1\./,
		qr/^$id\|hanging\|$time\|/m, qr/^Task $next .*max_running of 1: worker "hanging" holds 1/m);
	like(mends($form), qr/^$id\|hanging\|/m, "$form->[0]: the worker is named");
	mended($form, qr/would get a task now: $next\./);
	kill_child($pid);
	$sql->("SELECT taskq_deregister('hanging')");

	# no worker has asked for some time
	setting('taskq.debug_clock_skew', '10min');
	finds($form, {}, qr/^Queue "mail": 2 tasks are ready, the first for .*last claim was/m,
		qr/would get a task now: $next\./,
		qr/^Task $id .*it is ready, but no worker is registered for queue "mail"/m);
	flows($form, 'mailer');
	mended($form, qr/\A(?!.*Queue "mail")/s, qr/the queue is empty/);
	setting('taskq.debug_clock_skew', '0');
	return;
};

# Tags with a typing error.
$plays{'Wrong tags'} = sub {
	my ($form) = @_;

	my ($id) = submit(2, "tags => '{smpt}'");
	$sql->("SELECT taskq_register('mailer', tags => '{smtp,eu}')");
	submit(1, "tags => '{smtp}'");
	$sql->("SELECT taskq_complete(task_id, token) FROM taskq_claim('mail', 'mailer', 9)");
	beating('mailer');

	finds($form, {}, qr/^\{smpt\}\|2\|$id$/m,
		qr/^Task $id .*no worker of queue "mail" \(1 registered\) has its tags \{smpt\}; register one with tags => '\{smpt\}'\./m,
		qr/by worker "mailer" with tags \{eu,smtp\} gets nothing now: every ready task, such as $id, needs other tags/);
	mends($form);
	mended($form, qr/^Task $id .*it is ready, and next for a claim.*1 registered worker can claim it/m,
		qr/would get a task now: $id\./);
	flows($form, 'mailer', '{smtp,eu}');
	return;
};

# Both switches.
$plays{'Forgotten pause'} = sub {
	my ($form) = @_;
	my ($id) = submit(2);

	$sql->("SELECT taskq_register('mailer'), taskq_pause('mail', 'bounces'), taskq_pause('*', 'moving house')");
	is($sql->("SELECT count(*) FROM taskq_claim('mail', 'mailer')"), '0', "$form->[0]: no task is handed out");
	finds($form, {}, qr/^f\|All queues are paused.*moving house.*Queue "mail" is paused \(bounces\)/m,
		qr/gets nothing now: all queues have been paused since $time, with reason "moving house".*The queue itself is paused, too/m);
	mends($form);
	mended($form, qr/would get a task now: $id\./);
	flows($form, 'mailer');
	return;
};

$plays{'Full queue'} = sub {
	my ($form) = @_;

	$sql->(q{SELECT taskq_create_queue('mail', '{"max_depth": 4}')});
	submit(4);
	is(error_of($node, "SELECT taskq_submit('mail')", $database), 'TQ008', "$form->[0]: producers are refused");
	finds($form, {}, qr/^mail\|4\|4\|4\|0\|0\|[^|]+\|0$/m, qr/would get a task now/);
	mends($form);
	mended($form, qr/^mail\|199996$/m);
	is(error_of($node, "SELECT taskq_submit('mail')", $database), '', "$form->[0]: producers continue");
	flows($form, 'mailer');
	is($sql->("SELECT count(*) FROM taskq_list('mail', 'done')"), '5', "$form->[0]: nothing was lost");
	return;
};

# Idle in a transaction with a snapshot, while tasks come and go.
$plays{'Long transaction'} = sub {
	my ($form) = @_;
	my $idle = session_of('clerk');

	$idle->query_safe("SET application_name = 'monthly report'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM taskq.tasks");
	my $pid = $idle->query_safe('SELECT pg_backend_pid()');
	submit(200);
	work_off('mailer');
	submit(2);
	my $kept = sub {
		my ($code, $out, $said) = $node->psql($database, 'VACUUM (VERBOSE) taskq.task');
		return $said =~ /(\d+) are dead but not yet removable/ ? $1 : die "VACUUM says $said";
	};
	cmp_ok($kept->(), '>=', 200, "$form->[0]: vacuum is held back");
	setting('taskq.debug_clock_skew', '1h');
	finds($form, {},
		qr/^snapshots\|The oldest snapshot has been held for 1 h.*process $pid, user \w+, application "monthly report", idle in transaction/m,
		qr/^$pid\|\w+\|monthly report\|[^|]*\|idle in transaction\|/m);
	mends($form);
	mended($form, qr/\A\s*\z/);
	is($kept->(), '0', "$form->[0]: vacuum is not held back");
	setting('taskq.debug_clock_skew', '0');
	eval { $idle->quit };
	flows($form, 'mailer');
	return;
};

# The launcher has the only slot for background processes.
$plays{'Missing background worker'} = sub {
	my ($form) = @_;

	$admin->quit;
	$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
	$node->restart;
	submit(2);
	my ($id) = split /\n/, $sql->("SELECT task_id FROM taskq_claim('mail', 'mailer', lease => '1 ms')");
	begin_session();
	my $said;
	ok( within(30, sub { $said = runs($form, 'Find'); return $said =~ /^process_slots/m && $said =~ /lease expired/ }),
		"$form->[0]: the background worker is missing");
	finds($form, {}, qr/^process_slots\|No background worker slot was free .*Increase "max_worker_processes" \(currently 1\) and restart the server\.$/m,
		qr/^background_worker\|No background worker is running/m,
		qr/^$id\|mailer\|$time\|Task $id .*its lease expired at $time, and it is not reclaimed: the background worker of this database is not running; increase "max_worker_processes" \(currently 1\) and restart the server\./m);
	is(state_of($id), 'running', "$form->[0]: the task is not returned");
	mends($form);
	is(state_of($id), 'pending', "$form->[0]: the task is returned");
	$admin->quit;
	$node->restart;
	begin_session();
	mended($form, qr/\A(?!.*\|f\|)(?=.*^background_worker\|t\|)/ms);
	($id) = split /\n/, $sql->("SELECT task_id FROM taskq_claim('mail', 'mailer', lease => '1 ms')");
	ok(within(30, sub { state_of($id) eq 'pending' }), "$form->[0]: leases expire again");
	flows($form, 'mailer');
	return;
};

# Every task fails immediately as long as table outage has a row.
$plays{'Retry storm'} = sub {
	my ($form) = @_;
	my $attempts = "SELECT sum(attempt) FROM taskq_list('mail', 'pending')";

	$sql->('CREATE TABLE outage AS SELECT 1 AS one');
	$sql->(q{SELECT taskq_create_queue('mail', '{"max_attempts": 1000000, "retry": "fixed", "retry_base": "0 s"}')});
	submit(10);
	my $pid = child(
		sub {
			my ($goes_on) = @_;
			client(<<'SQL') while $goes_on->();
SELECT CASE WHEN EXISTS (SELECT FROM outage) THEN taskq_fail(task_id, token, 'connection refused')
            ELSE taskq_complete(task_id, token)::text END
  FROM taskq_claim('mail', 'mailer') \watch 0.001
SQL
		});
	ok(within(30, sub { $sql->($attempts) > 100 }), "$form->[0]: one attempt follows the other");
	finds($form, { again => 1 }, qr/^connection refused\|\d+\|\d+\|0\|[^|]+\|\d+$/m, qr/"retry_base": "0 s"/,
		qr/^Task \d+ .*(?:has failed with|Its last error:) "connection refused"/m);
	mends($form, blocks => [0]);
	ok(within(30, sub { $sql->("SELECT ready FROM taskq.queues WHERE queue = 'mail'") eq '0' }), "$form->[0]: all tasks wait");
	my $id = $sql->("SELECT min(task_id) FROM taskq_list('mail', 'pending')");
	like($sql->("SELECT taskq_explain($id)"), qr/has failed with "connection refused"; the next attempt can start at $time/,
		"$form->[0]: the page says so");
	is($sql->("SELECT count(*) FROM taskq_list('mail', 'pending')"), '10', "$form->[0]: no task is lost");
	$sql->('DELETE FROM outage');
	mends($form, blocks => [1]);
	ok(within(30, sub { $sql->("SELECT count(*) FROM taskq_list('mail', 'done')") eq '10' }), "$form->[0]: the workers continue");
	mended($form, qr/^0\|0\|0\|10\|0$/m);
	kill_child($pid);
	submit(1);
	flows($form, 'mailer');
	return;
};

# Cut off in the middle of a complete: once before it is written, once when it
# was done, but the client has gone.
$plays{'Lost connection: Of a worker'} = sub {
	my ($form) = @_;

	$sql->("SELECT taskq_register('mailer')");
	for my $committed (0, 1)
	{
		my ($id) = submit(1);
		my $token = $sql->("SELECT token FROM taskq_claim('mail', 'mailer')");
		my %example = (set => { task => $id, token => $token });
		my $blocker = $node->background_psql($database);

		$blocker->query_safe('SELECT pg_advisory_lock(74111, 1)');
		my $pid = child(
			sub {
				client("SET taskq.debug_point = 'state_before_write'; SELECT taskq_complete($id, $token)");
			});
		my $backend = '';
		ok( within(20, sub { $backend = $sql->("SELECT pid FROM pg_stat_activity WHERE wait_event = 'advisory'") }),
			"$form->[0]: it is in the middle of a complete");

		if ($committed)
		{
			kill_child($pid);
			runs($form, 'Symptom', %example);
			finds($form, \%example, qr/^running\|t\|1\|$/m, qr/^$backend\|active\|Lock\|/m);
			$blocker->query_safe('SELECT pg_advisory_unlock(74111, 1)');
			ok(within(20, sub { state_of($id) eq 'done' }), "$form->[0]: the client has gone before the answer");
			finds($form, \%example, qr/^done\|t\|1\|$time$/m, qr/^Task $id of queue "mail" has been done since/m);
			like(runs($form, 'Fix'), qr/ERROR:  claim on task $id is no longer valid/, "$form->[0]: a second call does no harm");
		}
		else
		{
			$sql->("SELECT pg_terminate_backend($backend, 5000)");
			kill_child($pid);
			$blocker->query_safe('SELECT pg_advisory_unlock(74111, 1)');
			runs($form, 'Symptom', %example);
			finds($form, \%example, qr/^running\|t\|1\|$/m, qr/^Task $id .* worker "mailer" holds it/m);
			mends($form);
		}
		mended($form, qr/^Task $id of queue "mail" has been done since $time/m);
		$blocker->quit;
	}
	submit(2);
	flows($form, 'mailer');
	return;
};

# The client is stopped, as if the network were cut: the server does not notice.
$plays{'Lost connection: Of an administrator'} = sub {
	my ($form) = @_;
	my ($id) = submit(1);
	my $lost = session_of('operator');

	$lost->query_safe("BEGIN; SELECT taskq_update_task($id, '{\"priority\": 5}')");
	my $backend = $lost->query_safe('SELECT pg_backend_pid()');
	$lost->{run}->signal('STOP');
	is($sql->("SELECT count(*) FROM taskq_claim('mail')"), '0', "$form->[0]: no other worker gets the task");
	finds($form, {}, qr/^$backend\|[^|]*\|idle in transaction\|$time/m,
		qr/gets nothing now: every ready task \(1\) is being changed by an open transaction/,
		qr/^Task $id .*an open transaction is changing it/m);
	mends($form);
	mended($form, qr/would get a task now: $id\./);
	$lost->{run}->signal('KILL');
	eval { $lost->{run}->finish };
	is($sql->("SELECT priority FROM taskq_get($id)"), '0', "$form->[0]: what was not committed did not happen");
	flows($form, 'mailer');
	return;
};

# --- the page and the scenes

is_deeply([ sort map { $_->[0] } @$forms ], [ sort keys %plays ], 'each incident of the page has its scene, and each scene its incident');
my $played = 0;
for my $form (@$forms)
{
	my ($name, $parts) = @$form;

	is_deeply([ sort keys %$parts ], [ sort @PARTS ], "$name: the page has all its parts");
	is(join(' ', grep { @{ $parts->{$_} // [] } < 2 } @PARTS[ 1 .. 3 ]), '', "$name: with statements") or next;
	next if !$plays{$name};
	$database = 'incident' . ++$played;
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	$sql->("CREATE EXTENSION taskq; SELECT taskq_grant('*', 'operator', '{work,read,manage}')");
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'taskq worker' AND datname = '$database'")
	  or die "no background worker in $database";
	begin_session();
	unlike(join("\n", map { ask($_) } @$first), qr/ERROR:/, "$name: the first query") if $played == 1;
	if (!eval { $plays{$name}->($form); 1 })
	{
		fail("$name: $@");
	}
	unlike(runs($form, 'Prevent'), qr/ERROR:/, "$name: the statements that prevent it");
	$admin->quit;
	kill_child($_) for my @left = @children;
	sound($node, database => $database);
	$node->safe_psql('postgres', "DROP DATABASE $database");
}
is($played, keys %plays, "$number incidents");
note "$number incidents";
$node->stop;
done_testing();

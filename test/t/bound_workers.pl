# Workers are bound to a connection. However the connection ends, their tasks
# return to the queue immediately. The dead threshold is so long here that
# nothing else can return a task.
# expect-log: terminated by signal 9
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $BOUND = 60;    # seconds, for anything, on a machine that is busy
my $ENDS = $ENV{LONG} ? 100 : 40;    # connections whose ends are measured
my $MANY = 1100;   # workers bound to one connection, more than one round of the duty handles

my $node = start_node(
	'bound',
	'init' => { allows_streaming => 1 },
	'taskq.stale_threshold' => "'20min'",
	'taskq.dead_threshold' => "'40min'",
	'taskq.reaper_interval' => "'1h'",
	'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };
# A claim must survive a crash that follows it immediately.
$sql->(q{SELECT taskq_alter_queue('*', '{"claim_durability": "flushed"}')});
my $state = sub { $sql->("SELECT state FROM taskq_get($_[0])") };
my $worker = sub { $sql->("SELECT state FROM taskq.workers WHERE worker = '$_[0]' ORDER BY registered_at DESC LIMIT 1") };

# A connection that stays open after an error.
sub connection
{
	my ($database) = @_;
	return $node->background_psql($database // 'postgres', on_error_stop => 0);
}

sub kill_client
{
	my ($client) = @_;

	kill 'KILL', $client->{run}{KIDS}[0]{PID};
	eval { $client->{run}->finish };
	return;
}

# The connection is closed, and its server process has ended.
sub close_connection
{
	my ($closed) = @_;
	my $pid = $closed->query_safe('SELECT pg_backend_pid()');

	$closed->quit;
	return within($BOUND, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' });
}

# A task that the worker has claimed through another connection, in a queue of
# its own.
my $queues = 0;

sub held_by
{
	my ($name, $options) = @_;
	my $queue = 'q' . ++$queues;
	my $task = $sql->("SELECT taskq_submit('$queue', options => '" . ($options // '{}') . "')");

	is($sql->("SELECT task_id FROM taskq_claim('$queue', '$name')"), $task, "$name holds task $task");
	return $task;
}

# The rest of the test needs this, and would only time out otherwise.
sub must
{
	my ($good, $name) = @_;

	ok($good, $name) or die 'bound workers do not work here';
	return;
}

# The end of another worker has been handled, and so has all that ended before.
my $passers = 0;

sub seen_to
{
	my $passer = connection();
	my $name = 'passer ' . ++$passers;

	$passer->query_safe("SELECT taskq_register('$name', bound => true)");
	$passer->quit;
	return within($BOUND, sub { $worker->($name) eq 'dead' });
}

# --- the ways in which a connection ends
my $client = connection();
is($client->query_safe("SELECT taskq_register('w', '{q}', bound => true)"), '0', 'a bound worker registers');
is($sql->("SELECT worker, state, bound FROM taskq.workers"), 'w|active|t', 'the worker is shown as bound');
my $id = held_by('w');
my $token = $sql->("SELECT token FROM taskq_get($id)");
like($sql->("SELECT taskq_explain($id)"), qr/worker "w" holds it as long as its connection lasts/,
	'taskq_explain says that the worker is bound');
$client->query_safe('DISCARD ALL');
must(seen_to(), 'another connection ends');
is($state->($id), 'running', 'neither DISCARD ALL nor the end of another connection unbinds the worker');
$client->quit;
must(within($BOUND, sub { $state->($id) eq 'pending' }), 'the connection is closed: the task is back in its queue');
is($sql->("SELECT attempt, errors->-1->>'error', errors->-1->>'worker' FROM taskq_get($id)"), '1|the worker died|w',
	'the task has the error of a dead worker');
is($sql->("SELECT state, bound FROM taskq.workers WHERE worker = 'w'"), 'dead|t', 'the worker is dead');
is(error_of($node, "SELECT taskq_heartbeat('w')"), 'TQ007', 'the dead worker cannot send a heartbeat');
is(error_of($node, "SELECT taskq_complete($id, $token)"), 'TQ001', 'the dead worker cannot complete its task');

for my $end (
	[ 'terminated' => sub { $sql->('SELECT pg_terminate_backend(' . $_[0]->query_safe('SELECT pg_backend_pid()') . ')') } ],
	[ 'the client is killed' => sub { kill_client($_[0]) } ],
	[ 'the client is killed inside a transaction' => sub { $_[0]->query_safe("BEGIN; SELECT taskq_heartbeat('x')"); kill_client($_[0]) } ],
	[ 'the idle timeout ends the connection' => sub { eval { $_[0]->query("SET idle_session_timeout = '1ms'") } } ])
{
	my ($how, $code) = @$end;

	$client = connection();
	$client->query_safe("SELECT taskq_register('x', bound => true), taskq_register('y', bound => true)");
	$sql->("SELECT taskq_register('z')");
	my @ids = map { held_by($_) } qw(x y z);
	$code->($client);
	must(within($BOUND, sub { $state->($ids[0]) eq 'pending' && $state->($ids[1]) eq 'pending' }),
		"$how: the tasks of both its workers are back");
	is($state->($ids[2]), 'running', "$how: the task of another worker is not");
	$sql->("SELECT taskq_deregister('z')");
}

# --- another connection claims at the same time
my $lock = connection();
$lock->query_safe('SELECT pg_advisory_lock(74111, 1)');
$client = connection();
$client->query_safe("SELECT taskq_register('x', bound => true)");
$id = $sql->("SELECT taskq_submit('racing')");
my $claimer = connection();
$claimer->{stdin} .= "SET taskq.debug_point = 'state_before_write';\nSELECT taskq_claim('racing', 'x');\n";
$claimer->{run}->pump_nb;
must(within($BOUND, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") eq '1' }),
	'a claim is about to be made');
must(close_connection($client) && within($BOUND, sub { $worker->('x') eq 'dead' }), 'its worker dies');
$lock->query_safe('SELECT pg_advisory_unlock(74111, 1)');
$lock->quit;
must(within($BOUND, sub { $sql->("SELECT state, attempt FROM taskq_get($id)") eq 'pending|1' }), 'the task that was being claimed is back');
$claimer->quit;

# --- what happens to the tasks
$client = connection();
$client->query_safe("SELECT taskq_register('x', bound => true)");
my $held = held_by('x', '{"on_worker_death": "hold"}');
my $killed = held_by('x', '{"on_worker_death": "kill"}');
my $last = $sql->("SELECT taskq_submit('last', max_attempts => 1)");
$sql->("SELECT taskq_claim('last', 'x')");
$client->quit;
must(within($BOUND, sub { $state->($last) eq 'dead' && $state->($held) ne 'running' && $state->($killed) ne 'running' }),
	'all tasks of the worker are reclaimed');
is($sql->("SELECT state, reason FROM taskq_get_many(ARRAY[$held, $killed, $last]) WITH ORDINALITY ORDER BY ordinality"),
	"suspended|worker_dead\ndead|worker_dead\ndead|worker_dead", 'their states follow on_worker_death and the attempts');

# --- a registration that was rolled back
my $one = connection();
my $two = connection();
$one->query_safe("SELECT taskq_register('r', bound => true)");
$id = held_by('r');
$two->query_safe("BEGIN; SELECT taskq_register('r', keep => true, bound => true); ROLLBACK");
$two->query_safe("BEGIN; SAVEPOINT s; SELECT taskq_register('r', keep => true, bound => true);"
	  . " ROLLBACK TO s; SELECT taskq_register('never', bound => true); ROLLBACK");
must(seen_to(), 'two registrations are rolled back');
is($worker->('r'), 'active', 'the worker is bound as before');
must(close_connection($two) && seen_to(), 'the connection that rolled back ends');
is($worker->('r') . $state->($id), 'activerunning', 'its end does not affect the worker');
is($worker->('never'), '', 'the registration that was rolled back left no worker');
$one->quit;
must(within($BOUND, sub { $state->($id) eq 'pending' }), 'the end of the worker\'s own connection returns its task');

# --- registered by another process
$one = connection();
$two = connection();
$one->query_safe("SELECT taskq_register('r', bound => true)");
$two->query_safe("SELECT taskq_register('r', bound => true)");
$id = held_by('r');
must(close_connection($one) && seen_to(), 'the connection of a former process of that name ends');
is($worker->('r') . $state->($id), 'activerunning', 'its end does not affect the new registration');
$one = connection();
$one->query_safe("SELECT taskq_register('r', keep => true, bound => true)");
must(close_connection($two) && seen_to(), 'the worker is bound to another connection with keep, and the former connection ends');
is($worker->('r') . $state->($id), 'activerunning', 'its end does not affect the worker');
$one->quit;
must(within($BOUND, sub { $state->($id) eq 'pending' }), 'the connection to which the worker is bound now ends');

# --- no longer bound
$one = connection();
$one->query_safe("SELECT taskq_register('free', bound => true), taskq_register('left', bound => true)");
$id = held_by('free');
$sql->("SELECT taskq_register('free', keep => true)");
is($sql->("SELECT bound FROM taskq.workers WHERE worker = 'free'"), 'f', 'keep without bound unbinds the worker');
$sql->("SELECT taskq_deregister('left'); SELECT taskq_register('left')");
must(close_connection($one) && seen_to(), 'the connection of an unbound worker ends');
is($worker->('free') . $state->($id) . $worker->('left'), 'activerunningactive', 'its end affects neither that worker nor one that left');
$sql->("SELECT taskq_deregister('free'); SELECT taskq_deregister('left')");

# --- prepared transactions
is(error_of($node, "BEGIN; SELECT taskq_register('p', bound => true); PREPARE TRANSACTION 'p'"), '0A000',
	'a transaction that binds a worker cannot be prepared');
is(error_of($node, "BEGIN; SAVEPOINT s; SELECT taskq_register('p', bound => true); ROLLBACK TO s;"
		  . " SELECT taskq_register('p'); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'"),
	'', 'a transaction can be prepared if the savepoint that bound a worker was rolled back');
is($sql->("SELECT bound, taskq_deregister('p') FROM taskq.workers WHERE worker = 'p'"), 'f|0', 'that transaction binds no worker');

# --- no duty waits for a row that an open transaction is changing
$one = connection();
$two = connection();
my $three = connection();
$one->query_safe("SELECT taskq_register('locked', bound => true)");
$two->query_safe("SELECT taskq_register('other', bound => true)");
$three->query_safe("BEGIN; SELECT taskq_register('locked', keep => true, bound => true)");
$one->quit;
$two->quit;
must(within($BOUND, sub { $worker->('other') eq 'dead' }), 'an open transaction on one worker does not delay the others');
is($worker->('locked'), 'active', 'the worker that this transaction changes is skipped');
$three->query_safe('ROLLBACK');
must(within($BOUND, sub { $worker->('locked') eq 'dead' }), 'the worker is handled when the transaction ends');
$three->quit;

# --- bound again when the background worker has just seen the former connection
# end
my $holder = connection();
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$one = connection();
$two = connection();
$one->query_safe("SELECT taskq_register('again', bound => true), taskq_register('old', bound => true)");
$id = held_by('again');
$node->append_conf('postgresql.conf', "taskq.debug_point = 'bound_looked'");
$node->reload;
# once the server shows it to a new connection, its processes see it, too
$node->poll_query_until('postgres', 'SHOW taskq.debug_point', 'bound_looked') or die;
$one->quit;
must(within($BOUND, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") eq '1' }),
	'the background worker has seen the end');
$two->query_safe("SELECT taskq_register('again', keep => true, bound => true)");
$node->append_conf('postgresql.conf', "taskq.debug_point = ''");
$node->reload;
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
$holder->quit;
must(within($BOUND, sub { $worker->('old') eq 'dead' }) && seen_to(), 'the background worker continues');
is($worker->('again') . $state->($id), 'activerunning', 'the worker that was bound again is not affected');
$two->quit;
must(within($BOUND, sub { $state->($id) eq 'pending' }), 'the worker dies when its new connection ends');

# --- memory is lost
$one = connection();
$one->query_safe("SELECT taskq_register('w', bound => true)");
$id = held_by('w');
$sql->('SELECT taskq.debug_wipe()');
must(seen_to(), 'memory is wiped');
is($worker->('w') . $state->($id), 'activerunning', 'a bound worker stays alive');
$one->quit;
must(within($BOUND, sub { $state->($id) eq 'pending' }), 'the end of its connection is noticed as before');

# --- no background worker: the next background worker, or a call, does its
# work
$one = connection();
$one->query_safe("SELECT taskq_register('w', bound => true)");
$id = held_by('w');
my $duties = worker_pid($node);
my $rests = sub { $sql->("SELECT wait_event FROM pg_stat_activity WHERE pid = $duties") eq 'Extension' };
must(within($BOUND, $rests) && kill('STOP', $duties), 'the background worker is stopped');
$one->quit;
must(within($BOUND, sub { $sql->("SELECT acted FROM taskq_run_reapers() WHERE reaper = 'bound'") eq '1' }), 'a call of the duties ends the bound worker');
is($state->($id), 'pending', 'the call returns its tasks');
kill 'CONT', $duties;
$one = connection();
$one->query_safe("SELECT taskq_register('w', bound => true)");
must(within($BOUND, $rests) && kill('STOP', $duties), 'the background worker is stopped again');
must(close_connection($one) && kill('TERM', $duties) && kill('CONT', $duties), 'the connection ends without a background worker');
must(within($BOUND, sub { $worker->('w') eq 'dead' }), 'the next background worker returns the task');

# --- each database is on its own
$node->safe_psql('postgres', 'CREATE DATABASE two');
$node->safe_psql('two', 'CREATE EXTENSION taskq');
$one = connection();
$two = connection('two');
$one->query_safe("SELECT taskq_register('w', bound => true)");
$two->query_safe("SELECT taskq_register('w', bound => true), taskq_register('v', bound => true)");
$two->query_safe("SELECT taskq_submit('q'); SELECT taskq_claim('q', 'w')");
$one->quit;
must(within($BOUND, sub { $worker->('w') eq 'dead' }), 'a connection to one database ends');
is($node->safe_psql('two', "SELECT worker, state FROM taskq.workers ORDER BY 1"), "v|active\nw|active", 'a worker of another database is not affected');
$two->quit;
must(within($BOUND, sub { $node->safe_psql('two', "SELECT string_agg(state, ',') FROM taskq.workers") eq 'dead,dead' }),
	'the other database handles its own connections');
must(within($BOUND, sub { $node->safe_psql('two', "SELECT state FROM taskq_list('q')") eq 'pending' }), 'the task in the other database is back');
sound($node, database => 'two');

# a restored copy has workers that are bound to connections of the original
$one = connection();
$one->query_safe("SELECT taskq_register('w', bound => true)");
my $dump = "$PostgreSQL::Test::Utils::tmp_check/bound.dump";
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, 'postgres' ], 'the database is dumped');
$node->safe_psql('postgres', 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', 'copy', $dump ], 'the dump is restored');
is($node->safe_psql('copy', "SELECT state, bound FROM taskq.workers WHERE state <> 'dead'"), 'active|t',
	'the copy has a bound worker');
$node->safe_psql('copy', 'SELECT taskq_activate()');
must(within($BOUND, sub {
		$node->safe_psql('copy', 'SELECT count(*) FROM taskq_run_reapers()');
		return $node->safe_psql('copy', "SELECT count(*) FROM taskq.workers WHERE state <> 'dead'") eq '0';
	}), 'the worker dies when the copy is activated');
must(seen_to(), 'another connection ends');
is($worker->('w'), 'active', 'the worker of the original is not affected');

# --- many workers of one connection
$sql->("SELECT count(*) FROM taskq_submit_many('many', array_fill('1'::jsonb, ARRAY[$MANY]))");
$one->query_safe("SELECT count(taskq_register('m' || n, bound => true)) FROM generate_series(1, $MANY) n");
is($sql->("SELECT count(*) FROM generate_series(1, $MANY) n, LATERAL (SELECT * FROM taskq_claim('many', 'm' || n)) c"), $MANY,
	"$MANY workers of one connection");
my $begin = time;
$one->quit;
must(within($BOUND, sub { $sql->("SELECT running FROM taskq.queues WHERE queue = 'many'") eq '0' }), 'the tasks of all these workers are back');
note sprintf 'figure: %d tasks of as many workers of one connection back after %.0f ms', $MANY, (time - $begin) * 1000;
is($sql->("SELECT count(*) FROM taskq.workers WHERE state <> 'dead'"), '0', 'all these workers are dead');
$sql->("SELECT taskq_drop_queue('many', true)");

# --- how long it takes from the end of a connection to the return of its task
my @took;
while (@took < $ENDS)
{
	my @clients = map { connection() } 1 .. 20;
	my @ids;

	for my $n (0 .. $#clients)
	{
		push @ids, $clients[$n]->query_safe("SELECT taskq_register('t$n', bound => true) AS no \\gset\n"
			  . "SELECT taskq_submit('timed') AS no \\gset\n SELECT task_id FROM taskq_claim('timed', 't$n')");
	}
	for my $n (0 .. $#clients)
	{
		my $ended = time;

		kill 'KILL', $clients[$n]{run}{KIDS}[0]{PID};
		last unless within($BOUND, sub { $state->($ids[$n]) eq 'pending' });
		push @took, 1000 * ($sql->("SELECT extract(epoch FROM (errors->-1->>'at')::timestamptz) FROM taskq_get($ids[$n])") - $ended);
		eval { $clients[$n]{run}->finish };
	}
	last if @took % @clients;
	$sql->("SELECT taskq_drop_queue('timed', true)");
}
is(scalar @took, $ENDS, "$ENDS connections have ended");
@took = sort { $a <=> $b } @took;
note sprintf 'figure: a killed client\'s task is taken back after %.1f ms (median), %.1f ms (p99), %.1f ms (most)',
  @took[ $ENDS / 2, $ENDS * 0.99 - 1, -1 ];
cmp_ok($took[ $ENDS / 2 ], '<', 5000, 'soon');

# --- after a crash or a restart all connections are gone, and their numbers are
# used again
my $crashes = 0;

for my $how ('crash', 'restart')
{
	$one = connection();
	$one->query_safe("SELECT taskq_register('w', bound => true)");
	$sql->("SELECT taskq_register('free')");
	my @ids = (held_by('w'), held_by('free'));
	if ($how eq 'crash')
	{
		kill 'KILL', $one->query_safe('SELECT pg_backend_pid()');
		ok(recovered($node, ++$crashes, $BOUND), 'a backend was killed, and the server has recovered');
	}
	else
	{
		$node->stop('immediate');
		$node->start;
	}
	eval { $one->{run}->finish };
	must(within($BOUND, sub { $state->($ids[0]) eq 'pending' }), "$how: the task of a bound worker is back");
	is($worker->('w'), 'dead', 'its worker is dead');
	is($worker->('free') . $state->($ids[1]), 'activerunning', "$how: a worker that is not bound is alive until its threshold");
	$sql->("SELECT taskq_deregister('free')");
}

# --- promotion: workers that were connected to the former primary
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('bound_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$one = connection();
$one->query_safe("SELECT taskq_register('w', bound => true)");
$id = held_by('w');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT state, bound FROM taskq.workers WHERE worker = 'w' ORDER BY registered_at DESC LIMIT 1"),
	'active|t', 'a standby shows the bound worker');
$standby->promote;
must(within($BOUND, sub { $standby->safe_psql('postgres', "SELECT state FROM taskq_get($id)") eq 'pending' }),
	'after the promotion its task is back');
is($state->($id), 'running', 'the former primary continues to run');
sound($standby);
$standby->stop('fast');
$one->quit;
must(within($BOUND, sub { $state->($id) eq 'pending' }), 'the promoted server handles its own connections');

# --- taskq_check, and a worker whose connection is unknown
sound($node, crashes => 1);
$one = connection();
$one->query_safe("SELECT taskq_register('lost', bound => true)");
$sql->("UPDATE taskq.worker SET bound_session = bound_session + (1000 << 18) WHERE name = 'lost' AND state = 1");
must(close_connection($one) && seen_to(), 'a wipe has made the server forget the end of a connection');
is($worker->('lost'), 'active', 'the server does not guess that the connection has ended');
$node->append_conf('postgresql.conf', "taskq.dead_threshold = '2s'");
$node->reload;
must(within($BOUND, sub { $sql->('SELECT count(*) FROM taskq_run_reapers()'); $worker->('lost') eq 'dead' }),
	'the worker is alive as long as its heartbeats say so');

# --- the library is no longer preloaded
$node->append_conf('postgresql.conf', "taskq.dead_threshold = '40min'");
$node->reload;
$node->poll_query_until('postgres', 'SHOW taskq.dead_threshold', '40min') or die;
$one = connection();
$one->query_safe("SELECT taskq_register('w', bound => true)");
$id = held_by('w');
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->stop('immediate');
eval { $one->{run}->finish };
$node->start;
is($sql->("SELECT acted FROM taskq_run_reapers() WHERE reaper = 'bound'"), '1', 'not preloaded: the duty ends the bound worker');
is($state->($id), 'pending', 'not preloaded: its task is back');
is(error_of($node, "SELECT taskq_register('w', bound => true)"), '55000', 'not preloaded: no worker can be bound');
$node->stop('fast');
done_testing();

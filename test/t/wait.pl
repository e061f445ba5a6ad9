# Sessions sleep in the server until they can claim something. The test shows
# which events wake which session, that a wake is not lost with the session that
# got it, and that a wait ends when it has to.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use TaskqWaiters;
use Time::HiRes qw(time);

my $LONG = 45; # seconds: far more than it takes

my $node = start_node(
	'wait',
	'autovacuum' => 'off',
	'checkpoint_timeout' => "'1h'",
	'bgwriter_delay' => "'10s'");
my $sql = sub { $node->safe_psql('postgres', shift) };
my $numbers = \&numbers;

waiters_of($node);

# quiet(W...): no session was woken by what the code does, and they still sleep.
sub quiet
{
	my ($code, @w) = @_;
	my $before = $numbers->()->{wakes};

	$code->();
	return $numbers->()->{wakes} == $before && asleep(@w);
}

sub claimed { return $sql->("SELECT count(*) FROM taskq.tasks WHERE state = 'running'") }

# --- no sleep, and a sleep until the timeout
$sql->("SELECT taskq_create_queue('q')");
$sql->("SELECT taskq_submit('q', '1')");
is($sql->("CALL taskq_wait('q')"), 't', 'a task is there');
is(claimed(), 0, 'taskq_wait did not take it');
is($sql->("SELECT payload FROM taskq_claim('q', wait => '5 min')"), '1', 'a claim does not wait');
my $began = time;
is($sql->("SELECT count(*) FROM taskq_claim('q', wait => '300 ms')"), '0', 'taskq_wait ends when its time is up');
is($sql->("CALL taskq_wait('q', '300 ms')"), 'f', 'a claim ends when its time is up');
cmp_ok(time - $began, '>=', 0.6, 'it does not end too early');
is($numbers->()->{waiting}, 0, 'no session waits any longer');

# --- submit
my $w = claimer("'q'");
$sql->("SELECT taskq_submit('q', '\"by submit\"')");
is(answer($w), '"by submit"', 'a submit wakes a claim');
$w = sleeper("CALL taskq_wait('q', '5 min');");
is($sql->("SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE application_name = '$w->{name}'"),
	't', 'taskq_wait sleeps without a snapshot');
is($sql->('SELECT count(*) FROM pg_locks WHERE relation IS NOT NULL AND pid = ' . pid_of($w)), '0', 'it has no locks on tables');
$sql->("SELECT taskq_submit('q', '2')");
is(answer($w), 't', 'a submit wakes taskq_wait');
is($sql->("SELECT payload FROM taskq_claim('q')"), '2', 'taskq_wait took nothing');
$w = claimer("'q'");
ok(quiet(sub { $sql->("BEGIN; SELECT taskq_submit('q', '3'); ROLLBACK") }, $w), 'a submit that is rolled back wakes no session');
ok(quiet(sub { $sql->("SELECT taskq_submit('other', '3')") }, $w), 'a submit to another queue wakes no session');
ok(quiet(sub { $sql->("SELECT taskq_submit('q', '3', suspended => true)") }, $w), 'a suspended task wakes no session');
ok(quiet(sub { $sql->("BEGIN; SELECT taskq_submit('q', '\"prepared\"'); PREPARE TRANSACTION 'p'") }, $w), 'nor PREPARE TRANSACTION');
$sql->("COMMIT PREPARED 'p'");
is(answer($w), '"prepared"', 'COMMIT PREPARED does');

# --- tasks that are requeued
my $holder = open_session($node);
$sql->("SELECT taskq_submit('q', '4')");
$holder->query_safe("BEGIN; SELECT task_id FROM taskq_claim('q')");
$w = claimer("'q'");
$holder->query_safe('ROLLBACK');
is(answer($w), '4', 'a claim that is rolled back wakes');
$sql->("SELECT taskq_submit('q', '5')");
$holder->query_safe("BEGIN; SAVEPOINT a; SELECT task_id FROM taskq_claim('q')");
$w = claimer("'q'");
$holder->query_safe('ROLLBACK TO a');
is(answer($w), '5', 'a savepoint that is rolled back wakes before its transaction ends');
$holder->query_safe('ROLLBACK');
$sql->("SELECT taskq_submit('q', '6')");
$holder->query_safe("BEGIN; SELECT task_id FROM taskq_claim('q')");
$w = claimer("'q'");
$sql->("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'");
is(answer($w), '6', 'the end of a session that had claimed wakes');
eval { $holder->quit };
for my $end ("taskq_fail(task_id, token, 'no', retry_in => '0')", 'taskq_release(task_id, token)',
	'taskq_cancel(task_id, force => true), taskq_retry(task_id)')
{
	$sql->("SELECT taskq_submit('q', '7')");
	my ($id, $token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('q')");
	$w = claimer("'q'");
	$sql->("SELECT " . $end =~ s/task_id/$id/gr =~ s/token/$token/gr);
	is(answer($w), '7', "wakes: $end");
}

# --- tags
my $a = claimer("'q', tags => '{a}'");
my $none = claimer("'q'");
my $both = claimer("'q', tags => '{a,b}'");
ok(quiet(sub { $sql->("SELECT taskq_submit('q', '8', tags => '{c}')") }, $a, $none, $both), 'tags that no session has');
$sql->("SELECT taskq_submit('q', '\"b\"', tags => '{b}')");
is(answer($both), '"b"', 'tags of one');
ok(asleep($a, $none), 'the other sessions still sleep');
my $before = $numbers->();
$sql->("SELECT taskq_submit('q', '\"a\"', tags => '{a}')");
is(answer($a), '"a"', 'tags of another');
is($numbers->()->{wakes}, $before->{wakes} + 1, 'no other session was woken');
$a = claimer("'q', tags => '{a}'");
$sql->("SELECT taskq_submit('q', '\"first\"')");
is(answer($none), '"first"', 'the session that has waited longest is woken first');
$sql->("SELECT taskq_submit('q', '\"second\"')");
is(answer($a), '"second"', 'the next one is woken next');
my $many = claimer("'q', tags => '{t1,t2,t3,t4,t5,t6,t7,t8}'");
$sql->("SELECT taskq_submit('q', '\"new\"', tags => '{t7,t8}')");
is(answer($many), '"new"', 'many tags, and a lane that is created now');
$many = claimer("'q', tags => '{t1,t2,t3,t4,t5,t6,t7,t8}'");
$sql->("SELECT taskq_submit('q', '\"old\"', tags => '{t7,t8}')");
is(answer($many), '"old"', 'an existing lane');

# --- queues
$w = claimer("'later'", 'SET client_min_messages = warning;');
ok(quiet(sub { $sql->("SELECT taskq_submit('q', '9')") }, $w), 'a queue that does not exist');
$sql->("SELECT taskq_submit('later', '\"made\"')");
is(answer($w), '"made"', 'a session can wait for it');
$w = claimer("'later'", 'SET client_min_messages = warning;');
$sql->("SELECT taskq_drop_queue('later', true)");
ok(asleep($w), 'a queue that is dropped');
$sql->("SELECT taskq_submit('later', '\"again\"')");
is(answer($w), '"again"', 'a session can wait for it, too');
$w = claimer("'later'", 'SET taskq.auto_create_queues = off;');
$sql->("SELECT taskq_drop_queue('later', true)");
is(answer($w), 'TQ003', 'it cannot if queues are not created automatically');

# --- paused
for my $name ('q', '*')
{
	$sql->("SELECT taskq_pause('$name')");
	$w = claimer("'q'");
	$sql->("SELECT taskq_submit('q', '10')");
	ok(asleep($w), "$name is paused");
	$sql->("SELECT taskq_resume('$name')");
	is(answer($w), $name eq 'q' ? '9' : '10', 'it is resumed');
}
$sql->("SELECT taskq_purge('q', '{pending}')");
$sql->("SELECT taskq_pause('q', until => clock_timestamp() + interval '2 s')");
$sql->("SELECT taskq_submit('q', '11')");
# no other session knows that it sleeps before the pause has ended
$w = start("SELECT payload FROM taskq_claim('q', wait => '5 min', lease => '1 h');");
is(answer($w), '11', 'the end of a pause wakes');

# --- limits
$sql->("SELECT taskq_create_queue('m', '{\"max_running\": 1}')");
$sql->("SELECT taskq_submit_many('m', ARRAY['1', '2', '3', '4', '5']::jsonb[])");
my ($id, $token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('m')");
$w = claimer("'m'");
my $next = claimer("'m'");
$before = $numbers->();
$sql->("SELECT taskq_complete($id, $token)");
is(answer($w), '2', 'the end of a running task makes room for another');
ok(asleep($next), 'it makes room for one only');
$sql->("SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'm' AND state = 'running'");
is(answer($next), '3', 'the next end makes room for the next task');
$w = claimer("'m'");
$sql->("SELECT taskq_alter_queue('m', '{\"max_running\": 2}')");
is(answer($w), '4', 'a limit that is raised wakes');
$sql->("SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE queue = 'm' AND state = 'running'");
$sql->("SELECT taskq_alter_queue('m', '{\"max_running\": 1}')");
$holder = open_session($node);
$holder->query_safe("BEGIN; SELECT task_id FROM taskq_claim('m')");
$w = claimer("'m'");
$holder->query_safe('ROLLBACK');
is(answer($w), '5', 'a claim that is rolled back makes room');
$sql->("SELECT taskq_register('full', max_running => 1)");
$sql->("SELECT taskq_submit_many('q', ARRAY['12', '13']::jsonb[])");
($id, $token) = split /\|/, $sql->("SELECT task_id, token FROM taskq_claim('q', 'full')");
$w = claimer("'q', 'full'");
$sql->("SELECT taskq_complete($id, $token)");
is(answer($w), '13', 'the limit of a worker');
$sql->("SELECT taskq_create_queue('r', '{\"rate_limit\": {\"count\": 1, \"per\": \"2 s\"}}')");
$sql->("SELECT taskq_submit('r', '14')");
$w = start("SELECT payload FROM taskq_claim('r', wait => '5 min', lease => '1 h');");
is(answer($w), '14', 'a bucket that fills wakes');

# --- a claim that a limit delays has written nothing, not even a new label
my $written = sub {
	$sql->('SELECT count(backend_xid) FROM pg_stat_activity WHERE application_name IN (' . join(',', map { "'$_->{name}'" } @_) . ')');
};
$sql->("SELECT taskq_create_queue('h', '{\"max_running\": 1}'), taskq_create_queue('h2', '{\"rate_limit\": {\"count\": 1, \"per\": \"1 d\"}}')");
$sql->("SELECT taskq_register('busy', max_running => 1)");
$sql->("SELECT taskq_submit(q) FROM unnest('{h,h,h2,q,q}'::text[]) q");
$sql->("SELECT task_id FROM taskq_claim('h'); SELECT task_id FROM taskq_claim('q', 'busy')");
my @crowd = map { claimer($_) } "'h'", "'h', 'a label of h'", "'h2'", "'h2', 'a label of h2'", "'q', 'busy'";
is($written->(@crowd), 0, 'claims that a limit delays have no transaction number');
# looked_again(CODE, W...): the code makes the sessions check and sleep again
sub looked_again
{
	my ($code, @w) = @_;
	my $sleeps = $numbers->()->{sleeps};

	$code->();
	return within($LONG, sub { $numbers->()->{sleeps} >= $sleeps + @w }) && asleep(@w);
}
my $alter = sub {
	my ($queues) = @_;
	return sub { $sql->("SELECT taskq_alter_queue(q, '{\"priority\": 0}') FROM unnest('{$queues}'::text[]) q") };
};
ok(looked_again($alter->('h,h2,q'), @crowd), 'they check again');
is($written->(@crowd), 0, 'they still have no transaction number');
# a claim that is the first to check: the number of running tasks is not known
$sql->("SELECT taskq_create_queue('h3', '{\"max_running\": 1}'), taskq_submit('h3'), taskq_submit('h3')");
$sql->("SELECT task_id FROM taskq_claim('h3')");
$w = claimer("'h3', 'a label of h3'");
ok(looked_again($alter->('h3'), $w), 'a claim that does not know the number of running tasks sleeps, too');
is($written->($w), 0, 'it has no transaction number, either');
give_up($w);
give_up(@crowd);
$sql->("SELECT taskq_deregister('busy'), taskq_drop_queue('h', true), taskq_drop_queue('h2', true), taskq_drop_queue('h3', true); SELECT taskq_purge('q', '{pending}')");

# --- a claim that a limit delays keeps no task from others
$sql->("SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE worker = 'full' AND state = 'running'");
$sql->("SELECT taskq_submit('q', '15')");
$sql->("SELECT task_id FROM taskq_claim('q', 'full')");
$sql->("SELECT taskq_submit('q', '16', tags => '{x}')");
$w = claimer("'q', 'full', tags => '{x}'");
$next = claimer("'q'");
$sql->("SELECT taskq_submit('q', '17')");
is(answer($next), '17', 'a task that the first one may not claim wakes the second');
give_up($w);

# --- workers
$sql->("SELECT taskq_purge('q', '{pending}')");
$sql->("SELECT taskq_register('w', queues => '{q,e1,e2}', tags => '{a}')");
$w = claimer("NULL, 'w'");
ok(quiet(sub { $sql->("SELECT taskq_submit('q', '18', tags => '{c}')") }, $w), 'all queues of a worker');
$sql->("SELECT taskq_submit('e2', '18', tags => '{a}')");
is(answer($w), '18', 'one of them is created later');
# several existing, empty queues: each check begins with another queue
$sql->("SELECT taskq_create_queue('e3'); SELECT taskq_register('w3', queues => '{q,e2,e3}', tags => '{a}')");
$w = claimer("NULL, 'w3'");
ok(quiet(sub { $sql->("SELECT taskq_submit('e3', '18', tags => '{c}')") }, $w), 'several empty queues');
$sql->("SELECT taskq_submit('e3', '19', tags => '{a}')");
is(answer($w), '19', 'one of them gets a task');
# and one on which it may not work until the right is granted
$sql->("CREATE ROLE allowed LOGIN; SELECT taskq_grant('e2', 'allowed', '{work}')");
$w = claimer("NULL, 'w4'", "SET ROLE allowed; SELECT taskq_register('w4', queues => '{e2,e3}') IS NULL;");
$sql->("SELECT taskq_submit('e3', '20')");
is(answer($w, 1), 'none', 'a queue without the right');
$sql->("SELECT taskq_grant('e3', 'allowed', '{work}')");
like(answer($w), qr/20$/, 'granting the right wakes');
$sql->("SELECT taskq_revoke('e3', 'allowed', '{work}')");
$w = sleeper("SET ROLE allowed; SELECT taskq_register('w4', queues => '{e2,e3}') IS NULL; CALL taskq_wait(NULL, '5 min', worker => 'w4');");
$sql->("SELECT taskq_submit('e3', '21')");
is(answer($w, 1), 'none', 'the same for taskq_wait');
$sql->("SELECT taskq_grant('e3', 'allowed', '{work}')");
like(answer($w), qr/t$/, 'granting the right wakes');
$sql->("SELECT taskq_purge('e3', '{pending}')");
$w = claimer("NULL, 'w'");
$sql->("SELECT taskq_drain('w')");
is(answer($w), '', 'a worker that drains');
is($sql->("CALL taskq_wait('q', worker => 'w')"), 'f', 'it has nothing to wait for');
$sql->("SELECT taskq_register('w')");
$w = claimer("'q', 'w'");
$sql->("SELECT taskq_register('w')");
is(answer($w), 'TQ007', 'a worker that another process replaces');
like(slurp_file($node->logfile), qr/ERROR:  worker "w" has been registered by another process$/m, 'it gets an error');
$sql->("SELECT taskq_register('w', queues => '{q}', keep => true)");
$w = claimer("NULL, 'w'");
$sql->("SELECT taskq_deregister('w')");
is(answer($w), 'TQ007', 'a worker that leaves');
# tasks that a dead worker claims would be lost
$sql->("SELECT taskq_deregister('full')");
$node->append_conf('postgresql.conf', "taskq.stale_threshold = '1s'\ntaskq.dead_threshold = '3s'\ntaskq.reaper_interval = '100ms'");
$node->reload;
$sql->("SELECT taskq_purge('q', '{pending}')");
$sql->("SELECT taskq_register('alive'), taskq_register('dead')");
$w = claimer("'q', 'alive'");
ok(within($LONG, sub { $sql->("SELECT state FROM taskq.workers WHERE worker = 'dead'") eq 'dead' }), 'a worker dies');
is($sql->("SELECT state FROM taskq.workers WHERE worker = 'alive'"), 'active', 'another one stays alive while it waits');
give_up($w);
$node->append_conf('postgresql.conf', "taskq.stale_threshold = '30s'\ntaskq.dead_threshold = '120s'");
$node->reload;

# --- ends without a task
my $ended = sub {
	my ($what, $w) = @_;

	$sql->("SELECT taskq_purge('q', '{pending}')");
	$sql->("SELECT taskq_submit('q', '\"left\"')");
	is($sql->("SELECT payload FROM taskq_claim('q')"), '"left"', "$what: it took nothing");
};
$sql->("SELECT taskq_purge('q', '{pending}')");
$w = claimer("'q'");
give_up($w);
is(answer($w), '57014', 'a cancel');
$ended->('cancelled');
$w = claimer("'q'");
$sql->('SELECT pg_terminate_backend(' . pid_of($w) . ')');
is(answer($w), '57P01', 'pg_terminate_backend');
$ended->('terminated');
is(answer(start("SET statement_timeout = '300ms'; SELECT * FROM taskq_claim('q', wait => '5 min');")), '57014', 'statement_timeout');
$ended->('timed out');
for my $call ("SELECT * FROM taskq_claim('q', wait => '5 min')", "CALL taskq_wait('q', '5 min')")
{
	$w = sleeper("$call;");
	my $pid = pid_of($w);
	$w->{run}->kill_kill;
	ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' }), 'the client is gone');
	$ended->('without client');
}

# --- a wake is passed on
my %ends = (
	cancelled => sub { $sql->("SELECT pg_cancel_backend($_[1])") },
	terminated => sub { $sql->("SELECT pg_terminate_backend($_[1])") },
	killed => sub { $_[0]->{run}->kill_kill });
for my $how (sort keys %ends)
{
	$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
	$w = claimer("'q'", "SET taskq.debug_point = 'wait_woken';");
	$next = claimer("'q'");
	$before = $numbers->();
	$sql->("SELECT taskq_submit('q', '\"passed\"')");
	ok(within($LONG, sub { $sql->('SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ' . pid_of($w)) eq '1' }),
		'one session is woken');
	$ends{$how}->($w, pid_of($w));
	# without a client it continues, and checks later
	$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)') if $how eq 'killed';
	is(answer($next), '"passed"', "when it is $how before it has checked, the next one is woken");
	is($numbers->()->{passed_on}, $before->{passed_on} + 1, 'once');
	$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)') if $how ne 'killed';
}
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
# a session that finds another task instead of the task that woke it
$w = claimer("'q', tags => '{a,b}'", "SET taskq.debug_point = 'wait_woken';");
$a = claimer("'q', tags => '{a}'");
$sql->("SELECT taskq_submit('q', '\"a\"', tags => '{a}')");
ok(within($LONG, sub { $sql->('SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ' . pid_of($w)) eq '1' }), 'one session is woken');
$sql->("SELECT taskq_submit('q', '\"b\"', tags => '{b}', priority => 9)");
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
is(answer($w), '"b"', 'it claims a task that was submitted later, and comes first');
is(answer($a), '"a"', 'the other session gets the task that woke the first');

# a session that may no longer claim the task: its right, or a tag, was removed
my %losses = (
	right => ["SELECT taskq_revoke('e3', 'allowed', '{work}')", "SELECT taskq_grant('e3', 'allowed', '{work}')"],
	tag => ["SELECT taskq_register('w5', queues => '{e2,e3}', keep => true)", '']);
$sql->("SELECT taskq_purge('e2', '{pending}'), taskq_purge('e3', '{pending}')");
for my $what (sort keys %losses)
{
	my ($take, $give) = @{ $losses{$what} };

	$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
	$w = claimer("NULL, 'w5'", "SET taskq.debug_point = 'wait_woken'; SET ROLE allowed;"
		. " SELECT taskq_register('w5', queues => '{e2,e3}', tags => '{a}') IS NULL;");
	$next = claimer("'e3', tags => '{a}'");
	$sql->("SELECT taskq_submit('e3', '22', tags => '{a}')");
	ok(within($LONG, sub { $sql->('SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = ' . pid_of($w)) eq '1' }),
		"one is woken on a queue, and loses its $what");
	$sql->($take);
	$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
	is(answer($next), '22', 'another session is woken');
	give_up($w);
	$sql->($give) if $give;
}

# --- between the check and the sleep
$holder->query_safe('SELECT pg_advisory_lock(74111, 1)');
$w = start("SET taskq.debug_point = 'wait_looked'; SELECT payload FROM taskq_claim('q', wait => '5 min');");
ok(within($LONG, sub { $sql->("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") eq '1' }), 'a session has checked and found no task');
$sql->("SELECT taskq_submit('q', '\"just now\"')");
$holder->query_safe('SELECT pg_advisory_unlock(74111, 1)');
is(answer($w), '"just now"', 'it does not miss what comes before it sleeps');

# --- waits that are not allowed
is(error_of($node, "BEGIN; CALL taskq_wait('q')"), '25001', 'taskq_wait in a transaction block');
is(error_of($node, "DO \$\$ DECLARE r boolean; BEGIN CALL taskq_wait('q', '0', r); EXCEPTION WHEN division_by_zero THEN NULL; END \$\$"),
	'25001', 'in a savepoint');
is(error_of($node, "DO \$\$ DECLARE r boolean; BEGIN PERFORM taskq_submit('q'); CALL taskq_wait('q', '0', r); END \$\$"), '25001', 'after a write');
is(error_of($node, "BEGIN; SELECT taskq_submit('q'); SELECT * FROM taskq_claim('q', wait => '1 s')"), '25001', 'a claim after a write');
is(error_of($node, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM taskq_claim('q', wait => '1 s')"),
	'25001', 'a claim with an old snapshot');
is(error_of($node, "SELECT * FROM taskq_claim('q', wait => '301 s')"), '22023', 'longer than taskq.max_wait');
is(error_of($node, "SET taskq.max_wait = '1 s'; CALL taskq_wait('q', '2 s')"), '22023', 'also if that is less');
is(answer(start("DO \$\$ DECLARE r boolean; BEGIN CALL taskq_wait('q', '100 ms', r); COMMIT; CALL taskq_wait('q', '100 ms', r); END \$\$;")), '', 'in a block of code that may commit');

# --- new labels
$w = claimer("'q', 'a new label'");
$next = claimer("'q', 'a new label'");
is($sql->("SELECT count(*) FROM taskq.worker WHERE name = 'a new label'"), '0', 'a label is written only with a claim');
$sql->("SELECT taskq_submit_many('q', ARRAY['20', '21']::jsonb[])");
is(join(' ', sort map { answer($_) } $w, $next), '20 21', 'two claims with the new label get their tasks');
sound($node);
$node->stop;
done_testing();

# Sleeping sessions are woken at the moment when a task becomes due, by the
# background worker, and do not poll. They are also woken when a claim that was
# delayed can succeed. If wakes fail, NOTIFY continues, and vice versa.
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

# A waiter checks after 60 s in any case, and so does the background worker.
# A claim that takes longer than this was not woken.
my $TOLD = 30;

# The periodic checks that might replace timers run once an hour.
my $node = start_node(
	'timers',
	'taskq.reaper_interval' => "'1h'",
	'taskq.deadline_interval' => "'1h'",
	'taskq.retention_interval' => "'1h'",
	'autovacuum' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };

waiters_of($node);

sub claiming
{
	my ($args) = @_;
	return start("SELECT payload FROM taskq_claim($args, wait => '5 min', lease => '1 h');");
}

# woken(SLEEPERS, WOKEN, EXTRA, TEXT): each sleeper, {name => session}, answers
# with its name when TEXT has been run; WOKEN sessions were woken, and none has
# polled. EXTRA: how many may check once and find nothing.
sub woken
{
	my ($w, $woken, $extra, $text) = @_;
	my $before = numbers();

	$sql->($text);
	is(answer($w->{$_}), qq{"$_"}, "woken: $_") for sort keys %$w;
	my $after;
	within($TOLD, sub { $after = numbers(); $after->{wakes} >= $before->{wakes} + $woken });
	my $wakes = $after->{wakes} - $before->{wakes};
	my $looks = $after->{sleeps} - $before->{sleeps};
	ok($wakes >= $woken && $wakes <= $woken + $extra, "by $woken wakes") or diag("wakes: $wakes");
	cmp_ok($looks, '<=', $extra, 'no session polls');
	return;
}

# in_time(QUEUES): their tasks were claimed when they were due, not earlier.
sub in_time
{
	my ($what, @queues) = @_;
	my $list = join ',', map { "'$_'" } @queues;
	my ($soonest, $latest) = split /\|/, $sql->(
		'SELECT min(extract(epoch FROM claimed_at - run_at)), max(extract(epoch FROM claimed_at - run_at))'
		  . " FROM taskq.tasks WHERE queue IN ($list) AND claimed_at IS NOT NULL AND run_at > created_at");

	cmp_ok($soonest, '>=', 0, "$what: not before they were due");
	cmp_ok($latest, '<', $TOLD, "$what: when they were due");
	note("figure: $what: $latest s after they were due");
	return;
}

sub fault
{
	my ($point) = @_;

	$node->append_conf('postgresql.conf', "taskq.fault_point = '$point'");
	$node->reload;
	return;
}

sub faults { my ($point) = @_; my @lines = slurp_file($node->logfile) =~ /(fault at "$point")/g; return scalar @lines }

# --- tasks that become due at one moment, in one transaction
my @due = qw(run_at delay retry release updated);
$sql->("SELECT taskq_create_queue(q) FROM unnest('{" . join(',', @due, 'lease', 'three', 'tags') . "}'::text[]) q");
$sql->("SELECT taskq_submit(q, to_jsonb(q)) FROM unnest('{retry,release,lease}'::text[]) q");
$sql->("SELECT taskq_submit('updated', '\"updated\"', delay => '1 h')");
$sql->('CREATE TABLE held AS SELECT c.* FROM unnest(\'{retry,release,lease}\'::text[]) q, taskq_claim(q, lease => \'1 h\') c');
my %w = map { $_ => claiming("'$_'") } @due;
my @three = map { claiming("'three'") } 1 .. 5;
ok(asleep(@three), 'five sessions sleep');
my $other = claiming("'tags', tags => '{b}'");
ok(asleep($other), 'a session with other tags sleeps first');
$w{tags} = claiming("'tags', tags => '{a}'");
ok(asleep(values %w), 'a session for each way in which a task becomes due sleeps');
woken(\%w, 9, 2, <<'SQL');
BEGIN;
SELECT set_config('t.due', (clock_timestamp() + interval '4 s')::text, true);
SELECT taskq_submit('run_at', '"run_at"', run_at => current_setting('t.due')::timestamptz);
SELECT taskq_submit('delay', '"delay"', delay => current_setting('t.due')::timestamptz - clock_timestamp());
SELECT taskq_submit('tags', '"tags"', tags => '{a}', run_at => current_setting('t.due')::timestamptz);
SELECT taskq_submit('three', '"three"', run_at => current_setting('t.due')::timestamptz) FROM generate_series(1, 3);
SELECT taskq_update_task(task_id, jsonb_build_object('run_at', current_setting('t.due'))) FROM taskq.tasks WHERE queue = 'updated';
SELECT taskq_fail(task_id, token, 'again', retry_in => current_setting('t.due')::timestamptz - clock_timestamp()) FROM held WHERE queue = 'retry';
SELECT taskq_release(task_id, token, delay => current_setting('t.due')::timestamptz - clock_timestamp()) FROM held WHERE queue = 'release';
COMMIT;
SQL
in_time('tasks that become due', @due, 'three', 'tags');
ok(within($TOLD, sub { 3 == grep { has_ended($_) } @three }), 'three tasks, three of the five');
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'three' AND state = 'running'"), 3, 'each session got one task');
my @left = grep { !has_ended($_) } @three;
ok(asleep($other, @left), 'the other sessions still sleep');
give_up($other, @left);

# --- something lets a session claim that could not before
$sql->(<<'SQL');
SELECT taskq_create_queue('resumed'), taskq_pause('resumed');
SELECT taskq_create_queue(q, '{"max_running": 1}') FROM unnest('{room,raised}'::text[]) q;
SELECT taskq_create_queue('rate', '{"rate_limit": {"count": 1, "per": "1 h"}}'), taskq_create_queue('full');
SELECT taskq_register('full', max_running => 1);
SELECT taskq_submit(q, to_jsonb(q)) FROM unnest('{resumed,rate}'::text[]) q;
SELECT taskq_submit_many(q, ARRAY['0', to_jsonb(q)]) FROM unnest('{room,raised,full}'::text[]) q;
INSERT INTO held SELECT c.* FROM unnest('{room,raised}'::text[]) q, taskq_claim(q, lease => '1 h') c;
INSERT INTO held SELECT * FROM taskq_claim('full', 'full');
SQL
%w = (full => claiming("'full', 'full'"), map { $_ => claiming("'$_'") } qw(resumed room raised rate));
ok(asleep(values %w), 'five sessions cannot claim');
# (a registered worker sends a heartbeat from time to time)
woken(\%w, 5, 4, <<'SQL');
BEGIN;
SELECT taskq_resume('resumed');
SELECT taskq_complete(task_id, token) FROM held WHERE queue = 'room';
SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM held WHERE queue = 'full';
SELECT taskq_alter_queue('raised', '{"max_running": 2}'), taskq_alter_queue('rate', '{"rate_limit": null}');
COMMIT;
SQL

# --- times that each sleeper knows itself: the next token of a rate, and the
# end of a pause
$sql->(<<'SQL');
SELECT taskq_create_queue('bucket', '{"rate_limit": {"count": 1, "per": "3 s"}}'), taskq_create_queue('paused');
SELECT taskq_submit(q, to_jsonb(q)) FROM unnest('{bucket,paused}'::text[]) q;
SELECT taskq_pause('paused');
SQL
$w{paused} = claiming("'paused'");
ok(asleep($w{paused}), 'a session sleeps on a paused queue');
$w{bucket} = claiming("'bucket'");
my $begin = $sql->('SELECT clock_timestamp()');
woken({ map { $_ => $w{$_} } qw(bucket paused) }, 1, 4,
	"SELECT taskq_pause('paused', until => clock_timestamp() + interval '3 s')");
is($sql->("SELECT count(*) FROM taskq.tasks WHERE queue IN ('bucket', 'paused') AND claimed_at < '$begin'::timestamptz + $TOLD * interval '1 s'"),
	2, 'it claims in time');

# --- the end of a pause of all queues
$sql->("SELECT taskq_pause('*', until => clock_timestamp() + interval '2 s'); SELECT taskq_submit('paused', '\"all\"')");
my $w = claiming("'paused'");
is(answer($w, $TOLD), '"all"', 'the end of a pause of all queues');

# --- many at the same time, one that another session commits, and the end of a
# lease
$sql->("SELECT taskq_create_queue(q) FROM unnest('{flood,prepared,worker}'::text[]) q");
my @flood = map { claiming("'flood'") } 1 .. 2;
$w = claiming("'prepared'");
my $lease = claiming("'lease'");
ok(asleep($w, $lease, @flood), 'four sessions sleep');
$sql->("BEGIN; SELECT taskq_submit('prepared', '\"prepared\"', delay => '2 s'); PREPARE TRANSACTION 'later'");
$sql->("COMMIT PREPARED 'later'; SELECT count(*) FROM taskq_submit_many('flood', array_fill('\"flood\"'::jsonb, ARRAY[1100]), delay => '2 s');"
	  . "SELECT taskq_extend(task_id, token, lease => '2 s') FROM held WHERE queue = 'lease'");
is(answer($_, $TOLD), '"flood"', 'more tasks than are notified one by one') for @flood;
is(answer($w, $TOLD), '"prepared"', 'a task of a prepared transaction');
is(answer($lease, $TOLD), '"lease"', 'a task whose lease has expired');
in_time('these', 'flood', 'prepared');

# --- the background worker is replaced, and the server restarts: the next
# background worker knows what is due, though no session has notified it
$w = claiming("'worker'");
ok(asleep($w), 'a session sleeps');
$sql->("SELECT taskq_submit('worker', '\"worker\"', delay => '1 s'); SELECT pg_terminate_backend(" . worker_pid($node) . ')');
is(answer($w, $TOLD), '"worker"', 'it becomes due while there is no background worker, or a new one');
$sql->("SELECT taskq_submit('worker', '\"restart\"', delay => '3 s')");
$node->restart;
$w = claiming("'worker'");
is(answer($w, $TOLD), '"restart"', 'due times are known after a restart');
in_time('both', 'worker');

# --- NOTIFY fails
$sql->(q{SELECT taskq_create_queue('n', '{"notify": true}'), taskq_create_queue('t')});
my $listener = $node->background_psql('postgres');
my $heard = sub { $listener->query('SELECT 1') =~ /notification "taskq_n" received/ };
$listener->query_safe('LISTEN taskq_n');
$sql->("SELECT taskq_submit('n')");
ok(within($TOLD, $heard), 'NOTIFY reports a task');
$w = claiming("'t'");
ok(asleep($w), 'a session sleeps');
fault('notify_send:error');
ok(within($TOLD, sub { $sql->("SELECT taskq_submit('n')"); faults('notify_send') }), 'NOTIFY fails');
like(slurp_file($node->logfile), qr/CONTEXT:.*taskq duty "notify"/s, 'the error is logged with its context');
$heard->();
$sql->("SELECT taskq_submit('t', '\"t\"', delay => '4 s')");
$sql->(join "\n", map { "SELECT taskq_submit('n');" } 1 .. 100);
is(answer($w, $TOLD), '"t"', 'tasks that become due wake the session nevertheless');
in_time('while NOTIFY fails', 't');
cmp_ok(faults('notify_send'), '<=', 10, 'NOTIFY is not tried for each commit');
ok(!$heard->(), 'no notification arrives');
fault('');
ok(within(60, $heard), 'when the error is gone, NOTIFY reports the tasks from before');

# --- waking sleepers fails
$w = claiming("'t'");
ok(asleep($w), 'a session sleeps');
$heard->();
fault('timer_tell:error');
ok(within($TOLD, sub { faults('timer_tell') }), 'timers fail');
$sql->("SELECT taskq_submit('t', '\"late\"', delay => '1 s')");
$sql->("SELECT taskq_submit('n')");
ok(within($TOLD, $heard), 'NOTIFY continues');
my $faults = faults('timer_tell');
fault('');
is(answer($w, 60), '"late"', 'when the error is gone, timers work');
cmp_ok($faults, '<=', 10, 'timers were not tried all the time');
$listener->quit;
sound($node);
$node->stop('fast');
done_testing();

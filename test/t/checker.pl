# The checker of the chaos test reads histories written by hand. For each rule
# some histories violate it, and the checker must report them under that rule
# and no other, unless the case has others, too; for similar histories without
# a violation it reports nothing.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../chaos/lib";
use Test::More;
use Chaos::History;
use Chaos::Report;
use Chaos::Run;

# Times below are in milliseconds: the checker's times are a thousand times
# that.
# Queue q: leases of 1 s; "none" keeps no finished tasks; "two" may have two
# running tasks and three claims a second.
my $queues = <<'TEXT';
S dead_threshold=1200000 reaper_interval=300000 slack=5000 recovery=1000000 late=500000 asleep=2000000 answer=300000 bound=300000
Q name=q max=3 retry=fixed base=100000 lease=1000000
Q name=none max=3 retry=fixed base=100000 lease=1000000 retention=none
Q name=two max=3 retry=fixed base=100000 lease=1000000 running=2
Q name=line max=3 retry=fixed base=100000 lease=1000000 serial=1
Q name=group max=3 retry=fixed base=100000 lease=1000000 group=1
Q name=rated max=3 retry=fixed base=100000 lease=1000000 rate=3 per=1000000
Q name=timed max=3 retry=linear base=100000 cap=1000000 lease=1000000 time_limit=300000
D {"name":"two","steps":[{"name":"a"},{"name":"b","depends_on":["a"]}]}
D {"name":"keyed","steps":[{"name":"a","queue":"line","key":"k1"}]}
D {"name":"if","steps":[{"name":"a"},{"name":"b","depends_on":["a"],"when":"$.input.n < 50"},{"name":"c","depends_on":["b"]}]}
D {"name":"choice","steps":[{"name":"choose","type":"decision"},{"name":"x","depends_on":["choose"]},{"name":"y","depends_on":["choose"]},{"name":"join","type":"deferred","depends_on":["x","y"]}]}
D {"name":"fork","steps":[{"name":"fork","type":"decision","branches":[{"when":"$.input.n < 50","steps":["x"]},{"when":"$.input.n >= 50","steps":["y"]}]},{"name":"x","depends_on":["fork"]},{"name":"y","depends_on":["fork"]}]}
D {"name":"batch","steps":[{"name":"split","type":"batch"},{"name":"part","type":"batch_worker","depends_on":["split"]},{"name":"total","type":"deferred","depends_on":["part"]}]}
D {"name":"batch_on","steps":[{"name":"split","type":"batch","failure_strategy":"continue_on_failure"},{"name":"part","type":"batch_worker","depends_on":["split"],"max_attempts":1},{"name":"total","type":"deferred","depends_on":["part"]}]}
D {"name":"ask","steps":[{"name":"signal","type":"signal","signal":{"name":"go"}},{"name":"b","depends_on":["signal"]}]}
D {"name":"pause","steps":[{"name":"a"},{"name":"timer","type":"timer","depends_on":["a"],"timer":{"after":"500 ms"}},{"name":"b","depends_on":["timer"]}]}
D {"name":"outer","steps":[{"name":"in","type":"workflow","workflow":{"name":"two"}},{"name":"b","depends_on":["in"]}]}
TEXT

my $n = 0;

sub op
{
	my ($t0, $t1, $text, $outcome) = @_;
	my $end = defined $outcome ? sprintf("E %d %d %s\n", $n + 1, $t1 * 1000, $outcome) : '';
	return sprintf("B %d %d %s\n", ++$n, $t0 * 1000, $text) . $end;
}

# submit key k as task id at t0, answered at t1; more: other words
sub submit
{
	my ($key, $id, $t0, $t1, %more) = @_;
	my %words = (q => 'q', keys => $key, void => '-', end => 'commit', prio => 0, delay => 0, deadline => 0, max => 0,
		tags => '-', ref => '-', conflict => 'error', %more);
	my $outcome = delete $words{outcome} // "ok ids=$id";
	return op($t0, $t1, join(' ', 'submit', map { "$_=$words{$_}" } sort keys %words), $outcome eq 'none' ? undef : $outcome);
}

# claim of one task, or of several: [id, token, attempt, prio, key] each
sub claim
{
	my ($w, $t0, $t1, $tasks, %more) = @_;
	my %words = (q => 'q', w => $w, n => 1, lease => 0, held => 'lease', tags => '-', end => 'auto', %more);
	my $outcome = delete $words{outcome};
	my $text = join ',', map { join ':', @$_[ 0, 1, 2 ], 3, @$_[ 3, 4 ] } @$tasks;
	return op($t0, $t1, join(' ', 'claim', map { "$_=$words{$_}" } sort keys %words), $outcome // "ok tasks=$text void=-");
}

sub answer
{
	my ($what, $w, $id, $token, $t0, $t1, $outcome, %more) = @_;
	my %words = (id => $id, token => $token, w => $w, effect => 0, end => 'auto', q => 'q', %more);
	return op($t0, $t1, join(' ', $what, map { "$_=$words{$_}" } sort keys %words), $outcome);
}

sub complete { return answer('complete', @_, effect => 1, end => 'commit'); }
sub task { my ($id, $key, $state, %more) = @_; my %words = (q => 'q', reason => '-', attempt => 1, %more);
	return "T id=$id key=$key state=$state " . join(' ', map { "$_=$words{$_}" } sort keys %words) . "\n"; }
sub outbox { return map { "O key=$_\n" } @_; }
sub effect { my ($id, $token) = @_; return "F id=$id token=$token\n"; }
sub call { my ($w, $what, $t0, $t1, $outcome) = @_; return op($t0, $t1, "$what w=$w limit=0", $outcome // 'ok -'); }

# start instance f of a template as workflow id
sub start
{
	my ($in, $id, $t0, $t1, %more) = @_;
	my %words = (name => 'two', in => $in, void => '-', key => '-', end => 'commit', conflict => 'error', delay => 0, v => 10, %more);
	my $outcome = delete $words{outcome} // "ok id=$id";
	return op($t0, $t1, join(' ', 'start', map { "$_=$words{$_}" } sort keys %words), $outcome eq 'none' ? undef : $outcome);
}
sub flow { my ($id, $in, $state, %more) = @_; my %words = (name => 'two', key => '-', n => 10, parent => '-', via => '-', result => 'null', %more);
	return "W id=$id in=$in state=$state " . join(' ', map { "$_=$words{$_}" } sort keys %words) . "\n"; }
sub step { my ($flow, $name, $id, $state, %more) = @_; return task($id, "w$flow/$name", $state, result => 'null', %more); }
sub by_hand { my ($what, $words, $t0, $t1, $outcome) = @_; return op($t0, $t1, "$what $words end=commit", $outcome // 'ok said='); }
# a step that w claims at some time and completes 10 later: payload and results
# of its parents, its own result
sub does
{
	my ($flow, $name, $id, $time, $payload, $deps, $result) = @_;
	return (claim('w', $time, $time + 4, [ [ $id, 1, 1, 0, "w$flow/$name" ] ]), "G id=$id token=1 deps=$deps payload=$payload\n",
		answer('complete', 'w', $id, 1, $time + 6, $time + 9, 'ok -', effect => 1, end => 'commit', result => $result), effect($id, 1));
}
sub done { my ($flow, $name, $id, $time, $payload, $deps, $result) = @_; return (does(@_), step($flow, $name, $id, 'done', result => $result)); }

# the rules that are broken
sub broken
{
	my $h = Chaos::History->new;
	$h->add_text($queues);
	$h->add_text(join '', @_);
	return map { $_->[0] } grep { @$_ > 2 } Chaos::Report::judge($h->finish);
}

sub reports { my ($what, $rules, @text) = @_; return is(join(' ', broken(@text)), $rules, "reported: $what"); }
sub clean { my ($what, @text) = @_; return is(join(' ', broken(@text)), '', "clean: $what"); }

# A task that was submitted at 0 and claimed by w at 10; and its usual end
my @begun = (submit('k', 1, 0, 5), outbox('k'), claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ]));
my @ended = (complete('w', 1, 1, 20, 25, 'ok -'), effect(1, 1), task(1, 'k', 'done'));

clean('one task, one claim, one completion', @begun, @ended);
clean('nothing at all');

# --- 1
reports('an acknowledged task that is not there', '1 3', submit('k', 1, 0, 5), outbox('k'));
reports('a task stored twice', '1', @begun, @ended, task(2, 'k', 'done'), complete('w', 2, 1, 20, 25, 'ok -'), effect(2, 1));
reports('a task has another id than was acknowledged', '1', submit('k', 1, 0, 5), outbox('k'), task(2, 'k', 'cancelled'));
clean('an unknown submit that did not happen', submit('k', 1, 0, 5, outcome => 'none'));
clean('an unknown submit that happened', submit('k', 1, 0, 5, outcome => 'none'), outbox('k'), task(1, 'k', 'cancelled'));
clean('done where nothing is kept', submit('k', 1, 0, 5, q => 'none'), outbox('k'),
	claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ], q => 'none'),
	answer('complete', 'w', 1, 1, 20, 25, 'ok -', q => 'none', effect => 1), effect(1, 1));
reports('nothing is kept, but the task was never completed', '1 3', submit('k', 1, 0, 5, q => 'none'), outbox('k'),
	claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ], q => 'none'));
clean('the reference was taken: nothing submitted', submit('k', '-', 0, 5, ref => 'other', conflict => 'return'));

# --- 2
reports('a task that was never submitted', '2', task(7, 'x', 'done'), complete('w', 7, 1, 20, 25, 'ok -'), effect(7, 1));
reports('a submit that failed', '2 3', submit('k', 1, 0, 5, outcome => 'fail code=40001'), task(1, 'k', 'cancelled'));
reports('a submit that was rolled back', '2', submit('k', 1, 0, 5, end => 'rollback', outcome => 'none'), outbox('k'), task(1, 'k', 'cancelled'));
reports('a savepoint that was rolled back', '2', @begun, @ended, submit('l', 2, 0, 5, void => 'm'), outbox('l', 'm'),
	task(2, 'l', 'cancelled'), task(3, 'm', 'cancelled'));
reports('a claim of a task that was never submitted', '2', claim('w', 10, 15, [ [ 9, 1, 1, 0, 'y' ] ]));

# --- 3
reports('a task without its row in the outbox', '3', submit('k', 1, 0, 5), task(1, 'k', 'cancelled'));
reports('an unknown submit with half of it', '3', submit('k', 1, 0, 5, outcome => 'none'), task(1, 'k', 'cancelled'));
reports('an unknown submit with the other half', '3', submit('k', 1, 0, 5, outcome => 'none'), outbox('k'));
reports('a row of a rolled back submit', '3', submit('k', 1, 0, 5, end => 'rollback', outcome => 'fail code=rollback'), outbox('k'));

# --- 4
reports('a task that is still pending', '4', submit('k', 1, 0, 5), outbox('k'), task(1, 'k', 'pending', attempt => 0));
reports('a task that is still running', '4', @begun, task(1, 'k', 'running'));
reports('a task that is live and finished', '1 4 5 6', @begun, @ended, task(1, 'k', 'pending'));

# --- 5
reports('two accepted completions', '5', @begun, @ended, complete('w', 1, 1, 30, 35, 'ok -'));
reports('accepted, but dead', '5', @begun, complete('w', 1, 1, 20, 25, 'ok -'), task(1, 'k', 'dead', reason => 'rejected'));
reports('a task is done without a completion', '5', @begun, task(1, 'k', 'done'));
reports('completed and gone', '1 3 5', @begun, complete('w', 1, 1, 20, 25, 'ok -'));
reports('a session that waits is told another end', '5', @begun, @ended, op(30, 35, 'await q=q id=1', 'ok state=dead'));
reports('a session that waits is told no end', '5', @begun, @ended, op(30, 35, 'await q=q id=1', 'ok state=null'));
clean('a session that waits is told the end', @begun, @ended, op(12, 35, 'await q=q id=1', 'ok state=done'));
clean('a session that waits is told that its time is up', @begun, @ended, op(12, 15, 'await q=q id=1', 'ok state=running'));
clean('done by an unknown completion', @begun, complete('w', 1, 1, 20, 25, undef), effect(1, 1), task(1, 'k', 'done'));
clean('an unknown completion that did not happen', @begun, complete('w', 1, 1, 20, 25, undef), task(1, 'k', 'dead', reason => 'rejected'));

# --- 6
reports('done without its effect', '6', @begun, complete('w', 1, 1, 20, 25, 'ok -'), task(1, 'k', 'done'));
reports('two effects', '6', @begun, @ended, effect(1, 1));
reports('an effect of a refused completion', '6', @begun, complete('w', 1, 1, 20, 25, 'fail code=TQ001'), effect(1, 1),
	task(1, 'k', 'dead', reason => 'rejected'));
reports('an unknown completion of which half happened', '6', @begun, complete('w', 1, 1, 20, 25, undef), effect(1, 1),
	task(1, 'k', 'dead', reason => 'rejected'));
reports('an effect of a completion that was rolled back', '6', @begun, @ended,
	answer('complete', 'w', 1, 1, 17, 19, undef, effect => 1, end => 'rollback'), effect(1, 1));
reports('an effect without a completion', '6', @begun, answer('complete', 'w', 1, 1, 20, 25, 'ok -'), effect(1, 1), task(1, 'k', 'done'));
clean('completed without an effect', @begun, answer('complete', 'w', 1, 1, 20, 25, 'ok -'), task(1, 'k', 'done'));

# --- 7: the lease is 1 s, from 10 or later
my @other_ends = (complete('v', 1, 2, 1520, 1525, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 2));
reports('a second claim within the lease', '7', @begun, claim('v', 900, 905, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a second claim after the lease', @begun, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a second claim that was sent within the lease and answered after it', @begun, claim('v', 900, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
reports('two claims at the same time', '7', submit('k', 1, 0, 5), outbox('k'), claim('w', 10, 16, [ [ 1, 1, 1, 0, 'k' ] ]),
	claim('v', 11, 15, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
reports('a claim before an extended lease is over', '7', @begun, answer('extend', 'w', 1, 1, 800, 805, 'ok -', lease => 1_000_000),
	claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a lease that was made shorter', @begun, answer('extend', 'w', 1, 1, 20, 25, 'ok -', lease => 100_000),
	claim('v', 500, 505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a lease that may have been made shorter', @begun, answer('extend', 'w', 1, 1, 20, 25, undef, lease => 100_000),
	claim('v', 500, 505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after an unknown failure', @begun, answer('fail', 'w', 1, 1, 20, 25, undef, retryable => 1, retry_in => 0),
	claim('v', 500, 505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after the time limit', submit('k', 1, 0, 5, q => 'timed'), outbox('k'),
	claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ], q => 'timed'), claim('v', 500, 505, [ [ 1, 2, 2, 0, 'k' ] ], q => 'timed'), @other_ends);
my @registered = (call('w', 'register', 1, 2), submit('k', 1, 0, 5), outbox('k'),
	claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ], held => 'worker'));
reports('a claim while the registered worker sends heartbeats', '7', @registered, call('w', 'heartbeat', 1100, 1105),
	claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after its silence', @registered, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after the worker registered again', @registered, call('w', 'register', 100, 105), call('w', 'heartbeat', 300, 305),
	claim('v', 400, 405, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after the worker may have registered again', @registered, call('w', 'register', 100, 105, undef), call('w', 'heartbeat', 300, 305),
	claim('v', 400, 405, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
my @bound = ("P w\n", op(0, 1, 'connect', 'ok -'), call('w', 'register', 1, 2), submit('k', 1, 0, 5), outbox('k'),
	claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ], held => 'connection'));
reports('a claim while the connection of a bound worker is open', '7', @bound, call('w', 'heartbeat', 300, 305), "P v\n",
	claim('v', 200, 205, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after the connection of a bound worker was last heard of', @bound, call('w', 'heartbeat', 100, 105), "P v\n",
	claim('v', 200, 205, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after its connection was lost', @bound, call('w', 'heartbeat', 100, 105, 'fail code=lost -'),
	op(110, 111, 'connect', 'ok -'), call('w', 'heartbeat', 300, 305), "P v\n",
	claim('v', 200, 205, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
reports('a claim within an extended lease', '7', @begun, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]),
	answer('extend', 'w', 1, 1, 1600, 1605, 'fail code=TQ001', lease => 1_000_000),
	answer('extend', 'v', 1, 2, 1600, 1605, 'ok -', lease => 1_000_000),
	claim('u', 2000, 2005, [ [ 1, 3, 3, 0, 'k' ] ]), complete('u', 1, 3, 2020, 2025, 'ok -'), effect(1, 3), task(1, 'k', 'done', attempt => 3));

reports('a claim within the lease of a claim that has waited', '7', submit('k', 1, 900, 905), outbox('k'),
	claim('w', 0, 1000, [ [ 1, 1, 1, 0, 'k' ] ], wait => 2_000_000), claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
clean('a claim after the lease of a claim that has waited', submit('k', 1, 900, 905), outbox('k'),
	claim('w', 0, 1000, [ [ 1, 1, 1, 0, 'k' ] ], wait => 2_000_000), claim('v', 1950, 1955, [ [ 1, 2, 2, 0, 'k' ] ]),
	complete('v', 1, 2, 1970, 1975, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 2));

# --- 8
my @slow = (submit('k', 1, 0, 5), outbox('k'), claim('w', 10, 1600, [ [ 1, 1, 1, 0, 'k' ] ]), claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]));
clean('the first claim was answered after the second', @slow, complete('v', 1, 2, 1700, 1705, 'ok -'), effect(1, 2),
	task(1, 'k', 'done', attempt => 2));
reports('a stale completion is accepted', '5 7 8 10', @begun, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]),
	complete('w', 1, 1, 1510, 1515, 'ok -'), effect(1, 1), complete('v', 1, 2, 1520, 1525, 'ok -'), task(1, 'k', 'done', attempt => 2));
reports('a stale failure is accepted', '7 8', @begun, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]),
	answer('fail', 'w', 1, 1, 1510, 1515, 'ok -', retryable => 1, retry_in => 0), @other_ends);
clean('a late answer, and no other worker has the task', @begun, complete('w', 1, 1, 3000, 3005, 'ok -'), effect(1, 1), task(1, 'k', 'done'));
clean('a stale answer is refused', @begun, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]),
	complete('w', 1, 1, 1510, 1515, 'fail code=TQ001'), @other_ends);
reports('a token is given out twice', '7 8', @begun, claim('v', 1500, 1505, [ [ 1, 1, 2, 0, 'k' ] ]),
	complete('v', 1, 1, 1520, 1525, 'ok -'), effect(1, 1), task(1, 'k', 'done', attempt => 2));
reports('tokens decrease', '8 10', submit('k', 1, 0, 5), outbox('k'), claim('w', 10, 15, [ [ 1, 7, 1, 0, 'k' ] ]),
	claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);

# --- 9
my @third = (claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), claim('w', 3000, 3005, [ [ 1, 3, 3, 0, 'k' ] ]));
clean('three attempts of three', @begun, @third, task(1, 'k', 'dead', reason => 'lease_expired', attempt => 3));
reports('a fourth attempt', '9', @begun, @third, claim('v', 4500, 4505, [ [ 1, 4, 4, 0, 'k' ] ]),
	task(1, 'k', 'dead', reason => 'lease_expired', attempt => 4));
reports('a fourth attempt with a false number', '9', @begun, @third, claim('v', 4500, 4505, [ [ 1, 4, 3, 0, 'k' ] ]),
	task(1, 'k', 'dead', reason => 'lease_expired', attempt => 3));
reports('dead before its attempts are used up', '9', @begun, task(1, 'k', 'dead', reason => 'lease_expired', attempt => 1));
reports('an attempt number that does not increase', '9', @begun, claim('v', 1500, 1505, [ [ 1, 2, 1, 0, 'k' ] ]),
	complete('v', 1, 2, 1520, 1525, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 1));
clean('a released attempt does not count', @begun, answer('release', 'w', 1, 1, 20, 25, 'ok -', delay => 0),
	claim('v', 1500, 1505, [ [ 1, 2, 1, 0, 'k' ] ]), complete('v', 1, 2, 1520, 1525, 'ok -'), effect(1, 2), task(1, 'k', 'done'));
clean('an attempt that ended by deregistering does not count', @registered, call('w', 'deregister', 20, 25),
	claim('v', 40, 45, [ [ 1, 2, 1, 0, 'k' ] ]), complete('v', 1, 2, 50, 55, 'ok -'), effect(1, 2), task(1, 'k', 'done'));

# --- 10
reports('handed out again after its completion', '10', @begun, @ended, claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]));
clean('handed out again after an unknown completion', @begun, complete('w', 1, 1, 20, 25, undef),
	claim('v', 1500, 1505, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);

# --- 11
reports('claimed before its time', '11', submit('k', 1, 0, 5, delay => 1_000_000), outbox('k'),
	claim('w', 500, 505, [ [ 1, 1, 1, 0, 'k' ] ]), complete('w', 1, 1, 520, 525, 'ok -'), effect(1, 1), task(1, 'k', 'done'));
my @failed = (@begun, answer('fail', 'w', 1, 1, 20, 25, 'ok -', retryable => 1, retry_in => -1));
my @again = (complete('v', 1, 2, 520, 525, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 2));
reports('retried before its backoff', '11', @failed, claim('v', 80, 85, [ [ 1, 2, 2, 0, 'k' ] ]), @again);
clean('retried after its backoff', @failed, claim('v', 120, 125, [ [ 1, 2, 2, 0, 'k' ] ]), @again);
reports('retried before the wait that was given', '11', @begun, answer('fail', 'w', 1, 1, 20, 25, 'ok -', retryable => 1, retry_in => 300_000),
	claim('v', 220, 225, [ [ 1, 2, 2, 0, 'k' ] ]), @again);
reports('back too early after a release', '11', @begun, answer('release', 'w', 1, 1, 20, 25, 'ok -', delay => 300_000),
	claim('v', 220, 225, [ [ 1, 2, 1, 0, 'k' ] ]), complete('v', 1, 2, 520, 525, 'ok -'), effect(1, 2), task(1, 'k', 'done'));

# --- 12: m is better than k
my @both = (submit('k', 1, 0, 5), outbox('k', 'm'), map { (complete('w', $_, 1, 200, 205, 'ok -'), effect($_, 1)) } 1, 2);
my @both_done = (task(1, 'k', 'done'), task(2, 'm', 'done'));
my @wrong = (claim('w', 30, 35, [ [ 1, 1, 1, 0, 'k' ] ]), claim('w', 40, 45, [ [ 2, 1, 1, 5, 'm' ] ]));
reports('the worse task first', '12', @both, @both_done, submit('m', 2, 10, 15, prio => 5), @wrong);
clean('the better one came too late', @both, @both_done, submit('m', 2, 10, 32, prio => 5), @wrong);
clean('the better one was not due', @both, @both_done, submit('m', 2, 10, 15, prio => 5, delay => 20_000), @wrong);
clean('the better one needs a tag', @both, @both_done, submit('m', 2, 10, 15, prio => 5, tags => 'a'), @wrong);
clean('the better one was held for a moment', @both, @both_done, submit('m', 2, 10, 15, prio => 5), @wrong,
	claim('v', 29, 36, [], end => 'rollback', outcome => 'fail code=rollback void=2:1:1:3:5:m'));

# --- 13: the lease ends at 1015; l is less urgent
my @less = (submit('l', 2, 2000, 2005, prio => -1), outbox('l'), complete('u', 2, 1, 3110, 3115, 'ok -'), effect(2, 1), task(2, 'l', 'done'));
my @late = (complete('v', 1, 2, 9020, 9025, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 2));
reports('a reclaimed task comes back late', '13', @begun, @less, claim('u', 3100, 3105, [ [ 2, 1, 1, -1, 'l' ] ]),
	claim('v', 9000, 9005, [ [ 1, 2, 2, 0, 'k' ] ]), @late);
clean('a task comes back late, but the background worker was not running', @begun, submit('l', 2, 2000, 2005, prio => -1), outbox('l'), task(2, 'l', 'dead', reason => 'rejected'), claim('u', 9010, 9015, [ [ 2, 1, 1, -1, 'l' ] ]),
	claim('v', 9000, 9005, [ [ 1, 2, 2, 0, 'k' ] ]), @late);
reports('the background worker does not return', '13', op(900, 8200, 'stop_duties', 'fail -'));
clean('a task is late after a restart', @begun, @less, claim('u', 3100, 3105, [ [ 2, 1, 1, -1, 'l' ] ]),
	op(900, 8200, 'restart', 'ok -'), claim('v', 9000, 9005, [ [ 1, 2, 2, 0, 'k' ] ]), @late);

my @in_between = ("P s\n", op(100, 101, 'kill_worker of=w', 'ok -'), submit('l', 2, 500, 505, prio => -1), outbox('l'),
	claim('u', 1000, 1005, [ [ 2, 1, 1, -1, 'l' ] ]), complete('u', 2, 1, 1010, 1015, 'ok -'), effect(2, 1), task(2, 'l', 'done'));
reports('the task of a killed worker that is bound comes back late', '13 17', @bound, @in_between,
	claim('v', 1300, 1305, [ [ 1, 2, 2, 0, 'k' ] ]), @late);
clean('the task of a worker that is not bound has more time', "P w\n", @registered, @in_between,
	claim('v', 1300, 1305, [ [ 1, 2, 2, 0, 'k' ] ]), @late);

# a worker without heartbeats is dead at 1515, its task requeued at 1615, and
# half a second later it is late; after the restart, whose recovery ends at
# 1400, from 3000 on
sub silent
{
	my ($served, $back) = @_;
	return ("P w\n", @registered, submit('l', 2, 500, 505, prio => -1), outbox('l'),
		claim('u', $served, $served + 5, [ [ 2, 1, 1, -1, 'l' ] ]), complete('u', 2, 1, $served + 10, $served + 15, 'ok -'),
		effect(2, 1), task(2, 'l', 'done'), claim('v', $back, $back + 5, [ [ 1, 2, 2, 0, 'k' ] ]), @late);
}
clean('the task of a silent worker', silent(2000, 2090));
reports('the task of a silent worker comes back late', '13', silent(2200, 2300));
clean('its time starts again after a restart', silent(2700, 2900), op(200, 400, 'restart', 'ok -'));
reports('the task of a silent worker comes back late after a restart', '13', silent(3100, 3200), op(200, 400, 'restart', 'ok -'));

# --- 14
reports('a bug in the log', '14', "L 2026-01-01 00:00:00.000 UTC [77] XX000 client backend ERROR:  what\n");
my $unsaid = "L 2026-01-01 [77] XX000 client backend LOG:  could not send data to client: Bad file descriptor\n";
clean('an error that a backend may log when it ends', "L 2026-01-01 [77] 57P01 client backend FATAL:  terminating connection\n", $unsaid);
reports('another backend may not log it', '14', "L 2026-01-01 [78] 57P01 client backend FATAL:  terminating connection\n", $unsaid);
reports('a crash of its own', '14', "L 2026-01-01 [77] LOG:  server process (PID 9) was terminated by signal 11: Segmentation fault\n");
reports('a kill that the test did not order', '14', "L 2026-01-01 [77] LOG:  server process (PID 9) was terminated by signal 9: Killed\n");
clean('a kill by the test', op(5, 10, 'kill_backend', 'ok -'),
	"L 2026-01-01 [77] LOG:  server process (PID 9) was terminated by signal 9: Killed\n");
reports('a bug in an answer', '14', call('w', 'heartbeat', 5, 10, 'fail code=XX001 -'));
reports('an index that is corrupt', '14', "A pg_amcheck: heap tuple lacks a matching index tuple\n");

# --- 15
my @three = (map({ (submit("k$_", $_, 0, 5, q => 'two'), outbox("k$_"), complete('w', $_, 1, 100 + $_, 105 + $_, 'ok -'),
			effect($_, 1), task($_, "k$_", 'done', q => 'two')) } 1 .. 3));
reports('three running of two', '15', @three, map { claim("w$_", 10 * $_, 10 * $_ + 5, [ [ $_, 1, 1, 0, "k$_" ] ], q => 'two') } 1 .. 3);
clean('the third after the first', @three, (map { claim("w$_", 10 * $_, 10 * $_ + 5, [ [ $_, 1, 1, 0, "k$_" ] ], q => 'two') } 1, 2),
	claim('w3', 103, 110, [ [ 3, 1, 1, 0, 'k3' ] ], q => 'two'));
# the lease of the first claim ends at 30
my @lease_over = (claim('w1', 10, 15, [ [ 1, 1, 1, 0, 'k1' ] ], q => 'two', lease => 20),
	(map { claim("w$_", 60 + $_, 65 + $_, [ [ $_, 1, 1, 0, "k$_" ] ], q => 'two') } 2, 3));
reports('the third, and the first answers later', '15', @three, @lease_over);
clean('the third, and the first ends its task by a change, which needs no claim', @lease_over,
	map { s/^(B \S+ \S+ complete )(.* id=1 )/$1by=change $2/mr } @three);
my @four = (map({ (submit("k$_", $_, 0, 5, q => 'rated'), outbox("k$_"), complete('w', $_, 1, 2000 + $_, 2005 + $_, 'ok -'),
			effect($_, 1), task($_, "k$_", 'done', q => 'rated')) } 1 .. 6));
reports('more claims than the rate allows', '15', @four,
	map { claim("w$_", 10 * $_, 10 * $_ + 5, [ [ $_, 1, 1, 0, "k$_" ] ], q => 'rated') } 1 .. 6);
clean('as many as the rate allows', @four,
	map { claim("w$_", 250 * $_, 250 * $_ + 5, [ [ $_, 1, 1, 0, "k$_" ] ], q => 'rated') } 1 .. 6);
reports('more tasks than a worker may hold', '15', op(1, 2, 'register w=w limit=1', 'ok -'),
	map { (submit("k$_", $_, 0, 5), outbox("k$_"), claim('w', 10 * $_, 10 * $_ + 5, [ [ $_, 1, 1, 0, "k$_" ] ], held => 'worker'),
		complete('w', $_, 1, 100 + $_, 105 + $_, 'ok -'), effect($_, 1), task($_, "k$_", 'done')) } 1, 2);

# --- 16: v sleeps until 4000; k can be claimed from 110 on
my $nothing = 'ok tasks=- void=-';
my @sleeps = (wait => 10_000_000);
my @k = (submit('k', 1, 100, 105), outbox('k'));
my @k_of_v = (complete('v', 1, 1, 4020, 4025, 'ok -'), effect(1, 1), task(1, 'k', 'done'));
my @k_of_u = (claim('u', 3500, 3505, [ [ 1, 1, 1, 0, 'k' ] ]), complete('u', 1, 1, 4020, 4025, 'ok -'), effect(1, 1), task(1, 'k', 'done'));
reports('a waiter that sleeps too long', '16', @k, claim('v', 50, 4000, [ [ 1, 1, 1, 0, 'k' ] ], @sleeps), @k_of_v);
clean('a waiter that is woken', @k, claim('v', 50, 2000, [ [ 1, 1, 1, 0, 'k' ] ], @sleeps), @k_of_v);
reports('a waiter that sleeps too long, and another one gets the task', '16', @k, @k_of_u, claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
reports('a waiter on several queues', '16', @k, @k_of_u, claim('v', 50, 4000, [], @sleeps, q => '*', of => 'none,q', outcome => $nothing));
reports('a session that sleeps in taskq_wait', '16', @k, @k_of_u, op(50, 4000, 'wait q=q w=v wait=10000000 tags=-', 'ok ready=0'));
clean('a session that sleeps on another queue', @k, @k_of_u, claim('v', 50, 4000, [], @sleeps, q => 'none', outcome => $nothing));
clean('a session that may not claim the task', submit('k', 1, 100, 105, tags => 'a'), outbox('k'), @k_of_u,
	claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
clean('it was not due', submit('k', 1, 100, 105, delay => 1_500_000), outbox('k'), @k_of_u,
	claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
clean('a limit may delay it', submit('k', 1, 100, 105, q => 'two'), outbox('k'), @k_of_u,
	claim('v', 50, 4000, [], @sleeps, q => 'two', outcome => $nothing));
clean('the server was not running', @k, @k_of_u, op(1500, 1600, 'kill_backend', 'ok -'), claim('v', 50, 4000, [], @sleeps, outcome => $nothing),
	"L 2026-01-01 [77] LOG:  server process (PID 9) was terminated by signal 9: Killed\n");
sub frozen { my ($w, $from, $till) = @_; return op($from, $till, "freeze_worker w=$w", 'ok -'); }
clean('a waiter that is frozen', @k, frozen('v', 1500, 3900), claim('v', 50, 4000, [ [ 1, 1, 1, 0, 'k' ] ], @sleeps), @k_of_v);
reports('a waiter that sleeps too long and is frozen then', '16', @k, frozen('v', 2500, 3900),
	claim('v', 50, 4000, [ [ 1, 1, 1, 0, 'k' ] ], @sleeps), @k_of_v);
reports('a waiter that was frozen and sleeps too long', '16', @k, frozen('v', 200, 1500),
	claim('v', 50, 4000, [ [ 1, 1, 1, 0, 'k' ] ], @sleeps), @k_of_v);
my @k_of_sleeper = (claim('u', 60, 3905, [ [ 1, 1, 1, 0, 'k' ] ], @sleeps), complete('u', 1, 1, 4020, 4025, 'ok -'), effect(1, 1), task(1, 'k', 'done'));
clean('the waiter that gets the task is frozen', @k, @k_of_sleeper, frozen('u', 1500, 3900), claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
reports('a third waiter is frozen', '16', @k, @k_of_sleeper, frozen('x', 1500, 3900), claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
clean('another worker may have held it', @k, @k_of_u, claim('x', 1500, 1505, [], outcome => 'fail code=lost void=-'),
	claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
my $undone = 'fail code=rollback void=1:1:1:3:0:k';
clean('another worker had it, and rolled back', @k, @k_of_u, claim('x', 1500, 1505, [], end => 'rollback', outcome => $undone),
	claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
reports('a waiter that sleeps too long after a rollback', '16', @k, @k_of_u,
	claim('x', 500, 505, [], end => 'rollback', outcome => $undone), claim('v', 50, 4000, [], @sleeps, outcome => $nothing));
my @retried = (@begun, answer('fail', 'w', 1, 1, 20, 25, 'ok -', retryable => 1, retry_in => 300_000));
reports('a waiter that sleeps too long when a retry is due', '16', @retried, claim('v', 50, 4000, [ [ 1, 2, 2, 0, 'k' ] ], @sleeps),
	complete('v', 1, 2, 4020, 4025, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 2));
clean('a waiter that is woken when a retry is due', @retried, claim('v', 50, 2200, [ [ 1, 2, 2, 0, 'k' ] ], @sleeps),
	complete('v', 1, 2, 4020, 4025, 'ok -'), effect(1, 2), task(1, 'k', 'done', attempt => 2));
reports('a session that waits for an end sleeps too long', '16', @begun, @ended, op(12, 3000, 'await q=q id=1', 'ok state=done'));
my $call = 'call q=q keys=k void=- end=auto prio=0 delay=0 deadline=0 max=0 tags=- ref=- conflict=error box=0';
my @called = (claim('w', 10, 15, [ [ 1, 1, 1, 0, 'k' ] ]), @ended);
clean('a call and its end', op(0, 40, $call, 'ok ids=1 state=done'), @called);
clean('a call of which nothing is known', op(0, 40, $call, 'unknown -'), @called);
reports('a call that sleeps too long', '16', op(0, 3000, $call, 'ok ids=1 state=done'), @called);
reports('a call whose task is not there', '1', op(0, 40, $call, 'ok ids=1 state=pending'));

# --- 17: the connection of w ended at 101, its task is requeued at 1300
my @killed = ("P s\n", op(100, 101, 'kill_worker of=w', 'ok -'));
my @comes_back = (claim('v', 1300, 1305, [ [ 1, 2, 2, 0, 'k' ] ]), @other_ends);
reports('a claim finds nothing while it is away', '17', @bound, @killed, claim('u', 1000, 1005, [], outcome => $nothing), @comes_back);
my @younger = (submit('m', 2, 600, 605), outbox('m'), complete('u', 2, 1, 1010, 1015, 'ok -'), effect(2, 1), task(2, 'm', 'done'));
my $younger = [ 2, 1, 1, 0, 'm' ];
reports('a claim finds a younger one while it is away', '17', @bound, @killed, @younger,
	claim('u', 1000, 1005, [$younger], order => 'queue'), @comes_back);
clean('a claim that asks for the younger ones', @bound, @killed, @younger,
	claim('u', 1000, 1005, [$younger], order => 'lifo'), @comes_back);
clean('no worker claims in the meantime', @bound, @killed, @comes_back);
clean('a claim right after that finds nothing', @bound, @killed, claim('u', 150, 155, [], outcome => $nothing), @comes_back);
clean('a claim from another queue finds nothing', @bound, @killed, claim('u', 1000, 1005, [], q => 'none', outcome => $nothing), @comes_back);
clean('the server was not running then', @bound, @killed, claim('u', 1000, 1005, [], outcome => $nothing), @comes_back,
	op(200, 400, 'restart', 'ok -'));
clean('the worker was not bound', "P w\n", @registered, @killed, claim('u', 1000, 1005, [], outcome => $nothing), @comes_back);

# --- 18 and 19
reports('the audit has mended', '18', "R at=1 audited=5 repaired=1\n");
reports('the audit says so', '18', "L 2026-01-01 [77] XX000 taskq worker LOG:  taskq: claims skipped claimable task 5\n");
clean('the audit has looked', "R at=1 audited=5 repaired=0\n");
reports('taskq_check reports something', '19', "K live tasks are not those of memory queue q\n");
is(Chaos::Report::audited({ audits => [ map { { at => $_->[0], audited => $_->[1] } } [ 9, 4 ], [ 1, 5 ], [ 2, 9 ], [ 8, 2 ] ] }), 13, 'what the audit has read, over two starts');

# --- 20: a and b have one key; a was submitted first, and comes first
sub in_line { my ($key, $id, $t0, $t1, %more) = @_; return (submit($key, $id, $t0, $t1, q => 'line', line => 'k1', %more), outbox($key)); }
sub from_line { my ($w, $id, $key, $t0, $t1) = @_; return claim($w, $t0, $t1, [ [ $id, 1, 1, 0, $key ] ], q => 'line'); }
sub done_line
{
	my ($w, $id, $key, $t0, $t1) = @_;
	return (answer('complete', $w, $id, 1, $t0, $t1, 'ok -', effect => 1, end => 'commit', q => 'line'), effect($id, 1), task($id, $key, 'done', q => 'line'));
}
my @line = (in_line('a', 1, 0, 5), in_line('b', 2, 10, 15));
clean('one task after the other', @line, from_line('w', 1, 'a', 20, 25), done_line('w', 1, 'a', 30, 35), from_line('v', 2, 'b', 36, 40), done_line('v', 2, 'b', 50, 55));
clean('the end may have come first', @line, from_line('w', 1, 'a', 20, 25), done_line('w', 1, 'a', 30, 40), from_line('v', 2, 'b', 32, 42), done_line('v', 2, 'b', 50, 55));
reports('both run', '20', @line, from_line('w', 1, 'a', 20, 25), from_line('v', 2, 'b', 30, 35), done_line('w', 1, 'a', 40, 45), done_line('v', 2, 'b', 50, 55));
reports('the later task is overtaken', '20', @line, from_line('v', 2, 'b', 20, 25), done_line('v', 2, 'b', 30, 35), from_line('w', 1, 'a', 40, 45), done_line('w', 1, 'a', 50, 55));
clean('the later task may not have been there yet', in_line('a', 1, 0, 22), in_line('b', 2, 10, 15), from_line('v', 2, 'b', 20, 25), done_line('v', 2, 'b', 30, 35),
	from_line('w', 1, 'a', 40, 45), done_line('w', 1, 'a', 50, 55));
clean('another key', in_line('a', 1, 0, 5), in_line('b', 2, 10, 15, line => 'k2'), from_line('v', 2, 'b', 20, 25), done_line('v', 2, 'b', 30, 35),
	from_line('w', 1, 'a', 40, 45), done_line('w', 1, 'a', 50, 55));

# --- 21: group 1 has the parts g and h
sub part { my ($key, $id, $t0, $t1) = @_; return submit($key, $id, $t0, $t1, q => 'group', line => "1/$key", box => 0); }
sub junction { my ($t0, $t1, $outcome) = @_; return op($t0, $t1, 'junction q=group g=1', $outcome); }
my @parts = (part('g', 1, 0, 5), part('h', 2, 10, 15));
my @worked = map { (claim('w', 50, 55, [ [ $_->[0], 1, 1, 0, $_->[1] ] ], q => 'group'),
	answer('complete', 'w', $_->[0], 1, 60, 65, 'ok -', effect => 1, end => 'commit', q => 'group'), effect($_->[0], 1), task($_->[0], $_->[1], 'done', q => 'group')) }
  [ 1, 'g' ], [ 2, 'h' ];
clean('released by the later one', @parts, junction(6, 8, 'ok released=-'), junction(20, 25, 'ok released=1,2'), @worked);
clean('it is unknown which session released it', @parts, junction(6, 8, 'ok released=-'), junction(20, 25, 'unknown -'), junction(30, 35, 'ok released=-'), @worked);
reports('released twice', '21', @parts, junction(20, 25, 'ok released=1,2'), junction(30, 35, 'ok released=1,2'), @worked);
reports('half of the group is released', '21', @parts, junction(20, 25, 'ok released=1'), @worked);
reports('the group is released before all of it was there', '21', @parts, junction(6, 8, 'ok released=1,2'), @worked);
reports('the group is never released, and is stuck', '4 21', @parts, junction(6, 8, 'ok released=-'), junction(20, 25, 'ok released=-'),
	task(1, 'g', 'suspended', q => 'group'), task(2, 'h', 'suspended', q => 'group'));
reports('a task of the group is handed out before the release', '21', @parts, junction(56, 58, 'ok released=1,2'), @worked);

# --- 22: workflow 17, called f, has the steps a (18) and b (19)
my $in = '{"key":"f"}';
my @started = (start('f', 17, 0, 5), outbox('f'));
my @a = done(17, 'a', 18, 10, $in, '{}', '{"n":1}');
my @b = done(17, 'b', 19, 30, $in, '{"a":{"n":1}}', '{"n":2}');
my @f = flow(17, 'f', 'done', result => '{"n":2}');
clean('a workflow of two steps', @started, @a, @b, @f);
reports('an acknowledged instance that is not there', '3 22', @started);
reports('an instance that is not there, and its steps are', '3 22', @started, @a, @b);
reports('another instance than was acknowledged', '22', start('f', 16, 0, 5), outbox('f'), @a, @b, @f);
reports('an instance that is there twice', '22', @started, @a, @b, @f, flow(27, 'f', 'done', result => '{"n":2}'),
	done(27, 'a', 28, 10, $in, '{}', '{"n":1}'), done(27, 'b', 29, 30, $in, '{"a":{"n":1}}', '{"n":2}'));
reports('a start that was rolled back', '22', start('f', 17, 0, 5, end => 'rollback', outcome => 'none'), outbox('f'), @a, @b, @f);
reports('a start that was undone', '22', start('g', 7, 0, 5, void => 'f'), outbox('g', 'f'), @a, @b, @f, flow(7, 'g', 'done', result => '{"n":2}'),
	done(7, 'a', 8, 10, '{"key":"g"}', '{}', '{"n":1}'), done(7, 'b', 9, 30, '{"key":"g"}', '{"a":{"n":1}}', '{"n":2}'));
reports('an instance that was never started', '3 22', @a, @b, @f, outbox('f'));
clean('an unknown start that did not happen', start('f', 17, 0, 5, outcome => 'none'));
clean('an unknown start that happened', start('f', 17, 0, 5, outcome => 'none'), outbox('f'), @a, @b, @f);
reports('an instance without its row in the outbox', '3', start('f', 17, 0, 5), @a, @b, @f);
my @keyed = (start('f', 17, 0, 5, key => 'k'), outbox('f'), @a, @b, flow(17, 'f', 'done', key => 'k', result => '{"n":2}'));
my %again = (key => 'k', conflict => 'return');
clean('the key was taken', @keyed, start('g', 17, 10, 15, %again));
reports('the answer is an instance with another key', '22', @keyed, start('g', 17, 10, 15, %again, key => 'l'));
my @g = (outbox('g'), flow(27, 'g', 'done', key => 'k', result => '{"n":2}'), done(27, 'a', 28, 50, '{"key":"g"}', '{}', '{"n":1}'), done(27, 'b', 29, 70, '{"key":"g"}', '{"a":{"n":1}}', '{"n":2}'));
reports('two with one key', '22', @keyed, start('g', 27, 10, 15, %again), @g);
clean('the one with that key had ended', @keyed, start('g', 27, 40, 45, %again), @g);
reports('a step of no instance', '22', claim('w', 10, 15, [ [ 8, 1, 1, 0, 'w7/a' ] ]));

# --- 23
reports('an instance that still runs', '23', @started, @a, @b, flow(17, 'f', 'running'));
reports('an instance that was forgotten', '23', @started, @a, step(17, 'b', 19, 'blocked', attempt => 0), flow(17, 'f', 'waiting_for_dependencies'));
reports('a step that was never released', '23', @started, @a, step(17, 'b', 19, 'blocked', attempt => 0), flow(17, 'f', 'error'));
my @a_dies = (claim('w', 10, 14, [ [ 18, 1, 1, 0, 'w17/a' ] ]), answer('fail', 'w', 18, 1, 20, 25, 'ok -', retryable => 0, retry_in => -1));
my @a_dead = (@a_dies, step(17, 'a', 18, 'dead', reason => 'rejected'));
clean('the steps that a failed step holds up', @started, @a_dead, step(17, 'b', 19, 'blocked', attempt => 0), flow(17, 'f', 'error'));
reports('everything is well, though a step is dead', '23', @started, @a_dead, step(17, 'b', 19, 'blocked', attempt => 0), flow(17, 'f', 'done'));
reports('an error without a failure', '23', @started, @a, @b, flow(17, 'f', 'error'));
my @waits = (step(17, 'a', 18, 'cancelled', attempt => 0), step(17, 'b', 19, 'cancelled', attempt => 0));
clean('a cancel', @started, @waits, by_hand('cancel', 'flow=17', 6, 9), flow(17, 'f', 'cancelled'));
reports('a cancelled instance that was never cancelled', '23', @started, @waits, flow(17, 'f', 'cancelled'));
reports('a cancel that is lost', '23', @started, @waits, by_hand('cancel', 'flow=17', 6, 9), flow(17, 'f', 'error'));
reports('a cancel that leaves a step', '23', @started, step(17, 'a', 18, 'cancelled', attempt => 0), step(17, 'b', 19, 'blocked', attempt => 0),
	by_hand('cancel', 'flow=17', 6, 9), flow(17, 'f', 'cancelled'));
my @resolved = (@started, @a_dies, step(17, 'a', 18, 'done', reason => 'manual', result => '{"n":5}'), by_hand('resolve', 'id=18 flow=17 result={"n":5}', 26, 29),
	done(17, 'b', 19, 30, $in, '{"a":{"n":5}}', '{"n":2}'));
clean('resolved by hand', @resolved, flow(17, 'f', 'resolved', result => '{"n":2}'));
reports('resolved by hand, and not reported', '23', @resolved, flow(17, 'f', 'done', result => '{"n":2}'));
my @a_retried = (by_hand('retry', 'id=18 flow=17', 26, 29), claim('v', 26, 29, [ [ 18, 2, 1, 0, 'w17/a' ] ]),
	answer('complete', 'v', 18, 2, 30, 34, 'ok -', effect => 1, end => 'commit', result => '{"n":1}'), effect(18, 2), step(17, 'a', 18, 'done', result => '{"n":1}'));
clean('retried by hand', @started, @a_dies, @a_retried, done(17, 'b', 19, 40, $in, '{"a":{"n":1}}', '{"n":2}'), @f);

# --- 24
reports('a step that is missing', '24', @started, @a, flow(17, 'f', 'done', result => 'null'));
reports('a step twice', '24', @started, @a, @b, done(17, 'b', 20, 30, $in, '{"a":{"n":1}}', '{"n":2}'), @f);
reports('a step of another template', '24', @started, @a, @b, step(17, 'c', 20, 'cancelled'), flow(17, 'f', 'error'));
reports('a step is done twice', '5 6', @started, @a, @b, @f, answer('complete', 'w', 18, 1, 20, 25, 'ok -', effect => 1, end => 'commit', result => '{"n":1}'), effect(18, 1));
my @if = (start('f', 17, 0, 5, name => 'if'), outbox('f'), @a, flow(17, 'f', 'done', name => 'if', n => 70, result => '{"n":3}'));
clean('a step that is filtered', @if, step(17, 'b', 19, 'filtered', attempt => 0), done(17, 'c', 20, 30, $in, '{"b":null}', '{"n":3}'));
reports('a step that should have been filtered', '24', @if, @b, done(17, 'c', 20, 50, $in, '{"b":{"n":2}}', '{"n":3}'));
my @choice = (start('f', 17, 0, 5, name => 'choice'), outbox('f'), done(17, 'choose', 18, 10, $in, '{}', '{"create":["x"]}'));
my @choice_ends = flow(17, 'f', 'done', name => 'choice', result => '{"n":4}');
my @x = done(17, 'x', 19, 30, $in, '{"choose":{"create":["x"]}}', '{"n":3}');
my @join = done(17, 'join', 20, 50, $in, '{"x":{"n":3}}', '{"n":4}');
my $no_y = "V flow=17 step=y\n";
clean('a choice', @choice, @x, @join, $no_y, @choice_ends);
reports('what was not chosen', '24', @choice, @x, done(17, 'y', 21, 30, $in, '{"choose":{"create":["x"]}}', '{"n":3}'),
	done(17, 'join', 20, 50, $in, '{"x":{"n":3},"y":{"n":3}}', '{"n":4}'), @choice_ends);
reports('what was chosen is not there', '24', @choice, @x, $no_y, flow(17, 'f', 'done', name => 'choice', result => 'null'));
reports('a step that was skipped is not reported as skipped', '24', @choice, @x, @join, @choice_ends);
my @fork = (start('f', 17, 0, 5, name => 'fork'), outbox('f'), step(17, 'fork', 18, 'done', attempt => 0, result => '{"create":["y"]}'));
clean('the engine decides', @fork, done(17, 'y', 19, 30, $in, '{"fork":{"create":["y"]}}', '{"n":3}'), "V flow=17 step=x\n", flow(17, 'f', 'done', name => 'fork', n => 60, result => '{"n":3}'));
reports('the engine decides wrongly', '24', @fork, done(17, 'x', 19, 30, $in, '{"fork":{"create":["y"]}}', '{"n":3}'), "V flow=17 step=y\n", flow(17, 'f', 'done', name => 'fork', n => 60, result => '{"n":3}'));
my $split = '{"max_workers":9,"size":2,"total":3}';
my @batch = (start('f', 17, 0, 5, name => 'batch'), outbox('f'), done(17, 'split', 18, 10, $in, '{}', $split));
my @part1 = done(17, 'part_001', 21, 30, '{"end":2,"index":1,"start":0}', "{\"split\":$split}", '{"n":1}');
my @part2 = done(17, 'part_002', 22, 30, '{"end":3,"index":2,"start":2}', "{\"split\":$split}", '{"n":2}');
my @total = done(17, 'total', 23, 50, $in, '{"part":[{"n":1},{"n":2}]}', '{"n":9}');
my @batch_ends = flow(17, 'f', 'done', name => 'batch', result => '{"n":9}');
clean('a batch', @batch, @part1, @part2, @total, @batch_ends);
reports('a batch with one member too many', '24 26', @batch, @part1, @part2, @total, @batch_ends, done(17, 'part_003', 24, 30, '{"end":3,"index":3,"start":3}', "{\"split\":$split}", '{"n":2}'));
reports('a batch with one member too few', '24', @batch, @part1, done(17, 'total', 23, 50, $in, '{"part":[{"n":1}]}', '{"n":9}'), @batch_ends);

clean('a batch that is cancelled while it says how many', @batch, by_hand('cancel', 'flow=17', 12, 15), "V flow=17 step=part\n", flow(17, 'f', 'cancelled', name => 'batch'));

# --- 25: b was claimed at 30
reports('a step before its parent', '25', @started, done(17, 'a', 18, 35, $in, '{}', '{"n":1}'), @b, @f);
clean('its parent may have ended', @started, @b, @f, claim('w', 10, 14, [ [ 18, 1, 1, 0, 'w17/a' ] ]),
	answer('complete', 'w', 18, 1, 33, 60, 'ok -', effect => 1, end => 'commit', result => '{"n":1}'), effect(18, 1), step(17, 'a', 18, 'done', result => '{"n":1}'));
reports('a step whose parent has failed', '25', @started, @a_dead, done(17, 'b', 19, 30, $in, '{"a":null}', '{"n":2}'), flow(17, 'f', 'error'));
clean('after an unknown completion', @started, claim('w', 10, 14, [ [ 18, 1, 1, 0, 'w17/a' ] ]),
	answer('complete', 'w', 18, 1, 16, 19, undef, effect => 1, end => 'commit', result => '{"n":1}'), effect(18, 1), step(17, 'a', 18, 'done', result => '{"n":1}'), @b, @f);
reports('the last step before the first one, beyond one that is filtered', '25', start('f', 17, 0, 5, name => 'if'), outbox('f'), done(17, 'a', 18, 35, $in, '{}', '{"n":1}'),
	step(17, 'b', 19, 'filtered', attempt => 0), done(17, 'c', 20, 20, $in, '{"b":null}', '{"n":3}'), flow(17, 'f', 'done', name => 'if', n => 70, result => '{"n":3}'));
reports('a step before the time of its instance', '25', start('f', 17, 0, 5, delay => 100_000), outbox('f'), @a, @b, @f);
reports('a step after the cancel', '25', @started, @a, by_hand('cancel', 'flow=17', 20, 25), claim('w', 30, 34, [ [ 19, 1, 1, 0, 'w17/b' ] ]), step(17, 'b', 19, 'cancelled'), flow(17, 'f', 'cancelled'));
clean('a step that was handed out before the cancel', @started, @a, by_hand('cancel', 'flow=17', 32, 35), @b, flow(17, 'f', 'cancelled'));
sub pause { my ($time) = @_; return (start('f', 17, 0, 5, name => 'pause'), outbox('f'), @a, step(17, 'timer', 20, 'done', attempt => 0),
		done(17, 'b', 19, $time, $in, '{"timer":null}', '{"n":2}'), flow(17, 'f', 'done', name => 'pause', result => '{"n":2}')); }
reports('a timer that is too early', '25', pause(500));
clean('a timer', pause(520));
my @inner = (start('f', 17, 0, 5, name => 'outer'), outbox('f'), step(17, 'in', 16, 'done', attempt => 0, result => '{"n":2}'),
	flow(27, 'i', 'done', parent => 17, via => 16, result => '{"n":2}'), done(27, 'a', 28, 10, '{"key":"i"}', '{}', '{"n":1}'), done(27, 'b', 29, 30, '{"key":"i"}', '{"a":{"n":1}}', '{"n":2}'));
sub outer { my ($time) = @_; return (@inner, done(17, 'b', 19, $time, $in, '{"in":{"n":2}}', '{"n":3}'), flow(17, 'f', 'done', name => 'outer', result => '{"n":3}')); }
clean('an instance inside of another one', outer(40));
reports('the outer one does not wait for the inner one', '25', outer(20));
# f and g have one key: a (28) of the instance inside of f fails and f with it, before g is started; it is retried when g has ended
my @with_key = (name => 'outer', key => 'k');
my @has_key = (start('f', 17, 0, 5, @with_key), outbox('f'), step(17, 'in', 16, 'done', attempt => 0, result => '{"n":2}'),
	flow(27, 'i', 'done', parent => 17, via => 16, result => '{"n":2}'), done(27, 'b', 29, 100, '{"key":"i"}', '{"a":{"n":1}}', '{"n":2}'),
	done(17, 'b', 19, 120, $in, '{"in":{"n":2}}', '{"n":3}'), flow(17, 'f', 'done', @with_key, result => '{"n":3}'));
my @gets_key = (start('g', 37, 30, 35, @with_key), outbox('g'), step(37, 'in', 36, 'done', attempt => 0, result => '{"n":2}'),
	flow(47, 'j', 'done', parent => 37, via => 36, result => '{"n":2}'), done(47, 'a', 48, 40, '{"key":"j"}', '{}', '{"n":1}'),
	done(47, 'b', 49, 52, '{"key":"j"}', '{"a":{"n":1}}', '{"n":2}'), done(37, 'b', 39, 64, '{"key":"g"}', '{"in":{"n":2}}', '{"n":3}'),
	flow(37, 'g', 'done', @with_key, result => '{"n":3}'));
my @inner_retried = (claim('w', 10, 14, [ [ 28, 1, 1, 0, 'w27/a' ] ]), answer('fail', 'w', 28, 1, 20, 25, 'ok -', retryable => 0, retry_in => -1),
	by_hand('retry', 'id=28 flow=27', 80, 84), claim('v', 86, 90, [ [ 28, 2, 1, 0, 'w27/a' ] ]),
	answer('complete', 'v', 28, 2, 92, 95, 'ok -', effect => 1, end => 'commit', result => '{"n":1}'), effect(28, 2), step(27, 'a', 28, 'done', result => '{"n":1}'));
clean('a retry inside it brings it back when the other one had ended', @has_key, @inner_retried, @gets_key);
reports('two with one key, and instances inside', '22', @has_key, done(27, 'a', 28, 10, '{"key":"i"}', '{}', '{"n":1}'), @gets_key);
reports('the outer instance does not get the end', '23', (map { s/^T id=16 .*\n//r } @inner), step(17, 'in', 16, 'dead', reason => 'dependency_failed'),
	step(17, 'b', 19, 'blocked', attempt => 0), flow(17, 'f', 'error', name => 'outer'));

# --- 26
reports('a result that no worker gave', '26', @started, @b, @f, does(17, 'a', 18, 10, $in, '{}', '{"n":7}'), step(17, 'a', 18, 'done', result => '{"n":1}'));
reports('results of another step', '26', @started, @a, done(17, 'b', 19, 30, $in, '{"a":{"n":7}}', '{"n":2}'), @f);
reports('a result is missing', '26', @started, @a, done(17, 'b', 19, 30, $in, '{}', '{"n":2}'), @f);
reports('no results at all', '26', @started, @a, done(17, 'b', 19, 30, $in, 'null', '{"n":2}'), @f);
reports('the payload of another instance', '26', @started, @a, done(17, 'b', 19, 30, '{"key":"g"}', '{"a":{"n":1}}', '{"n":2}'), @f);
reports('an instance with the result of the first step', '26', @started, @a, @b, flow(17, 'f', 'done', result => '{"n":1}'));
reports('the parts in another order', '26', @batch, @part1, @part2, done(17, 'total', 23, 50, $in, '{"part":[{"n":2},{"n":1}]}', '{"n":9}'), @batch_ends);
reports('parts that overlap', '26', @batch, @part1, done(17, 'part_002', 22, 30, '{"end":3,"index":2,"start":0}', "{\"split\":$split}", '{"n":2}'), @total, @batch_ends);
my @on = (start('f', 17, 0, 5, name => 'batch_on'), outbox('f'), done(17, 'split', 18, 10, $in, '{}', $split), @part1, flow(17, 'f', 'done', name => 'batch_on', result => '{"n":9}'),
	claim('w', 30, 34, [ [ 22, 1, 1, 0, 'w17/part_002' ] ]), answer('fail', 'w', 22, 1, 36, 39, 'ok -', retryable => 0, retry_in => -1), step(17, 'part_002', 22, 'dead', reason => 'rejected'));
clean('a batch continues without a part', @on, done(17, 'total', 23, 50, $in, '{"part":[{"n":1},{"error":"noluck"}]}', '{"n":9}'));
reports('a part is done, though it failed', '26', @on, done(17, 'total', 23, 50, $in, '{"part":[{"n":1},{"n":2}]}', '{"n":9}'));

# a step, and a task of its key
my @keyed_step = (start('f', 17, 0, 5, name => 'keyed'), outbox('f'), flow(17, 'f', 'done', name => 'keyed', result => '{"n":1}'), in_line('a', 1, 0, 5), from_line('w', 1, 'a', 20, 25), done_line('w', 1, 'a', 40, 45));
sub keyed_step { my ($time) = @_; return (claim('v', $time, $time + 4, [ [ 18, 1, 1, 0, 'w17/a' ] ], q => 'line'),
		answer('complete', 'v', 18, 1, 55, 60, 'ok -', effect => 1, end => 'commit', q => 'line', result => '{"n":1}'), effect(18, 1), step(17, 'a', 18, 'done', q => 'line', result => '{"n":1}')); }
reports('a step runs next to a task of its key', '20', @keyed_step, keyed_step(30));
clean('a step after a task of its key', @keyed_step, keyed_step(46));

# --- 27
my @ask = (start('f', 17, 0, 5, name => 'ask'), outbox('f'), flow(17, 'f', 'done', name => 'ask', result => '{"n":2}'), step(17, 'signal', 18, 'done', attempt => 0, result => '{"n":7}'),
	done(17, 'b', 19, 50, $in, '{"signal":{"n":7}}', '{"n":2}'));
sub go { my ($n, $t0, $t1, $said) = @_; return by_hand('signal', "flow=17 v=$n", $t0, $t1, $said); }
clean('a signal, and another one', @ask, go(7, 10, 15, 'ok said=t'), go(8, 16, 20, 'ok said=f'));
clean('an unknown signal was the first', @ask, go(7, 10, 15, 'unknown said=-'), go(8, 16, 20, 'ok said=f'));
reports('two first signals', '27', @ask, go(7, 10, 15, 'ok said=t'), go(8, 16, 20, 'ok said=t'));
reports('the second signal counts', '27', @ask, go(8, 10, 15, 'ok said=t'), go(7, 16, 20, 'ok said=f'));
reports('no signal counts', '27', @ask, go(7, 10, 15, 'ok said=f'));
clean('a signal that does not come in time', start('f', 17, 0, 5, name => 'ask'), outbox('f'), step(17, 'signal', 18, 'dead', attempt => 0, reason => 'timeout'),
	step(17, 'b', 19, 'blocked', attempt => 0), flow(17, 'f', 'error', name => 'ask'));
reports('a step continues without a signal', '25', @ask, go(7, 60, 65, 'ok said=t'));

# --- the same seed gives the same plan, another seed another plan
sub plan_text { return join ' ', map { join ':', @$_ } Chaos::Run::plan(@_); }
is(plan_text(7, 40), plan_text(7, 40), 'the same seed gives the same plan');
isnt(plan_text(7, 40), plan_text(8, 40), 'another seed gives another plan');
is(join(' ', Chaos::Report::void({ acknowledged => 5, unknown => 50 }, acknowledged => 6, unknown => 50)),
	'only 5 acknowledged, at least 6 are needed', 'a run that is too small is void');
done_testing();

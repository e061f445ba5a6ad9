# The test runs 200 instances of each workflow of examples/workflows at the
# same time, with four workers that are sometimes disconnected while they hold
# tasks. Every instance ends in the expected state, with the right result, and
# the writes of its handlers occur exactly once. The approvers of approval.json
# answer during the run, some before they are asked. Then order.json runs
# again, with workers in Python, of which some are killed.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $EACH = $ENV{LONG} ? 1000 : 200;
my $WORKERS = 4;
my $LOST = 5;    # tasks that workers lose
my $BOUND = 120;

my $dir = "$FindBin::Bin/../../examples/workflows";
my $node = start_node('workflows', 'fsync' => 'off', 'taskq.reaper_interval' => "'200ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(slurp_file("$dir/handlers.sql"));
$sql->(q{SELECT taskq_create_queue('examples', '{"lease": "1 s", "max_attempts": 20, "history": "transitions"}')});
my @files = sort glob "$dir/*.json";
is(scalar @files, 10, 'ten workflows');
for (@files)
{
	my ($name) = m{([^/]+)\.json$};
	my $definition = slurp_file($_);

	is($sql->("SELECT * FROM taskq_validate_workflow(\$d\$$definition\$d\$)"), '', "$name is valid");
	is($sql->("SELECT taskq_define_workflow(\$d\$$definition\$d\$), \$d\$$definition\$d\$::jsonb ->> 'name'"), "|$name", 'it has the name of its file');
}

# The input of each instance, and the expected result, calculated in another
# way
$sql->(<<"SQL");
CREATE TABLE run AS
SELECT name, i, input, state, result, taskq_start_workflow(name, input, key => name || i) AS workflow_id
  FROM (
    SELECT 'linear' AS name, i, jsonb_build_object('text', repeat(' Ab', i % 7 + 1) || '  x ') AS input, 'done' AS state,
           jsonb_build_object('report', i % 7 + 2 || ' words, 2 different') AS result FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'diamond', i, jsonb_build_object('numbers', ARRAY[7, i, -i, 3 * i]), 'done', jsonb_build_object('range', greatest(7, 3 * i) + i) FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'tree', i, jsonb_build_object('numbers', ARRAY(SELECT i * n FROM generate_series(1, 9) n)), 'done', jsonb_build_object('sum', 45 * i) FROM generate_series(1, $EACH) i
    UNION ALL
    -- 10 % discount from 100.00 on, postage is free from 50.00 on
    SELECT 'mixed', i, jsonb_build_object('items', jsonb_build_array(jsonb_build_object('price', 100 * i, 'count', 1, 'grams', 10 * i), jsonb_build_object('price', 50, 'count', 2, 'grams', 5))),
           'done', jsonb_build_object('cents', CASE WHEN i >= 99 THEN (90 * i + 90) + (90 * i + 90) * 19 / 100
                WHEN i >= 49 THEN (100 * i + 100) + (100 * i + 100) * 19 / 100 ELSE 119 * i + 119 + 300 + i + 1 END) FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'order', i, jsonb_build_object('order', i, 'quantity', i % 8 + 1, 'amount', i * 7), 'done',
           CASE WHEN i % 8 < 5 AND i < 143 THEN jsonb_build_object('order', i, 'outcome', 'shipped', 'parcel', format('parcel %s of %s', i, i % 8 + 1))
                ELSE jsonb_build_object('order', i, 'outcome', 'refused') END FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'payment', i, jsonb_build_object('payment', i, 'amount', 10 * i, 'card', CASE WHEN i % 10 = 0 THEN 'refused' ELSE 'good' END, 'busy', i % 3 = 0),
           CASE WHEN i % 10 = 0 THEN 'error' ELSE 'done' END,
           CASE WHEN i % 10 <> 0 THEN jsonb_build_object('captured', 10 * i, 'reviewed', i > 100) END FROM generate_series(1, $EACH) i
    UNION ALL
    -- the card is refused, or the letter is returned: then everything is
    -- compensated
    SELECT 'registration', i, jsonb_build_object('customer', i, 'card', CASE WHEN i % 5 = 0 THEN 'refused' ELSE 'good' END,
               'address', CASE WHEN i % 3 = 0 THEN 'wrong' ELSE 'good' END),
           CASE WHEN i % 5 = 0 OR i % 3 = 0 THEN 'error' ELSE 'done' END,
           CASE WHEN i % 5 <> 0 AND i % 3 <> 0 THEN jsonb_build_object('account', i, 'paid', 900) END FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'etl', i, jsonb_build_object('day', i), 'done', jsonb_build_object('countries', 2, 'cents', 55 * i) FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'csv', i, '{"file": "sales.csv"}', 'done', '{"parts": 5, "rows": 1000, "cents": 1498500}' FROM generate_series(1, $EACH) i
    UNION ALL
    SELECT 'approval', i, jsonb_build_object('request', i, 'amount', amount), CASE WHEN refused THEN 'error' ELSE 'done' END,
           CASE WHEN NOT refused THEN jsonb_build_object('request', i, 'approved_by',
                CASE WHEN amount < 1000 THEN '["auto"]' WHEN amount < 5000 THEN '["manager"]' ELSE '["finance", "manager"]' END::jsonb) END
      FROM (SELECT i, amount, amount >= 1000 AND i % 7 = 3 OR amount >= 5000 AND i % 11 = 5 AS refused
              FROM (SELECT i, (ARRAY[0, 999.99, 1000, 4999.99, 5000, 12345.678])[i % 6 + 1] AS amount FROM generate_series(1, $EACH) i) a) b
  ) r
 ORDER BY i, name;
SQL
is($sql->('SELECT count(DISTINCT workflow_id) FROM run'), 10 * $EACH, "$EACH instances of each");

# Managers refuse each seventh request, finance each eleventh. Even requests are
# answered immediately, whether an approver will be asked or not.
$sql->(<<'SQL');
CREATE FUNCTION answer(asked run, who text) RETURNS boolean LANGUAGE sql AS $$
    SELECT taskq_signal(asked.workflow_id, who, jsonb_build_object('by', 'approver', 'approved',
        CASE who WHEN 'manager' THEN asked.i % 7 <> 3 ELSE asked.i % 11 <> 5 END))
$$;
CREATE PROCEDURE answer_all() LANGUAGE plpgsql AS $$
DECLARE
    asked record;
BEGIN
    FOR asked IN SELECT r, t.step FROM run r JOIN taskq.tasks t USING (workflow_id)
                  WHERE r.name = 'approval' AND t.queue = 'examples' AND t.state = 'suspended' LOOP
        PERFORM answer(asked.r, asked.step);
        COMMIT;
    END LOOP;
END
$$;
SQL
is($sql->(q{SELECT answer(run, who), count(*) FROM run, unnest(ARRAY['manager', 'finance']) who WHERE name = 'approval' AND i % 2 = 0 GROUP BY 1}),
	't|' . $EACH, 'an answer before the question is the first');

my $open = sub { $sql->('SELECT count(*) FROM taskq.workflow w JOIN run USING (workflow_id) WHERE w.finished_at IS NULL') };
# except for instances that fail by themselves
my $lost = sub { $sql->(<<'SQL') };
SELECT count(*) FROM taskq.history h JOIN taskq.tasks t USING (task_id) WHERE h.from_state = 'running' AND h.to_state = 'pending' AND t.step NOT IN ('authorize', 'welcome')
SQL
my $clients = start_clients($node, $WORKERS, "CALL example.work('examples');\n");
my $cut = 0;

# while there is work, and until enough tasks have been lost
my $begun = time;
while ($lost->() < $LOST && $open->() > 0 && time < $begun + $BOUND)
{
	$cut += $sql->(<<'SQL');
SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL example.work%' ORDER BY random() LIMIT 2) a
SQL
	$sql->('CALL answer_all()') if $cut % 8 == 0;
	within(0.05, sub { 0 });
}
# read from the table, since the view reads all steps of each instance
my $ended = within($BOUND, sub {
	$sql->('CALL answer_all()');
	$open->() == 0 });
ok($ended, 'all instances end');
end_clients($clients);
my $lost_at_end = $lost->();
cmp_ok($lost_at_end, '>=', $LOST, "$cut times a worker was cut off, $lost_at_end tasks were reclaimed");

for my $name (map { m{([^/]+)\.json$} } @files)
{
	is($sql->(<<"SQL"), '', "$name: each has the state and the result that it should have");
SELECT i, w.state, r.state, w.result, r.result FROM run r JOIN taskq.workflows w USING (workflow_id)
 WHERE r.name = '$name' AND (w.state, w.result) IS DISTINCT FROM (r.state, r.result) ORDER BY i LIMIT 3
SQL
}
is($sql->(<<'SQL'), '', 'steps are done, filtered or skipped as they should be');
SELECT r.name, r.i, s.step, s.state FROM run r JOIN taskq.workflow_steps s USING (workflow_id)
 WHERE s.state IS DISTINCT FROM
       CASE WHEN r.name = 'payment' AND r.state = 'error' AND s.step = 'authorize' THEN 'dead'
            WHEN r.name = 'payment' AND r.state = 'error' AND s.step <> 'validate' THEN 'blocked'
            WHEN r.name = 'payment' AND s.step = 'review' AND r.i <= 100 THEN 'filtered'
            WHEN r.name = 'registration' AND r.state = 'error' AND s.step = CASE WHEN r.i % 5 = 0 THEN 'subscribe' ELSE 'welcome' END THEN 'dead'
            WHEN r.name = 'registration' AND r.state = 'error' AND s.step = 'welcome' THEN 'cancelled'
            WHEN r.name = 'order' AND s.step = CASE r.result ->> 'outcome' WHEN 'shipped' THEN 'refuse' ELSE 'pack' END THEN 'skipped'
            WHEN r.name = 'order' AND s.step = 'ship' AND r.result ->> 'outcome' = 'refused' THEN 'skipped'
            WHEN r.name = 'approval' AND s.step = 'auto' AND (r.input -> 'amount')::numeric >= 1000 THEN 'skipped'
            WHEN r.name = 'approval' AND s.step = 'manager' THEN CASE WHEN (r.input -> 'amount')::numeric < 1000 THEN 'skipped'
                WHEN r.i % 7 = 3 THEN 'dead' ELSE 'done' END
            WHEN r.name = 'approval' AND s.step = 'finance' THEN CASE WHEN (r.input -> 'amount')::numeric < 5000 THEN 'skipped'
                WHEN r.i % 11 = 5 THEN 'dead' ELSE 'done' END
            WHEN r.name = 'approval' AND r.state = 'error' AND s.step = 'grant' THEN 'blocked'
            ELSE 'done' END
 LIMIT 5
SQL
is($sql->(<<'SQL'), "0|4\n999.99|4\n1000|4\n4999.99|4\n5000|5\n12345.678|5", 'a request takes 4 steps, a large one 5');
SELECT DISTINCT (r.input -> 'amount')::numeric AS amount, w.steps_done FROM run r JOIN taskq.workflows w USING (workflow_id)
 WHERE r.name = 'approval' AND r.state = 'done' ORDER BY 1
SQL
is($sql->('SELECT count(*), sum(request), sum(amount) FROM example.granted'),
	$sql->(q{SELECT count(*), sum(i), sum((input -> 'amount')::numeric) FROM run WHERE name = 'approval' AND state = 'done'}), 'each granted request was granted by all approvers');
is($sql->('SELECT count(*), sum(order_no) FROM example.shipment'),
	$sql->(q{SELECT count(*), sum(i) FROM run WHERE name = 'order' AND result ->> 'outcome' = 'shipped'}), 'exactly what was ordered was shipped');
is($sql->('SELECT count(*), sum(amount) FROM example.payment'),
	$sql->(q{SELECT count(*), sum(10 * i) FROM run WHERE name = 'payment' AND state = 'done'}), 'exactly what was due was paid');
is($sql->(<<'SQL'), '', 'exactly the completed steps are compensated, each once, the last one first');
SELECT i, state, reason, steps FROM (
    SELECT r.i, r.state, w.reason, (SELECT string_agg(s.step, ' ' ORDER BY s.task_id) FROM taskq.workflow_steps s WHERE s.workflow_id = r.workflow_id AND s.type = 'compensation') AS steps
      FROM run r JOIN taskq.workflows w USING (workflow_id) WHERE r.name = 'registration') x
 WHERE (reason, steps) IS DISTINCT FROM (CASE WHEN state = 'error' THEN 'compensated' END,
     CASE WHEN i % 5 = 0 THEN 'compensate:mailbox compensate:account' WHEN i % 3 = 0 THEN 'compensate:subscribe compensate:mailbox compensate:account' END) LIMIT 3
SQL
is($sql->(<<'SQL'), $sql->(<<"EXPECTED"), 'of those who did not register only a fee is left');
SELECT (SELECT count(*) || ' ' || sum(customer) FROM example.account), (SELECT count(*) || ' ' || sum(customer) FROM example.mailbox), (SELECT sum(cents) FROM example.booking)
SQL
SELECT count(*) || ' ' || sum(i), count(*) || ' ' || sum(i), 900 * count(*) + 100 * (SELECT count(*) FROM generate_series(1, $EACH) i WHERE i % 3 = 0 AND i % 5 <> 0)
  FROM generate_series(1, $EACH) i WHERE i % 5 <> 0 AND i % 3 <> 0
EXPECTED
is($sql->('SELECT count(*), sum(cents) FROM example.sale'), 2 * $EACH . '|' . 55 * $EACH * ($EACH + 1) / 2, 'each is loaded');

# --- the worker in Python
SKIP:
{
	my ($python) = grep { system("$_ -c 'import psycopg' 2>/dev/null") == 0 } '/usr/bin/python3', 'python3';
	skip 'needs python3-psycopg', 4 unless $python;
	@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ($node->host, $node->port, 'postgres', scalar getpwuid($<));
	$sql->(<<"SQL");
TRUNCATE example.shipment;
CREATE TABLE python_run AS
    SELECT i, state, result, taskq_start_workflow('order', input, key => 'python' || i) AS workflow_id FROM run WHERE name = 'order';
SQL
	my $killed = 0;
	my %pid;
	my $begin = sub {
		my ($name) = @_;
		$pid{$name} = fork // die "could not fork: $!";
		return if $pid{$name};
		open STDERR, '>>', "$PostgreSQL::Test::Utils::tmp_check/python.log";
		exec 'setpriv', '--pdeathsig', 'KILL', '--', $python, "$dir/worker.py", 'examples', $name or POSIX::_exit(1);
	};
	my $left = sub { $sql->('SELECT count(*) FROM python_run JOIN taskq.workflow w USING (workflow_id) WHERE w.finished_at IS NULL') };

	$begin->("python $_") for 1 .. $WORKERS;
	while ($killed < 20)
	{
		# the live worker that holds a step
		my $name = '';
		my $alive = join ', ', map { "'$_'" } keys %pid;

		within($BOUND, sub { ($name = $sql->("SELECT worker FROM taskq.running WHERE worker IN ($alive) LIMIT 1")) ne '' || $left->() == 0 });
		last if $name eq '';
		kill 'KILL', $pid{$name};
		waitpid delete $pid{$name}, 0;
		$begin->('python ' . ($WORKERS + ++$killed));
	}
	ok(within($BOUND, sub { $left->() == 0 }), 'workers in Python process the orders, too')
	  or diag slurp_file("$PostgreSQL::Test::Utils::tmp_check/python.log");
	for (sort values %pid)
	{
		kill 'TERM', $_;
		waitpid $_, 0;
	}
	cmp_ok($killed, '>=', 5, "$killed workers were killed");
	is($sql->(<<'SQL'), '', 'the results are the same');
SELECT i, w.state, w.result FROM python_run r JOIN taskq.workflows w USING (workflow_id) WHERE (w.state, w.result) IS DISTINCT FROM (r.state, r.result) LIMIT 3
SQL
	is($sql->('SELECT count(*), sum(order_no) FROM example.shipment'),
		$sql->(q{SELECT count(*), sum(i) FROM run WHERE name = 'order' AND result ->> 'outcome' = 'shipped'}), 'each parcel is sent once');
}
# --- which role may approve
$sql->(<<'SQL');
SELECT taskq_grant('examples', role, ARRAY['submit']) FROM unnest(ARRAY['example_manager', 'example_finance', 'example_director']) role;
SELECT taskq_start_workflow('approval', '{"request": 0, "amount": 5000}', key => 'roles');
SQL
my $roles = $sql->(q{SELECT workflow_id FROM taskq.workflows WHERE key = 'roles'});
my $approve = sub {
	my ($role, $step, $payload) = @_;
	my $text = "SET ROLE example_$role; SELECT taskq_signal($roles, '$step', '" . ($payload // '{"approved": true}') . "')";
	my $state = error_of($node, $text);
	return $state eq '' ? 'approved' : $state;
};
is($approve->('finance', 'manager'), '42501', 'finance cannot answer for the manager');
is($approve->('manager', 'finance'), '42501', 'the manager cannot answer for finance');
is($approve->('director', 'manager'), '42501', 'the director cannot answer before there is a question');
$sql->(q{CALL example.work('examples')});
is($sql->("SELECT string_agg(step || ' ' || coalesce(state, '-'), ', ' ORDER BY step) FROM taskq.workflow_steps WHERE workflow_id = $roles"),
	'auto skipped, finance suspended, grant blocked, manager suspended, request done, route done', 'two approvers are asked');
is($approve->('director', 'manager'), '42501', 'the director cannot answer on the first day');
is($approve->('finance', 'finance', '{"approved": "yes"}'), '22023', '"yes" is not a valid answer');
is($approve->('finance', 'finance'), 'approved', 'finance approves');
$sql->(q{ALTER SYSTEM SET taskq.debug_clock_skew = '25h'; SELECT pg_reload_conf()});
$node->poll_query_until('postgres', q{SELECT setting::int = 90000 FROM pg_settings WHERE name = 'taskq.debug_clock_skew'}) or die 'the clock does not start again';
is($approve->('director', 'finance'), '42501', 'no other role answers for finance');
is($approve->('director', 'manager'), 'approved', 'a day later the director answers for the manager');
$sql->(q{CALL example.work('examples')});
is($sql->("SELECT w.state, w.result FROM taskq.workflows w WHERE workflow_id = $roles"), 'done|{"request": 0, "approved_by": ["finance", "manager"]}', 'the request is granted');

sound($node);
$node->stop('fast');
done_testing();

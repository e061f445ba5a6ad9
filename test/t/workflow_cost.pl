# A change of many steps costs work in proportion to their number: four times as
# many steps, four times the work. The test counts the rows and index entries
# that are read, which do not depend on the load of the machine. Everything is
# done in one transaction, so no index entry that it leaves can be
# removed in the meantime, as with an old snapshot.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my ($FEW, $MANY) = (500, 2000);

# Numbers that vary in addition: split pages, the first row of each kind
my $TOLERANCE = 1.25;

# The same where a call reads all steps once, with as many index entries of each
# as its updates have left, which depends on what is free in their pages
my $TOLERANCE_ONCE = 1.5;

my $node = start_node('workflow_cost');
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(<<'SQL');
SELECT taskq_create_queue('cost');

SELECT taskq_define_workflow('{"name": "one", "version": "1", "queue": "cost", "steps": [{"name": "only"}]}');

SELECT taskq_define_workflow('{"name": "batch", "version": "1", "queue": "cost", "steps": [{"name": "split", "type": "batch"},
    {"name": "member", "type": "batch_worker", "depends_on": ["split"]}, {"name": "join", "type": "deferred", "depends_on": ["member"]}]}');

SELECT taskq_define_workflow('{"name": "isolated", "version": "1", "queue": "cost", "steps": [{"name": "split", "type": "batch", "failure_strategy": "isolate"},
    {"name": "member", "type": "batch_worker", "depends_on": ["split"]}, {"name": "join", "type": "deferred", "depends_on": ["member"]}]}');

SELECT taskq_define_workflow('{"name": "waits", "version": "1", "queue": "cost", "steps": [{"name": "inside", "type": "workflow", "workflow": {"name": "one"}},
    {"name": "asked", "type": "signal", "signal": {"name": "answer", "timeout": "1 day"}}]}');

-- first, then n in parallel, then last
CREATE FUNCTION define_wide(n int, name text DEFAULT 'wide', on_failure text DEFAULT 'continue') RETURNS void LANGUAGE sql AS $$
    SELECT taskq_define_workflow(jsonb_build_object('name', name || n, 'version', '1', 'queue', 'cost', 'on_failure', on_failure, 'steps',
        (SELECT jsonb_build_array(jsonb_build_object('name', 'first'))
             || jsonb_agg(jsonb_build_object('name', 'w' || i, 'depends_on', jsonb_build_array('first')))
             || jsonb_build_array(jsonb_build_object('name', 'last', 'depends_on', jsonb_agg('w' || i)))
           FROM generate_series(1, n) i)))
$$;

-- n one after the other, which are skipped from one on
CREATE FUNCTION define_chain(n int, name text, first_skipped int) RETURNS void LANGUAGE sql AS $$
    SELECT taskq_define_workflow(jsonb_build_object('name', name || n, 'version', '1', 'queue', 'cost', 'steps',
        (SELECT jsonb_agg(jsonb_build_object('name', 'c' || i, 'depends_on', CASE WHEN i = 1 THEN '[]' ELSE jsonb_build_array('c' || i - 1) END)
             || CASE WHEN i < first_skipped THEN '{}' ELSE '{"when": "1 == 2"}'::jsonb END)
           FROM generate_series(1, n) i)))
$$;

-- n decisions one after the other, which the engine makes, all immediately
CREATE FUNCTION define_decisions(n int, on_failure text) RETURNS void LANGUAGE sql AS $$
    SELECT taskq_define_workflow(jsonb_build_object('name', on_failure || ' decisions' || n, 'version', '1', 'queue', 'cost', 'on_failure', on_failure, 'steps',
        (SELECT jsonb_agg(s) FROM generate_series(1, n) i, LATERAL (VALUES
            (jsonb_build_object('name', 'd' || i, 'type', 'decision', 'branches', jsonb_build_array(jsonb_build_object('steps', jsonb_build_array('x' || i))))
                || CASE WHEN i = 1 THEN '{}' ELSE jsonb_build_object('depends_on', jsonb_build_array('j' || i - 1)) END),
            (jsonb_build_object('name', 'x' || i, 'when', '1 == 2', 'depends_on', jsonb_build_array('d' || i))),
            (jsonb_build_object('name', 'j' || i, 'type', 'deferred', 'when', '1 == 2', 'depends_on', jsonb_build_array('x' || i)))) v (s))))
$$;

-- n of them in parallel, after a step
CREATE FUNCTION define_beside(n int) RETURNS void LANGUAGE sql AS $$
    SELECT taskq_define_workflow(jsonb_build_object('name', 'beside' || n, 'version', '1', 'queue', 'cost', 'steps',
        (SELECT jsonb_build_array(jsonb_build_object('name', 'before')) || jsonb_agg(s) FROM generate_series(1, n) i, LATERAL (VALUES
            (jsonb_build_object('name', 'd' || i, 'type', 'decision', 'depends_on', jsonb_build_array('before'), 'branches', jsonb_build_array(jsonb_build_object('steps', jsonb_build_array('x' || i))))),
            (jsonb_build_object('name', 'x' || i, 'depends_on', jsonb_build_array('d' || i)))) v (s))))
$$;

CREATE TABLE held (place int, task_id bigint, token bigint);

CREATE FUNCTION take(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM held;
    WHILE (SELECT count(*) FROM held) < n LOOP
        INSERT INTO held SELECT row_number() OVER (ORDER BY task_id), task_id, token FROM taskq_claim('cost', max_tasks => 1000);
    END LOOP;
    UPDATE held h SET place = o.place FROM (SELECT task_id, row_number() OVER (ORDER BY task_id) AS place FROM held) o WHERE o.task_id = h.task_id;
END $$;

CREATE FUNCTION complete_all() RETURNS void LANGUAGE sql AS
$$ SELECT count(*) FROM taskq_complete_many(array(SELECT task_id FROM held ORDER BY place), array(SELECT token FROM held ORDER BY place)) $$;

-- one by one: from the last to the first, every second one first, or (NULL)
-- from the first to the last
CREATE FUNCTION each(call text, backwards boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    h held;
BEGIN
    FOR h IN SELECT * FROM held ORDER BY CASE WHEN backwards THEN -place WHEN NOT backwards THEN place % 2 END, CASE WHEN NOT backwards THEN place * 7919 % 1000 END, place LOOP
        EXECUTE 'SELECT ' || call USING h.task_id, h.token;
    END LOOP;
END $$;

-- the same, each in a transaction of its own
CREATE PROCEDURE each_alone(call text, backwards boolean) LANGUAGE plpgsql AS $$
DECLARE
    h held;
BEGIN
    FOR h IN SELECT * FROM held ORDER BY CASE WHEN backwards THEN -place WHEN NOT backwards THEN place % 2 END, CASE WHEN NOT backwards THEN place * 7919 % 1000 END, place LOOP
        EXECUTE 'SELECT ' || call USING h.task_id, h.token;
        COMMIT;
    END LOOP;
END $$;

-- all that are held die, but one, which is held no longer
CREATE FUNCTION all_die_but_one() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM taskq_fail(task_id, token, 'no', retryable => false) FROM held WHERE place > 1;
    DELETE FROM held WHERE place = 1;
END $$;

-- rows and index entries of taskq that this transaction has read
CREATE FUNCTION read_so_far() RETURNS bigint LANGUAGE sql AS $$
    SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class
     WHERE relnamespace = 'taskq'::regnamespace AND relkind IN ('r', 'i')
$$;

CREATE FUNCTION work_of(call text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    before bigint := read_so_far();
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN read_so_far() - before;
END $$;
SQL

# Returns the work of the call for n steps, without its preparation
sub work
{
	my ($n, $prepare, $call) = @_;

	s/<n>/$n/g for $prepare, $call;
	return (split /\n/, $sql->("BEGIN; SET LOCAL client_min_messages = warning; $prepare; SELECT work_of(\$c\$$call\$c\$); ROLLBACK;"))[-1];
}

sub grows_with_number
{
	my ($what, $prepare, $call, $tolerance) = @_;
	my ($few, $many) = map { work($_, $prepare, $call) } $FEW, $MANY;

	cmp_ok($few, '>=', $FEW, "$what: the call did something");
	cmp_ok($many, '<=', $few * $MANY / $FEW * ($tolerance // $TOLERANCE), "$what: $few for $FEW, $many for $MANY");
}

$sql->("SELECT define_wide($_), define_wide($_, 'stop', 'stop'), define_wide($_, 'compensate', 'compensate')") for $FEW, $MANY;
$sql->("SELECT define_chain($_, 'skipped', 1), define_chain($_, 'behind', 2), define_decisions($_, 'continue'), define_decisions($_, 'stop'), define_beside($_)") for $FEW, $MANY;

my $wide = q{SELECT taskq_start_workflow('wide<n>')};
my $first = q{SELECT taskq_complete(task_id, token) FROM taskq_claim('cost')};
my $batch = q{SELECT taskq_start_workflow('batch');
	SELECT taskq_complete(task_id, token, '{"total": <n>, "size": 1}') FROM taskq_claim('cost')};

# First, while the archive is empty: the choice of a planner would depend on it.
grows_with_number('a start of steps that are skipped one after the other', '', q{taskq_start_workflow('skipped<n>')});
grows_with_number("a start of decisions that the engine makes one after the other, under $_", '', "taskq_start_workflow('$_ decisions<n>')")
  for qw(continue stop);
grows_with_number('an end before them', q{SELECT taskq_start_workflow('behind<n>'); SELECT take(1)}, 'complete_all()');

grows_with_number('an end for which many steps wait', "$wide; SELECT take(1)", 'complete_all()');
grows_with_number('many ends in one call', "$wide; $first; SELECT take(<n>)", 'complete_all()');
grows_with_number('the end of an instance', "$wide; $first; SELECT take(<n>); SELECT complete_all(); SELECT take(1)", 'complete_all()');
grows_with_number('many members of a batch', q{SELECT taskq_start_workflow('batch')},
	q{taskq_complete(task_id, token, '{"total": <n>, "size": 1}') FROM taskq_claim('cost')});
grows_with_number('another try of a step before decisions', q{SELECT taskq_start_workflow('beside<n>'); SELECT take(1); SELECT complete_all()},
	q{taskq_retry(task_id) FROM taskq.workflow_steps WHERE step = 'before'});
grows_with_number('another try of a batch', $batch, q{taskq_retry(task_id) FROM taskq.workflow_steps WHERE step = 'split'});
for my $order ([ 'from the last to the first', 'true' ], [ 'here and there', 'false' ])
{
	my ($how, $backwards) = @$order;
	my $each = sub { "each('$_[0]', $backwards)" };
	my $fail = q{taskq_fail($1, $2, ''no'', retryable => false)};
	my $all_die = q{SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM held};

	grows_with_number("members that end $how", "$batch; SELECT take(<n>)", $each->('taskq_complete($1, $2)'));
	grows_with_number("members that die $how", $batch =~ s/'batch'/'isolated'/r . '; SELECT take(<n>)', $each->($fail));
	grows_with_number("members of a batch that stops die $how", "$batch; SELECT take(<n>)", $each->($fail), $TOLERANCE_ONCE);
	grows_with_number("steps that die $how", "$wide; $first; SELECT take(<n>)", $each->($fail));
	grows_with_number("steps that are tried again $how", "$wide; $first; SELECT take(<n>); $all_die", $each->('taskq_retry($1), $2'));
	grows_with_number("members that are tried again $how", $batch =~ s/'batch'/'isolated'/r . "; SELECT take(<n>); $all_die", $each->('taskq_retry($1), $2'));
	grows_with_number("members of a batch that stops are tried again $how", "$batch; SELECT take(<n>); $all_die", $each->('taskq_retry($1), $2'));
	grows_with_number("members of a batch that stops are resolved $how", "$batch; SELECT take(<n>); $all_die", $each->('taskq_resolve($1), $2'));
	grows_with_number("steps that are resolved $how", "$wide; $first; SELECT take(<n>); $all_die", $each->('taskq_resolve($1), $2'));
	for my $policy (qw(stop compensate))
	{
		my $running = "SELECT taskq_start_workflow('$policy<n>'); $first; SELECT take(<n>)";
		my $one_runs = "$running; SELECT all_die_but_one()";

		grows_with_number("steps that are tried again $how under $policy", $one_runs, $each->('taskq_retry($1), $2'));
		grows_with_number("steps that are resolved $how under $policy", $one_runs, $each->('taskq_resolve($1), $2'));
		grows_with_number("steps that die $how under $policy", $running, $each->($fail), $TOLERANCE_ONCE);
		grows_with_number("steps that are cancelled $how under $policy", $running, $each->('taskq_cancel($1, force => true), $2'), $TOLERANCE_ONCE);
	}
}
my $all_run = "SELECT taskq_start_workflow('stop<n>'); $first; SELECT take(<n>)";

grows_with_number('steps that die from the first to the last under stop', $all_run, q{each('taskq_fail($1, $2, ''no'', retryable => false)', NULL)}, $TOLERANCE_ONCE);
grows_with_number('steps that are tried again from the first to the last under stop', "$all_run; SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM held",
	q{each('taskq_retry($1), $2', NULL)});
grows_with_number('steps that are resolved from the first to the last under stop', "$all_run; SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM held",
	q{each('taskq_resolve($1), $2', NULL)});
grows_with_number('steps that are tried again in one list', "$wide; $first; SELECT take(<n>); SELECT taskq_fail(task_id, token, 'no', retryable => false) FROM held",
	q{count(*) FROM taskq_manage_many('retry', (SELECT array_agg(task_id ORDER BY place) FROM held))});
for my $policy (qw(stop compensate))
{
	my $dead = "SELECT taskq_start_workflow('$policy<n>'); $first; SELECT take(<n>); SELECT all_die_but_one()";

	grows_with_number("steps that are tried again in one list under $policy", $dead, q{count(*) FROM taskq_manage_many('retry', (SELECT array_agg(task_id ORDER BY place) FROM held))});
	grows_with_number("steps that are resolved in one list under $policy", $dead, q{count(*) FROM taskq_manage_many('resolve', (SELECT array_agg(task_id ORDER BY place) FROM held))});
}
grows_with_number('a cancel', $wide, 'taskq_cancel_workflow(max(workflow_id)) FROM taskq.workflow');
grows_with_number('a cancel while they run', "$wide; $first; SELECT take(<n>)", 'taskq_cancel_workflow(max(workflow_id)) FROM taskq.workflow');
grows_with_number('ends of many instances in one call', q{SELECT count(taskq_start_workflow('one')) FROM generate_series(1, <n>); SELECT take(<n>)},
	'complete_all()');

# taskq_check() compares sets. A plan that reads one of them for each row of
# another discards the rows that do not match: that many rows.
sub thrown_away
{
	my ($n) = @_;
	my $thrown = 0;
	my (undef, $output, $plans) = $node->psql('postgres', <<"SQL");
BEGIN;
SELECT count(taskq_start_workflow('waits')) FROM generate_series(1, $n);
ANALYZE taskq.task, taskq.workflow, taskq.timer;
LOAD 'auto_explain';
SET LOCAL auto_explain.log_min_duration = 0;
SET LOCAL auto_explain.log_analyze = on;
SET LOCAL auto_explain.log_timing = off;
SET LOCAL auto_explain.log_nested_statements = on;
SET LOCAL client_min_messages = log;
SELECT count(*) FROM taskq_check();
ROLLBACK;
SQL
	is($output, "$n\n0", "a check of $n instances finds nothing");
	like($plans, qr/Seq Scan on timer/, 'its plans are logged');
	# the loops are in the line of the node, the rows some lines below
	my $loops = 1;
	for (split /\n/, $plans)
	{
		$loops = $1 if /rows=\d+ loops=(\d+)\)/;
		$thrown += $1 * $loops if /Rows Removed by Join Filter: (\d+)/;
	}
	return $thrown;
}

my ($few, $many) = map { thrown_away($_) } $FEW, $MANY;
cmp_ok($many, '<=', 20 * $MANY, "joins of a check discard $few rows for $FEW instances, $many for $MANY");

# The first step that dies under "stop" cancels the steps that have not begun.
# The steps that die after it do not read those again; nor does the last step
# that dies, which searches for a live step, once the index entries that lead
# to no row are marked.
my $RUNNING = 8;

sub later_deaths
{
	my ($n) = @_;
	my $fail = q{SELECT work_of(format('taskq_fail(%s, %s, ''no'', retryable => false)', task_id, token)) FROM held WHERE place};

	$sql->(qq{SELECT taskq_start_workflow('stop$n'); $first; DELETE FROM held;
		INSERT INTO held SELECT row_number() OVER (), task_id, token FROM taskq_claim('cost', max_tasks => $RUNNING)});
	my $first_death = $sql->("$fail = 1");
	my @later = map { $sql->("$fail = $_") } 2 .. $RUNNING - 1;
	my @last = $sql->("$fail = $RUNNING");
	for (1 .. 3)
	{
		$sql->("SELECT taskq_retry(task_id) FROM held WHERE place = $RUNNING");
		$sql->("UPDATE held h SET token = c.token FROM taskq_claim('cost') c WHERE h.place = $RUNNING");
		push @last, $sql->("$fail = $RUNNING");
	}
	cmp_ok($first_death, '>=', $n, "the first that dies under stop beside $n reads $first_death");
	return map { (sort { $a <=> $b } @$_)[0] } \@later, \@last;
}

my @few = later_deaths($FEW);
my @many = later_deaths($MANY);
cmp_ok($many[0], '<=', $few[0] * $TOLERANCE, "another one reads $few[0] or $many[0]");
cmp_ok($many[1], '<=', $few[1] * $TOLERANCE, "the last one $few[1] or $many[1]");

# Repairs of steps whose failures are committed, each in a transaction of its
# own, or all in one. The next case begins without steps that are live.
sub repairs_grow
{
	my ($what, $prepare, $statement) = @_;
	my @work;

	for my $n ($FEW, $MANY)
	{
		my ($begin, $call) = ($prepare =~ s/<n>/$n/gr, $statement);
		my $total = q{SELECT pg_stat_force_next_flush(); SELECT sum(pg_stat_get_tuples_returned(oid)) FROM pg_class
			WHERE relnamespace = 'taskq'::regnamespace AND relkind IN ('r', 'i')};

		$sql->("SELECT taskq_cancel_workflow(workflow_id) FROM taskq.workflow WHERE state = 0");
		$sql->($begin);
		my @totals = grep { /^\d+$/ } split /\n/, $sql->("$total; $call; $total");
		push @work, $totals[-1] - $totals[0];
	}
	cmp_ok($work[0], '>=', $FEW, "$what: the calls did something");
	cmp_ok($work[1], '<=', $work[0] * $MANY / $FEW * $TOLERANCE_ONCE, "$what: $work[0] for $FEW, $work[1] for $MANY");
}

my %dead = (
	'of a batch that stops' => "$batch; SELECT take(<n>); SELECT all_die_but_one()",
	map { ("under $_" => "SELECT taskq_start_workflow('$_<n>'); $first; SELECT take(<n>); SELECT all_die_but_one()") } qw(stop compensate));

for my $which (sort keys %dead)
{
	for my $call (qw(retry resolve))
	{
		repairs_grow("$call of steps $which, one by one", $dead{$which}, "CALL each_alone('taskq_$call(\$1), \$2', false)");
		repairs_grow("$call of steps $which in one transaction", $dead{$which}, "SELECT each('taskq_$call(\$1), \$2', true)");
	}
}

$node->stop;
done_testing();

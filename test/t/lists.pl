# The test measures how much lists, views and single reads among many tasks read
# and how long they take, and checks that pages are consistent while tasks are
# submitted and finish.
#
# make check-scale sets TASKQ_SCALE: then there are 1,000,000 live and
# 10,000,000 finished tasks, and each statement must answer within 50 ms.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(time);
use TaskqTest;

my $big = $ENV{TASKQ_SCALE} ? 1 : 0;
my ($live, $finished) = $big ? (1_000_000, 10_000_000) : $ENV{LONG} ? (20_000, 200_000) : (10_000, 100_000);
my $MOST_MS = 50;

# Rows and index entries that a statement may read. A scan by id that meets rows
# of other queues ends after 1,000 of them; a tenth of the live tasks is not due
# yet, and taskq.queues counts these.
my $MOST_READ = 40_000 + $live / 10;

my $node = start_node('lists', 'autovacuum' => 'off', 'fsync' => 'off', 'max_wal_size' => "'8GB'",
	'shared_buffers' => $big ? "'1GB'" : "'256MB'", 'taskq.max_running_tracked' => 65536, 'jit' => 'off',
	'taskq.reaper_interval' => "'1 s'");
my $sql = sub { $node->safe_psql('postgres', shift) };

my $begun = time;
$node->command_ok(['psql', '-X', '-q', '-v', "live=$live", '-v', "finished=$finished", '-d', $node->connstr('postgres'),
	'-f', "$FindBin::Bin/../scale/fill.sql"], "$live live and $finished finished tasks");
note sprintf 'filled in %d s', time - $begun;
cmp_ok(time - $begun, '<', 600, 'in less than ten minutes') if $big;

# The table of running tasks and the counters are built again.
$node->restart;
ok(within(60, sub { $sql->('SELECT complete FROM taskq.debug_registry()') eq 't' }), 'running tasks are known');
is($sql->("SELECT * FROM taskq_check()"), '', 'nothing is wrong');
ok(within(120, sub { $sql->("SELECT done FROM taskq.queues WHERE queue = 'q1'") > 8 * $finished / 10 }),
	'finished tasks are counted');

# --- each statement, by a role that may see all, one queue, half of them, or no
# payload
$sql->(<<'SQL');
CREATE ROLE superuser SUPERUSER;
CREATE ROLE one; CREATE ROLE half; CREATE ROLE monitor IN ROLE pg_monitor;
SELECT taskq_grant('q57', 'one', '{read}');
SELECT taskq_grant('q' || i, 'half', '{read}') FROM generate_series(2, 200, 2) AS i;
GRANT EXECUTE ON FUNCTION taskq_get(bigint), taskq_get_many(bigint[]), taskq_list(text, text, bigint, integer, text, text, boolean, text, boolean, jsonb, bigint) TO monitor;
CREATE FUNCTION public.reads() RETURNS bigint[] LANGUAGE sql AS $$
    SELECT ARRAY[sum(pg_stat_get_xact_tuples_returned(c.oid)) FILTER (WHERE c.relkind = 'r'),
                 sum(pg_stat_get_xact_tuples_fetched(c.oid)) FILTER (WHERE c.relkind = 'r')
                 + sum(pg_stat_get_xact_tuples_returned(c.oid)) FILTER (WHERE c.relkind = 'i')]
      FROM pg_class c WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind IN ('r', 'i')
       AND (c.relname ~ '^(task|archive_[0-9k]|large)')
$$;
-- median time in ms of several runs, after one to fill the caches; rows read by seq scans, and rows
-- and entries by indexes; rows returned
CREATE FUNCTION public.measure(query text, times int, OUT ms numeric, OUT scanned bigint, OUT read bigint, OUT answers bigint) LANGUAGE plpgsql AS $$
DECLARE
    took numeric[] := '{}';
    begun timestamptz;
    before bigint[];
    after bigint[];
BEGIN
    EXECUTE query;
    before := public.reads();
    EXECUTE query;
    GET DIAGNOSTICS answers = ROW_COUNT;
    after := public.reads();
    scanned := after[1] - before[1];
    read := after[2] - before[2];
    FOR i IN 1 .. times LOOP
        begun := clock_timestamp();
        EXECUTE query;
        took := took || (extract(epoch FROM clock_timestamp() - begun) * 1000)::numeric;
    END LOOP;
    SELECT round(t, 2) INTO ms FROM unnest(took) t ORDER BY t LIMIT 1 OFFSET times / 2;
END
$$;
SQL
my $total = $live + $finished;
my ($middle, $near_end) = (int($total / 2), $total - 50);
my $ids = join ',', map { int($total / 100 * $_) + 300 } 0 .. 99;
my @queues = qw(q1 q57 q199 q200);
my @states = qw(pending blocked running suspended done dead cancelled filtered redundant recreated);
my @lists = (
	'', 'newest_first => true', "after => $middle", "after => $middle, newest_first => true", 'with_payload => false',
	(map { ("state => '$_'", "state => '$_', newest_first => true", "state => '$_', after => $middle") } @states),
	"reference => 'reference 331'", "reference => 'none'", "key => 'key 2'", "key => 'key 17', newest_first => true",
	"correlation_id => 'correlation 3'", "key => 'none'", "correlation_id => 'none'",
	(map { my $f = $_; map { "filter => $f$_" } '', ', newest_first => true' }
		q('{"state": ["dead", "cancelled"]}'), q('{"state": ["running", "suspended"]}'), q('{"worker": "worker 3"}'),
		q('{"worker": "worker 3", "state": ["running", "dead"]}'), q('{"worker": "none"}'), q('{"key": "key 2", "state": "dead"}'),
		q('{"reference": "reference 331"}'), q('{"correlation_id": "correlation 3"}'),
		(map { "jsonb_build_object('${_}_from', now() - interval '80 h', '${_}_to', now() - interval '79 h')" } qw(created finished claimed)),
		q(jsonb_build_object('created_from', now() + interval '1 h')), q('{"error": "none"}'), q('{"payload": "$.n < 0"}')));
my @one_queue = map {
	my $q = $_;
	"'$q'", "'$q', newest_first => true", "'$q', after => $middle", "'$q', after => $middle, newest_first => true",
	"'$q', after => $near_end", (map { ("'$q', '$_'", "'$q', '$_', newest_first => true") } @states),
	"'$q', reference => 'reference 331'", "'$q', key => 'key 2'", "'$q', correlation_id => 'correlation 3'"
} @queues;
my @views = (
	'ORDER BY task_id DESC LIMIT 100', 'ORDER BY task_id LIMIT 100', "WHERE task_id = $middle", "WHERE task_id IN (1, 5, $middle)",
	"WHERE task_id > $middle ORDER BY task_id LIMIT 100", 'LIMIT 100',
	map { ("WHERE queue = '$_' LIMIT 100", "WHERE queue = '$_' ORDER BY task_id DESC LIMIT 100") } @queues);
my @statements = (
	(map { "SELECT * FROM taskq_list($_)" } @lists, @one_queue),
	"SELECT * FROM taskq_get($middle)", "SELECT * FROM taskq_get_many('{$ids}')", "SELECT * FROM taskq_lineage($middle)",
	(map { my $v = $_; map { "SELECT * FROM taskq.$v $_" } @views } qw(tasks running dead)),
	(map { ("SELECT * FROM taskq.tasks WHERE state = '$_' LIMIT 100", "SELECT * FROM taskq.tasks WHERE queue = 'q1' AND state = '$_' LIMIT 100") } @states),
	"SELECT * FROM taskq.tasks WHERE reference = 'reference 331'", "SELECT * FROM taskq.tasks WHERE key = 'key 2' LIMIT 100",
	"SELECT * FROM taskq.tasks WHERE correlation_id = 'correlation 3' LIMIT 100",
	"SELECT t.* FROM generate_series(300::bigint, 1000, 70) i, taskq_get(i) t",
	'SELECT * FROM taskq.queues', 'SELECT * FROM taskq.queues LIMIT 100', "SELECT * FROM taskq.queues WHERE queue = 'q1'", "SELECT * FROM taskq.queues WHERE queue = 'q199'",
	'SELECT * FROM taskq.workers', "SELECT * FROM taskq.workers WHERE worker = 'worker 3'", 'SELECT * FROM taskq.settings');
my %by = (
	superuser => \@statements,
	one => [ (map { "SELECT * FROM taskq_list($_)" } @lists, grep { /q57/ } @one_queue), grep { /FROM taskq\./ } @statements ],
	half => [ (map { "SELECT * FROM taskq_list($_)" } @lists, grep { /q200/ } @one_queue), grep { /FROM taskq\./ } @statements ],
	monitor => [ (map { "SELECT * FROM taskq_list($_)" } @lists, grep { /q57|q1'/ } @one_queue), grep { /FROM taskq\./ } @statements ]);
for my $role (sort keys %by)
{
	my @all = @{ $by{$role} };
	my $times = $big ? 5 : 0;
	my (@scans, @much, @slow, @lines);

	my $answer = $sql->("SET ROLE $role;\n" . join "\n", map {
		my $quoted = s/'/''/gr;
		"SELECT ms, scanned, read, answers FROM public.measure('$quoted', $times);"
	} @all);
	for my $line (split /\n/, $answer)
	{
		my ($ms, $scanned, $read, $answers) = split /\|/, $line;
		my $statement = shift @all;
		my $words = "$statement: $ms ms, $answers rows, $read read, $scanned scanned";

		push @lines, $words;
		push @scans, $words if $scanned > 1000;
		push @much, $words if $read > $MOST_READ;
		# the promise is for one queue, or for the first hundred tasks
		push @slow, $words if $big && $ms > $MOST_MS && $words !~ /^SELECT \* FROM taskq\.queues:/;
	}
	note "$role: $_" for grep { $big } sort @lines;
	is(scalar @all, 0, "$role: every statement has an answer");
	is(join("\n", @scans), '', "$role: no statement reads a whole table");
	is(join("\n", @much), '', "$role: no statement reads too much");
	is(join("\n", @slow), '', "$role: each statement answers within $MOST_MS ms") if $big;
}

if ($big)
{
	$node->stop('fast');
	done_testing();
	exit 0;
}

# --- lists and views agree with the tables
is($sql->(<<'SQL'), '0', 'each queue and state: the list is what the tables have, both ways');
SELECT count(*) FROM (VALUES ('q1'), ('q57'), ('q199'), ('q200')) AS q (queue)
 CROSS JOIN (SELECT taskq.state_name(s::smallint) AS state, s FROM generate_series(1, 10) AS s) AS s
 CROSS JOIN (VALUES (true), (false)) AS n (newest)
 CROSS JOIN LATERAL (SELECT array_agg(task_id ORDER BY task_id) AS ids
                       FROM taskq_list(q.queue, s.state, max_rows => 150, newest_first => n.newest)) AS l
 CROSS JOIN LATERAL (SELECT array_agg(task_id ORDER BY task_id) AS ids
                       FROM (SELECT task_id FROM (SELECT task_id, queue_id, state FROM taskq.task UNION ALL SELECT task_id, queue_id, state FROM taskq.archive) b
                              WHERE b.queue_id = (SELECT queue_id FROM taskq.queue WHERE name = q.queue) AND b.state = s.s
                              ORDER BY CASE WHEN n.newest THEN -task_id ELSE task_id END LIMIT 150) t) AS t
 WHERE l.ids IS DISTINCT FROM t.ids
SQL
is($sql->(<<'SQL'), '', 'whole pages, one after the other: every task once');
WITH RECURSIVE page AS (
    SELECT array_agg(task_id ORDER BY task_id) AS ids FROM taskq_list(max_rows => 10000, with_payload => false)
     UNION ALL
    SELECT (SELECT array_agg(task_id ORDER BY task_id) FROM taskq_list(after => p.ids[cardinality(p.ids)], max_rows => 10000, with_payload => false))
      FROM page p WHERE p.ids IS NOT NULL
), listed AS (SELECT unnest(ids) AS task_id FROM page)
SELECT task_id, count(l.task_id) FROM (SELECT task_id FROM taskq.task UNION ALL SELECT task_id FROM taskq.archive) b
  FULL JOIN listed l USING (task_id) GROUP BY task_id HAVING count(l.task_id) <> 1 LIMIT 5
SQL
is($sql->("SELECT count(*) FROM (SELECT * FROM taskq.tasks ORDER BY task_id DESC) t"), $total + 200, 'the view has every task once, too');

# --- a range that is not in the order of ids, and has too many rows
$sql->("SELECT count(*) FROM taskq_submit_many('crowd', array_fill('1'::jsonb, ARRAY[5000]), correlation_id => 'crowd')") for 1 .. 21;
for my $newest ('false', 'true')
{
	is($sql->(<<SQL), 't', "newest_first => $newest: a page of a crowd has each task once");
SELECT l.ids = t.ids FROM
    (SELECT array_agg(task_id) AS ids FROM (SELECT task_id FROM taskq_list(filter => '{"correlation_id": "crowd"}', max_rows => 20, newest_first => $newest, max_examined => 1000000)) f) l,
    (SELECT array_agg(task_id) AS ids FROM (SELECT task_id FROM taskq.task WHERE correlation_id = 'crowd' ORDER BY CASE WHEN $newest THEN -task_id ELSE task_id END LIMIT 20) c) t
SQL
}
$sql->("SELECT taskq_drop_queue('crowd', true)");

# --- pages while tasks are submitted and finish: 4 clients
$sql->('SELECT count(*) FROM taskq_submit_many(\'moving\', array_fill(\'1\'::jsonb, ARRAY[3000]))');
my ($first, $last) = split /\|/, $sql->("SELECT min(task_id), max(task_id) FROM taskq.tasks WHERE queue = 'moving'");
my $parent = $$;
my @clients;
for my $n (1 .. 4)
{
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		my $failed = 1;
		eval {
			my $psql = $node->background_psql('postgres', on_error_stop => 0);
			my $end = time + 60;
			while (getppid == $parent && time < $end)
			{
				$psql->query(<<'SQL');
SELECT count(taskq_submit('moving', '2')) FROM generate_series(1, 3);
SELECT count(taskq_complete(task_id, token)) FROM taskq_claim('moving', 'w', max_tasks => 2);
SELECT count(taskq_fail(task_id, token, 'e', false)) FROM taskq_claim('moving', 'w');
SQL
			}
			$failed = 0;
		};
		POSIX::_exit($failed);
	}
	push @clients, $pid;
}
ok(within(30, sub { $sql->("SELECT count(*) FROM taskq_list('moving', 'done')") > 10 }), 'tasks move');
my ($wrong, $moved) = ('', 0);
for my $round (1 .. 12)
{
	my $newest = $round % 2 ? 'true' : 'false';
	my $size = 101 + 97 * $round;
	my $before = $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'moving' AND finished_at IS NOT NULL");
	my $after = $newest eq 'true' ? $last + 1 : $first - 1;
	my (@seen, @page);

	# each page in a transaction of its own
	do
	{
		@page = split /\n/, $sql->("SELECT task_id FROM taskq_list('moving', after => $after, max_rows => $size, newest_first => $newest)");
		$after = $page[-1] if @page;
		push @seen, @page;
	} while (@page == $size && @seen < 20_000);
	@seen = grep { $_ >= $first && $_ <= $last } @seen;
	my %once = map { $_ => 1 } @seen;
	$wrong .= "round $round: " . @seen . ' seen, ' . keys(%once) . " different\n"
	  if @seen != 3000 || keys %once != 3000;
	my $sorted = join ',', sort { $newest eq 'true' ? $b <=> $a : $a <=> $b } @seen;
	$wrong .= "round $round: not in order\n" if $sorted ne join ',', @seen;
	$moved += $sql->("SELECT count(*) FROM taskq.tasks WHERE queue = 'moving' AND finished_at IS NOT NULL") - $before;

	# one statement sees each task once, in whatever table it is
	my $view = $sql->("SELECT count(*), count(DISTINCT task_id) FROM taskq.tasks WHERE queue = 'moving' AND task_id BETWEEN $first AND $last");
	$wrong .= "round $round: the view has $view\n" if $view ne '3000|3000';
	my $list = $sql->("SELECT count(*), count(DISTINCT task_id) FROM taskq_list('moving', max_rows => 10000) WHERE task_id BETWEEN $first AND $last");
	$wrong .= "round $round: one list has $list\n" if $list ne '3000|3000';
}
kill 'TERM', @clients;
waitpid $_, 0 for @clients;
is($wrong, '', 'each task on pages that are read at the same time is there once, in order');
cmp_ok($moved, '>', 0, "while $moved finished");

# --- finished tasks are counted: exactly if they are few, with a delay if they
# are many
is($sql->("SELECT done, counted_at > clock_timestamp() - interval '5 s' FROM taskq.queues WHERE queue = 'q199'"),
	$sql->("SELECT count(*), true FROM taskq.tasks WHERE queue = 'q199' AND state = 'done'"), 'few tasks are counted immediately');
ok(within(120, sub {
	$sql->("SELECT done, dead FROM taskq.queues WHERE queue = 'moving'") eq
	  $sql->("SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state = 'dead') FROM taskq.tasks WHERE queue = 'moving'") }),
	'many tasks are counted after a while');
$sql->("SELECT taskq_purge('q1', '{done}')");
ok(within(120, sub { $sql->("SELECT done FROM taskq.queues WHERE queue = 'q1'") eq '0' }), 'purged tasks are no longer counted');
sound($node);
$node->stop('fast');
done_testing();

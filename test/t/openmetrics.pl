# The text of taskq_openmetrics() is read by the programs that it is for: the
# format openmetrics by the OpenMetrics parser of python3-prometheus-client, the
# format prometheus by "promtool check metrics". Both have the values of
# taskq.metrics, whatever the names of queues, the encoding, and what clients do
# at the same time. It works without preloading, on a standby, after a crash.
# expect-log: was terminated by signal 9
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my ($python) = grep { system("$_ -c 'import prometheus_client.openmetrics.parser' 2>/dev/null") == 0 } '/usr/bin/python3', 'python3';
my $promtool = ($ENV{TASKQ_UNPACKED} // '') . '/package-prometheus/usr/bin/promtool';
plan skip_all => 'needs python3-prometheus-client, and prometheus unpacked' unless $python && -x $promtool;

my $node = start_node('openmetrics', init => { allows_streaming => 1 }, 'autovacuum' => 'off', 'restart_after_crash' => 'on');
my $sql = sub { $node->safe_psql('postgres', shift) };

# What the parsers of Prometheus make of a text: {name{labels} => value}. The
# format prometheus is read by the parser for that.
my $parse = <<'PYTHON';
import json, sys
if sys.argv[1] == 'openmetrics':
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
else:
    from prometheus_client.parser import text_string_to_metric_families
found = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation, family.name
    assert family.type != 'unknown', family.name
    for s in family.samples:
        key = s.name + json.dumps(sorted(s.labels.items()), ensure_ascii=False)
        assert key not in found, key
        found[key] = s.value
sys.stdout.write(json.dumps(found))
PYTHON

# text(FORMAT, NODE, DATABASE): exactly as the function returns it
sub text
{
	my ($format, $where, $database) = @_;
	my $hex = ($where // $node)->safe_psql($database // 'postgres', "SELECT encode(convert_to(taskq_openmetrics('$format'), 'UTF8'), 'hex')");
	return pack('H*', $hex);
}

# samples(TEXT, FORMAT, WHAT)
sub samples
{
	my ($text, $format, $what) = @_;
	my ($out, $err) = ('', '');
	ok(IPC::Run::run([ $python, '-c', $parse, $format ], '<', \$text, '>', \$out, '2>', \$err), "$what: $format is parsed") or diag($err);
	return $out ? decode_json($out) : {};
}

# check(TEXT, WHAT): by promtool, which prints its complaints
sub check
{
	my ($text, $what) = @_;
	my ($out, $err) = ('', '');
	my $done = IPC::Run::run([ $promtool, 'check', 'metrics' ], '<', \$text, '>', \$out, '2>', \$err);
	ok($done && "$out$err" eq '', "$what: promtool has no complaint") or diag("$out$err");
	return;
}

# same(SAMPLES, SAMPLES): the names that differ; ages and shares change
sub same
{
	my ($one, $other) = @_;
	my %all = (%$one, %$other);
	return join ' ', grep { !/^taskq_\w*(age|running)_seconds|dead_share/ || !exists $one->{$_} || !exists $other->{$_} }
	  grep { ($one->{$_} // 'none') ne ($other->{$_} // 'none') } sort keys %all;
}

# --- queues with all kinds of names, with tasks in all states
my @names = ('plain', 'with "quotes"', "it's", 'back\\slash', '\\', '"', 'a\\nb', '{le="1"}', 'Grüße 東京 🚀', '# HELP x', 'x} 1', '%s', 'x' x 190);
my $list = join ', ', map { "\$q\$$_\$q\$" } @names;
$sql->("SELECT taskq_create_queue(q, '{\"retry_base\": \"0 s\"}') FROM unnest(ARRAY[$list]) q");
$sql->("SELECT count(*) FROM unnest(ARRAY[$list]) WITH ORDINALITY q (name, n), LATERAL taskq_submit_many(name, array_fill('1'::jsonb, ARRAY[n::int * 10]))");
$sql->("SELECT count(taskq_complete(task_id, token)) FROM unnest(ARRAY[$list]) q, LATERAL taskq_claim(q, max_tasks => 4)");
$sql->("SELECT count(taskq_fail(task_id, token, 'e')) FROM unnest(ARRAY[$list]) q, LATERAL taskq_claim(q, max_tasks => 3)");
$sql->("SELECT count(taskq_fail(task_id, token, 'e', false)) FROM unnest(ARRAY[$list]) q, LATERAL taskq_claim(q, max_tasks => 2)");
$sql->("SELECT taskq_register('w', queues => ARRAY['plain']), count(c) FROM unnest(ARRAY[$list]) q, LATERAL taskq_claim(q, 'label') c");
for my $name ("a\nb", "a\tb", "a\x{7f}b")
{
	is(error_of($node, "SELECT taskq_create_queue(E'" . join('', map { sprintf '\\x%02x', ord } split //, $name) . "')"), '22023', 'control characters are refused');
}
$sql->("UPDATE taskq.archive SET finished_at = finished_at - interval '1 h' WHERE task_id = (SELECT min(task_id) FROM taskq_list('plain', 'dead'))");
ok(within(60, sub {
		$sql->('SELECT count(*) FROM taskq_run_reapers()');
		$sql->("SELECT d.value, a.value > 3600 FROM taskq.metrics d, taskq.metrics a WHERE d.queue = 'plain' AND d.name = 'tasks.dead' AND a.queue = 'plain' AND a.name = 'tasks.oldest_dead_age'") eq '2|t';
	}), 'dead tasks are counted, and the oldest is found');

my $text = text('openmetrics');
my $all = samples($text, 'openmetrics', 'all kinds of names');
like($text, qr/\n# EOF\n\z/, 'the last line is that of OpenMetrics');
my $plain = text('prometheus');
check($plain, 'all kinds of names');
is(same($all, samples($plain, 'prometheus', 'all kinds of names')), '', 'both formats have the same samples');
for my $i (0 .. $#names)
{
	my $labels = do { my $l = JSON::PP->new->utf8->ascii(0)->encode([ [ 'queue', do { my $n = $names[$i]; utf8::decode($n); $n } ] ]); utf8::decode($l); $l =~ s/","/", "/; $l };
	is($all->{"taskq_tasks_submitted_total$labels"}, ($i + 1) * 10, "queue $i: its name, and its number") or diag($labels);
}
my %of_view = map { split /\|/, $_, 2 } split /\n/, $sql->(<<'SQL');
SELECT name || coalesce(' ' || (SELECT max(value) FROM jsonb_each_text(labels)), ''), value FROM taskq.metrics
 WHERE queue = 'plain' AND kind <> 'histogram' AND name !~ 'age|longest'
SQL
is(scalar(grep { /^taskq_/ && !/_seconds/ && /"plain"/ } keys %$all), scalar(keys %of_view), 'the samples of a queue are those of the view');
for my $name (sort keys %of_view)
{
	my ($metric, $label) = split / /, $name;
	$metric =~ tr/./_/;
	my ($key) = grep { /^taskq_${metric}(_total)?\[/ && /"plain"/ && (!defined $label || /"\Q$label\E"/) } keys %$all;
	is($all->{ $key // '' }, $of_view{$name}, "$name: the value of the view");
}
my $of = sub { my ($samples, $name, $more) = @_; return $samples->{"taskq_$name\[" . ($more // '') . '["queue", "plain"]]'} };
is($of->($all, 'tasks_retries_waiting'), 3, 'retries');
cmp_ok($of->($all, 'tasks_longest_running_seconds'), '>', 0, 'a task is running');
cmp_ok($of->($all, 'tasks_oldest_dead_age_seconds'), '>', 3600, 'the oldest dead task');
is($all->{'taskq_workers[["state", "active"]]'}, 1, 'a worker is registered');
is($all->{'taskq_background_worker_up[]'}, 1, 'the background worker runs');
cmp_ok($all->{'taskq_ids_used_ratio[]'}, '<', 1e-9, 'few ids are used');

# --- no label names a task, a worker, a process or a user
unlike($text, qr/\b(task_id|worker|pid|user|application)=/, 'no label of a task or worker');
my $held = $node->background_psql('postgres');
$held->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class');
cmp_ok(samples(text('openmetrics'), 'openmetrics', 'a held snapshot')->{'taskq_snapshot_oldest_age_seconds[]'}, '>', 0, 'its age is shown');
is($node->safe_psql('postgres', "SELECT labels, value > 0 FROM taskq.metrics WHERE name = 'snapshot.oldest_age'"), '{}|t', 'nor has the view a label of its session');
$held->quit;

# --- while clients work: each text is consistent in itself
$sql->(q{SELECT taskq_create_queue('busy', '{"retention": "none"}')});
my $clients = start_clients($node, 4, "SELECT taskq_submit('busy');\nSELECT taskq_complete(task_id, token) FROM taskq_claim('busy');\n" x 200);
my $wrong = 0;
for (1 .. 10)
{
	my $now = samples(text('openmetrics'), 'openmetrics', 'while clients work');
	my ($claimed) = map { $now->{"taskq_tasks_claimed_total[[\"queue\", \"busy\"]]"} } 1;
	$wrong++ if $claimed != $now->{'taskq_tasks_queue_wait_seconds_count[["queue", "busy"]]'};
}
is($wrong, 0, 'the histogram of waits has as many as there are claims');
end_clients($clients);

# --- a standby: gauges by counting, no counters before its promotion
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
my $there = samples(text('openmetrics', $standby), 'openmetrics', 'a standby');
is($of->($there, 'tasks_retries_waiting'), 3, 'a standby counts retries');
is($there->{'taskq_tasks_depth[["queue", "plain"], ["state", "running"]]'}, 1, 'and running tasks');
cmp_ok($of->($there, 'tasks_longest_running_seconds'), '>', 0, 'it knows their claims');
is($there->{'taskq_background_worker_up[]'}, 0, 'it has no background worker');
$standby->stop('fast');

# --- another encoding
$sql->(q{CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
$node->safe_psql('latin', 'CREATE EXTENSION taskq');
$node->safe_psql('latin', "SET client_encoding = 'UTF8'; SELECT taskq_submit('Grüße')");
is(samples(text('openmetrics', $node, 'latin'), 'openmetrics', 'LATIN1')->{"taskq_tasks_submitted_total[[\"queue\", \"Gr\x{fc}\x{df}e\"]]"}, 1, 'names are converted');

# --- after a crash counters begin at zero; the worker that has died is noticed
kill 'KILL', worker_pid($node);
ok(within(60, sub { (eval { $sql->('SELECT 1') } // '') eq '1' }), 'the server recovers');
my $after = samples(text('openmetrics'), 'openmetrics', 'after a crash');
is($of->($after, 'tasks_submitted_total'), 0, 'counters begin at zero');
is($of->($after, 'tasks_retries_waiting'), 3, 'gauges are right');
cmp_ok($after->{'taskq_metrics_start_time_seconds[]'}, '>', $all->{'taskq_metrics_start_time_seconds[]'}, 'the start is later');
sound($node, crashes => 1);
$node->stop('fast');

# --- without preloading: gauges
my $unloaded = PostgreSQL::Test::Cluster->new('unloaded');
$unloaded->init;
$unloaded->start;
$unloaded->safe_psql('postgres', 'CREATE EXTENSION taskq');
$unloaded->safe_psql('postgres', q{SELECT taskq_create_queue('plain', '{"retry_base": "0 s"}')});
$unloaded->safe_psql('postgres', "SELECT taskq_submit('plain') FROM generate_series(1, 3)");
$unloaded->safe_psql('postgres', "SELECT taskq_fail(task_id, token, 'e') FROM taskq_claim('plain')");
$unloaded->safe_psql('postgres', "SELECT taskq_fail(task_id, token, 'e', false) FROM taskq_claim('plain')");
$unloaded->safe_psql('postgres', 'SELECT count(*) FROM taskq_run_reapers()');
my $gauges = samples(text('openmetrics', $unloaded), 'openmetrics', 'without preloading');
check(text('prometheus', $unloaded), 'without preloading');
is($of->($gauges, 'tasks_retries_waiting'), 1, 'retries are counted');
is($of->($gauges, 'tasks_dead'), 1, 'dead tasks are counted');
is(join(' ', grep { /_total|_bucket/ } keys %$gauges), '', 'there are no counters and histograms');
$unloaded->stop('fast');
done_testing();

# The files of monitoring/ with Debian's Prometheus and three exporters at the
# same time: promtool accepts what is shipped; panels and rules are complete;
# all exporters give exactly the samples of taskq_openmetrics(); every
# expression of the dashboard has data; every alert fires in the state that it
# is for and ends after it. Processes end with the one that started them.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../../demo";
use Monitoring;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $BOUND = 60;    # seconds, for anything, on a machine that is busy

my $top = "$FindBin::Bin/../..";
my $shipped = "$top/monitoring";
my @exporters = Monitoring::exporters();
my $promtool = Monitoring::program('prometheus', 'promtool');
my @missing = grep { !defined Monitoring::program($_) } Monitoring::packages(@exporters);
plan skip_all => "needs the Debian packages @missing, unpacked" if @missing;

my $begun = time;
my $place = PostgreSQL::Test::Utils::tempdir_short();

# --- what is shipped
# accepted(NAME, ARGUMENT...): promtool has no complaint
sub accepted
{
	my ($name, @arguments) = @_;
	my $done = IPC::Run::run([ $promtool, 'check', @arguments ], '<', \'', '>', \my $out, '2>', \my $err);
	return ok($done && "$out$err" !~ /FAIL|error|warn/i, "promtool accepts $name") || diag("$out$err");
}

mkdir "$place/etc";
Monitoring::spew("$place/etc/$_->[0]", slurp_file("$shipped/$_->[1]"))
  for [ 'prometheus.yml', 'prometheus.yml' ], [ 'taskq-alerts.yml', 'alerts.yml' ];
accepted('alerts.yml', 'rules', "$place/etc/taskq-alerts.yml");
accepted('prometheus.yml', 'config', "$place/etc/prometheus.yml");

my @panels = Monitoring::panels($shipped);
is(join("\n", grep { defined } map { $_->{title} || "panel $_->{id}" } grep { !($_->{title} && $_->{description} && $_->{fieldConfig}{defaults}{unit} && @{ $_->{targets} // [] }) } @panels),
	'', 'every panel has a title, a description, a unit and expressions');
my %seen;
is(join("\n", grep { $seen{$_}++ } map { ($_->{title}, "panel $_->{id}") } @panels), '', 'no two panels have the same title or id');
my @expressions = Monitoring::expressions($shipped);
is(join("\n", grep { !$_->[1] || Monitoring::plain($_->[1]) =~ /\$/ } @expressions), '', 'expressions use only variables that are known');
# what Grafana shows is in the list: nothing else in the file is an expression
my $dashboard = slurp_file("$shipped/grafana/taskq.json");
is(scalar(() = $dashboard =~ /"expr"\s*:/g), scalar(grep { $_->[0] =~ /^panel/ } @expressions), 'every expression of the dashboard is tested');
my $rules = slurp_file("$shipped/alerts.yml");
my @alerts = map { $_->[0] } Monitoring::rules($shipped);
is(scalar(() = $rules =~ /\bexpr:/g), scalar @alerts, 'so is every expression of the rules');
is(scalar(() = $rules =~ /^        for: \w+$/mg), scalar @alerts, 'every rule has a duration');
is(scalar(() = $rules =~ /^          severity: (?:page|ticket)$/mg), scalar @alerts, 'every rule has a severity');
is(scalar(() = $rules =~ /^          summary: '.+'$/mg), scalar @alerts, 'every rule has a summary');

# heading_exists(LINK): as a page of doc/ has it
sub heading_exists
{
	my ($path, $heading) = split /#/, shift;
	return 0 if !-e "$top/$path";
	return 1 if !defined $heading;
	return scalar grep { my $words = lc s/^#+ //r; $words =~ s/[^-a-z0-9_ ]//g; $words =~ tr/ /-/; $words eq $heading }
	  grep { /^#+ / } split /\n/, slurp_file("$top/$path");
}
my @remedies = $rules =~ m{^          remedy: '[^'\n]+: (doc/[\w/#.-]+)'$}mg;
is(scalar @remedies, scalar @alerts, 'every rule has a remedy of one line with a page');
is(join(' ', grep { !heading_exists($_) } @remedies), '', 'these pages exist');
sub words { return join ' ', split ' ', $_[0] }
my ($query) = map { words($_) } slurp_file("$shipped/sql-exporter.yml") =~ /query: \|\n(.*)/s;
like(words(slurp_file("$shipped/postgres-exporter.yml")), qr/\Q$query\E metrics:/, 'both exporters have the same query');

# --- a server, and what reads it
my $node = start_node('monitoring', 'taskq.reaper_interval' => "'1s'");
my $sql = sub { $node->safe_psql('postgres', shift) };
$sql->('CREATE ROLE taskq_monitor LOGIN IN ROLE pg_monitor');
# labels with all that has to be escaped
$sql->(q{SELECT taskq_create_queue(E'a"b\\\\c,state="\xc3\xa9')});
my %monitors;
for my $exporter (@exporters)
{
	mkdir "$place/$exporter";
	$monitors{$exporter} = Monitoring::start(
		dir => "$place/$exporter",
		shipped => $shipped,
		exporter => $exporter,
		host => $node->host,
		port => $node->port,
		database => 'postgres',
		user => 'taskq_monitor');
}

# everywhere(CODE): the exporters for which it is not true, within the bound
sub everywhere
{
	my ($code) = @_;
	my @left = @exporters;
	within($BOUND, sub {
		@left = grep { !$code->($monitors{$_}) } @left;
		return !@left;
	});
	return join ' ', @left;
}

sub fires
{
	my ($alert, $why) = @_;
	return is(everywhere(sub { $_[0]->firing->{$alert} }), '', "$alert fires: $why");
}

sub ends
{
	my ($alert, $why) = @_;
	return is(everywhere(sub { !$_[0]->firing->{$alert} }), '', "$alert ends: $why");
}

is(everywhere(sub { $_[0]->numbers('taskq_background_worker_up == 1') && !%{ $_[0]->firing } }), '', 'no alert fires at the beginning');
# this takes longest
my $snapshot = open_session($node);
$snapshot->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');

# --- data for each expression of the dashboard
$node->psql('postgres', slurp_file("$top/demo/monitoring.sql"), on_error_die => 1);
my $load = IPC::Run::start([ 'psql', '-XqAt', '-d', $node->connstr('postgres'), '-c', 'CALL demo.work()' ], '<', \'', '>', \my $out, '2>', \my $err);
for my $exporter (@exporters)
{
	my %left = map { @$_[ 1, 0 ] } grep { $_->[0] =~ /^panel/ } @expressions;
	within($BOUND, sub {
		for my $expression (sort keys %left)
		{
			delete $left{$expression} if $monitors{$exporter}->numbers($expression);
		}
		return !%left;
	});
	is(join("\n", map { "$left{$_}: $_" } sort keys %left), '', "$exporter: every expression of the dashboard has data");
}
fires('TaskqDeadLettersGrowing', 'tasks become dead');
$sql->('UPDATE demo.load SET goes_on = false');
$load->finish;
is($err, '', 'the load meets no error');
# retries that wait would become old
$sql->("SELECT count(taskq_cancel(task_id)) FROM taskq_list('mail', 'pending', max_rows => 1000)");

# --- the same samples as taskq_openmetrics(), by all exporters
# Times that pass between two scrapes are left out.
my $passes = qr/_age_seconds|_longest_running_|_dead_share_|_ready|_retries_/;

# in_server(): "name{labels} value", sorted
sub in_server
{
	my @samples;
	for (split /\n/, $sql->("SELECT taskq_openmetrics('prometheus')"))
	{
		next if /^(?:#|$)/;
		my ($name, $text, $value) = /^(\w+)(?:\{(.*)\})? (\S+)$/ or die "odd line: $_";
		my %labels;
		while (($text // '') =~ /(\w+)="((?:[^"\\]|\\.)*)"/g)
		{
			my ($label, $of) = ($1, $2);
			$labels{$label} = $of =~ s/\\(.)/$1/gr;
		}
		push @samples, sample($name, $value, %labels);
	}
	return join "\n", sort @samples;
}

sub sample
{
	my ($name, $value, %labels) = @_;
	my $shown = $name =~ $passes ? '' : sprintf ' %.12g', $value;
	# 1.0 and 1 are the same bound
	$labels{le} = $labels{le} + 0 if defined $labels{le} && $labels{le} ne '+Inf';
	return "$name {" . join(',', map { $labels{$_} eq '' ? () : "$_=$labels{$_}" } sort keys %labels) . "}$shown";
}

sub in_prometheus
{
	my ($monitor) = @_;
	my @samples;
	for ($monitor->query('{__name__=~"taskq_.+"}'))
	{
		my ($labels, $value) = @$_;
		my %labels = %$labels;
		my ($name) = delete @labels{qw(__name__ job instance)};
		utf8::encode($_) for values %labels;
		push @samples, sample($name, $value, %labels);
	}
	return join "\n", sort @samples;
}
for my $exporter (@exporters)
{
	my ($wanted, $got);
	within($BOUND, sub {
		$wanted = in_server();
		$got = in_prometheus($monitors{$exporter});
		return $wanted eq $got;
	});
	is($got, $wanted, "$exporter: all samples of the server, and no others");
}

# --- each alert fires and ends
$sql->(<<'SQL');
SELECT count(*) FROM taskq.dead, taskq_resolve(task_id)
SQL
ends('TaskqDeadLettersGrowing', 'no dead task is left');

$sql->("SELECT count(*) FROM taskq_submit_many('idle', array_fill('1'::jsonb, ARRAY[2]))");
fires('TaskqNoLiveWorker', 'tasks are ready, and no worker claims');

# The clock goes forward, and the background worker does nothing. It does not
# have the row of the operation when it is stopped.
my $operation = $sql->(<<'SQL');
BEGIN;
CREATE TEMP TABLE begun AS SELECT taskq_manage_where('cancel', 'idle', dry_run => true) AS op;
SELECT op FROM begun WHERE taskq_pause_operation(op);
COMMIT;
SQL
my $worker = worker_pid($node);
kill 'STOP', $worker;
$sql->("SELECT taskq_resume_operation($operation)");
$sql->("ALTER SYSTEM SET taskq.debug_clock_skew = '400s'");
$node->reload;
fires('TaskqReapersSilent', 'the background worker is stopped');
fires('TaskqOldestReadyTooOld', 'a task has been due for 400 seconds');
fires('TaskqOperationStuck', 'so has an operation');
kill 'CONT', $worker;
ends('TaskqReapersSilent', 'the background worker continues');
ends('TaskqOperationStuck', 'so does the operation');
is($sql->("SELECT state, counted FROM taskq.operations WHERE operation_id = $operation"), 'done|2', 'and ends');
$sql->("SELECT task_id, token FROM taskq_claim('idle', 'slow')");
ends('TaskqNoLiveWorker', 'a worker has claimed a task');
ok($monitors{$_}->firing->{TaskqOldestReadyTooOld}, "$_: the other task still waits") for @exporters;
$sql->("SELECT task_id, token FROM taskq_claim('idle', 'slow')");
ends('TaskqOldestReadyTooOld', 'no task waits');

# The launcher is stopped, so that no other background worker starts.
my $launcher = $sql->("SELECT pid FROM pg_stat_activity WHERE backend_type = 'taskq launcher'");
like($launcher, qr/^\d+$/, 'there is a launcher');
kill 'STOP', $launcher;
$sql->("SELECT pg_terminate_backend($worker)");
fires('TaskqReapersSilent', 'the background worker does not run');
kill 'CONT', $launcher;
ends('TaskqReapersSilent', 'it runs again');

my $id = $sql->('SELECT last_value FROM taskq.task_id_seq');
$sql->("SELECT setval('taskq.task_id_seq', (0.85 * 8796093022207)::bigint)");
fires('TaskqIdsRunOut', '85 percent of the ids are used');
$sql->("SELECT setval('taskq.task_id_seq', $id)");
ends('TaskqIdsRunOut', 'they are not');

fires('TaskqSnapshotHeldTooLong', 'a transaction has had a snapshot for a minute');
$snapshot->query_safe('COMMIT');
$snapshot->quit;
ends('TaskqSnapshotHeldTooLong', 'it has ended');

my $tested = join ' ',
  qw(TaskqDeadLettersGrowing TaskqIdsRunOut TaskqNoLiveWorker TaskqOldestReadyTooOld TaskqOperationStuck TaskqReapersSilent TaskqSnapshotHeldTooLong);
is(join(' ', sort @alerts), $tested, 'every alert was tested');
for my $exporter (@exporters)
{
	is(join("\n", $monitors{$exporter}->problems), '', "$exporter: no rule is in error");
}

# --- nothing is left
$monitors{$_}->stop for @exporters;
mkdir "$place/killed";
my $parent = fork // die "cannot fork: $!";
if ($parent == 0)
{
	my $own = Monitoring::start(
		dir => "$place/killed",
		shipped => $shipped,
		exporter => 'sql',
		host => $node->host,
		port => $node->port,
		database => 'postgres',
		user => 'taskq_monitor');
	Monitoring::spew("$place/pids.tmp", join ' ', values %{ $own->{pids} });
	rename "$place/pids.tmp", "$place/pids";
	Monitoring::pause() while 1;
}
my $started = within($BOUND, sub { -e "$place/pids" });
kill 'KILL', $parent;
waitpid $parent, 0;
my @pids = $started ? split / /, slurp_file("$place/pids") : ();
is(scalar @pids, 2, 'Prometheus and an exporter are started by a process that is killed');
ok(within($BOUND, sub { !grep { kill 0, $_ } @pids }), 'they end with it');

sound($node);
$node->stop('fast');
my $took = time - $begun;
note(sprintf 'figure: %.0f seconds', $took);
done_testing();

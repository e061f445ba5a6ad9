# Every part of the benchmark runs, with numbers so small that its figures mean
# nothing, and leaves results that bench/report can read. A system that fails or
# does no work is an error. An interrupted run leaves nothing. The report
# calculates as documented and refuses files that are not results.
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $BOUND = 180;    # seconds, for anything, on a machine that is busy

my $top = "$FindBin::Bin/../..";
my %tiny = (
	FSYNC => 'off', SHARED_BUFFERS => '32MB', SYSTEMS => 'taskq raw limit', ROUNDS => 1, TRANSACTIONS => 10,
	CLIENTS => 2, LOADED => 1000, BACKLOGS => '50 100', BACKLOG_CLIENTS => 2, RUNNING => 100,
	RUNNING_CLIENTS => 2, HELD_CLIENTS => 2, HELD_LOADED => 20, HELD_STEP => 1, HELD_KINDS => 'fifo',
	WAITERS => '1 3', SAMPLES => 3, WORK_MS => 1, WORKERS => 2, PRODUCERS => 2, IDLE_WAITERS => 3,
	IDLE_SECONDS => 1, BOUND_SAMPLES => 2, LANES => 5, LANE_TASKS => 3, MATCHING => 10, MATCHING_TASKS => 5,
	LIMIT_CLIENTS => 2, BEATING => 50, BEAT_WARM => 1, BEAT_SECONDS => 1, COST_TASKS => 50, DISK_TASKS => 1000, EMPTY_CLIENTS => 2, LIST_TASKS => 5, FILTER_TASKS => 2200,
	KEYS => 20, KEY_CLIENTS => 2, KEY_BEHIND => 50, KEY_JUNCTION => 20,
	FLOW_SAMPLES => 4, FLOW_WIDE => 5, FLOW_HUGE => 20, FLOW_READY => 20, FLOW_CLIENTS => 2, FLOW_LOADED => 20,
	FLOW_LIVE => '5 10', FLOW_COST => 10);
$tiny{TASKQ_BIN} = $ENV{TASKQ_BIN_RELEASE};

my @parts = map { m{(\w+)\.sh$} } sort glob "$top/bench/parts/*.sh";

# with_settings(CODE, %settings): run CODE with these settings in the
# environment
sub with_settings
{
	my ($code, %settings) = @_;
	local %ENV = (%ENV, %tiny, %settings);
	return $code->();
}

# bench(%settings): the exit status and the output
sub bench
{
	my (%settings) = @_;
	return with_settings(sub {
		my $said;
		IPC::Run::run([ 'bash', "$top/bench/run" ], '<', \undef, '>&', \$said);
		return ($? >> 8, $said);
	}, %settings);
}

# report(DIRECTORY, [PAGE, PICTURES]): the exit status and the output
sub report
{
	my @arguments = @_;
	my $said;
	IPC::Run::run([ 'perl', "$top/bench/report", @arguments, @arguments > 1 ? () : '-' ], '<', \undef, '>&', \$said);
	return ($? >> 8, $said);
}

# results(LINES): a directory with one part of these lines
sub results
{
	my @lines = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	append_to_file("$dir/work.tsv", join '', map { tr/;/\t/r . "\n" } @lines);
	return $dir;
}

# the ratio is the median of the rounds' ratios
my @good = (
	'fact;part;claiming', 'setting;ROUNDS;3',
	'value;work;taskq;1;tasks/s;90', 'value;work;limit;1;tasks/s;100',
	'value;work;limit;2;tasks/s;1000', 'value;work;taskq;2;tasks/s;800',
	'value;work;taskq;3;tasks/s;95', 'value;work;limit;3;tasks/s;100',
	'aim;good;work|taskq|tasks/s;>=;0.9;work|limit|tasks/s',
	'aim;bad;work|taskq|tasks/s;<=;94', 'aim;none;wake|taskq|ms;<=;1');
my ($status, $said) = report(results(@good, 'end'));
is($status, 0, 'results are read') or diag($said);
like($said, qr/^\| work \| taskq \| 95 \(90 to 800\) \| 0\.90 \|  \|$/m, 'median, spread and ratio are right');
like($said, qr/^\| good \| ≥ 0\.9 × limit \| 0\.90 \| met \|$/m, 'an aim that is met is reported as met');
like($said, qr/^\| bad \| ≤ 94 \| 95 \| \*\*missed\*\* \|$/m, 'an aim that is missed is reported as missed');
like($said, qr/^\| none \| ≤ 1 \|  \| not measured \|$/m, 'an aim that was not measured is reported so');

# a part that was measured again, next to other parts of the page
my $kept = PostgreSQL::Test::Utils::tempdir_short();
my $old = "## Old part\n\n    make bench PART=idle\n\n| aim | wanted | measured | |\n|---|---|---|---|\n"
  . "| old aim | ≥ 1 | 2 | met |\n\nfact old.\n";
append_to_file("$kept/page.md", "# Results\n\n## Aims\n\nnone\n\n$old\n## Work\n\n    make bench PART=work\n\nforgotten.\n");
($status, $said) = report(results(@good, 'end'), "$kept/page.md", "$kept/pictures");
is($status, 0, 'a page is written over another') or diag($said);
$said = slurp_file("$kept/page.md");
like($said, qr/^\Q$old\E/m, 'a part that was not measured stays on the page');
like($said, qr/^\| old aim .* met \|\n\n2 met, 1 missed, 1 not measured\.$/m, 'its aims stay, too');
unlike($said, qr/forgotten/, 'a part that was measured again is replaced');
($status, my $again) = report(results(@good, 'end'), "$kept/page.md", "$kept/pictures");
is(slurp_file("$kept/page.md"), $said, 'a second report changes nothing');

# files that are not results
my %refused = (
	'a run that did not finish is refused' => [@good],
	'nothing measured' => [ 'fact;part;claiming', 'end' ],
	'a value that is no number is refused' => [ @good, 'value;work;taskq;4;tasks/s;', 'end' ],
	'a round that occurs twice is refused' => [ @good, 'value;work;taskq;3;tasks/s;95', 'end' ],
	'an unknown line is refused' => [ @good, 'valve;work', 'end' ],
	'a line after the end is refused' => [ @good, 'end', 'note;more' ]);
for my $what (sort keys %refused)
{
	($status, $said) = report(results(@{ $refused{$what} }));
	is($status, 1, "refused: $what");
}

# too few tasks: one client gets no task, and that is no result
my $few = PostgreSQL::Test::Utils::tempdir_short();
($status, $said) = bench(TASKQ_TMP => $few, PART => 'work', SYSTEMS => 'raw', LOADED => 5);
is($status, 2, 'a client that gets no task is an error');
like($said, qr/^bench: raw: work failed with 2 clients/m, 'the error is reported');
is_deeply([ glob "$few/results/*" ], [], 'the run leaves no result');

# interrupted while it runs
my $stopped = PostgreSQL::Test::Utils::tempdir_short();
my $out = '';
my $run = with_settings(
	sub { IPC::Run::start([ 'bash', "$top/bench/run" ], '<', \undef, '>&', \$out) },
	TASKQ_TMP => $stopped, PART => 'work', SYSTEMS => 'raw', TRANSACTIONS => 1_000_000, LOADED => 1);
my $postmaster;
ok(within($BOUND, sub { $run->pump_nb; ($postmaster) = slurp_file("$stopped/bench/data/postmaster.pid") =~ /^(\d+)\n/; $out =~ /works correctly/ }),
	'a run is in progress');
$run->signal('TERM');
eval { $run->finish };
is($run->full_result(0) >> 8, 143, 'the run stops on a signal');
ok(within($BOUND, sub { !kill 0, $postmaster }), 'its server stops, too');
ok(!-e "$stopped/bench", 'nothing is left');

# every part, and the report on them
my $dir = PostgreSQL::Test::Utils::tempdir_short();
($status, $said) = bench(TASKQ_TMP => $dir, PART => "@parts");
is($status, 0, 'all parts run') or diag($said);
is_deeply([ map { m{(\w+)\.tsv$} } sort glob "$dir/results/*.tsv" ], \@parts, 'each part has its results');
like($said, qr/^## Aims.*\b0 not measured/ms, 'every aim is compared with what was measured');
unlike($said, qr/\| *\|.*\| missing|nan|inf\b/i, 'every figure is a number');
is(scalar(() = $said =~ /^    make bench PART=/mg), scalar @parts, 'the report has every part');
ok(!-e "$dir/bench", 'the server has stopped');
like($_, qr/^value\t/m, 'there are values') for map { slurp_file($_) } glob "$dir/results/*.tsv";

# the page and its pictures
my ($written, $words) = report("$dir/results", "$dir/page.md", "$dir/pictures");
is($written, 0, 'the page is written') or diag($words);
SKIP:
{
	skip 'gnuplot is not there', 1 unless grep { -x "$_/gnuplot" } split /:/, $ENV{PATH};
	is_deeply([ map { m{(\w+)\.svg$} } sort glob "$dir/pictures/*.svg" ],
		[ grep { my $of = $_ eq 'clients' ? 'work' : $_; grep { $_ eq $of } @parts } qw(clients held wake) ],
		'the pictures are written');
}

done_testing();

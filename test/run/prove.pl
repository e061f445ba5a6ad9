# prove.pl RESULT JOBS FILE...: run files that speak TAP by prove's own
# engine, and write the numbers of passed, failed and skipped cases to RESULT:
# prove prints them in words, and calls it a success when nothing ran.
#
# *.sql go to psql (as pg_prove does it), *.sh to bash, *.pl to perl. A file
# that ends badly, or not as planned, counts as one more failed case. With
# TASKQ_CPU the processor time of each file is reported.

use strict;
use warnings;
use FindBin;
use TAP::Harness;

my ($result, $jobs, @files) = @ARGV;

# The command that runs a file
sub command
{
	my ($harness, $file) = @_;
	my @program = program($file);

	unshift @program, $^X, "$FindBin::Bin/cpu.pl" if $ENV{TASKQ_CPU};
	return \@program;
}

sub program
{
	my ($file) = @_;
	return ('psql', '-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1',
		'-f', $file) if $file =~ /\.sql$/;
	return ('bash', $file) if $file =~ /\.sh$/;
	return ($^X, "-I$FindBin::Bin", '-MFirstFailure', $file)
	  if $ENV{TASKQ_FIRST_FAILURE};
	return ($^X, $file);
}

# The end of the log of a test of PostgreSQL::Test
sub show_log
{
	my ($file) = @_;
	my ($name) = $file =~ m{([^/]+)\.pl$} or return;
	my $log = ($ENV{TESTLOGDIR} // '') . "/regress_log_$name";

	open my $in, '<', $log or return;
	my @lines = <$in>;
	close $in;
	splice @lines, 0, @lines - 80 if @lines > 80;
	print "--- the end of the log of $name\n", @lines;
}

# What a test measured: its comments that begin with "figure:"
my %figures;

sub show_figures
{
	my ($file) = @_;
	print map { "    $_\n" } @{ $figures{$file} // [] };
	return;
}

my $harness = TAP::Harness->new({
	verbosity => 0,
	failures => 1,
	comments => 1,
	timer => 1,
	merge => 0,
	jobs => $jobs,
	exec => \&command,
});
$harness->callback(
	made_parser => sub {
		my ($parser, $job) = @_;
		my $file = ref $job eq 'ARRAY' ? $job->[0] : $job->filename;

		$parser->callback(
			comment => sub {
				my $text = $_[0]->comment;
				push @{ $figures{$file} }, $text =~ s/^figure: //r
				  if $text =~ /^figure: /;
			});
	});
my $all = $harness->runtests(@files);
my $failed = $all->failed;
my $skipped = $all->skipped + $all->todo;

foreach my $file ($all->descriptions)
{
	my ($parser) = $all->parsers($file);

	$skipped++ if defined $parser->skip_all;
	show_figures($file, $parser);
	next unless $parser->has_problems || $parser->exit;
	$failed++ unless $parser->failed;
	show_log($file);
}

open my $out, '>', $result or die "$result: $!";
printf $out "%d %d %d\n", $all->passed - $all->skipped, $failed, $skipped;
close $out or die "$result: $!";
exit($failed ? 1 : 0);

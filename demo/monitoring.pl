# monitoring.pl DIRECTORY EXPORTER: starts Prometheus and the exporter for the
# server of the variables PG*, and prints the answer of each expression of
# dashboard and alert rules.  Exit status: 0 every expression of the dashboard
# has data, and no rule is in error, otherwise 1.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Monitoring;
use Time::HiRes qw(time);

my $BOUND = 60;    # seconds, until all expressions have data
my $SHOWN = 3;    # lines of an answer

my ($dir, $exporter) = @ARGV;
my $shipped = "$FindBin::Bin/../monitoring";

sub line_of
{
	my ($labels, $value) = @{ $_[0] };
	my @words = map { "$_=\"$labels->{$_}\"" } grep { !/^(?:__name__|job|instance)$/ } sort keys %$labels;
	return sprintf '          %s%.6g', (@words ? '{' . join(', ', @words) . '} ' : ''), $value;
}

sub show
{
	my ($expression, @answer) = @_;
	my @lines = map { line_of($_) } @answer;
	my $more = @lines - $SHOWN;

	splice(@lines, $SHOWN, $more, "          and $more more") if $more > 0;
	print "      $expression\n", map { "$_\n" } @lines;
	return;
}

$| = 1;
local $SIG{TERM} = local $SIG{INT} = local $SIG{HUP} = sub { exit 1 };
for my $package (Monitoring::packages($exporter))
{
	die "demo: Debian's package $package is missing, and could not be fetched\n" if !defined Monitoring::program($package);
}
mkdir "$dir/monitoring" or die "demo: cannot make $dir/monitoring: $!\n";
print "==> starting Prometheus and the exporter \"$exporter\"\n";
my $monitoring = Monitoring::start(
	dir => "$dir/monitoring",
	shipped => $shipped,
	exporter => $exporter,
	host => $ENV{PGHOST},
	port => $ENV{PGPORT},
	database => $ENV{PGDATABASE},
	user => 'taskq_monitor');

my @panels = grep { $_->[0] =~ /^panel/ } Monitoring::expressions($shipped);
my %answers;
my $until = time + $BOUND;
while (1)
{
	my @empty = grep { !@{ $answers{ $_->[1] } //= [] } } @panels;
	$answers{ $_->[1] } = [ $monitoring->numbers($_->[1]) ] for @empty;
	last if !@empty || time > $until;
	Monitoring::pause();
}

my $wrong = 0;
my $title = '';
print "==> the expressions of the dashboard\n";
for my $panel (@panels)
{
	my ($name, $expression) = @$panel;
	print '    ', $name =~ s/^panel //r, "\n" if $name ne $title;
	$title = $name;
	show($expression, @{ $answers{$expression} });
	next if @{ $answers{$expression} };
	print "          WRONG: no data\n";
	$wrong = 1;
}
print "==> the expressions of the alert rules\n";
for my $rule (Monitoring::rules($shipped))
{
	my ($name, $expression) = @$rule;
	my @answer = $monitoring->numbers($expression);
	print "    $name: ", (@answer ? 'fires' : 'does not fire'), "\n";
	show($expression, @answer);
}
for ($monitoring->problems)
{
	print "    WRONG: $_\n";
	$wrong = 1;
}
$monitoring->stop;
exit $wrong;

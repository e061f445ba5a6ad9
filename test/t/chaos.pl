# Producers and workers act at random, while workers, backends and the server
# are killed, frozen and restarted. Then the rules of test/chaos are checked on
# the histories that the processes have written. test/chaos/README.md describes
# CHAOS_SECONDS and CHAOS_SEED.
# expect-log: terminated by signal 9
# (takes long)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../chaos/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Chaos::History;
use Chaos::Report;
use Chaos::Run;

my $seconds = $ENV{CHAOS_SECONDS} || 18;
my $seed = $ENV{CHAOS_SEED} || 1 + (time ^ $$) % 1_000_000;
my %least =
  $seconds < 60
  ? (acknowledged => 1000, unknown => 10, holders => 3, woken => 10, audited => 1, ordered => 100, released => 10, instances => 20, steps => 100)
  : (acknowledged => 5000, unknown => 50, holders => 10, woken => 50, audited => 1, ordered => 1000, released => 100, instances => 100, steps => 500);

# printed immediately, so that the seed is known even if the run does not finish
diag "chaos: SEED=$seed SECONDS=$seconds";
my $run = Chaos::Run->new(
	name => 'chaos', seconds => $seconds, seed => $seed, client => $ENV{TASKQ_CHAOS_CLIENT},
	rate => $ENV{CHAOS_RATE} || ($seconds < 60 ? 20 : 25),
	holders => 5 * $least{holders},    # of bound workers, and late ones, it is not sure
	dir => "$PostgreSQL::Test::Utils::tmp_check/chaos");
$run->sabotage;
ok($run->drain($seconds < 60 ? 40 : 90), 'after the faults all tasks end');
note sprintf 'figure: drained in %.1f s; %d actions were left out', $run->{drain_time}, $run->{left_out} // 0;
$run->write_final;
$run->stop;

my $history = Chaos::History::load_directory($run->{dir});
for my $result (Chaos::Report::judge($history))
{
	my ($number, $name, @bad) = @$result;
	my @lines = Chaos::Report::rule_lines($result);

	is(scalar @bad, 0, "rule $number: $name") or diag(join "\n", @lines);
	note "figure: $_" for @lines;
}
my $counts = Chaos::Report::counts($history);
note "figure: $_" for Chaos::Report::count_lines($counts);
is(join(', ', Chaos::Report::unexpected_errors($counts)), '', 'clients met only the errors of the contract');
is(join(', ', Chaos::Report::void($counts, %least)), '', 'the run did enough to count');
done_testing();

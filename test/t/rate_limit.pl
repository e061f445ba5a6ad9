# Eight clients claim for ten seconds from a queue whose limit is 100 tasks a
# second, and roll back about half of their claims. Their records show that the
# limit was reached, and never exceeded. Claims that are rolled back are
# returned to the limit.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use List::Util qw(min max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $COUNT = 100;
my $SECONDS = 10;

my $node = start_node('rate_limit');
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(<<'SQL');
SELECT taskq_create_queue('r', '{"max_attempts": -1, "rate_limit": {"count": 100, "per": "1 s"}}');
SELECT count(*) FROM taskq_submit_many('r', array_fill('{}'::jsonb, ARRAY[4000]));
SQL

my $clients = start_limit_clients($node, 'rate', 8, 1);
my $all_begin = sub { scalar(grep { -s } @{ $clients->{logs} }) == 8 };
ok(within(10, $all_begin), 'eight clients are at work');
within($SECONDS, sub { 0 });
end_clients($clients);

# Nanoseconds: the time of the first call, then begin and end of each kept
# claim.
my (@kept, %errors, %tasks, $began, $undone);
for (said($clients))
{
	my @word = split / /;

	if ($word[0] eq 'F')
	{
		$began = $word[1] if !defined $began || $word[1] < $began;
	}
	elsif ($word[0] eq 'U')
	{
		$undone++;
	}
	elsif ($word[0] eq 'C')
	{
		push @kept, { from => $word[1], to => $word[2] };
		$tasks{ $word[3] }++;
	}
	else
	{
		$errors{$_}++;
	}
}
is(join(' ', keys %errors), '', 'no errors');
is(scalar keys %tasks, scalar @kept, 'no task was claimed twice');

# Certainly made within [A, B]: sent after A, answered before B.
my @to = sort { $a <=> $b } map { $_->{to} } @kept;
my $in_ten = grep { $_ <= $began + $SECONDS * 1e9 } @to;
note sprintf 'figure: %d claims kept in %d s, %d rolled back', $in_ten, $SECONDS, $undone // 0;
cmp_ok($in_ten, '>=', 900, 'at least 900 claims');
cmp_ok($in_ten, '<=', 1100, 'at most 1,100 claims');
cmp_ok($undone, '>=', 100, 'many were rolled back (void otherwise)');

# The bucket is empty at first.
my $ahead = 0;
for my $i (0 .. $#to)
{
	my $allowed = $COUNT * ($to[$i] - $began) / 1e9;

	$ahead = max($ahead, $i + 1 - $allowed);
}
cmp_ok($ahead, '<=', 0.01, 'the first claims come at that rate, too');

# Of every window: the number of claims from one claim's beginning to another's
# end is at most count + count x time.
my ($most, $most_over) = (0, -1e9);
my @from = sort { $a->{from} <=> $b->{from} } @kept;
for my $i (0 .. $#from)
{
	my $begin = $from[$i]{from};
	my @inside = sort { $a <=> $b } map { $_->{to} } @from[ $i .. min($#from, $i + 600) ];

	for my $n (0 .. $#inside)
	{
		my $time = ($inside[$n] - $begin) / 1e9;

		$most = max($most, $n + 1) if $time <= 1;
		$most_over = max($most_over, $n + 1 - $COUNT - $COUNT * $time);
	}
}
note sprintf 'figure: at most %d claims in a window of 1 s', $most;
cmp_ok($most, '<=', 2 * $COUNT, 'not more than 200 in any second');
cmp_ok($most_over, '<=', 0.01, 'never more than 100 and 100 for each second');

# --- a claim that is rolled back later is returned, but only as far as the
# bucket would be full without it
$sql->(<<'SQL');
SELECT taskq_create_queue('slow', '{"rate_limit": {"count": 5, "per": "250 ms"}}');
SELECT count(*) FROM taskq_submit_many('slow', array_fill('{}'::jsonb, ARRAY[100]));
SQL
my $claim = 'SELECT count(*) FROM taskq_claim(\'slow\', max_tasks => 20, lease => \'1 h\')';
is($sql->("BEGIN; $claim; ROLLBACK"), '0', 'a bucket is empty in the beginning');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN');
my $got = 0;
ok(within(20, sub { ($got += $holder->query_safe($claim)) >= 5 }), 'a transaction takes what there is');
# in the meantime the bucket fills up
within(0.5, sub { 0 });
my $other = $node->background_psql('postgres');
$other->query_safe('BEGIN');
my $begin = time;
my $second = $other->query_safe($claim);
cmp_ok($second, '>=', 5, 'it is full again');
$holder->query_safe('ROLLBACK');
my $third = $other->query_safe($claim);
my $allowed = 5 + 20 * (time - $begin);
cmp_ok($second + $third, '<=', $allowed, 'claims that are rolled back are not added to a full bucket');
$other->query_safe('COMMIT');
$holder->quit;
$other->quit;
sound($node);
$node->stop('fast');
done_testing();

# Claims and submits are acknowledged and then lost in a crash, because
# synchronous_commit is off, or are rolled back. No id, and no pair of id and
# token, is used again, and a worker that still has such a pair is refused. The
# cases run with and without preloading.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

# only WAL that must be flushed is flushed, and a WAL page, which is written
# when it is full, has room for several statements
my %lazy = (
	'full_page_writes' => 'off',
	'synchronous_commit' => 'off',
	'wal_writer_delay' => "'10s'",
	'checkpoint_timeout' => "'1h'",
	'autovacuum' => 'off');
my $LOSSES = 4;
my $TRIES = 25;

my ($node, $name, %ids, %pairs);

sub sql { return $node->safe_psql($_[1] // 'postgres', $_[0]); }

# record the ids and pairs that were used; returns those that were known before
sub given
{
	my ($text, $database) = @_;
	my @again;

	for my $line (split /\n/, $text)
	{
		my ($what, $id, $token) = split /\|/, $line;

		push @again, "id $id" if $what eq 'id' && $ids{"$database $id"}++;
		push @again, "claim $id $token" if $what eq 'claim' && $pairs{"$database $id $token"}++;
	}
	return @again;
}

# Claim the task that was there before, and submit others: all of it is
# acknowledged, but perhaps only the first of them is on disk, with a bound that
# was raised for it. (Without preloading the session's first claim reserves
# tokens for it, and this is flushed.)
sub acknowledged
{
	my ($database) = @_;

	return sql(<<'SQL', $database);
SELECT FROM taskq_claim('warm') \g /dev/null
SELECT 'id', taskq_submit('new');
SELECT 'claim', task_id, token FROM taskq_claim('old', lease => '1 h');
SELECT 'id', taskq_submit('new');
SELECT 'claim', task_id, token FROM taskq_claim('new', lease => '1 h');
SQL
}

# one crash; true if something that was acknowledged is lost
sub crash
{
	my ($database, $how, $at_bound) = @_;

	sql(<<'SQL', $database);
SELECT taskq_complete(task_id, token) FROM taskq_claim('old') \g /dev/null
SELECT taskq_submit('old'), taskq_submit('warm') \g /dev/null
SQL
	# the next id raises the bound
	sql("SELECT setval('taskq.task_id_seq', greatest((SELECT last_value FROM taskq.task_id_bound_seq), (SELECT last_value FROM taskq.task_id_seq)))", $database)
	  if $at_bound;
	sql('CHECKPOINT');
	my $text = acknowledged($database);
	my @again = given($text, $database);
	is("@again", '', "$name: $database: nothing is given out again");
	if ($how eq 'kill') { $node->kill9; }
	else { $node->stop('immediate'); }
	die 'the server does not start' unless start_again($node);

	my ($new) = $text =~ /.*^id\|(\d+)/ms;
	my ($old, $token) = $text =~ /^claim\|(\d+)\|(\d+)$/m;
	my $lost = sql("SELECT (SELECT count(*) FROM taskq.tasks WHERE task_id = $new) = 0"
		  . " AND (SELECT state FROM taskq.tasks WHERE task_id = $old) = 'pending'", $database) eq 't';
	return (1, $old, $token) if $lost;
	return 0;
}

# Crash until something was lost often enough, also where a bound was raised.
sub crashes
{
	my ($database) = @_;
	my ($losses, $at_bound) = (0, 0);

	for my $n (1 .. $TRIES)
	{
		my $raises = int($n / 2) % 2;
		my ($lost, $old, $token) = crash($database, $n % 2 ? 'kill' : 'immediate', $raises);
		next unless $lost;
		$losses++;
		$at_bound += $raises;
		is(error_of($node, "SELECT taskq_complete($old, $token)", $database), 'TQ001',
			"$name: a worker whose claim was lost is refused");
		my $text = sql("SELECT 'claim', task_id, token FROM taskq_claim('old', lease => '1 h')", $database);
		my @again = given($text, $database);
		my ($new) = $text =~ /^claim\|$old\|(\d+)$/;
		is("@again", '', "$name: its token is not given to another worker");
		cmp_ok($new // 0, '>', $token, "$name: tokens increase");
		is(error_of($node, "SELECT taskq_complete($old, $token)", $database), 'TQ001',
			"$name: it cannot complete a task that another worker has claimed");
		@again = given(sql("SELECT 'id', taskq_submit('new') FROM generate_series(1, 100)", $database), $database);
		is("@again", '', "$name: the ids of lost tasks are not given out again");
		last if $losses >= $LOSSES && $at_bound > 1;
	}
	cmp_ok($losses, '>=', $LOSSES, "$name: something was lost often enough");
	cmp_ok($at_bound, '>', 1, "$name: something was lost where a bound was raised");
	return;
}

# Claims that are rolled back, in all ways: pairs of id and token.
sub rolled_back
{
	my ($wipe) = @_;
	my @claims;
	my $claim = "SELECT 'claim', task_id, token FROM taskq_claim('back', lease => '1 h');";
	my $seen = sub { push @claims, grep { /^claim/ } split /\n/, $_[0]; };

	sql("SELECT taskq_submit('back')");
	$seen->(sql("BEGIN; $claim ROLLBACK")) for 1 .. 2;
	$seen->(sql("BEGIN; SAVEPOINT s; $claim ROLLBACK TO s; $claim SAVEPOINT t; RELEASE t; ROLLBACK"));
	$seen->(sql("BEGIN; $claim PREPARE TRANSACTION 'p'"));
	$seen->(sql("ROLLBACK PREPARED 'p'; BEGIN; $claim ROLLBACK"));
	my ($one, $other) = map { $node->background_psql('postgres') } 1 .. 2;
	for (1 .. 2)
	{
		$seen->($one->query_safe("BEGIN; $claim ROLLBACK"));
		$seen->($other->query_safe("BEGIN; $claim ROLLBACK"));
		$seen->($one->query_safe("SELECT 'claim', task_id, token, taskq_release(task_id, token) FROM taskq_claim('back')"));
	}
	$_->quit for $one, $other;
	$seen->(sql("BEGIN; $claim ROLLBACK"));
	if ($wipe)
	{
		sql('SELECT taskq.debug_wipe()');
		$seen->(sql("BEGIN; $claim ROLLBACK"));
	}
	$node->restart;
	$seen->(sql("BEGIN; $claim ROLLBACK"));
	$seen->(sql("BEGIN; $claim PREPARE TRANSACTION 'p'"));
	$node->restart;
	sql("ROLLBACK PREPARED 'p'");
	$seen->(sql($claim));
	is(scalar @claims, $wipe ? 17 : 16, "$name: the task was claimed often");
	my @again = given(join("\n", @claims), 'postgres');
	is("@again", '', "$name: a claim that was rolled back is not repeated with the same token");
	return;
}

# --- preloaded
$name = 'preloaded';
$node = start_node('loaded', %lazy);
is(sql("SELECT taskq_submit('first')"), '1', 'the first id');
is(sql("SELECT task_id, token FROM taskq_claim('first')"), '1|1', 'the first token');
sql("SELECT taskq_submit('old')");
crashes('postgres');

# ids continue without a gap if there was no crash
my $last = sql("SELECT taskq_submit('new')");
$node->restart;
is(sql("SELECT taskq_submit('new')"), $last + 1, 'a shutdown skips no id');
$ids{"postgres $_"}++ for $last, $last + 1;

# more tokens are drawn than were reserved at the start
$last = sql("SELECT last_value FROM taskq.token_bound_seq");
my $far = sql("SELECT taskq_submit('far')");
sql("UPDATE taskq.task SET token = $last WHERE task_id = $far");
is(sql("SELECT token FROM taskq_claim('far')"), $last + 1, 'a claim gets a token beyond the bound');
cmp_ok(sql("SELECT last_value FROM taskq.token_bound_seq"), '>', $last + 1, 'it raises the bound');
rolled_back(1);

# --- a database that was not used between a crash and the next shutdown
sql('CREATE DATABASE two');
sql("CREATE EXTENSION taskq; SELECT taskq_submit('old')", 'two');
my $losses = 0;
for (1 .. $TRIES)
{
	my ($lost) = crash('two', 'kill', 0);
	$node->restart;
	my @again = given(sql("SELECT 'id', taskq_submit('new') FROM generate_series(1, 10)", 'two'), 'two');
	is("@again", '', 'a crash is remembered over a shutdown');
	$losses++ if $lost;
	last if $losses == 2;
}
is($losses, 2, 'something was lost there, too');
sound($node);
$node->stop('fast');

# --- not preloaded
$name = 'not preloaded';
%ids = %pairs = ();
$node = start_node('unloaded', %lazy);
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
sql("SELECT taskq_submit('old')");
crashes('postgres');
rolled_back(0);
sound($node);

# --- preloaded again
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'taskq'");
$node->restart;
sql("SELECT taskq_complete(task_id, token) FROM taskq.tasks WHERE state = 'running'");
$name = 'preloaded again';
rolled_back(1);
sound($node);
$node->stop('fast');
done_testing();

# Database commands succeed immediately on a database to which only the
# background worker is connected. Tasks flow in two other databases in the
# meantime, and are not affected.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use Time::HiRes qw(time);

my $node = start_node('load', 'fsync' => 'off');
my $sql = sub { $node->safe_psql('postgres', shift) };
my $place = $node->basedir . '/place';
mkdir $place;
$sql->("CREATE TABLESPACE place LOCATION '$place'");
$sql->("CREATE DATABASE $_") for qw(one two alone);
$node->safe_psql($_, 'CREATE EXTENSION taskq') for qw(one two alone);
ok(within(20, sub { worker_pid($node, 'alone') ne '' }), 'the third database has its background worker');

my $flow = join '', map { "\\c $_->[0]\n" . <<'SQL' x 200 } ['one'], ['two'];
SELECT taskq_submit('flow', '1') \g /dev/null
SELECT 'error in ' || current_database() FROM taskq_claim('flow') c, LATERAL (SELECT taskq_complete(c.task_id, c.token)::text AS done) d WHERE d.done IS NULL;
SQL
my $clients = start_clients($node, 3, "\\set VERBOSITY sqlstate\n$flow");
for my $database ('one', 'two')
{
	ok(within(20, sub { $node->safe_psql($database, 'SELECT count(*) > 50 FROM taskq.tasks') eq 't' }), "tasks flow in $database");
}
my %pid = map { $_ => worker_pid($node, $_) } qw(one two);

for my $command ('CREATE DATABASE copy TEMPLATE alone', 'ALTER DATABASE alone RENAME TO other',
	'ALTER DATABASE other SET TABLESPACE place', 'ALTER DATABASE other RENAME TO alone',
	'CREATE DATABASE copy2 TEMPLATE alone STRATEGY file_copy', 'DROP DATABASE alone', 'DROP DATABASE copy')
{
	my $begin = time;
	my ($rc, $out, $err) = $node->psql('postgres', $command);
	my $took = time - $begin;
	is("$rc$err", '0', $command);
	# the server itself would give up after five seconds
	cmp_ok($took, '<', 4, sprintf 'without waiting (%.2f s)', $took);
	note sprintf 'figure: %s: %.2f s', $command, $took;
}

my $before = $node->safe_psql('one', "SELECT count(*) FROM taskq.tasks WHERE state = 'done'");
ok(within(20, sub { $node->safe_psql('one', "SELECT count(*) > $before + 20 FROM taskq.tasks WHERE state = 'done'") eq 't' }), 'tasks still flow');
is(worker_pid($node, $_), $pid{$_}, "the background worker of $_ is the same") for sort keys %pid;
end_clients($clients);
my %errors = errors_of($clients);
is(join(', ', %errors), '', 'no client met an error');
sound($node, database => $_) for qw(one two);
$node->stop('fast');
done_testing();

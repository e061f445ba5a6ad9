# In a steady flow of 50,000 tasks claims are heap-only updates, with and
# without a held snapshot.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('flow', 'fsync' => 'off', 'autovacuum_naptime' => "'2s'");
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(q{SELECT taskq_create_queue('flow', '{"retention": "none"}')});
# submit, claim and complete in three transactions: the claim must have its own
$sql->(<<'SQL');
CREATE PROCEDURE flow_apart(tasks integer, batch integer) LANGUAGE plpgsql AS $$
DECLARE
    ids bigint[];
    tokens bigint[];
BEGIN
    PERFORM taskq_submit_many('flow', array_fill('{"n": 1}'::jsonb, ARRAY[batch * 4]));
    COMMIT;
    FOR i IN 1 .. tasks / batch LOOP
        PERFORM taskq_submit_many('flow', array_fill('{"n": 1}'::jsonb, ARRAY[batch]));
        COMMIT;
        SELECT array_agg(c.task_id), array_agg(c.token) INTO ids, tokens
          FROM taskq_claim('flow', max_tasks => batch) c;
        COMMIT;
        PERFORM taskq_complete(x.i, x.t) FROM unnest(ids, tokens) AS x (i, t);
        COMMIT;
    END LOOP;
END $$;
SQL

sub share
{
	my ($words) = @_;
	my $stat = 'SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables'
	  . " WHERE relid = 'taskq.task'::regclass";
	my ($upd0, $hot0) = split /\|/, $sql->("SELECT pg_stat_force_next_flush(); $stat") =~ s/^\s+//r;
	$sql->('CALL flow_apart(50000, 50)');
	my ($upd1, $hot1);
	ok(within(20, sub {
			($upd1, $hot1) = split /\|/, $sql->($stat);
			$upd1 - $upd0 >= 50000 }), "$words: 50,000 claims");
	my $share = 100 * ($hot1 - $hot0) / ($upd1 - $upd0);
	note sprintf 'figure: %s: %.1f %% of %d updates were heap-only', $words, $share,
	  $upd1 - $upd0;
	cmp_ok($share, '>=', 95, "$words: at least 95 % heap-only updates");
	return;
}

share('no held snapshot');

my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$holder->query_safe('SELECT 1');
share('held snapshot');
$holder->query_safe('COMMIT');
$holder->quit;

sound($node);
$node->stop('fast');
done_testing();

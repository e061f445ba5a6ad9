# The table of dead ranges in shared memory records ranges and publishes
# positions. It ignores ranges that come too late, evicts and wipes entries, and
# keeps databases apart.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('ranges', 'taskq.reaper_interval' => "'1h'",
	'taskq.deadline_interval' => "'1h'");
my $sql = sub { $node->safe_psql('postgres', shift) };

# Positions are seconds of a minute, or task numbers of one second.
$sql->(<<'SQL');
CREATE FUNCTION at(s integer) RETURNS timestamptz LANGUAGE sql
    AS $$ SELECT CASE WHEN s = -1 THEN '-infinity' WHEN s = 9999 THEN 'infinity'
                 ELSE timestamptz '2026-01-01 00:00:00+00' + s * interval '1 s' END $$;
CREATE FUNCTION id(s integer) RETURNS bigint LANGUAGE sql
    AS $$ SELECT CASE WHEN s = -1 THEN -9223372036854775808 WHEN s = 9999 THEN 9223372036854775807
                 ELSE 5 END $$;
CREATE FUNCTION learn(lane bigint, lo integer, hi integer, moment bigint DEFAULT NULL) RETURNS void LANGUAGE sql
    AS $$ SELECT taskq.debug_range_learn(lane, 0, at(lo), id(lo), at(hi), id(hi),
                     coalesce(moment, taskq.debug_range_moment())) $$;
CREATE FUNCTION lower(lane bigint, s integer) RETURNS void LANGUAGE sql
    AS $$ SELECT taskq.debug_range_lower(lane, 0, at(s), id(s)) $$;
-- 1+ and 1- are the positions after and before 1
CREATE FUNCTION word(t timestamptz, n bigint) RETURNS text LANGUAGE sql
    AS $$ SELECT CASE WHEN NOT isfinite(t) THEN t::text
                 ELSE extract(epoch FROM t - at(0))::integer || CASE WHEN n > 5 THEN '+' WHEN n < 5 THEN '-' ELSE '' END END $$;
CREATE FUNCTION dead(lane bigint) RETURNS text LANGUAGE sql
    AS $$ SELECT string_agg(word(lo_at, lo_id) || '-' || word(hi_at, hi_id), ' ' ORDER BY lo_at, lo_id)
            FROM taskq.debug_range_read(lane, 0) $$;
SQL
my $dead = sub { $sql->("SELECT dead($_[0])") };
my $moment = sub { $sql->('SELECT taskq.debug_range_moment()') };
my $number = sub { $sql->("SELECT $_[0] FROM taskq.range_numbers()") };

# --- numbers, and who may read them
is($sql->('SELECT * FROM taskq.range_numbers()'), '0|0|0|0|0|0|0|0', 'in the beginning no range is known');
$sql->('CREATE ROLE plain; CREATE ROLE monitor; GRANT pg_monitor TO monitor');
is(error_of($node, 'SET ROLE plain; SELECT taskq.range_numbers()'), '42501', 'a role without pg_monitor cannot read the numbers');
is($node->safe_psql('postgres', 'SET ROLE monitor; SELECT repaired FROM taskq.range_numbers()'),
	'0', 'pg_monitor can read the numbers');

# --- recording a range
$sql->('SELECT learn(1, -1, 10)');
is($dead->(1), '-infinity-10', 'a range is recorded');
$sql->('SELECT learn(1, 10, 12)');
is($dead->(1), '-infinity-12', 'a range that follows it makes it longer');
$sql->('SELECT learn(1, 20, 30)');
is($dead->(1), '-infinity-12 20-30', 'a range apart from it is a second one');
$sql->('SELECT learn(1, 12, 22)');
is($dead->(1), '-infinity-30', 'a range between them joins both');
$sql->('SELECT learn(1, 9, 8)');
is($dead->(1), '-infinity-30', 'a range that ends before it begins is ignored');
is($dead->(2), '', 'no range of another lane is known');
is($sql->('SELECT count(*) FROM taskq.debug_range_read(1, 1)'), '0', 'no range of another priority is known');
is($number->('learned'), 4, 'recorded ranges are counted');
is($number->('ranges'), 1, 'the ranges that there are are counted, too');

# --- publishing a position
$sql->('SELECT lower(1, 15)');
is($dead->(1), '-infinity-15- 15+-30', 'a published position is cut out');
$sql->('SELECT lower(1, 40)');
is($dead->(1), '-infinity-15- 15+-30', 'a position outside the ranges cuts nothing');
is($number->('lowered'), 2, 'published positions are counted');
$sql->('SELECT learn(1, 15, 15)');
is($dead->(1), '-infinity-30', 'a range over the position joins its neighbours');

# --- nothing follows a position
$sql->('SELECT learn(1, 30, 9999)');
is($dead->(1), '-infinity-infinity', 'it is recorded that nothing follows');
$sql->('SELECT lower(1, 50)');
is($dead->(1), '-infinity-50-', 'a published position ends that');
$sql->('SELECT lower(1, 60)');
is($dead->(1), '-infinity-50-', 'it leaves no second range');

# --- ranges that are recorded too late
my $before = $moment->();
$sql->('SELECT lower(1, 52)');
is($moment->(), $before + 1, 'each published position has a number');
$sql->("SELECT learn(1, 50, 55, $before)");
is($dead->(1), '-infinity-52- 52+-55', 'positions published since the scan began are cut out');
$sql->('SELECT learn(1, 50, 55)');
is($dead->(1), '-infinity-55', 'a scan that began later records the whole range');

$before = $moment->();
$sql->('SELECT lower(1, 100 + 10 * n) FROM generate_series(1, 17) n');
my $refused = $number->('refused');
$sql->("SELECT learn(1, 55, 90, $before)");
is($dead->(1), '-infinity-55', 'after more positions than are remembered nothing is recorded');
is($number->('refused'), $refused + 1, 'that is counted');
$sql->('SELECT learn(1, 55, 90)');
is($dead->(1), '-infinity-90', 'a scan that began later records its range');

$sql->('SELECT learn(3, -1, 10)');
$before = $moment->();
$sql->("SELECT taskq.debug_range_lower(3, 0, at(20), n) FROM generate_series(1, 1000) n");
$sql->("SELECT learn(3, 10, 30, $before)");
is($dead->(3), '-infinity-20- 20+-30', 'positions close to each other are remembered as one');

# --- priorities
is($sql->('SELECT taskq.debug_range_priorities(1)'), '', 'priorities are not known');
$sql->("SELECT taskq.debug_range_learn_priorities(1, '{5, 0, -3}', taskq.debug_range_moment())");
is($sql->('SELECT taskq.debug_range_priorities(1)'), '{5,0,-3}', 'priorities are recorded');
$before = $moment->();
$sql->('SELECT taskq.debug_range_lower(1, 3, at(1), 1)');
is($sql->('SELECT taskq.debug_range_priorities(1)'), '{5,3,0,-3}', 'a published position adds its priority');
$sql->("SELECT taskq.debug_range_learn_priorities(1, '{0}', $before)");
is($sql->('SELECT taskq.debug_range_priorities(1)'), '{3,0}', 'a priority that was published after the scan began stays');
$sql->("SELECT taskq.debug_range_learn_priorities(1, '{0}', taskq.debug_range_moment())");
is($sql->('SELECT taskq.debug_range_priorities(1)'), '{0}', 'a later scan removes it');
$sql->('SELECT taskq.debug_range_lower(1, n, at(1), 1) FROM generate_series(1, 31) n');
is($sql->('SELECT cardinality(taskq.debug_range_priorities(1))'), '32', 'there is room for 32');
$sql->('SELECT taskq.debug_range_lower(1, 32, at(1), 1)');
is($sql->('SELECT taskq.debug_range_priorities(1)'), '', 'more than 32 are not recorded');

# --- no more than eight ranges
$sql->('SELECT learn(4, 10 * n, 10 * n + CASE n WHEN 5 THEN 1 ELSE 2 END) FROM generate_series(1, 9) n');
is($dead->(4), '10-12 20-22 30-32 40-42 60-62 70-72 80-82 90-92', 'of nine ranges the narrowest is dropped');

# --- the table is full
$sql->('SELECT learn(5, 1, 2)');
$before = $moment->();
$sql->('SELECT lower(5, 6)');
$sql->('SELECT learn(n, 1, 2) FROM generate_series(1001, 21000) n');
is($number->('entries'), 16 * 256, 'there are as many entries as there is room for');
cmp_ok($number->('evicted'), '>', 10000, 'other entries were evicted');
is($dead->(5), '', 'an entry that was not used was evicted');
$sql->("SELECT learn(5, 1, 10, $before)");
is($dead->(5), '', 'a scan that began before the evicted position records nothing');
$sql->('SELECT learn(5, 1, 10)');
is($dead->(5), '1-10', 'a later scan records its range');
$sql->('SELECT dead(5), learn(n, 1, 2) FROM generate_series(30001, 40000) n');
is($dead->(5), '1-10', 'an entry that is used all the time stays');

# --- another database
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION taskq');
is($node->safe_psql('other', 'SELECT count(*) FROM taskq.debug_range_read(5, 0)'), '0',
	'ranges belong to one database');
$before = $moment->();
$sql->('DROP EXTENSION taskq; CREATE EXTENSION taskq');
is($dead->(5), '', 'DROP EXTENSION removes its ranges');
$sql->("SELECT learn(5, 1, 10, $before)");
is($dead->(5), '', 'a scan that began before that records nothing');
$sql->('SELECT learn(5, 1, 10)');
is($dead->(5), '1-10', 'a later scan records its range');

# --- a wipe
$before = $moment->();
$sql->('SELECT taskq.debug_wipe()');
is($number->('entries'), 0, 'a wipe removes all ranges');
$sql->("SELECT learn(5, 1, 10, $before)");
is($dead->(5), '', 'a scan that began before the wipe records nothing');

# --- many sessions at the same time: every range that is read is in order
$sql->(<<'SQL');
CREATE PROCEDURE hammer(seed integer) LANGUAGE plpgsql AS $$
DECLARE
    moment bigint;
    lo integer;
    wrong integer := 0;
BEGIN
    FOR i IN 1 .. 3000 LOOP
        moment := taskq.debug_range_moment();
        lo := (i * seed * 7919) % 500;
        PERFORM lower(i % 3, (i * seed) % 500);
        PERFORM learn(i % 3, lo, CASE i % 10 WHEN 0 THEN 9999 ELSE lo + i % 20 END, moment);
        wrong := wrong + (SELECT count(*) FROM (
            SELECT lo_at, hi_at, lag(hi_at) OVER (ORDER BY lo_at, lo_id) AS last
              FROM taskq.debug_range_read(i % 3, 0)) r WHERE lo_at > hi_at OR lo_at < last);
    END LOOP;
    IF wrong > 0 THEN
        RAISE EXCEPTION '% ranges are not in order', wrong;
    END IF;
END
$$;
SQL
my @errors = ('') x 4;
my @sessions = map {
	IPC::Run::start([ 'psql', '-X', '-q', '-d', $node->connstr('postgres'), '-c', "CALL hammer($_)" ],
		'<', \undef, '2>', \$errors[ $_ - 1 ])
} 1 .. 4;
$_->finish for @sessions;
is(join('', @errors), '', 'ranges are sorted and disjoint while four sessions change them');
is($number->('repaired'), 0, 'nothing was repaired');

# --- a start
$node->restart;
is($number->('entries'), 0, 'after a start no range is known');

sound($node);

# --- without preloading there is no table
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
is($sql->('SELECT * FROM taskq.range_numbers()'), '|||||||', 'without preloading no number is known');
is($moment->(), 0, 'no position is published');
$sql->('SELECT learn(5, 1, 10), lower(5, 3)');
is($dead->(5), '', 'nothing is recorded');
is($sql->('SELECT taskq.debug_range_priorities(5)'), '', 'no priority is known');
$node->stop('fast');
done_testing();

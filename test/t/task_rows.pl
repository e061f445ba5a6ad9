# What the row of a task stores: a waiting task with a payload has no null bitmap
# and no column after the payload; a column whose value follows from others is
# null, and is shown with that value; a value that no longer follows is stored.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $node = start_node('rows');
my $sql = sub { $node->safe_psql('postgres', shift) };

$sql->(<<'SQL');
CREATE EXTENSION pageinspect;
CREATE ROLE other;
SELECT taskq_create_queue('q', '{"retry": "list", "retry_list": ["1 h"], "max_attempts": 5}');
SELECT taskq_grant('*', 'other', '{submit,work,read,manage}');
-- length, number of columns, and whether there is a null bitmap, of the newest row of a task
CREATE FUNCTION stored(id bigint) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s bytes, %s columns%s', i.lp_len, i.t_infomask2 & 2047, CASE WHEN i.t_infomask & 1 = 1 THEN ', nulls' END)
      FROM taskq.task t,
           heap_page_items(get_raw_page('taskq.task', (t.ctid::text::point)[0]::bigint)) i
     WHERE t.task_id = id AND i.lp = (t.ctid::text::point)[1]::int
$$;
-- the implied columns that are stored, and whether the view shows what they mean
CREATE FUNCTION implied(id bigint) RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', CASE WHEN t.run_at IS NOT NULL THEN 'run_at' END, CASE WHEN t.created_at IS NOT NULL THEN 'created_at' END,
                     CASE WHEN t.run_as IS NOT NULL THEN 'run_as' END, CASE WHEN t.descent IS NOT NULL THEN 'descent' END,
                     CASE WHEN t.large IS NOT NULL THEN 'large' END,
                     CASE WHEN v.run_at = coalesce(t.run_at, t.available_at) AND v.created_at = coalesce(t.created_at, t.available_at)
                           AND v.run_as = (SELECT name FROM taskq.role WHERE role_id = coalesce(t.run_as, t.submitted_by))
                           AND coalesce(v.descent, 'none') = coalesce((SELECT taskq.state_name(t.descent)), 'none')
                          THEN 'shown' ELSE 'SHOWN DIFFERENTLY' END)
      FROM taskq.task t, taskq_get(id) v WHERE t.task_id = id
$$;
SQL
my $hundred = '{"x": "' . ('0123456789' x 9) . '0"}';
my $created;
my $is = sub {
	my ($id, $stored, $implied, $what) = @_;
	is($sql->("SELECT stored($id)"), $stored, "$what: its row") if defined $stored;
	is($sql->("SELECT implied($id)"), $implied, "$what: its implied columns");
	is($sql->("SELECT created_at FROM taskq_get($id)"), $created->{$id}, "$what: when it was submitted") if $created->{$id};
	$created->{$id} //= $sql->("SELECT created_at FROM taskq_get($id)");
};

my $one = $sql->("SELECT taskq_submit('q', '$hundred')");
$is->($one, '217 bytes, 18 columns', 'shown', 'a task with a payload of a hundred bytes');
my $empty = $sql->("SELECT taskq_submit('q', priority => -1)");
$is->($empty, '112 bytes, 17 columns', 'shown', 'a task with nothing');
my ($first) = split /\n/, $sql->("SELECT * FROM taskq_submit_many('q', array_fill('$hundred'::jsonb, ARRAY[300]), priority => -2)");
$is->($first, '217 bytes, 18 columns', 'shown', 'a task of a list');

my $token = $sql->("SELECT token FROM taskq_claim('q')");
$is->($one, '217 bytes, 18 columns', 'shown', 'a claimed task');
$sql->("SELECT taskq_checkpoint($one, $token, '1')");
$is->($one, undef, 'shown', 'a task with a checkpoint');
$sql->("SELECT taskq_fail($one, $token, 'no')");
$is->($one, undef, 'created_at shown', 'a task that waits for its next attempt');
$sql->("SELECT taskq_update_task($one, jsonb_build_object('run_at', now()))");
$sql->("SELECT taskq_update_task($one, '{\"priority\": 5}')");
$is->($one, undef, 'created_at shown', 'a task that was moved in time');
is($sql->("SELECT task_id FROM taskq_claim('q')"), $one, 'it is claimed');
$is->($one, undef, 'created_at shown', 'a task that is claimed again');

my $later = $sql->("SELECT taskq_submit('q', '1', delay => '1 h')");
$is->($later, undef, 'created_at shown', 'a delayed task');
$sql->("SELECT taskq_hold($later)");
$is->($later, undef, 'run_at created_at shown', 'a suspended task');
$sql->("SELECT taskq_retry($later)");
$is->($later, undef, 'created_at descent shown', 'a resumed task');
$sql->("SET ROLE other; SELECT taskq_update_task($later, '{\"payload\": 2}')");
$is->($later, undef, 'created_at run_as descent shown', 'a task whose payload another role has changed');
my $large = $sql->("SELECT taskq_submit('q', to_jsonb(repeat('x', 5000)))");
$is->($large, undef, 'large shown', 'a task with a large payload');
is($sql->("SELECT length(payload #>> '{}') FROM taskq_get($large)"), 5000, 'its payload');
$sql->("SELECT taskq_update_task($large, '{\"payload\": 3}')");
$is->($large, undef, 'shown', 'a task whose payload is no longer large');

# Rows as the server writes them when it copies the table have all columns.
my $before = $sql->('SELECT md5(string_agg(t::text, chr(10) ORDER BY task_id)) FROM taskq.tasks t');
$sql->('VACUUM FULL taskq.task');
is($sql->('SELECT md5(string_agg(t::text, chr(10) ORDER BY task_id)) FROM taskq.tasks t'), $before, 'tasks are the same after VACUUM FULL');
is($sql->("SELECT count(*) FROM taskq_claim('q', max_tasks => 1000)"), 302, 'all tasks that are due are claimed');
is($sql->("SELECT count(*) FILTER (WHERE ok) FROM taskq_complete_many((SELECT array_agg(task_id ORDER BY task_id) FROM taskq.tasks WHERE state = 'running'),
	(SELECT array_agg(token ORDER BY task_id) FROM taskq.tasks WHERE state = 'running'))"), 303, 'and completed');
is($sql->("SELECT created_at FROM taskq_get($_)"), $created->{$_}, "a finished task: when it was submitted") for ($one, $empty, $first, $large);
is($sql->("SELECT count(*) FROM taskq.archive WHERE created_at IS NOT NULL"), 1, 'finished tasks store no implied columns either');
$sql->("SELECT taskq_retry($first)");
is($sql->("SELECT created_at FROM taskq_get($first)"), $created->{$first}, 'a revived task: when it was submitted');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check finds nothing');
$node->stop;
done_testing();

# What the tests of dumps, upgrades and replicas share.
package TaskqDump;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(fill contents tables_of numbers role_names);

# Roles of the source; another cluster creates them in another order, so that
# each has the OID of another one.
sub role_names { return qw(alice bob carol dora erin ghost) }

# fill(NODE, DATABASE): tasks in every state, finished ones in several leaves,
# and everything else that has a row. Nothing of it changes by itself within an
# hour.
sub fill
{
	my ($node, $database) = @_;

	$node->safe_psql($database, <<'SQL');
SELECT taskq_create_queue('q', '{"history": "transitions", "max_attempts": 3, "retry": "fixed", "retry_base": "1 h"}');
SELECT taskq_create_queue('fatal', '{"max_attempts": 1, "dead_letter_queue": "letters"}');
SELECT taskq_create_queue('limited', '{"max_running": 2, "lease": "1 h"}');
SELECT taskq_create_queue('unique', '{"reference_window": "1 d"}');
SELECT taskq_create_queue('paused');
SELECT taskq_alter_queue('*', '{"retention_dead": "60 d", "lease": "2 h"}');
SELECT taskq_grant('q', 'alice', '{submit}');
SELECT taskq_grant('q', 'bob', '{work}');
SELECT taskq_grant('*', 'carol', '{read}');
SELECT taskq_grant('limited', 'dora', '{manage,read}');
SELECT taskq_grant('*', 'erin', '{manage,submit,work}');
SELECT taskq_grant('q', 'ghost', '{work,read}');
SELECT taskq_grant('limited', 'public', '{submit}');
SET ROLE erin;
SELECT taskq_create_queue('erins', '{"order": "lifo"}');
SELECT taskq_register('erins worker', '{erins}', '{gpu}', 3, info => '{"a": 1}');
SELECT taskq_submit('erins', '1', tags => '{gpu}');
SELECT FROM taskq_claim('erins', 'erins worker');
RESET ROLE;
SELECT taskq_pause('paused', 'until later');
-- keys in order, and documents
SELECT taskq_create_queue('serial', '{"key_policy": "serial"}');
SELECT taskq_submit('serial', to_jsonb(n), key => 'k' || n % 2) FROM generate_series(1, 4) n;
SELECT taskq_define_workflow('{"name": "dumped", "version": "1", "queue": "steps", "steps": [{"name": "a"}, {"name": "b", "depends_on": ["a"]}]}');
SELECT taskq_start_workflow('dumped', key => 'k');
SELECT taskq_define_workflow('{"name": "asked", "version": "1", "queue": "steps", "steps": [{"name": "t", "type": "timer", "timer": {"after": "1 day"}},
    {"name": "s", "type": "signal", "depends_on": ["t"], "signal": {"name": "early"}}]}');
SELECT taskq_signal(taskq_start_workflow('asked'), 'early', '{"n": 1}');
SELECT FROM taskq_change('a label', doc_adds => '[{"namespace": "serial", "key": "k", "content": [1]}, {"namespace": "any", "key": "k", "lease": "1 d"}]');
SELECT taskq_schedule('kept', 'every 10 years', 'q', '1');
SELECT taskq_pause_operation(taskq_manage_where('hold', 'q', '{"state": "dead"}', 'kept'));
-- live tasks
SELECT taskq_submit('q', to_jsonb(repeat('x', 20000)), tags => ARRAY['a', 'b'], priority => 7, key => 'k', correlation_id => 'c', headers => '{"h": 1}', data => '\x0001ff');
SELECT taskq_submit('q', delay => '1 d', tags => '{b}');
SELECT taskq_submit('q', suspended => true);
SELECT taskq_submit('q', '"deadline"', deadline => now() + interval '2 h');
SELECT taskq_submit('paused', '"paused"');
SELECT taskq_submit('unique', '"live"', reference => 'r live');
SELECT taskq_submit('limited', to_jsonb(n)) FROM generate_series(1, 3) n;
SELECT FROM taskq_claim('limited', 'a label', max_tasks => 2);
SELECT taskq_submit('held', '"held"');
SELECT FROM taskq_claim('held');
SELECT taskq_checkpoint(task_id, token, '{"at": 5}') FROM taskq.tasks WHERE queue = 'held';
SELECT taskq_submit('asked');
SELECT FROM taskq_claim('asked');
SELECT taskq_cancel(task_id, 'not wanted') FROM taskq.tasks WHERE queue = 'asked';
SELECT taskq_register('w1'), taskq_register('w2', keep => true), taskq_register('gone');
SELECT taskq_submit('registered');
SELECT FROM taskq_claim('registered', 'w1');
SELECT taskq_deregister('gone');
SELECT taskq_submit('retries');
SELECT taskq_fail(task_id, token, 'again', retry_in => '2 h') FROM taskq_claim('retries');
SET ROLE alice;
SELECT taskq_submit('q', '"of alice"', tags => '{b}');
RESET ROLE;
SQL

	# finished tasks, in several leaves: as if time had passed
	for my $leaf (0, 3, 15)
	{
		$node->safe_psql($database, "INSERT INTO taskq.archive_rotation VALUES (true, $leaf, now())"
			  . " ON CONFLICT (only_row) DO UPDATE SET bucket = $leaf");
		$node->safe_psql($database, <<'SQL');
SELECT taskq_submit('finished', to_jsonb(repeat('y', 30000)), reference => 'f' || n) FROM generate_series(1, 5) n;
SELECT taskq_complete(task_id, token, to_jsonb(repeat('r', 9000))) FROM taskq_claim('finished');
SELECT taskq_filter(task_id, token, 'no interest') FROM taskq_claim('finished');
SELECT taskq_complete(task_id, token, keep => true) FROM taskq_claim('finished');
SELECT taskq_cancel(task_id, 'cancelled') FROM taskq.tasks WHERE queue = 'finished' AND state = 'pending' AND reference = 'f4';
SELECT taskq_fail(task_id, token, 'dead', false) FROM taskq_claim('finished');
SELECT taskq_submit('q', tags => '{c}', priority => 9);
SELECT taskq_complete(task_id, token) FROM taskq_claim('q', tags => '{c}');
SQL
	}
	$node->safe_psql($database, <<'SQL');
SELECT taskq_submit('fatal', '"dies"');
SELECT taskq_fail(task_id, token, 'fatal') FROM taskq_claim('fatal');
SELECT taskq_submit('unique', reference => 'r done');
SELECT taskq_complete(task_id, token) FROM taskq_claim('unique') WHERE reference = 'r done';
SELECT taskq_submit('own', options => '{"retention": "3 h"}');
SELECT taskq_complete(task_id, token) FROM taskq_claim('own');
SQL
	return;
}

# Tables that are the same in a copy and in the original.
sub tables_of
{
	my ($node, $database) = @_;

	return split /\n/, $node->safe_psql($database, <<'SQL');
SELECT relname FROM pg_class
 WHERE relnamespace = 'taskq'::regnamespace AND relkind = 'r'
   AND relname NOT IN ('instance', 'archive_rotation', 'queue_change', 'worker_change',
                       'finished_count', 'finished_leaf', 'worker_sign', 'task_sign', 'metric_minute')
 ORDER BY relname
SQL
}

# contents(NODE, DATABASE): a line for each table: its name, number of rows,
# digest.
sub contents
{
	my ($node, $database, @without) = @_;
	my %without = map { $_ => 1 } @without;

	return $node->safe_psql($database, join ' UNION ALL ', map {
		"SELECT '$_', count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE \"C\")) FROM ONLY taskq.$_ t"
	} grep { !$without{$_} } tables_of($node, $database));
}

# What the sequences give next.
sub numbers
{
	my ($node, $database) = @_;
	my @names = split /\n/, $node->safe_psql($database,
		"SELECT relname FROM pg_class WHERE relnamespace = 'taskq'::regnamespace AND relkind = 'S' ORDER BY 1");

	return $node->safe_psql($database, join ' UNION ALL ',
		map { "SELECT '$_', last_value, is_called FROM taskq.$_" } @names);
}

1;

# Sixteen clients submit tasks that supersede each other, and change overlapping
# sets of tasks and documents, named in any order. There is no deadlock and no
# error. At the end the last task is left, and each change has been made once.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;

my $CLIENTS = 16;
my $CALLS = 60;    # of each
my $node = start_node('same', 'fsync' => 'off', 'deadlock_timeout' => "'100ms'");
my $sql = sub { $node->safe_psql('postgres', shift) };

# all(WHAT, STATEMENT): each client runs it CALLS times; an error ends pgbench
sub all
{
	my ($what, $statement) = @_;
	my $file = "$PostgreSQL::Test::Utils::tmp_check/script.sql";

	append_to_file($file, $statement);
	$node->command_ok([ 'pgbench', '-n', '-c', $CLIENTS, '-j', 2, '-t', $CALLS, '-M', 'prepared', '-f', $file, 'postgres' ], "$what: no error");
	unlink $file;
	return;
}

sub no_deadlock
{
	my ($what) = @_;

	is($sql->('SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()'), '0', "$what: no deadlock");
	return;
}

for (['plain', '{}'], [ 'serial', '{"key_policy": "serial"}' ], [ 'last', '{"key_policy": "serial_until_success", "order": "lifo"}' ])
{
	my ($queue, $options) = @$_;

	$sql->("SELECT taskq_create_queue('$queue', '$options')");
	all("superseding in $queue", "SELECT taskq_submit('$queue', '1', key => 'one', insertion => 'supersede');\n");
	is($sql->("SELECT count(*), max(task_id) = max(task_id) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state <> 'redundant') FROM taskq.tasks WHERE queue = '$queue'"),
		$CLIENTS * $CALLS . '|t|1', "superseding in $queue: the last task is left");
	no_deadlock("superseding in $queue");
}

$sql->(<<'SQL');
SELECT taskq_create_queue('common', '{}');
CREATE TABLE thing AS SELECT taskq_submit('common', 'null') AS task_id, n::text AS name FROM generate_series(1, 30) n;
SELECT FROM taskq_change('first', doc_adds => (SELECT jsonb_agg(jsonb_build_object('namespace', 'common', 'key', 'k', 'secondary_key', name, 'content', 0)) FROM thing));
SQL
all('overlapping changes', <<'SQL');
SELECT count(*) FROM taskq_change('client ' || :client_id, updates => (SELECT jsonb_agg(jsonb_build_object('task_id', task_id, 'payload', :client_id::int)) FROM (SELECT task_id FROM thing ORDER BY random() LIMIT 4) s));
SQL
is($sql->("SELECT sum(version - 1) FROM taskq.tasks WHERE queue = 'common'"), 4 * $CLIENTS * $CALLS, 'overlapping changes: each was made once');
all('overlapping changes of documents', <<'SQL');
SELECT count(*) FROM taskq_change('client ' || :client_id, doc_updates => (SELECT jsonb_agg(jsonb_build_object('namespace', 'common', 'key', 'k', 'secondary_key', name, 'content', :client_id::int)) FROM (SELECT name FROM thing ORDER BY random() LIMIT 4) s));
SQL
is($sql->('SELECT sum(version - 1) FROM taskq.doc'), 4 * $CLIENTS * $CALLS, 'overlapping changes of documents: each was made once');
no_deadlock('overlapping changes');
is($sql->('SELECT * FROM taskq_check()'), '', 'taskq_check() finds nothing');
$node->stop;
done_testing();

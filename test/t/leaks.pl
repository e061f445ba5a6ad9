# A mark that is put into every kind of contents does not reach a role with the
# right observe, nor a role with the right read if the option redact selects it.
#
# Every function and relation of the extension is tried, as the catalog lists
# them: one that the role may execute and that %calls does not name is a
# failure, so that a new one cannot be forgotten. Relations need no list, but
# each that has rows for a superuser must have rows for the role that reads all.
# As a control, a role that may read finds each kind of mark.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqRights;
use TaskqTest;

my $node = start_node('leaks', 'taskq.reaper_interval' => "'1 h'", 'taskq.stale_threshold' => "'1 h'", 'taskq.dead_threshold' => "'2 h'");
my $sql = sub { $node->safe_psql('postgres', $_[0]) };

# What a mark is in; the mark of payloads is MARK-payload, in bytes MARK-data.
my @kinds = qw(payload data headers result checkpoint detail input output signal member document letter step filter sql);
my @queues = qw(q letters flow side bare sql);

# --- marks
$sql->($_) for <<'SQL', <<'SQL';
CREATE SCHEMA m;
CREATE ROLE observer;
CREATE ROLE reader;
CREATE TABLE m.task (what text, task_id bigint, token bigint);
CREATE TABLE m.flow (what text, workflow_id bigint);
CREATE FUNCTION m.mark(kind text, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql IMMUTABLE AS
    $$SELECT jsonb_build_object('secret', 'MARK-' || kind, 'list', jsonb_build_array(jsonb_build_object('secret', 'MARK-' || kind)), 'plain', kind) || more$$;
-- a task that is claimed next
CREATE FUNCTION m.submit(what text, kind text DEFAULT 'payload', key text DEFAULT NULL, suspended boolean DEFAULT false, padding int DEFAULT 0, q text DEFAULT 'q') RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO m.task SELECT what, taskq_submit(q, m.mark(kind, jsonb_build_object('padding', repeat('x', padding))), 9, headers => m.mark('headers'),
        data => 'MARK-data'::bytea, key => key, reference => 'ref ' || what, correlation_id => 'correlation', suspended => suspended)
    RETURNING task_id
$$;
CREATE FUNCTION m.claim(what text, q text DEFAULT 'q') RETURNS m.task LANGUAGE plpgsql AS $$
DECLARE
    one m.task;
BEGIN
    UPDATE m.task t SET token = c.token FROM taskq_claim(claim.q, 'label', lease => '1 d') c WHERE t.task_id = c.task_id AND t.what = claim.what RETURNING t.* INTO STRICT one;
    PERFORM taskq_progress(one.task_id, one.token, 0.5, 'a message');
    RETURN one;
END
$$;
-- completes the next task of the queue of a workflow
CREATE FUNCTION m.complete(q text, result jsonb) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    SELECT * INTO STRICT one FROM taskq_claim(q);
    PERFORM taskq_checkpoint(one.task_id, one.token, m.mark('checkpoint', jsonb_build_object('cursor', m.mark('checkpoint'), 'items', m.mark('checkpoint'))));
    PERFORM taskq_complete(one.task_id, one.token, result);
    RETURN one.task_id;
END
$$;
SQL
SELECT taskq_create_queue(q, '{"history": "transitions", "retry": "fixed", "retry_base": "0 s", "notify": true}') FROM unnest('{q,letters,flow,side,bare}'::text[]) q;
SELECT taskq_alter_queue('q', '{"dead_letter_queue": "letters"}');
DO $$
DECLARE
    one m.task;
BEGIN
    -- every state, small and large
    FOR i IN 1 .. 2 LOOP
        PERFORM m.submit('failed' || i, padding => i * 2000);
        one := m.claim('failed' || i);
        PERFORM taskq_checkpoint(one.task_id, one.token, m.mark('checkpoint', jsonb_build_object('padding', repeat('x', i * 2000))));
        PERFORM taskq_fail(one.task_id, one.token, 'an error', detail => m.mark('detail'));
        PERFORM taskq_hold(one.task_id, 'held');
        PERFORM m.submit('dead' || i, 'letter', padding => i * 2000);
        one := m.claim('dead' || i);
        PERFORM taskq_fail(one.task_id, one.token, 'an error', false, detail => m.mark('detail'));
        PERFORM m.submit('done' || i, padding => i * 2000);
        one := m.claim('done' || i);
        PERFORM taskq_complete(one.task_id, one.token, m.mark('result', jsonb_build_object('padding', repeat('x', i * 2000))));
    END LOOP;
    PERFORM taskq_checkpoint(task_id, token, jsonb_build_object('cursor', m.mark('checkpoint'))) FROM taskq_claim('letters', 'label', lease => '1 d');
    PERFORM m.submit('running');
    one := m.claim('running');
    PERFORM taskq_checkpoint(one.task_id, one.token, m.mark('checkpoint'));
    PERFORM m.submit('filtered');
    one := m.claim('filtered');
    PERFORM taskq_filter(one.task_id, one.token, 'a reason');
    PERFORM m.submit('released');
    one := m.claim('released');
    PERFORM taskq_release(one.task_id, one.token, '1 h', 'a reason', m.mark('result'));
    PERFORM taskq_cancel(m.submit('cancelled'), 'a reason');
    PERFORM taskq_recreate(m.submit('recreated', suspended => true));
    PERFORM m.submit('suspended', suspended => true);
    PERFORM m.submit('pending');
    PERFORM m.submit('poisoned', key => 'a key');
    PERFORM taskq_poison(task_id, 'a reason') FROM m.task WHERE what = 'poisoned';
    PERFORM taskq_resolve(m.submit('resolved'), m.mark('result'), 'a reason');
    -- tasks of a queue that have been moved
    PERFORM taskq_change('label', doc_adds => jsonb_build_array(jsonb_build_object('namespace', 'q', 'key', 'k', 'content', m.mark('document')),
        jsonb_build_object('namespace', 'no queue', 'key', 'k', 'content', m.mark('document'))));
    PERFORM taskq_schedule('planned', 'every 10 years', 'q', m.mark('payload'));
    PERFORM taskq_register('a worker', '{q}', info => '{"host": "h"}');
    PERFORM taskq_pause_operation(taskq_manage_where('hold', 'q', '{"payload": "$.secret == \"MARK-filter\""}', 'a reason'));
    INSERT INTO taskq.metric_minute (queue_id, slot, at, submitted, ready, running) SELECT queue_id, 1, now(), 1, 0, 0 FROM taskq.queue WHERE name = 'q';
END
$$;
SELECT count(taskq_define_workflow(d)) FROM jsonb_array_elements($json$[
{"name": "small", "version": "1", "queue": "side", "steps": [{"name": "only"}]},
{"name": "all", "version": "1", "queue": "flow", "steps": [
    {"name": "first"},
    {"name": "copy", "queue": "side", "depends_on": ["first"], "payload": {"secret": {"$": "$.results.first.secret"}}},
    {"name": "decide", "type": "decision", "depends_on": ["copy"]},
    {"name": "chosen", "depends_on": ["decide"], "when": "$.input.secret starts with \"MARK\""},
    {"name": "split", "type": "batch", "depends_on": ["chosen"]},
    {"name": "part", "type": "batch_worker", "depends_on": ["split"]},
    {"name": "gather", "type": "deferred", "depends_on": ["part"]},
    {"name": "signalled", "type": "signal", "signal": {"name": "go"}, "depends_on": ["gather"]},
    {"name": "inner", "type": "workflow", "workflow": {"name": "small"}, "depends_on": ["signalled"]},
    {"name": "last", "depends_on": ["inner"]}]},
{"name": "wrong", "version": "1", "queue": "flow", "steps": [
    {"name": "choice", "type": "decision"}, {"name": "a", "depends_on": ["choice"]}, {"name": "b", "depends_on": ["choice"]},
    {"name": "path", "payload": {"a": {"$": "$.input.secret.datetime()"}}},
    {"name": "time", "type": "timer", "timer": {"at": {"$": "$.input.secret"}}},
    {"name": "wait", "type": "timer", "timer": {"after": {"$": "$.input.secret"}}},
    {"name": "sum", "when": "$.input.secret + 1 > 0"}]},
{"name": "mixed", "version": "1", "queue": "flow", "steps": [{"name": "hidden"}, {"name": "shown", "queue": "bare"}]},
{"name": "undone", "version": "1", "queue": "flow", "on_failure": "compensate", "steps": [
    {"name": "do", "compensate": {"handler": "undo"}}, {"name": "then", "depends_on": ["do"]}]}]$json$) d;
INSERT INTO m.flow SELECT 'all', taskq_start_workflow('all', m.mark('input'), headers => m.mark('headers'));
SELECT m.complete('flow', m.mark('step')), m.complete('side', m.mark('step')), m.complete('flow', '{"create": ["chosen"], "secret": "MARK-choice"}'), m.complete('flow', m.mark('step')),
       m.complete('flow', jsonb_build_object('batches', jsonb_build_array(m.mark('member'), m.mark('member'))) || m.mark('step')),
       m.complete('flow', m.mark('member')), m.complete('flow', m.mark('member')),
       m.complete('flow', m.mark('step')),
       taskq_signal(workflow_id, 'go', m.mark('signal')) FROM m.flow;
SELECT m.complete('side', m.mark('step'));
SELECT m.complete('flow', m.mark('output'));
-- an instance of each further kind, and one that is under way
INSERT INTO m.flow SELECT n, taskq_start_workflow(n, m.mark('input')) FROM unnest('{wrong,undone,all}'::text[]) n;
SELECT taskq_complete(task_id, token, CASE step WHEN 'choice' THEN '{"create": ["MARK-choice"]}' ELSE m.mark('step') END)
  FROM taskq_claim('flow', max_tasks => 3) ORDER BY task_id;
SELECT taskq_fail(task_id, token, 'an error', false, detail => m.mark('detail')) FROM taskq_claim('flow') WHERE step = 'then';
SELECT taskq_signal(max(workflow_id), 'go', m.mark('signal')) FROM m.flow WHERE what = 'all';
-- the payload of a step is the input, which other queues hide
INSERT INTO m.flow SELECT 'mixed', taskq_start_workflow('mixed', m.mark('input'));
SQL

# --- the roles have EXECUTE on every function, since they have all rights on a
# queue without marks, but only_observer
$sql->(<<'SQL');
SELECT taskq_create_queue('elsewhere');
CREATE ROLE manager;
CREATE ROLE submitter;
SELECT taskq_grant('elsewhere', r, '{submit,work,observe,read,manage}') FROM unnest('{observer,reader,manager,submitter}'::text[]) r;
SELECT taskq_grant('*', 'manager', '{observe,manage}'), taskq_grant('*', 'submitter', '{observe,submit}');
CREATE ROLE only_observer;
SELECT taskq_grant('*', 'observer', '{observe}'), taskq_grant('*', 'only_observer', '{observe}'), taskq_grant('*', 'reader', '{read}');
GRANT USAGE ON SCHEMA m TO PUBLIC;
CREATE TABLE m.todo (n serial PRIMARY KEY, name text, call text);
CREATE TABLE m.got (role text, name text, call text, code text, words text);
-- every way to call a function, rolled back
CREATE FUNCTION m.ask(role text, call text, OUT code text, OUT words text) LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail text;
    hint text;
    context text;
    at_schema text;
    at_table text;
    at_column text;
    at_constraint text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    IF call LIKE 'CALL %' THEN
        EXECUTE call;
    ELSE
        EXECUTE format('SELECT string_agg(x::text, '' '') FROM %s x', call) INTO words;
    END IF;
    code := 'ok';
    RAISE division_by_zero;
EXCEPTION
    WHEN division_by_zero THEN
        words := coalesce(words, '');
    WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT,
            at_schema = SCHEMA_NAME, at_table = TABLE_NAME, at_column = COLUMN_NAME, at_constraint = CONSTRAINT_NAME;
        code := SQLSTATE;
        words := replace(concat_ws('|', message, detail, hint, context, at_schema, at_table, at_column, at_constraint), call, 'CALL');
END
$$;
CREATE PROCEDURE m.run(role text) LANGUAGE plpgsql AS $$
DECLARE
    todo m.todo;
    got record;
BEGIN
    FOR todo IN SELECT * FROM m.todo ORDER BY n LOOP
        got := m.ask(role, todo.call);
        INSERT INTO m.got VALUES (role, todo.name, todo.call, got.code, got.words);
    END LOOP;
END
$$;
SQL

# --- SQL tasks: one fails with a detail, one waits while it is looked at
$sql->($_) for <<'SQL', split /\n/, <<'SQL';
SELECT taskq_create_queue('sql', '{"executor": {"workers": 1}}');
CREATE ROLE ann LOGIN;
SELECT taskq_grant('sql', 'ann', '{submit}');
CREATE TABLE m.used (mark text PRIMARY KEY);
INSERT INTO m.used VALUES ('MARK-sql');
GRANT USAGE ON SCHEMA m TO ann;
GRANT INSERT ON m.used TO ann;
SQL
SET ROLE ann; SELECT taskq_submit('sql', '{"sql": "INSERT INTO m.used VALUES (''MARK-sql'')"}', max_attempts => 1)
SET ROLE ann; SELECT taskq_submit('sql', '{"sql": "SELECT pg_advisory_xact_lock(4711) /* MARK-sql */"}')
SQL
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(4711)');
ok(within(60, sub { $sql->(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'taskq executor' AND query LIKE '%MARK-sql%'}) eq '1' }),
	'a superuser sees the statement of a SQL task (void otherwise)');
for my $role ('observer', 'reader', 'manager')
{
	is($sql->(qq{SET ROLE $role; SELECT string_agg(a::text, ' ') FROM pg_stat_activity a WHERE a::text ~ 'MARK' AND pid <> pg_backend_pid()}), '',
		"$role does not see it in pg_stat_activity");
}
$holder->quit;
ok(within(60, sub { $sql->(q{SELECT string_agg(state, ' ' ORDER BY task_id) FROM taskq.tasks WHERE queue = 'sql'}) eq 'dead done' }), 'the SQL tasks end');

# --- the calls: those of the matrix of rights, and those of schema taskq
my $m = read_matrix();
my %calls;
push @{ $calls{ (/^(\w+)/)[0] } }, $m->{calls}{$_} =~ s/^(.*\)) => .*$/$1/r for sort keys %{ $m->{calls} };
push @{ $calls{ (/^(\w+)/)[0] } }, $_ for 'taskq_failures()', q(taskq_openmetrics('prometheus')), q(taskq_workflow_graph({flow}, 'mermaid')),
  # names that exist
  q(taskq_submit({queue}, '{}', reference => 'ref running')), q(taskq_submit({queue}, '{}', reference => 'ref suspended', on_conflict => 'merge')),
  q(taskq_submit_tasks(jsonb_build_array(jsonb_build_object('queue', {queue}, 'reference', 'ref suspended'), jsonb_build_object('queue', {queue}, 'reference', 'ref running')))),
  q(taskq_change('label', jsonb_build_array(jsonb_build_object('queue', {queue}, 'reference', 'ref running'), jsonb_build_object('queue', {queue}, 'reference', 'ref suspended')))),
  q(taskq_change('label', doc_adds => jsonb_build_array(jsonb_build_object('namespace', {queue}, 'key', 'k')))),
  q(taskq_schedule('planned', 'every 1 hour', {queue})), q(taskq_signal({flow}, 'go', '1')), q(taskq_start_workflow('all', '{}', key => 'a key')),
  map({ my $filter = $_; ("taskq_list(filter => '$filter')", "taskq_manage_where('hold', {queue}, '$filter', dry_run => true)") }
	'{"error": "an error"}', '{"payload": "$.**.secret starts with \"MA\""}', '{"payload": "$.**.secret.size() == 1 || $.datetime() > $.secret"}', '{"state": ["dead", "done"], "reason": "exhausted"}');
my %internal = (
	'state_name' => 'taskq.state_name(1::smallint)', 'reason_name' => 'taskq.reason_name(1::smallint)',
	'may_read' => 'taskq.may_read({queue_id})', 'may_read_payload' => 'taskq.may_read_payload({queue_id})', 'may_observe' => 'taskq.may_observe({queue_id})',
	'may_see_worker' => 'taskq.may_see_worker(1)', 'worker_seen' => 'taskq.worker_seen(1)', 'worker_running' => 'taskq.worker_running(1)',
	'queue_numbers' => 'taskq.queue_numbers({queue_id})', 'metric_rows' => 'taskq.metric_rows()', 'metric_minutes' => 'taskq.metric_minutes({queue_id})', 'task_progress' => 'taskq.task_progress({held})',
	'contents' => q(taskq.contents({queue_id}, '{"secret": 1}')), 'workflow_contents' => q(taskq.workflow_contents({flow}, '{"secret": 1}')),
	'workflow_look' => 'taskq.workflow_look({flow})', 'workflow_step_rows' => 'taskq.workflow_step_rows({flow})', 'batch_rows' => 'taskq.batch_rows({flow})');
$calls{"taskq.$_"} = [ $internal{$_} ] for keys %internal;

my @tasks = map { [ split /\|/ ] } split /\n/, $sql->('SELECT task_id, token, state, queue FROM taskq.tasks ORDER BY task_id');
my @flows = split /\n/, $sql->('SELECT workflow_id FROM taskq.workflows ORDER BY 1');
my %queue_ids = map { split /\|/ } split /\n/, $sql->("SELECT name, queue_id FROM taskq.queue WHERE name <> 'elsewhere'");
cmp_ok(scalar @tasks, '>', 40, 'there are many tasks');
my %states = map { $_->[2] => 1 } @tasks;
is(join(' ', sort keys %states), 'blocked cancelled dead done filtered pending recreated running suspended', 'in every state but redundant');
cmp_ok(scalar @flows, '>=', 5, 'and instances');

# ways(TEXT): the call with each task, instance, queue
sub ways
{
	my ($text) = @_;
	my @put;

	if ($text =~ /(?<!')\{(?:task|dead|poison|held|ids|tokens|decisions|step|at)\}/)
	{
		for (@tasks)
		{
			my ($id, $token, undef, $queue) = @$_;

			push @put, { map({ $_ => $id } qw(task dead poison step)), held => "$id, $token", ids => "ARRAY[$id]", tokens => "ARRAY[$token]", at => "'$queue'",
				queue => "'$queue'", worker => "'a worker'", decisions => qq('[{"task_id": $id, "token": $token, "outcome": "filter"}]') };
		}
	}
	elsif ($text =~ /(?<!')\{flow\}/) { @put = map { { flow => $_ } } @flows; }
	elsif ($text =~ /(?<!')\{queue_id\}/) { @put = map { { queue_id => $_ } } 0, sort values %queue_ids; }
	elsif ($text =~ /(?<!')\{queue\}/) { @put = map { { queue => "'$_'", worker => "'a worker'" } } @queues, 'nowhere'; }
	else { @put = ({ worker => "'a worker'" }); }
	return map { my $put = $_; $text =~ s/(?<!')\{([a-z_]+)\}/$put->{$1} \/\/ die "no $1 in $text"/ger } @put;
}

# Every function of the extension: its name, whether the role may execute it,
# and a call with nulls
my @functions = map { [ split /\|/ ] } split /\n/, $sql->(<<'SQL');
SELECT CASE WHEN p.pronamespace = 'taskq'::regnamespace THEN 'taskq.' ELSE '' END || p.proname, p.prokind, has_function_privilege('observer', p.oid, 'EXECUTE'),
       format('%s(%s)', p.oid::regproc, (SELECT string_agg('NULL::' || t::regtype, ', ') FROM unnest(p.proargtypes) t))
  FROM pg_proc p
  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'taskq'
 ORDER BY 1
SQL
my (@unknown, @todo);
for (@functions)
{
	my ($name, $kind, $may, $nulls) = @$_;
	my @texts = @{ $calls{$name} // [] };

	push @unknown, $name if $may eq 't' && !@texts;
	@texts = ($kind eq 'p' ? "CALL $nulls" : $kind eq 'a' ? "(SELECT $nulls)" : $nulls) if $may ne 't';
	push @todo, map { [ $name, $_ ] } map { ways($_) } @texts;
}
is(join(' ', @unknown), '', 'the test knows how to call every function that a role may execute');

# Every relation of the schema, and what a condition or an error could tell
my @relations = map { [ split /\|/ ] } split /\n/, $sql->(<<'SQL');
SELECT c.relname, has_table_privilege('observer', c.oid, 'SELECT') FROM pg_class c
 WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') ORDER BY 1
SQL
for my $relation (map { $_->[0] } @relations)
{
	push @todo, [ "taskq.$relation", "taskq.$relation" ], [ "taskq.$relation", "(SELECT x FROM taskq.$relation x WHERE m.tells(x::text)) AS" ],
	  [ "taskq.$relation", "(SELECT x FROM taskq.$relation x WHERE x::text LIKE '%MARK%' AND (x::text)::int > 0) AS" ];
}
push @todo, [ 'pg_stats', 'pg_stats' ], [ 'pg_stat_activity', 'pg_stat_activity' ], [ 'pg_stat_statements', 'pg_prepared_statements' ];
$sql->(<<'SQL');
-- a condition that the planner likes to evaluate early, and that tells what it gets
CREATE FUNCTION m.tells(words text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
BEGIN
    RAISE NOTICE '%', words;
    RETURN true;
END
$$;
SQL
$sql->('INSERT INTO m.todo (name, call) VALUES ' . join ', ', map { my ($name, $call) = map { s/'/''/gr } @$_; "('$name', '$call')" } @todo);
cmp_ok(scalar @todo, '>', 2000, 'there are many calls');

# What was said to a role: of each call, and in notices
sub told_to
{
	my ($role) = @_;
	my ($rc, undef, $notices) = $node->psql('postgres', "SET client_min_messages = debug1;\nDELETE FROM m.got;\nCALL m.run('$role');");
	my $top = '';

	die "the calls of $role failed: $notices" if $rc != 0;
	# what waits cannot run in a transaction
	for my $call ((map { "taskq_await($_->[0], '0')" } @tasks), (map { "taskq_await_workflow($_, '0')" } @flows), (map { "taskq_wait('$_', '0')" } @queues))
	{
		my (undef, $out, $err) = $node->psql('postgres', "SET ROLE $role;\nCALL $call;", on_error_stop => 0);
		$top .= "$call: $out $err\n";
	}
	return ($notices, $top);
}

# marks_in(ROLE): {kind => [where]}, and what stands where
sub marks_of
{
	my ($role) = @_;
	my ($notices, $top) = told_to($role);
	my $hex = unpack 'H*', 'MARK-data';
	my %found;

	for (map({ "$_" } split /\n/, $sql->(q{SELECT name || ': ' || replace(words, E'\n', ' ') FROM m.got WHERE words ~* 'MARK|4d41524b' ORDER BY 1})),
		map({ "a notice: $_" } grep { /MARK|4d41524b/i } split /\n/, $notices), map({ "a wait: $_" } grep { /MARK|4d41524b/i } split /\n/, $top))
	{
		my $line = s/$hex/MARK-data/gr;

		push @{ $found{$_} }, $line for $line =~ /MARK-?(\w*)/g;
	}
	return \%found;
}

sub first_of
{
	my ($found) = @_;
	return join "\n", map { "$_: " . substr($found->{$_}[0], 0, 300) } sort keys %$found;
}

# Conditions on contents: how many tasks a list finds, and whether an operation
# takes them. What the role cannot see matches no condition, whatever it is.
my %condition = (
	'payload' => q('{"payload": "$.**.secret starts with \"MARK\""}'),
	'no payload' => q('{"payload": "!($.secret == \"no\")"}'),
	'error' => q('{"error": "MARK"}'),
	'fingerprint' => q(jsonb_build_object('fingerprint', taskq_fingerprint('MARK-detail'))));

sub answer_to
{
	my ($role, $call) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET ROLE $role;\nBEGIN;\nSELECT count(*) FROM $call;\nROLLBACK;");
	return $rc == 0 ? $out : $err =~ /ERROR:\s+(.*)/ ? $1 : $err;
}

for my $name (sort keys %condition)
{
	is(answer_to($_, "taskq_list(filter => $condition{$name})"), '0', "$_ finds nothing by $name") for 'observer', 'manager';
	is(answer_to('manager', "taskq_manage_where('hold', 'q', $condition{$name}, dry_run => true)"), 'permission denied for queue "q"',
		"nor can it count by $name");
}
cmp_ok(answer_to('reader', "taskq_list(filter => $condition{$_})"), '>', 10, "a reader finds tasks by $_") for 'payload', 'no payload';
is($sql->(q{SET ROLE observer; SELECT count(*) > 0, bool_and(error IS NOT NULL) FROM taskq_failures()}), 't|t', 'failures have examples for an observer');

# --- nothing reaches an observer, also if it may manage or submit
for my $role ('observer', 'only_observer', 'manager', 'submitter')
{
	is(first_of(marks_of($role)), '', "$role finds no mark");
	my ($calls, $ok) = split /\|/, $sql->("SELECT count(*), count(*) FILTER (WHERE code = 'ok' AND words <> '') FROM m.got WHERE role = '$role'");
	cmp_ok($ok, '>', 300, "$ok of $calls calls of $role have an answer");
}
is($sql->(q{SELECT string_agg(DISTINCT name, ' ') FROM m.got WHERE code = 'XX000'}), '', 'no internal error');

# --- the control: the same calls find each kind of mark for a reader
my $found = marks_of('reader');
is(join(' ', grep { !$found->{$_} } @kinds), '', 'a reader finds each kind of mark');
my @empty;
for (grep { $_->[1] eq 't' } @relations)
{
	push @empty, $_->[0] if $sql->("SELECT count(*) FROM m.got WHERE role = 'reader' AND name = 'taskq.$_->[0]' AND call = name AND words <> ''") eq '0';
}
is(join(' ', @empty), '', 'there are rows in every view: fill one that is new');

# --- with the option redact nothing reaches a reader either
$sql->(q{SELECT taskq_alter_queue(q, '{"redact": ["$.**.secret", "$.create"]}') FROM unnest('{q,flow,side,*}'::text[]) q});
$sql->(q{SELECT taskq_alter_queue(q, '{"redact": []}') FROM unnest('{letters,elsewhere,bare}'::text[]) q});
$sql->(q{SELECT taskq_alter_queue('sql', '{"redact": ["$"]}')});
is(answer_to('reader', "taskq_list('$_', filter => $condition{payload})"), '0', "nor by a condition on the payload in queue $_") for @queues;
is(first_of(marks_of('reader')), '', 'a reader finds no mark that is redacted');
cmp_ok($sql->(q{SELECT count(*) FROM m.got WHERE words LIKE '%[redacted]%'}), '>', 100, 'it finds what stands in their place');
cmp_ok($sql->(q{SELECT count(*) FROM m.got WHERE words LIKE '%"plain"%'}), '>', 100, 'and the rest of the documents');

# --- notifications have no contents
my $listener = $node->background_psql('postgres');
$listener->query_safe("LISTEN taskq_$_") for @queues;
$sql->("SELECT m.submit('notified', q => q) FROM unnest('{q,flow}'::text[]) q");
my $heard = '';
ok(within(30, sub { $heard .= $listener->query('SELECT 1'); $heard =~ /notification/ }), 'a notification comes');
unlike($heard, qr/MARK|payload "/, 'without contents');
$listener->quit;

sound($node);
done_testing();

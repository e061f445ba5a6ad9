# TaskqRights: the matrix of rights (test/rights/matrix), and how each of its
# calls is made.
package TaskqRights;

use strict;
use warnings;
use Exporter 'import';
use FindBin;
use JSON::PP ();
use POSIX ();

our @EXPORT = qw(read_matrix make_extension fill_queues run_calls run_views
  call_of told_of unknown_id roles_of processor_time);

my $json = JSON::PP->new->canonical->allow_nonref;

sub unknown_id { return 987654321 }

# read_matrix(): { roles => {class => [role]}, public => [[class, queue,
# right]], calls => {name => text}, classes => [class], cells => [{call,
# object, expected => {class => word}}], masked, views => {view => {class =>
# word}} }
sub read_matrix
{
	my $m = { roles => {}, alike => {}, unlike => {}, public => [], calls => {}, cells => [], masked => {}, contents => {}, views => {} };
	my ($section, @calls, $fresh);

	open my $file, '<', "$FindBin::Bin/../rights/matrix" or die "no matrix: $!";
	while (my $line = <$file>)
	{
		chomp $line;
		next if $line =~ /^#/ || $line !~ /\S/;
		if ($line =~ /^\[(\w+)\]$/) { $section = $1; @calls = (); next; }
		my ($first, @words) = split ' ', $line;
		if ($section eq 'roles') { $m->{roles}{$first} = \@words; }
		elsif ($section =~ /^(?:alike|unlike)$/) { $m->{$section}{$first} = $words[0]; }
		elsif ($section eq 'public') { push @{ $m->{public} }, [ $first, @words ]; }
		elsif ($section =~ /^(?:masked|contents)$/) { $m->{$section}{$first} = \@words; }
		elsif ($section eq 'calls') { ($m->{calls}{$1} = $2) if $line =~ /^(\S+)\s+(.*)$/; }
		elsif ($line =~ /^\s{20}/) { $m->{classes} = [ $first, @words ]; }
		elsif ($section eq 'functions' && $line =~ /^\S/)
		{
			@calls = () if !$fresh;
			push @calls, $first, @words;
			$fresh = 1;
			next;
		}
		else
		{
			die "not a word for each column: $line" if @words != @{ $m->{classes} };
			my %expected;
			@expected{ @{ $m->{classes} } } = @words;
			$expected{$_} = $expected{ $m->{alike}{$_} } for keys %{ $m->{alike} };
			if ($section eq 'views') { $m->{views}{$first} = \%expected; }
			else
			{
				for my $call (@calls)
				{
					my %its = %expected;
					if (exists $m->{unlike}{$call}) { $its{$_} = $m->{unlike}{$call} for keys %{ $m->{alike} }; }
					push @{ $m->{cells} }, { call => $call, object => $first, expected => \%its };
				}
			}
		}
		$fresh = 0;
	}
	return $m;
}

sub roles_of
{
	my ($m) = @_;

	return map { my $class = $_; map { [ $_, $class ] } @{ $m->{roles}{$class} } } @{ $m->{classes} }, sort keys %{ $m->{alike} };
}

# make_extension(NODE, DATABASE, MATRIX): the roles, and a database whose
# extension belongs to a role that is no longer a superuser.
sub make_extension
{
	my ($node, $database, $m) = @_;
	my @roles = map { $_->[0] } roles_of($m);

	$node->safe_psql('postgres', join '', map { "CREATE ROLE $_;" } @roles, 'stranger');
	$node->safe_psql('postgres', <<SQL);
CREATE DATABASE $database;
ALTER ROLE root SUPERUSER;
ALTER ROLE ext_owner SUPERUSER LOGIN;
ALTER ROLE outsider NOINHERIT;
GRANT work_q1, read_q1, manage_q1, owner_q1 TO outsider;
CREATE ROLE between IN ROLE work_q1;
GRANT between TO heir_of_work;
GRANT work_all TO heir_of_all;
GRANT owner_q1 TO owner_granted;
GRANT ext_owner TO heir_of_ext;
GRANT pg_monitor TO monitor;
SQL
	$node->safe_psql($database, 'CREATE EXTENSION taskq', extra_params => [ '-U', 'ext_owner' ]);
	$node->safe_psql('postgres', 'ALTER ROLE ext_owner NOSUPERUSER NOLOGIN');
	return;
}

# fill_queues(NODE, DATABASE, MATRIX): three queues alike, whose tasks have
# "secret of QUEUE" wherever they can, and "mark of QUEUE" in what monitors may
# see; workers of all; and the grants.
sub fill_queues
{
	my ($node, $database, $m) = @_;
	my $text = <<'SQL';
CREATE SCHEMA m;
SELECT setval('taskq.task_id_seq', 700000);
SELECT taskq_grant('*', 'owner_q1', '{manage}');
SET ROLE owner_q1;
SELECT taskq_create_queue('q1', '{"history": "transitions"}');
RESET ROLE;
SELECT taskq_revoke('*', 'owner_q1', '{manage}');
SELECT taskq_create_queue('q2', '{"history": "transitions"}');
SELECT taskq_create_queue('q3', '{"history": "transitions"}');
CREATE TABLE m.task (queue text, what text, task_id bigint, token bigint, stale bigint, PRIMARY KEY (queue, what));
CREATE FUNCTION m.submit(queue text, what text, priority int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO m.task SELECT queue, what, taskq_submit(queue, to_jsonb(repeat('secret of ' || queue, 300)), priority,
        headers => jsonb_build_object('h', 'secret of ' || queue), data => convert_to('secret of ' || queue, 'UTF8'), key => 'mark of ' || queue,
        correlation_id => 'mark of ' || queue, reference => what || ', mark of ' || queue)
$$;
CREATE FUNCTION m.claim(queue text, what text) RETURNS void LANGUAGE sql AS $$
    UPDATE m.task t SET stale = t.token, token = c.token FROM taskq_claim(claim.queue, 'label', lease => '1 d') c
     WHERE t.task_id = c.task_id AND t.queue = claim.queue AND t.what = claim.what
$$;
CREATE FUNCTION m.fill(q text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one m.task;
    word text := 'secret of ' || q;
BEGIN
    PERFORM m.submit(q, 'running', 9);
    PERFORM m.claim(q, 'running');
    SELECT * INTO one FROM m.task t WHERE t.queue = q AND t.what = 'running';
    PERFORM taskq_checkpoint(one.task_id, one.token, to_jsonb(word));
    PERFORM taskq_release(one.task_id, one.token, reason => word, result => to_jsonb(word));
    PERFORM m.claim(q, 'running');
    SELECT * INTO one FROM m.task t WHERE t.queue = q AND t.what = 'running';
    PERFORM taskq_progress(one.task_id, one.token, 0.5, word);
    PERFORM m.submit(q, 'dead', 9), m.claim(q, 'dead');
    SELECT * INTO one FROM m.task t WHERE t.queue = q AND t.what = 'dead';
    PERFORM taskq_fail(one.task_id, one.token, word, false, detail => to_jsonb(word));
    PERFORM m.submit(q, 'poison', 9);
    SELECT * INTO one FROM m.task t WHERE t.queue = q AND t.what = 'poison';
    PERFORM taskq_poison(one.task_id, word);
    PERFORM m.submit(q, 'done', 9), m.claim(q, 'done');
    SELECT * INTO one FROM m.task t WHERE t.queue = q AND t.what = 'done';
    PERFORM taskq_complete(one.task_id, one.token, to_jsonb(word));
    -- a workflow whose first step is done; the second comes much later
    PERFORM taskq_define_workflow(jsonb_build_object('namespace', q, 'name', 'flow', 'version', '1', 'queue', q,
        'steps', jsonb_build_array(jsonb_build_object('name', q, 'config', word), jsonb_build_object('name', q || ' next', 'depends_on', jsonb_build_array(q)))));
    INSERT INTO m.task SELECT q, 'flow', taskq_start_workflow('flow', to_jsonb(word), namespace => q, priority => 9);
    INSERT INTO m.task SELECT q, 'step', task_id, token FROM taskq_claim(q);
    SELECT * INTO one FROM m.task t WHERE t.queue = q AND t.what = 'step';
    PERFORM taskq_complete(one.task_id, one.token, to_jsonb(word));
    PERFORM taskq_hold(task_id) FROM taskq.workflow_steps WHERE step = q || ' next';
    -- a batch that is done
    PERFORM taskq_define_workflow(jsonb_build_object('namespace', q, 'name', 'batch', 'version', '1', 'queue', q,
        'steps', jsonb_build_array(jsonb_build_object('name', q || ' batch', 'type', 'batch'),
                                   jsonb_build_object('name', q || ' part', 'type', 'batch_worker', 'depends_on', jsonb_build_array(q || ' batch')))));
    PERFORM taskq_start_workflow('batch', to_jsonb(word), namespace => q, priority => 9);
    PERFORM taskq_complete(task_id, token, '{"total": 4, "size": 4}') FROM taskq_claim(q);
    PERFORM taskq_complete(task_id, token, to_jsonb(word)) FROM taskq_claim(q);
    INSERT INTO taskq.metric_minute (queue_id, slot, at, submitted, ready, running) SELECT queue_id, 1, now(), 4711, 0, 0 FROM taskq.queue WHERE name = q;
    PERFORM m.submit(q, 'waiting', 0);
    PERFORM taskq_change('label', doc_adds => jsonb_build_array(jsonb_build_object('namespace', q, 'key', 'mark of ' || q, 'content', word)));
    PERFORM taskq_schedule('mark of ' || q, 'every 10 years', q);
    PERFORM taskq_pause_operation(taskq_manage_where('hold', q, jsonb_build_object('key', word), word));
    UPDATE taskq.operation SET error = word WHERE queue = q;
END
$$;
SELECT m.fill(q) FROM unnest(ARRAY['q1', 'q2', 'q3']) q;
SQL

	for my $role ((map { $_->[0] } roles_of($m)), 'stranger')
	{
		$text .= <<SQL;
SELECT taskq_grant('q3', '$role', '{work}');
SET ROLE $role;
SELECT taskq_register('worker of $role');
RESET ROLE;
SELECT taskq_revoke('q3', '$role', '{work}');
SQL
	}
	for my $right ('submit', 'work', 'observe', 'read', 'manage')
	{
		$text .= "SELECT taskq_grant('q1', '${right}_q1', '{$right}'), taskq_grant('*', '${right}_all', '{$right}');\n";
	}
	$text .= <<'SQL';
SELECT taskq_grant('q2', 'rights_q2', '{submit,work,read,manage}');
SELECT taskq_grant('q3', 'mixed', '{submit,work,read,manage}'), taskq_grant('q1', 'mixed', '{submit}');
SELECT taskq_grant('q3', 'owner_granted', '{submit,work,read,manage}');
SELECT taskq_grant(q, 'revoked', '{submit,work,read,manage}') FROM unnest(ARRAY['q1', '*']) q;
SELECT taskq_revoke(q, 'revoked', '{submit,work,read,manage}') FROM unnest(ARRAY['q1', '*']) q;
SQL
	# created once, and rolled back: the sequences that a rolled back call
	# leaves advanced
	$text .= <<'SQL';
CREATE TABLE m.todo (n serial PRIMARY KEY, role text, call text, tells text, shut boolean);
CREATE TYPE m.answer AS (code text, words text, helped boolean);
-- the code of an error, as the matrix has it
CREATE FUNCTION m.code(state text, message text, detail text, hint text, role text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    queue text := substring(message from '^permission denied for queue "(.*)"$');
    of_right text := substring(detail from '"(\w+)"');
BEGIN
    IF state LIKE 'TQ0%' THEN
        RETURN ltrim(substr(state, 3), '0');
    ELSIF state <> '42501' THEN
        RETURN state;
    ELSIF message LIKE ANY ('{permission denied for function taskq\\_%,permission denied for procedure taskq\\_%,permission denied for aggregate taskq\\_%}') THEN
        RETURN '.';
    ELSIF message ~ '^permission denied for workflow [0-9]+$' AND detail = format('Privilege "%s" on the queues of its steps is required.', of_right) THEN
        RETURN lower(left(of_right, 1));
    ELSIF message ~ '^permission denied for task [0-9]+$' AND detail = format('Privilege "%s" on its queue is required.', of_right) THEN
        RETURN lower(left(of_right, 1));
    ELSIF message LIKE 'permission denied for worker%' THEN
        RETURN 'n';
    ELSIF message LIKE 'permission denied to activate%' THEN
        RETURN '!';
    ELSIF hint = format('Ask a role that can manage the queue to run: SELECT taskq_grant(%L, %L, ''{%s}'');', queue, role, of_right)
        AND detail = format('Privilege "%s" is required.', of_right) THEN
        RETURN upper(left(of_right, 1)) || queue;
    END IF;
    RETURN CASE WHEN message LIKE 'cannot complete % task%' THEN state ELSE state || ': ' || message END;
END
$$;
-- a call as a role, rolled back; words: everything that it returned
CREATE FUNCTION m.ask(role text, call text, tells text, shut boolean, first text, OUT code text, OUT words text, OUT hint text) LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail text;
    context text;
    at_schema text;
    at_table text;
    at_constraint text;
BEGIN
    IF first IS NOT NULL THEN
        EXECUTE first;
    END IF;
    IF shut THEN
        SET LOCAL taskq.auto_create_queues = off;
    END IF;
    EXECUTE format('SET LOCAL ROLE %I', role);
    IF call LIKE 'CALL %' THEN
        EXECUTE call;
        code := 'ok';
        RAISE division_by_zero;
    END IF;
    EXECUTE format($q$SELECT coalesce(string_agg(DISTINCT coalesce((%s)::text, 'ok'), '+'), 'ok'), string_agg(x::text, ' ') FROM %s x$q$, tells, call)
       INTO code, words;
    RAISE division_by_zero;
EXCEPTION
    WHEN division_by_zero THEN
        words := coalesce(words, '');
    WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT,
            at_schema = SCHEMA_NAME, at_table = TABLE_NAME, at_constraint = CONSTRAINT_NAME;
        code := m.code(SQLSTATE, message, detail, hint, role);
        words := concat_ws('|', SQLSTATE, message, detail, hint, replace(context, call, 'CALL'), at_schema, at_table, at_constraint);
END
$$;
CREATE FUNCTION m.run() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    todo m.todo;
    got record;
    again record;
    helped text;
BEGIN
    FOR todo IN SELECT * FROM m.todo ORDER BY n LOOP
        got := m.ask(todo.role, todo.call, todo.tells, todo.shut, NULL);
        helped := NULL;
        IF got.hint LIKE '%to run: %' THEN
            again := m.ask(todo.role, todo.call, todo.tells, todo.shut, substring(got.hint from 'to run: (.*);$'));
            helped := CASE WHEN again.code = got.code OR again.code LIKE '42%' THEN again.words ELSE 'ok' END;
        END IF;
        RETURN NEXT json_build_array(todo.n, got.code, got.words, helped);
    END LOOP;
END
$$;
SQL
	$node->safe_psql($database, $text);
	return;
}

# The tasks of the queues: {q1}{running}{task_id}
sub tasks_of
{
	my ($node, $database) = @_;
	my %task;

	for (split /\n/, $node->safe_psql($database, 'SELECT queue, what, task_id, token, stale FROM m.task'))
	{
		my ($queue, $what, $id, $token, $stale) = split /\|/;
		$task{$queue}{$what} = { task_id => $id, token => $token, stale => $stale };
	}
	return \%task;
}

# call_of(TASKS, TEXT, OBJECT, ROLE): (call, what it returns, ids in it)
sub call_of
{
	my ($task, $text, $object, $role) = @_;
	my ($call, $tells) = $text =~ /^(.*\)) => (.*)$/ ? ($1, $2) : ($text, undef);
	my %put;
	my @ids;

	if ($object =~ /^(task|held|stale)(\d)$/)
	{
		my ($kind, $of) = ($1, $task->{"q$2"});
		my $none = { task_id => unknown_id(), token => 1 };
		my $running = $of->{running} // $none;
		my $one = $kind eq 'task' ? $of->{waiting} // $none : $running;
		my $token = $kind eq 'stale' ? $running->{stale} : $running->{token};

		%put = (task => $one->{task_id}, dead => ($of->{dead} // $none)->{task_id}, poison => ($of->{poison} // $none)->{task_id},
			flow => ($of->{flow} // $none)->{task_id}, step => ($of->{step} // $none)->{task_id}, held => "$one->{task_id}, $token", ids => "ARRAY[$one->{task_id}]", tokens => "ARRAY[$token]",
			at => "'q" . ($2 || 1) . "'",
			decisions => qq('[{"task_id": $one->{task_id}, "token": $token, "outcome": "filter"}]'));
		@ids = ($one->{task_id}, $put{dead}, $put{poison}, $put{flow}, $put{step});
	}
	elsif ($object =~ /^(mine|theirs|free)$/)
	{
		$put{worker} = { mine => "'worker of $role'", theirs => "'worker of stranger'", free => "'an unused name'" }->{$object};
	}
	else
	{
		$put{queue} = $object eq 'shut' ? "'nowhere'" : "'$object'";
	}
	$call =~ s/(?<!')\{([a-z]+)\}/$put{$1} \/\/ die "no $1 in object $object of $call"/ge;
	return ($call, $tells // 'NULL', @ids);
}

# told_of(WORDS, IDS...): with the ids replaced by one and the same
sub told_of
{
	my ($words, @ids) = @_;

	for my $id (@ids) { $words =~ s/(?<!\d)$id(?!\d)/ID/g; }
	return $words;
}

# Seconds of the server's processor time that calls have taken so far
my $processor_time = 0;

sub processor_time { return $processor_time }

# run_calls(NODE, DATABASE, MATRIX, [[role, class]...]): one hash for each cell,
# with its result.
sub run_calls
{
	my ($node, $database, $m, @roles) = @_;
	my $task = tasks_of($node, $database);
	my $exists = $node->safe_psql($database, "SELECT string_agg(DISTINCT proname, ' ') FROM pg_proc WHERE proname LIKE 'taskq\\_%'");
	my (@cells, @values);

	for my $pair (@roles)
	{
		my ($role, $class) = @$pair;

		for my $cell (@{ $m->{cells} })
		{
			my ($function) = $cell->{call} =~ /^(\w+)/;
			next unless $exists =~ /\b$function\b/;
			my $text = $m->{calls}{ $cell->{call} } // die "no call $cell->{call}";
			my ($call, $tells, @ids) = call_of($task, $text, $cell->{object}, $role);
			push @cells, { role => $role, class => $class, name => $cell->{call}, object => $cell->{object},
				expected => $cell->{expected}{$class}, ids => \@ids };
			push @values, '(' . join(', ', scalar @cells, map({ "'" . s/'/''/gr . "'" } $role, $call, $tells),
				$cell->{object} eq 'shut' ? 'true' : 'false') . ')';
		}
	}
	my @told = split /\n/, $node->safe_psql($database, "TRUNCATE m.todo;\nINSERT INTO m.todo VALUES "
		  . join(",\n", @values) . ";\nSELECT m.run();\nSELECT pg_read_file('/proc/self/stat');");
	# what the session has used: after the name, in ticks
	my @used = (split ' ', pop(@told) =~ s/^.*\) //r)[ 11, 12 ];
	$processor_time += ($used[0] + $used[1]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
	for (@told)
	{
		my ($n, $code, $words, $helped) = @{ $json->decode($_) };
		my $cell = $cells[ $n - 1 ];
		@$cell{qw(code words helped)} = (short_code($code, $cell->{object}), $words, $helped);
	}
	return @cells;
}

# The code as the matrix has it: Mq1 on q1 is M; "of q1+of q2" is q1+q2.
sub short_code
{
	my ($code, $object) = @_;

	$object = 'nowhere' if $object eq 'shut';
	return $1 if $code =~ /^TQ0*(\d+)$/;
	return $1 if $code =~ /^([SWROM])(.+)$/ && $2 eq $object && $2 ne '*';
	$code =~ s/of (q\d)/$1/g;
	return $code;
}

# run_views(NODE, DATABASE, MATRIX, [[role, class]...]): the same for views.
sub run_views
{
	my ($node, $database, $m, @roles) = @_;
	my %volatile = map { $_ => 1 } qw(counted_at oldest_ready_age last_seen worker_seen);
	my @views = sort keys %{ $m->{views} };
	my @cells;
	my $look = sub {
		my ($role) = @_;
		my %rows;
		my $told = $node->safe_psql($database, "SET ROLE $role;\n" . join '',
			map { "SELECT json_build_array('$_', row_to_json(v)) FROM taskq.$_ v;\n" } @views);
		for (split /\n/, $told)
		{
			my ($view, $row) = @{ $json->decode($_) };
			# of the server, which others use, too
			next if $view eq 'metrics' && $row->{name} =~ /^(?:snapshot|dispatch|duties|background_worker)\./;
			# the background worker may write others at any time
			next if $view eq 'metric_history' && ($row->{submitted} // 0) != 4711;
			$row->{value} = 'known' if $view eq 'metrics' && $row->{name} =~ /_age$|longest/;
			$row->{$_} = defined $row->{$_} ? 'known' : undef for grep { $volatile{$_} } keys %$row;
			push @{ $rows{$view} }, $row;
		}
		return \%rows;
	};
	my $all = $look->('root');

	for my $pair (@roles)
	{
		my ($role, $class) = @$pair;
		my $seen = $look->($role);
		my %mine = map { $_ => 1 } split /\n/,
		  $node->safe_psql($database, "SELECT rolname FROM pg_roles WHERE pg_has_role('$role', oid, 'USAGE')");

		for my $view (@views)
		{
			my $word = $m->{views}{$view}{$class};
			my %of = map { $_ => 1 } split /\+/, $word;
			my @wanted = grep {
				$word eq 'all' || $word eq 'seen' || ($word eq 'own' ? $mine{ $_->{role} } : $of{ $_->{queue} // $_->{namespace} // ($_->{step} // '') =~ s/ .*//r })
			} @{ $all->{$view} // [] };
			if ($word eq 'seen')
			{
				my %null = map { $_ => undef } @{ $m->{masked}{$view} // [] };
				@wanted = map { { %$_, %null } } @wanted;
			}
			if ($m->{alike}{$class})
			{
				my %null = map { $_ => undef } @{ $m->{contents}{$view} // [] };
				@wanted = map { { %$_, %null } } @wanted;
				for my $row (grep { ref $_->{errors} eq 'ARRAY' } @wanted)
				{
					$row->{errors} = [ map { my %error = %$_; delete $error{detail}; \%error } @{ $row->{errors} } ];
				}
			}
			push @cells, { role => $role, class => $class, name => $view, word => $word,
				wanted => join("\n", sort map { $json->encode($_) } @wanted),
				got => join("\n", sort map { $json->encode($_) } @{ $seen->{$view} // [] }) };
		}
	}
	return @cells;
}

1;

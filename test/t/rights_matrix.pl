# Each kind of role calls each public function and view, and may do what
# test/rights/matrix says. Messages reveal nothing of objects that the caller
# may not see.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use TaskqRights;
use TaskqTest;

my $node = start_node('rights', 'fsync' => 'off', 'taskq.reaper_interval' => "'1 h'",
	'taskq.stale_threshold' => "'1 h'", 'taskq.dead_threshold' => "'2 h'");
my $m = read_matrix();
my $sql = sub { $node->safe_psql('rights', $_[0]) };

make_extension($node, 'rights', $m);
fill_queues($node, 'rights', $m);

# --- no public function or view is left out
my %named = map { /^(\w+)/; $1 => 1 } map { $_->{call} } @{ $m->{cells} };
is(join(' ', grep { !$named{$_} } split /\n/, $sql->(<<'SQL')), '', 'every public function is in the matrix');
SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
  JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'taskq'
 WHERE p.pronamespace <> 'taskq'::regnamespace
SQL
is(join(' ', grep { !$m->{views}{$_} } split /\n/, $sql->(<<'SQL')), '', 'every public view is in the matrix');
SELECT c.relname FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace = 'taskq'::regnamespace AND a.grantee = 0
SQL
is(join(' ', grep { my $call = $_; !grep { $_->{call} eq $call } @{ $m->{cells} } } sort keys %{ $m->{calls} }), '',
	'every call is made');

# --- the cells
my $begin = time;
my @cells = run_calls($node, 'rights', $m, roles_of($m));
for (@{ $m->{public} })
{
	my ($class, $queue, $right) = @$_;

	$sql->("SELECT taskq_grant('$queue', 'public', '{$right}')");
	push @cells, map { { %$_, public => 1 } } run_calls($node, 'rights', $m, [ 'guest', $class ]);
	$sql->("SELECT taskq_revoke('$queue', 'public', '{$right}')");
}
my $seconds = time - $begin;
my %wrong;
for my $cell (@cells)
{
	next if $cell->{code} eq $cell->{expected};
	push @{ $wrong{ $cell->{name} } },
	  "$cell->{role} ($cell->{class}), $cell->{object}: $cell->{code}, not $cell->{expected}: " . substr($cell->{words}, 0, 200);
}
for my $name (sort keys %{ { map { $_->{name} => 1 } @cells } })
{
	is(first_of(@{ $wrong{$name} // [] }), '', "$name: who may");
}
my @unhelpful = map { "$_->{name} $_->{role} $_->{object}: $_->{helped}" } grep { ($_->{helped} // 'ok') ne 'ok' } @cells;
is(first_of(@unhelpful), '', 'the grant that a HINT shows makes the call work');
cmp_ok(scalar(grep { defined $_->{helped} } @cells), '>', 100, 'there were many such hints');

# --- no call reveals what the role may not read; tap leaks has observers, who
# may see messages and errors
my %reads = (
	q1 => { map { $_ => 1 } qw(w1 r1 o1 wA rA oA own ext su) },
	q2 => { map { $_ => 1 } qw(wA rA oA q2 ext su) },
	q3 => { map { $_ => 1 } qw(wA rA oA x1 own ext su) });
my @leaks;
for my $cell (@cells)
{
	for my $queue (sort keys %reads)
	{
		next if $reads{$queue}{ $cell->{class} };
		my $hex = unpack 'H*', "secret of $queue";
		push @leaks, "$cell->{name} $cell->{role} $cell->{object}: secret of $queue" if $cell->{words} =~ /secret of $queue|$hex/;
		next if $cell->{class} eq 'mon';
		push @leaks, "$cell->{name} $cell->{role} $cell->{object}: mark of $queue" if $cell->{words} =~ /mark of $queue/;
	}
}
is(first_of(@leaks), '', 'no role gets what it may not read');
cmp_ok(scalar(grep { $_->{words} =~ /secret of q1/ } @cells), '>', 10, 'other roles get it');

# --- a task that the role may not see, and one that does not exist, give the
# same message
my %none = map { ("$_->{role} $_->{name}" => $_) } grep { $_->{object} =~ /0$/ && !$_->{public} } @cells;
my (@differ, $compared);
for my $cell (grep { $_->{object} =~ /^(?:task|held|stale)[12]$/ && !$_->{public} } @cells)
{
	my $other = $none{"$cell->{role} $cell->{name}"} // next;
	next if $cell->{code} ne $other->{code} || $cell->{code} eq '.' || ($cell->{class} eq 'x1' && $cell->{object} =~ /1$/);
	$compared++;
	my ($one, $two) = (told_of($cell->{words}, @{ $cell->{ids} }), told_of($other->{words}, @{ $other->{ids} }));
	push @differ, "$cell->{name} $cell->{role} $cell->{object}: $one\n  $two" if $one ne $two;
}
is(first_of(@differ), '', 'the same message, DETAIL, HINT and context, byte by byte');
cmp_ok($compared, '>', 300, 'many messages were compared');

# --- the same in lists with other tasks
my ($q2, $t2) = split /\|/, $sql->("SELECT task_id, token FROM m.task WHERE queue = 'q2' AND what = 'running'");
my $none = unknown_id();
my %list = (
	'taskq_get_many' => 'taskq_get_many(ARRAY[%1$s, %3$s])',
	'taskq_complete_many' => 'taskq_complete_many(ARRAY[%1$s, %3$s], ARRAY[%2$s, 1])',
	'taskq_complete_many, strict' => 'taskq_complete_many(ARRAY[%1$s, %3$s], ARRAY[%2$s, 1], strict => true)',
	'taskq_extend_many' => 'taskq_extend_many(ARRAY[%1$s, %3$s], ARRAY[%2$s, 1])',
	'taskq_complete_and_claim' => q{taskq_complete_and_claim(ARRAY[%1$s, %3$s], ARRAY[%2$s, 1], queue => 'q3')},
	'taskq_manage_many' => q{taskq_manage_many('cancel', ARRAY[%1$s, %3$s])},
	(map {
		("taskq_decide_many, strict $_" => q{taskq_decide_many('[{"task_id": %1$s, "token": %2$s, "outcome": "complete"},}
			  . qq{ {"task_id": %3\$s, "token": 1, "outcome": "filter"}]', $_)})
	} 'true', 'false'));
for my $name (sort keys %list)
{
	my @alike;

	for my $role ('mixed', 'owner_granted')
	{
		my @told = map {
			my $call = sprintf $list{$name}, @$_, $none - 1;
			$call =~ s/'/''/g;
			told_of($sql->("SELECT words FROM m.ask('$role', '$call', 'NULL', false, NULL)"), $_->[0])
		} [ $q2, $t2 ], [ $none, 1 ];
		push @alike, $told[0] if $told[0] eq $told[1] && $told[0] =~ /ID|^\W*$/;
	}
	is(scalar @alike, 2, "$name: a list does not reveal which task exists");
}

# --- views
my @views = run_views($node, 'rights', $m, roles_of($m));
for (@{ $m->{public} })
{
	my ($class, $queue, $right) = @$_;

	$sql->("SELECT taskq_grant('$queue', 'public', '{$right}')");
	push @views, run_views($node, 'rights', $m, [ 'guest', $class ]);
	$sql->("SELECT taskq_revoke('$queue', 'public', '{$right}')");
}
for my $view (sort keys %{ $m->{views} })
{
	my @differ = grep { $_->{name} eq $view && $_->{got} ne $_->{wanted} } @views;
	is(join("\n", map { "$_->{role} ($_->{class}, $_->{word}):\n$_->{got}\n  not\n$_->{wanted}" } @differ), '', "view $view: each role sees the right rows");
}
for my $view (sort keys %{ $m->{masked} })
{
	my ($full) = grep { $_->{name} eq $view && $_->{role} eq 'root' } @views;
	is(join(' ', grep { $full->{got} !~ /"$_":[^n]/ } @{ $m->{masked}{$view} }), '', "view $view: other roles see less than monitors");
}

my $count = commify(@cells + @views);
note "figure: $count cells, " . int($seconds) . ' s, ' . int(processor_time()) . ' s of processor time';
diag "$count cells";
# other tests run at the same time
cmp_ok(processor_time(), '<', 30, 'within half a minute of processor time');
sound($node, database => 'rights');
$node->stop('fast');
done_testing();

# Selects some of many calls
sub first_of
{
	my $more = @_ - 10;

	return join "\n", @_[ grep { $_ < @_ } 0 .. 9 ], $more > 0 ? "and $more more" : ();
}

sub commify
{
	my $number = reverse $_[0];

	$number =~ s/(\d{3})(?=\d)/$1,/g;
	return scalar reverse $number;
}

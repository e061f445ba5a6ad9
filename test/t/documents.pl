# Every line of SQL that a page shows runs, in order, in a new database, and
# prints what the page says.  The pages are README.md, CONTRIBUTING.md and all
# of doc, demo, examples and monitoring, whatever they are called: a page with
# SQL that this test does not run must be named in %elsewhere.  How a page says
# what it prints:
#
# - SQL is only in blocks ```sql.
# - If the paragraph after a block begins with "→", it says what the block
# prints: in its first sentence each piece in back quotes is a line, "an empty
# value" an empty line, and "nothing" no line. If it ends with ":" a block
# without a language shows the lines. Columns are separated by " | ", NULLs at
# the end of a line are left out, "…" matches any text. (SQLSTATE `X`) is
# that of the last error. The NOTICE of a queue that was created is left out,
# as the pages say where it occurs for the first time.
# - A block without "→" may print anything. No block raises an error that the
# page does not mention.
# - The test waits where a page says "Wait two seconds" or "after a second".
# - Lines of blocks ```console that begin with "$ " are run by a shell on the
#   pages of doc/operate.  DATABASE is the database of the page.
#
# The extension exists before the first block unless a block of the page creates
# it.
use strict;
use warnings;
use File::Find;
use FindBin;
use lib "$FindBin::Bin/lib";
use TaskqTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $top = "$FindBin::Bin/../..";

# Pages whose SQL is not run here, and why
my %elsewhere = (
	'doc/operate/runbook.md' => 'each statement needs an incident: tap:incidents');

sub pages
{
	my @pages = grep { -e "$top/$_" } 'README.md', 'CONTRIBUTING.md';

	find({ no_chdir => 1, wanted => sub { push @pages, $File::Find::name =~ s{^\Q$top\E/}{}r if /\.md$/ } },
		map { "$top/$_" } qw(doc demo examples));
	return sort @pages;
}

# pieces(TEXT): what a page consists of: [line, 'code', language, text] or
# [line, 'text', paragraph]
sub pieces
{
	my ($page) = @_;
	my (@pieces, $code, $number);

	for (split /\n/, slurp_file("$top/$page"))
	{
		$number++;
		if (/^```(\w*)/)
		{
			push @pieces, [ $number, 'code', $1, '' ] unless $code;
			$code = $code ? undef : $pieces[-1];
		}
		elsif ($code) { $code->[3] .= "$_\n"; }
		elsif (/^\s*$/) { push @pieces, undef if @pieces && $pieces[-1]; }
		elsif (@pieces && $pieces[-1] && $pieces[-1][1] eq 'text') { $pieces[-1][2] .= "\n$_"; }
		else { push @pieces, [ $number, 'text', $_ ]; }
	}
	return grep { $_ } @pieces;
}

# expected(PARAGRAPH, NEXT): the lines, and the SQLSTATE; nothing if the page
# does not say
sub expected
{
	my ($said, $next) = @_;
	return if !$said || $said->[1] ne 'text' || $said->[2] !~ /^→/;
	my $text = $said->[2] =~ tr/\n/ /r;
	my ($sentence) = $text =~ /^→ ?((?:`[^`]*`|[^`.]|\.(?!\s|$))*)/;
	my ($state) = $sentence =~ /SQLSTATE `(\w+)`/;
	my @lines;

	$sentence =~ s/SQLSTATE `\w+`//;
	push @lines, defined $1 ? $1 : '' while $sentence =~ /`([^`]*)`|an empty value/g;
	@lines = split /\n/, $next->[3]
	  if $sentence =~ /:$/ && $next && $next->[1] eq 'code' && $next->[2] eq '';
	return if !@lines && $sentence !~ /^nothing/;
	return (\@lines, $state);
}

sub matches
{
	my ($got, $wanted) = @_;
	my $pattern = join '.*', map { quotemeta } split /…/, $wanted, -1;
	return $got =~ /^$pattern$/s;
}

# run_block(NODE, SQL): the lines that it prints, and the last SQLSTATE
sub run_block
{
	my ($node, $sql) = @_;
	my ($out, @lines) = ('');
	my $input = "\\set VERBOSITY terse\n$sql\n;\n\\echo\n\\echo SQLSTATE :LAST_ERROR_SQLSTATE\n";

	IPC::Run::run([ 'psql', '-X', '-q', '-A', '-t', '-F', ' | ', '-d', $node->connstr('page') ],
		'<', \$input, '>&', \$out) or die "psql failed: $out";
	$out =~ s/\nSQLSTATE (\w+)\n\z//;
	my $state = $1;
	@lines = map { s/(?: \| ?)+$//r } grep { !/^NOTICE:  queue ".*" was created$/ } split /\n/, $out, -1;
	pop @lines if @lines && $lines[-1] eq '';
	return (\@lines, $state);
}

# wait_as_told(TEXT): "Wait two seconds"
my %number = (a => 1, one => 1, two => 2, three => 3, four => 4, five => 5);

sub wait_as_told
{
	my ($text) = @_;
	my ($word) = $text =~ /\b(?:[Ww]ait|after) (\w+)\s+seconds?\b/ or return;
	my $seconds = $number{$word} // $word;
	my $end = time + $seconds;

	die "\"$word\" is no number" unless $seconds =~ /^\d$/;
	within($seconds + 1, sub { time > $end });
	return;
}

# run_commands(NODE, DIRECTORY, TEXT): the commands of a block, and whether all
# succeeded.  OLD and NEW are for pg_upgrade.
sub run_commands
{
	my ($node, $directory, $text) = @_;
	my ($bin) = map { s/\s+$//r } `pg_config --bindir`;
	my $script = join '', map { s/\bDATABASE\b/page/gr } $text =~ /^\$ (.*\n)/mg;
	my $out = '';
	local %ENV = (
		%ENV,
		PGHOST => $node->host,
		PGPORT => $node->port,
		PGUSER => scalar getpwuid($>),
		PGDATA => $node->data_dir,
		OLDDATA => $node->data_dir,
		NEWDATA => "$directory/new",
		OLDBIN => $bin,
		NEWBIN => $bin,
		PATH => "$bin:$ENV{PATH}");

	delete $ENV{PGDATABASE};
	my $good = IPC::Run::run([ 'bash', '-e', '-o', 'pipefail' ], '<', \"cd $directory\n$script",
		'>', "$directory/out", '2>&1');
	return ($good, slurp_file("$directory/out"));
}

# A server that the commands have restarted or replaced is stopped.
sub stop_restarted
{
	my ($node, $directory) = @_;

	system_or_bail('pg_ctl', '-D', "$directory/new", '-m', 'fast', 'stop') if -e "$directory/new/postmaster.pid";
	$node->_update_pid(-e $node->data_dir . '/postmaster.pid' ? 1 : 0);
	$node->stop if defined $node->{_pid};
	return;
}

# Roles outlive the database: the next page may create roles of the same names.
sub drop_page
{
	my ($node) = @_;
	my $roles = $node->safe_psql('postgres', "SELECT string_agg(quote_ident(rolname), ', ') FROM pg_roles"
		  . " WHERE rolname !~ '^pg_' AND NOT rolsuper");

	$node->safe_psql('postgres', 'DROP DATABASE page WITH (FORCE)');
	$node->safe_psql('postgres', "DROP ROLE $roles") if $roles;
	return;
}

sub create_extension
{
	my ($node) = @_;

	$node->safe_psql('page', 'CREATE EXTENSION taskq');
	$node->poll_query_until('page', "SELECT count(*) = 1 FROM pg_stat_activity"
		  . " WHERE backend_type = 'taskq worker' AND datname = 'page' AND wait_event = 'Extension'")
	  or die 'the background worker did not start';
	return;
}

sub run_page
{
	my ($node, $page) = @_;
	my @pieces = pieces($page);
	my ($blocks, $compared, @hidden) = (0, 0);
	my $error = qr/^(?:psql:\S+ )?(?:ERROR|FATAL):/;
	my $statement = qr/(?:SELECT|CALL|INSERT|UPDATE|DELETE|BEGIN|CREATE|ALTER)\b.*;/;
	my @sql = grep { $_->[1] eq 'code' && $_->[2] eq 'sql' } @pieces;
	my $commands = $page =~ m{^doc/operate/} && grep { $_->[1] eq 'code' && $_->[2] eq 'console' } @pieces;
	my $directory = PostgreSQL::Test::Utils::tempdir_short();

	$node = start_node($page =~ s/\W/_/gr, 'client_min_messages' => 'notice', 'fsync' => 'on') if $commands;
	if (@sql)
	{
		$node->safe_psql('postgres', 'CREATE DATABASE page');
		create_extension($node) if !grep { $_->[3] =~ /CREATE EXTENSION taskq/ } @sql;
	}
	for my $i (0 .. $#pieces)
	{
		my ($number, $kind, $language, $sql) = @{ $pieces[$i] };
		if ($kind eq 'text')
		{
			wait_as_told($language) if @sql;
			push @hidden, $number if $language =~ /^    \s*$statement/m;
			next;
		}
		if ($language eq 'console' && $commands)
		{
			my ($good, $out) = run_commands($node, $directory, $sql);

			ok($good, "$page:$number: the commands succeed") or diag($out);
			next;
		}
		if ($language ne 'sql')
		{
			push @hidden, $number if $language eq '' && $sql =~ /^\s*$statement/m;
			next;
		}
		my ($wanted, $wanted_state) = expected(@pieces[ $i + 1, $i + 2 ]);
		my ($got, $state) = run_block($node, $sql);
		my $good = !$wanted
		  || @$got == @$wanted && !grep { !matches($got->[$_], $wanted->[$_]) } 0 .. $#$got;
		my $said = $wanted_state || grep { /$error/ } @{ $wanted // [] };

		$good = 0 if !$said && grep { /$error/ } @$got;
		$blocks++;
		$compared++ if $wanted;
		ok($good, "$page:$number: runs" . ($wanted ? ', and prints what the page says' : ''))
		  or diag("it prints:\n", map({ "  $_\n" } @$got), "the page says:\n", map { "  $_\n" } @{ $wanted // [] });
		is($state, $wanted_state, "$page:$number: the SQLSTATE") if $wanted_state;
	}
	is("@hidden", '', "$page: SQL stands in blocks marked as SQL");
	return if !@sql;
	cmp_ok($compared, '>', 0, "$page: $compared of $blocks blocks say what they print");
	my $there = $node->safe_psql('page', "SELECT count(*) FROM pg_extension WHERE extname = 'taskq'");
	sound($node, database => $there ? 'page' : 'postgres');
	if ($commands) { stop_restarted($node, $directory); }
	else { drop_page($node); }
	return;
}

my $node = start_node('pages', 'client_min_messages' => 'notice', 'fsync' => 'on');

for my $page (pages())
{
	# signatures, which tap:reference compares
	next if $page =~ m{^doc/reference/};
	if ($elsewhere{$page})
	{
		isnt((scalar grep { $_->[1] eq 'code' && $_->[2] eq 'sql' } pieces($page)), 0, "$page has SQL ($elsewhere{$page})");
		delete $elsewhere{$page};
		next;
	}
	run_page($node, $page);
}
is(join(' ', sort keys %elsewhere), '', 'every page that is run elsewhere exists');
$node->stop;
done_testing();

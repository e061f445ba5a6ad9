# The pages of doc/reference and the extension agree on signatures, rows,
# states, reasons, options, settings, rights and errors.  Nothing is missing on
# either side, and each is defined in one place: a signature, a row of a table,
# a heading.
#
# A signature is read where a line of a block of SQL begins with its name, or in
# back quotes where RETURNS or OUT follows. It is created as a function of a
# scratch schema, and so compared as the catalog prints it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use TaskqTest;
use Test::More;

my $top = "$FindBin::Bin/../..";

sub content
{
	my ($file) = @_;
	open my $in, '<', $file or die "$file: $!";
	local $/;
	return scalar <$in>;
}

my @pages = sort glob "$top/doc/reference/*.md";
my $text = join "\n", map { content($_) } @pages;
my $node = start_node('main');

sub rows
{
	my ($sql) = @_;
	my $out = $node->safe_psql('postgres', $sql);
	return map { [ split /\|/, $_, -1 ] } split /\n/, $out;
}

sub code_of { return error_of($node, $_[0]); }

# agree(WHAT, {name => value} of the page, {name => value} of the extension)
sub agree
{
	my ($what, $said, $real) = @_;
	my @wrong;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	for my $name (sort keys %{ { %$said, %$real } })
	{
		my ($s, $r) = ($said->{$name}, $real->{$name});
		if (!defined $s) { push @wrong, "$name: not in the reference"; }
		elsif (!defined $r) { push @wrong, "$name: not in the extension"; }
		elsif ($s ne $r)
		{
			push @wrong, "$name: the reference says \"$s\", the extension \"$r\"";
		}
	}
	ok(!@wrong, $what) or diag(map { "$_\n" } @wrong);
	cmp_ok(scalar keys %$said, '>', 0, "there is something to compare: $what");
	return;
}

# Returns the part below a heading, up to the next heading
sub section
{
	my ($heading) = @_;
	my ($part) = $text =~ /^#+ \Q$heading\E\n(.*?)(?=^#|\z)/ms;
	ok(defined $part, "there is a section \"$heading\"");
	return $part // '';
}

# once(WHAT, NAMES): no name occurs twice
sub once
{
	my ($what, @names) = @_;
	my %times;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	$times{$_}++ for @names;
	is(join(' ', grep { $times{$_} > 1 } sort keys %times), '', "each is defined once: $what");
	return;
}

# The rows of the table with these words in its head: lists of cells
sub table
{
	my ($part, $head) = @_;
	my ($body) = $part =~ /^\|\s*\Q$head\E\s*\|[^\n]*\n\|[-|\s]+\n((?:\|[^\n]*\n)+)/m;
	ok(defined $body, "there is a table \"$head\"");
	return map { s/^\|\s*|\s*\|$//g; [ split /\s*\|\s*/, $_ ] } split /\n/, $body // '';
}

sub quoted { return $_[0] =~ /`([^`]+)`/g; }

(my $prose = $text) =~ s/^```.*?^```$//msg;
once('headings', $prose =~ /^#+ (.*)$/mg);
# a heading that names functions is where they are defined
once('functions in headings', map { /\btaskq_\w+/g } $prose =~ /^#+ (.*)$/mg);

# Signatures and rows.

my %said;
my $name = qr/(?:PROCEDURE\s+)?(?:taskq_\w+|taskq\.\w+)/;
{
	my $rest = $text;
	my @found;

	while ($rest =~ s/^```sql\n(.*?)^```$//ms)
	{
		my $block = $1;
		next unless $block =~ /\A$name\s*\(/;
		$block =~ s/--.*$//mg;
		push @found, split /^(?=$name\s*\()/m, $block;
	}
	push @found, $rest =~ /`($name\([^`]*\)\s+RETURNS\s[^`]*|$name\([^`]*\bOUT [^`]*\))`/g;
	for (@found)
	{
		s/\s+/ /g;
		s/^ | ?;? $//g;
		my ($kind, $its, $inside, $result) =
		  /^(PROCEDURE )?(taskq_\w+|taskq\.\w+) ?\((.*?)\)( RETURNS .*)?$/s
		  or fail("no signature: $_"), next;
		ok(!exists $said{$its}, "$its: it occurs once");
		$said{$its} =
			$its =~ /\./ && !$result && $inside !~ /\b(?:OUT|INOUT) /
		  ? { row => $inside }
		  : { kind => $kind ? 'PROCEDURE' : 'FUNCTION', arguments => $inside, result => $result // '' };
	}
}

# The signatures of the page, created in the schema that the page names
$node->safe_psql('postgres', 'CREATE SCHEMA reference');
for my $its (sort keys %said)
{
	my %s = %{ $said{$its} };
	my $made = $its =~ s/\./__/r;
	my ($rc, $out, $err) = $node->psql('postgres', defined $s{row}
		? "CREATE TABLE reference.$made ($s{row})"
		: "CREATE $s{kind} reference.$made($s{arguments})$s{result} LANGUAGE internal AS 'boolin'");
	is($err, '', "$its: the signature is SQL") if $rc;
}

# Public: the functions outside of schema taskq, and the functions in it that
# every role may use
my $functions = <<'SQL';
SELECT CASE WHEN p.pronamespace = 'taskq'::regnamespace THEN 'taskq.' ELSE '' END || p.proname,
       CASE p.prokind WHEN 'p' THEN 'PROCEDURE ' ELSE '' END
       || '(' || pg_get_function_arguments(p.oid) || ')'
       || coalesce(' RETURNS ' || pg_get_function_result(p.oid), '')
  FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
   AND d.deptype = 'e'
  JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'taskq'
 WHERE p.pronamespace <> 'taskq'::regnamespace
    OR has_function_privilege('public', p.oid, 'EXECUTE')
SQL
my $made_functions = <<'SQL';
SELECT replace(p.proname, '__', '.'),
       CASE p.prokind WHEN 'p' THEN 'PROCEDURE ' ELSE '' END
       || '(' || pg_get_function_arguments(p.oid) || ')'
       || coalesce(' RETURNS ' || pg_get_function_result(p.oid), '')
  FROM pg_proc p WHERE p.pronamespace = 'reference'::regnamespace
SQL
agree('functions', { map { @$_ } rows($made_functions) }, { map { @$_ } rows($functions) });

my $columns = <<'SQL';
SELECT %s, string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
 WHERE c.relnamespace = '%s'::regnamespace AND c.relkind IN ('r', 'v', 'c')
   AND %s GROUP BY c.relname
SQL
agree('rows of functions and views, and their columns',
	{ map { @$_ } rows(sprintf $columns, "replace(c.relname, '__', '.')", 'reference', 'true') },
	{ map { @$_ } rows(sprintf $columns, "'taskq.' || c.relname", 'taskq',
			"(c.relkind = 'c' OR has_table_privilege('public', c.oid, 'SELECT')
			  OR c.reltype IN (SELECT prorettype FROM pg_proc WHERE proname ~ '^taskq_'))") });

# Words.

my $states = section('States');
once('states', map { (quoted($_->[1]))[0] } table($states, 'number'));
once('reasons', map { quoted($_->[0]) } table($states, 'reason'));
agree('states', { map { $_->[0] => (quoted($_->[1]))[0] } table($states, 'number') },
	{ map { @$_ } rows('SELECT n, taskq.state_name(n::smallint) FROM generate_series(0, 99) n'
			  . ' WHERE taskq.state_name(n::smallint) IS NOT NULL') });
my ($reserved) = $states =~ /^((?:`\w+`(?:, |,\n| and )?)+) (?:are|is) reserved/m;
agree('reasons',
	{ map { $_ => '' } (map { quoted($_->[0]) } table($states, 'reason')), quoted($reserved // '') },
	{ map { $_->[0] => '' } rows('SELECT taskq.reason_name(n::smallint) FROM generate_series(0, 999) n'
			  . ' WHERE taskq.reason_name(n::smallint) IS NOT NULL') });

# Options: their names, which values are valid and which are not.

sub option_names
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	return map { $_ => '' } split /, /, ($err =~ /HINT:  Options are: (.*)\.$/m)[0] // '';
}

my $options = section('Options');
my @options = table($options, 'option');
my ($unbuilt) = $options =~ /^(Known, but not built.*?)(?=^\s*$|\z)/ms;
my %unbuilt = map { $_ => '' }
  grep { !/^(?:none|false)$/ } quoted($unbuilt // '');
agree('options of queues', { map { (quoted($_->[0]))[0] => '' } @options },
	{ option_names(q{SELECT taskq_create_queue('o', '{"bogus": 1}')}) });
once('options', map { (quoted($_->[0]))[0] } @options);
my $own = section('Options of a task');
my ($listed) = $own =~ /^(These options of a task replace.*?)(?=,\s+with\s+the\s+values)/ms;
agree('options of tasks',
	{ map { $_ => '' } quoted($listed // ''), map { quoted($_->[0]) } table($own, 'option') },
	{ option_names(q{SELECT taskq_submit(options => '{"bogus": 1}')}) });

# with(OPTION, VALUE): the SQLSTATE of making a queue with it
sub with
{
	my ($option, $value, $more) = @_;
	return code_of('BEGIN; SELECT taskq_create_queue($o$o$o$, $o${"'
		  . "$option\": $value" . ($more // '') . '}$o$); ROLLBACK;');
}

# "0", "1 µs", "10 years", "`word`" as a member of a document
sub json
{
	my ($word) = @_;
	$word =~ s/^`(.*)`$/$1/;
	return $word =~ /^-?[\d.]+$|^\{|^\[|^(?:true|false)$/ ? $word : "\"$word\"";
}

is(with($_, '"serial"'), '0A000', "$_ is not built") for sort keys %unbuilt;
my %more = (retry => ', "retry_list": ["1 s"]');
for my $row (@options)
{
	my ($option, $default, $values) = ((quoted($row->[0]))[0], $row->[1], $row->[2]);
	my $plain = $values =~ s/−/-/gr;
	my @good = map { json($_) } $plain =~ /^`[^`{]+`(?:, `[^`{]+`)+$/ ? $plain =~ /`[^`]+`/g : ();
	my @bad = @good ? '"bogus"' : ();

	push @good, map { json($_) } quoted($plain) if !@good && $plain !~ /[{]/;
	# durations differ from numbers only by the default and the unit
	my $span = $plain =~ /\bs\b|µs|year|interval/;
	if ($plain =~ /^(-?\d+)(?:| (?:µs)) to (?:(\d+)\^)?(-?\d+)(?: years| bytes)?(?:,.*)?$/)
	{
		my ($low, $high) = ($1, defined $2 ? int($2)**int($3) : $3);
		$high = sprintf '%.0f', $high;
		if ($span)
		{
			push @good, $low ? '"1 us"' : '"0 s"', '"3653 days"';
			push @bad, $low ? '"0 s"' : '"-1 s"', '"3654 days"', '5';
		}
		else
		{
			push @good, $low, $high;
			push @bad, $low - 1, sprintf '%.0f', $high + ($high < 2**53 ? 1 : 1000);
		}
	}
	push @good, 1, -1 and push @bad, 0, -2 if $plain =~ /^1 or more, -1/;
	$default =~ s/−/-/g;
	push @good, json($default) if $default ne '–';
	is(with($option, $_, $more{$option}), '', "$option: $_ is allowed") for @good;
	is(with($option, $_, $more{$option}), 'TQ004', "$option: $_ is not") for @bad, '{"a": 1}';
}

# Defaults that calls show
my %default = map { (quoted($_->[0]))[0] => $_->[1] =~ s/`|−//gr } @options;
$node->safe_psql('postgres', q{SELECT taskq_create_queue('seen'), taskq_submit('seen')});
is($node->safe_psql('postgres', 'SELECT priority, max_attempts, lease_until - clock_timestamp()'
	  . " BETWEEN interval '$default{lease}' - interval '10 s' AND '$default{lease}'"
	  . " FROM taskq_claim('seen')"),
	"$default{priority}|$default{max_attempts}|t", 'the defaults of priority, max_attempts, lease');
is($node->safe_psql('postgres', "SELECT count(*) FROM generate_series(1, 20) n"
	  . ' WHERE taskq.debug_backoff($${}$$, n, 0.7) IS DISTINCT FROM taskq.debug_backoff($${'
	  . join(', ', map { "\"$_\": " . json($default{$_}) } qw(retry retry_base retry_cap retry_jitter))
	  . '}$$, n, 0.7)'), 0, 'the defaults of retries');

# Settings: default, range, unit, and who can set them.

my %unit = ('' => 1, ms => 0.001, s => 1, min => 60, h => 3600, d => 86_400, kB => 1, MB => 1024, GB => 1024 * 1024);
my %context = ('any role' => 'user', superuser => 'superuser', reload => 'sighup', start => 'postmaster');
my ($in_s) = $text =~ /Without a unit,((?:\s|`taskq\.\w+`|,|and)+?)\s+count\s+seconds/s;
my ($in_kb) = $text =~ /seconds,((?:\s|`taskq\.\w+`|,|and)+?)\s+kilobytes/s;
my %counts = ((map { $_ => 'kB' } quoted($in_kb // '')), (map { $_ => 's' } quoted($in_s // '')));

# in(UNIT, TEXT): "10 min" in seconds
sub in
{
	my ($of, $what) = @_;
	my ($number, $word) = $what =~ /^(\d+)(?: (\w+))?$/ or return $what;
	return !defined $word ? $number : $of eq '' || !$unit{$word} ? "$what?" : $number * $unit{$word} / $unit{$of};
}
my %settings;
once('settings', map { (quoted($_->[0]))[0] } table(section('Settings'), 'setting'));
for my $row (table(section('Settings'), 'setting'))
{
	my ($setting) = quoted($row->[0]);
	my $of = $counts{$setting} // '';
	my ($low, $high) = $row->[2] =~ /^(.*?) (?:to |(?=…))(.*)$/;
	$settings{$setting} = join ' ', in($of, $row->[1]),
	  $row->[2] eq 'on, off' ? '' : in($of, $low // '?') . '-' . in($of, ($high // '?') eq '…' ? 2147483647 : $high // '?'),
	  $of, $context{ $row->[3] } // "$row->[3]?";
}
agree('settings', \%settings,
	{ map { @$_ } rows(<<'SQL') });
SELECT name, concat_ws(' ', boot_val, CASE WHEN min_val IS NULL THEN '' ELSE min_val || '-' || max_val END,
       coalesce(unit, ''), context)
  FROM pg_settings
 WHERE name LIKE 'taskq.%' AND name NOT LIKE 'taskq.debug%' AND name <> 'taskq.fault_point'
SQL

# Rights: for which functions they give EXECUTE.

my %rights;
for my $row (table(section('Rights'), 'right'))
{
	my ($right) = quoted($row->[0]);
	$rights{$_} .= "$right " for grep { /^taskq_/ } quoted($row->[1]);
}
agree('rights', \%rights, { map { @$_ } rows(<<'SQL') });
SELECT function, CASE WHEN rights & 1 > 0 THEN 'submit ' ELSE '' END
       || CASE WHEN rights & 2 > 0 THEN 'work ' ELSE '' END
       || CASE WHEN rights & 16 > 0 THEN 'observe ' ELSE '' END
       || CASE WHEN rights & 4 > 0 THEN 'read ' ELSE '' END
       || CASE WHEN rights & 8 > 0 THEN 'manage ' ELSE '' END
  FROM taskq.function_right
SQL

# Arguments of other types: refused as they are written, and accepted as the
# page says.

for my $row (table(section('Types of arguments'), 'written'))
{
	is(code_of("SELECT $_"), '42883', "$_ is no function") for quoted($row->[0]);
	is(code_of("BEGIN; SELECT count(*) FROM $_; ROLLBACK"), '', "$_ is one") for quoted($row->[1]);
}

# Errors: all of class TQ with their names, and the errors of the server that
# the code raises itself.

my (%errors, %named);
once('errors', map { split /, /, $_->[0] } table(section('Errors'), 'SQLSTATE'));
for my $row (table(section('Errors'), 'SQLSTATE'))
{
	$errors{$_} = $row->[1] =~ /^`(\w+)`/ ? $1 : '' for split /, /, $row->[0];
}
%named = map { $_ => $errors{$_} } grep { /^TQ/ } keys %errors;
my $header = content("$top/src/base/error.h");
my %defined;
while ($header =~ /ERRCODE_TQ_(\w+)\s+MAKE_SQLSTATE\(((?:'\w'(?:,\s*)?)+)\)/g)
{
	my ($word, $letters) = (lc $1, $2);
	$defined{ join '', $letters =~ /\w/g } = $word;
}
agree('errors of class TQ', \%named, \%defined);

chomp(my $share = `pg_config --sharedir`);
my %code_of = content("$share/errcodes.txt") =~ /^(\w{5})\s+\w\s+(ERRCODE_\w+)/mg;
my %known = %code_of;
%code_of = reverse %code_of;
# raised on behalf of the server or caught, and the debug build's
my %aside = map { $_ => 1 } qw(ERRCODE_ADMIN_SHUTDOWN ERRCODE_QUERY_CANCELED
  ERRCODE_OUT_OF_MEMORY ERRCODE_EXTERNAL_ROUTINE_EXCEPTION
  ERRCODE_UNDEFINED_OBJECT ERRCODE_OPERATOR_INTERVENTION ERRCODE_INSUFFICIENT_RESOURCES ERRCODE_TO_CATEGORY
  ERRCODE_TRANSACTION_ROLLBACK ERRCODE_PROGRAM_LIMIT_EXCEEDED ERRCODE_UNIQUE_VIOLATION
  ERRCODE_SYNTAX_ERROR);
my %raised;
for my $file (glob("$top/src/*.c $top/src/*/*.c $top/src/*/*/*.c"))
{
	$raised{$_} = 1 for content($file) =~ /\b(ERRCODE_(?!TQ_)\w+)/g;
}
cmp_ok(scalar keys %raised, '>', 5, 'there are errors in the code');
my @missing = grep { !/^XX/ && !exists $errors{$_} }
  map { $code_of{$_} // "$_?" } grep { !$aside{$_} } sort keys %raised;
is("@missing", '', 'every other SQLSTATE that the code raises is in the reference');
my @strange = grep { !/^TQ/ && !$known{$_} } sort keys %errors;
is("@strange", '', 'every SQLSTATE of the reference exists');

sound($node);
$node->stop;
done_testing();

# layers.pl: reads src and prints each place that breaks a rule of its layout,
# as "RULE<tab>PLACE".  layers.sh says the rules in words.
#
# usage: perl test/lint/layers.pl [DIRECTORY], where src lies; "." by default
#
# It reads text as pgindent lays it out: the name of a function begins its
# line, braces of its body stand in the first column.  A call by a pointer is
# not seen: that is how a lower layer may reach a higher one.
use strict;
use warnings;

# A folder of src is a layer, the lowest one first.  A file uses its own
# folder and lower ones; src/taskq.c, which loads the library, uses all.
my @LAYERS = qw(
	base
	shared
	store
	xact
	cache
	cron
	engine
	query
	diag
	command
	keyed
	change
	flow/definition
	flow/instance
	flow/run
	flow/advance
	flow/view
	schedule
	sql_task
	operation
	maintenance
	process);

my %LIMIT = (
	files    => 50,       # in a folder
	file     => 750,      # lines of a C file
	function => 95,       # lines from brace to brace
	median   => 15,       # lines of the median function
	lines    => 88_000,   # of src, headers included
	fields   => 10,       # of a struct that phases or steps share
	sharing  => 2,        # C files that may share a larger one
);

# Folders in which few files share a large struct: signatures show the data
my %SHARES_LITTLE = map { $_ => 1 } qw(flow/run flow/advance);

# Files whose functions are named after what they are about.
my %FREE_NAMES = ('base/types' => 1);
# What the server looks up
my $SERVERS_NAME = qr/^(?:taskq_\w+|_PG_init|_PG_fini)$/;

my $root = shift // '.';
my %height;
@height{@LAYERS} = 1 .. @LAYERS;

# file => its parsed contents
my %file = map { $_ => read_source($_) } source_files();
# name => the file that defines it, as extern
my %extern = map { my $f = $_; map { $_ => $f } @{ $file{$f}{extern} } }
  grep { /\.c$/ } sort keys %file;

check_layers();
check_rings();
check_file_names();
check_externs();
check_headers();
check_sizes();
check_structs();

sub found { print join("\t", @_), "\n"; }

# --- reading

sub source_files
{
	my @dirs = ("$root/src");
	my @files;
	while (defined(my $dir = shift @dirs))
	{
		push @dirs, grep { -d } glob("$dir/*");
		push @files, map { s{^\Q$root\E/src/}{}r } glob("$dir/*.[ch]");
	}
	return sort @files;
}

sub read_source
{
	my $name = shift;
	open my $in, '<', "$root/src/$name" or die "$name: $!";
	my $text = do { local $/; <$in> };
	my $code = without_comments($text);
	my %source = (
		folder => folder_of($name),
		unit   => $name =~ s/\.[ch]$//r,
		lines  => ($text =~ tr/\n//),
		code   => $code,
		# names in literals are looked up by the server
		strings => { map { $_ => 1 } $text =~ /"(\w+)"/g },
		includes => [ $text =~ /^\s*#\s*include\s*"([^"]+)"/mg ]);
	if ($name =~ /\.c$/)
	{
		$source{functions} = functions($code);
		$source{extern} = [
			(map { $_->{name} } grep { !$_->{static} } @{ $source{functions} }),
			variables($code) ];
	}
	else
	{
		$source{extern} = declarations($code);
		$source{gives} = given_names($code);
		$source{members} = [ $code =~ /^\t+[A-Za-z_][^;{}()]*?(\w+)(?:\[[^\]]*\])?;/mg ];
	}
	# what it only declares is not used
	$code =~ s/^(extern\b[^;{(]*?)\w+\s*([(;\[])/$1$2/mg;
	$source{uses} = { map { $_ => 1 } $code =~ /\b([A-Za-z_]\w*)\b/g };
	$source{accesses} = { map { $_ => 1 } $code =~ /(?:->|\.)(\w+)/g };
	return \%source;
}

# without comments and what literals contain; lines are kept
sub without_comments
{
	my $text = shift;
	$text =~ s{(/\*.*?\*/)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'}
		{defined $1 ? "\n" x ($1 =~ tr/\n//) : '""'}gse;
	return $text;
}

# functions with a body: name, static, lines of the body
sub functions
{
	my $code = shift;
	my @functions;
	while ($code =~ /^([A-Za-z_][^\n;{}()=]*)\n(\w+)\(([^;{}]*)\)\s*\n(\{\n.*?^\})/msg)
	{
		my ($type, $name, $body) = ($1, $2, $4);
		push @functions,
		  { name => $name, static => scalar($type =~ /\bstatic\b/),
			lines => 1 + ($body =~ tr/\n//) };
	}
	return \@functions;
}

# variables of a C file that are not static
sub variables
{
	my $code = shift;
	return $code =~
	  /^(?!static\b|extern\b|typedef\b)[A-Za-z_][\w \t*]*?\b(tq_\w+)(?:\[[^\]]*\])*\s*[=;]/mg;
}

# functions and variables that a header declares
sub declarations
{
	my $code = shift;
	return [ map { /\b(\w+)\s*\(/ || /(\w+)\s*(?:\[[^\]]*\])*$/ ? $1 : () }
		  $code =~ /^extern\b([^;{]*);/mg ];
}

# All names that come with a header: types, enum values, macros, functions.
# Members of its structs count as well, where a file goes into one.
sub given_names
{
	my $code = shift;
	my %names;
	my $give = sub { $names{$_} = 1 for @_ };
	$give->($code =~ /^\s*#\s*define\s+(\w+)/mg);
	$code =~ s/^\s*#(?:\\\n|[^\n])*\n//mg;
	$give->(map { /(\w+)/g } map { s/=[^,]*//gr } $code =~ /\benum\b[^;{]*\{([^}]*)\}/g);
	$give->($code =~ /\b(?:struct|union|enum)\s+(\w+)/g);
	my $braces = qr/(\{(?:[^{}]++|(?-1))*+\})/;
	$code =~ s/\)\s*$braces/);/g;
	$code =~ s/$braces//g;
	for my $statement (split /;/, $code)
	{
		if ($statement =~ /\btypedef\b/)
		{
			$give->($1)
			  if $statement =~ /\(\s*\*\s*(\w+)\s*\)/
			  || $statement =~ /(\w+)\s*(?:\(.*\)|\[.*\])?\s*$/s;
		}
		elsif ($statement =~ /\b(?:extern|static)\b[^()]*?(\w+)\s*(?:\(|(?:\[[^\]]*\])*\s*$)/s)
		{
			$give->($1);
		}
	}
	return [ sort keys %names ];
}

# --- rules

sub height_of { return $height{ $file{ $_[0] }{folder} } // 0; }

# the projects' headers that a file includes
sub headers_of { return grep { $file{$_} } @{ $file{ $_[0] }{includes} }; }

# "extern => file" of those outside of its unit that a file calls
sub calls_of
{
	my $name = shift;
	my $unit = $file{$name}{unit};
	my %calls;
	for my $word (keys %{ $file{$name}{uses} })
	{
		my $other = $extern{$word};
		$calls{$word} = $other
		  if defined $other && $file{$other}{unit} ne $unit;
	}
	return %calls;
}

sub check_layers
{
	my %seen;
	for my $name (sort keys %file)
	{
		my $folder = $file{$name}{folder};
		found('folder', "src/$folder")
		  if $folder ne '' && !$height{$folder} && !$seen{$folder}++;
		found('compat', $name)
		  if $name =~ /\.c$/ && ($file{$name}{includes}[0] // '') ne 'base/compat.h';
		found('path', "$name: $_")
		  for grep { !$file{$_} && $file{"$folder/$_"} } @{ $file{$name}{includes} };

		next if !$height{$folder};
		my $own = height_of($name);
		found('include', "$name: $_")
		  for grep { height_of($_) > $own } headers_of($name);
		my %calls = calls_of($name);
		found('call', "$name: $_ of $calls{$_}")
		  for grep { height_of($calls{$_}) > $own } sort keys %calls;
	}
}

# Rings between the units of a folder; a unit is a .c file with its header.
sub check_rings
{
	my (%calls, %includes);
	for my $name (keys %file)
	{
		my $unit = $file{$name}{unit};
		my %called = calls_of($name);
		$calls{$unit}{ $file{$_}{unit} } = 1 for values %called;
		$includes{$unit}{ $file{$_}{unit} } = 1
		  for grep { $file{$_}{unit} ne $unit } headers_of($name);
	}
	my %known = map { $_ => 1 } my @of_calls = rings(\%calls);
	found('call_ring', $_) for @of_calls;
	found('include_ring', $_) for grep { !$known{$_} } rings(\%includes);
}

# The strongly connected parts of a graph, by Tarjan's algorithm, that have more than
# one node
sub rings
{
	my $next = shift;
	my (%index, %low, %open, @stack, @rings);
	my $visit;
	$visit = sub {
		my $node = shift;
		$index{$node} = $low{$node} = keys %index;
		push @stack, $node;
		$open{$node} = 1;
		for my $other (sort keys %{ $next->{$node} })
		{
			next if folder_of($other) ne folder_of($node);
			if (!defined $index{$other})
			{
				$visit->($other);
				$low{$node} = $low{$other} if $low{$other} < $low{$node};
			}
			elsif ($open{$other} && $index{$other} < $low{$node})
			{
				$low{$node} = $index{$other};
			}
		}
		return if $low{$node} != $index{$node};
		my @ring;
		do { push @ring, pop @stack; delete $open{ $ring[-1] } }
		  until $ring[-1] eq $node;
		push @rings, join(' ', sort @ring) if @ring > 1;
	};
	for my $node (sort keys %$next)
	{
		$visit->($node) if !defined $index{$node};
	}
	return sort @rings;
}

sub folder_of { return $_[0] =~ m{(.*)/} ? $1 : ''; }

sub check_file_names
{
	my %files;
	push @{ $files{s{.*/}{}r} }, $_ for sort keys %file;
	found('twice', "@$_") for grep { @$_ > 1 } map { $files{$_} } sort keys %files;
}

sub check_externs
{
	my %declared = map { my $f = $_; map { $_ => $f } @{ $file{$f}{extern} } }
	  grep { /\.h$/ } sort keys %file;
	my %users;
	for my $name (keys %file)
	{
		push @{ $users{$_} }, $name for keys %{ $file{$name}{uses} };
	}
	for my $extern (sort keys %extern)
	{
		next if $extern =~ $SERVERS_NAME;
		my $name = $extern{$extern};
		my $unit = $file{$name}{unit};
		my $header = $declared{$extern};
		found('header', "$extern of $name: " . ($header // 'nowhere'))
		  if !defined $header || $file{$header}{unit} ne $unit;
		found('name', "$extern of $name") if !named_after($extern, $unit);
		found('static', "$extern of $name")
		  if !grep({ $_ ne $name } @{ $users{$extern} })
		  && !grep { $_->{strings}{$extern} } values %file;
	}
}

# explain_text.c beside explain.c is of its family: tq_explain_*
sub named_after
{
	my ($extern, $unit) = @_;
	return 1 if $FREE_NAMES{$unit};
	my ($folder, $stem) = $unit =~ m{^(.*?)/?([^/]*)$};
	my @stems = ($stem);
	while ($stem =~ s/_[^_]*$//)
	{
		push @stems, $stem
		  if grep { $file{"$folder/$stem.$_"} } qw(c h);
	}
	return scalar grep { $extern =~ /^tq_\Q$_\E(?:_|$)/ } @stems;
}

sub check_headers
{
	my %included;
	for my $name (sort keys %file)
	{
		my $source = $file{$name};
		for my $header (headers_of($name))
		{
			my $own = $file{$header}{unit} eq $source->{unit};
			$included{$header} = 1 if !$own;
			found('nothing', "$name: $header")
			  if !$own
			  && $header ne 'base/compat.h'
			  && !grep { is_used($source, $_) } with_types($header);
		}
	}
	found('unused', $_) for grep { /\.h$/ && !$included{$_} } sort keys %file;
}

# queue.h comes with queue_types.h, if it includes that.
sub with_types
{
	my $header = shift;
	my $types = $header =~ s/\.h$/_types.h/r;
	return ($header, grep { $_ eq $types } headers_of($header));
}

sub is_used
{
	my ($source, $header) = @_;
	return grep({ $source->{uses}{$_} } @{ $file{$header}{gives} })
	  || grep { $source->{accesses}{$_} } @{ $file{$header}{members} };
}

sub check_sizes
{
	my (%files, @lengths);
	my $lines = 0;
	for my $name (sort keys %file)
	{
		my $source = $file{$name};
		$files{ $source->{folder} }++;
		$lines += $source->{lines};
		found('long_file', "$name: $source->{lines}")
		  if $source->{lines} > $LIMIT{file};
		for my $function (@{ $source->{functions} // [] })
		{
			push @lengths, $function->{lines};
			found('long_function', "$name: $function->{name}: $function->{lines}")
			  if $function->{lines} > $LIMIT{function};
		}
	}
	for my $folder (sort keys %files)
	{
		found('many_files', "src/$folder: $files{$folder}")
		  if $files{$folder} > $LIMIT{files};
	}
	@lengths = sort { $a <=> $b } @lengths;
	my $median = $lengths[ @lengths / 2 ] // 0;
	found('median', $median) if $median > $LIMIT{median};
	found('lines', $lines) if $lines > $LIMIT{lines};
	found('nothing_read', 'no function') if !@lengths;
}

sub check_structs
{
	my @mine = grep { $SHARES_LITTLE{ $file{$_}{folder} } } sort keys %file;
	for my $name (grep { /\.h$/ } @mine)
	{
		my $code = $file{$name}{code};
		while ($code =~ /^typedef struct (\w+)\s*\{(.*?)^\} \1;/msg)
		{
			my ($struct, $body) = ($1, $2);
			my $fields = () = $body =~ /[,;]/g;
			my @users =
			  grep { /\.c$/ && $file{$_}{uses}{$struct} } @mine;
			found('struct', "$name: $struct: $fields fields, " . @users . ' files')
			  if $fields > $LIMIT{fields} && @users > $LIMIT{sharing};
		}
	}
}

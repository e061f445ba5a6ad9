# TaskqClient: what psql does for the tests, without starting psql.
#
# The methods psql, safe_psql and poll_query_until of PostgreSQL::Test::Cluster
# start a psql for each call, which costs several times what the server does for
# it, and a polling test makes hundreds of calls. use TaskqClient replaces them
# by a client in Perl. It does what psql -XAtq -f - does: a connection for each
# call, each statement sent by itself, values divided by "|", the same errors,
# messages and exit codes. Of psql's own language it knows one line, \set
# VERBOSITY at the beginning. Everything else (other commands, variables, COPY,
# LISTEN, options, another authentication method) goes to psql as before: when
# in doubt, psql.
#
# test/t/client.pl compares the two.
package TaskqClient;

use strict;
use warnings;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Socket qw(MSG_NOSIGNAL);
use Test::More ();
use Time::HiRes qw(time);

# What the client would have to obey, and does not support.
my @FOREIGN = qw(PGCLIENTENCODING PGDATESTYLE PGTZ PGGEQO PGSERVICE PGPASSWORD PGREQUIREPEER
  PGTARGETSESSIONATTRS PGCHANNELBINDING);

my $GONE = "server closed the connection unexpectedly\n"
  . "\tThis probably means the server terminated abnormally\n\tbefore or while processing the request.\n";

# pause(BEGUN): between two polls for something that has been awaited since
# BEGUN; short at first, so that little time is wasted, and longer later, so
# that a long wait costs the other tests little.
sub pause
{
	my ($begun) = @_;
	my $span = (time - $begun) / 8;

	select(undef, undef, undef, $span < 0.01 ? 0.01 : $span > 0.1 ? 0.1 : $span);
	return;
}

# accepts(NODE): the server accepts connections
sub accepts
{
	my ($node, $database) = @_;
	my $client = begin($node, $database // 'postgres');

	finish($client);
	return $client && !defined $client->{failed};
}

# --- the text

# statements(TEXT): [statement, number of the line where it ends], ...; nothing
# when psql is needed.
sub statements
{
	my ($text) = @_;
	my ($begin, $depth, $word, @found) = (0, 0, 0);

	for ($text)
	{
		until (/\G\z/gc)
		{
			if (/\G[\s]+/gc || /\G--[^\n]*/gc || m{\G(/\*(?:[^*/]++|\*(?!/)|/(?!\*)|(?1))*+\*/)}gc)
			{
				# without a meaning
			}
			elsif (/\G;/gc)
			{
				next if $depth > 0;
				push @found, [ $begin, pos ] if $word;
				($begin, $word) = (pos, 0);
			}
			elsif (/\G\$((?:[A-Za-z_\x80-\xff][A-Za-z_0-9\x80-\xff]*)?)\$.*?\$\1\$/gcs
				|| /\G[eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+'/gcs
				|| /\G'[^']*+(?:''[^']*+)*+'/gc
				|| /\G"[^"]*+(?:""[^"]*+)*+"/gc)
			{
				$word = 1;
			}
			elsif (/\G(?:begin\s+atomic|copy|listen)\b/gci || /\G[\\'"\$]/gc || /\G:(?=[A-Za-z_'"\{])/gc)
			{
				return;
			}
			elsif (/\G(?:[A-Za-z_\x80-\xff][A-Za-z_0-9\$\x80-\xff]*|[0-9]+|::?=?|.)/gcs)
			{
				my $token = $&;

				$depth++ if $token eq '(';
				$depth-- if $token eq ')' && $depth > 0;
				$word = 1;
			}
		}
		push @found, [ $begin, length ] if $word;
	}
	my @statements;
	for (@found)
	{
		my ($from, $to) = @$_;
		my $before = substr $text, 0, $to;

		# psql counts the lines that it has read
		chomp $before;
		push @statements, [ substr($text, $from, $to - $from) =~ s/\A\s+//r, 1 + ($before =~ tr/\n//) ];
	}
	return @statements;
}

# --- the protocol

# begin(NODE, DATABASE): a connection; its {failed} says why there is none.
# undef if psql is needed.
sub begin
{
	my ($node, $database) = @_;
	my $path = $node->host . '/.s.PGSQL.' . $node->port;
	my $client = { path => $path, in => '', out => '', err => '', verbosity => 'default' };

	return if !-S $path && $node->host !~ m{^/};
	$client->{socket} = IO::Socket::UNIX->new(Peer => $path);
	if (!$client->{socket})
	{
		$client->{failed} = "$!\n\tIs the server running locally and accepting connections on that socket?\n";
		return $client;
	}
	my %options = (
		user => $ENV{PGUSER} // scalar getpwuid($<),
		database => $database,
		application_name => $ENV{PGAPPNAME} // 'psql',
		defined $ENV{PGOPTIONS} ? (options => $ENV{PGOPTIONS}) : ());
	my $packet = pack('N', 196608) . join('', map { "$_\0$options{$_}\0" } sort keys %options) . "\0";
	put($client, pack('N', 4 + length $packet) . $packet);
	while (my ($type, $body) = get($client))
	{
		return $client if $type eq 'Z';
		if ($type eq 'E')
		{
			$client->{failed} = words($client, $body);
			return $client;
		}
		if ($type eq 'R' && unpack('N', $body) != 0)
		{
			close $client->{socket};
			return;
		}
		# what a server says during the login goes to standard error
		$client->{err} .= words($client, $body) if $type eq 'N';
	}
	$client->{failed} = $GONE;
	return $client;
}

sub finish
{
	my ($client) = @_;

	return if !$client || !$client->{socket};
	put($client, pack('aN', 'X', 4));
	close $client->{socket};
	return;
}

sub put
{
	my ($client, $bytes) = @_;

	while ($bytes ne '')
	{
		my $sent = send $client->{socket}, $bytes, MSG_NOSIGNAL;
		next if !defined $sent && $!{EINTR};
		# what the server said last is still to be read
		return if !defined $sent;
		substr($bytes, 0, $sent, '');
	}
	return;
}

# get(CLIENT): the next message, its type and body; nothing at the end
sub get
{
	my ($client) = @_;
	my $at = $client->{at} // 0;

	while (1)
	{
		my $have = length($client->{in}) - $at;

		if ($have >= 5)
		{
			my ($type, $size) = unpack "\@$at aN", $client->{in};

			if ($have > $size)
			{
				$client->{at} = $at + 1 + $size;
				return ($type, substr $client->{in}, $at + 5, $size - 4);
			}
		}
		substr($client->{in}, 0, $at, '');
		$client->{at} = $at = 0;
		my $read = sysread $client->{socket}, $client->{in}, 1 << 16, length $client->{in};
		next if !defined $read && $!{EINTR};
		return if !$read;
	}
}

# row(BODY): the values, NULL as an empty string
sub row
{
	my ($body) = @_;
	my $at = 2;
	my @values;

	for (1 .. unpack 'n', $body)
	{
		my $size = unpack 'N', substr $body, $at, 4;

		$at += 4;
		push(@values, ''), next if $size == 0xffffffff;
		push @values, substr $body, $at, $size;
		$at += $size;
	}
	return @values;
}

# words(CLIENT, BODY, STATEMENT): an error or a notice as libpq words it
sub words
{
	my ($client, $body, $statement) = @_;
	my %has = map { (substr($_, 0, 1), substr $_, 1) } split /\0/, $body;
	my $line = "$has{S}:  ";
	my $is_error = ($has{V} // $has{S}) =~ /^(?:ERROR|FATAL|PANIC)$/;

	return "$line$has{C}\n" if $client->{verbosity} eq 'sqlstate';
	$line .= "$has{C}: " if $client->{verbosity} eq 'verbose';
	$line .= "$has{M}\n";
	$line .= place($statement, $has{P}) if defined $statement && defined $has{P};
	$line .= place($has{q}, $has{p}) if defined $has{q} && defined $has{p};
	$line .= "DETAIL:  $has{D}\n" if defined $has{D};
	$line .= "HINT:  $has{H}\n" if defined $has{H};
	$line .= "QUERY:  $has{q}\n" if defined $has{q};
	$line .= "CONTEXT:  $has{W}\n" if defined $has{W} && $is_error;
	if ($client->{verbosity} eq 'verbose')
	{
		my %names = (s => 'SCHEMA', t => 'TABLE', c => 'COLUMN', d => 'DATATYPE', n => 'CONSTRAINT');

		$line .= "$names{$_} NAME:  $has{$_}\n" for grep { defined $has{$_} } qw(s t c d n);
		$line .= "LOCATION:  $has{R}, $has{F}:$has{L}\n" if defined $has{R};
	}
	return $line;
}

# place(STATEMENT, POSITION): the line where it is, and a mark below
sub place
{
	my ($statement, $position) = @_;
	my $before = substr $statement, 0, $position - 1;
	my $head = 'LINE ' . (1 + ($before =~ tr/\n//)) . ': ';
	my $begin = 1 + rindex $before, "\n";
	my ($line) = substr($statement, $begin) =~ /^([^\n]*)/;

	return "$head$line\n" . ' ' x (length($head) + length($before) - $begin) . "^\n";
}

# send_statement(CLIENT, STATEMENT, LINE): '' when it has succeeded, 'error',
# or 'gone'
sub send_statement
{
	my ($client, $statement, $line) = @_;
	my ($how, $rows) = ('', '');
	my $says = sub { $client->{err} .= "psql:<stdin>:$line: $_[0]" };

	put($client, pack 'aNZ*', 'Q', 5 + length $statement, $statement);
	while (my ($type, $body) = get($client))
	{
		if ($type eq 'Z')
		{
			# rows before an error are not shown
			$client->{out} .= $rows if $how eq '';
			return $how;
		}
		$rows .= join('|', row($body)) . "\n" if $type eq 'D' && $body ne "\0\0";
		$says->(words($client, $body, $statement)) if $type eq 'N';
		if ($type eq 'E')
		{
			$how = 'error';
			$says->(words($client, $body, $statement));
		}
	}
	$says->($GONE);
	$says->("error: connection to server was lost\n");
	return 'gone';
}

# run(NODE, DATABASE, TEXT, ON_ERROR_STOP): exit code of psql, what it printed
# and said; nothing when psql is needed.
sub run
{
	my ($node, $database, $text, $stop) = @_;
	my $verbosity = $text =~ s/\A\\set VERBOSITY (sqlstate|verbose)$//m ? $1 : 'default';
	my $code = 0;
	my $bytes = $text;

	return if !defined $database || grep { defined $ENV{$_} } @FOREIGN;
	return if !utf8::downgrade($bytes, 1) || $bytes =~ /\0/;
	my @statements = statements($bytes);
	return if !@statements;
	my $client = begin($node, $database) or return;
	if (defined $client->{failed})
	{
		finish($client);
		return (2, '', qq(psql: error: connection to server on socket "$client->{path}" failed: $client->{failed}));
	}
	$client->{verbosity} = $verbosity;
	for (@statements)
	{
		my $how = send_statement($client, @$_);

		$code = 2, last if $how eq 'gone';
		$code = 3, last if $how eq 'error' && $stop;
	}
	finish($client);
	return ($code, $client->{out}, $client->{err});
}

# --- in place of psql

my $real_psql = \&PostgreSQL::Test::Cluster::psql;
my $real_poll = \&PostgreSQL::Test::Cluster::poll_query_until;

sub psql
{
	my ($node, $database, $sql, %params) = @_;
	my %known = map { $_ => 1 } qw(stdout stderr on_error_stop on_error_die);
	my ($code, $out, $err);

	($code, $out, $err) = run($node, $database, $sql, $params{on_error_stop} // 1)
	  if defined $sql && !grep { !$known{$_} } keys %params;
	return $real_psql->($node, $database, $sql, %params) if !defined $code;
	chomp($out, $err);
	${ $params{stdout} } = $out if ref $params{stdout};
	${ $params{stderr} } = $err if ref $params{stderr};
	if (!wantarray)
	{
		print $out eq '' ? '' : "$out\n" if !ref $params{stdout};
		print STDERR $err eq '' ? '' : "$err\n" if !ref $params{stderr};
	}
	if ($code != 0 && $params{on_error_die})
	{
		die "connection error: '$err'\nwhile running in database '$database'" if $code == 2;
		die "error running SQL: '$err'\nwhile running in database '$database' with sql '$sql'";
	}
	return wantarray ? ($code, $out, $err) : $code;
}

sub poll_query_until
{
	my ($node, $database, $query, $expected) = @_;
	my $begun = time;
	my @statements = statements($query // '');
	my ($code, $out, $err);

	# psql would print the command tag of a statement of another kind
	return $real_poll->(@_) if @statements != 1 || $query !~ /\A\s*(?:SELECT|SHOW|WITH|VALUES|TABLE)\b/i;
	$expected //= 't';
	do
	{
		($code, $out, $err) = run($node, $database, $query, 1) or return $real_poll->(@_);
		chomp($out, $err);
		return 1 if $out eq $expected && $err eq '';
		pause($begun);
		# the original does not count the time that its psqls take
	} while (time < $begun + 2 * $PostgreSQL::Test::Utils::timeout_default);
	Test::More::diag("poll_query_until timed out executing this query:\n$query\nexpecting this output:\n$expected\n"
		  . "last actual query output:\n$out\nwith stderr:\n$err");
	return 0;
}

{
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::psql = \&psql;
	*PostgreSQL::Test::Cluster::poll_query_until = \&poll_query_until;
}

1;

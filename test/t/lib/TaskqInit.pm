# TaskqInit: a new cluster is the copy of one that initdb made before.
#
# initdb needs a second of processor time, and the TAP tests create some eighty
# clusters. TASKQ_TEMPLATES names a directory, which all tests of a run share,
# with clusters to copy; each is created when it is first needed. Without it,
# and for a cluster with options of its own, initdb is called as usual.
#
# Copies have the same system identifier. Two clusters of one test must not: by
# it the extension tells a copy from its own database, and a standby its
# primary. So the first cluster of each test is a copy of template 1, the second
# one of template 2, and so on; tests do not affect each other.
package TaskqInit;

use strict;
use warnings;
use Fcntl qw(:flock);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

my $made = 0;
my $real_init = \&PostgreSQL::Test::Cluster::init;
my $real_command = \&PostgreSQL::Test::Utils::system_or_bail;

# command(WORD...): what init() wants to be run
sub command
{
	my ($program, $option, $data, @rest) = @_;

	return $real_command->(@_)
	  if !$ENV{TASKQ_TEMPLATES} || $program ne 'initdb' || $option ne '-D' || "@rest" ne '-A trust -N' || -e $data;
	return $real_command->('cp', '-a', template(++$made), $data);
}

# template(NUMBER): its directory. A test that needs it while it is being
# created waits.
sub template
{
	my ($number) = @_;
	my $data = "$ENV{TASKQ_TEMPLATES}/$number";

	open my $lock, '>>', "$data.lock" or die "could not open $data.lock: $!";
	flock $lock, LOCK_EX or die "could not lock $data.lock: $!";
	if (!-e $data)
	{
		$real_command->('initdb', '-D', "$data.new", '-A', 'trust', '-N');
		rename "$data.new", $data or die "could not rename $data.new: $!";
	}
	close $lock;
	return $data;
}

{
	no warnings 'redefine';
	*PostgreSQL::Test::Cluster::init = sub {
		local *PostgreSQL::Test::Utils::system_or_bail = \&command;
		return $real_init->(@_);
	};
}

1;

# cpu.pl COMMAND...: runs it and reports, in a TAP comment, how much processor
# time it has used with everything that it has started, servers too.
#
# A server that pg_ctl starts leaves its parents and would not be counted; on
# Linux its new parent can be this program.

use strict;
use warnings;
use POSIX qw(WNOHANG);

use constant PR_SET_CHILD_SUBREAPER => 36;

my %number_of_prctl = (x86_64 => 157, aarch64 => 167);
my $prctl = $number_of_prctl{ (POSIX::uname())[4] };
my $counts = defined $prctl && syscall($prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0;

my $pid = fork // die "could not fork: $!";
if ($pid == 0)
{
	exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!";
}
# a process that is not waited for would seem to be alive
my $status = 0;
for (my $ended = 0; $ended != $pid;)
{
	$ended = waitpid -1, 0;
	$status = $?;
}

# servers that were asked to stop end now
for (my $end = time + 10; time < $end && waitpid(-1, WNOHANG) >= 0;)
{
	select(undef, undef, undef, 0.02);
}
my (undef, undef, $user, $system) = times;
printf "# figure: processor time %.1f s, %.1f s of it in the kernel%s\n", $user + $system, $system,
  $counts ? '' : ', without servers';
exit($status & 127 ? 128 + ($status & 127) : $status >> 8);

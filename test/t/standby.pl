# An asynchronous standby is promoted while clients work, and the old primary
# stays in use: no id, and no pair of id and token, is used twice.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IPC::Run;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use TaskqTest;
use TaskqWaiters ();
use Time::HiRes qw(time);

my $primary = start_node('primary', init => { allows_streaming => 1 }, 'fsync' => 'off');
$primary->safe_psql('postgres', q{SELECT taskq_create_queue('q', '{"max_attempts": -1, "retry": "fixed", "retry_base": "0 s"}')});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'taskq%'"),
	'0', 'no background process on a standby');
my ($rc, $out, $err) = $standby->psql('postgres', "\\set VERBOSITY verbose\nSELECT taskq_submit('q')");
like($err, qr/25006/, 'writing on a standby raises the usual error');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM taskq.tasks'), '0', 'reading works there');

# A standby gets no notice of ends.
my ($id, $token) = split /\|/, $primary->safe_psql('postgres',
	"SELECT taskq_submit('awaited'); SELECT task_id, token FROM taskq_claim('awaited')") =~ s/.*\n//r;
$primary->wait_for_catchup($standby);
TaskqWaiters::waiters_of($standby);
my $w = TaskqWaiters::sleeper("CALL taskq_await($id, '5 min');");
$primary->safe_psql('postgres', "SELECT taskq_complete($id, $token, '1')");
is(TaskqWaiters::answer($w), 'done|1|', 'a session can await the end of a task there');
my ($flow) = $primary->safe_psql('postgres', <<'SQL') =~ /(\d+)\s*$/;
SELECT taskq_define_workflow('{"name": "awaited", "version": "1", "queue": "awaited", "steps": [{"name": "a"}]}');
SELECT taskq_start_workflow('awaited');
SQL
$primary->wait_for_catchup($standby);
$w = TaskqWaiters::sleeper("CALL taskq_await_workflow($flow, '5 min');");
$primary->safe_psql('postgres', "SELECT taskq_complete(task_id, token, '1') FROM taskq_claim('awaited')");
is(TaskqWaiters::answer($w), 'done|1', 'a session can await the end of a workflow instance there');
is($standby->safe_psql('postgres', "SELECT count(*) FROM taskq_timeline(workflow_id => $flow)"), '3', 'the instance has a timeline there');
like($standby->safe_psql('postgres', "SELECT taskq_workflow_graph($flow)"), qr/"a\\ndone"/, 'the instance has a picture there');

# A client submits, claims and completes or fails tasks, and writes down every
# id, and every pair of id and token, that it got: for the given time, and until
# it has enough ids.
sub clients
{
	my ($node, $least, $seconds, $log) = @_;
	my $host = $node->host;
	my $port = $node->port;
	my $parent = $$;
	my $pid = fork;
	return $pid if $pid;
	my $end = time + $seconds;
	my $ids = 0;
	open my $fh, '>>', $log or die;
	while ((time < $end || ($ids < $least && time < $end + 60)) && getppid == $parent)
	{
		my ($o, $e) = ('', '');
		my $text = join "\n", map {
			"SELECT 'submitted', taskq_submit('q'), 0;"
			  . "SELECT task_id, token FROM taskq_claim('q', lease => '1 h') \\gset c_\n"
			  . "\\if :{?c_task_id}\nSELECT 'claimed', :c_task_id, :c_token;\nSELECT 'failed', taskq_fail(:c_task_id, :c_token, 'again'), 0;\n\\endif\n"
		} 1 .. 50;
		# a client that meets a dead server must not end this process
		eval {
			IPC::Run::run(['psql', '-X', '-q', '-A', '-t', '-F', ' ', '-h', $host, '-p', $port, '-d', 'postgres'],
			'<', \$text, '>', \$o, '2>', \$e);
		};
		print $fh $o;
		$ids += () = $o =~ /^submitted /mg;
	}
	close $fh;
	POSIX::_exit(0);
}

my $dir = $PostgreSQL::Test::Utils::tmp_check;
my @pids = map { clients($primary, 200, 9, "$dir/old_$_.log") } 1 .. 8;
ok(within(20, sub { $primary->safe_psql('postgres', 'SELECT count(*) > 500 FROM taskq.tasks') eq 't' }),
	'clients are at work (void otherwise)');
$standby->promote;
ok(within(20, sub { worker_pid($standby) ne '' }), 'duties start on the promoted server');
my @new = map { clients($standby, 150, 4, "$dir/new_$_.log") } 1 .. 4;
waitpid $_, 0 for @pids, @new;

# The old primary is started again, and then uses tokens of another start; so
# does the new primary.
$primary->restart;
my @late = map { clients($primary, 50, 3, "$dir/old_late_$_.log") } 1 .. 4;
waitpid $_, 0 for @late;

my (%ids, %pairs, %count);
my ($same_id, $same_pair) = (0, 0);
for my $side ('old', 'new')
{
	for my $file (glob "$dir/${side}_*.log")
	{
		for my $line (split /\n/, slurp_file($file))
		{
			if ($line =~ /^submitted (\d+)/)
			{
				$same_id++ if $ids{$1}++;
				$count{"$side ids"}++;
			}
			elsif ($line =~ /^claimed (\d+) (\d+)$/)
			{
				$same_pair++ if $pairs{"$1 $2"}++;
				$count{"$side pairs"}++;
			}
		}
	}
}
note 'figure: ' . join ', ', map { "$_: $count{$_}" } sort keys %count;
cmp_ok($count{'old ids'}, '>', 1000, 'the old primary gave out ids');
cmp_ok($count{'new ids'}, '>', 300, 'the new primary gave out ids');
cmp_ok($count{'new pairs'}, '>', 300, 'tasks were claimed, too');
is($same_id, 0, 'no id was given twice');
is($same_pair, 0, 'no pair of id and token was given twice');
is($standby->safe_psql('postgres', 'SELECT max(task_id) > 16777216 FROM taskq.tasks'), 't',
	'ids continue far above the old ones');

sound($standby);
$standby->stop('fast');
$primary->stop('fast');
done_testing();

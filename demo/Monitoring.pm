# Monitoring: Prometheus and an exporter with the files of monitoring/, on
# loopback, for the demo and its test.
#
# The programs are those of Debian's packages, unpacked and not installed: each
# package lies in TASKQ_UNPACKED/package-NAME.  What is started uses copies of
# the shipped files with other addresses and shorter times: a scrape and an
# evaluation every second, and alerts that fire at once.  Expressions are the
# same.
#
# Processes end with the process that has started them, also if that is killed.
package Monitoring;

use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Time::HiRes qw(time);

my %packages = (sql => 'prometheus-sql-exporter', postgres => 'prometheus-postgres-exporter', textfile => 'prometheus-node-exporter');

# The exporters, in the order of prometheus.yml
sub exporters { return qw(sql postgres textfile) }

# What has to be unpacked for an exporter
sub packages { return ('prometheus', map { $packages{$_} } @_) }

# program(PACKAGE, NAME): the path of a program; undef if it is not there
sub program
{
	my ($package, $name) = @_;
	my $path = ($ENV{TASKQ_UNPACKED} // '') . "/package-$package/usr/bin/" . ($name // $package);
	return -x $path ? $path : undef;
}

sub slurp
{
	my ($path) = @_;
	local $/;
	open my $in, '<:raw', $path or die "cannot read $path: $!\n";
	return scalar <$in>;
}

sub spew
{
	my ($path, $text) = @_;
	open my $out, '>:raw', $path or die "cannot write $path: $!\n";
	print $out $text;
	close $out or die "cannot write $path: $!\n";
	return;
}

# --- what is shipped

# panels(SHIPPED): the panels of the dashboard, without rows
sub panels
{
	my ($shipped) = @_;
	my $dashboard = JSON::PP->new->decode(slurp("$shipped/grafana/taskq.json"));
	return grep { $_->{type} ne 'row' } @{ $dashboard->{panels} };
}

# rules(SHIPPED): [name, expression] of each alert rule
sub rules
{
	my ($shipped) = @_;
	my @rules;
	my $text = slurp("$shipped/alerts.yml");
	push @rules, [ $1, $2 ] while $text =~ /^      - alert: (\w+)\n        expr: (.+)\n/mg;
	return @rules;
}

# expressions(SHIPPED): [where, expression] of dashboard and rules
sub expressions
{
	my ($shipped) = @_;
	my @all;
	for my $panel (panels($shipped))
	{
		push @all, [ "panel $panel->{title}", $_->{expr} ] for @{ $panel->{targets} };
	}
	push @all, map { [ "alert $_->[0]", $_->[1] ] } rules($shipped);
	return @all;
}

# plain(EXPRESSION): with values for the variables of the dashboard
sub plain
{
	my ($expression) = @_;
	$expression =~ s/\$(?:job|queue)\b/.*/g;
	$expression =~ s/\$__rate_interval\b/15s/g;
	return $expression;
}

# --- processes

# free_port(): that no process listens on at the moment
sub free_port
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', LocalPort => 0) or die "no free port: $!\n";
	return $socket->sockport;
}

# launch(SELF, NAME, COMMAND...): returns its process; its output goes to a file
sub launch
{
	my ($self, $name, @command) = @_;
	my $pid = fork // die "cannot fork: $!\n";

	if ($pid == 0)
	{
		open STDIN, '<', '/dev/null';
		open STDOUT, '>>', "$self->{dir}/$name.log";
		open STDERR, '>&', \*STDOUT;
		# processes of Go use as many threads as there are processors
		$ENV{GOMAXPROCS} = 1;
		exec 'setpriv', '--pdeathsig', 'KILL', '--', @command or POSIX::_exit(127);
	}
	$self->{pids}{$name} = $pid;
	return $pid;
}

# runs(SELF, NAME): the process has not ended
sub runs
{
	my ($self, $name) = @_;
	my $pid = $self->{pids}{$name} // return 0;

	return 1 if waitpid($pid, POSIX::WNOHANG()) == 0;
	delete $self->{pids}{$name};
	return 0;
}

# serve(SELF, NAME, PATH, COMMAND): COMMAND is called with a port and returns
# the words of a command that listens there; waits until it answers.  Another
# process may get the port first: then another port is used.
sub serve
{
	my ($self, $name, $path, $command) = @_;

	for (1 .. 5)
	{
		my $port = free_port();
		my $until = time + 60;
		launch($self, $name, $command->($port));
		while (runs($self, $name) && time < $until)
		{
			my $answer = $self->{http}->get("http://127.0.0.1:$port$path");
			return $port if $answer->{success} && runs($self, $name);
			pause();
		}
		stop_one($self, $name);
	}
	die "$name does not start:\n" . slurp("$self->{dir}/$name.log");
}

sub pause { return select(undef, undef, undef, 0.1) }

sub stop_one
{
	my ($self, $name) = @_;
	my $pid = delete $self->{pids}{$name} // return;
	kill 'KILL', $pid;
	waitpid($pid, 0);
	return;
}

# --- one Prometheus with one exporter

# start(%): dir (an empty directory), shipped (the directory monitoring),
# exporter, host, port, database, user
sub start
{
	my (%self) = @_;
	my $self = bless {%self, pids => {}, owner => $$, http => HTTP::Tiny->new(timeout => 20)}, __PACKAGE__;

	local $ENV{PGHOST} = $self->{host};
	local $ENV{PGPORT} = $self->{port};
	local $ENV{PGUSER} = $self->{user};
	local $ENV{PGDATABASE} = $self->{database};
	$self->can("start_$self->{exporter}")->($self);
	write_configuration($self);
	my $prometheus = program('prometheus');
	$self->{prometheus} = serve($self, 'prometheus', '/-/ready', sub {
		my ($port) = @_;
		return ($prometheus, "--config.file=$self->{dir}/prometheus.yml", "--storage.tsdb.path=$self->{dir}/data",
			"--web.listen-address=127.0.0.1:$port", '--log.level=warn');
	});
	return $self;
}

sub start_sql
{
	my ($self) = @_;
	my $text = slurp("$self->{shipped}/sql-exporter.yml");
	my $program = program($packages{sql});

	$text =~ s/interval: \w+/interval: 1s/;
	$text =~ s{//taskq_monitor\@/mydb\b}{//$self->{user}\@/$self->{database}};
	spew("$self->{dir}/sql-exporter.yml", $text);
	$self->{target} = serve($self, 'exporter', '/metrics', sub {
		return ($program, "-config.file=$self->{dir}/sql-exporter.yml", "-web.listen-address=127.0.0.1:$_[0]");
	});
	return;
}

sub start_postgres
{
	my ($self) = @_;
	my $program = program($packages{postgres});
	local $ENV{DATA_SOURCE_NAME} = "host=$self->{host} port=$self->{port} user=$self->{user} dbname=$self->{database} sslmode=disable";

	# its own metrics take time, and are not looked at here
	$self->{target} = serve($self, 'exporter', '/', sub {
		return ($program, "--extend.query-path=$self->{shipped}/postgres-exporter.yml", "--web.listen-address=127.0.0.1:$_[0]",
			qw(--disable-default-metrics --disable-settings-metrics --no-collector.bgwriter --no-collector.database));
	});
	return;
}

sub start_textfile
{
	my ($self) = @_;
	my $program = program($packages{textfile});

	mkdir "$self->{dir}/textfile" or die "cannot make $self->{dir}/textfile: $!\n";
	launch($self, 'writer', 'sh', '-c', 'while :; do "$1" "$2"; sleep 0.5; done', 'writer',
		"$self->{shipped}/textfile.sh", "$self->{dir}/textfile/taskq.prom");
	$self->{target} = serve($self, 'exporter', '/', sub {
		return ($program, qw(--collector.disable-defaults --collector.textfile),
			"--collector.textfile.directory=$self->{dir}/textfile", "--web.listen-address=127.0.0.1:$_[0]");
	});
	return;
}

# Of the jobs of prometheus.yml the one of the exporter is used.
sub write_configuration
{
	my ($self) = @_;
	my ($head, @jobs) = split /^(?=  - job_name: )/m, slurp("$self->{shipped}/prometheus.yml");
	my ($job) = grep { /^  - job_name: taskq-$self->{exporter}$/m } @jobs;
	my $rules = slurp("$self->{shipped}/alerts.yml");

	die "prometheus.yml has no job for $self->{exporter}\n" if !$job;
	$head =~ s/_interval: \w+/_interval: 1s/g;
	$job =~ s/'localhost:\d+'/'127.0.0.1:$self->{target}'/ or die "prometheus.yml has no target\n";
	# a comment before the next job
	$job =~ s/\n  #.*\n$/\n/;
	$rules =~ s/^(\s+for:) \w+$/$1 1s/mg;
	spew("$self->{dir}/prometheus.yml", $head . $job);
	spew("$self->{dir}/taskq-alerts.yml", $rules);
	return;
}

# ask(PATH, FORM): the data of an answer of Prometheus
sub ask
{
	my ($self, $path, $form) = @_;
	my $url = "http://127.0.0.1:$self->{prometheus}/api/v1/$path";
	my $answer = $form ? $self->{http}->post_form($url, $form) : $self->{http}->get($url);
	my $data = eval { JSON::PP->new->utf8->decode($answer->{content}) };

	die "Prometheus: $path: $answer->{content}\n" if !$data || $data->{status} ne 'success';
	return $data->{data};
}

# query(EXPRESSION): [labels, value], ...
sub query
{
	my ($self, $expression) = @_;
	my $data = ask($self, 'query', { query => plain($expression) });

	return [ {}, $data->{result}[1] ] if $data->{resultType} eq 'scalar';
	return map { [ $_->{metric}, $_->{value}[1] ] } @{ $data->{result} };
}

# numbers(EXPRESSION): its answer without what is not a number, as the quantile
# of an interval in which nothing happened is
sub numbers
{
	my ($self, $expression) = @_;
	return grep { $_->[1] ne 'NaN' } query($self, $expression);
}

# firing(): the alerts that fire: name => number
sub firing
{
	my ($self) = @_;
	my %firing;
	for my $alert (@{ ask($self, 'alerts')->{alerts} })
	{
		$firing{ $alert->{labels}{alertname} }++ if $alert->{state} eq 'firing';
	}
	return \%firing;
}

# problems(): errors of the evaluation of rules
sub problems
{
	my ($self) = @_;
	return map { $_->{lastError} ? "$_->{name}: $_->{lastError}" : () } map { @{ $_->{rules} } } @{ ask($self, 'rules')->{groups} };
}

sub stop
{
	my ($self) = @_;
	stop_one($self, $_) for sort keys %{ $self->{pids} };
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $@);
	stop($self) if $self->{owner} == $$;
	return;
}

1;

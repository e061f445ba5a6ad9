# Chaos::Templates: the workflows of the chaos test.
#
# The server and the checker get the same definitions. Steps called "choose" and
# "split" get results that say what comes of them (flow.c), and one called
# "signal" waits for the signal "go". Conditions compare the number that each
# instance is given, which is from 0 to 99.
package Chaos::Templates;

use strict;
use warnings;
use JSON::PP;

our @definitions = (
	'{"name": "linear", "steps": [
		{"name": "a"},
		{"name": "b", "depends_on": ["a"], "when": "$.input.n < 70"},
		{"name": "c", "depends_on": ["b"], "payload": {"a": {"$": "$.results.a"}}},
		{"name": "d", "depends_on": ["c"], "priority": 2}]}',
	'{"name": "diamond", "on_failure": "stop", "steps": [
		{"name": "top"},
		{"name": "left", "depends_on": ["top"], "queue": "plain"},
		{"name": "right", "depends_on": ["top"], "queue": "five", "retryable": false},
		{"name": "bottom", "depends_on": ["left", "right"]}]}',
	'{"name": "wide", "steps": [
		{"name": "root"},
		{"name": "m1", "depends_on": ["root"]},
		{"name": "m2", "depends_on": ["root"]},
		{"name": "m3", "depends_on": ["root"], "queue": "plain"},
		{"name": "m4", "depends_on": ["root"], "queue": "random"},
		{"name": "m5", "depends_on": ["root"], "queue": "bare"},
		{"name": "m6", "depends_on": ["root"], "queue": "serial", "key": "k1"},
		{"name": "m7", "depends_on": ["root"], "priority": -1, "max_attempts": 2},
		{"name": "join", "depends_on": ["m1", "m2", "m3", "m4", "m5", "m6", "m7"]}]}',
	'{"name": "fork", "steps": [
		{"name": "a"},
		{"name": "b", "depends_on": ["a"], "when": "$.input.n >= 30"},
		{"name": "c", "depends_on": ["a"]},
		{"name": "d", "depends_on": ["b"]}]}',
	'{"name": "batch", "steps": [
		{"name": "split", "type": "batch"},
		{"name": "part", "type": "batch_worker", "depends_on": ["split"], "max_attempts": 3},
		{"name": "total", "type": "deferred", "depends_on": ["part"]}]}',
	'{"name": "batch_on", "steps": [
		{"name": "before"},
		{"name": "split", "type": "batch", "depends_on": ["before"], "failure_strategy": "continue_on_failure"},
		{"name": "part", "type": "batch_worker", "depends_on": ["split"], "max_attempts": 1},
		{"name": "total", "type": "deferred", "depends_on": ["part"]},
		{"name": "after", "depends_on": ["total"]}]}',
	'{"name": "batch_apart", "steps": [
		{"name": "split", "type": "batch", "failure_strategy": "isolate"},
		{"name": "part", "type": "batch_worker", "depends_on": ["split"], "max_attempts": 2},
		{"name": "total", "type": "deferred", "depends_on": ["part"]}]}',
	'{"name": "choice", "steps": [
		{"name": "first"},
		{"name": "choose", "type": "decision", "depends_on": ["first"]},
		{"name": "x", "depends_on": ["choose"]},
		{"name": "y", "depends_on": ["choose"]},
		{"name": "z", "depends_on": ["choose"]},
		{"name": "y2", "depends_on": ["y"]},
		{"name": "join", "type": "deferred", "depends_on": ["x", "y2", "z"]},
		{"name": "last", "depends_on": ["join"]}]}',
	'{"name": "ways", "on_failure": "stop", "steps": [
		{"name": "first"},
		{"name": "ways", "type": "decision", "depends_on": ["first"], "branches": [
			{"when": "$.input.n < 50", "steps": ["small"]},
			{"when": "$.input.n >= 40", "steps": ["large"]}]},
		{"name": "small", "depends_on": ["ways"]},
		{"name": "large", "depends_on": ["ways"]},
		{"name": "join", "type": "deferred", "depends_on": ["small", "large"]}]}',
	'{"name": "inner", "steps": [
		{"name": "p"},
		{"name": "q", "depends_on": ["p"]}]}',
	'{"name": "outer", "steps": [
		{"name": "before"},
		{"name": "inner", "type": "workflow", "depends_on": ["before"], "workflow": {"name": "inner", "key": {"$": "$.input.inner"},
			"input": {"key": {"$": "$.input.inner"}, "n": {"$": "$.input.n"}}}},
		{"name": "beside", "depends_on": ["before"]},
		{"name": "after", "depends_on": ["inner", "beside"]}]}',
	'{"name": "ask", "steps": [
		{"name": "draft"},
		{"name": "signal", "type": "signal", "depends_on": ["draft"], "signal": {"name": "go"}},
		{"name": "print", "depends_on": ["signal"]}]}',
	'{"name": "ask_soon", "steps": [
		{"name": "draft"},
		{"name": "signal", "type": "signal", "depends_on": ["draft"], "signal": {"name": "go", "timeout": "700 ms"}},
		{"name": "print", "depends_on": ["signal"]}]}',
	'{"name": "ask_perhaps", "steps": [
		{"name": "signal", "type": "signal", "signal": {"name": "go", "timeout": "500 ms", "on_timeout": "complete"}},
		{"name": "print", "depends_on": ["signal"]}]}',
	'{"name": "pause", "steps": [
		{"name": "s"},
		{"name": "timer", "type": "timer", "depends_on": ["s"], "timer": {"after": "250 ms"}},
		{"name": "t", "depends_on": ["timer"]}]}');

# The queue of steps that name none
our $queue = 'flow';

# As objects, complete
sub all
{
	return map {
		my $template = JSON::PP->new->decode($_);
		@$template{qw(version queue)} = ('1', $queue);
		$template
	} @definitions;
}

sub as_text { my ($template) = @_; return JSON::PP->new->canonical->encode($template); }

# Of those that clients start
sub names { return grep { $_ ne 'inner' } map { $_->{name} } all(); }

1;

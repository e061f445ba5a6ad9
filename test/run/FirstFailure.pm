# FirstFailure: loaded before a TAP test, ends it with its first failure.  For
# mutants: one failure is all they are asked for, and what a broken server does
# not do is waited for long, again and again.
package FirstFailure;

use strict;
use warnings;
use Test::Builder;    # first, since it sets up what is listened to
use Test2::API qw(test2_add_callback_context_release test2_stack);

# children of the test, which may have cases of their own, go on
my $test = $$;
my $failed = 0;

# A subtest comes to its end, then it is a case.  A test that has seen too
# little to tell goes on, too.
test2_stack()->top->listen(sub {
	my (undef, $event) = @_;

	$failed = 1 if $event->causes_fail && ($event->facet_data->{assert}{details} // '') !~ /void otherwise/;
});

# when it has been told
test2_add_callback_context_release(sub {
	exit 1 if $failed && $$ == $test && !$_[0]->hub->isa('Test2::Hub::Subtest');
});

1;

# FirstFailure: loaded before a TAP test, ends it with its first failure. For
# mutants: one failure is enough, and a test waits long, again and again, for
# what a broken server does not do.
package FirstFailure;

use strict;
use warnings;
use Test::Builder;    # first, since it sets up what is intercepted
use Test2::API qw(test2_add_callback_context_release test2_stack);

# children of the test, which may have cases of their own, continue
my $test = $$;
my $failed = 0;

# A subtest runs to its end, then it is a case. A test that has seen too little
# continues, too.
test2_stack()->top->listen(sub {
	my (undef, $event) = @_;

	$failed = 1 if $event->causes_fail && ($event->facet_data->{assert}{details} // '') !~ /void otherwise/;
});

# after it was reported
test2_add_callback_context_release(sub {
	exit 1 if $failed && $$ == $test && !$_[0]->hub->isa('Test2::Hub::Subtest');
});

1;

# includes: a folder of src is a layer; a file includes its own layer and
# lower ones. Only src/taskq.c knows all.
. test/run/tap.sh

layers="base shared store xact cache engine query diag command keyed change flow/definition flow/instance flow/run flow/view maintenance process"

# Which file includes what it should not; one process, of which a header here
# would need several
upward=$(
	c_files | LAYERS=$layers perl -ne '
		BEGIN { my $n = 0; %height = map { $_ => ++$n } split / /, $ENV{LAYERS} }
		chomp;
		next if $_ eq "src/taskq.c";
		my ($file, $dir) = ($_, m{(.*)/});
		my $own = $height{ $dir =~ s{^src/}{}r } // 0;
		open my $in, "<", $file or die "$file: $!";
		for my $header (map { /^\s*#\s*include\s*"([^"]*)"/ ? $1 : () } <$in>)
		{
			next if !-f "src/$header" && !-f "$dir/$header";
			print("$file: \"$header\" has no folder\n"), next if !-f "src/$header";
			my $other = $height{ $header =~ s{/[^/]*$}{}r };
			print "$file includes $header\n" if !$other || $other > $own;
		}'
)
none 'no file includes a higher layer' "$upward"

none 'every folder of src is a layer' "$(
	c_files | sed -n 's,^src/\(.*\)/[^/]*$,\1,p' | sort -u |
		while read -r dir; do
			[[ " $layers " == *" $dir "* ]] || echo "src/$dir"
		done)"

none 'every C file includes base/compat.h first' "$(
	c_files | grep '\.c$' | xargs awk '
		/^#include/ && !(FILENAME in first) {first[FILENAME] = $2}
		END {for (i = 1; i < ARGC; i++)
			if (first[ARGV[i]] != "\"base/compat.h\"") print ARGV[i]}')"

done_testing

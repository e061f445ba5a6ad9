# source: rules that a search can check.
. test/run/tap.sh

# a search for a word must not find itself
none 'versions are tested in src/base/compat.h only' "$(
	c_files | grep -vxF src/base/compat.h |
		xargs -r grep -nE 'PG_VERSION_NUM|PG_MAJORVERSION_NUM|CATALOG_VERSION_NO')"
none 'no elog below WARNING, and no ereport without errcode' "$(
	c_files | xargs perl -0777 -ne '
		while (/\bereport\s*\(\s*(ERROR|FATAL|PANIC)\b(.*?)\)\s*;/gs) {
			my $line = 1 + (substr($_, 0, $-[0]) =~ tr/\n//);
			print "$ARGV:$line\n" unless $2 =~ /errcode|sqlerrcode/;
		}')"
none 'tests do not sleep' "$(
	find test \( -path test/lint -o -path test/run \) -prune -o -type f -print0 |
		xargs -0r grep -nE '(\bpg_)?\bu?sleep[ (]+[0-9.$]|\bsleep;|Time::HiRes.*sleep|pg_sleep' |
		grep -vE 'poll_[a-z_]+|pg_sleep\(0\.0[0-9]+\)')"
none 'no file has more than 400 kB' "$(
	all_files | tr '\n' '\0' | xargs -0 ls -l | awk '$5 > 400000 {print $9 ": " $5}')"
none 'every C file begins with its name' "$(
	c_files | xargs awk '
		FNR == 2 {second[FILENAME] = $0}
		END {for (i = 1; i < ARGC; i++) {
			name = ARGV[i]; sub(/.*\//, "", name)
			if (second[ARGV[i]] != " * " name) print ARGV[i]}}')"
none 'the copyright holder has the same name everywhere' "$(
	text_files | grep -vxF test/lint/source.sh | tr '\n' '\0' |
		xargs -0 grep -nE 'Copyright \([cC]\)' | grep -v 'the taskq developers$')"
none 'no line ends with a blank' "$(
	text_files | grep -vE '(^|/)expected/|\.patch$|\.md$' | tr '\n' '\0' |
		xargs -0 grep -nE '[[:blank:]]$' | cut -c1-100)"
none 'no line of C is longer than 79 columns' "$(
	c_files | xargs perl -ne '
		chomp;
		my $line = $_;
		1 while $line =~ s/^([^\t]*)\t/$1 . " " x (4 - length($1) % 4)/e;
		print "$ARGV:$.\n" if length $line > 79 && !/errmsg|errhint|errdetail|"/;
		close ARGV if eof;')"
none 'an example worker is one file, below 120 lines of 90 columns' "$(
	for dir in c java node python shell; do
		find "examples/$dir" -type f |
			grep -vE '/([Ww]orker\.[a-z]+|Makefile|package(-lock)?\.json)$'
		expand -t 4 "examples/$dir"/[Ww]orker.* |
			awk -v f="examples/$dir" 'length($0) > 90 {print f ": line " NR}
				END {if (NR == 0 || NR >= 120) print f ": " NR " lines"}'
	done)"

done_testing

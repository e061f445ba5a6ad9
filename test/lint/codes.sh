# codes: states and reasons have names; only src/base/code.h has their numbers.
. test/run/tap.sh

# Where a column or a member named like that meets a number, but for comments
numbers() {
	xargs perl -0777 -ne '
		s{/\*.*?\*/}{$& =~ tr/\n//cdr}ges;
		while (/(?:\b|_)(?:state|reason|descent)\b\s
				(?:OPERATOR\(pg_catalog\.[<>=]+\) | [<>=!]+ | IN\ \( | NOT\ IN\ \( |
				BETWEEN | NOT\ BETWEEN | smallint\ NOT\ NULL\ DEFAULT)\ ?-?\d/gx) {
			print "$ARGV:", 1 + (substr($_, 0, $-[0]) =~ tr/\n//), ": $&\n";
		}'
}

none 'no number of a state or reason in sql/parts' \
	"$(find sql/parts -name '*.sql' | sort | numbers)"
none 'no number of a state or reason in C' "$(c_files | numbers)"
none 'enums and statements of C use the named codes' "$(
	perl -0777 -ne '
		while (/^#define TQ_SQL_(\w+)\s+(?:\\\n\s+)?CppAsString2\((\w+)\)/gm) {
			print "TQ_SQL_$1 is $2\n" if $2 ne "TQ_CODE_$1";
		}
		while (/^\tTQ_(\w+) = (\w+)/gm) {
			print "TQ_$1 is $2\n" if $2 ne "TQ_CODE_$1" && $2 ne "0";
		}' src/base/code.h)"

done_testing

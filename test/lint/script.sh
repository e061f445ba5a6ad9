# script: rules for what CREATE EXTENSION runs.
. test/run/tap.sh

parts=$(find sql/parts -name '*.sql' | sort)

# The statements that create functions and procedures, a line each, with the
# bodies cut out: "file: text"
functions() {
	local file
	for file in $parts; do
		perl -0777 -ne '
			s{/\*.*?\*/}{}gs; s{^\s*--[^\n]*}{}gm;
			s{(\$[a-z_]*\$).*?\1}{BODY}gs;
			s{BEGIN\s+ATOMIC.*?END\s*;}{BODY;}gis;
			while (/(CREATE\s+(?:FUNCTION|PROCEDURE)\b[^;]*);/gi) {
				my $text = $1; $text =~ s/\s+/ /g;
				print "'"$file"': $text\n";
			}' "$file"
	done
}

# The code alone: no comments, no literals; lines are kept.
code() {
	perl -0777 -pe '
		s{/\*.*?\*/}{my $t = $&; $t =~ tr/\n//cd; $t}ges;
		s{--[^\n]*}{}g;
		s{'"'"'(?:[^'"'"']|'"''"')*'"'"'}{my $t = $&; $t =~ tr/\n//cd; "?$t"}ges' "$1" |
		grep -nE "$2" | sed "s,^,$1:,"
}

in_code() {
	local file
	for file in $parts; do code "$file" "$1"; done
}

made=$(functions)
short() { cut -c1-100; }

none 'no CREATE OR REPLACE' "$(in_code '[Oo][Rr] +[Rr][Ee][Pp][Ll][Aa][Cc][Ee]')"
none 'no IF NOT EXISTS' "$(in_code '[Ii][Ff] +[Nn][Oo][Tt] +[Ee][Xx][Ii][Ss][Tt][Ss] *[a-z]')"
none 'no @extschema@ in a literal or a body' "$(
	for file in $parts; do
		perl -0777 -ne '
			s{/\*.*?\*/}{}gs; s{--[^\n]*}{}g;
			while (/(\$[a-z_]*\$).*?\1|'"'"'(?:[^'"'"']|'"''"')*'"'"'/gs) {
				print "'"$file"': $&\n" if $& =~ /\@extschema/;
			}' "$file"
	done)"
none 'every function has a volatility' "$(
	printf '%s\n' "$made" | grep -i 'CREATE FUNCTION' |
		grep -viwE 'VOLATILE|STABLE|IMMUTABLE' | short)"
none 'every function has a parallel safety' "$(
	printf '%s\n' "$made" | grep -i 'CREATE FUNCTION' |
		grep -viE 'PARALLEL (SAFE|RESTRICTED|UNSAFE)' | short)"
none 'no function is strict' "$(
	printf '%s\n' "$made" | sed 's/([^)]*)//g' | grep -iwE 'STRICT|RETURNS NULL ON NULL INPUT' | short)"
none 'every function not in C sets its search_path' "$(
	printf '%s\n' "$made" | grep -viE 'LANGUAGE c\b' |
		grep -viE 'SET search_path (=|TO) pg_catalog, pg_temp' | short)"
none 'SECURITY DEFINER only for functions that the part on grants names' "$(
	printf '%s\n' "$made" | grep -iE 'SECURITY DEFINER' |
		sed -nE 's/^[^:]*: CREATE (FUNCTION|PROCEDURE) ([a-z_.]+).*/\2/ip' |
		while read -r name; do
			grep -qwF -e "$name" sql/parts/90_grants.sql 2>/dev/null || echo "$name"
		done)"
none 'functions in C have neither SECURITY DEFINER nor SET' "$(
	printf '%s\n' "$made" | grep -iE 'LANGUAGE c\b' |
		grep -iE 'SECURITY DEFINER| SET [a-z_.]+ (=|TO)' | short)"
none 'every created object has a comment' "$(
	cat $parts | perl -0777 -ne '
		s{/\*.*?\*/}{}gs; s{^\s*--[^\n]*}{}gm;
		my %commented;
		while (/COMMENT\s+ON\s+(?:MATERIALIZED\s+)?(TABLE|VIEW|INDEX|SEQUENCE|TYPE|DOMAIN|FUNCTION|PROCEDURE|SCHEMA|AGGREGATE)\s+([a-z_.0-9]+)/gi) {
			my ($kind, $name) = (uc $1, lc $2); $name =~ s/^.*\.//;
			$commented{"$kind $name"}++;
		}
		my %made;
		while (/^\s*CREATE\s+(?:UNLOGGED\s+|UNIQUE\s+|MATERIALIZED\s+)?(TABLE|VIEW|INDEX|SEQUENCE|TYPE|DOMAIN|FUNCTION|PROCEDURE|SCHEMA|AGGREGATE)\s+([a-z_.0-9]+)/gim) {
			my ($kind, $name) = (uc $1, lc $2); $name =~ s/^.*\.//;
			$made{"$kind $name"}++;
		}
		for (sort keys %made) {
			print "$_\n" if ($commented{$_} // 0) < $made{$_};
		}')"
none 'every part begins with its name' "$(
	for file in $parts; do
		name=$(basename "$file" .sql)
		[ "$name" = 00_head ] ||
			[ "$(sed -n 2p "$file" | grep -cE "^ \* $name\b")" = 1 ] || echo "$file"
	done)"

done_testing

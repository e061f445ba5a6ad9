# pages: the pages of the documentation have lines of at most 100 columns and
# at most 600 lines.  Links are for readme.
. test/run/tap.sh

pages=$(find . -maxdepth 1 -name '*.md'; find doc demo examples monitoring -name '*.md')

# Lines of text that are too long.  Tables, headings, code and single words
# that are longer cannot be wrapped.  Perl, since mawk counts bytes.
none 'a line of text of a page has at most 100 columns' "$(
	for page in $pages; do
		perl -CSD -ne '
			if (/^ *```/) { $code = !$code; next }
			next if $code || /^(?:[|#]|    )/ || !/ [^ ]/;
			chomp;
			print "$ARGV:$.\n" if length > 100' "$page"
	done)"
none 'a page has at most 600 lines' "$(
	for page in $pages; do
		[ "$page" = ./CHANGELOG.md ] || [ "$(wc -l <"$page")" -le 600 ] || echo "$page"
	done)"
none 'every block of code of a page ends' "$(
	for page in $pages; do
		[ $(($(grep -c '^ *```' "$page") % 2)) = 0 ] || echo "$page"
	done)"

done_testing

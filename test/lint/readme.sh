# readme: what the pages name exists: targets of make, files, headings. What
# their SQL does is for tap:documents.
. test/run/tap.sh

targets=$(make_targets)
pages=$(find . -maxdepth 1 -name '*.md'; find doc demo examples monitoring src test -name '*.md')

# Lines of code blocks and pieces in back quotes that begin with make:
# "page: command"
commands=$(
	for page in $pages; do
		{
			awk '/^```/ {code = !code; next} code || /^    /' "$page" |
				sed -n 's/^ *\(\$ *\|sudo *\)*\(make.*\)/\2/p'
			grep -oE '`(sudo )?make[^`]*`' "$page" | tr -d '`' | sed 's/^sudo //'
		} | grep -E '^make( |$)' | sed "s,^,$page: ,"
	done)

none 'the README names make check and make demo' "$(
	for want in 'make check' 'make demo'; do
		printf '%s\n' "$commands" | grep -qE "^./README.md: $want( |\$)" ||
			echo "$want"
	done)"
none 'every target of make that a page names exists' "$(
	printf '%s\n' "$commands" | sed 's/#.*//; s/[<>…]//g' |
		while read -r page _ words; do
			eval "set -- $words" 2>/dev/null
			while [ $# -gt 0 ]; do
				case $1 in
					-[fCj]) shift ;;
					-* | *=*) ;;
					*) printf '%s\n' "$targets" | grep -qxF -e "${1%,}" ||
						echo "$page make $1" ;;
				esac
				shift
			done
		done)"

# links PAGE: prints the targets of its links, without external ones
links() {
	grep -oE '\]\([^)]+\)' "$1" | sed 's/^](//; s/)$//' | grep -vE '^https?:'
}

# headings PAGE: as links name them
headings() {
	awk '/^```/ {code = !code; next} !code && /^#+ /' "$1" |
		sed 's/^#* *//' | tr '[:upper:]' '[:lower:]' |
		sed 's/[^-a-z0-9_ ]//g; s/ /-/g'
}

none 'every file that a page links to exists' "$(
	for page in $pages; do
		links "$page" | sed 's/#.*//' | grep . | while read -r file; do
			[ -e "$(dirname "$page")/$file" ] || echo "$page: $file"
		done
	done)"
none 'every heading that a page links to exists' "$(
	for page in $pages; do
		links "$page" | grep '#' | while IFS='#' read -r file heading; do
			file=${file:+$(dirname "$page")/$file}
			headings "${file:-$page}" | grep -qxF -e "$heading" ||
				echo "$page: ${file:-}#$heading"
		done
	done)"

none 'doc/README.md lists every page of doc' "$(
	find doc -name '*.md' ! -path doc/README.md | while read -r page; do
		links doc/README.md | sed 's/#.*//' | grep -qxF -e "${page#doc/}" || echo "$page"
	done)"
none 'doc/performance.md lists every part of the benchmark, and only existing ones' "$(
	diff <(find bench/parts -name '*.sh' | sed 's,.*/,,; s/\.sh$//' | sort) \
		<(sed -n '/^## Parts/,/^## C/s/^| `\([a-z_]*\)` |.*/\1/p' doc/performance.md | sort))"
none 'README.md has at most 150 lines, and a guide at most 600' "$(
	wc -l README.md doc/guides/*.md |
		awk '$2 == "README.md" && $1 > 150 || $2 ~ /^doc/ && $1 > 600 {print $2 ": " $1}')"

# the rows of the tables of src/README.md: "folder/file"
listed() {
	awk '/^## / {folder = $2 "/"} /^(\| )?`[a-z_]+\.[ch]`/ {
		sub(/^[^`]*`/, ""); sub(/`.*/, ""); print "src/" folder $0}' src/README.md
}

none 'src/README.md lists every file of src, or the C file of its header' "$(
	listed=$(listed)
	c_files | while read -r file; do
		printf '%s\n' "$listed" | grep -qxF -e "$file" -e "${file%.h}.c" || echo "$file"
	done)"
none 'src/README.md lists no file twice, and only existing files' "$(
	listed | sort | uniq -d
	listed | while read -r file; do [ -e "$file" ] || echo "$file"; done)"

# A word in capitals stands for any name: test/sql/NAME.sql
none 'every path that a page names in back quotes exists' "$(
	for page in $pages; do
		grep -oE '`(bench|demo|doc|examples|expected|sql|src|test)(/[A-Za-z0-9_./-]+)?`' "$page" |
			tr -d '`' | grep -vE '(^|[/_])(AREA|NAME|NN)([._/]|$)|^bench/results$' | sort -u |
			while read -r path; do [ -e "$path" ] || echo "$page: $path"; done
	done)"
none 'every variable that doc/testing.md names is read by the harness' "$(
	sed -n '/^| variable |/,/^$/s/^| \(`[^|]*\) |.*/\1/p' doc/testing.md | grep -oE '[A-Z][A-Z_]+' |
		while read -r name; do
			grep -rqw -e "$name" Makefile test/run test/t || echo "$name"
		done)"

# the names in the list of checks of taskq_health(), in its order
checks=$(sed -n '/^} checks\[\] = /,/;$/s/.*{"\([a-z_]*\)", .*/\1/p' src/diag/health.c)
none 'doc/operate/health_checks.md has an entry for each check of taskq_health, in its order' "$(
	diff <(printf '%s\n' "$checks") <(sed -n 's/^### //p' doc/operate/health_checks.md))"
none 'the reference lists each check of taskq_health, in its order' "$(
	diff <(printf '%s\n' "$checks") \
		<(sed -n '/^| check_name |/,/^$/p' doc/reference/administration.md | tail -n +3 |
			sed -n 's/^| \([a-z_, ]*\) |.*/\1/p' | sed 's/, /\n/g'))"

sources=$(find src sql -type f)
none 'every file that doc/architecture.md, its picture and doc/internals.md name exists' "$(
	{
		grep -hoE '`[^`]+\.(c|h|sql)`' doc/architecture.md doc/internals.md
		grep -oE '>[^<]+\.c<' doc/pictures/floors.svg
	} | tr -d '`<>' | grep -v NN_ | sort -u | while read -r file; do
		grep -qE "(^|/)$file\$" <<<"$sources" || echo "$file"
	done)"
none 'every function that doc/architecture.md and doc/internals.md name exists' "$(
	grep -hoE '`tq_[a-z_]+`' doc/architecture.md doc/internals.md | tr -d '`' | sort -u |
		while read -r name; do
			grep -rqwF -e "$name" src || echo "$name"
		done)"

done_testing

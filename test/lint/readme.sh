# readme: the targets of make that the README names exist.
. test/run/tap.sh

targets=$(make_targets)

# lines of code blocks and pieces in back quotes that begin with make
commands=$(
	awk '/^```/ {code = !code; next} code' README.md |
		sed -n 's/^\(\$ *\|sudo *\)*\(make.*\)/\2/p'
	grep -oE '`(sudo )?make[^`]*`' README.md | tr -d '`' | sed 's/^sudo //'
)

none 'the README names make check and make demo' "$(
	for want in 'make check' 'make demo'; do
		printf '%s\n' "$commands" | grep -qE "^$want( |\$)" || echo "$want"
	done)"
none 'every target of make in the README exists' "$(
	printf '%s\n' "$commands" | sed 's/#.*//' | while read -r _ words; do
		eval "set -- $words" 2>/dev/null
		while [ $# -gt 0 ]; do
			case $1 in
				-[fCj]) shift ;;
				-* | *=*) ;;
				*) printf '%s\n' "$targets" | grep -qxF -e "$1" || echo "make $1" ;;
			esac
			shift
		done
	done)"
none 'every file that the README links to exists' "$(
	grep -oE '\]\([^)#]+' README.md | sed 's/^](//' | grep -v '^https\?:' |
		while read -r file; do [ -e "$file" ] || echo "$file"; done)"

done_testing

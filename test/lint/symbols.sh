# symbols: the names of exported symbols.
. test/run/tap.sh

names=$(nm -D --defined-only "$TASKQ_LIBRARY" | awk '{print $3}')
none 'the library exports something' "$([ -n "$names" ] || echo nothing)"
none 'exported names begin with tq_, taskq_ or are names that the server looks up' \
	"$(printf '%s\n' "$names" |
		grep -vE '^(tq_|taskq_|pg_finfo_taskq_|_PG_init$|_PG_fini$|Pg_magic_func$)')"

done_testing

#!/bin/bash
# Exported symbols carry the project's prefix.
wrong=$(nm -D --defined-only "$TASKQ_LIBRARY" | awk '{print $3}' |
	grep -vE '^(tq_|taskq_|pg_finfo_taskq_|_PG_init$|Pg_magic_func$)')
count=$(nm -D --defined-only "$TASKQ_LIBRARY" | wc -l)
[ "$count" -gt 20 ] && [ -z "$wrong" ] && echo "ok 1 - $count exported symbols" ||
	echo "not ok 1 - exported without prefix: $wrong"
echo 1..1

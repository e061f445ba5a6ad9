#!/bin/bash
# A folder of src is a layer: it includes its own headers and those of lower
# layers, and nothing else of ours.
cd "$TASKQ_SRC" || exit 1
declare -A level=([base]=0 [shared]=1 [core]=2 [ordered]=3 [flow]=4 [process]=5)
n=0 bad=0
for f in src/*/*.[ch]; do
	layer=$(basename "$(dirname "$f")")
	for inc in $(sed -n 's/^#include "\([a-z]*\)\/[a-z_]*\.h"$/\1/p' "$f"); do
		[ -n "${level[$inc]:-}" ] || continue
		n=$((n + 1))
		if [ "${level[$inc]}" -gt "${level[$layer]}" ]; then
			echo "# $f includes from $inc/"
			bad=$((bad + 1))
		fi
	done
done
[ $n -gt 50 ] && [ $bad = 0 ] && echo "ok 1 - $n includes go downward" ||
	echo "not ok 1 - $bad of $n includes go upward"
# the first include of a source is the compatibility header
late=$(for f in src/*.c src/*/*.c; do
	grep -m1 '^#include' "$f" | grep -q 'base/compat.h' || echo "$f"; done)
[ -z "$late" ] && echo "ok 2 - compat.h comes first" ||
	echo "not ok 2 - compat.h does not come first in: $late"
versions=$(grep -l PG_VERSION_NUM src/*.[ch] src/*/*.[ch] | grep -v '^src/base/compat.h$')
[ -z "$versions" ] && echo "ok 3 - version tests stand in compat.h" ||
	echo "not ok 3 - version tests in: $versions"
echo 1..3

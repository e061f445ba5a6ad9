#!/bin/bash
# C sources are laid out as .clang-format says.
cd "$TASKQ_SRC" || exit 1
n=0
for f in src/*.[ch] src/*/*.[ch] examples/*/*.c; do
	[ -e "$f" ] || continue
	n=$((n + 1))
	if clang-format --dry-run -Werror "$f" 2>/dev/null; then
		echo "ok $n - $f"
	else
		echo "not ok $n - $f: run make format"
	fi
done
echo "1..$n"

#!/bin/bash
# The project speaks of itself only, and holds no large or generated files.
cd "$TASKQ_SRC" || exit 1
n=0
report() {
	n=$((n + 1))
	[ -z "$1" ] && echo "ok $n - $2" || { echo "not ok $n - $2:" $1; }
}
report "$(find . -type f -size +400k -not -path './results/*' | head)" "no large files"
report "$(grep -rlE 'Copyright' src | xargs grep -LE 'the taskq developers')" \
	"the copyright holder is the taskq developers"
report "$(for f in src/*.[ch] src/*/*.[ch]; do head -8 "$f" | grep -q Copyright ||
	grep -qE '^ \* Copyright' "$f" || echo "$f"; done)" "every source has a head"
report "$(sed -n 's/^ *make \([a-z-]*\).*/\1/p' README.md | sort -u | while read -r t; do
	grep -qE "^(PROJECT_GOALS|	).*\b$t\b|^$t:|^EXTENSION" Makefile || case $t in install|clean|installcheck) ;; *) echo "$t" ;; esac; done)" \
	"every make target of the README exists"
echo "1..$n"

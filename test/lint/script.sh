#!/bin/bash
# Rules for the install script.
cd "$TASKQ_SRC" || exit 1
n=0
report() {
	n=$((n + 1))
	[ -z "$1" ] && echo "ok $n - $2" || { echo "not ok $n - $2:" $1; }
}
report "$(grep -niE 'CREATE OR REPLACE|IF NOT EXISTS' sql/parts/*.sql | cut -d: -f1,2)" \
	"nothing is replaced or made only if missing"
report "$(grep -nE "'[^']*@extschema@" sql/parts/*.sql | cut -d: -f1,2)" \
	"@extschema@ is in no literal"
report "$(grep -niE '\bSTRICT\b' sql/parts/*.sql | cut -d: -f1,2)" "no function is STRICT"
report "$(grep -niE 'SECURITY DEFINER' sql/parts/*.sql | cut -d: -f1,2)" \
	"no function is SECURITY DEFINER"
report "$(awk '/^CREATE (FUNCTION|PROCEDURE)/{f=FILENAME":"FNR; t=""}
	f!=""{t=t" "$0}
	f!="" && /;$/{ if (t !~ /(VOLATILE|STABLE|IMMUTABLE)/ || t !~ /PARALLEL (SAFE|RESTRICTED|UNSAFE)/) print f; f="" }' sql/parts/*.sql)" \
	"every function states volatility and parallel safety"
parts=$(sed -n '/^SQL_PARTS/,/[^\\]$/p' Makefile | grep -oE '[0-9]{2}_[a-z_]+' | sort)
report "$(diff <(ls sql/parts | sed 's/\.sql$//' | sort) <(echo "$parts" | sort -u))" \
	"the Makefile names every part"
echo "1..$n"

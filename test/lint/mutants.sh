# mutants: each of them applies, and compiles.
#
# Only what a patch changes is compiled, and only as far as the compiler checks
# it: the C files that it changes, and some of those that include a header that
# it changes. What every file includes first is compiled once for all. A call of
# a function that does not exist is an error: the library would be built, and
# not loaded.
. test/run/tap.sh

WORKERS=2
pg_config=${PG_CONFIG:-pg_config}
read -ra CC <<<"$("$pg_config" --cc)"
CC+=(-D_GNU_SOURCE -DTASKQ_DEBUG -Isrc -I"$("$pg_config" --includedir-server)"
	-I"$("$pg_config" --includedir)" -Werror=implicit-function-declaration
	-Werror=implicit-int -Werror=incompatible-pointer-types
	-Werror=int-conversion)
FIRST=src/base/compat.h

# touched PATCH: the files that it changes
touched() { sed -n 's,^+++ b/\([^[:space:]]*\).*,\1,p' "$1"; }

# units FILE: the C files to be compiled when this one has changed
units() {
	case $1 in
		*.c) say "$1" ;;
		src/*.h) grep -rlF --include='*.c' "\"${1#src/}\"" src | sort | head -n 20 ;;
		*.h) grep -lF "\"${1##*/}\"" "${1%/*}"/*.c ;;
	esac
}

say() { printf '%s\n' "$*"; }

precompile() { "${CC[@]}" -x c-header $FIRST -o $FIRST.gch; }

# compile PATCH: prints what is wrong with it; it has been applied
compile() {
	local file unit
	for file in $(touched "$1"); do
		[ -f "$file" ] || continue
		[ "$file" != $FIRST ] || rm -f $FIRST.gch
		for unit in $(units "$file"); do
			"${CC[@]}" -fsyntax-only "$unit" 2>&1 | grep -m 1 error:
		done
	done
}

# check_in DIRECTORY: the mutants whose names come in, in a copy of the sources
check_in() {
	local patch found
	cd "$1" || return
	precompile
	while read -r patch; do
		if ! found=$(patch -s -p1 -f --no-backup-if-mismatch <"$patch" 2>&1); then
			say "$patch does not apply: ${found%%$'\n'*}"
			# a part of it may have been
			cp -R "$TOP/." .
			continue
		fi
		found=$(compile "$patch")
		[ -z "$found" ] || say "$patch: ${found%%$'\n'*}"
		patch -s -p1 -f -R --no-backup-if-mismatch <"$patch" >/dev/null
		[ -f $FIRST.gch ] || precompile
	done
}

TOP=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find test/mutants -name '*.patch' | sort >"$work/all"
for ((i = 0; i < WORKERS; i++)); do
	mkdir "$work/$i"
	cp -R . "$work/$i"
	awk -v i=$i -v n=$WORKERS 'NR % n == i' "$work/all" |
		check_in "$work/$i" >"$work/found.$i" 2>&1 &
done
wait
none 'there are mutants' "$([ -s "$work/all" ] || say none)"
none 'each mutant applies and compiles' "$(sort "$work"/found.*)"
done_testing

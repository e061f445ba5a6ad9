# versions.sh: does the extension compile for every PostgreSQL that
# src/base/compat.h knows?  The headers, and what PGXS needs, are found on the
# machine or taken out of Debian's packages; a server of that version is not
# needed, and what is built is not run.

VERSIONS='15 16 17 18'

# of_version MAJOR PG_CONFIG: does the program belong to it, with headers?
of_version() {
	local dir
	case $("$2" --version 2>/dev/null) in
		"PostgreSQL $1"[.\ a-z]* | "PostgreSQL $1") ;;
		*) return 1 ;;
	esac
	dir=$("$2" --includedir-server) && [ -f "$dir/postgres.h" ] &&
		dir=$("$2" --pgxs) && [ -f "$dir" ]
}

# unknown_flags FILE: the compiler's flags in that Makefile that gcc does not
# know: another Debian has another gcc
unknown_flags() {
	local flag
	sed -n 's/^CFLAGS = //p' "$1" | tr ' ' '\n' | grep '^-[Wf]' | sort -u |
		while read -r flag; do
			gcc "$flag" -fsyntax-only -x c /dev/null 2>/dev/null ||
				say "$flag"
		done
}

# write_pg_config MAJOR ROOT WORK: prints the directories below ROOT, which is
# WORK now; the package's own program may need a newer C library
write_pg_config() {
	local major=$1 root=$2 version
	version=$(sed -n 's/^#define PG_VERSION "\(.*\)"/\1/p' \
		"$3/usr/include/postgresql/$major/server/pg_config.h")
	cat >"$3/pg_config" <<-END
		#!/bin/sh
		root='$root'
		case \$1 in
			--version) echo 'PostgreSQL $version' ;;
			--bindir) echo "\$root/usr/lib/postgresql/$major/bin" ;;
			--libdir | --pkglibdir) echo "\$root/usr/lib/postgresql/$major/lib" ;;
			--pgxs) echo "\$root/usr/lib/postgresql/$major/lib/pgxs/src/makefiles/pgxs.mk" ;;
			--includedir | --pkgincludedir) echo "\$root/usr/include/postgresql" ;;
			--includedir-server) echo "\$root/usr/include/postgresql/$major/server" ;;
			*) echo "\$root/usr/share/postgresql/$major" ;;
		esac
	END
	chmod a+x "$3/pg_config"
}

# fit_headers MAJOR ROOT: changes what another Debian's compiler and C library
# have produced, so that it works with the tools of this machine
fit_headers() {
	local major=$1 root=$2 makefile flag
	makefile=$root/usr/lib/postgresql/$major/lib/pgxs/src/Makefile.global
	for flag in $(unknown_flags "$makefile"); do
		sed -i "/^CFLAGS = /s/ $flag\\( \\|\$\\)/\\1/" "$makefile" || return
	done
	sed -i 's/^CC = [^ ]*gcc$/CC = gcc/' "$makefile" || return
	# functions that a newer C library has: PostgreSQL declares them for others
	sed -i 's/^#define HAVE_DECL_STRLC\(AT\|PY\) 1/#define HAVE_DECL_STRLC\1 0/' \
		"$root/usr/include/postgresql/$major/server/pg_config.h"
}

# make_headers MAJOR SUITE WORK TARGET: into WORK/root, to be moved to TARGET
make_headers() {
	own_apt deb "$2" "$3" &&
		unpack_packages "$3" "postgresql-server-dev-$1" \
			"postgresql-client-$1" &&
		fit_headers "$1" "$3/root" &&
		write_pg_config "$1" "$4" "$3/root"
}

# find_headers MAJOR: sets FOUND to a pg_config with headers of that version, or
# to nothing
find_headers() {
	local major=$1 cache suite
	cache=$(made_cache) || exit $NO_RESULT
	suite=$(suite_of "$major")
	for FOUND in "$PG_CONFIG" "/usr/lib/postgresql/$major/bin/pg_config" \
		"$cache/server-$major/usr/lib/postgresql/$major/bin/pg_config"; do
		! of_version "$major" "$FOUND" || return
	done
	FOUND=
	if [ -n "$suite" ] && have apt-get && have dpkg-deb &&
		fetched "headers-$major" make_headers "$major" "$suite"; then
		FOUND=$cache/headers-$major/pg_config
	fi
}

# find_versions: sets TASKQ_VERSIONS to lines "MAJOR PG_CONFIG"; a version that
# is not available has no program
find_versions() {
	local major FOUND
	TASKQ_VERSIONS=
	for major in ${TESTS:-$VERSIONS}; do
		find_headers "$major"
		TASKQ_VERSIONS+="$major $FOUND"$'\n'
	done
	export TASKQ_VERSIONS
}

# --- the rest is done by inner

# compiles MAJOR PG_CONFIG KIND: true if this build succeeds. A little
# optimization is what the warnings need.
compiles() {
	local dir=$TASKQ_TMP/build-$1-$3
	mkdir -p "$dir"
	make -s -j2 -C "$dir" -f "$TASKQ_SRC/Makefile" PG_CONFIG="$2" \
		with_llvm=no COPT='-O1 -g0' "DEBUG=$([ "$3" != test ] || echo 1)" all \
		>"$dir.log" 2>&1
}

run_versions() {
	local major program kind passed=0 failed=0 skipped=0
	while read -r major program; do
		if [ -z "$major" ]; then
			continue
		elif [ -z "$program" ]; then
			say "skipped - PostgreSQL $major: its headers are not here, nor" \
				"are they in Debian's archive"
			skipped=$((skipped + 1))
			continue
		fi
		for kind in release test; do
			if compiles "$major" "$program" $kind; then
				say "ok - $("$program" --version), $kind build"
				passed=$((passed + 1))
			else
				cat "$TASKQ_TMP/build-$major-$kind.log"
				say "not ok - $("$program" --version), $kind build"
				failed=$((failed + 1))
			fi
		done
	done <<<"${TASKQ_VERSIONS:-}"
	count versions $passed $failed $skipped
}

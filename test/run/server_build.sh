# server_build.sh: a PostgreSQL built from Debian's source package, for the
# variants of the suite that the packaged server cannot serve: one with
# assertions, and one that also keeps nothing in its caches.
#
# It is built once for each version and set of options, and kept where
# archive.sh says.
#
# Debian's patches are left out: they are about directories and packaging.  The
# tarball holds what bison and flex make, so neither is needed.

# variant_flags VARIANT: sets CONFIGURE, the compiler's flags, and USUAL, the
# families if none is named. All have assertions, and with them checks of freed
# memory and of writes behind its end.
variant_flags() {
	MODULES='amcheck auto_explain pg_stat_statements test_decoding' # of contrib
	CONFIGURE="--enable-cassert --enable-debug --enable-tap-tests
		--without-readline --without-zlib"
	CFLAGS='-O1 -g -fno-omit-frame-pointer'
	CPPFLAGS=
	USUAL='regress isolation'
	case $1 in
		cassert) USUAL=$FAMILIES ;;
		# cache entries are released immediately, so that a pointer kept too
		# long is noticed; planning is some fifty times slower
		caches) CPPFLAGS='-DRELCACHE_FORCE_RELEASE -DCATCACHE_FORCE_RELEASE' ;;
		*) die "there is no variant $1 of the server" ;;
	esac
	# shellcheck disable=SC2086  # one line of it
	CONFIGURE=$(say $CONFIGURE)
}

# compile_server MAJOR WORK TARGET: into WORK, to be moved to TARGET
compile_server() {
	local work=$2 target=$3 module
	fetch_source "$1" "$work" || return
	mkdir "$work/source" "$work/build" || return
	tar -x -C "$work/source" --strip-components=1 --no-same-owner \
		-f "$work"/download/*.orig.tar.* || return
	cd "$work/build" || return
	# shellcheck disable=SC2086  # lists of words
	"$work/source/configure" --prefix="$target" $CONFIGURE \
		CFLAGS="$CFLAGS" CPPFLAGS="$CPPFLAGS" &&
		nice make -s -j2 &&
		make -s install DESTDIR="$work/root" &&
		for module in $MODULES; do
			make -s -C "contrib/$module" install DESTDIR="$work/root" || return
		done
}

# built_server VARIANT: builds it if it does not exist; sets PG_CONFIG to its
# program. Concurrent calls wait for each other.
built_server() {
	local cache version target work log
	variant_flags "$1"
	version=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9.]*\).*/\1/')
	cache=$(made_cache) || exit $NO_RESULT
	target=$cache/$1-$version-$(say "$CONFIGURE $CFLAGS $CPPFLAGS $MODULES" |
		cksum | cut -d ' ' -f 1)
	log=$cache/$1.log
	exec 8>"$cache/lock"
	flock 8
	if [ ! -x "$target/bin/pg_config" ]; then
		say "building PostgreSQL $version ($1), once; the log is $log"
		work=$(mktemp -d "$cache/build.XXXXXX") || exit $NO_RESULT
		WORK=$work
		(umask 022 &&
			compile_server "${version%%.*}" "$work" "$target") \
			>"$log" 2>&1 </dev/null 8>&- || {
			tail -n 20 "$log"
			die "the server could not be built, see $log"
		}
		chmod -R a+rX "$work/root"
		mv "$work/root$target" "$target" || exit $NO_RESULT
		rm -rf -- "$work"
		WORK=
	fi
	exec 8>&-
	copy_extension pgtap "$("$target/bin/pg_config" --sharedir)" ||
		die 'there is no pgtap'
	(as_user test -x "$target/bin/postgres" -a -r "$target/bin/postgres") ||
		die "user $TASKQ_USER cannot read $target; TASKQ_CACHE names another"
	PG_CONFIG=$target/bin/pg_config
	say "$("$target/bin/postgres" --version), $1"
}

# copy_extension NAME SHARE: from the packaged server, one that is only SQL
copy_extension() {
	local from to=$2/extension
	from=$("$PG_CONFIG" --sharedir)/extension
	[ -f "$to/$1.control" ] || cp "$from/$1".control "$from/$1"--*.sql "$to/"
}

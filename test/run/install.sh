# install.sh: the builds, and the private installations that have them.
#
# A server finds its directories relative to its own program. So a copy of bin,
# with links to everything in lib and share, is an installation of its own, into
# which any user may install an extension.

# config_dir OPTION: a directory that pg_config names.  What is copied and
# linked below depends on it: an empty answer must not become "/".
config_dir() {
	local dir
	dir=$("$PG_CONFIG" "$1") && [ -n "$dir" ] && [ "$dir" != / ] &&
		[ -d "$dir" ] || die "$PG_CONFIG $1 names no directory"
	say "$dir"
}

# link_entries FROM TO: makes a directory with links to the entries of another
# directory
link_entries() {
	mkdir -p "$2"
	find "$1" -mindepth 1 -maxdepth 1 ! -name 'taskq*' \
		-exec ln -sf -t "$2" {} +
}

# make_installation ROOT: the server's directories again, below ROOT
make_installation() {
	local root=$1 bin lib share
	bin=$(config_dir --bindir) && lib=$(config_dir --pkglibdir) &&
		share=$(config_dir --sharedir) || exit $NO_RESULT
	[ -x "$bin/postgres" ] || die "there is no server in $bin"
	mkdir -p "$root$bin"
	cp -RL "$bin/." "$root$bin"
	link_entries "$lib" "$root$lib"
	link_entries "$share" "$root$share"
	rm -f "$root$share/extension" "$root$lib/bitcode"
	link_entries "$share/extension" "$root$share/extension"
	mkdir -p "$root$lib/bitcode"
}

# make_build KIND SOURCES ...: the make of one build, which is a release build
# unless its kind is test.  All names are relative, so that objects can be
# taken to other directories; ccache would change those of the server's headers.
make_build() {
	local kind=$1 sources=$2
	shift 2
	CCACHE_BASEDIR='' make -s -C "$TASKQ_TMP/build-$kind" \
		-f "../${sources##*/}/Makefile" with_llvm=no \
		"DEBUG=$([ "$kind" != test ] || echo 1)" "$@"
}

# begin_with KIND ROOT: a new installation; for a mutant, that of TASKQ_BASE and
# its objects. What depends on all sources is left out.
begin_with() {
	if [ -n "${TASKQ_BASE:-}" ]; then
		cp -R --preserve=timestamps "$TASKQ_BASE/build-$1" "$TASKQ_TMP" || return
		rm -rf "$TASKQ_TMP/build-$1"/{taskq.so,sql}
	fi
	if [ -e "${TASKQ_BASE:-}/$1/made" ]; then
		cp -R "$TASKQ_BASE/$1" "$TASKQ_TMP" && rm "$2/made"
	else
		mkdir -p "$TASKQ_TMP/build-$1" && make_installation "$2"
	fi
}

# use_build KIND [SOURCES]: sets BIN, the programs' directory of an installation
# that has this build of the extension; creates it if it does not exist.
use_build() {
	local kind=$1 sources=${2:-$TASKQ_SRC} root=$TASKQ_TMP/$1
	BIN=$(config_dir --bindir) || exit $NO_RESULT
	BIN=$root$BIN
	[ ! -e "$root/made" ] || return 0
	if ! {
		begin_with "$kind" "$root" &&
			make_build "$kind" "$sources" "-j$(nproc)" all \
				PG_CONFIG="$PG_CONFIG" &&
			make_build "$kind" "$sources" install PG_CONFIG="$BIN/pg_config"
	} >"$TASKQ_TMP/build-$kind.log" 2>&1; then
		cat "$TASKQ_TMP/build-$kind.log"
		die "the $kind build failed"
	fi
	: >"$root/made"
}

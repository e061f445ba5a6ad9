# install.sh: the builds, and the private installations that have them.
#
# A server finds its directories relative to its own program.  So a copy of
# bin, with links to all that is in lib and share, is an installation of its
# own, into which everybody may install an extension.

# config_dir OPTION: a directory that pg_config names.  What is copied and
# linked below depends on it: an empty answer must not become "/".
config_dir() {
	local dir
	dir=$("$PG_CONFIG" "$1") && [ -n "$dir" ] && [ "$dir" != / ] &&
		[ -d "$dir" ] || die "$PG_CONFIG $1 names no directory"
	say "$dir"
}

# link_entries FROM TO: a directory with links to what is in another one
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
# unless its kind is test
make_build() {
	local kind=$1 sources=$2
	shift 2
	make -s -C "$TASKQ_TMP/build-$kind" -f "$sources/Makefile" with_llvm=no \
		"DEBUG=$([ "$kind" != test ] || echo 1)" "$@"
}

# begin_with KIND ROOT: a new installation; or that of TASKQ_BASE, with what was
# compiled there of sources that hardly differ.  What is made of all of them is
# left out.
begin_with() {
	if [ -z "${TASKQ_BASE:-}" ]; then
		make_installation "$2"
	else
		cp -R --preserve=timestamps "$TASKQ_BASE/build-$1" "$TASKQ_BASE/$1" \
			"$TASKQ_TMP" &&
			rm -f "$2/made" "$TASKQ_TMP/build-$1"/{taskq.so,sql/*.sql}
	fi
}

# use_build KIND [SOURCES]: sets BIN, the programs' directory of an
# installation that has this build of the extension; makes it when it is not
# there yet.
use_build() {
	local kind=$1 sources=${2:-$TASKQ_SRC} root=$TASKQ_TMP/$1
	BIN=$(config_dir --bindir) || exit $NO_RESULT
	BIN=$root$BIN
	[ ! -e "$root/made" ] || return 0
	mkdir -p "$TASKQ_TMP/build-$kind"
	if ! {
		begin_with "$kind" "$root" &&
			make_build "$kind" "$sources" -j2 all PG_CONFIG="$PG_CONFIG" &&
			make_build "$kind" "$sources" install PG_CONFIG="$BIN/pg_config"
	} >"$TASKQ_TMP/build-$kind.log" 2>&1; then
		cat "$TASKQ_TMP/build-$kind.log"
		die "the $kind build failed"
	fi
	: >"$root/made"
}

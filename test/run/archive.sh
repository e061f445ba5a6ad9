# archive.sh: packages of Debian's archive, sources and others, by apt with a
# configuration of its own: nothing of the machine's changes, and nothing is
# installed. apt verifies the signatures.
#
# The result is kept, since it takes minutes:
#
#   TASKQ_CACHE   where (default: /var/cache/taskq for root, since user postgres
#                 must be able to read it, else below XDG_CACHE_HOME or ~/.cache)

cache_dir() {
	if [ -n "${TASKQ_CACHE:-}" ]; then
		say "$TASKQ_CACHE"
	elif is_root; then
		say /var/cache/taskq
	else
		say "${XDG_CACHE_HOME:-$HOME/.cache}/taskq"
	fi
}

# made_cache: cache_dir, created if it does not exist
made_cache() {
	local cache
	cache=$(cache_dir)
	mkdir -p "$cache" && cd -- "$cache" && pwd -P ||
		die "could not make $cache; TASKQ_CACHE names another"
}

# suite_of MAJOR: the Debian release that has this PostgreSQL; prints nothing
# for a version that no release has
suite_of() {
	case $1 in
		15) say bookworm ;;
		17) say trixie ;;
		18) say forky ;;
	esac
}

# write_sources TYPE SUITE FILES: lists of sources, of type deb or deb-src; the
# machine's own when SUITE is empty, else that suite of the same mirror
write_sources() {
	local type=$1 suite=$2 parts=$3 file mirror
	if [ -n "$suite" ]; then
		mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* \
			2>/dev/null | grep -v '^ *#' |
			grep -oE 'https?://[^ ]+/debian/?( |$)' | head -n 1)
		mirror=${mirror:-http://deb.debian.org/debian}
		say "$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
			"$mirror $suite main" >"$parts/debian.list"
		return
	fi
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
		/etc/apt/sources.list.d/*.sources; do
		[ -f "$file" ] && grep -q 'debian' "$file" || continue
		sed -e "s/^Types:.*/Types: $type/" -e "s/^deb /$type /" "$file" \
			>"$parts/${file##*/}"
	done
}

# own_apt TYPE SUITE DIRECTORY: sets APT_OPTIONS, which make apt work in
# DIRECTORY, and fetches the lists of packages
own_apt() {
	local dir=$3
	mkdir -p "$dir/apt/parts" "$dir/apt/state/lists/partial" \
		"$dir/apt/cache/archives/partial" "$dir/download"
	write_sources "$1" "$2" "$dir/apt/parts"
	APT_OPTIONS=(-q
		-o Dir::Etc::SourceList=/dev/null
		-o "Dir::Etc::SourceParts=$dir/apt/parts"
		-o "Dir::State=$dir/apt/state"
		-o Dir::State::status=/var/lib/dpkg/status
		-o "Dir::Cache=$dir/apt/cache"
		-o Acquire::Languages=none
		-o APT::Sandbox::User=root)
	apt-get "${APT_OPTIONS[@]}" update
}

# fetch_source MAJOR DIRECTORY: the tarball of the server's source package
fetch_source() {
	local major=$1 dir=$2 version
	own_apt deb-src '' "$dir" || return
	cd "$dir/download" || return
	# that of the package first, then the others, the newest first: an archive
	# does not always have the source of each package
	for version in \
		$(dpkg-query -W -f '${Version}' "postgresql-$major" 2>/dev/null) \
		$(apt-cache "${APT_OPTIONS[@]}" showsrc --only-source \
			"postgresql-$major" | sed -n 's/^Version: *//p' | sort -Vru); do
		apt-get "${APT_OPTIONS[@]}" source --download-only \
			"postgresql-$major=$version" && return
	done
	return 1
}

# unpack_packages DIRECTORY PACKAGE...: with APT_OPTIONS, into DIRECTORY/root
unpack_packages() {
	local dir=$1 file
	shift
	cd "$dir/download" || return
	apt-get "${APT_OPTIONS[@]}" download "$@" || return
	mkdir "$dir/root" || return
	for file in ./*.deb; do
		dpkg-deb -x "$file" "$dir/root" || return
	done
}

# unpack_package PACKAGE WORK TARGET: into WORK/root
unpack_package() {
	own_apt deb '' "$2" && unpack_packages "$2" "$1"
}

# unpacked PACKAGE...: packages whose installation would start a service; the
# tests find each as TASKQ_UNPACKED/package-PACKAGE
unpacked() {
	local package
	TASKQ_UNPACKED=$(made_cache) || exit $NO_RESULT
	export TASKQ_UNPACKED
	for package; do
		have apt-get && have dpkg-deb &&
			fetched "package-$package" unpack_package "$package" ||
			say "tests are skipped for want of the Debian package $package"
	done
}

# fetched NAME COMMAND ARGUMENT...: ensures that the cache has NAME, a
# directory. If it has not, COMMAND creates it: it gets two more arguments, a
# directory to work in, where it creates "root", and the place to which that is
# moved. Concurrent calls wait for each other.
fetched() {
	local name=$1 cache
	shift
	cache=$(made_cache) || return
	exec 8>"$cache/lock"
	flock 8
	if [ ! -d "$cache/$name" ]; then
		say "making $cache/$name, once"
		WORK=$(mktemp -d "$cache/build.XXXXXX") || return
		(umask 022 && "$@" "$WORK" "$cache/$name") \
			>"$cache/$name.log" 2>&1 </dev/null 8>&- &&
			chmod -R a+rX "$WORK/root" && mv "$WORK/root" "$cache/$name"
		rm -rf -- "$WORK"
		WORK=
	fi
	exec 8>&-
	[ -d "$cache/$name" ]
}

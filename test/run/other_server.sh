# other_server.sh: the PostgreSQL of a later Debian, as its packages have it,
# without installing them.
#
# They are unpacked below one directory, together with the libraries that they
# need, including the C library. Their programs start only with their own
# loader: so a script that calls it replaces each program. A script is found,
# copied and asked for its path like the program, so the rest of the harness
# treats the server like any other.

# library_packages PACKAGE...: of everything that apt would install, those that
# hold libraries; those of interpreters and compilers are not used here
library_packages() {
	apt-get "${APT_OPTIONS[@]}" -s --no-install-recommends install "$@" |
		awk '$1 == "Inst" {print $2}' | grep -E '^(lib|zlib1g)' |
		grep -vE '^lib(llvm|z3|perl|python|clang|.*-perl$)|-(dev|doc|common)$'
}

is_elf() { [ "$(head -c 4 "$1" | tr -d '\177')" = ELF ]; }

# wrap_program FILE KEPT LOADER LIBRARIES: the script that replaces FILE, which
# is moved to the directory KEPT
wrap_program() {
	local file=$1 kept=$2
	is_elf "$file" || return 0
	mv "$file" "$kept/" || return
	cat >"$file" <<-END
		#!/bin/sh
		exec '$3' --argv0 "\$0" --library-path '$4' '${kept/#"$root"/"$target"}/${file##*/}' "\$@"
	END
	chmod a+x "$file"
}

# make_server MAJOR SUITE WORK TARGET: into WORK/root, to be moved to TARGET
make_server() {
	local major=$1 root=$3/root target=$4 lib loader libraries file
	own_apt deb "$2" "$3" || return
	# nothing is installed there, so that every library is needed
	: >"$3/apt/status"
	APT_OPTIONS+=(-o "Dir::State::status=$3/apt/status")
	# shellcheck disable=SC2046  # a list of words
	unpack_packages "$3" "postgresql-$major" "postgresql-client-$major" \
		"postgresql-server-dev-$major" \
		$(library_packages "postgresql-$major" "postgresql-client-$major") ||
		return
	fit_headers "$major" "$root" || return
	lib=$root/usr/lib/postgresql/$major
	# it needs a library of 100 MB, and does no harm if that is missing
	rm -f "$lib/lib/llvmjit.so"
	loader=$(find "$root" -name 'ld-linux*.so.*' | head -n 1)
	libraries=$(find "$root" -name libc.so.6 | head -n 1)
	[ -n "$loader" ] && [ -n "$libraries" ] || return
	mkdir "$lib/real" || return
	for file in "$lib"/bin/* "$lib"/lib/pgxs/src/test/*/*; do
		[ ! -f "$file" ] ||
			wrap_program "$file" "$lib/real" "${loader/#"$root"/"$target"}" \
				"$(dirname "${libraries/#"$root"/"$target"}")" || return
	done
}

# other_server MAJOR: fetches it if it does not exist; sets PG_CONFIG to its
# program
other_server() {
	local major=$1 suite cache
	suite=$(suite_of "$major")
	[ -n "$suite" ] || die "no Debian has PostgreSQL $major"
	have apt-get && have dpkg-deb || die "that needs Debian's apt and dpkg"
	cache=$(made_cache) || exit $NO_RESULT
	fetched "server-$major" make_server "$major" "$suite" ||
		die "the packages of PostgreSQL $major could not be had, see $cache/server-$major.log"
	copy_extension pgtap "$cache/server-$major/usr/share/postgresql/$major" ||
		die 'there is no pgtap'
	PG_CONFIG=$cache/server-$major/usr/lib/postgresql/$major/bin/pg_config
	say "$("$PG_CONFIG" --version), of Debian's $suite"
}

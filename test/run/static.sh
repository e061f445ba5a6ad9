# static.sh: the C code as other readers see it: clang, and cppcheck. What
# cppcheck must know, and which findings are accepted and why, is in
# test/static.

# static_case NAME OUTPUT: passes if the output is empty
static_case() {
	if [ -s "$2" ]; then
		cat "$2"
		say "not ok - $1"
		failed=$((failed + 1))
	else
		say "ok - $1"
		passed=$((passed + 1))
	fi
}

# clang_warns HEADERS [FLAG...]: clang's warnings, among them one that later
# servers turn on and our gcc does not have.  The server's headers have an
# attribute of gcc's, which clang ignores.
clang_warns() {
	clang -fsyntax-only -Wall -Wextra -Wmissing-prototypes \
		-Wmissing-variable-declarations -Wno-unused-parameter \
		-Wno-sign-compare -Wno-missing-field-initializers -Wno-ignored-attributes \
		-fno-strict-aliasing -fwrapv -D_GNU_SOURCE -I"$TASKQ_SRC/src" \
		-isystem "$1" "${@:2}" "${files[@]}" >"$dir/clang" 2>&1
	static_case "clang${2:+ $2}" "$dir/clang"
}

# run_cppcheck HEADERS: cppcheck does not read the server's headers, and gets
# the version as a definition; the debug points are read, too
run_cppcheck() {
	cppcheck --quiet -j2 --std=c11 --inline-suppr \
		--enable=warning,performance,portability \
		--library="$TASKQ_SRC/test/static/postgres.cfg" \
		--suppressions-list="$TASKQ_SRC/test/static/cppcheck" \
		--template='{file}:{line}: {severity}: {message} [{id}]' \
		-I"$TASKQ_SRC/src" -D_GNU_SOURCE -DTASKQ_DEBUG=1 \
		"$(sed -n 's/^#define \(PG_VERSION_NUM\) /-D\1=/p' \
			"$1/pg_config.h")" "${files[@]}" >"$dir/cppcheck" 2>&1
	static_case cppcheck "$dir/cppcheck"
}

run_static() {
	local dir=$TASKQ_TMP/static headers files passed=0 failed=0
	mkdir -p "$dir"
	headers=$(config_dir --includedir-server) || exit $NO_RESULT
	mapfile -t files < <(find "$TASKQ_SRC/src" -name '*.c' | sort)
	clang_warns "$headers"
	clang_warns "$headers" -DTASKQ_DEBUG
	run_cppcheck "$headers"
	count static $passed $failed 0
}

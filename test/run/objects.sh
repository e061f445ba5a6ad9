# objects.sh: objects of earlier runs, so that a run compiles only what has
# changed since.
#
# A run works on a copy of the sources. For each kind of build and each server
# there is an archive of objects, of what the compiler wrote about their
# dependencies, and of the checksums of the sources: below .build in the
# checkout, or where archive.sh says if the checkout cannot be written. A run
# takes the objects whose sources have the same content, and at its end stores
# new ones there. It replaces the archive as a whole, so that concurrent runs
# need not know of each other.

# objects_file KIND: the archive for this kind of build and the server of PG_CONFIG
objects_file() {
	local dir=$TASKQ_TOP/.build option
	if ! mkdir -p "$dir" 2>/dev/null || [ ! -w "$dir" ]; then
		dir=$(cache_dir)/build-$(say "$TASKQ_TOP" | cksum | cut -d ' ' -f 1)
		mkdir -p "$dir" 2>/dev/null || return
	elif is_root; then
		chown --reference="$TASKQ_TOP" "$dir"
	fi
	say "$dir/$1-$(for option in version pgxs includedir-server; do
		"$PG_CONFIG" --$option
	done | cksum | cut -d ' ' -f 1).tar"
}

# The checksums of what objects are made of
sum_sources() {
	(cd "$TASKQ_TMP/src" && find Makefile src -type f -exec sha1sum {} + | sort)
}

# remove_changed DIRECTORY: the objects of sources that have changed
remove_changed() {
	local changed file
	changed=$(sort "$1/sums" "$TASKQ_TMP/sums" | uniq -u | cut -c 43- | sort -u)
	[ -n "$changed" ] || return 0
	# all of them
	! grep -qx Makefile <<<"$changed" || changed=
	find "$1" -name '*.d' -exec grep -lF -e "$changed" {} + |
		while read -r file; do
			rm "$file" "${file%.d}.o"
		done
}

# take_objects: for builds that are made in TASKQ_TMP
take_objects() {
	local kind dir file
	sum_sources >"$TASKQ_TMP/sums"
	for kind in release test; do
		dir=$TASKQ_TMP/build-$kind
		mkdir "$dir"
		file=$(objects_file $kind) && [ -f "$file" ] || continue
		if tar -x -f "$file" -C "$dir" --no-same-owner 2>/dev/null; then
			remove_changed "$dir"
		else
			rm -rf "$dir"
		fi
	done
}

# save_objects: of each build that was completed and has new ones
save_objects() {
	local kind dir file
	for kind in release test; do
		dir=$TASKQ_TMP/build-$kind
		[ -e "$TASKQ_TMP/$kind/made" ] &&
			[ -n "$(find "$dir" -name '*.o' -newer "$TASKQ_TMP/sums" -print -quit)" ] &&
			file=$(objects_file $kind) || continue
		cp "$TASKQ_TMP/sums" "$dir"
		if ! { tar -c -f "$file.$$" -C "$dir" --exclude='*.so' --exclude=sql . &&
			mv "$file.$$" "$file"; } 2>/dev/null; then
			rm -f "$file.$$"
		fi
	done
}

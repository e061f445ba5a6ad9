# includes: a folder of src is a layer; a file includes its own layer and
# lower ones. Only src/taskq.c knows all.
. test/run/tap.sh

layers="base shared core ordered flow process"

height() {
	local n=0 layer
	for layer in $layers; do
		n=$((n + 1))
		[ "$layer" != "$1" ] || echo $n
	done
}

upward=$(
	for file in $(c_files); do
		layer=${file#src/}
		layer=${layer%%/*}
		own=$(height "$layer")
		[ "$file" != src/taskq.c ] || continue
		sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' "$file" |
			while read -r header; do
				[ -f "src/$header" ] || [ -f "$(dirname "$file")/$header" ] ||
					continue
				[ -f "src/$header" ] ||
					{ echo "$file: \"$header\" has no folder"; continue; }
				other=$(height "${header%%/*}")
				[ -n "$other" ] && [ "$other" -le "${own:-0}" ] ||
					echo "$file includes $header"
			done
	done
)
none 'no file includes a higher layer' "$upward"

none 'every folder of src is a layer' "$(
	for dir in src/*/; do
		dir=$(basename "$dir")
		[ -n "$(height "$dir")" ] || echo "src/$dir"
	done)"

none 'every C file includes base/compat.h first' "$(
	for file in $(c_files | grep '\.c$'); do
		grep -m 1 '^#include' "$file" | grep -q '"base/compat.h"' || echo "$file"
	done)"

done_testing

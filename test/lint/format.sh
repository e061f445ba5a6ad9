# format: C as clang-format lays it out; "make format" fixes it.
. test/run/tap.sh

mapfile -t files < <(c_files)
found=$(clang-format --dry-run -Werror "${files[@]}" 2>&1)
for file in "${files[@]}"; do
	none "$file" "$(grep -F -A 2 "$file:" <<<"$found" | head -n 5)"
done
none 'there is no other finding' "$(grep -vE '^src/[^:]+:[0-9]+:[0-9]+: error:|^[[:space:]]' <<<"$found" | grep .)"

done_testing

# format: C as clang-format lays it out; "make format" mends it.
. test/run/tap.sh

for file in $(c_files); do
	none "$file" "$(clang-format --dry-run -Werror "$file" 2>&1 | head -n 5)"
done

done_testing

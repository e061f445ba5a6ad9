# results: the pages that say how many aims of the benchmark are met agree with
# bench/RESULTS.md. bench/report writes all of them.
. test/run/tap.sh

# aims FILE: "MET of ALL", as its sentence says; the lines may break anywhere
aims() {
	tr '\n' ' ' <"$1" | grep -oE 'meets [0-9]+ of its [0-9]+ aims' |
		sed -E 's/meets ([0-9]+) of its ([0-9]+) aims/\1 of \2/'
}

counted=$(awk -F '|' '
	/^## / {inside = /^## Aims$/}
	inside && $5 ~ /met|missed/ {all++}
	inside && $5 ~ /^ met $/ {met++}
	END {print met + 0 " of " all + 0}' bench/RESULTS.md)
for page in README.md doc/performance.md; do
	said=$(aims "$page")
	none "$page says how many aims are met" "$(
		[ "$said" = "$counted" ] || echo "it says \"$said\"; bench/RESULTS.md has $counted")"
done
none 'bench/RESULTS.md counts its own rows' "$(
	met=${counted% of *} all=${counted#* of }
	grep -qx "$met met, $((all - met)) missed, 0 not measured\." bench/RESULTS.md ||
		grep -E '^[0-9]+ met, ' bench/RESULTS.md)"

done_testing

# words: the project speaks of itself, not of how, where or by whom it is made.
. test/run/tap.sh

# written with brackets, so that this file does not find itself
words='[l]anguage model|[c]hatgpt|[c]laude|[c]opilot|\b[L]LM\b|\b[s]ub-?agent|\b[h]elper session|\b[d]eveloper session|\b[n]ext session|\b[t][h]is session'"'"'s (work|brief)|\b[c]losing note|\b[t][h]e brief\b|(see|fixes|closes|issue) #[0-9]+'
paths='(^|[^a-zA-Z0-9_.$~{}/-])/(wor[k]|hom[e]|roo[t]|User[s])/[a-z]'
hosts='([r]egistry|mirror|proxy|artifactory|nexus)\.[a-z0-9.-]+\.[a-z]{2,}'

find_text() {
	text_files | grep -vxF test/lint/words.sh | tr '\n' '\0' |
		xargs -0 grep -nEi "$1" | cut -c1-160
}

none 'no words about the making' "$(find_text "$words")"
none 'no paths of a machine' "$(find_text "$paths")"
none 'no hosts of registries' "$(find_text "$hosts")"

done_testing

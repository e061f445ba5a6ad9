# layers: how src is laid out.  A folder is a layer; a file uses its own layer
# and lower ones; names say where a thing lies; files and functions stay
# small.  layers.pl has the list of layers and the limits, and finds what
# breaks a rule; each rule is a case here.
. test/run/tap.sh

# RULE WORDS
rules='
folder        every folder of src is a layer
path          headers of the project are named with their folder
compat        every C file includes base/compat.h first
include       no file includes a header of a higher layer
call          no file calls a function of a higher layer
include_ring  files of a folder do not include each other in a cycle
call_ring     files of a folder do not call each other in a cycle
twice         no two files have the same name
header        what is extern is declared in the header of its own file
name          what is extern begins with tq_ and the name of its file or family
static        what is extern is used in another file
unused        every header is included by a file that is not its own
nothing       every file uses something of each header that it includes
many_files    no folder has more than 50 files
long_file     no C file has more than 750 lines
long_function no function has more than 95 lines
median        the median function has no more than 15 lines
struct        no struct of more than 10 fields is shared by more than 2 files of flow/run
lines         src has no more than 88,000 lines
'

findings=$(perl test/lint/layers.pl 2>&1)

# places RULE FINDINGS
places() { printf '%s\n' "$2" | sed -n "s/^$1	//p"; }

while read -r rule words; do
	[ -z "$rule" ] || none "$words" "$(places "$rule" "$findings")"
done <<<"$rules"
none 'there is no other finding' "$(
	while IFS=$'\t' read -r rule place; do
		[ -z "$rule" ] || grep -q "^$rule " <<<"$rules" || echo "$rule $place"
	done <<<"$findings")"

# --- the lint can fail: a small source tree, with one fault at a time
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT

# put FILE: its text comes from standard input
put() {
	mkdir -p "$planted/$(dirname "$1")"
	cat >"$planted/$1"
}

# put_c FILE HEADER...: includes, then standard input
put_c() {
	local file=$1 header
	shift
	{
		for header in base/compat.h "$@"; do
			printf '#include "%s"\n' "$header"
		done
		cat
	} | put "src/$file"
}

# function_of NAME CALLED: an extern that calls another
function_of() { printf 'void\n%s(void)\n{\n\t%s();\n}\n' "$1" "$2"; }

# lines N: as many
lines() { seq -f '	x = %.0f;' "$1"; }

# The tree without a fault: low <- high <- taskq, and beside high its family
sound_tree() {
	rm -rf "$planted/src"
	put src/base/compat.h <<<'#include "postgres.h"'
	put src/base/low.h <<<'typedef enum {TQ_LOW, TQ_HIGH} TqLow;
extern void tq_low(void);'
	function_of tq_low elog | put_c base/low.c base/low.h
	put src/xact/high.h <<<'#include "base/low.h"
extern TqLow tq_high_look(void);'
	function_of tq_high_look tq_low | put_c xact/high.c base/low.h xact/high.h
	put src/xact/high_text.h <<<'extern void tq_high_say(void);'
	function_of tq_high_say tq_high_look |
		put_c xact/high_text.c xact/high.h xact/high_text.h
	function_of _PG_init tq_high_say | put_c taskq.c xact/high_text.h
}

# noticed RULE: the check reports this rule, and no other, for the planted tree
noticed() {
	local said rule=$1
	said=$(perl test/lint/layers.pl "$planted" 2>&1 | cut -f1 | sort -u | tr '\n' ' ')
	none "noticed: $(sed -n "s/^$rule  *//p" <<<"$rules")" \
		"$([ "$said" = "$rule " ] || echo "said: $said")"
	sound_tree
}

sound_tree
none 'passed: a tree without a fault' "$(perl test/lint/layers.pl "$planted" 2>&1)"

put_c other/any.c <<<'static int x;'
noticed folder

sed -i 's,"base/low.h","low.h",' "$planted/src/base/low.c"
noticed path

sed -i 1d "$planted/src/base/low.c"
noticed compat

put_c base/low.c base/low.h xact/high.h <<<'static TqHigh x;
void
tq_low(void)
{
}'
sed -i '1i typedef int TqHigh;' "$planted/src/xact/high.h"
noticed include

function_of tq_low tq_high_look | put_c base/low.c base/low.h
noticed call

put src/xact/high.h <<<'#include "base/low.h"
#include "xact/high_text.h"
extern TqLow tq_high_look(TqText x);'
put src/xact/high_text.h <<<'typedef int TqText;
extern void tq_high_say(void);'
noticed include_ring

# the prototype is its own, so that only the call makes the ring
{
	echo 'extern void tq_high_say(void);'
	function_of tq_high_look 'tq_low(), tq_high_say'
} | put_c xact/high.c xact/high.h
noticed call_ring

put_c base/high.c <<<'static int x;'
noticed twice

sed -i '/tq_high_say/d' "$planted/src/xact/high_text.h"
echo 'typedef int TqText;' >>"$planted/src/xact/high_text.h"
echo 'extern void tq_high_say(void);' >>"$planted/src/xact/high.h"
sed -i 's/tq_high_say();/TqText x = tq_high_say();/' "$planted/src/taskq.c"
noticed header

sed -i 's/tq_low/tq_lowly/' "$planted"/src/*/*.[ch]
noticed name

{
	echo 'int tq_low_count = 0;'
	function_of tq_low elog
} | put_c base/low.c base/low.h
echo 'extern int tq_low_count;' >>"$planted/src/base/low.h"
noticed static

put src/base/own.h <<<'typedef int TqOwn;'
put_c base/own.c base/own.h <<<'static TqOwn x;'
noticed unused

put_c taskq.c base/low.h xact/high_text.h <<<'static int x = tq_high_say();'
noticed nothing

for i in $(seq 50); do
	put_c "xact/file$i.c" <<<'static int x;'
done
noticed many_files

lines 751 | put_c base/long.c
noticed long_file

{ printf 'static void\nlong_one(void)\n{\n'; lines 94; echo '}'; } |
	put_c base/long.c
noticed long_function

for i in $(seq 4); do
	printf 'static void\nf%d(void)\n{\n' "$i"
	lines 14
	echo '}'
done | put_c base/long.c
noticed median

{ echo 'typedef struct TqWide'; echo '{'; lines 11 | sed 's/.*/	int f;/'; echo '} TqWide;'; } |
	put src/flow/run/wide.h
for i in 1 2 3; do
	put_c "flow/run/file$i.c" flow/run/wide.h <<<'static TqWide x;'
done
noticed struct

for i in $(seq 118); do
	lines 749 | put_c "$([ $((i % 3)) = 0 ] && echo xact || { [ $((i % 3)) = 1 ] && echo base || echo shared; })/file$i.c"
done
noticed lines

done_testing

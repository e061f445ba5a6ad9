# shellcheck shell=bash disable=SC2034
# flow.sh: workflows, for the parts that measure them.
#
# The system "flow" is taskq with workflows: its databases have the queue bench
# with default retention and history, and these templates
#
#   linear, diamond, mixed  from examples/workflows: 4, 4 and 7 steps
#   three                   three steps, one after the other
#   wide                    one step, FLOW_WIDE side by side, one behind them
#   batch                   the same with a batch of FLOW_WIDE members
#   huge                    like wide, with FLOW_HUGE steps in total
#   waiting                 a chain of four that begins with a signal
#
# A worker returns the "config" of a step as its result.
#
#   FLOW_HAS  the template that flow_fill starts; "mix": linear, diamond and
#             mixed in turn

flow_is=template
FLOW_OPTIONS='{"history": "transitions"}'
FLOW_HAS=linear

flow_make() {
	local TASKQ_OPTIONS=$FLOW_OPTIONS name
	taskq_make "$1" || return
	for name in linear diamond mixed; do
		flow_define "$1" "$(sed 's/"queue": "examples"/"queue": "bench"/' \
			"$here/../examples/workflows/$name.json")" || return
	done
	flow_define "$1" '{"name": "three", "version": "1", "queue": "bench", "steps": [{"name": "a"},
		{"name": "b", "depends_on": ["a"]}, {"name": "c", "depends_on": ["b"]}]}' || return
	flow_define "$1" "$(flow_fan wide "$FLOW_WIDE")" || return
	flow_define "$1" "$(flow_fan huge $((FLOW_HUGE - 2)))" || return
	flow_define "$1" '{"name": "batch", "version": "1", "queue": "bench", "steps": [
		{"name": "split", "type": "batch", "config": {"total": '"$FLOW_WIDE"', "size": 1, "max_workers": '"$FLOW_WIDE"'}},
		{"name": "part", "type": "batch_worker", "depends_on": ["split"]},
		{"name": "join", "type": "deferred", "depends_on": ["part"]}]}' || return
	flow_define "$1" '{"name": "waiting", "version": "1", "queue": "bench", "steps": [
		{"name": "asked", "type": "signal", "signal": {"name": "answer"}}, {"name": "b", "depends_on": ["asked"]},
		{"name": "c", "depends_on": ["b"]}, {"name": "d", "depends_on": ["c"]}]}'
}

# flow_define DB DEFINITION: the definition may be longer than an argument
flow_define() {
	printf '%s' "$2" >"$work/definition.json"
	sql "$1" -o /dev/null -v file="$work/definition.json" <<-'SQL'
		\set definition `cat :'file'`
		SELECT taskq_define_workflow(:'definition')
	SQL
}

# flow_fan NAME N: a definition with N steps side by side, between two others
flow_fan() {
	perl -e '
		my ($name, $n) = @ARGV;
		printf q({"name": "%s", "version": "1", "queue": "bench", "steps": [{"name": "first"}, %s,
			{"name": "last", "depends_on": [%s]}]}), $name,
			join(",", map { qq({"name": "s$_", "depends_on": ["first"]}) } 1 .. $n),
			join(",", map { qq("s$_") } 1 .. $n);' "$1" "$2"
}

# flow_start TEMPLATE: prints the call that starts an instance
flow_start() {
	local input='{}'
	case $1 in
		linear) input='{"text": "to be or not to be"}' ;;
		diamond) input='{"numbers": [3, 1, 2]}' ;;
		mixed) input='{"items": [{"price": 1200, "count": 2, "grams": 300}]}' ;;
	esac
	say "taskq_start_workflow('$1', '$input')"
}

# flow_fill DB N: N instances, a thousand in a transaction, by as many sessions
# as there are processors
flow_fill() {
	local n sessions
	sessions=$(nproc)
	sql "$1" -c "CREATE OR REPLACE PROCEDURE fill(n integer) LANGUAGE plpgsql AS \$\$
		BEGIN
			FOR i IN 1 .. n LOOP
				PERFORM $(flow_call);
				IF i % 1000 = 0 THEN
					COMMIT;
				END IF;
			END LOOP;
		END \$\$"
	for n in $(seq "$sessions"); do
		printf 'CALL fill(%d);\n' $(($2 / sessions + (n <= $2 % sessions)))
	done | xargs -d '\n' -P "$sessions" -I '{}' psql -X -q -v ON_ERROR_STOP=1 -d "$1" -c '{}'
}

# flow_call: prints the call that flow_fill makes
flow_call() {
	[ "$FLOW_HAS" = mix ] || {
		flow_start "$FLOW_HAS"
		return
	}
	say "CASE i % 3 WHEN 0 THEN $(flow_start linear) WHEN 1 THEN $(flow_start diamond) ELSE $(flow_start mixed) END"
}

flow_kind() { say "$FLOW_HAS"; }
flow_copied() { taskq_copied "$1"; }

flow_script() {
	case $1 in
		start) say "SELECT $(flow_start linear);" ;;
		*) taskq_script "$1" ;;
	esac
}

flow_drop() {
	drop_templates flow
	sql postgres -c 'DROP DATABASE IF EXISTS b_flow WITH (FORCE)' 2>/dev/null
}

# flow_ask MODE SAMPLES WORD...: runs a mode of the client and writes its lines
# to $work/wake.out
flow_ask() {
	local mode=$1 samples=$2
	shift 2
	"$work/client" "$mode" 'dbname=b_flow user=bench' "$@" >"$work/wake.out" || die "$mode failed"
	[ "$(grep -c . "$work/wake.out")" = "$samples" ] || die "$mode: samples are missing"
}

# flow_note_commit ROUND: measures a commit on this machine
flow_note_commit() {
	sql b_flow -c 'CREATE TABLE IF NOT EXISTS note (at timestamptz)' -c 'GRANT INSERT ON note TO bench' 2>/dev/null
	flow_ask commit "$FLOW_SAMPLES" "$FLOW_SAMPLES" 'INSERT INTO note VALUES (now())'
	wake_values 'a commit' commit "$1"
	commits="$commits $(sort -g "$work/wake.out" | percentile_line | cut -d ' ' -f 1)"
}

# flow_aim WHAT LEFT MS: an aim in milliseconds if a commit takes at most 0.3
# ms, else in commits
flow_aim() {
	local median
	# shellcheck disable=SC2086  # a list of words
	median=$(printf '%s\n' $commits | sort -g | percentile_line | cut -d ' ' -f 1)
	if awk "BEGIN {exit !($median <= 0.3)}"; then
		aim "$1, ms" "$2" '<=' "$3"
	else
		aim "$1, in commits of $median ms" "$2" '<=' "$(awk "BEGIN {printf \"%.2f\", $3 / 0.3}")" 'a commit|commit|p50, ms'
	fi
}

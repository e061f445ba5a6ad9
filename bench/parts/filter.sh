# shellcheck shell=bash
# filter: pages of a hundred tasks by filter, and failures by kind, among many tasks

part_filter() {
	local page round
	[ -n "$(chosen taskq)" ] || return 0
	fresh taskq 0
	must 'loading tasks' sql b_taskq -v live=$((FILTER_TASKS / 10)) \
		-v finished=$((FILTER_TASKS - FILTER_TASKS / 10)) -f "$here/../test/scale/fill.sql"
	filter_scripts
	for ((round = 1; round <= ROUNDS; round++)); do
		for page in "${filter_pages[@]}"; do
			filter_round "${page%%|*}" "${page##*|}" "$round"
		done
	done
	for page in "${filter_pages[@]}"; do
		[[ $page != *'|aim|'* ]] || aim "a page of 100 tasks by ${page%%|*}" \
			"page among $FILTER_TASKS|${page%%|*}|ms" '<=' 50
	done
}

# filter_round NAME ARGUMENTS ROUND: milliseconds of a page
filter_round() {
	local ms
	ms=$(sql b_taskq -v "call=$2" -f "$work/filter.sql" | tail -n 1) ||
		die "$1 failed"
	value "page among $FILTER_TASKS" "$1" "$3" 'ms' "$ms"
	say "   page among $FILTER_TASKS: $1 $ms ms"
}

# The slower one of both directions counts; the tasks are as in
# test/scale/fill.sql: five days, each task finished after an hour.
filter_scripts() {
	local hour="'now'::timestamptz - interval '70 h'"
	local rare='{"worker": "worker 3", "state": ["dead", "running"]}'
	filter_pages=(
		"state|aim|filter => '{\"state\": [\"dead\", \"cancelled\"]}'"
		"state and queue|aim|'q57', filter => '{\"state\": [\"running\", \"suspended\"]}'"
		"worker|aim|filter => '{\"worker\": \"worker 3\"}'"
		"worker and state|aim|filter => '$rare'"
		"key|aim|'q1', filter => '{\"key\": \"key 2\"}'"
		"reference|aim|filter => '{\"reference\": \"reference 331\"}'"
		"correlation id|aim|filter => '{\"correlation_id\": \"correlation 3\"}'"
		"time of creation|aim|filter => jsonb_build_object('created_from', $hour, 'created_to', $hour + '1 h')"
		"time of finishing|aim|filter => jsonb_build_object('finished_from', $hour, 'finished_to', $hour + '1 h')"
		"time of finishing, a day|aim|filter => jsonb_build_object('finished_from', $hour, 'finished_to', $hour + '1 d')"
		"time of the claim|aim|filter => jsonb_build_object('claimed_from', $hour, 'claimed_to', $hour + '1 h')"
		"no time|aim|filter => jsonb_build_object('created_from', $hour + '10 d')"
		"error text, to the bound|aim|filter => '{\"error\": \"none\"}'"
		"fingerprint, to the bound|aim|filter => '{\"fingerprint\": \"0123456789abcdef\"}'"
		"payload, to the bound|aim|filter => '{\"payload\": \"\$.n < 0\"}'"
		"time of being due, to the bound||filter => jsonb_build_object('run_from', $hour, 'run_to', $hour + '1 h')"
	)
	cat >"$work/filter.sql" <<-'SQL'
		SELECT count(*) FROM taskq_list(:call);
		SELECT clock_timestamp() AS at \gset
		SELECT count(*) FROM taskq_list(:call);
		SELECT clock_timestamp() AS between \gset
		SELECT count(*) FROM taskq_list(:call, newest_first => true);
		SELECT round((extract(epoch FROM greatest(:'between'::timestamptz - :'at', clock_timestamp() - :'between')) * 1000)::numeric, 2);
	SQL
}

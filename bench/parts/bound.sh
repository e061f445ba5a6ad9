# shellcheck shell=bash
# bound: from the end of a bound worker's connection until another has its task

part_bound() {
	[ -n "$(chosen taskq)" ] || return 0
	fresh taskq 0
	"$work/client" bound 'dbname=b_taskq user=bench' "$BOUND_SAMPLES" >"$work/wake.out" ||
		die 'bound failed'
	[ "$(grep -c . "$work/wake.out")" = "$BOUND_SAMPLES" ] || die 'bound: samples are missing'
	wake_values 'bound worker closes its connection' taskq
	aim 'a bound worker closes its connection: its task is with another, p99, ms' \
		'bound worker closes its connection|taskq|p99, ms' '<=' 100
}

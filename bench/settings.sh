# shellcheck shell=bash disable=SC2034
# settings.sh: the settings that the environment may give, and their defaults.
#
# The selection "quick" has the most important scenarios, with short rounds.

PART=${PART:-quick}
if [ "$PART" = quick ]; then
	ROUNDS=${ROUNDS:-3}
	SECONDS_EACH=${SECONDS_EACH:-4}
	CLIENTS=${CLIENTS:-16}
	SYSTEMS=${SYSTEMS:-taskq raw limit}
	HELD_SECONDS=${HELD_SECONDS:-60}
	HELD_KINDS=${HELD_KINDS:-fifo}
	HELD_STEP=${HELD_STEP:-10}
	HELD_FREE=${HELD_FREE:-20}
	COST_TASKS=${COST_TASKS:-5000}
	WAITERS=${WAITERS:-1}
	SAMPLES=${SAMPLES:-300}
	PART='submit work held wake cost'
fi
[ "$PART" != all ] ||
	PART='submit work backlog running held fillfactor wake waiting idle lanes limit beat
		cost disk empty lists filter bound keys sql flow flow_rate flow_live flow_cost'
ROUNDS=${ROUNDS:-5}
SECONDS_EACH=${SECONDS_EACH:-5}
CLIENTS=${CLIENTS:-1 4 16 64}
LOADED=${LOADED:-200000}
# pgmq is measured, too, if SQL_OF_PGMQ names its SQL file
SYSTEMS=${SYSTEMS:-taskq raw limit copy pgq graphile pgboss${SQL_OF_PGMQ:+ pgmq}}

# transactions per client instead of SECONDS_EACH: only to try out a part
TRANSACTIONS=${TRANSACTIONS:-}
# off: only to try out a part
FSYNC=${FSYNC:-on}
# a quarter of the machine's memory
SHARED_BUFFERS=${SHARED_BUFFERS:-$(awk '/^MemTotal:/ {printf "%d", $2 / 4096}' /proc/meminfo)MB}

BACKLOGS=${BACKLOGS:-1000 100000 5000000}
BACKLOG_CLIENTS=${BACKLOG_CLIENTS:-16}
RUNNING=${RUNNING:-50000}
RUNNING_CLIENTS=${RUNNING_CLIENTS:-16}

# duration of fifo for taskq and raw, and of all others, in seconds
HELD_SECONDS=${HELD_SECONDS:-600}
HELD_OTHERS=${HELD_OTHERS:-180}
HELD_FREE=${HELD_FREE:-60}
HELD_STEP=${HELD_STEP:-20}
HELD_CLIENTS=${HELD_CLIENTS:-8}
HELD_LOADED=${HELD_LOADED:-1000}
HELD_KINDS=${HELD_KINDS:-fifo lifo retries peers}

FILLFACTORS=${FILLFACTORS:-50 60 70 80 90}
FILL_CLIENTS=${FILL_CLIENTS:-16 64}
FILL_HELD=${FILL_HELD:-120}

# about ten seconds of two executors
SQL_TASKS=${SQL_TASKS:-${TRANSACTIONS:-50000}}

WAITERS=${WAITERS:-1 1000}
SAMPLES=${SAMPLES:-1000}
POLL_MS=${POLL_MS:-100}
WORK_MS=${WORK_MS:-20}
WORKERS=${WORKERS:-16}
PRODUCERS=${PRODUCERS:-16}
IDLE_WAITERS=${IDLE_WAITERS:-1000}
IDLE_SECONDS=${IDLE_SECONDS:-60}
FILTER_TASKS=${FILTER_TASKS:-10000000}
BOUND_SAMPLES=${BOUND_SAMPLES:-100}
KEYS=${KEYS:-10000}
KEY_TASKS=${KEY_TASKS:-20}
KEY_CLIENTS=${KEY_CLIENTS:-16}
KEY_BEHIND=${KEY_BEHIND:-10000}
KEY_JUNCTION=${KEY_JUNCTION:-10000}

FLOW_SAMPLES=${FLOW_SAMPLES:-500}
FLOW_WIDE=${FLOW_WIDE:-1000}
FLOW_HUGE=${FLOW_HUGE:-10000}
FLOW_READY=${FLOW_READY:-5000}
FLOW_CLIENTS=${FLOW_CLIENTS:-16}
FLOW_LOADED=${FLOW_LOADED:-15000}
FLOW_LIVE=${FLOW_LIVE:-1000 1000000}
FLOW_STEPS=${FLOW_STEPS:-12000}
FLOW_COST=${FLOW_COST:-2500}

LANES=${LANES:-500}
LANE_TASKS=${LANE_TASKS:-20}
MATCHING=${MATCHING:-1000}
MATCHING_TASKS=${MATCHING_TASKS:-200}
LIMIT_CLIENTS=${LIMIT_CLIENTS:-1 16}
BEATING=${BEATING:-1000}
BEAT_WARM=${BEAT_WARM:-15}
BEAT_SECONDS=${BEAT_SECONDS:-15}
COST_TASKS=${COST_TASKS:-20000}
DISK_TASKS=${DISK_TASKS:-1000000}
EMPTY_CLIENTS=${EMPTY_CLIENTS:-1 16}
LIST_TASKS=${LIST_TASKS:-1000}

# a hundred bytes of JSON, and a hundred of them
PAYLOAD='{"x": "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"}'
PAYLOADS=$(perl -e '
	my $p = shift;
	$p =~ s/(["\\])/\\$1/g;
	print "{", join(",", map { qq("$p") } 1 .. 100), "}"' "$PAYLOAD")
# the expression of a thousand: text of that length does not fit into an argument
TEN_TIMES="(SELECT array_agg(p) FROM generate_series(1, 10), unnest(:payloads::jsonb[]) p)"

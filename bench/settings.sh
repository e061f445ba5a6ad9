# shellcheck shell=bash disable=SC2034
# settings.sh: what the environment may set, and what holds when it does not.
#
# The selection "quick" has the scenarios that decide, with short rounds.

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
	PART='submit work backlog running held wake waiting idle lanes limit beat
		cost disk empty lists bound keys'
ROUNDS=${ROUNDS:-5}
SECONDS_EACH=${SECONDS_EACH:-5}
CLIENTS=${CLIENTS:-1 4 16 64}
LOADED=${LOADED:-200000}
SYSTEMS=${SYSTEMS:-taskq raw limit copy pgq graphile pgboss}

# so many transactions per client in place of SECONDS_EACH: for trying only
TRANSACTIONS=${TRANSACTIONS:-}
# off: for trying only
FSYNC=${FSYNC:-on}
# a quarter of the machine's memory
SHARED_BUFFERS=${SHARED_BUFFERS:-$(awk '/^MemTotal:/ {printf "%d", $2 / 4096}' /proc/meminfo)MB}

BACKLOGS=${BACKLOGS:-1000 100000 5000000}
BACKLOG_CLIENTS=${BACKLOG_CLIENTS:-16}
RUNNING=${RUNNING:-50000}
RUNNING_CLIENTS=${RUNNING_CLIENTS:-16}

# the kind fifo, measured for taskq and raw; the others for HELD_OTHERS s
HELD_SECONDS=${HELD_SECONDS:-600}
HELD_OTHERS=${HELD_OTHERS:-180}
HELD_FREE=${HELD_FREE:-60}
HELD_STEP=${HELD_STEP:-20}
HELD_CLIENTS=${HELD_CLIENTS:-8}
HELD_LOADED=${HELD_LOADED:-1000}
HELD_KINDS=${HELD_KINDS:-fifo lifo retries peers}

WAITERS=${WAITERS:-1 1000}
SAMPLES=${SAMPLES:-1000}
POLL_MS=${POLL_MS:-100}
WORK_MS=${WORK_MS:-20}
WORKERS=${WORKERS:-16}
PRODUCERS=${PRODUCERS:-16}
IDLE_WAITERS=${IDLE_WAITERS:-1000}
IDLE_SECONDS=${IDLE_SECONDS:-60}
BOUND_SAMPLES=${BOUND_SAMPLES:-100}
KEYS=${KEYS:-10000}
KEY_TASKS=${KEY_TASKS:-20}
KEY_CLIENTS=${KEY_CLIENTS:-16}
KEY_BEHIND=${KEY_BEHIND:-10000}

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

/*
 * notify.c
 *		NOTIFY for queues with option notify.
 *
 * After their commit, producers raise the queue's flag in shared memory
 * (shared/notify_flag.c).  The background worker sends the NOTIFY in a
 * transaction of its own, at most one for each queue in NOTIFY_PAUSE.  So a
 * NOTIFY means that some task has become claimable since the last one, not how
 * many, and no commit of a producer waits for the lock that orders commits
 * with NOTIFY.
 *
 * A flag stays raised during the pause, so a session that raises it then need
 * not wake the worker.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "commands/async.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/debug.h"
#include "base/spi.h"
#include "maintenance/notify.h"
#include "shared/notify_flag.h"

/* Minimum time between two NOTIFYs of a queue. */
#define NOTIFY_PAUSE INT64CONST(50000)

/*
 * Minimum time between two turns that tasks of a queue with an executor cause:
 * its flag wakes the worker, whose turn finds an executor (sql_task/pool.c).
 */
#define EXECUTOR_PAUSE INT64CONST(2000)

/* A queue with the option set. */
typedef struct Channel
{
	int32       queue_id;
	bool        notifies; /* it has the option notify */
	int64       pause;    /* between two turns */
	bool        raised;   /* must be sent */
	bool        sent;     /* in the current transaction */
	TimestampTz last;     /* dispatch clock */
	char        name[NAMEDATALEN];
} Channel;

/* In the background worker, sorted by queue; kept until it exits. */
static Channel *channels = NULL;
static int      channel_count = 0;
static uint64   channels_generation = 0;

/* Every queue has a flag. */
static bool complete = false;

/*
 * A name that is too long for a channel is replaced by its hash.  The queue's
 * option overrides the one of queue '*'.
 */
static TqStmt stmt_channels = {
	"SELECT q.queue_id,"
	"       CASE WHEN octet_length('taskq_' || q.name) < 64"
	"            THEN 'taskq_' || q.name ELSE 'taskq_' || md5(q.name) END,"
	"       coalesce(q.options -> 'notify', a.options -> 'notify')"
	"       = 'true'::jsonb"
	"  FROM taskq.queue q LEFT JOIN taskq.queue a ON a.queue_id = 0"
	" WHERE q.queue_id <> 0"
	"   AND (coalesce(q.options -> 'notify', a.options -> 'notify')"
	"        = 'true'::jsonb"
	"        OR q.options ? 'executor' OR a.options ? 'executor')"
	" ORDER BY q.queue_id"};

static bool     is_known(void);
static void     read_channels(void);
static Channel *find(Channel *among, int count, int32 queue_id);

/* Called once, when the worker has started. */
void
tq_notify_start(void)
{
	channels_generation = 0;
	complete = false;
}

/* Is there a NOTIFY to send now, or must the channels be read again? */
bool
tq_notify_is_due(void)
{
	TimestampTz now = tq_clock_dispatch();

	if (!is_known())
		return true;
	if (tq_notify_flag_lower_all())
	{
		for (int i = 0; i < channel_count; i++)
			channels[i].raised = true;
	}
	for (int i = 0; i < channel_count; i++)
	{
		Channel *channel = &channels[i];

		if (channel->last + channel->pause <= now &&
			(channel->raised || tq_notify_flag_raised(channel->queue_id)))
			return true;
	}
	return false;
}

/* A duty: send the NOTIFYs that are due, in the current transaction. */
int64
tq_notify_send(int limit)
{
	TimestampTz now = tq_clock_dispatch();

	if (!is_known())
		read_channels();
	for (int i = 0; i < channel_count; i++)
	{
		Channel *channel = &channels[i];

		if (channel->last + channel->pause > now)
			continue;
		channel->raised |= tq_notify_flag_lower(channel->queue_id);
		if (!channel->raised)
			continue;
		if (channel->notifies)
			Async_Notify(channel->name, NULL);
		channel->sent = true;
		TQ_FAULT_POINT("notify_send");
	}
	return 0; /* nothing to log */
}

/*
 * The transaction has ended.  Returns when there is more to send (dispatch
 * clock), including what was not committed.
 */
TimestampTz
tq_notify_sent(bool committed)
{
	TimestampTz now = tq_clock_dispatch();
	TimestampTz next = DT_NOEND;

	for (int i = 0; i < channel_count; i++)
	{
		Channel *channel = &channels[i];

		if (channel->sent)
		{
			channel->last = now;
			channel->raised = !committed;
			channel->sent = false;
		}
		if (channel->raised || tq_notify_flag_raised(channel->queue_id))
			next = Min(next, channel->last + channel->pause);
	}
	return next;
}

/* Are the channels and the positions of their flags up to date? */
static bool
is_known(void)
{
	return channels_generation == tq_catalog_queue_generation() &&
		   (!complete || tq_notify_flag_is_complete());
}

static void
read_channels(void)
{
	Channel *before = channels;
	int      before_count = channel_count;
	Channel *found;
	int32   *queue_ids;
	uint64   rows;
	TqSpi    spi;
	uint64   generation = tq_catalog_queue_generation();

	PushActiveSnapshot(GetTransactionSnapshot());
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_channels, NULL, NULL, 0);
	found =
		MemoryContextAllocZero(TopMemoryContext, sizeof(Channel) * (rows + 1));
	queue_ids = palloc(sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		int32    queue_id = tq_spi_int4(i, 1, 0);
		Channel *known = find(before, before_count, queue_id);

		if (known != NULL)
			found[i] = *known;
		found[i].queue_id = queue_ids[i] = queue_id;
		found[i].notifies = tq_spi_bool(i, 3);
		found[i].pause = found[i].notifies ? NOTIFY_PAUSE : EXECUTOR_PAUSE;
		strlcpy(found[i].name, tq_spi_text(&spi, i, 2), NAMEDATALEN);
	}
	complete = tq_notify_flag_add(queue_ids, (int) rows);
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	channels = found;
	channel_count = (int) rows;
	channels_generation = generation;
	if (before != NULL)
		pfree(before);
}

/* A Channel begins with its sort key, the number of the queue. */
static Channel *
find(Channel *among, int count, int32 queue_id)
{
	if (count == 0)
		return NULL;
	return bsearch(&queue_id, among, count, sizeof(Channel), tq_order_int32);
}

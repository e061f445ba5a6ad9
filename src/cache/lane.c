/*
 * lane.c
 *		The lanes of a queue: their numbers, new ones, those that tags match.
 *
 * A lane is a set of tags in use in a queue.  Its number is a hash, so
 * producers compute it without coordination.  A producer that does not know
 * the lane writes its row; two producers may write the same row.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/memutils.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "cache/lane.h"
#include "shared/running.h"
#include "shared/worker_directory.h"
#include "xact/xact.h"

static TqStmt stmt_add_lane = {
	"INSERT INTO taskq.lane (lane_id, queue_id, tags) VALUES ($1, $2, $3)",
	{INT8OID, INT4OID, TEXTARRAYOID}};

static TqStmt stmt_has_lane = {
	"SELECT FROM taskq.lane WHERE lane_id = $1 AND queue_id = $2",
	{INT8OID, INT4OID}};

static TqStmt stmt_live_lanes = {
	"SELECT count(*)"
	"  FROM (SELECT DISTINCT lane_id FROM taskq.lane WHERE queue_id = $1) l"
	" WHERE EXISTS (SELECT FROM taskq.task t WHERE t.lane_id = l.lane_id)",
	{INT4OID}};

static void check_lanes(const TqQueue *queue);
static void add_lane(const TqQueue *queue, int64 lane_id, const TqTags *tags);
static bool is_match_of(const TqMatch *match, const TqTags *tags);
static TqMatch *make_match(const TqQueue *queue, const TqTags *tags);

/* The number of the lane of a set of tags in a queue. */
int64
tq_lane_id(int32 queue_id, const TqTags *tags)
{
	uint64 hash = hash_bytes_uint32_extended((uint32) queue_id, 0);

	for (int i = 0; i < tags->count; i++)
		hash = hash_bytes_extended((const unsigned char *) tags->tags[i],
								   (int) strlen(tags->tags[i]) + 1, hash);
	return (int64) hash;
}

/*
 * The lane of a set of tags in a queue; a new lane is announced.
 */
int64
tq_lane_of(TqQueue *queue, const TqTags *tags)
{
	int64 lane_id = tq_lane_id(queue->queue_id, tags);

	if (bsearch(&lane_id, queue->lanes, queue->lane_count, sizeof(TqLane),
				tq_order_int64) != NULL)
		return lane_id;
	if (queue->lane_count >= tq_guc_max_lanes)
		check_lanes(queue);
	add_lane(queue, lane_id, tags);
	return lane_id;
}

/*
 * Returns the lane for a finished task that becomes live again; the lane may
 * have been removed in the meantime.  The task is never refused, and the
 * cached queue is unchanged.
 */
int64
tq_lane_again(TqQueue *queue, const TqTags *tags)
{
	int64 lane_id = tq_lane_id(queue->queue_id, tags);
	Datum args[2] = {Int64GetDatum(lane_id), Int32GetDatum(queue->queue_id)};

	/* prevents the lane's removal from here on */
	LockRelationOid(tq_catalog()->queue_change, RowExclusiveLock);
	if (!tq_spi_exists(&stmt_has_lane, args))
		add_lane(queue, lane_id, tags);
	return lane_id;
}

/*
 * Raise TQ009 if the queue has too many sets of tags.  Sets without a live
 * task do not count: the background worker is asked to remove them
 * (maintenance/forget_lane.c).  Until then the same number of further sets is
 * allowed.
 */
static void
check_lanes(const TqQueue *queue)
{
	Datum arg = Int32GetDatum(queue->queue_id);
	int64 live = tq_spi_find_id(&stmt_live_lanes, &arg);

	if (live >= tq_guc_max_lanes || queue->lane_count / 2 >= tq_guc_max_lanes)
		tq_error_too_many_tags(Max(live, queue->lane_count / 2) + 1,
							   tq_guc_max_lanes);
	tq_running_ask_duty(TQ_ASK_LANES);
	tq_worker_directory_wake();
}

static void
add_lane(const TqQueue *queue, int64 lane_id, const TqTags *tags)
{
	Datum args[3];

	args[0] = Int64GetDatum(lane_id);
	args[1] = Int32GetDatum(queue->queue_id);
	args[2] = tags->count > 0
				  ? tq_arg_tags_datum(tags)
				  : PointerGetDatum(construct_empty_array(TEXTOID));
	tq_spi_execute(&stmt_add_lane, args, NULL, SPI_OK_INSERT);
	tq_catalog_announce_queue();
	tq_xact_note(TQ_NOTE_WAKE_MADE, 0);
}

/*
 * The lanes of a queue that match the tags; NULL matches all.  A session
 * mostly claims with the same tags, so the result is cached.
 */
const TqMatch *
tq_lane_match(const TqQueue *queue, const TqTags *tags)
{
	TqMatch **kept = &((TqQueue *) queue)->match;
	TqMatch  *old = *kept;

	if (old != NULL)
	{
		if (is_match_of(old, tags))
			return old;
		*kept = NULL;
		for (int i = 0; i < old->tags.count; i++)
			pfree(old->tags.tags[i]);
		pfree(old);
	}
	*kept = make_match(queue, tags);
	return *kept;
}

/*
 * Does a task of a lane that matches the tags match them itself?  Sets of tags
 * with equal hashes share one lane.
 */
bool
tq_lane_fits(const TqTask *task, const TqTags *tags)
{
	TqTags own;

	if (task->isnull[TQ_COL_TAGS] || tags == NULL)
		return true;
	return tq_arg_tags_read(task->value[TQ_COL_TAGS], &own) &&
		   tq_arg_tags_subset(&own, tags);
}

static bool
is_match_of(const TqMatch *match, const TqTags *tags)
{
	if (tags == NULL || match->all)
		return tags == NULL && match->all;
	if (tags->count != match->tags.count)
		return false;
	for (int i = 0; i < tags->count; i++)
	{
		if (strcmp(tags->tags[i], match->tags.tags[i]) != 0)
			return false;
	}
	return true;
}

/* In the memory of the queue; one chunk, except for the words. */
static TqMatch *
make_match(const TqQueue *queue, const TqTags *tags)
{
	MemoryContext context = GetMemoryChunkContext((void *) queue);
	int           words = tags == NULL ? 0 : tags->count;
	TqMatch      *match = MemoryContextAllocZero(
			 context, sizeof(TqMatch) + sizeof(int64) * queue->lane_count +
						  sizeof(char *) * words);

	match->all = tags == NULL;
	match->lanes = (int64 *) (match + 1);
	match->tags.tags = (char **) (match->lanes + queue->lane_count);
	match->tags.count = words;
	for (int i = 0; i < words; i++)
		match->tags.tags[i] = MemoryContextStrdup(context, tags->tags[i]);
	for (int i = 0; i < queue->lane_count; i++)
	{
		const TqLane *lane = &queue->lanes[i];

		/* sets of tags with equal hashes share one lane */
		if ((tags == NULL || tq_arg_tags_subset(&lane->tags, tags)) &&
			(match->count == 0 ||
			 match->lanes[match->count - 1] != lane->lane_id))
			match->lanes[match->count++] = lane->lane_id;
	}
	return match;
}

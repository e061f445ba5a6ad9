/*
 * key_queue_scan.h
 *		Scans of key queues.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_QUEUE_SCAN_H
#define TQ_KEY_QUEUE_SCAN_H

#include "access/genam.h"

#include "engine/key.h"
#include "shared/key_floor.h"

/* An open task. */
typedef struct TqKeyQueueMember
{
	int64   task_id;
	TqState state;
} TqKeyQueueMember;

/* The result of a scan of the key queue. */
typedef struct TqKeyQueue
{
	TqCall           *call;
	TqQueue          *queue;
	TqKeyRule         rule;
	TqKey            *key;
	Relation          index;
	IndexScanDesc     scan;
	TupleTableSlot   *slot;
	int64             from;    /* start of the scan */
	int64             reached; /* the last task that was read */
	int64             upto;    /* end of the requested range */
	TqKeyQueueMember *open;
	int               count;
	int               room;
	int64            *blocked; /* the next ones, if there is room */
	int               blocked_count;
	int               blocked_room;
	int               places; /* room stored with the key */
	TqKeyFloorFound   head;   /* start of the scan */
	bool              head_noted;
} TqKeyQueue;

#define TQ_LINE_IS_OPEN(state)                                                \
	((state) == TQ_STATE_PENDING || (state) == TQ_STATE_RUNNING)

static inline bool
tq_line_is_before(const TqKeyQueue *line, int64 a, int64 b)
{
	return line->rule.lifo ? a > b : a < b;
}

/* only the key is locked; false if it has no queue */
extern bool tq_key_queue_lock(TqKeyQueue *line, TqCall *call, TqQueue *queue,
							  Datum key);

/* the current tasks are visible until the end */
extern bool tq_key_queue_begin(TqKeyQueue *line, TqCall *call, TqQueue *queue,
							   Datum key);
extern void tq_key_queue_see(TqKeyQueue *line);
extern void tq_key_queue_look_anew(TqKeyQueue *line);
extern void tq_key_queue_end(TqKeyQueue *line);

/* after tq_key_queue_begin */
extern void tq_key_queue_look(TqKeyQueue *line, int64 but, bool at_all);
extern void tq_key_queue_look_behind(TqKeyQueue *line, int64 task_id);
extern int  tq_key_queue_read(TqKeyQueue *line, TqKeyQueueMember **members);
extern bool tq_key_queue_is_held(TqKeyQueue *line, int64 but);

/* at any time */
extern bool tq_key_queue_is_noted(const TqKeyQueue *line, int64 task_id);
extern void tq_key_queue_lower_floor(TqKeyQueue *line, int64 task_id);

#endif /* TQ_KEY_QUEUE_SCAN_H */

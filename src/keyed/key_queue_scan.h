/*
 * key_queue_scan.h
 *		The line of a key, as it is seen.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_QUEUE_SCAN_H
#define TQ_KEY_QUEUE_SCAN_H

#include "access/genam.h"

#include "engine/key.h"
#include "shared/key_floor.h"

/* An open task. */
typedef struct TqLineMember
{
	int64   task_id;
	TqState state;
} TqLineMember;

/* What a look at the line has found. */
typedef struct TqLine
{
	TqCall         *call;
	TqQueue        *queue;
	TqKeyRule       rule;
	TqKey          *key;
	Relation        index;
	IndexScanDesc   scan;
	TupleTableSlot *slot;
	int64           from;    /* where the scan has begun */
	int64           reached; /* the last one that was read */
	int64           upto;    /* what has been asked for ends there */
	TqLineMember   *open;
	int             count;
	int             room;
	int64          *blocked; /* those that come next, if there is room */
	int             blocked_count;
	int             places; /* what the key told of its room */
	TqHeadFound     head;   /* where the look begins */
	bool            head_noted;
} TqLine;

#define TQ_LINE_IS_OPEN(state)                                                \
	((state) == TQ_STATE_PENDING || (state) == TQ_STATE_RUNNING)

static inline bool
tq_line_is_before(const TqLine *line, int64 a, int64 b)
{
	return line->rule.lifo ? a > b : a < b;
}

/* only the key is locked; false: it has no line */
extern bool tq_line_lock(TqLine *line, TqCall *call, TqQueue *queue,
						 Datum key);

/* what is locked can be seen until the end */
extern bool tq_line_begin(TqLine *line, TqCall *call, TqQueue *queue,
						  Datum key);
extern void tq_line_see(TqLine *line);
extern void tq_line_look_anew(TqLine *line);
extern void tq_line_end(TqLine *line);

/* in between */
extern void tq_line_look(TqLine *line, int64 but, bool at_all);
extern void tq_line_look_behind(TqLine *line, int64 task_id);
extern int  tq_line_read(TqLine *line, TqLineMember **members);
extern bool tq_line_is_held(TqLine *line, int64 but);

/* at any time */
extern bool tq_line_is_noted(const TqLine *line, int64 task_id);
extern void tq_line_lower_head(TqLine *line, int64 task_id);

#endif /* TQ_KEY_QUEUE_SCAN_H */

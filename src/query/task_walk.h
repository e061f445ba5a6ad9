/*
 * task_walk.h
 *		Walks through ranges of the indexes of tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_WALK_H
#define TQ_TASK_WALK_H

#include "access/skey.h"

#include "query/task_page.h"

/* One search for a page, and its current round. */
typedef struct TqSearch
{
	TqTaskPage         *find;
	const TqTaskFilter *filter;
	TqIdHeap            page;
	int64               first; /* ids of this round; walks may restrict it */
	int64               last;
	int64               limit;     /* rows of a walk in the order of ids */
	int64               crowd;     /* rows of any other walk */
	int64               until;     /* monotonic clock; 0: no bound */
	int64               examined;  /* rows, in the order of ids */
	int64               unordered; /* rows of other walks */
	int64               in_place;  /* of these, in the queues and states */
} TqSearch;

/* A range of an index. */
typedef struct TqRange
{
	TqTaskIndex which;
	ScanKeyData keys[5];
	int         nkeys;
	int         id_column; /* index column that follows equal ones; 0: none */
} TqRange;

extern void tq_task_walk_equals(TqRange *range, RegProcedure equal,
								Datum value);
extern bool tq_task_walk(TqSearch *search, int table, TqRange *range);
extern bool tq_task_walk_peek(TqSearch *search, int table, int64 *task_id);
extern void tq_task_walk_collect(TqSearch *search, int table, TqRange *range,
								 int id_column, TqIdHeap *candidates);
extern void tq_task_walk_narrow(TqSearch *search, int64 reached);
extern bool tq_task_walk_is_late(const TqSearch *search);

#endif /* TQ_TASK_WALK_H */

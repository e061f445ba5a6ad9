/*
 * id_heap.h
 *		The best few of many ids: a heap of bounded size.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ID_HEAP_H
#define TQ_ID_HEAP_H

#include "base/catalog.h"

/* Where a task was found: a leaf number, or TQ_FOUND_LIVE. */
typedef struct TqFound
{
	int64           task_id;
	int             table;
	ItemPointerData tid;
} TqFound;

#define TQ_FOUND_LIVE (TQ_LEAF_KEEP + 1)

#define TQ_FOUND_TABLES (TQ_FOUND_LIVE + 1)

/* The first max ids in one direction; rows[0] is the worst of them. */
typedef struct TqIdHeap
{
	TqFound *rows;
	int      count;
	int      room;
	int      max;
	bool     backward;
	bool     dropped; /* there were more */
} TqIdHeap;

extern void tq_id_heap_init(TqIdHeap *page, int max, bool backward);
extern bool tq_id_heap_wants(const TqIdHeap *page, int64 task_id);
extern void tq_id_heap_add(TqIdHeap *page, const TqFound *found);
extern void tq_id_heap_keep(TqIdHeap *page, int64 first, int64 last);
extern void tq_id_heap_sort(TqIdHeap *page);

#endif /* TQ_ID_HEAP_H */

/*
 * id_heap.h
 *		The best few of many ids: a heap of bounded size.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ID_HEAP_H
#define TQ_ID_HEAP_H

#include "base/catalog.h"


/* Where a task was found: a leaf's number, or TQ_FOUND_LIVE. */
typedef struct TqFound
{
	int64           task_id;
	int             table;
	ItemPointerData tid;
} TqFound;

#define TQ_FOUND_LIVE (TQ_LEAF_KEEP + 1)

#define TQ_FOUND_TABLES (TQ_FOUND_LIVE + 1)

/* The first max ids in one direction; the worst of them is rows[0]. */
typedef struct TqPage
{
	TqFound *rows;
	int      count;
	int      room;
	int      max;
	bool     backward;
	bool     dropped; /* there were more */
} TqPage;

extern void tq_page_init(TqPage *page, int max, bool backward);
extern bool tq_page_wants(const TqPage *page, int64 task_id);
extern void tq_page_add(TqPage *page, const TqFound *found);
extern void tq_page_sort(TqPage *page);

#endif /* TQ_ID_HEAP_H */

/*
 * page.h
 *		The best few of many ids: a heap of bounded size.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PAGE_H
#define TQ_PAGE_H

#include "core/find.h"

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

#endif /* TQ_PAGE_H */

/*
 * task_search.h
 *		Finds a page of tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_SEARCH_H
#define TQ_TASK_SEARCH_H

#include "query/task_page.h"

typedef struct TqTaskSearch
{
	int      max;          /* tasks of a page, given by the caller */
	int64    max_examined; /* rows, given by the caller */
	int64    until;        /* monotonic clock, given by the caller; 0: none */
	TqFound *found;        /* the page */
	int      count;
	int64    examined;
	bool     stopped;      /* there may be more tasks after this id: */
	int64    resume_after; /* if stopped */
} TqTaskSearch;

extern bool tq_task_search_prepare(TqTaskPage         *find,
								   const TqTaskFilter *filter);
extern void tq_task_search_run(TqTaskPage *find, const TqTaskFilter *filter,
							   TqTaskSearch *result);
extern int  tq_task_search_page(TqTaskPage *find, const TqTaskFilter *filter,
								int max, TqFound **found);

#endif /* TQ_TASK_SEARCH_H */

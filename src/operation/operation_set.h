/*
 * operation_set.h
 *		Which tasks an operation takes.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OPERATION_SET_H
#define TQ_OPERATION_SET_H

#include "operation/operation_row.h"
#include "query/task_page.h"

typedef enum TqMembership
{
	TQ_MEMBER_NO,
	TQ_MEMBER_YES,
	TQ_MEMBER_UNKNOWN /* its row does not tell */
} TqMembership;

/* Some tasks of the filter, in the order of their ids. */
typedef struct TqOperationPage
{
	TqTaskPage    *find;
	TqTaskFilter   filter;
	const TqFound *found;
	int            count;
	bool           kept;     /* found by an earlier batch */
	int64          examined; /* number of rows */
	int64          reached;  /* all up to this id have been examined */
	bool           last;     /* there are no more */
} TqOperationPage;

extern void tq_operation_set_check(const TqOperation *op);
extern void tq_operation_set_page_begin(const TqOperation *op, int64 until,
										TqOperationPage *page);
extern void tq_operation_set_page_end(TqOperationPage *page);
extern bool tq_operation_set_page_read(TqOperationPage *page, int n,
									   TqTask *task);
extern TqMembership tq_operation_set_judge(const TqOperation *op,
										   const TqTask      *task);
extern bool tq_operation_set_find(const TqTaskFilter *filter, int64 task_id,
								  TqTask *task);

#endif /* TQ_OPERATION_SET_H */

/*
 * change.h
 *		One atomic change of several tasks and documents.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_H
#define TQ_CHANGE_H

#include "change/change_set.h"
#include "query/task_info.h"

extern void tq_change_sort(TqChange *change);
extern void tq_change_check(TqChange *change, bool locked);
extern void tq_change_return(TqCall *call, TqInfo *info, int64 task_id,
							 ReturnSetInfo *result);

#endif /* TQ_CHANGE_H */

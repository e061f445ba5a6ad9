/*
 * not_due.h
 *		Numbers of tasks of each queue that are not due yet.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_NOT_DUE_H
#define TQ_NOT_DUE_H

#include "base/compat.h"

#include "datatype/timestamp.h"

typedef struct TqNotDue
{
	int32 queue_id;
	int64 count;
} TqNotDue;

extern TqNotDue *tq_not_due_count(TimestampTz now, int *count);

#endif /* TQ_NOT_DUE_H */

/*
 * finished_count.h
 *		Numbers of finished tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FINISHED_COUNT_H
#define TQ_FINISHED_COUNT_H

#include "base/compat.h"

#include "datatype/timestamp.h"

typedef struct TqFinished
{
	int32       queue_id;
	int64       done;
	int64       dead;
	TimestampTz oldest_dead; /* when it died; DT_NOEND: none is dead */
} TqFinished;

extern int64       tq_finished_count(int limit);
extern TqFinished *tq_finished_count_read(int *count, TimestampTz *as_of);
extern bool        tq_finished_count_settle(void);
extern void        tq_finished_count_cleaned(int leaf);

#endif /* TQ_FINISHED_COUNT_H */

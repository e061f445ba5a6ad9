/*
 * leaked_entry.h
 *		Entries of shared memory whose queue or worker no longer exists.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LEAKED_ENTRY_H
#define TQ_LEAKED_ENTRY_H

#include "base/compat.h"

typedef enum TqLeakedKind
{
	TQ_LEAKED_QUEUE_COUNTER,
	TQ_LEAKED_WORKER_COUNTER,
	TQ_LEAKED_QUEUE_METRICS
} TqLeakedKind;

typedef struct TqLeakedEntry
{
	TqLeakedKind kind;
	int32        id;
} TqLeakedEntry;

extern int  tq_leaked_entry_find(TqLeakedEntry **found);
extern void tq_leaked_entry_free(const TqLeakedEntry *entry);

#endif /* TQ_LEAKED_ENTRY_H */

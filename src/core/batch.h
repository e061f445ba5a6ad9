/*
 * batch.h
 *		Rows that one call inserts together, and their index entries.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BATCH_H
#define TQ_BATCH_H

#include "core/row.h"

extern MemoryContext tq_batch_context(TqTable *table);
extern void          tq_batch_add(TqTable *table, HeapTuple tuple);
extern void          tq_batch_flush(TqTable *table);
extern void          tq_batch_end(TqTable *table);

#endif /* TQ_BATCH_H */

/*
 * multi_insert.h
 *		Insertion of many rows by one call, with their index entries.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MULTI_INSERT_H
#define TQ_MULTI_INSERT_H

#include "store/table.h"

extern MemoryContext tq_multi_insert_context(TqTable *table);
extern void          tq_multi_insert_add(TqTable *table, HeapTuple tuple);
extern void          tq_multi_insert_flush(TqTable *table);
extern void          tq_multi_insert_end(TqTable *table);

#endif /* TQ_MULTI_INSERT_H */

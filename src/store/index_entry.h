/*
 * index_entry.h
 *		Index entries of inserted rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_INDEX_ENTRY_H
#define TQ_INDEX_ENTRY_H

#include "base/compat.h"

#include "store/table.h"

extern void tq_index_entry_init(void);
extern void tq_index_entry_insert(TqTable *table, TupleTableSlot **slots,
								  int count);
extern void tq_index_entry_update(TqTable *table, TupleTableSlot *slot,
								  TqIndexUpdate indexes);
extern void tq_index_entry_prepare(TqTable *table);
extern void tq_index_entry_end(TqTable *table);

#endif /* TQ_INDEX_ENTRY_H */

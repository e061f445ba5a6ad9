/*
 * table_open.h
 *		Opening a table for one call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TABLE_OPEN_H
#define TQ_TABLE_OPEN_H

#include "store/table.h"

extern void tq_table_begin(TqTable *table, Oid relid, int columns,
						   MemoryContext context);
extern void tq_table_end(TqTable *table);

#endif /* TQ_TABLE_OPEN_H */

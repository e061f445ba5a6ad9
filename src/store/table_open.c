/*
 * table_open.c
 *		Opening a table for one call.
 *
 * The lock, ROW EXCLUSIVE, is held until the transaction ends; slots, index
 * entries and rows to be inserted together end with the call.  They are
 * created when they are first needed, in table->context.  tq_table_end accepts
 * a table that was never opened: its relation is NULL.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"

#include "base/catalog.h"
#include "store/index_entry.h"
#include "store/multi_insert.h"
#include "store/pkey_lookup.h"
#include "store/table_open.h"

void
tq_table_begin(TqTable *table, Oid relid, int columns, MemoryContext context)
{
	table->context = context;
	table->rel = tq_catalog_open_table(relid, RowExclusiveLock);
	tq_catalog_require_columns(table->rel, columns);
}

/* Close the table; locks are held until the transaction ends. */
void
tq_table_end(TqTable *table)
{
	if (table->rel == NULL)
		return;
	tq_multi_insert_end(table);
	if (table->slot != NULL)
		ExecDropSingleTupleTableSlot(table->slot);
	if (table->writer != NULL)
		ExecDropSingleTupleTableSlot(table->writer);
	tq_pkey_lookup_end(table);
	tq_index_entry_end(table);
	table_close(table->rel, NoLock);
	memset(table, 0, sizeof(*table));
}

/*
 * multi_insert.c
 *		Insertion of many rows by one call, with their index entries.
 *
 * A call that inserts many rows (TqCall.many) forms them one by one, and
 * writes them by the hundred: the server puts as many as fit on a page under
 * one lock and one WAL record, and each index is processed once, in the order
 * of the rows, whose ids ascend.  store/row.c lists what the executor would
 * have done, and which code does it instead.
 *
 * Rows that are not written yet exist only in this memory, so nothing may
 * search for them: tq_call_end writes the rest before it does anything else,
 * and a call that reads rows it has added flushes first (store/row.c).  An
 * error loses these rows together with the transaction or savepoint; a
 * savepoint inside the call must not add rows to those from outside it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/debug.h"
#include "store/index_entry.h"
#include "store/multi_insert.h"

#define MAX_ROWS 128
#define MAX_BYTES (64 * 1024)

/* Allocated for the lifetime of the call. */
struct TqMultiInsert
{
	MemoryContext   context; /* for the rows, reset when they are written */
	TupleDesc       desc;    /* the table's; a copy needs no reference count */
	TupleTableSlot *slots[MAX_ROWS];
	int             slot_count; /* created */
	int             count;      /* with a row */
	Size            bytes;
};

static TqMultiInsert  *batch_of(TqTable *table);
static TupleTableSlot *next_slot(TqTable *table, TqMultiInsert *batch);

/* The memory context in which the next row must be formed. */
MemoryContext
tq_multi_insert_context(TqTable *table)
{
	return batch_of(table)->context;
}

/*
 * Add a row that was formed in that context, for insertion; takes ownership.
 */
void
tq_multi_insert_add(TqTable *table, HeapTuple tuple)
{
	TqMultiInsert  *batch = batch_of(table);
	TupleTableSlot *slot = next_slot(table, batch);

	ExecStoreHeapTuple(tuple, slot, true);
	batch->count++;
	batch->bytes += tuple->t_len;
	if (batch->count == MAX_ROWS || batch->bytes >= MAX_BYTES)
		tq_multi_insert_flush(table);
}

/* Write the rows that were added. */
void
tq_multi_insert_flush(TqTable *table)
{
	TqMultiInsert *batch = table->batch;
	MemoryContext  mine;

	if (batch == NULL || batch->count == 0)
		return;
	/* both the server's functions and index methods leak memory */
	mine = MemoryContextSwitchTo(batch->context);
	table_multi_insert(table->rel, batch->slots, batch->count,
					   GetCurrentCommandId(true), 0, NULL);
	TQ_FAULT_POINT("batch_between");
	tq_index_entry_insert(table, batch->slots, batch->count);
	MemoryContextSwitchTo(mine);
	for (int i = 0; i < batch->count; i++)
		ExecClearTuple(batch->slots[i]);
	batch->count = 0;
	batch->bytes = 0;
	MemoryContextReset(batch->context);
}

/* The table is no longer used by the call. */
void
tq_multi_insert_end(TqTable *table)
{
	TqMultiInsert *batch = table->batch;

	if (batch == NULL)
		return;
	tq_multi_insert_flush(table);
	for (int i = 0; i < batch->slot_count; i++)
		ExecDropSingleTupleTableSlot(batch->slots[i]);
	MemoryContextDelete(batch->context);
	table->batch = NULL;
}

static TqMultiInsert *
batch_of(TqTable *table)
{
	if (table->batch == NULL)
	{
		table->batch =
			MemoryContextAllocZero(table->context, sizeof(TqMultiInsert));
		table->batch->context = AllocSetContextCreate(
			table->context, "taskq batch", ALLOCSET_DEFAULT_SIZES);
	}
	return table->batch;
}

static TupleTableSlot *
next_slot(TqTable *table, TqMultiInsert *batch)
{
	if (batch->count == batch->slot_count)
	{
		MemoryContext mine = MemoryContextSwitchTo(table->context);

		if (batch->desc == NULL)
			batch->desc = CreateTupleDescCopy(RelationGetDescr(table->rel));
		batch->slots[batch->slot_count++] =
			MakeSingleTupleTableSlot(batch->desc, &TTSOpsHeapTuple);
		MemoryContextSwitchTo(mine);
	}
	return batch->slots[batch->count];
}

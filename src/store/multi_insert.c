/*
 * multi_insert.c
 *		Rows that one call inserts together, and their index entries.
 *
 * A call that inserts many rows (TqCall.many) forms them one by one, and has
 * them written by the hundred: the server puts as many as fit on a page
 * under one lock and one WAL record, and each index is gone through once, in
 * the order of the rows, whose ids rise.  store/row.c says what the executor
 * would have done, and who does it here.
 *
 * What is not written yet is nowhere but in this memory.  So nothing may look
 * for it: tq_call_end writes the rest, before anything else that it does, and
 * a call that looks for rows it has added flushes first (store/row.c).  An
 * error loses these rows and the transaction, or savepoint, together; a
 * savepoint inside the call must not add to what began outside it.
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

/* All of it lives as long as the call. */
struct TqMultiInsert
{
	MemoryContext   context; /* of the rows, reset when they are written */
	TupleDesc       desc;    /* the table's; a copy need not be counted */
	TupleTableSlot *slots[MAX_ROWS];
	int             slot_count; /* made */
	int             count;      /* with a row */
	Size            bytes;
};

static TqMultiInsert  *batch_of(TqTable *table);
static TupleTableSlot *next_slot(TqTable *table, TqMultiInsert *batch);

/* Where the next row has to be formed. */
MemoryContext
tq_multi_insert_context(TqTable *table)
{
	return batch_of(table)->context;
}

/* The row, formed there, is to be inserted; it is taken over. */
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

/* Write what was added. */
void
tq_multi_insert_flush(TqTable *table)
{
	TqMultiInsert *batch = table->batch;
	MemoryContext  mine;

	if (batch == NULL || batch->count == 0)
		return;
	/* both the server's functions and index methods leave things behind */
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

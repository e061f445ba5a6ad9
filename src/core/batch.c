/*
 * batch.c
 *		Rows that one call inserts together, and their index entries.
 *
 * A call that inserts many rows (TqCall.many) forms them one by one, and has
 * them written by the hundred: the server puts as many as fit on a page
 * under one lock and one WAL record, and each index is gone through once, in
 * the order of the rows, whose ids rise.  core/row.c says what the executor
 * would have done, and who does it here.
 *
 * What is not written yet is nowhere but in this memory.  So nothing may look
 * for it: tq_call_end writes the rest, before anything else that it does, and
 * a call that looks for rows it has added flushes first (core/row.c).  An
 * error loses these rows and the transaction, or savepoint, together; a
 * savepoint inside the call must not add to what began outside it.
 *
 * Most indexes of taskq.task and of the archive have an entry only for rows
 * in which a column is not null.  That is seen in the row's bitmap of nulls,
 * without evaluating the index's predicate.  Other predicates are evaluated.
 * An index that needs more than that (an expression, an exclusion, a check
 * that is deferred), which somebody has added, makes all of the table's
 * indexes the executor's.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/xact.h"
#include "nodes/primnodes.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/debug.h"
#include "core/batch.h"

#define MAX_ROWS 128
#define MAX_BYTES (64 * 1024)

/* An index that has entries for the rows. */
typedef struct Target
{
	Relation   rel;
	IndexInfo *info;
	AttrNumber column;    /* only rows in which it is not null; 0: all */
	ExprState *condition; /* any other predicate */
	bool       unique;
} Target;

/* All of it lives as long as the call. */
struct TqBatch
{
	MemoryContext   context; /* of the rows, reset when they are written */
	TupleDesc       desc;    /* the table's; a copy need not be counted */
	TupleTableSlot *slots[MAX_ROWS];
	int             slot_count; /* made */
	int             count;      /* with a row */
	Size            bytes;
	bool            examined; /* the indexes */
	bool            plain;    /* targets are all that there is to do */
	Target         *targets;
	int             target_count;
};

static TqBatch        *batch_of(TqTable *table);
static TupleTableSlot *next_slot(TqTable *table, TqBatch *batch);
static void            examine_indexes(TqTable *table, TqBatch *batch);
static bool            is_plain(Relation rel, IndexInfo *info);
static AttrNumber      column_not_null(List *predicate);
static void            insert_entries(TqTable *table, TqBatch *batch);
static void insert_into(TqTable *table, TqBatch *batch, Target *target);
static bool belongs(TqTable *table, Target *target, TupleTableSlot *slot);

/* Where the next row has to be formed. */
MemoryContext
tq_batch_context(TqTable *table)
{
	return batch_of(table)->context;
}

/* The row, formed there, is to be inserted; it is taken over. */
void
tq_batch_add(TqTable *table, HeapTuple tuple)
{
	TqBatch        *batch = batch_of(table);
	TupleTableSlot *slot = next_slot(table, batch);

	ExecStoreHeapTuple(tuple, slot, true);
	batch->count++;
	batch->bytes += tuple->t_len;
	if (batch->count == MAX_ROWS || batch->bytes >= MAX_BYTES)
		tq_batch_flush(table);
}

/* Write what was added. */
void
tq_batch_flush(TqTable *table)
{
	TqBatch      *batch = table->batch;
	MemoryContext mine;

	if (batch == NULL || batch->count == 0)
		return;
	tq_row_prepare_indexes(table);
	if (!batch->examined)
		examine_indexes(table, batch);
	/* both the server's functions and index methods leave things behind */
	mine = MemoryContextSwitchTo(batch->context);
	table_multi_insert(table->rel, batch->slots, batch->count,
					   GetCurrentCommandId(true), 0, NULL);
	TQ_FAULT_POINT("batch_between");
	insert_entries(table, batch);
	MemoryContextSwitchTo(mine);
	for (int i = 0; i < batch->count; i++)
		ExecClearTuple(batch->slots[i]);
	batch->count = 0;
	batch->bytes = 0;
	MemoryContextReset(batch->context);
}

/* The table is no longer used by the call. */
void
tq_batch_end(TqTable *table)
{
	TqBatch *batch = table->batch;

	if (batch == NULL)
		return;
	tq_batch_flush(table);
	for (int i = 0; i < batch->slot_count; i++)
		ExecDropSingleTupleTableSlot(batch->slots[i]);
	MemoryContextDelete(batch->context);
	table->batch = NULL;
}

static TqBatch *
batch_of(TqTable *table)
{
	if (table->batch == NULL)
	{
		table->batch = MemoryContextAllocZero(table->context, sizeof(TqBatch));
		table->batch->context = AllocSetContextCreate(
			table->context, "taskq batch", ALLOCSET_DEFAULT_SIZES);
	}
	return table->batch;
}

static TupleTableSlot *
next_slot(TqTable *table, TqBatch *batch)
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

/*
 * What is to be done for each index.  An index that is being made may not
 * want entries yet; its making waits for this transaction later.
 */
static void
examine_indexes(TqTable *table, TqBatch *batch)
{
	ResultRelInfo *opened = table->target;
	MemoryContext  mine = MemoryContextSwitchTo(table->context);

	batch->examined = true;
	batch->plain = true;
	batch->targets = palloc0(sizeof(Target) * (opened->ri_NumIndices + 1));
	for (int i = 0; i < opened->ri_NumIndices; i++)
	{
		Target    *target = &batch->targets[batch->target_count];
		Relation   rel = opened->ri_IndexRelationDescs[i];
		IndexInfo *info = opened->ri_IndexRelationInfo[i];

		if (rel == NULL || !info->ii_ReadyForInserts)
			continue;
		if (!is_plain(rel, info))
		{
			batch->plain = false;
			break;
		}
		target->rel = rel;
		target->info = info;
		target->unique = rel->rd_index->indisunique;
		target->column = column_not_null(info->ii_Predicate);
		if (target->column == 0 && info->ii_Predicate != NIL)
			target->condition =
				ExecPrepareQual(info->ii_Predicate, table->estate);
		batch->target_count++;
	}
	MemoryContextSwitchTo(mine);
}

/* Columns alone, and nothing to be tested later. */
static bool
is_plain(Relation rel, IndexInfo *info)
{
	return info->ii_Expressions == NIL && info->ii_ExclusionOps == NULL &&
		   rel->rd_index->indimmediate;
}

/* The column of a predicate "column IS NOT NULL"; 0: it is another one. */
static AttrNumber
column_not_null(List *predicate)
{
	NullTest *test;
	Var      *var;

	if (list_length(predicate) != 1 || !IsA(linitial(predicate), NullTest))
		return 0;
	test = linitial_node(NullTest, predicate);
	if (test->nulltesttype != IS_NOT_NULL || test->argisrow ||
		!IsA(test->arg, Var))
		return 0;
	var = (Var *) test->arg;
	return var->varattno > 0 ? var->varattno : 0;
}

static void
insert_entries(TqTable *table, TqBatch *batch)
{
	if (batch->plain)
	{
		for (int i = 0; i < batch->target_count; i++)
			insert_into(table, batch, &batch->targets[i]);
		return;
	}
	for (int i = 0; i < batch->count; i++)
	{
		tq_compat_insert_index(table->target, batch->slots[i], table->estate,
							   false, false, NULL, NIL);
		ResetPerTupleExprContext(table->estate);
	}
}

/* The entries of one index, in the order of the rows. */
static void
insert_into(TqTable *table, TqBatch *batch, Target *target)
{
	Datum values[INDEX_MAX_KEYS];
	bool  nulls[INDEX_MAX_KEYS];

	for (int i = 0; i < batch->count; i++)
	{
		TupleTableSlot *slot = batch->slots[i];

		if (!belongs(table, target, slot))
			continue;
		for (int k = 0; k < target->info->ii_NumIndexAttrs; k++)
			values[k] = slot_getattr(
				slot, target->info->ii_IndexAttrNumbers[k], &nulls[k]);
		index_insert(target->rel, values, nulls, &slot->tts_tid, table->rel,
					 target->unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, target->info);
	}
}

/* Has the index an entry for the row? */
static bool
belongs(TqTable *table, Target *target, TupleTableSlot *slot)
{
	bool answer;
	bool should_free;

	/* the slot would take the row apart up to that column */
	if (target->column != 0)
		return !heap_attisnull(
			ExecFetchSlotHeapTuple(slot, false, &should_free), target->column,
			RelationGetDescr(table->rel));
	if (target->condition == NULL)
		return true;
	GetPerTupleExprContext(table->estate)->ecxt_scantuple = slot;
	answer =
		ExecQual(target->condition, GetPerTupleExprContext(table->estate));
	ResetPerTupleExprContext(table->estate);
	return answer;
}

/*
 * index_entry.c
 *		Index entries of inserted rows.
 *
 * taskq.task and the leaves of the archive have many indexes, most of which
 * have an entry only for rows in which a column is not null.  The executor
 * opens all indexes of a table, reads their predicates, and prepares and
 * evaluates them again for each call; that costs more than the entries
 * themselves.  This file reads the definitions of indexes once in a session,
 * and a call opens only those that have an entry for its rows.
 *
 * A plain index is a B-tree over columns alone that is not deferred, with no
 * predicate, or one that can be evaluated on a row's image: a column is not
 * null, or a column of small numbers has, or does not have, a certain value.
 * If a table has any other index, which a user has added, the executor handles
 * all of its indexes (tq_index_entry_prepare).
 *
 * The definitions are discarded when an invalidation reports a change of the
 * table, or of one of the indexes.  It is processed no later than when the
 * lock of the table, or of an index, is acquired.  An index that is being
 * created begins to need entries, and one that is being dropped ceases to need
 * them, only after all transactions that held the table's lock before have
 * ended.  So the definitions read at the call's first row are valid until the
 * call ends.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "nodes/primnodes.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "base/catalog.h"
#include "store/index_entry.h"

#define MAX_INDEXES 24
#define MAX_KEYS 4
#define MAX_TABLES (2 * TQ_LEAVES + 2)
#define MAX_TRIES 10 /* when definitions change while they are read */

/* The rows for which an index has an entry. */
typedef enum Condition
{
	FOR_ALL,
	FOR_NOT_NULL,
	FOR_OTHER_THAN,
	FOR_NUMBER
} Condition;

/* The definition of an index. */
typedef struct KnownIndex
{
	Oid        relid;
	bool       ready; /* needs entries */
	bool       unique;
	Condition  condition;
	AttrNumber column; /* of the condition */
	int16      number; /* that the column must not, or must, have */
	int        keys;   /* columns, included ones too */
	AttrNumber key[MAX_KEYS];
} KnownIndex;

/* The definitions of a table's indexes. */
typedef struct KnownTable
{
	Oid        relid;
	bool       valid;
	bool       plain; /* all of them are plain */
	int        count;
	KnownIndex index[MAX_INDEXES];
} KnownTable;

/* In a call: definitions, and the opened indexes. */
struct TqIndexEntries
{
	KnownTable known;
	Relation   rel[MAX_INDEXES];
	IndexInfo *info; /* not used by B-trees */
};

/* By table, in this session: live tasks, leaves of the archive and history. */
static KnownTable *remembered = NULL;
static int         remembered_count = 0;
static uint64      changes = 0; /* invalidations received */

static TqIndexEntries *begin(TqTable *table);
static KnownTable     *remember(Relation rel);
static void            read_indexes(Relation rel, KnownTable *indexes);
static bool            read_index(Oid relid, KnownIndex *index);
static bool            read_condition(List *predicate, KnownIndex *index);
static void insert_into(TqTable *table, int n, TupleTableSlot **slots,
						int count);
static bool belongs(const KnownIndex *index, HeapTuple tuple, TupleDesc desc);
static void relation_changed(Datum arg, Oid relid);

void
tq_index_entry_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

/* The rows in the slots have just been inserted; they have their TIDs. */
void
tq_index_entry_insert(TqTable *table, TupleTableSlot **slots, int count)
{
	if (table->entries == NULL)
		table->entries = begin(table);
	if (table->entries->known.plain)
	{
		for (int i = 0; i < table->entries->known.count; i++)
			insert_into(table, i, slots, count);
		return;
	}
	tq_index_entry_prepare(table);
	for (int i = 0; i < count; i++)
	{
		tq_compat_insert_index(table->target, slots[i], table->estate, false,
							   false, NULL, NIL);
		ResetPerTupleExprContext(table->estate);
	}
}

/*
 * The row in the slot is a new version that is not heap-only.  It needs an
 * entry in each index that it belongs to, or, if the server says so, only in
 * summarizing ones.
 */
void
tq_index_entry_update(TqTable *table, TupleTableSlot *slot,
					  TqIndexUpdate indexes)
{
	if (table->entries == NULL)
		table->entries = begin(table);
	if (table->entries->known.plain)
	{
		for (int i = 0; i < table->entries->known.count; i++)
			insert_into(table, i, &slot, 1);
		return;
	}
	tq_index_entry_prepare(table);
	tq_compat_update_index(table->target, slot, table->estate, indexes);
	ResetPerTupleExprContext(table->estate);
}

/* Create what the executor's functions need to maintain indexes. */
void
tq_index_entry_prepare(TqTable *table)
{
	MemoryContext mine;

	if (table->estate != NULL)
		return;
	mine = MemoryContextSwitchTo(table->context);
	table->estate = CreateExecutorState();
	table->target = makeNode(ResultRelInfo);
	InitResultRelInfo(table->target, table->rel, 0, NULL, 0);
	ExecOpenIndices(table->target, true);
	MemoryContextSwitchTo(mine);
}

/* Close the indexes; locks are held until the transaction ends. */
void
tq_index_entry_end(TqTable *table)
{
	if (table->entries != NULL)
	{
		for (int i = 0; i < table->entries->known.count; i++)
		{
			if (table->entries->rel[i] != NULL)
				index_close(table->entries->rel[i], NoLock);
		}
	}
	if (table->estate != NULL)
	{
		ExecCloseIndices(table->target);
		FreeExecutorState(table->estate);
	}
}

static TqIndexEntries *
begin(TqTable *table)
{
	TqIndexEntries *entries =
		MemoryContextAllocZero(table->context, sizeof(TqIndexEntries));
	MemoryContext mine = MemoryContextSwitchTo(table->context);

	entries->known = *remember(table->rel);
	entries->info = makeNode(IndexInfo);
	MemoryContextSwitchTo(mine);
	return entries;
}

/* The definitions of the table's indexes, read now if necessary. */
static KnownTable *
remember(Relation rel)
{
	KnownTable *found = NULL;
	int         tries = 0;
	uint64      before;

	for (int i = 0; i < remembered_count && found == NULL; i++)
	{
		if (remembered[i].relid == RelationGetRelid(rel))
			found = &remembered[i];
	}
	if (found != NULL && found->valid)
		return found;
	if (found == NULL)
	{
		/* the tables of a dropped extension no longer exist */
		if (remembered_count == MAX_TABLES)
			remembered_count = 0;
		if (remembered == NULL)
			remembered = MemoryContextAllocZero(
				TopMemoryContext, sizeof(KnownTable) * MAX_TABLES);
		found = &remembered[remembered_count++];
		found->relid = RelationGetRelid(rel);
		found->valid = false;
	}
	do
	{
		CHECK_FOR_INTERRUPTS();
		before = changes;
		read_indexes(rel, found);
	} while (before != changes && ++tries < MAX_TRIES);

	/* otherwise valid for this call only */
	found->valid = before == changes;
	return found;
}

static void
read_indexes(Relation rel, KnownTable *indexes)
{
	List     *relids = RelationGetIndexList(rel);
	ListCell *cell;

	indexes->count = 0;
	indexes->plain = list_length(relids) <= MAX_INDEXES;
	foreach (cell, relids)
	{
		if (!indexes->plain)
			break;
		indexes->plain =
			read_index(lfirst_oid(cell), &indexes->index[indexes->count++]);
	}
	list_free(relids);
}

/* Returns false if the index is not a plain one. */
static bool
read_index(Oid relid, KnownIndex *index)
{
	Relation      rel = index_open(relid, RowExclusiveLock);
	Form_pg_index form = rel->rd_index;
	bool          plain;

	index->relid = relid;
	index->ready = form->indisready;
	index->unique = form->indisunique;
	index->keys = form->indnatts;
	plain = rel->rd_rel->relam == BTREE_AM_OID && form->indimmediate &&
			!form->indisexclusion && index->keys <= MAX_KEYS;
	for (int i = 0; plain && i < index->keys; i++)
	{
		index->key[i] = form->indkey.values[i];
		plain = index->key[i] > 0; /* 0: an expression */
	}
	plain = plain && read_condition(RelationGetIndexPredicate(rel), index);
	index_close(rel, NoLock);
	return plain;
}

/* Returns false if the condition is not supported here. */
static bool
read_condition(List *predicate, KnownIndex *index)
{
	Node *node = predicate == NIL ? NULL : linitial(predicate);

	index->condition = FOR_ALL;
	if (node == NULL)
		return true;
	if (list_length(predicate) > 1)
		return false;
	if (IsA(node, NullTest))
	{
		NullTest *test = (NullTest *) node;

		if (test->nulltesttype != IS_NOT_NULL || test->argisrow ||
			!IsA(test->arg, Var))
			return false;
		index->condition = FOR_NOT_NULL;
		index->column = ((Var *) test->arg)->varattno;
		return index->column > 0;
	}
	if (IsA(node, OpExpr) && (((OpExpr *) node)->opfuncid == F_INT24NE ||
							  ((OpExpr *) node)->opfuncid == F_INT24EQ))
	{
		Node *left = linitial(((OpExpr *) node)->args);
		Node *right = lsecond(((OpExpr *) node)->args);

		if (!IsA(left, Var) || !IsA(right, Const) ||
			((Const *) right)->constisnull)
			return false;
		index->condition = ((OpExpr *) node)->opfuncid == F_INT24EQ
							   ? FOR_NUMBER
							   : FOR_OTHER_THAN;
		index->column = ((Var *) left)->varattno;
		index->number = (int16) DatumGetInt32(((Const *) right)->constvalue);
		return index->column > 0 &&
			   index->number == DatumGetInt32(((Const *) right)->constvalue);
	}
	return false;
}

/* Insert the entries of one index, in the order of the rows. */
static void
insert_into(TqTable *table, int n, TupleTableSlot **slots, int count)
{
	TqIndexEntries *entries = table->entries;
	KnownIndex     *index = &entries->known.index[n];
	TupleDesc       desc = RelationGetDescr(table->rel);

	if (!index->ready)
		return;
	for (int i = 0; i < count; i++)
	{
		bool      should_free;
		HeapTuple tuple =
			ExecFetchSlotHeapTuple(slots[i], false, &should_free);
		Datum values[MAX_KEYS];
		bool  nulls[MAX_KEYS];

		if (!belongs(index, tuple, desc))
			continue;
		if (entries->rel[n] == NULL)
			entries->rel[n] = index_open(index->relid, RowExclusiveLock);
		for (int k = 0; k < index->keys; k++)
			values[k] = heap_getattr(tuple, index->key[k], desc, &nulls[k]);
		index_insert(entries->rel[n], values, nulls, &slots[i]->tts_tid,
					 table->rel,
					 index->unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO, false,
					 entries->info);
	}
}

/* Does the index have an entry for the row? */
static bool
belongs(const KnownIndex *index, HeapTuple tuple, TupleDesc desc)
{
	bool  isnull;
	Datum value;

	switch (index->condition)
	{
		case FOR_ALL:
			break;
		case FOR_NOT_NULL:
			return !heap_attisnull(tuple, index->column, desc);
		case FOR_OTHER_THAN:
			value = heap_getattr(tuple, index->column, desc, &isnull);
			return !isnull && DatumGetInt16(value) != index->number;
		case FOR_NUMBER:
			value = heap_getattr(tuple, index->column, desc, &isnull);
			return !isnull && DatumGetInt16(value) == index->number;
	}
	return true;
}

/* Relcache callback; InvalidOid means all. */
static void
relation_changed(Datum arg, Oid relid)
{
	changes++;
	for (int i = 0; i < remembered_count; i++)
	{
		KnownTable *indexes = &remembered[i];

		if (!OidIsValid(relid) || relid == indexes->relid)
			indexes->valid = false;
		for (int k = 0; indexes->valid && k < indexes->count; k++)
		{
			if (relid == indexes->index[k].relid)
				indexes->valid = false;
		}
	}
}

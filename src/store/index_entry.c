/*
 * index_entry.c
 *		Index entries of rows that were inserted.
 *
 * taskq.task and the leaves of the archive have many indexes, most of which
 * have an entry only for rows in which a column is not null.  The executor
 * opens all of a table's indexes, reads their predicates, prepares and
 * evaluates them, for each call anew; that costs more than the entries
 * themselves.  Here what the indexes want is read once in a session, and a
 * call opens those that have an entry for its rows.
 *
 * A plain index is a B-tree over columns alone, that is not deferred, with
 * no predicate, or one that a row's image answers: a column is not null, or
 * a column of small numbers is, or is not, a certain one.  When a table has
 * another index, which somebody has added, all of them are the executor's
 * (tq_index_entry_prepare).
 *
 * What was read is forgotten when the server says that the table, or one of
 * the indexes, has changed.  It says so no later than when the table's lock
 * is taken, or that of an index; an index that is being made begins to want
 * entries, and one that is being dropped ends to, only when all who held the
 * table's lock before are gone.  So what is read at the call's first row
 * holds until the call ends.
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
#define MAX_TRIES 10 /* of reading while something changes */

/* For which rows an index has an entry. */
typedef enum Condition
{
	FOR_ALL,
	FOR_NOT_NULL,
	FOR_OTHER_THAN,
	FOR_NUMBER
} Condition;

/* What is to be known of an index. */
typedef struct KnownIndex
{
	Oid        relid;
	bool       ready; /* wants entries */
	bool       unique;
	Condition  condition;
	AttrNumber column; /* of the condition */
	int16      number; /* that it must not be, or must */
	int        keys;   /* columns, included ones too */
	AttrNumber key[MAX_KEYS];
} KnownIndex;

/* Those of a table. */
typedef struct KnownTable
{
	Oid        relid;
	bool       valid;
	bool       plain; /* all of them are */
	int        count;
	KnownIndex index[MAX_INDEXES];
} KnownTable;

/* In a call: with the indexes that were opened. */
struct TqIndexEntries
{
	KnownTable known;
	Relation   rel[MAX_INDEXES];
	IndexInfo *info; /* no B-tree looks into it */
};

/* By table: live tasks, leaves of archive and history; in this session. */
static KnownTable *remembered = NULL;
static int         remembered_count = 0;
static uint64      changes = 0; /* that were told */

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

/* The rows in the slots were just inserted; they have their places. */
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
 * The row in the slot is a new version of one, and does not follow it in its
 * page: so it has an entry in each index that it belongs to, or, if the server
 * says so, only in those that summarize.
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

/* What the executor's functions need to maintain indexes. */
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

/* Locks stay until the transaction ends. */
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

/* What is known of the table's indexes, now at the latest. */
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
		/* a dropped extension's tables are no longer there */
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

	/* else good for this call alone */
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

/* False when the index is not a plain one. */
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
		plain = index->key[i] > 0; /* 0 is an expression */
	}
	plain = plain && read_condition(RelationGetIndexPredicate(rel), index);
	index_close(rel, NoLock);
	return plain;
}

/* False when it is not one of those that are known here. */
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

/* The entries of one index, in the order of the rows. */
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

/* Has the index an entry for the row? */
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

/*
 * row.h
 *		Rows of tasks: reading and writing them below the executor.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ROW_H
#define TQ_ROW_H

#include "store/task.h"

#include "nodes/execnodes.h"

#include "shared/dead_range.h"

typedef struct TqBatch   TqBatch;
typedef struct TqEntries TqEntries;
typedef struct TqKeys    TqKeys;
typedef struct TqLookup  TqLookup;

/* A table opened for one call; what follows is made when it is needed. */
typedef struct TqTable
{
	Relation        rel;
	MemoryContext   context; /* for what lives as long as the call */
	TqLookup       *lookup;  /* of rows by their ids */
	TupleTableSlot *slot;    /* for a row that is read */
	TupleTableSlot *writer;  /* for one that is written */
	TqEntries      *entries; /* of indexes */
	EState         *estate;  /* when the executor does that */
	ResultRelInfo  *target;
	TqBatch        *batch; /* rows to be inserted together */
} TqTable;

/* What one SQL call works with, from tq_call_begin to tq_call_end. */
typedef struct TqCall
{
	TqTable       task;
	TqTable       leaf; /* of the archive, the last one used */
	Oid           leaf_oid;
	TqTable       history; /* of its leaf, the last one used */
	Oid           history_oid;
	MemoryContext context;
	TqRangeMoment moment; /* not after the active snapshot was taken */
	uint64        ring_moment;
	bool          many;        /* rows may be inserted later, with others */
	TqKeys       *keys;        /* that were locked */
	List         *keys_ahead;  /* of TqKeyName: to be locked with the next */
	bool          lines_later; /* they are settled at the end, once each */
	struct TqKey *unsettled;
	void (*settle)(struct TqCall *call);
	List *steps; /* of workflows, that were moved: ordered as they were */
	bool  gated; /* their instances are locked as its moves need it */
	struct TqPassed *passed; /* gates, for a move that was given up */
	void (*advance)(struct TqCall *call);
	List *dead; /* tasks that died, for at_end */
	void (*at_end)(struct TqCall *call);
} TqCall;

extern void   tq_call_begin(TqCall *call, const char *function);
extern void   tq_call_begin_look(TqCall *call);
extern void   tq_call_push(void);
extern void   tq_call_snapshot(void);
extern void   tq_call_push_latest(void);
extern void   tq_call_pop(void);
extern uint64 tq_call_snapshots(void);
extern void   tq_call_renew(TqCall *call);
extern void   tq_call_advance(TqCall *call);
extern void   tq_call_end(TqCall *call);

extern void tq_row_flush(TqCall *call);
extern bool tq_row_find(TqCall *call, int64 task_id, TqTask *task);
extern void tq_row_read(HeapTuple tuple, TupleDesc desc, TqTask *task);
extern bool tq_row_update(TqCall *call, TqTask *task, bool wait);
extern bool tq_row_delete(TqCall *call, TqTask *task, bool wait);
extern bool tq_row_insert(TqCall *call, TqTask *task, bool unique_reference,
						  int64 *holder, TqState *holder_state);
extern void tq_row_insert_archive(TqCall *call, TqTask *task);
extern void tq_row_insert_history(TqCall *call, int leaf, Datum *values,
								  bool *nulls);
extern bool tq_row_take_archived(TqTask *task);
extern bool tq_row_lock(TqCall *call, TqTask *task, bool shared);
extern bool tq_row_is_busy(TqCall *call, TqTask *task);
extern bool tq_row_is_written(TupleTableSlot *slot, TransactionId *writer);
extern bool tq_row_is_others(TqCall *call, ItemPointer tid);
extern bool tq_row_find_archived(int64 task_id, TqTask *task);
extern bool tq_row_find_any(TqCall *call, int64 task_id, TqTask *task);

#endif /* TQ_ROW_H */

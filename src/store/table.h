/*
 * table.h
 *		A table opened for one call, and the call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TABLE_H
#define TQ_TABLE_H

#include "nodes/execnodes.h"

#include "shared/dead_range_core.h"

typedef struct TqMultiInsert TqMultiInsert;

typedef struct TqIndexEntries TqIndexEntries;

typedef struct TqKeys TqKeys;

typedef struct TqPkeyLookup TqPkeyLookup;

typedef struct TqSteps TqSteps;

/* A table opened for one call; the other fields are set when needed. */
typedef struct TqTable
{
	Relation        rel;
	MemoryContext   context; /* for data with the lifetime of the call */
	TqPkeyLookup   *lookup;  /* lookup of rows by id */
	TupleTableSlot *slot;    /* for a row being read */
	TupleTableSlot *writer;  /* for a row being written */
	TqIndexEntries *entries; /* of indexes */
	EState         *estate;  /* when the executor handles indexes */
	ResultRelInfo  *target;
	TqMultiInsert  *batch; /* rows to be inserted together */
} TqTable;

/* State of one SQL call, from tq_call_begin to tq_call_end. */
typedef struct TqCall
{
	TqTable           task;
	TqTable           leaf; /* of the archive, the last one used */
	Oid               leaf_oid;
	TqTable           history; /* of its leaf, the last one used */
	Oid               history_oid;
	MemoryContext     context;
	TqDeadRangeMoment moment; /* no later than the active snapshot */
	uint64            ring_moment;
	bool     many;  /* rows may be inserted later, together with other rows */
	TqKeys  *keys;  /* of engine/key.h; NULL: none yet */
	TqSteps *steps; /* of engine/call.h; NULL: none yet */
	List    *dead;  /* ids of tasks that died, for dead letters */
} TqCall;

#endif /* TQ_TABLE_H */

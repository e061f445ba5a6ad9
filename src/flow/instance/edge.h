/*
 * edge.h
 *		Dependencies between the steps of an instance.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EDGE_H
#define TQ_EDGE_H

#include "base/compat.h"

#include "flow/definition/template_types.h"

/* Children that are not steps. */
#define TQ_EDGE_END (-1)       /* the end of the instance */
#define TQ_EDGE_FAILURE (-2)   /* its failure; parents are the failed steps */
#define TQ_EDGE_CANCELLED (-3) /* see failure_policy.c */

/* State of the edges to a child. */
typedef enum TqLeft
{
	TQ_LEFT_NONE,
	TQ_LEFT_OPEN,   /* an edge is left, or its deleter will check again */
	TQ_LEFT_PASSING /* another transaction is deleting the last edges */
} TqLeft;

/* The table of edges, opened. */
typedef struct TqEdges
{
	Relation        rel;
	Relation        index;
	IndexScanDesc   scan;
	TupleTableSlot *slot;
} TqEdges;

/* Edges to be added or deleted. */
typedef struct TqNewEdges
{
	int    count;
	int    room;
	int32 *children;
	int32 *parents;
} TqNewEdges;

extern void   tq_edge_lock(int64 workflow_id);
extern void   tq_edge_unlock(int64 workflow_id);
extern bool   tq_edge_is_locked(int64 workflow_id);
extern void   tq_edge_begin(TqEdges *edges);
extern void   tq_edge_end(TqEdges *edges);
extern bool   tq_edge_has(TqEdges *edges, int64 workflow_id, int32 child,
						  int32 parent);
extern bool   tq_edge_delete(TqEdges *edges, int64 workflow_id, int32 child,
							 int32 parent);
extern TqLeft tq_edge_left(TqEdges *edges, int64 workflow_id, int32 child,
						   int32 near, TransactionId *other);
extern bool   tq_edge_any_other(TqEdges *edges, int64 workflow_id, int32 child,
								int32 parent);
extern TqLeft tq_edge_one(TqEdges *edges, int64 workflow_id, int32 child,
						  int32 parent, TransactionId *other);
extern void tq_edge_mine(TqEdges *edges, int64 workflow_id, TqNewEdges *mine);
extern void tq_edge_note(TqNewEdges *added, int32 child, int32 parent);
extern void tq_edge_note_step(TqNewEdges *added, const TqStep *step,
							  int32 step_id);
extern void tq_edge_add(int64 workflow_id, const TqNewEdges *added);
extern void tq_edge_remove(int64 workflow_id, const TqNewEdges *gone);

#endif /* TQ_EDGE_H */

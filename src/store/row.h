/*
 * row.h
 *		Reading and writing rows of tasks below the executor.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ROW_H
#define TQ_ROW_H

#include "nodes/execnodes.h"

#include "store/table.h"
#include "store/task.h"

extern void tq_row_flush(TqCall *call);
extern bool tq_row_find(TqCall *call, int64 task_id, TqTask *task);
extern bool tq_row_find_shown(TqCall *call, int64 task_id, TqTask *task);
extern void tq_row_read(HeapTuple tuple, TupleDesc desc, TqTask *task);
extern bool tq_row_update(TqCall *call, TqTask *task, bool wait);
extern bool tq_row_delete(TqCall *call, TqTask *task, bool wait);
extern bool tq_row_insert(TqCall *call, TqTask *task, bool unique_reference,
						  int64 *holder, TqState *holder_state);
extern void tq_row_insert_archive(TqCall *call, TqTask *task);
extern void tq_row_insert_history(TqCall *call, int leaf, Datum *values,
								  bool *nulls);
extern bool tq_row_lock(TqCall *call, TqTask *task, bool shared);

#endif /* TQ_ROW_H */

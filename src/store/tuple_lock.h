/*
 * tuple_lock.h
 *		Who else is at the row of a task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TUPLE_LOCK_H
#define TQ_TUPLE_LOCK_H

#include "store/table.h"
#include "store/task.h"


extern bool tq_busy_was(const TqTask *task);
extern bool tq_busy_reserve(Relation rel, ItemPointer tid, bool wait,
							bool *locked);
extern void tq_busy_let_go(Relation rel, ItemPointer tid, bool locked);

extern bool tq_row_is_busy(TqCall *call, TqTask *task);
extern bool tq_row_is_written(TupleTableSlot *slot, TransactionId *writer);
extern bool tq_row_is_others(TqCall *call, ItemPointer tid);

#endif /* TQ_TUPLE_LOCK_H */

/*
 * tuple_lock.h
 *		Locks and changes of a task's row by other transactions.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TUPLE_LOCK_H
#define TQ_TUPLE_LOCK_H

#include "store/table.h"
#include "store/task.h"

extern bool tq_tuple_lock_was_taken(const TqTask *task);
extern bool tq_tuple_lock_acquire(Relation rel, ItemPointer tid, bool wait,
								  bool *locked);
extern void tq_tuple_lock_release(Relation rel, ItemPointer tid, bool locked);
extern bool tq_tuple_lock_is_held(TqCall *call, TqTask *task);

extern bool          tq_tuple_lock_is_taken(TqCall *call, TqTask *task);
extern bool          tq_tuple_lock_is_writing(TupleTableSlot *slot,
											  TransactionId  *writer);
extern TransactionId tq_tuple_lock_past(TupleTableSlot *slot);
extern bool          tq_tuple_lock_is_lost(TqCall *call, ItemPointer tid);

#endif /* TQ_TUPLE_LOCK_H */

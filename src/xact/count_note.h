/*
 * count_note.h
 *		Changes to the numbers of a queue's tasks by a transaction.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COUNT_NOTE_H
#define TQ_COUNT_NOTE_H

#include "base/compat.h"

extern void  tq_count_note_begin(void);
extern void  tq_count_note_move(int32 queue_id, int from, int to);
extern void  tq_count_note_retry(int32 queue_id, int by);
extern int64 tq_count_note_sum(int32 queue_id, int number);

/* for xact.c, at the ends of transactions and savepoints; cannot fail */
extern void tq_count_note_commit(void);
extern void tq_count_note_sub_commit(SubTransactionId mine,
									 SubTransactionId parent);
extern void tq_count_note_sub_abort(SubTransactionId mine);
extern void tq_count_note_forget(void);

#endif /* TQ_COUNT_NOTE_H */

/*
 * position_note.h
 *		Positions at which a transaction takes and puts pending tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_POSITION_NOTE_H
#define TQ_POSITION_NOTE_H

#include "store/task.h"

/* called around each change of a live task */
extern void tq_position_note_taking(const TqTask *task);
extern void tq_position_note_not_taken(const TqTask *task);
extern void tq_position_note_put(TqTask *task);
extern void tq_position_note_all_taken(void);

/* tasks put by this transaction, which only it sees */
extern int  tq_position_note_offered(void);
extern bool tq_position_note_first(int64 lane_id, int16 priority, bool last,
								   TqLanePosition *place);

/* for xact.c, at the ends of transactions and savepoints; cannot fail */
extern void tq_position_note_commit(void);
extern void tq_position_note_abort(void);
extern void tq_position_note_sub_commit(SubTransactionId mine,
										SubTransactionId parent);
extern void tq_position_note_sub_abort(SubTransactionId mine);
extern void tq_position_note_forget(void);

#endif /* TQ_POSITION_NOTE_H */

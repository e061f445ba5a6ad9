/*
 * state.h
 *		Every change of a task's state.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STATE_H
#define TQ_STATE_H

#include "cache/queue.h"
#include "engine/move.h"
#include "store/table.h"
#include "store/task.h"

/*
 * Functions of upper layers that run at each move; set at load time, or NULL.
 */
typedef struct TqStateHooks
{
	/*
	 * may change a move to pending into one to blocked; to 0: task is removed
	 */
	void (*entering)(TqCall *call, TqQueue *queue, TqTask *task,
					 const TqMove *move, TqMoveAnswer *answer);
	/* after the row is written, in the same transaction */
	void (*entered)(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
					const TqMove *move);
	/*
	 * A task of the key, which is locked, is about to be submitted with this
	 * insertion and reference (0: none).  Returns false, and moves nothing, if
	 * a live task has the reference and stays, or keeps every other task out.
	 */
	bool (*inserting)(TqCall *call, TqQueue *queue, Datum key,
					  TqInsertion insertion, Datum reference, bool keeps_out,
					  int64 *holder, TqState *holder_state);
	/*
	 * The queue has another rule for its keys; no other session changes its
	 * tasks.
	 */
	void (*rearrange)(TqCall *call, TqQueue *queue);
	/* the task has another queue or key than before, or no key */
	void (*left)(TqCall *call, TqQueue *queue, Datum key);
} TqStateHooks;

extern PGDLLIMPORT TqStateHooks tq_state_hooks;

extern bool tq_state_is_legal(TqState from, TqState to);
extern bool tq_state_enter(TqCall *call, TqQueue *queue, TqTask *task,
						   const TqMove *move);
extern bool tq_state_touch(TqCall *call, TqQueue *queue, TqTask *task);
extern bool tq_state_submit(TqCall *call, TqQueue *queue, TqTask *task,
							TqState state, bool unique_reference,
							int64 *holder, TqState *holder_state);
extern bool tq_state_rewrite(TqCall *call, TqQueue *queue, TqTask *task,
							 TimestampTz due_at);
extern bool tq_state_relocate(TqCall *call, TqQueue *queue, TqTask *task,
							  TimestampTz due_at, int64 *holder,
							  TqState *holder_state);
extern void tq_state_annotate(TqCall *call, TqQueue *queue, TqTask *task,
							  TqReason reason);
extern bool tq_state_remove(TqCall *call, TqQueue *queue, TqTask *task);
extern void tq_state_forget(TqCall *call, TqQueue *queue, TqTask *task);
extern TimestampTz tq_state_running_until(const TqQueue *queue,
										  const TqTask  *task);

#endif /* TQ_STATE_H */

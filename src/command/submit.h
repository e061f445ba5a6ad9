/*
 * submit.h
 *		Submitting tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBMIT_H
#define TQ_SUBMIT_H

#include "command/submission.h"
#include "store/table.h"

extern bool  tq_submit_one(TqCall *call, TqSubmission *sub, Jsonb *payload,
						   int64 *task_id);
extern bool  tq_submit_try(TqCall *call, TqSubmission *sub, Jsonb *payload,
						   int64 *task_id, int64 *holder,
						   TqState *holder_state);
extern bool  tq_submit_is_held(const TqQueue *queue, const char *reference,
							   int64 *task_id, TqState *state);
extern bool  tq_submit_is_taken(const TqQueue *queue, const TqTask *task);
extern void  tq_submit_refuse_taken(const TqQueue *queue, const TqTask *task);
extern bool  tq_submit_may_move_key(const TqSubmission *sub);
extern int64 tq_submit_plain(char *queue_name, Jsonb *payload);
extern void  tq_submit_dead_letter(TqCall *call, const char *queue_name,
								   TqTask *origin, Jsonb *headers);

extern void tq_submit_fill(const TqSubmission *sub, Jsonb *payload,
						   TqTask *task);
extern void tq_submit_again(TqCall *call, TqSubmission *sub, Jsonb *payload);
extern bool tq_submit_is_held_by_finished(const TqQueue *queue,
										  const char    *reference,
										  int64 replaced, int64 *task_id,
										  TqState *state);

#endif /* TQ_SUBMIT_H */

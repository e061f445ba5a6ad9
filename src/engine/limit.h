/*
 * limit.h
 *		Limits of queues and workers: running tasks, rate, depth.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LIMIT_H
#define TQ_LIMIT_H

#include "cache/queue.h"
#include "shared/counter_types.h"

/* How often a claim recounts numbers that keep becoming unknown. */
#define TQ_LIMIT_RECOUNTS 100

/* A claimer and its limits. */
typedef struct TqLimit
{
	const TqQueue *queue;
	int32          queue_id;
	int32          worker_id;
	int            worker_max;  /* running tasks of the worker; 0: no limit */
	int            queue_ended; /* running tasks that this transaction ended */
	int            worker_ended;
	bool           queue_locked;
	bool           worker_locked;
	bool           worker_full; /* out: the worker's limit is reached */
} TqLimit;

extern void          tq_limit_of_worker_is_new(int32 worker_id);
extern void          tq_limit_begin(TqLimit *limit);
extern bool          tq_limit_is_possible(const TqLimit *limit);
extern bool          tq_limit_has_room(const TqLimit *limit);
extern void          tq_limit_require(const TqLimit *limit);
extern TqReservation tq_limit_look(TqLimit *limit);
extern TqReservation tq_limit_reserve(TqLimit *limit, int64 task_id);
extern void          tq_limit_end(TqLimit *limit);
extern void          tq_limit_know(const TqLimit *limit);
extern void          tq_limit_check_depth(const TqQueue *queue);
extern bool tq_limit_agrees(TqOwner owner, int32 id, int64 *used, int64 *held);
extern bool tq_limit_live(int32 queue_id, int64 *live);

#endif /* TQ_LIMIT_H */

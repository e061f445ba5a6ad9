/*
 * executor_slot.h
 *		The processes that run SQL tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXECUTOR_SLOT_H
#define TQ_EXECUTOR_SLOT_H

#include "base/compat.h"

typedef enum TqExecutorState
{
	TQ_EXECUTOR_NONE,     /* the slot is free */
	TQ_EXECUTOR_STARTING, /* registered, not yet there */
	TQ_EXECUTOR_LOOKING,  /* looks for a task in its queue */
	TQ_EXECUTOR_RUNNING,  /* runs a task of its queue */
	TQ_EXECUTOR_IDLE,
	TQ_EXECUTOR_ENDING
} TqExecutorState;

/* A slot, or a copy of it. */
typedef struct TqExecutor
{
	TqExecutorState state;
	uint32          generation; /* of the slot */
	Oid             database;
	int32           role_id;
	Oid             role;
	int             pid;
	struct Latch   *latch;
	int32           queue_id;  /* LOOKING, RUNNING */
	int32           worker_id; /* of its registration; 0: none yet */
	int64           task_id;   /* RUNNING */
	int64           token;     /* RUNNING */
	int64           since;     /* in this state; monotonic clock */

	/* kept in a slot that has become free */
	int32 failed_role;     /* its executor could not begin; 0: it could */
	Oid   failed_database; /* of that role */
	int64 failed_at;       /* monotonic clock */
} TqExecutor;

extern Size tq_executor_slot_size(void);
extern void tq_executor_slot_init(void);

/* for the background worker */
extern void        tq_executor_slot_lack(bool lacks);
extern TqExecutor *tq_executor_slot_list(int *count);
extern Datum tq_executor_slot_reserve(int32 role_id, Oid role, int32 queue_id,
									  int *number);
extern void  tq_executor_slot_give_up(int number);
extern bool  tq_executor_slot_assign(int number, int32 queue_id);
extern bool  tq_executor_slot_end_idle(int number);
extern void  tq_executor_slot_cancel(int number, int64 task_id, int64 token);

/* for the executor */
extern bool  tq_executor_slot_attach(Datum arg, TqExecutor *slot, int *number);
extern void  tq_executor_slot_registered(int32 worker_id);
extern int32 tq_executor_slot_queue(void);
extern void  tq_executor_slot_running(int64 task_id, int64 token);
extern void  tq_executor_slot_idle(void);
extern bool  tq_executor_slot_end(void);

extern bool tq_executor_slot_lacks(void);

/* for commands on databases; cannot fail */
extern void tq_executor_slot_stop_database(Oid database);

#endif /* TQ_EXECUTOR_SLOT_H */

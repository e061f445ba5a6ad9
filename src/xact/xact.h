/*
 * xact.h
 *		Actions at the end of a transaction.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_XACT_H
#define TQ_XACT_H

#include "base/compat.h"

#include "shared/counter_types.h"
#include "shared/key_floor.h"
#include "shared/running.h"

/* Notes for the commit that need only the id of a queue or worker. */
typedef enum TqXactNote
{
	/* with the id of a queue */
	TQ_NOTE_QUEUE_MADE, /* created: removed if this is rolled back */
	TQ_NOTE_QUEUE_GONE, /* it was dropped */
	TQ_NOTE_WAKE_QUEUE, /* changed, or with 0 all have: waiters check */
	TQ_NOTE_NOTIFY,     /* option notify: a limit allows another claim */

	/* with the id of a worker */
	TQ_NOTE_STOP_TASKS,           /* its next heartbeat has tasks to stop */
	TQ_NOTE_WORKER_MADE,          /* registered: the same as for a queue */
	TQ_NOTE_WORKER_GONE,          /* declared dead or deregistered */
	TQ_NOTE_WAKE_WORKER,          /* changed: its waiting claims check */
	TQ_NOTE_WORKER_COUNT_UNKNOWN, /* recount its tasks, from before
								   * the commit is visible */

	/* with 0 */
	TQ_NOTE_ORPHANS,      /* workers were declared dead: reclaim their tasks */
	TQ_NOTE_RESCAN,       /* running tasks may end at other times than noted */
	TQ_NOTE_ROWS_CHANGED, /* rows of tasks were changed other than by calls */
	TQ_NOTE_WAKE_MADE,    /* a queue or lane was created */
	TQ_NOTE_BOUND,        /* a worker is bound to this session: no PREPARE */
	TQ_NOTE_VISIT         /* the launcher checks this database */
} TqXactNote;

extern void   tq_xact_begin(void);
extern int    tq_xact_stopped_of(TqOwner owner, int32 id);
extern void   tq_xact_reserved(const TqRunning *claim, int64 taken_at,
							   uint64 queue_epoch, uint64 worker_epoch);
extern void   tq_xact_not_claimed(void);
extern void   tq_xact_running(const TqRunning *running);
extern void   tq_xact_stopped(int64 task_id, int64 version, int32 queue_id,
							  int32 worker_id);
extern void   tq_xact_ended(int64 id, int state);
extern void   tq_xact_key_floor(const TqKeyFloorFound *found);
extern void   tq_xact_note(TqXactNote note, int32 id);
extern uint64 tq_xact_epoch(void);
extern void   tq_xact_due(TimestampTz at);
extern void   tq_xact_session_cache_changed(void);
extern void   tq_xact_on_rollback(void (*forget)(void));
extern void   tq_xact_prepared_ended(void);
extern void   tq_xact_init(void);

#endif /* TQ_XACT_H */

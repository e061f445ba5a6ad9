/*
 * call.h
 *		One SQL call, from its beginning to its end.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CALL_H
#define TQ_CALL_H

#include "store/table.h"

/* The steps of workflows that a call moves.  Lives as long as the call. */
struct TqSteps
{
	List               *moved;  /* of TqMoved, in the order of the moves */
	bool                locked; /* the moves need no further instance locks */
	struct TqHeldLocks *held;   /* for a move that was given up */
};

/*
 * Functions of upper layers that run at the end of a call; set at load time.
 */
typedef struct TqCallHooks
{
	/* decide about the keys that were left unsettled (call->keys) */
	void (*settle)(TqCall *call);
	/* advance the workflows whose steps have moved (call->steps) */
	void (*advance)(TqCall *call);
	/* copy the tasks that died (call->dead) */
	void (*dead_letters)(TqCall *call);
} TqCallHooks;

extern PGDLLIMPORT TqCallHooks tq_call_hooks;

static inline bool
tq_call_steps_are_locked(const TqCall *call)
{
	return call->steps != NULL && call->steps->locked;
}

extern TqSteps *tq_call_steps(TqCall *call);
extern void     tq_call_begin(TqCall *call, const char *function);
extern void     tq_call_begin_look(TqCall *call);
extern void     tq_call_renew(TqCall *call);
extern void     tq_call_advance(TqCall *call);
extern void     tq_call_end(TqCall *call);

#endif /* TQ_CALL_H */

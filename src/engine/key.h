/*
 * key.h
 *		Keys: the queue's rule for tasks with the same key, and their locks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_H
#define TQ_KEY_H

#include "cache/queue.h"
#include "store/table.h"
#include "store/task.h"

/* How tasks of one key wait for each other. */
typedef struct TqKeyRule
{
	int  open;              /* tasks pending or running at a time */
	bool held_by_dead;      /* also if suspended because its worker died */
	bool held_by_suspended; /* for whatever reason */
	bool lifo;
} TqKeyRule;

/* A key as the caller names it. */
typedef struct TqKeyName
{
	int32 queue_id;
	text *key;
} TqKeyName;

/* A key that the call has locked. */
typedef struct TqKey
{
	struct TqKey *next; /* with the same hash */
	TqKeyName     name;
	bool          locked;
	/* for keyed/key_queue.c */
	int64 *out_of_order;
	int    out_of_order_count;
	bool   full;      /* a new task must wait */
	int    room;      /* at least for this number of new tasks */
	bool   unsettled; /* next task is decided at the call's end */
	int64  foremost;  /* of the tasks that wait for it; 0: no task waits */
	struct TqKey *next_unsettled;
} TqKey;

/* The keys of a call.  Lives as long as the call. */
struct TqKeys
{
	HTAB           *by_hash; /* the locked keys; NULL: no key is locked yet */
	Relation        rel;
	Relation        index;
	IndexScanDesc   scan;
	TupleTableSlot *slot;

	List *ahead;    /* of TqKeyName: to be locked with the next keys */
	bool  complete; /* a further key would be out of order */

	/* for keyed/key_queue.c */
	bool   settle_later; /* decide at the end of the call which task is next */
	TqKey *unsettled;    /* keys for which that is still undecided */
};

extern bool   tq_key_rule(const TqQueue *queue, TqKeyRule *rule);
extern bool   tq_key_is_ordered(const TqQueue *queue);
extern TqKey *tq_key_lock(TqCall *call, int32 queue_id, Datum key);
extern void   tq_key_note(TqCall *call, int32 queue_id, const char *key);
extern void   tq_key_lock_names(TqCall *call, TqKeyName *names, int count);
extern void   tq_key_complete(TqCall *call);
extern void   tq_key_require_locked(TqCall *call, const TqKeyName *names,
									int count);
extern void   tq_key_lock_task(TqCall *call, const TqQueue *queue,
							   const TqTask *task);
extern void   tq_key_lock_tasks(TqCall *call, const int64 *ids,
								const int64 *tokens, int count, int right);
extern int    tq_key_names(const TqQueue *queue, text *key, bool step,
						   TqKeyName *names);
extern int    tq_key_names_of(TqCall *call, const int64 *ids, int count,
							  int right, TqKeyName *names);
extern void   tq_key_lock_change(TqCall *call, const TqTask *task,
								 const TqQueue *queue);
extern void   tq_key_write_out_of_order(TqCall *call, TqKey *key);
extern bool   tq_key_try_task(TqCall *call, const TqQueue *queue,
							  const TqTask *task);
extern void   tq_key_settle_later(TqCall *call);
extern void   tq_key_end(TqCall *call);

#endif /* TQ_KEY_H */

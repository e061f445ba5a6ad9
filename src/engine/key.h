/*
 * key.h
 *		Keys: what a queue says of tasks with the same key, and their locks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_H
#define TQ_KEY_H

#include "cache/queue.h"
#include "store/table.h"
#include "store/task.h"

/* How the tasks of one key wait for each other. */
typedef struct TqKeyRule
{
	int  open;              /* how many may be pending or running at once */
	bool held_by_dead;      /* also when its worker's death suspended one */
	bool held_by_suspended; /* whatever for */
	bool lifo;
} TqKeyRule;

/* A key, as a caller names it. */
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
	/* of keyed/key_queue.c */
	int64 *astray;
	int    astray_count;
	bool   full;      /* a new task has to wait */
	int    room;      /* for so many new ones, at least */
	bool   unsettled; /* who is next is decided at the end of the call */
	int64  foremost;  /* of those that wait for it; 0: none */
	struct TqKey *next_unsettled;
} TqKey;

/* The keys of a call.  All of it lives as long as the call. */
struct TqKeys
{
	HTAB           *by_hash; /* those that it has locked; NULL: none yet */
	Relation        rel;
	Relation        index;
	IndexScanDesc   scan;
	TupleTableSlot *slot;

	List *ahead; /* of TqKeyName: to be locked with the next ones */

	/* of keyed/key_queue.c */
	bool   settle_later; /* who is next is decided at the end of the call */
	TqKey *unsettled;    /* keys for which it is still to be decided */
};

extern bool   tq_key_rule(const TqQueue *queue, TqKeyRule *rule);
extern bool   tq_key_is_ordered(const TqQueue *queue);
extern TqKey *tq_key_lock(TqCall *call, int32 queue_id, Datum key);
extern void   tq_key_note(TqCall *call, int32 queue_id, const char *key);
extern void   tq_key_lock_names(TqCall *call, TqKeyName *names, int count);
extern void   tq_key_lock_task(TqCall *call, const TqQueue *queue,
							   const TqTask *task);
extern void   tq_key_lock_tasks(TqCall *call, const int64 *ids,
								const int64 *tokens, int count, int right);
extern int    tq_key_names_of(TqCall *call, const int64 *ids, int count,
							  int right, TqKeyName *names);
extern void   tq_key_lock_change(TqCall *call, const TqTask *task,
								 const TqQueue *queue);
extern void   tq_key_write_astray(TqCall *call, TqKey *key);
extern bool   tq_key_try_task(TqCall *call, const TqQueue *queue,
							  const TqTask *task);
extern void   tq_key_settle_later(TqCall *call);
extern void   tq_key_end(TqCall *call);

#endif /* TQ_KEY_H */

/*
 * manage.h
 *		Changes of one task by people.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MANAGE_H
#define TQ_MANAGE_H

#include "base/types.h"
#include "cache/queue.h"
#include "store/table.h"
#include "store/task.h"

typedef enum TqAction
{
	TQ_ACTION_CANCEL,
	TQ_ACTION_RETRY,
	TQ_ACTION_RECREATE,
	TQ_ACTION_RESOLVE,
	TQ_ACTION_HOLD,
	TQ_ACTION_POISON,
	TQ_ACTION_UNPOISON,
	TQ_ACTION_DELETE
} TqAction;

/* What the caller wants, beside the task. */
typedef struct TqWish
{
	TqAction    action;
	char       *message; /* his words */
	bool        force;
	bool        in_bulk;      /* one of many: poison is passed over */
	bool        reset_given;  /* of RETRY */
	bool        reset;        /* begin with attempt 1 again? */
	Jsonb      *result;       /* of RESOLVE */
	bool        requested;    /* answer of CANCEL: asked to stop */
	TqInsertion insertion;    /* of RECREATE */
	int64       recreated_as; /* answer of RECREATE */
} TqWish;

extern TqQueue *tq_manage_find(TqCall *call, int64 task_id, TqTask *task);
extern void     tq_manage_act(TqCall *call, int64 task_id, TqWish *wish);
extern bool     tq_manage_try(TqCall *call, TqQueue *queue, TqTask *task,
							  TqWish *wish);

#endif /* TQ_MANAGE_H */

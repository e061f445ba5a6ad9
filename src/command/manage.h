/*
 * manage.h
 *		Changes of one task by an operator.
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

/* The caller's options for an action. */
typedef struct TqWish
{
	TqAction    action;
	char       *message;   /* the caller's message */
	bool        automatic; /* no manual change; without a message */
	bool        force;
	bool        in_bulk;      /* one of a list of ids */
	bool        reset_given;  /* of RETRY */
	bool        reset;        /* restart with attempt 1? */
	Jsonb      *result;       /* of RESOLVE */
	bool        requested;    /* output of CANCEL: asked to stop */
	TqInsertion insertion;    /* of RECREATE */
	int64       recreated_as; /* output of RECREATE */
	/* is the task, as read now, still to be changed? NULL: yes */
	bool (*still)(const TqTask *task, void *arg);
	void *arg;
	bool  skipped; /* output: it was not */
} TqWish;

extern TqQueue *tq_manage_find(TqCall *call, int64 task_id, TqTask *task);
extern void     tq_manage_act(TqCall *call, int64 task_id, TqWish *wish);
extern bool     tq_manage_try(TqCall *call, TqQueue *queue, TqTask *task,
							  TqWish *wish);

#endif /* TQ_MANAGE_H */

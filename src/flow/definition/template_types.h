/*
 * template_types.h
 *		Templates of workflows: what a definition says, and the graph of its
 *		steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TEMPLATE_TYPES_H
#define TQ_TEMPLATE_TYPES_H

#include "base/compat.h"

#include "utils/jsonb.h"
#include "utils/jsonpath.h"

#include "base/arg.h"

#define TQ_MAX_STEPS 10000
#define TQ_MAX_NESTING 20 /* of instances inside of others */

/*
 * A member of a batch has the number of its template step in the lower bits
 * of its step_id, and its own, from 1, above them.  The compensation of a
 * step or member has the step_id of that one, and the sign: all ids of steps
 * are smaller than PG_INT32_MAX - 2, so these are none of TQ_EDGE_END and the
 * like.
 */
#define TQ_STEP_BITS 14
#define TQ_STEP_INDEX(step_id) ((step_id) & ((1 << TQ_STEP_BITS) - 1))
#define TQ_STEP_MEMBER(step_id) (TQ_STEP_COMPENSATED(step_id) >> TQ_STEP_BITS)
#define TQ_STEP_COMPENSATES(step_id) ((step_id) < 0)
#define TQ_STEP_COMPENSATED(step_id) ((step_id) &PG_INT32_MAX)
#define TQ_STEP_COMPENSATION(step_id) ((step_id) | PG_INT32_MIN)
#define TQ_STEP_ID(place, member) (((member) << TQ_STEP_BITS) | (place))

typedef enum TqStepType
{
	TQ_STEP_STANDARD,
	TQ_STEP_DECISION,
	TQ_STEP_DEFERRED,
	TQ_STEP_BATCH,
	TQ_STEP_BATCH_WORKER,
	TQ_STEP_WORKFLOW,
	TQ_STEP_SIGNAL,
	TQ_STEP_APPROVAL,
	TQ_STEP_TIMER
} TqStepType;

typedef enum TqIdentity
{
	TQ_IDENTITY_UNIQUE,
	TQ_IDENTITY_STRICT,
	TQ_IDENTITY_KEY
} TqIdentity;

typedef enum TqOnFailure
{
	TQ_ON_FAILURE_CONTINUE,
	TQ_ON_FAILURE_STOP,
	TQ_ON_FAILURE_COMPENSATE
} TqOnFailure;

/* What a dead member of a batch means for the others. */
typedef enum TqStrategy
{
	TQ_STRATEGY_FAIL_FAST,
	TQ_STRATEGY_CONTINUE,
	TQ_STRATEGY_ISOLATE
} TqStrategy;

/* Some steps, by their places. */
typedef struct TqStepList
{
	int  count;
	int *places;
} TqStepList;

/* Of a decision that the engine makes. */
typedef struct TqBranch
{
	JsonPath  *when; /* NULL: always */
	TqStepList steps;
} TqBranch;

/*
 * What a step waits for that no worker does.  Patterns are documents in which
 * {"$": path} may stand for a value.
 */
typedef struct TqWaitDefinition
{
	char  *signal;      /* of a signal, an approval: its name */
	Jsonb *after;       /* how long: a timer, the others at most */
	Jsonb *at;          /* until when: a timer */
	bool   completes;   /* when the time is up; else it fails */
	char  *role;        /* that may approve; NULL: roles that may submit */
	char  *escalate_to; /* that may, too, later; NULL: none */
	int64  escalate_after;
	char  *space; /* of a workflow, to be started */
	char  *name;
	char  *version; /* NULL: the latest */
	Jsonb *input;   /* NULL: as the instance's own */
	Jsonb *key;     /* NULL: none */
} TqWaitDefinition;

typedef struct TqStep
{
	char             *name;
	TqStepType        type;
	char             *queue;
	char             *handler; /* NULL: none */
	Jsonb            *config;  /* NULL: none */
	TqStepList        parents; /* as declared */
	TqStepList        children;
	JsonPath         *when;         /* NULL: always */
	Jsonb            *payload;      /* NULL: the instance's input */
	TqStepList        wants;        /* whose results its paths name */
	int               priority;     /* where it is given */
	bool              has_priority; /* of its own */
	int               max_attempts; /* 0: the queue's */
	TqTags            tags;
	char             *key;     /* NULL: none */
	Jsonb            *options; /* NULL: none of its own */
	bool              retryable;
	int               branch_count;
	TqBranch         *branches;
	TqStrategy        strategy;  /* of a batch */
	bool              continues; /* its children run although it is dead */
	TqWaitDefinition *wait;      /* NULL: workers do it */
	int               level;  /* 0: no parents; else behind the last of them */
	int               region; /* number of the region that it stands in */
	bool              ends;   /* the instance does not end before it does */
	TqStepList joins; /* deferred steps that its outcome decides about */

	/* what takes it back, a step that no other one knows; NULL: nothing */
	struct TqStep *compensate;
} TqStep;

/*
 * A part of the graph that is entered, or not, as a whole: what is below one
 * child of a decision, or below the members of a batch.  Region 0 is the
 * whole.
 */
typedef struct TqRegion
{
	int parent;
	int decision; /* place of the step that decides */
	int child;    /* its child: created when the region is entered */
	int depth;
} TqRegion;

typedef struct TqTemplate
{
	int32       template_id;
	char       *space;
	char       *name;
	char       *version;
	TqIdentity  identity;
	Jsonb      *input_schema; /* NULL: any input */
	TqOnFailure on_failure;
	int64       identity_window; /* or TQ_FOREVER */
	bool        has_retention;
	int64       retention; /* or TQ_FOREVER */
	char       *queue;
	int32       defined_by; /* role */
	int         step_count;
	TqStep     *steps;
	int        *order;     /* places; parents before their children */
	bool        any_key;   /* some step has one */
	bool        any_inner; /* some step waits for another instance */
	int         nesting;   /* decisions and batches below each other */
	int         region_count;
	TqRegion   *regions;
} TqTemplate;

/* Is it done by itself, when what it waits for has come? */
static inline bool
tq_step_waits(TqStepType type)
{
	return type >= TQ_STEP_WORKFLOW;
}

/* Does its result say what else there will be? */
static inline bool
tq_step_chooses(TqStepType type)
{
	return type == TQ_STEP_DECISION || type == TQ_STEP_BATCH;
}

/* What a step_id is the number of; NULL: of nothing. */
static inline const TqStep *
tq_template_at(const TqTemplate *template, int32 step_id)
{
	int place = TQ_STEP_INDEX(step_id);

	if (place >= template->step_count)
		return NULL;
	return TQ_STEP_COMPENSATES(step_id) ? template->steps[place].compensate
										: &template->steps[place];
}

#endif /* TQ_TEMPLATE_TYPES_H */

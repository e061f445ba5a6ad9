/*
 * template_types.h
 *		Templates of workflows: the contents of a definition, and the graph of
 *		its steps.
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
#define TQ_MAX_NESTING 20 /* of instances */

/*
 * The step_id of a batch member has the index of its template step in the
 * lower bits and the member's own number, from 1, above them.  A compensation
 * has the step_id of the step or member that it compensates, with the sign bit
 * set.  All step ids are smaller than PG_INT32_MAX - 2, so they never collide
 * with TQ_EDGE_END and the like.
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

/* What a dead member of a batch means for the other members. */
typedef enum TqStrategy
{
	TQ_STRATEGY_FAIL_FAST,
	TQ_STRATEGY_CONTINUE,
	TQ_STRATEGY_ISOLATE
} TqStrategy;

/* A list of step indexes. */
typedef struct TqStepList
{
	int  count;
	int *places;
} TqStepList;

/* A branch of a decision that the engine makes. */
typedef struct TqBranch
{
	JsonPath  *when; /* NULL: always */
	TqStepList steps;
} TqBranch;

/*
 * What a step without a worker waits for.  In the Jsonb members {"$": path}
 * may stand for a value.
 */
typedef struct TqWaitDefinition
{
	char  *signal;      /* name, of a signal or approval */
	Jsonb *after;       /* length of a timer, timeout of the others */
	Jsonb *at;          /* end of a timer */
	bool   completes;   /* completes on timeout; otherwise it fails */
	char  *role;        /* that may approve; NULL: roles that may submit */
	char  *escalate_to; /* role that may approve later, too; NULL: no role */
	int64  escalate_after;
	char  *space; /* namespace of the workflow to start */
	char  *name;
	char  *version; /* NULL: the latest */
	Jsonb *input;   /* NULL: the instance's own */
	Jsonb *key;     /* NULL: no key */
} TqWaitDefinition;

typedef struct TqStep
{
	char             *name;
	TqStepType        type;
	char             *queue;
	char             *handler; /* NULL: no handler */
	Jsonb            *config;  /* NULL: no config */
	TqStepList        parents; /* as declared */
	TqStepList        children;
	JsonPath         *when;         /* NULL: always */
	Jsonb            *payload;      /* NULL: the instance's input */
	TqStepList        wants;        /* steps whose results its paths name */
	int               priority;     /* valid if has_priority */
	bool              has_priority; /* has its own priority */
	int               max_attempts; /* 0: that of the queue */
	TqTags            tags;
	char             *key;     /* NULL: no key */
	Jsonb            *options; /* NULL: no options of its own */
	bool              retryable;
	int               branch_count;
	TqBranch         *branches;
	TqStrategy        strategy;  /* of a batch */
	bool              continues; /* its children run even if it is dead */
	TqWaitDefinition *wait;      /* NULL: workers do it */
	int               level;     /* 0: no parents; else above all of theirs */
	int               region;    /* number of its region */
	bool              ends;  /* the instance does not end before this step */
	TqStepList        joins; /* deferred steps that its outcome affects */

	/*
	 * its compensation, which no other step refers to; NULL: has no
	 * compensation
	 */
	struct TqStep *compensate;
} TqStep;

/*
 * A part of the graph that is entered, or not, as a whole: all steps below one
 * child of a decision, or below the members of a batch.  Region 0 is the whole
 * graph.
 */
typedef struct TqRegion
{
	int parent;
	int decision; /* index of the step that decides */
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
	int        *order;     /* step indexes; parents before their children */
	bool        any_key;   /* some step has a key */
	bool        any_inner; /* some step waits for another instance */
	int         nesting;   /* depth of nested decisions and batches */
	int         region_count;
	TqRegion   *regions;
} TqTemplate;

/*
 * Does a step of this type complete without a worker, when what it waits for
 * has arrived?
 */
static inline bool
tq_step_waits(TqStepType type)
{
	return type >= TQ_STEP_WORKFLOW;
}

/* Does the result of a step of this type choose which steps are created? */
static inline bool
tq_step_chooses(TqStepType type)
{
	return type == TQ_STEP_DECISION || type == TQ_STEP_BATCH;
}

/* The step that a step_id refers to; NULL if it refers to no step. */
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

/*
 * code.h
 *		The numbers that tables store for states and reasons.
 *
 * Rows keep these numbers, so a number is never used again for another
 * meaning.  This file is the only place that has them:
 *
 * - C uses the enums;
 * - the text of a statement in C has TQ_SQL(STATE_RUNNING);
 * - the files of sql/parts have @STATE_RUNNING@, which sql/codes.awk replaces
 *   when the install script is made.  It reads the lines that define TQ_CODE_
 *   and a name.
 *
 * A new code of a state needs a line of #define, one of the enum, and a word
 * in types.c.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CODE_H
#define TQ_CODE_H

#include "base/compat.h"

/* The digits of a code, as a string literal: " state = " TQ_SQL(STATE_DONE) */
#define TQ_SQL(name) CppAsString2(TQ_CODE_##name)

/* States of tasks: first those of live ones, then those of finished ones. */
#define TQ_CODE_STATE_NONE 0 /* in the history: before and after all others */
#define TQ_CODE_STATE_PENDING 1
#define TQ_CODE_STATE_BLOCKED 2
#define TQ_CODE_STATE_RUNNING 3
#define TQ_CODE_STATE_SUSPENDED 4
#define TQ_CODE_STATE_DONE 5
#define TQ_CODE_STATE_DEAD 6
#define TQ_CODE_STATE_CANCELLED 7
#define TQ_CODE_STATE_FILTERED 8
#define TQ_CODE_STATE_REDUNDANT 9
#define TQ_CODE_STATE_RECREATED 10

#define TQ_CODE_STATE_FIRST TQ_CODE_STATE_PENDING
#define TQ_CODE_STATE_LAST_LIVE TQ_CODE_STATE_SUSPENDED
#define TQ_CODE_STATE_FIRST_FINISHED TQ_CODE_STATE_DONE
#define TQ_CODE_STATE_LAST TQ_CODE_STATE_RECREATED

typedef enum TqState
{
	TQ_STATE_PENDING = TQ_CODE_STATE_PENDING,
	TQ_STATE_BLOCKED = TQ_CODE_STATE_BLOCKED,
	TQ_STATE_RUNNING = TQ_CODE_STATE_RUNNING,
	TQ_STATE_SUSPENDED = TQ_CODE_STATE_SUSPENDED,
	TQ_STATE_DONE = TQ_CODE_STATE_DONE,
	TQ_STATE_DEAD = TQ_CODE_STATE_DEAD,
	TQ_STATE_CANCELLED = TQ_CODE_STATE_CANCELLED,
	TQ_STATE_FILTERED = TQ_CODE_STATE_FILTERED,
	TQ_STATE_REDUNDANT = TQ_CODE_STATE_REDUNDANT,
	TQ_STATE_RECREATED = TQ_CODE_STATE_RECREATED
} TqState;

/* Reasons of the states of tasks and instances. */
#define TQ_CODE_REASON_NONE 0
#define TQ_CODE_REASON_EXHAUSTED 1
#define TQ_CODE_REASON_REJECTED 2
#define TQ_CODE_REASON_DEADLINE 3
#define TQ_CODE_REASON_WORKER_DEAD 4
#define TQ_CODE_REASON_LEASE_EXPIRED 5
#define TQ_CODE_REASON_TIMEOUT 6
#define TQ_CODE_REASON_POISON 7
#define TQ_CODE_REASON_STALE 8
#define TQ_CODE_REASON_DEPENDENCY_FAILED 9
#define TQ_CODE_REASON_DELETED 10
#define TQ_CODE_REASON_MANUAL 11
#define TQ_CODE_REASON_HELD 12
#define TQ_CODE_REASON_COMPENSATED 13
#define TQ_CODE_REASON_COMPENSATION_FAILED 14

typedef enum TqReason
{
	TQ_REASON_NONE = TQ_CODE_REASON_NONE,
	TQ_REASON_EXHAUSTED = TQ_CODE_REASON_EXHAUSTED,
	TQ_REASON_REJECTED = TQ_CODE_REASON_REJECTED,
	TQ_REASON_DEADLINE = TQ_CODE_REASON_DEADLINE,
	TQ_REASON_WORKER_DEAD = TQ_CODE_REASON_WORKER_DEAD,
	TQ_REASON_LEASE_EXPIRED = TQ_CODE_REASON_LEASE_EXPIRED,
	TQ_REASON_TIMEOUT = TQ_CODE_REASON_TIMEOUT,
	TQ_REASON_POISON = TQ_CODE_REASON_POISON,
	TQ_REASON_STALE = TQ_CODE_REASON_STALE,
	TQ_REASON_DEPENDENCY_FAILED = TQ_CODE_REASON_DEPENDENCY_FAILED,
	TQ_REASON_DELETED = TQ_CODE_REASON_DELETED,
	TQ_REASON_MANUAL = TQ_CODE_REASON_MANUAL,
	TQ_REASON_HELD = TQ_CODE_REASON_HELD,

	/* of instances of workflows only */
	TQ_REASON_COMPENSATED = TQ_CODE_REASON_COMPENSATED,
	TQ_REASON_COMPENSATION_FAILED = TQ_CODE_REASON_COMPENSATION_FAILED
} TqReason;

/* States of instances of workflows. */
#define TQ_CODE_FLOW_LIVE 0 /* the states of its steps say more */
#define TQ_CODE_FLOW_DONE 1
#define TQ_CODE_FLOW_RESOLVED 2
#define TQ_CODE_FLOW_ERROR 3
#define TQ_CODE_FLOW_CANCELLED 4
#define TQ_CODE_FLOW_COMPENSATING 5 /* has failed, and has not ended */

typedef enum TqFlowState
{
	TQ_FLOW_LIVE = TQ_CODE_FLOW_LIVE,
	TQ_FLOW_DONE = TQ_CODE_FLOW_DONE,
	TQ_FLOW_RESOLVED = TQ_CODE_FLOW_RESOLVED,
	TQ_FLOW_ERROR = TQ_CODE_FLOW_ERROR,
	TQ_FLOW_CANCELLED = TQ_CODE_FLOW_CANCELLED,
	TQ_FLOW_COMPENSATING = TQ_CODE_FLOW_COMPENSATING
} TqFlowState;

/* States of workers. */
#define TQ_CODE_WORKER_ACTIVE 1
#define TQ_CODE_WORKER_DEAD 2
#define TQ_CODE_WORKER_LABEL 3 /* claims without having registered */
#define TQ_CODE_WORKER_GONE 4  /* deregistered, or replaced */

typedef enum TqWorkerState
{
	TQ_WORKER_ACTIVE = TQ_CODE_WORKER_ACTIVE,
	TQ_WORKER_DEAD = TQ_CODE_WORKER_DEAD,
	TQ_WORKER_LABEL = TQ_CODE_WORKER_LABEL,
	TQ_WORKER_GONE = TQ_CODE_WORKER_GONE
} TqWorkerState;

#endif /* TQ_CODE_H */

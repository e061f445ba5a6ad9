/*
 * types.h
 *		The words of the extension: states, reasons, rights, limits.
 *
 * The numbers are stored in tables; they are never used again for another
 * meaning.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TYPES_H
#define TQ_TYPES_H

#include "base/compat.h"

typedef enum TqState
{
	TQ_STATE_PENDING = 1,
	TQ_STATE_BLOCKED = 2,
	TQ_STATE_RUNNING = 3,
	TQ_STATE_SUSPENDED = 4,
	TQ_STATE_DONE = 5,
	TQ_STATE_DEAD = 6,
	TQ_STATE_CANCELLED = 7,
	TQ_STATE_FILTERED = 8,
	TQ_STATE_REDUNDANT = 9,
	TQ_STATE_RECREATED = 10
} TqState;

#define TQ_STATE_FIRST TQ_STATE_PENDING
#define TQ_STATE_LAST TQ_STATE_RECREATED
#define TQ_STATE_IS_VALID(s) ((s) >= TQ_STATE_FIRST && (s) <= TQ_STATE_LAST)
#define TQ_STATE_IS_LIVE(s) ((s) <= TQ_STATE_SUSPENDED)

/* What a submit does to earlier tasks of its key. */
typedef enum TqInsertion
{
	TQ_INSERTION_APPEND,
	TQ_INSERTION_SUPERSEDE,
	TQ_INSERTION_REPLACE,
	TQ_INSERTION_DELETE
} TqInsertion;

typedef enum TqReason
{
	TQ_REASON_NONE = 0,
	TQ_REASON_EXHAUSTED = 1,
	TQ_REASON_REJECTED = 2,
	TQ_REASON_DEADLINE = 3,
	TQ_REASON_WORKER_DEAD = 4,
	TQ_REASON_LEASE_EXPIRED = 5,
	TQ_REASON_TIMEOUT = 6,
	TQ_REASON_POISON = 7,
	TQ_REASON_STALE = 8,
	TQ_REASON_DEPENDENCY_FAILED = 9,
	TQ_REASON_DELETED = 10,
	TQ_REASON_MANUAL = 11,
	TQ_REASON_HELD = 12,

	/* of instances of workflows only */
	TQ_REASON_COMPENSATED = 13,
	TQ_REASON_COMPENSATION_FAILED = 14
} TqReason;

#define TQ_REASON_LAST TQ_REASON_HELD /* of tasks */

typedef enum TqRight
{
	TQ_RIGHT_SUBMIT = 1,
	TQ_RIGHT_WORK = 2,
	TQ_RIGHT_READ = 4,
	TQ_RIGHT_MANAGE = 8
} TqRight;

#define TQ_RIGHT_ALL 15

/* Limits of the contract, in bytes where nothing else is said. */
#define TQ_MAX_NAME 200
#define TQ_MAX_KEY 500
#define TQ_MAX_TAG 63
#define TQ_MAX_TAGS 16         /* tags */
#define TQ_MAX_SMALL_DOC 65536 /* headers, detail, info */
#define TQ_MAX_ERROR_TEXT 8192
#define TQ_MAX_CLAIM 100000                            /* tasks of one claim */
#define TQ_MAX_SPAN (INT64CONST(3653) * USECS_PER_DAY) /* 10 years */

extern const char *tq_state_name(TqState state);
extern bool        tq_state_parse(const char *word, TqState *state);
extern const char *tq_state_words(void);
extern bool tq_insertion_parse(const char *word, TqInsertion *insertion);
extern const char *tq_reason_name(TqReason reason);
extern const char *tq_reason_words(void);
extern bool        tq_reason_parse(const char *word, TqReason *reason);

#endif /* TQ_TYPES_H */

/*
 * types.h
 *		States, reasons, rights and limits of the extension.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TYPES_H
#define TQ_TYPES_H

#include "base/compat.h"

#include "base/code.h"

#define TQ_STATE_FIRST TQ_CODE_STATE_FIRST
#define TQ_STATE_LAST TQ_CODE_STATE_LAST
#define TQ_STATE_IS_VALID(s) ((s) >= TQ_STATE_FIRST && (s) <= TQ_STATE_LAST)
#define TQ_STATE_IS_LIVE(s) ((s) <= TQ_CODE_STATE_LAST_LIVE)

/* What a submit does to earlier tasks of its key. */
typedef enum TqInsertion
{
	TQ_INSERTION_APPEND,
	TQ_INSERTION_SUPERSEDE,
	TQ_INSERTION_REPLACE,
	TQ_INSERTION_DELETE
} TqInsertion;

#define TQ_REASON_LAST TQ_REASON_HELD /* of tasks */

typedef enum TqRight
{
	TQ_RIGHT_SUBMIT = 1,
	TQ_RIGHT_WORK = 2,
	TQ_RIGHT_READ = 4,
	TQ_RIGHT_MANAGE = 8,
	TQ_RIGHT_OBSERVE = 16 /* every reader has it, too */
} TqRight;

#define TQ_RIGHT_ALL 31

/* Limits of the contract, in bytes unless noted otherwise. */
#define TQ_MAX_NAME 200
#define TQ_MAX_KEY 500
#define TQ_MAX_TAG 63
#define TQ_MAX_TAGS 16         /* tags */
#define TQ_MAX_SMALL_DOC 65536 /* headers, detail, info */
#define TQ_MAX_ERROR_TEXT 8192
#define TQ_MAX_LIST 1000000                            /* entries of a list */
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

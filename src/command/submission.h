/*
 * submission.h
 *		The caller's description of a task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBMISSION_H
#define TQ_SUBMISSION_H

#include "base/compat.h"

#include "fmgr.h"
#include "utils/jsonb.h"

#include "base/arg.h"
#include "base/types.h"
#include "cache/queue.h"
#include "store/task.h"

typedef enum TqOnConflict
{
	TQ_CONFLICT_ERROR,
	TQ_CONFLICT_RETURN,
	TQ_CONFLICT_SKIP,
	TQ_CONFLICT_UPDATE,
	TQ_CONFLICT_MERGE
} TqOnConflict;

/* The arguments of one call, without the payload. */
typedef struct TqSubmission
{
	char        *queue_name;
	TqQueue     *queue;
	int          priority;
	int          max_attempts;
	TimestampTz  run_at; /* 0: now */
	bool         has_deadline;
	TimestampTz  deadline;
	TqTags       tags;
	char        *key;
	TqInsertion  insertion;
	char        *reference;
	TqOnConflict on_conflict;
	Jsonb       *headers;
	char        *correlation_id;
	bytea       *data;
	bool         suspended;
	Jsonb       *options; /* of the task itself */
	int32        role_id;
	int32        run_as; /* 0: that role */
	int64        lane_id;
	bool         likely_taken; /* finished tasks keep their references */
	bool         any_depth;    /* max_depth does not apply */
	bool         dead_letter;  /* a copy of a dead task */
	bool         of_step;      /* its payload is known later */
	bool         holder_stays; /* while an open transaction removes it */
	bool         by_hand;      /* a manual change creates it */
	const char  *message;      /* of that change, or NULL */
	int64        task_id;      /* 0: assigned later */
} TqSubmission;

/* Positions of arguments of taskq_submit and taskq_submit_many. */
typedef enum TqSubmitArg
{
	TQ_SUBMIT_QUEUE,
	TQ_SUBMIT_PAYLOAD,
	TQ_SUBMIT_PRIORITY,
	TQ_SUBMIT_RUN_AT,
	TQ_SUBMIT_DELAY,
	TQ_SUBMIT_DEADLINE,
	TQ_SUBMIT_MAX_ATTEMPTS,
	TQ_SUBMIT_TAGS,
	TQ_SUBMIT_KEY,
	TQ_SUBMIT_REFERENCE,
	TQ_SUBMIT_ON_CONFLICT,
	TQ_SUBMIT_HEADERS,
	TQ_SUBMIT_CORRELATION_ID,
	TQ_SUBMIT_DATA,
	TQ_SUBMIT_INSERTION,
	TQ_SUBMIT_SUSPENDED,
	TQ_SUBMIT_OPTIONS,
	TQ_SUBMIT_COUNT
} TqSubmitArg;

/*
 * What objects with the names of these arguments describe, for errors and
 * hints.
 */
typedef struct TqEntryKind
{
	const char *list;   /* the list that contains such objects */
	const char *others; /* members that the caller reads itself, or NULL */
	uint32 refused; /* a bit for each TqSubmitArg that the caller refuses */
} TqEntryKind;

extern void tq_submission_read(FunctionCallInfo fcinfo, TqSubmission *sub,
							   const char *default_queue);
extern void tq_submission_resolve(FunctionCallInfo fcinfo, TqSubmission *sub);
extern void tq_submission_read_entry(FunctionCallInfo inner, JsonbValue *entry,
									 const TqEntryKind *kind, bool *named);
extern Jsonb      *tq_submission_carried(TqSubmission *sub, TqTask *origin);
extern Jsonb      *tq_submission_again(TqSubmission *sub, TqQueue *queue,
									   TqTask *origin);
extern TqInsertion tq_submission_insertion(FunctionCallInfo fcinfo, int n);
extern void tq_submission_check_size(const TqQueue *queue, const char *what,
									 int64 size);

#endif /* TQ_SUBMISSION_H */

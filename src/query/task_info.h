/*
 * task_info.h
 *		Tasks as readers see them: rows of taskq.task_info.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_INFO_H
#define TQ_TASK_INFO_H

#include "query/visibility.h"
#include "store/task.h"

/* The columns of taskq.task_info, followed by those that only views use. */
typedef enum TqInfoColumn
{
	TQ_INFO_TASK_ID,
	TQ_INFO_QUEUE,
	TQ_INFO_STATE,
	TQ_INFO_REASON,
	TQ_INFO_MESSAGE,
	TQ_INFO_PRIORITY,
	TQ_INFO_ATTEMPT,
	TQ_INFO_MAX_ATTEMPTS,
	TQ_INFO_TOKEN,
	TQ_INFO_VERSION,
	TQ_INFO_KEY,
	TQ_INFO_REFERENCE,
	TQ_INFO_TAGS,
	TQ_INFO_PAYLOAD,
	TQ_INFO_DATA,
	TQ_INFO_HEADERS,
	TQ_INFO_CORRELATION_ID,
	TQ_INFO_RESULT,
	TQ_INFO_ERROR,
	TQ_INFO_ERRORS,
	TQ_INFO_CHECKPOINT,
	TQ_INFO_PROGRESS,
	TQ_INFO_WORKER,
	TQ_INFO_CREATED_AT,
	TQ_INFO_RUN_AT,
	TQ_INFO_DEADLINE,
	TQ_INFO_CLAIMED_AT,
	TQ_INFO_LEASE_UNTIL,
	TQ_INFO_FINISHED_AT,
	TQ_INFO_CANCEL_REQUESTED_AT,
	TQ_INFO_SUBMITTED_BY,
	TQ_INFO_RUN_AS,
	TQ_INFO_DESCENT,
	TQ_INFO_RECREATED_AS,
	TQ_INFO_WORKFLOW_ID,
	TQ_INFO_STEP,
	TQ_INFO_WORKER_SEEN, /* only of taskq.task_scan */
	TQ_INFO_PROGRESS_MESSAGE
} TqInfoColumn;

#define TQ_SCAN_COLUMNS (TQ_INFO_PROGRESS_MESSAGE + 1)

/* State kept between rows. */
typedef struct TqInfo
{
	TqVisibility sight;
	bool         wanted[TQ_SCAN_COLUMNS];
	HTAB        *names; /* of workers and roles */
} TqInfo;

extern void tq_task_info_begin(TqInfo *info);
extern void tq_task_info_row(TqInfo *info, TqTask *task, Datum *values,
							 bool *nulls);

#endif /* TQ_TASK_INFO_H */

/*
 * task.h
 *		A task in memory, and its columns.
 *
 * The fixed part of a row of taskq.task and taskq.archive has the layout of
 * TqTaskFixed; sql/parts/18_task.sql and 20_archive.sql have the same order.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_H
#define TQ_TASK_H

#include "access/htup.h"
#include "datatype/timestamp.h"
#include "storage/itemptr.h"

#include "base/code.h"
#include "shared/position.h"

/*
 * SQL: is this row of taskq.archive_keep a dead task that holds its key?
 */
#define TQ_HOLDS_KEY(row)                                                     \
	"(" row ".state = " TQ_SQL_STATE_DEAD " AND " row                         \
	".reason <> " TQ_SQL_REASON_POISON " AND " row ".key IS NOT NULL"         \
	" AND " row ".queue_id = ANY (ARRAY("                                     \
	"  SELECT q.queue_id FROM taskq.queue q"                                  \
	"    LEFT JOIN taskq.queue d ON d.queue_id = 0"                           \
	"   WHERE coalesce(q.options ->> 'key_policy',"                           \
	"                  d.options ->> 'key_policy')"                           \
	"         IN ('serial_hold_on_failure', 'serial_until_success'))))"

typedef struct TqTaskFixed
{
	int64       task_id;
	int64       lane_id;
	TimestampTz available_at; /* DT_NOEND: blocked or suspended */
	/* changed by a claim */
	int64       token;
	int64       version;
	TimestampTz claimed_at;  /* DT_NOBEGIN: not claimed */
	TimestampTz lease_until; /* DT_NOEND: no lease */
	int32       worker_id;   /* 0: none */
	int32       claimed_by;  /* of a step: the role; 0: none */
	int32       attempt;
	int16       state;
	/* up to here */
	int16 priority;
	int32 queue_id;
	int32 max_attempts;
	int32 submitted_by;
	int16 reason;
	int16 flags;
} TqTaskFixed;

/*
 * Columns that most tasks do not store: null stands for the value that they
 * have in most tasks, which follows from the fixed part.
 */
typedef struct TqTaskImplied
{
	TimestampTz run_at;     /* null: available_at */
	TimestampTz created_at; /* null: available_at */
	int32       run_as;     /* null: submitted_by */
	int16       descent;    /* null: 0 */
	int16       large;      /* null: 0; bits of TqLargePart */
} TqTaskImplied;

/* Column numbers, from 1. */
typedef enum TqColumn
{
	TQ_COL_TASK_ID = 1,
	TQ_COL_LANE_ID,
	TQ_COL_AVAILABLE_AT,
	TQ_COL_TOKEN,
	TQ_COL_VERSION,
	TQ_COL_CLAIMED_AT,
	TQ_COL_LEASE_UNTIL,
	TQ_COL_WORKER_ID,
	TQ_COL_CLAIMED_BY,
	TQ_COL_ATTEMPT,
	TQ_COL_STATE,
	TQ_COL_PRIORITY,
	TQ_COL_QUEUE_ID,
	TQ_COL_MAX_ATTEMPTS,
	TQ_COL_SUBMITTED_BY,
	TQ_COL_REASON,
	TQ_COL_FLAGS,
	TQ_COL_PAYLOAD,
	TQ_COL_DATA,
	TQ_COL_HEADERS,
	TQ_COL_RESULT,
	TQ_COL_CHECKPOINT,
	TQ_COL_ERRORS,
	TQ_COL_MESSAGE,
	TQ_COL_RUN_AT,
	TQ_COL_CREATED_AT,
	TQ_COL_RUN_AS,
	TQ_COL_DESCENT,
	TQ_COL_LARGE,
	TQ_COL_DEADLINE,
	TQ_COL_WAKE_AT,
	TQ_COL_CANCEL_REQUESTED_AT,
	TQ_COL_SUSPENDED_AT,
	TQ_COL_WORKFLOW_ID,
	TQ_COL_STEP_ID,
	TQ_COL_REFERENCE,
	TQ_COL_KEY,
	TQ_COL_CORRELATION_ID,
	TQ_COL_TAGS,
	TQ_COL_OPTIONS,
	TQ_COL_BUCKET, /* the following only in the archive */
	TQ_COL_FINISHED_AT,
	TQ_COL_EXPIRES_AT,
	TQ_COL_RECREATED_AS
} TqColumn;

#define TQ_IS_IMPLIED(col) ((col) >= TQ_COL_RUN_AT && (col) <= TQ_COL_LARGE)
#define TQ_TASK_COLUMNS TQ_COL_OPTIONS
#define TQ_ARCHIVE_COLUMNS TQ_COL_RECREATED_AS
#define TQ_HISTORY_COLUMNS 14 /* of taskq.transition */
#define TQ_FIRST_VAR TQ_COL_PAYLOAD

/* Size of the fixed part in a row: the struct may end with padding. */
#define TQ_FIXED_SIZE (offsetof(TqTaskFixed, flags) + sizeof(int16))

/*
 * Columns that may be stored in taskq.large: part = column - TQ_COL_PAYLOAD.
 */
#define TQ_FIRST_LARGE TQ_COL_PAYLOAD
#define TQ_LAST_LARGE TQ_COL_MESSAGE
#define TQ_LARGE_BIT(col) ((int16) (1 << ((col) -TQ_FIRST_LARGE)))

/* SQL: implied columns of a row */
#define TQ_SQL_RUN_AT "coalesce(run_at, available_at)"
#define TQ_SQL_CREATED_AT "coalesce(created_at, available_at)"

#define TQ_FLAG_WORKER_DIED 1 /* its worker died */
#define TQ_FLAG_DEAD_LETTER 2 /* a copy of a dead task */
#define TQ_FLAG_SUSPENDED 4   /* was submitted suspended */
#define TQ_FLAG_IN_LINE 8     /* blocked by other tasks of its key */
#define TQ_FLAG_INPUT 16      /* its payload is the workflow's input */
#define TQ_FLAG_WANTED 32     /* a step: wanted, whatever its condition */
#define TQ_FLAG_PAYLOAD 64    /* a step: its payload was changed and is kept */
#define TQ_FLAG_WAITED 128    /* a step: it has waited without a worker */
#define TQ_FLAG_REASON_SHIFT 8 /* the reason of a dead task that is poison */
#define TQ_FLAG_REASONS (15 << TQ_FLAG_REASON_SHIFT)
#define TQ_FLAG_CRASH (1 << 12) /* counts crashes in a row, in two bits */
#define TQ_FLAG_CRASHES (3 << 12)
#define TQ_FLAG_SQL (1 << 14) /* run_as decided SQL that an executor runs */

/*
 * Columns after the fixed part are Datums, indexed by column; their values are
 * in the memory context in which the task was read.  For columns from
 * TQ_FIRST_LARGE on a bit of i.large says that the value is in taskq.large
 * (and null here): use tq_large_get.
 *
 * While the columns after the fixed part are unchanged, image is the row from
 * which they were read, and a write changes only its fixed part.
 */
typedef struct TqTask
{
	TqTaskFixed     f;
	TqTaskImplied   i; /* what the columns mean; a write stores them */
	Datum           value[TQ_ARCHIVE_COLUMNS + 1];
	bool            isnull[TQ_ARCHIVE_COLUMNS + 1];
	int16           large_dropped; /* parts to be removed from taskq.large */
	int16           large_moved;   /* parts to be written to it: */
	Datum           moved[TQ_LAST_LARGE - TQ_FIRST_LARGE + 1];
	bool            archived;
	bool            new_message; /* set since the row was read */
	bool            by_hand;     /* what happens to it is a manual change */
	HeapTuple       image;       /* of a live task; NULL: must be formed */
	ItemPointerData tid;         /* location of a live task when read */
	bool            stood;       /* it was pending when read, at: */
	TqLanePosition  place;
	bool            was_retry;    /* it stood there after an attempt */
	int32           queue_before; /* when read */
	Datum           key_before;   /* when read; NULL for none */
} TqTask;

#define TQ_TASK_TIME(task, col, if_null)                                      \
	((task)->isnull[col] ? (if_null) : DatumGetTimestampTz((task)->value[col]))

/* Remember the position of the task. */
static inline void
tq_task_note_position(TqTask *task)
{
	task->stood = task->f.state == TQ_STATE_PENDING;
	task->was_retry = task->stood && task->f.attempt > 0;
	if (task->stood)
	{
		task->place.lane_id = task->f.lane_id;
		task->place.available_at = task->f.available_at;
		task->place.task_id = task->f.task_id;
		task->place.queue_id = task->f.queue_id;
		task->place.priority = task->f.priority;
	}
}

static inline void
tq_task_set(TqTask *task, TqColumn col, Datum value)
{
	task->value[col] = value;
	task->isnull[col] = false;
	task->image = NULL;
}

static inline void
tq_task_clear(TqTask *task, TqColumn col)
{
	if (task->isnull[col])
		return;
	task->value[col] = (Datum) 0;
	task->isnull[col] = true;
	task->image = NULL;
}

#endif /* TQ_TASK_H */

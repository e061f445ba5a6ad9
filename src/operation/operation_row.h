/*
 * operation_row.h
 *		Rows of taskq.operation.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OPERATION_ROW_H
#define TQ_OPERATION_ROW_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "utils/jsonb.h"

#include "command/manage.h"

typedef enum TqOperationState
{
	TQ_OPERATION_PENDING,
	TQ_OPERATION_RUNNING,
	TQ_OPERATION_PAUSED,
	TQ_OPERATION_DONE,
	TQ_OPERATION_CANCELLED,
	TQ_OPERATION_FAILED
} TqOperationState;

#define TQ_OPERATION_HAS_ENDED(op) ((op)->state >= TQ_OPERATION_DONE)

typedef struct TqOperation
{
	int64    operation_id;
	char    *action_word;
	TqAction action;
	int32    queue_id;
	char    *queue;
	Jsonb   *filter; /* NULL: none */
	int32    role_id;
	char    *actor;  /* or NULL */
	char    *reason; /* or NULL */
	bool     dry_run;
	int      batch_size;

	/* what the call fixed */
	int64       last_id;
	TimestampTz called_at;
	TimestampTz called_at_dispatch;
	int64       xid_before;
	int64       system_id;

	/* what batches change */
	TqOperationState state;
	int64            counted;
	int64            done;
	int64            refused;
	Jsonb           *examples;
	int64            examined;
	int64            position;
	TimestampTz      due_at; /* dispatch clock; DT_NOEND: never */
	int              tries;
	int              waits;
	char            *error; /* or NULL */
} TqOperation;

extern int64       tq_operation_row_add(TqOperation *op);
extern bool        tq_operation_row_find(int64 operation_id, TqOperation *op);
extern bool        tq_operation_row_due(int64 after, TimestampTz now,
										TqOperation *op);
extern void        tq_operation_row_write(const TqOperation *op, bool batch);
extern TimestampTz tq_operation_row_next_due(void);
extern int64       tq_operation_row_count_live(void);
extern int64 tq_operation_row_sweep(int64 keep, TimestampTz before, int limit);

#endif /* TQ_OPERATION_ROW_H */

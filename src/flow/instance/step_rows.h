/*
 * step_rows.h
 *		Finds the tasks of an instance by their step ids.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_ROWS_H
#define TQ_STEP_ROWS_H

#include "access/relscan.h"

#include "store/table.h"
#include "store/task.h"

/* An open scan of the index of live tasks by instance and step. */
typedef struct TqStepRows
{
	TqCall       *call;
	int64         workflow_id;
	IndexScanDesc scan;
} TqStepRows;

extern void tq_step_rows_begin(TqStepRows *rows, TqCall *call,
							   int64 workflow_id);
extern void tq_step_rows_end(TqStepRows *rows);
extern bool tq_step_rows_find(TqStepRows *rows, int32 step_id, TqTask *task);
extern bool tq_step_rows_is_made(TqStepRows *rows, int32 step_id,
								 TransactionId *other);

#endif /* TQ_STEP_ROWS_H */

/*
 * row_image.h
 *		Conversion between the server's row of a task and its columns.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ROW_IMAGE_H
#define TQ_ROW_IMAGE_H

#include "access/tupdesc.h"
#include "executor/tuptable.h"

#include "store/task.h"

extern void tq_row_image_implied(TupleTableSlot *slot, const TqTaskFixed *row,
								 TqTaskImplied *implied);
extern void tq_row_image_put_implied(TqTask *task);
extern HeapTuple tq_row_image_form(const TqTask *task, TupleDesc desc);
extern void tq_row_image_read(HeapTuple tuple, TupleDesc desc, TqTask *task);

#endif /* TQ_ROW_IMAGE_H */

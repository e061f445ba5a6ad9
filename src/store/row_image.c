/*
 * row_image.c
 *		Conversion between the server's row of a task and its columns.
 *
 * The first columns of taskq.task and of the archive have fixed length, are
 * never null, and have the same layout in a row as in TqTaskFixed, so they are
 * copied together.  For the server's heap_form_tuple they are one column of
 * that length, before the others; afterwards the row gets its real number of
 * columns, and its null bitmap one bit for each of them.
 *
 * Nulls at the end of a row are not stored if it has no others, so that a row
 * needs no null bitmap: that of a task with a payload and nothing else.  To
 * the server it looks like a row from before the other columns were added.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/tupmacs.h"
#include "utils/memutils.h"

#include "store/row_image.h"

#define FIXED_COLUMNS (TQ_FIRST_VAR - 1)
#define VAR_COLUMNS (TQ_ARCHIVE_COLUMNS - FIXED_COLUMNS)

/* Length of the header of a row with nulls; BITMAPLEN is not constant. */
#define HEAD_LENGTH(columns)                                                  \
	MAXALIGN(SizeofHeapTupleHeader + ((columns) + 7) / 8)

StaticAssertDecl(HEAD_LENGTH(1 + TQ_TASK_COLUMNS - FIXED_COLUMNS) ==
						 HEAD_LENGTH(TQ_TASK_COLUMNS) &&
					 HEAD_LENGTH(1 + VAR_COLUMNS) ==
						 HEAD_LENGTH(TQ_ARCHIVE_COLUMNS),
				 "the null bitmap of a row does not fit into its padding");
StaticAssertDecl(TQ_ARCHIVE_COLUMNS <= 64,
				 "the null bitmap of a row does not fit into 64 bits");

static void      put_implied(TqTask *task, TqColumn col, bool is_default,
							 Datum value);
static int       stored_columns(const TqTask *task, int columns);
static void      read_implied(TqTask *task);
static TupleDesc short_desc(TupleDesc desc, int columns);
static void      widen_nulls(HeapTupleHeader header, int columns);

/*
 * Set the columns of the implied part.  The image of the row is of no use if
 * one of them changes, as when available_at does and created_at does not.
 */
void
tq_row_image_put_implied(TqTask *task)
{
	const TqTaskImplied *i = &task->i;

	put_implied(task, TQ_COL_RUN_AT, i->run_at == task->f.available_at,
				TimestampTzGetDatum(i->run_at));
	put_implied(task, TQ_COL_CREATED_AT, i->created_at == task->f.available_at,
				TimestampTzGetDatum(i->created_at));
	put_implied(task, TQ_COL_RUN_AS, i->run_as == task->f.submitted_by,
				Int32GetDatum(i->run_as));
	put_implied(task, TQ_COL_DESCENT, i->descent == TQ_STATE_NONE,
				Int16GetDatum(i->descent));
	put_implied(task, TQ_COL_LARGE, i->large == 0, Int16GetDatum(i->large));
}

static void
put_implied(TqTask *task, TqColumn col, bool is_default, Datum value)
{
	if (is_default)
		tq_task_clear(task, col);
	else if (task->isnull[col] || task->value[col] != value)
		tq_task_set(task, col, value);
}

/* Form the row, in the current memory context. */
HeapTuple
tq_row_image_form(const TqTask *task, TupleDesc desc)
{
	int       columns = stored_columns(task, desc->natts);
	Datum     values[1 + VAR_COLUMNS];
	bool      nulls[1 + VAR_COLUMNS];
	HeapTuple tuple;

	values[0] = PointerGetDatum(&task->f);
	nulls[0] = false;
	memcpy(&values[1], &task->value[TQ_FIRST_VAR],
		   sizeof(Datum) * (columns - FIXED_COLUMNS));
	memcpy(&nulls[1], &task->isnull[TQ_FIRST_VAR],
		   sizeof(bool) * (columns - FIXED_COLUMNS));
	tuple = heap_form_tuple(short_desc(desc, columns), values, nulls);
	widen_nulls(tuple->t_data, columns);
	return tuple;
}

/*
 * The number of columns to store: up to the last one that is not null if all
 * before it are not null either, else all.
 */
static int
stored_columns(const TqTask *task, int columns)
{
	int col = TQ_FIRST_VAR;
	int last;

	while (col <= columns && !task->isnull[col])
		col++;
	last = col - 1;
	while (col <= columns && task->isnull[col])
		col++;
	return col > columns ? last : columns;
}

/*
 * Read the columns of a row, which must stay in place; the columns of the
 * fixed part are only there.  Columns that the row does not have are null.
 */
void
tq_row_image_read(HeapTuple tuple, TupleDesc desc, TqTask *task)
{
	HeapTupleHeader header = tuple->t_data;
	char           *data = (char *) header + header->t_hoff;
	bool            has_nulls = HeapTupleHasNulls(tuple);
	int    columns = Min(HeapTupleHeaderGetNatts(header), desc->natts);
	uint32 offset = TQ_FIXED_SIZE;

	memcpy(&task->f, data, TQ_FIXED_SIZE);
	memset(task->isnull, true, sizeof(task->isnull));
	for (int col = TQ_FIRST_VAR; col <= columns; col++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, col - 1);

		if (has_nulls && att_isnull(col - 1, header->t_bits))
			continue;
		offset = att_align_pointer(offset, att->attalign, att->attlen,
								   data + offset);
		task->value[col] = fetchatt(att, data + offset);
		task->isnull[col] = false;
		offset = att_addlength_pointer(offset, att->attlen, data + offset);
	}
	read_implied(task);
}

/* The implied columns of a row, whose fixed part is known, in a slot. */
void
tq_row_image_implied(TupleTableSlot *slot, const TqTaskFixed *row,
					 TqTaskImplied *implied)
{
	bool  isnull;
	Datum value;

	value = slot_getattr(slot, TQ_COL_RUN_AT, &isnull);
	implied->run_at = isnull ? row->available_at : DatumGetTimestampTz(value);
	value = slot_getattr(slot, TQ_COL_CREATED_AT, &isnull);
	implied->created_at = isnull ? row->available_at
								 : DatumGetTimestampTz(value);
	value = slot_getattr(slot, TQ_COL_RUN_AS, &isnull);
	implied->run_as = isnull ? row->submitted_by : DatumGetInt32(value);
	value = slot_getattr(slot, TQ_COL_DESCENT, &isnull);
	implied->descent = isnull ? TQ_STATE_NONE : DatumGetInt16(value);
	value = slot_getattr(slot, TQ_COL_LARGE, &isnull);
	implied->large = isnull ? 0 : DatumGetInt16(value);
}

static void
read_implied(TqTask *task)
{
#define VALUE_OR(col, get, if_null)                                           \
	(task->isnull[col] ? (if_null) : get(task->value[col]))
	TqTaskImplied *i = &task->i;

	i->run_at =
		VALUE_OR(TQ_COL_RUN_AT, DatumGetTimestampTz, task->f.available_at);
	i->created_at =
		VALUE_OR(TQ_COL_CREATED_AT, DatumGetTimestampTz, task->f.available_at);
	i->run_as = VALUE_OR(TQ_COL_RUN_AS, DatumGetInt32, task->f.submitted_by);
	i->descent = VALUE_OR(TQ_COL_DESCENT, DatumGetInt16, 0);
	i->large = VALUE_OR(TQ_COL_LARGE, DatumGetInt16, 0);
#undef VALUE_OR
}

/*
 * The first columns of the table, with the fixed part as one column; built
 * once, since types and lengths never change.
 */
static TupleDesc
short_desc(TupleDesc desc, int columns)
{
	static TupleDesc made[2][1 + TQ_ARCHIVE_COLUMNS];
	bool             archived = desc->natts == TQ_ARCHIVE_COLUMNS;
	TupleDesc        result;
	MemoryContext    mine;

	/* the tables are from another version of the extension */
	if (!archived && desc->natts != TQ_TASK_COLUMNS)
		elog(ERROR, "a table of tasks has %d columns", desc->natts);
	if (made[archived][columns] != NULL)
		return made[archived][columns];
	mine = MemoryContextSwitchTo(TopMemoryContext);
	result = CreateTemplateTupleDesc(1 + columns - FIXED_COLUMNS);
	TupleDescCopyEntry(result, 1, desc, TQ_COL_TASK_ID);
	tq_compat_set_length(result, 1, TQ_FIXED_SIZE);
	for (int col = TQ_FIRST_VAR; col <= columns; col++)
		TupleDescCopyEntry(result, col - FIXED_COLUMNS + 1, desc, col);
	MemoryContextSwitchTo(mine);
	made[archived][columns] = result;
	return result;
}

/* Replace the bit of the combined column by one for each fixed column. */
static void
widen_nulls(HeapTupleHeader header, int columns)
{
	int    formed = HeapTupleHeaderGetNatts(header);
	uint64 bits = 0;

	HeapTupleHeaderSetNatts(header, columns);
	if ((header->t_infomask & HEAP_HASNULL) == 0)
		return;
	for (int i = 0; i < BITMAPLEN(formed); i++)
		bits |= (uint64) header->t_bits[i] << (8 * i);
	bits = (bits >> 1 << FIXED_COLUMNS) |
		   ((UINT64CONST(1) << FIXED_COLUMNS) - 1);
	for (int i = 0; i < BITMAPLEN(columns); i++)
		header->t_bits[i] = (bits8) (bits >> (8 * i));
}

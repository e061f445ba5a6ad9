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

static TupleDesc short_desc(TupleDesc desc);
static void      widen_nulls(HeapTupleHeader header, int columns);

/* Form the row, in the current memory context. */
HeapTuple
tq_row_image_form(const TqTask *task, TupleDesc desc)
{
	Datum     values[1 + VAR_COLUMNS];
	bool      nulls[1 + VAR_COLUMNS];
	HeapTuple tuple;

	values[0] = PointerGetDatum(&task->f);
	nulls[0] = false;
	memcpy(&values[1], &task->value[TQ_FIRST_VAR],
		   sizeof(Datum) * (desc->natts - FIXED_COLUMNS));
	memcpy(&nulls[1], &task->isnull[TQ_FIRST_VAR],
		   sizeof(bool) * (desc->natts - FIXED_COLUMNS));
	tuple = heap_form_tuple(short_desc(desc), values, nulls);
	widen_nulls(tuple->t_data, desc->natts);
	return tuple;
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
}

/*
 * The table's columns with the fixed part as one column; built once for live
 * tasks and once for the archive, since types and lengths never change.
 */
static TupleDesc
short_desc(TupleDesc desc)
{
	static TupleDesc made[2] = {NULL, NULL};
	TupleDesc       *place = &made[desc->natts == TQ_ARCHIVE_COLUMNS];
	TupleDesc        result;
	MemoryContext    mine;

	/* the tables are from another version of the extension */
	if (desc->natts != TQ_TASK_COLUMNS && desc->natts != TQ_ARCHIVE_COLUMNS)
		elog(ERROR, "a table of tasks has %d columns", desc->natts);
	if (*place != NULL)
		return *place;
	mine = MemoryContextSwitchTo(TopMemoryContext);
	result = CreateTemplateTupleDesc(1 + desc->natts - FIXED_COLUMNS);
	TupleDescCopyEntry(result, 1, desc, TQ_COL_TASK_ID);
	tq_compat_set_length(result, 1, TQ_FIXED_SIZE);
	for (int col = TQ_FIRST_VAR; col <= desc->natts; col++)
		TupleDescCopyEntry(result, col - FIXED_COLUMNS + 1, desc, col);
	MemoryContextSwitchTo(mine);
	*place = result;
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

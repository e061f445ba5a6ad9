/*
 * large.c
 *		Columns of a task that do not fit into its row.
 *
 * A task's row is small, so that its page has room for the next version of it.
 * If the columns of a row would take more than ROW_LIMIT bytes, the largest of
 * payload, data, headers, result, checkpoint, errors and message are moved
 * into rows of taskq.large, one by one, until the rest fits.  A bit in the
 * task's column large records that; neither a claim nor the move to the
 * archive touches those rows.
 *
 * tq_large_put and tq_large_drop change a column in memory; tq_large_plan
 * makes the row small enough, and tq_large_write writes the parts, after the
 * task's own row, since only then it is certain that this transaction owns the
 * task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/spi.h"
#include "store/large.h"

#define ROW_LIMIT 1900
#define ROW_FIXED 144 /* header, null bitmap, fixed and implied columns */

static TqStmt stmt_store = {
	"INSERT INTO taskq.large (task_id, part, doc, raw)"
	" VALUES ($1, $2::smallint, $3, $4)"
	" ON CONFLICT (task_id, part)"
	" DO UPDATE SET doc = excluded.doc, raw = excluded.raw",
	{INT8OID, INT4OID, JSONBOID, BYTEAOID}};

static TqStmt stmt_get = {"SELECT doc, raw FROM taskq.large"
						  " WHERE task_id = $1 AND part = $2::smallint",
						  {INT8OID, INT4OID}};

static TqStmt stmt_drop = {
	"DELETE FROM taskq.large WHERE task_id = $1 AND part = $2::smallint",
	{INT8OID, INT4OID}};

static TqStmt stmt_drop_all = {"DELETE FROM taskq.large WHERE task_id = $1",
							   {INT8OID}};

static bool get(TqTask *task, TqColumn col, Datum *value, bool fresh);
static bool is_raw(TqColumn col);
static Size width_of(const TqTask *task, TqColumn col);
static void move_out(TqTask *task, TqColumn col);
static void write_part(const TqTask *task, TqColumn col);
static void remove_part(const TqTask *task, TqColumn col);

/* Set a column to a new value. */
void
tq_large_put(TqTask *task, TqColumn col, Datum value)
{
	tq_large_drop(task, col);
	tq_task_set(task, col, value);
	if (col == TQ_COL_MESSAGE)
		task->new_message = true;
}

/* Set a column to null. */
void
tq_large_drop(TqTask *task, TqColumn col)
{
	if (task->i.large & TQ_LARGE_BIT(col))
	{
		task->i.large &= ~TQ_LARGE_BIT(col);
		task->large_dropped |= TQ_LARGE_BIT(col);
	}
	tq_task_clear(task, col);
}

/*
 * Get the value of a column, wherever it is stored.  Returns false if it is
 * null.
 */
bool
tq_large_get(TqTask *task, TqColumn col, Datum *value)
{
	return get(task, col, value, true);
}

/* Like tq_large_get, but as the active snapshot sees the value. */
bool
tq_large_look(TqTask *task, TqColumn col, Datum *value)
{
	return get(task, col, value, false);
}

static bool
get(TqTask *task, TqColumn col, Datum *value, bool fresh)
{
	uint64 rows;
	TqSpi  spi;
	Datum  args[2];
	bool   isnull = true;

	if ((task->i.large & TQ_LARGE_BIT(col)) == 0)
	{
		*value = task->value[col];
		return !task->isnull[col];
	}
	args[0] = Int64GetDatum(task->f.task_id);
	args[1] = Int32GetDatum(col - TQ_FIRST_LARGE);
	tq_spi_enter(&spi);
	rows = fresh ? tq_spi_run(&stmt_get, args, NULL, SPI_OK_SELECT, 1)
				 : tq_spi_read(&stmt_get, args, NULL, 1);
	if (rows > 0)
	{
		Datum found = tq_spi_get(0, is_raw(col) ? 2 : 1, &isnull);

		if (!isnull)
		{
			MemoryContext mine = MemoryContextSwitchTo(spi.caller);

			*value = PointerGetDatum(PG_DETOAST_DATUM_COPY(found));
			MemoryContextSwitchTo(mine);
		}
	}
	tq_spi_leave(&spi);
	return !isnull;
}

/*
 * Load columns first to last into memory, for a result.  The task must not be
 * written afterwards.
 */
void
tq_large_load(TqTask *task, TqColumn first, TqColumn last)
{
	if (task->i.large == 0)
		return;
	for (int col = first; col <= last; col++)
	{
		Datum value;

		if ((task->i.large & TQ_LARGE_BIT(col)) == 0)
			continue;
		if (tq_large_get(task, col, &value))
			tq_task_set(task, col, value);
	}
}

/* For a new task, or one whose row this transaction owns. */
void
tq_large_store(TqTask *task)
{
	tq_large_plan(task);
	tq_large_write(task);
}

/* Move values out of the row until it is small enough. */
void
tq_large_plan(TqTask *task)
{
	Size width = ROW_FIXED;

	for (int col = TQ_FIRST_VAR; col <= TQ_TASK_COLUMNS; col++)
		width += width_of(task, col);
	while (width > ROW_LIMIT)
	{
		TqColumn largest = TQ_FIRST_LARGE;

		for (int col = TQ_FIRST_LARGE; col <= TQ_LAST_LARGE; col++)
		{
			if (width_of(task, col) > width_of(task, largest))
				largest = col;
		}
		if (width_of(task, largest) == 0)
			break;
		width -= width_of(task, largest);
		move_out(task, largest);
	}
}

/* Write the parts that were moved out of the row, and remove replaced ones. */
void
tq_large_write(TqTask *task)
{
	for (int col = TQ_FIRST_LARGE; col <= TQ_LAST_LARGE; col++)
	{
		if (task->large_moved & TQ_LARGE_BIT(col))
			write_part(task, col);
		else if (task->large_dropped & TQ_LARGE_BIT(col))
			remove_part(task, col);
	}
	task->large_moved = 0;
	task->large_dropped = 0;
}

void
tq_large_remove_all(int64 task_id)
{
	Datum arg = Int64GetDatum(task_id);

	tq_spi_execute(&stmt_drop_all, &arg, NULL, SPI_OK_DELETE);
}

/* bytea and text are stored raw, other types as jsonb. */
static bool
is_raw(TqColumn col)
{
	return col == TQ_COL_DATA || col == TQ_COL_MESSAGE;
}

static Size
width_of(const TqTask *task, TqColumn col)
{
	if (task->isnull[col] || TQ_IS_IMPLIED(col))
		return 0;
	if (col >= TQ_COL_DEADLINE && col <= TQ_COL_STEP_ID)
		return sizeof(int64);
	return VARSIZE_ANY(DatumGetPointer(task->value[col]));
}

static void
move_out(TqTask *task, TqColumn col)
{
	task->moved[col - TQ_FIRST_LARGE] = task->value[col];
	task->large_moved |= TQ_LARGE_BIT(col);
	task->large_dropped &= ~TQ_LARGE_BIT(col);
	task->i.large |= TQ_LARGE_BIT(col);
	tq_task_clear(task, col);
}

static void
write_part(const TqTask *task, TqColumn col)
{
	Datum args[4];
	bool  nulls[4] = {false, false, true, true};
	int   arg = is_raw(col) ? 3 : 2;

	args[0] = Int64GetDatum(task->f.task_id);
	args[1] = Int32GetDatum(col - TQ_FIRST_LARGE);
	args[2] = args[3] = (Datum) 0;
	args[arg] = task->moved[col - TQ_FIRST_LARGE];
	nulls[arg] = false;
	tq_spi_execute(&stmt_store, args, nulls, SPI_OK_INSERT);
}

static void
remove_part(const TqTask *task, TqColumn col)
{
	Datum args[2];

	args[0] = Int64GetDatum(task->f.task_id);
	args[1] = Int32GetDatum(col - TQ_FIRST_LARGE);
	tq_spi_execute(&stmt_drop, args, NULL, SPI_OK_DELETE);
}

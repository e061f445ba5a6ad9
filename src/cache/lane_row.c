/*
 * lane_row.c
 *		The lanes of a queue, from rows of taskq.lane.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/spi.h"
#include "cache/lane_row.h"

/*
 * Give the queue the lanes of some of the rows that SPI has just read, in the
 * order of their numbers; in the memory of the queue.
 */
void
tq_lane_row_read(TqQueue *queue, uint64 first, uint64 rows)
{
	MemoryContext mine = MemoryContextSwitchTo(GetMemoryChunkContext(queue));

	queue->lanes = palloc0(sizeof(TqLane) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		TqLane *lane = &queue->lanes[i];
		bool    isnull;
		Datum  *values;
		bool   *nulls;
		int     count;

		lane->lane_id = tq_spi_int8(first + i, 1, 0);
		deconstruct_array(
			DatumGetArrayTypeP(tq_spi_get(first + i, 2, &isnull)), TEXTOID, -1,
			false, TYPALIGN_INT, &values, &nulls, &count);
		lane->tags.tags = palloc(sizeof(char *) * (count + 1));
		for (int t = 0; t < count; t++)
			lane->tags.tags[t] = nulls[t] ? pstrdup("")
										  : TextDatumGetCString(values[t]);
		lane->tags.count = count;
		tq_arg_tags_sort(&lane->tags);
	}
	queue->lane_count = (int) rows;
	MemoryContextSwitchTo(mine);
}

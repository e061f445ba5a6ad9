/*
 * dead_range_core.h
 *		Dead ranges of the dispatch index: the pure part.
 *
 * The model checker of test/model compiles the same code with smaller numbers,
 * hence #ifndef.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEAD_RANGE_CORE_H
#define TQ_DEAD_RANGE_CORE_H

#include "datatype/timestamp.h"

#ifndef TQ_RANGES
#define TQ_RANGES 8 /* dead ranges of a lane and priority */
#endif
#ifndef TQ_RANGE_PRIORITIES
#define TQ_RANGE_PRIORITIES 32 /* of a lane */
#endif
#ifndef TQ_RANGE_SPANS
#define TQ_RANGE_SPANS 16 /* number of lowers stored; 2 or more */
#endif
#ifndef TQ_RANGE_NEAR
#define TQ_RANGE_NEAR 1000000 /* most microseconds of a merged span */
#endif
#ifndef TQ_RANGE_CELLS
#define TQ_RANGE_CELLS 256 /* of a table */
#endif

/* A position in the dispatch index; ordered by at, then by task_id. */
typedef struct TqPosition
{
	TimestampTz at;
	int64       task_id;
} TqPosition;

/* Before and after every task of a lane and priority. */
#define TQ_DEAD_RANGE_BEGIN ((TqPosition){PG_INT64_MIN, PG_INT64_MIN})
#define TQ_DEAD_RANGE_END ((TqPosition){PG_INT64_MAX, PG_INT64_MAX})

/* Entries at lo, at hi and between them are not claimable. */
typedef struct TqDeadRange
{
	TqPosition lo;
	TqPosition hi;
} TqDeadRange;

/* The number of a lower, counted from 2. */
typedef uint64 TqDeadRangeMoment;

/* priority of the cell of a lane itself */
#define TQ_RANGE_LANE (PG_INT16_MAX + 1)

typedef struct TqRangeKey
{
	Oid   database;
	int32 priority;
	int64 lane_id;
} TqRangeKey;

typedef struct TqRangeSpan
{
	TqDeadRangeMoment number;
	TqDeadRange       range;
} TqRangeSpan;

/* The cell of a lane and priority. */
typedef struct TqRangeDead
{
	int        count;
	int        first_span; /* spans are a ring; index of the oldest */
	int        span_count;
	bool       open;    /* there is nothing from open_lo to the end; may */
	TqPosition open_lo; /* overlap the last of the ranges */
	/* sorted, and not adjacent */
	TqDeadRange ranges[TQ_RANGES];
	TqRangeSpan spans[TQ_RANGE_SPANS];
} TqRangeDead;

/* The cell of a lane: priorities; newer numbers are known to be in use. */
typedef struct TqRangeLane
{
	bool              known; /* the list is complete */
	int               count;
	int16             priorities[TQ_RANGE_PRIORITIES]; /* highest first */
	TqDeadRangeMoment numbers[TQ_RANGE_PRIORITIES];    /* of the last lower */
} TqRangeLane;

typedef struct TqRangeCell
{
	TqRangeKey        key;
	TqDeadRangeMoment floor; /* lowers up to this number may be forgotten */
	int32             next;  /* next cell with the same hash; -1 at the end */
	bool              touched;
	union
	{
		TqRangeDead dead;
		TqRangeLane lane;
	} u;
} TqRangeCell;

typedef struct TqRangeTable
{
	TqDeadRangeMoment floor; /* earlier lowers may have met no cell */
	int               count; /* the first cells are in use */
	int               hand;  /* clock hand that chooses the cell to evict */
	uint64            learned;
	uint64            refused;
	uint64            lowered;
	uint64            evicted;
	int32             heads[TQ_RANGE_CELLS];
	TqRangeCell       cells[TQ_RANGE_CELLS];
} TqRangeTable;

extern uint64 tq_dead_range_core_hash(Oid database, int64 lane_id);
extern bool   tq_dead_range_core_before(const TqPosition *a,
										const TqPosition *b);
extern void   tq_dead_range_core_wipe(TqRangeTable     *table,
									  TqDeadRangeMoment number);
extern void   tq_dead_range_core_forget(TqRangeTable *table, Oid database,
										TqDeadRangeMoment number);
extern int  tq_dead_range_core_read(TqRangeTable *table, const TqRangeKey *key,
									TqDeadRange *ranges);
extern int  tq_dead_range_core_ranges(const TqRangeCell *cell,
									  TqDeadRange       *ranges);
extern bool tq_dead_range_core_priorities(TqRangeTable *table, Oid database,
										  int64 lane_id, int16 *priorities,
										  int *count);
extern bool tq_dead_range_core_learn(TqRangeTable      *table,
									 const TqRangeKey  *key,
									 const TqDeadRange *range,
									 TqDeadRangeMoment  moment);
extern bool tq_dead_range_core_learn_priorities(TqRangeTable *table,
												Oid database, int64 lane_id,
												const int16 *list, int count,
												TqDeadRangeMoment moment);
extern void tq_dead_range_core_lower(TqRangeTable      *table,
									 const TqRangeKey  *key,
									 const TqDeadRange *range,
									 TqDeadRangeMoment  number);
extern bool tq_dead_range_core_still(TqRangeTable     *table,
									 const TqRangeKey *key,
									 const TqPosition *position,
									 TqDeadRangeMoment moment);

#endif /* TQ_DEAD_RANGE_CORE_H */

/*
 * dead_range.h
 *		Dead ranges of the dispatch index, in shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEAD_RANGE_H
#define TQ_DEAD_RANGE_H

#include "base/compat.h"

#include "shared/dead_range_core.h"
#include "shared/position.h"

/* The unit of the audit: one lane and priority at one moment. */
typedef struct TqRangeEntry
{
	int64             lane_id;
	int16             priority;
	int               count;
	TqDeadRange       ranges[TQ_RANGES];
	TqDeadRangeMoment moment;
} TqRangeEntry;

/* Position of the audit; initially zeroed. */
typedef struct TqRangeCursor
{
	int partition;
	int index;
} TqRangeCursor;

/* Totals of all databases; all but the first two since the server's start. */
typedef struct TqDeadRangeNumbers
{
	int64 entries; /* cells in use */
	int64 ranges;
	int64 learned; /* ranges recorded by scans, and kept */
	int64 refused; /* ranges that were too late to be kept */
	int64 lowered; /* positions published */
	int64 evicted;
	int64 audited;  /* index entries read by the audit */
	int64 repaired; /* and found dead by mistake */
} TqDeadRangeNumbers;

extern Size tq_dead_range_size(void);
extern void tq_dead_range_request(void);
extern void tq_dead_range_init(void);
extern void tq_dead_range_wipe(void);
extern void tq_dead_range_forget_database(Oid database);

/* for scans of the index */
extern TqDeadRangeMoment tq_dead_range_moment(void);
extern int               tq_dead_range_read(int64 lane_id, int16 priority,
											TqDeadRange *ranges);
extern bool tq_dead_range_priorities(int64 lane_id, int16 *priorities,
									 int *count);
extern void tq_dead_range_learn(int64 lane_id, int16 priority, TqPosition lo,
								TqPosition hi, TqDeadRangeMoment moment);
extern void tq_dead_range_learn_priorities(int64        lane_id,
										   const int16 *priorities, int count,
										   TqDeadRangeMoment moment);

/* called when tasks become claimable; cannot fail */
extern void tq_dead_range_lower(const TqLanePosition *places, int count);
extern void tq_dead_range_forget(void);

/* for the audit */
extern bool tq_dead_range_next_to_audit(TqRangeCursor *cursor,
										TqRangeEntry  *entry);
extern void tq_dead_range_audited(int64 entries);
extern bool tq_dead_range_still(int64 lane_id, int16 priority,
								TqPosition position, TqDeadRangeMoment moment);
extern bool tq_dead_range_repaired(int64 lane_id, int16 priority,
								   TqPosition        position,
								   TqDeadRangeMoment moment);
extern bool tq_dead_range_hides(int64 lane_id, int16 priority,
								TqPosition position);
extern bool tq_dead_range_numbers(TqDeadRangeNumbers *numbers);

#endif /* TQ_DEAD_RANGE_H */

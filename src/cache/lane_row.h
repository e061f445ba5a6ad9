/*
 * lane_row.h
 *		The lanes of a queue, from rows of taskq.lane.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LANE_ROW_H
#define TQ_LANE_ROW_H

#include "base/compat.h"

#include "cache/queue_types.h"

extern void tq_lane_row_read(TqQueue *queue, uint64 first, uint64 rows);

#endif /* TQ_LANE_ROW_H */

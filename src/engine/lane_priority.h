/*
 * lane_priority.h
 *		Which priorities a lane has.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LANE_PRIORITY_H
#define TQ_LANE_PRIORITY_H

#include "engine/lane_scan.h"

extern bool tq_lane_priority_list(TqLaneScanDirection *way, int64 lane_id,
								  int16 *priorities, int *count);
extern bool tq_lane_priority_read(Relation table, Relation index,
								  Snapshot snapshot, int64 lane_id, bool below,
								  int16 *priority);
extern bool tq_lane_priority_next(TqLaneScanDirection *way, int64 lane_id,
								  bool below, int16 *priority);

#endif /* TQ_LANE_PRIORITY_H */

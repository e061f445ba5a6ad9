/*
 * forget_lane.h
 *		Removal of sets of tags without live tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FORGET_LANE_H
#define TQ_FORGET_LANE_H

#include "base/compat.h"

extern int64 tq_forget_lane_batch(int limit);
extern bool  tq_forget_lane_was_busy(void);

#endif /* TQ_FORGET_LANE_H */

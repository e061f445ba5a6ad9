/*
 * lane.h
 *		The lanes of a queue: their numbers, new ones, those that tags match.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LANE_H
#define TQ_LANE_H

#include "base/compat.h"

#include "cache/queue_types.h"
#include "store/task.h"

extern int64          tq_lane_id(int32 queue_id, const TqTags *tags);
extern int64          tq_lane_of(TqQueue *queue, const TqTags *tags);
extern int64          tq_lane_again(TqQueue *queue, const TqTags *tags);
extern const TqMatch *tq_lane_match(const TqQueue *queue, const TqTags *tags);
extern bool           tq_lane_fits(const TqTask *task, const TqTags *tags);

#endif /* TQ_LANE_H */

/*
 * position.h
 *		A position in the dispatch index, with its queue, lane and priority.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_POSITION_H
#define TQ_POSITION_H

#include "datatype/timestamp.h"

typedef struct TqLanePosition
{
	int64       lane_id;
	TimestampTz available_at;
	int64       task_id;
	int32       queue_id;
	int16       priority;
} TqLanePosition;

#endif /* TQ_POSITION_H */

/*
 * queue_types.h
 *		A queue and its lanes, as cached by a session.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_QUEUE_TYPES_H
#define TQ_QUEUE_TYPES_H

#include "base/arg.h"
#include "cache/options.h"

typedef struct TqLane
{
	int64  lane_id;
	TqTags tags;
} TqLane;

StaticAssertDecl(offsetof(TqLane, lane_id) == 0,
				 "lanes are searched by their first member");

/* The lanes that match a claim's tags. */
typedef struct TqMatch
{
	TqTags tags;
	bool   all; /* whatever the tags */
	int    count;
	int64 *lanes; /* ascending, without duplicates */
} TqMatch;

typedef struct TqQueue
{
	int32       queue_id;
	char       *name;
	Oid         owner;   /* role; InvalidOid if it was dropped */
	TqOptions   options; /* including the defaults of queue '*' */
	bool        paused;
	TimestampTz paused_until; /* DT_NOEND: until it is resumed */
	TqLane     *lanes;
	int         lane_count;
	TqMatch    *match; /* of the last claim, or NULL */
} TqQueue;

#endif /* TQ_QUEUE_TYPES_H */

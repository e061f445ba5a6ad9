/*
 * key_floor.h
 *		The first position of each key queue that can be live.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_FLOOR_H
#define TQ_KEY_FLOOR_H

#include "base/compat.h"

/* A key queue, and its order. */
typedef struct TqKeyFloorOf
{
	int32  queue_id;
	bool   lifo;
	uint64 hash; /* of the key */
} TqKeyFloorOf;

/* The result of a search, to be stored when it has committed. */
typedef struct TqKeyFloorFound
{
	TqKeyFloorOf of;
	int64        task_id; /* no live task of the key precedes it */
	uint64       moment;  /* of tq_key_floor_get */
} TqKeyFloorFound;

extern Size tq_key_floor_size(void);
extern void tq_key_floor_init(void);
extern void tq_key_floor_wipe(void);

/* all of them called under the key's lock */
extern uint64 tq_key_floor_hash(const char *key, int length);
extern bool   tq_key_floor_get(const TqKeyFloorOf *of, int64 *task_id,
							   uint64 *moment);
extern void   tq_key_floor_lower(const TqKeyFloorOf *of, int64 task_id);

/* called after the commit; cannot fail */
extern void tq_key_floor_put(const TqKeyFloorFound *found);

#endif /* TQ_KEY_FLOOR_H */

/*
 * key_floor.h
 *		Where the lines of keys begin.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_FLOOR_H
#define TQ_KEY_FLOOR_H

#include "base/compat.h"

/* A line, and which end of it is its head. */
typedef struct TqHeadOf
{
	int32  queue_id;
	bool   lifo;
	uint64 hash; /* of the key */
} TqHeadOf;

/* What a look has found, to be told when it is committed. */
typedef struct TqHeadFound
{
	TqHeadOf of;
	int64    task_id; /* no task of the line comes before it */
	uint64   moment;  /* of tq_head_get */
} TqHeadFound;

extern Size tq_head_size(void);
extern void tq_head_init(void);
extern void tq_head_wipe(void);

/* all of them with the key's lock */
extern uint64 tq_head_hash(const char *key, int length);
extern bool   tq_head_get(const TqHeadOf *of, int64 *task_id, uint64 *moment);
extern void   tq_head_lower(const TqHeadOf *of, int64 task_id);

/* after the commit; cannot fail */
extern void tq_head_put(const TqHeadFound *found);

#endif /* TQ_KEY_FLOOR_H */

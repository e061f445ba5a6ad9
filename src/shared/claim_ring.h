/*
 * claim_ring.h
 *		Candidates of a lane for the next claims, found by an earlier claim.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_RING_H
#define TQ_CLAIM_RING_H

#include "base/compat.h"

#include "storage/itemptr.h"

#include "shared/dead_range_core.h"
#include "shared/position.h"

#define TQ_RING_SIZE 64

/* An entry of the dispatch index. */
typedef struct TqCandidate
{
	TqPosition      position;
	ItemPointerData tid; /* start of its row, or of the row's HOT chain */
} TqCandidate;

extern Size tq_claim_ring_size(void);
extern void tq_claim_ring_init(void);
extern void tq_claim_ring_wipe(void);

/* for claims */
extern uint64 tq_claim_ring_moment(void);
extern bool   tq_claim_ring_look(int64 lane_id, int16 priority,
								 TqPosition *first);
extern bool   tq_claim_ring_pop(int64 lane_id, int16 priority,
								TqCandidate *candidate, uint64 *moment);
extern int    tq_claim_ring_wanted(int64 lane_id, int16 priority);
extern void   tq_claim_ring_fill(int64 lane_id, int16 priority,
								 const TqCandidate *candidates, int count,
								 uint64 moment);
extern void   tq_claim_ring_empty(int64 lane_id, int16 priority);

/* called when tasks become claimable; cannot fail */
extern void tq_claim_ring_lower(const TqLanePosition *places, int count);

#endif /* TQ_CLAIM_RING_H */

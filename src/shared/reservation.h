/*
 * reservation.h
 *		Claims reserved under limits on running tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RESERVATION_H
#define TQ_RESERVATION_H

#include "shared/counter_types.h"

extern void          tq_reservation_invalidate(TqOwner owner, int32 id);
extern bool          tq_reservation_has_room(TqOwner owner, int32 id);
extern TqReservation tq_reservation_make(TqOwner owner, int32 id, int64 max,
										 uint64 *epoch);
extern void   tq_reservation_release(TqOwner owner, int32 id, int64 task_id,
									 uint64 instance);
extern void   tq_reservation_undo(TqOwner owner, int32 id, uint64 epoch);
extern uint64 tq_reservation_count_begin(TqOwner owner, int32 id,
										 uint64 *instance);
extern bool   tq_reservation_count_end(TqOwner owner, int32 id, uint64 begun,
									   uint64 instance, const int64 *task_ids,
									   int count, int more);
extern bool   tq_reservation_is_known(TqOwner owner, int32 id);
extern bool   tq_reservation_count(TqOwner owner, int32 id, int64 *used);

#endif /* TQ_RESERVATION_H */

/*
 * repair.h
 *		Repairs finished steps, by another attempt or by hand.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_REPAIR_H
#define TQ_REPAIR_H

#include "engine/move.h"
#include "store/table.h"
#include "store/task.h"

extern void tq_repair(TqCall *call, TqTask *task, const TqMove *move,
					  TqMoveAnswer *answer);
extern void tq_repair_waiting(const TqTask *task, const TqMove *move,
							  TqMoveAnswer *answer);

#endif /* TQ_REPAIR_H */

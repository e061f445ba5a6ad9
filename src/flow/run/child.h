/*
 * child.h
 *		Ends of instances that a step of another instance waits for.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHILD_H
#define TQ_CHILD_H
#include "flow/instance/flow_types.h"
#include "store/table.h"

extern void tq_child_end_step(TqCall *call, int64 task_id,
							  const TqFlow *child);

extern bool tq_child_cancel_instance(TqCall *call, TqFlow *flow,
									 char *message);
extern void tq_child_ended(TqCall *call, const TqFlow *flow);
extern void tq_child_revived(TqCall *call, const TqFlow *flow);
extern bool tq_child_cancel(TqCall *call, int64 task_id);

#endif /* TQ_CHILD_H */

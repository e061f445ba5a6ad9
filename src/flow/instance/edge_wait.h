/*
 * edge_wait.h
 *		Announces waits in instances of workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EDGE_WAIT_H
#define TQ_EDGE_WAIT_H

#include "base/compat.h"

extern void  tq_edge_wait(int64 workflow_id);
extern void  tq_edge_wait_ended(int64 workflow_id);
extern void  tq_edge_wait_looked(int64 workflow_id);
extern bool  tq_edge_waits(int64 workflow_id, TransactionId xid);
extern bool  tq_edge_wait_is_left(int64 workflow_id);
extern int64 tq_edge_wait_last_left(void);
extern void  tq_edge_wait_init(void);

#endif /* TQ_EDGE_WAIT_H */

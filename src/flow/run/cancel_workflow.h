/*
 * cancel_workflow.h
 *		Cancels an instance.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CANCEL_WORKFLOW_H
#define TQ_CANCEL_WORKFLOW_H

#include "flow/instance/flow_types.h"
#include "store/table.h"

extern bool tq_cancel_workflow_run(TqCall *call, TqFlow *flow, char *message);

#endif /* TQ_CANCEL_WORKFLOW_H */

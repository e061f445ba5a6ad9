/*
 * signal.h
 *		taskq_signal: signals for steps of the types signal and approval.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SIGNAL_H
#define TQ_SIGNAL_H

#include "flow/instance/flow_types.h"

extern void tq_signal_forget(int64 workflow_id, int place);
extern void tq_signal_check_again(const TqFlow *flow, const bool *places);

#endif /* TQ_SIGNAL_H */

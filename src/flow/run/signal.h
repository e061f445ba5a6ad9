/*
 * signal.h
 *		taskq_signal: what steps of the types signal and approval wait for.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SIGNAL_H
#define TQ_SIGNAL_H

#include "flow/instance/flow_types.h"

extern void tq_signal_forget(int64 workflow_id, int place);
extern void tq_signal_check_again(const TqFlow *flow, const bool *places);

#endif /* TQ_SIGNAL_H */

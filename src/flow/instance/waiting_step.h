/*
 * waiting_step.h
 *		Is a step waiting for something other than a worker, and until when?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITING_STEP_H
#define TQ_WAITING_STEP_H

#include "store/task.h"

extern bool        tq_waiting_step_is_put_off(const TqTask *task);
extern bool        tq_waiting_step_is(const TqTask *task);
extern TimestampTz tq_waiting_step_until(int64 task_id, TimestampTz since);

#endif /* TQ_WAITING_STEP_H */

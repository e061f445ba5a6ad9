/*
 * registration.h
 *		Workers: taskq_register, taskq_heartbeat, taskq_drain,
 *		taskq_deregister, taskq_expire.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_REGISTRATION_H
#define TQ_REGISTRATION_H

#include "base/code.h"

extern void tq_registration_bind(const char *name);
extern void tq_registration_leave(const char *name, int64 incarnation);
extern bool tq_registration_end_if_free(int32 worker_id, TqWorkerState how);

#endif /* TQ_REGISTRATION_H */

/*
 * health_queue.h
 *		taskq_health(): overdue duties, and queues without workers.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_QUEUE_H
#define TQ_HEALTH_QUEUE_H

#include "diag/health_report.h"

extern void tq_health_leases(TqHealth *health);
extern void tq_health_deadlines(TqHealth *health);
extern void tq_health_retention(TqHealth *health);
extern void tq_health_silent_workers(TqHealth *health);
extern void tq_health_claims(TqHealth *health);
extern void tq_health_paused(TqHealth *health);

#endif /* TQ_HEALTH_QUEUE_H */

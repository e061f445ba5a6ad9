/*
 * health_server.h
 *		taskq_health(): effects of the server on the task queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_SERVER_H
#define TQ_HEALTH_SERVER_H

#include "diag/health_report.h"

extern void tq_health_snapshots(TqHealth *health);
extern void tq_health_prepared(TqHealth *health);
extern void tq_health_replication(TqHealth *health);
extern void tq_health_vacuum(TqHealth *health);
extern void tq_health_transaction_ids(TqHealth *health);
extern void tq_health_additions(TqHealth *health);
extern void tq_health_settings(TqHealth *health);

#endif /* TQ_HEALTH_SERVER_H */

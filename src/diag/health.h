/*
 * health.h
 *		taskq_health(): what its checks share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_H
#define TQ_HEALTH_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

/* One check, while it looks. */
typedef struct TqHealth
{
	bool           ok;
	StringInfoData detail; /* sentences, separated by blanks */

	/* what all checks need to know */
	bool        standby;
	bool        copy; /* a copy that nobody has activated */
	TimestampTz wall;
	TimestampTz now; /* dispatch clock */
} TqHealth;

/* A sentence that says what is not well. */
#define tq_health_fail(health, ...)                                           \
	((health)->ok = false, tq_health_say(health, __VA_ARGS__))

extern void tq_health_say(TqHealth *health, const char *format, ...)
	pg_attribute_printf(2, 3);
extern char *tq_health_span(int64 span);

/* health_queue.c: duties and queues */
extern void tq_health_leases(TqHealth *health);
extern void tq_health_deadlines(TqHealth *health);
extern void tq_health_retention(TqHealth *health);
extern void tq_health_silent_workers(TqHealth *health);
extern void tq_health_claims(TqHealth *health);
extern void tq_health_paused(TqHealth *health);

/* health_server.c: the server around it */
extern void tq_health_snapshots(TqHealth *health);
extern void tq_health_prepared(TqHealth *health);
extern void tq_health_replication(TqHealth *health);
extern void tq_health_vacuum(TqHealth *health);
extern void tq_health_transaction_ids(TqHealth *health);
extern void tq_health_settings(TqHealth *health);

#endif /* TQ_HEALTH_H */

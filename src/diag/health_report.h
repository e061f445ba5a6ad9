/*
 * health_report.h
 *		taskq_health(): functions that its checks share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_REPORT_H
#define TQ_HEALTH_REPORT_H

#include "base/compat.h"
#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

/* A check that is running. */
typedef struct TqHealth
{
	bool           ok;
	StringInfoData detail; /* sentences, separated by blanks */

	/* needed by all checks */
	bool        standby;
	bool        copy; /* the database is a copy that was not activated */
	TimestampTz wall;
	TimestampTz now; /* dispatch clock */
} TqHealth;

/* Add a sentence about a problem, and fail the check. */
#define tq_health_fail(health, ...)                                           \
	((health)->ok = false, tq_health_say(health, __VA_ARGS__))

extern void tq_health_say(TqHealth *health, const char *format, ...)
	pg_attribute_printf(2, 3);
extern char *tq_health_span(int64 span);

#endif /* TQ_HEALTH_REPORT_H */

/*
 * dead_range_audit.h
 *		Audit of dead ranges: do they contain claimable tasks?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEAD_RANGE_AUDIT_H
#define TQ_DEAD_RANGE_AUDIT_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* for the background worker */
extern void        tq_dead_range_audit_start(void);
extern bool        tq_dead_range_audit_due(TimestampTz now);
extern TimestampTz tq_dead_range_audit_next(void);
extern int64       tq_dead_range_audit_slice(int limit);

#endif /* TQ_DEAD_RANGE_AUDIT_H */

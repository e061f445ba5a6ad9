/*
 * retention.h
 *		Removing what is no longer kept.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RETENTION_H
#define TQ_RETENTION_H

#include "base/compat.h"

/*
 * SQL: is this row of taskq.archive_keep a dead task that holds others of its
 * key?  State 6 is dead, reason 7 poison.
 */
#define TQ_HOLDS_KEY(row)                                                     \
	"(" row ".state = 6 AND " row ".reason <> 7 AND " row ".key IS NOT NULL"  \
	" AND " row ".queue_id = ANY (ARRAY("                                     \
	"  SELECT q.queue_id FROM taskq.queue q"                                  \
	"    LEFT JOIN taskq.queue d ON d.queue_id = 0"                           \
	"   WHERE coalesce(q.options ->> 'key_policy',"                           \
	"                  d.options ->> 'key_policy')"                           \
	"         IN ('serial_hold_on_failure', 'serial_until_success'))))"

/* Each in the current transaction, up to limit rows; returns how many. */
extern int64 tq_retention_expired(int limit);
extern int64 tq_retention_rotate(int limit);
extern int64 tq_retention_large(int limit);
extern int64 tq_retention_keys(int limit);
extern bool  tq_retention_more_keys(void);

#endif /* TQ_RETENTION_H */

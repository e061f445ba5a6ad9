/*
 * retention.h
 *		Removal of rows that have exceeded their retention.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RETENTION_H
#define TQ_RETENTION_H

#include "base/compat.h"

/*
 * Each works in the current transaction on up to limit rows; returns their
 * number.
 */
extern int64 tq_retention_expired(int limit);
extern int64 tq_retention_rotate(int limit);
extern int64 tq_retention_large(int limit);
extern int64 tq_retention_keys(int limit);
extern bool  tq_retention_more_keys(void);

#endif /* TQ_RETENTION_H */

/*
 * lock_scope.h
 *		Work whose locks can be released before the transaction ends.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LOCK_SCOPE_H
#define TQ_LOCK_SCOPE_H

#include "base/compat.h"

#include "access/xlogdefs.h"
#include "utils/resowner.h"

typedef struct TqLockScope
{
	ResourceOwner outside;
	ResourceOwner own;
	XLogRecPtr    written; /* WAL position when the scope began */
} TqLockScope;

extern void tq_lock_scope_begin(TqLockScope *scope);
extern void tq_lock_scope_end(TqLockScope *scope, bool keep);

#endif /* TQ_LOCK_SCOPE_H */

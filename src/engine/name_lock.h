/*
 * name_lock.h
 *		Locks on names that calls give to several rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_NAME_LOCK_H
#define TQ_NAME_LOCK_H

#include "base/compat.h"

#include "nodes/bitmapset.h"

/* Part of taskq.key in lock tags. */
typedef enum TqNameKind
{
	TQ_NAME_REFERENCE, /* of tasks */
	TQ_NAME_DOCUMENT   /* namespace and key */
} TqNameKind;

extern Bitmapset *tq_name_lock_add(Bitmapset *names, const char *name);
extern void       tq_name_lock(TqNameKind kind, const Bitmapset *names,
							   const Bitmapset *shared);
extern bool       tq_name_lock_try(TqNameKind kind, const char *name);

#endif /* TQ_NAME_LOCK_H */

/*
 * identity.h
 *		The identity of an instance: no two live instances have the same
 *		identity.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_IDENTITY_H
#define TQ_IDENTITY_H

#include "flow/instance/flow_types.h"

extern void   tq_identity_conflict(const char *name, int64 holder,
								   const char *hint) pg_attribute_noreturn();
extern Jsonb *tq_identity(const TqFlow *flow, const char *key);
extern Jsonb *tq_identity_of(const TqFlow *flow);
extern int64  tq_identity_holder(Jsonb *identity, int64 but);
extern bool   tq_identity_is_busy(Jsonb *identity);

#endif /* TQ_IDENTITY_H */

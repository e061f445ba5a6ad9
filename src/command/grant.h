/*
 * grant.h
 *		Rights on queues: grant, revoke.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_GRANT_H
#define TQ_GRANT_H

#include "base/compat.h"

extern void tq_grant_execute_again(void);

#endif /* TQ_GRANT_H */

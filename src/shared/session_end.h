/*
 * session_end.h
 *		Which sessions have ended, for workers that are bound to one.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SESSION_END_H
#define TQ_SESSION_END_H

#include "base/compat.h"

extern Size tq_bind_size(void);
extern void tq_bind_init(void);
extern void tq_bind_wipe(void);

extern int64  tq_bind_instance(void);
extern int64  tq_bind_session(void);
extern bool   tq_bind_gone(int64 instance, int64 session);
extern uint64 tq_bind_ends(void);

#endif /* TQ_SESSION_END_H */

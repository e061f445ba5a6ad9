/*
 * session_end.h
 *		Ends of sessions to which workers are bound.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SESSION_END_H
#define TQ_SESSION_END_H

#include "base/compat.h"

extern Size tq_session_end_size(void);
extern void tq_session_end_init(void);
extern void tq_session_end_wipe(void);

extern int64  tq_session_end_instance(void);
extern int64  tq_session_end_session(void);
extern bool   tq_session_end_has_ended(int64 instance, int64 session);
extern uint64 tq_session_end_count(void);

#endif /* TQ_SESSION_END_H */

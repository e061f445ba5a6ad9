/*
 * xact_mark.h
 *		The mark of a transaction that changes tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_XACT_MARK_H
#define TQ_XACT_MARK_H

#include "base/compat.h"

extern void          tq_xact_mark_enter(void);
extern void          tq_xact_mark_leave(void);
extern TransactionId tq_xact_mark_xid(void);
extern uint64        tq_xact_mark_instance(void);

#endif /* TQ_XACT_MARK_H */

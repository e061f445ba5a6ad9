/*
 * call.h
 *		One SQL call, from its beginning to its end.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CALL_H
#define TQ_CALL_H

#include "store/table.h"

extern void tq_call_begin(TqCall *call, const char *function);
extern void tq_call_begin_look(TqCall *call);
extern void tq_call_renew(TqCall *call);
extern void tq_call_advance(TqCall *call);
extern void tq_call_end(TqCall *call);

#endif /* TQ_CALL_H */

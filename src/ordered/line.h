/*
 * line.h
 *		The line of a key: who of its tasks is next.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LINE_H
#define TQ_LINE_H

#include "core/key.h"
#include "core/state.h"

extern void tq_line_init(void);
extern void tq_line_settle(TqCall *call, TqQueue *queue, Datum key);

#endif /* TQ_LINE_H */

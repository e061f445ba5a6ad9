/*
 * activate.h
 *		Is this database a copy?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ACTIVATE_H
#define TQ_ACTIVATE_H

#include "base/compat.h"

extern bool tq_activate_rows_loaded(void);

extern void (*tq_activate_hook)(void);

#endif /* TQ_ACTIVATE_H */

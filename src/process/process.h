/*
 * process.h
 *		The extension's processes: one launcher, one worker per database.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PROCESS_H
#define TQ_PROCESS_H

#include "base/compat.h"

extern void tq_process_init(void);

#endif /* TQ_PROCESS_H */

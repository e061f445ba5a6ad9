/*
 * launcher.h
 *		The process that starts the background workers of the databases.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LAUNCHER_H
#define TQ_LAUNCHER_H

#include "base/compat.h"

extern void tq_launcher_init(void);

extern PGDLLEXPORT void tq_launcher_main(Datum arg);

#endif /* TQ_LAUNCHER_H */

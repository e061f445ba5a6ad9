/*
 * bgw.h
 *		The background worker of one database, and functions shared with
 *		the launcher.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BGW_H
#define TQ_BGW_H

#include "base/compat.h"

#include "datatype/timestamp.h"

typedef void (*TqBgwWork)(void *arg);

extern void tq_bgw_signals(void);
extern bool tq_bgw_stopping(void);
extern bool tq_bgw_try(TqBgwWork work, void *arg);
extern void tq_bgw_reload(void);
extern void tq_bgw_sleep(int64 ms);

extern PGDLLEXPORT void tq_bgw_worker_main(Datum arg);

#endif /* TQ_BGW_H */

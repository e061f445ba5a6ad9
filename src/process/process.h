/*
 * process.h
 *		Background processes, and the commands that concern them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PROCESS_H
#define TQ_PROCESS_H

#include "base/compat.h"

#include "postmaster/bgworker.h"

extern void tq_process_init(void);
extern bool tq_bgw_start(Oid database, BackgroundWorkerHandle **handle);
extern void tq_utility_init(void);

/* started by the postmaster, by these names */
extern PGDLLEXPORT void tq_launcher_main(Datum arg) pg_attribute_noreturn();
extern PGDLLEXPORT void tq_bgw_worker_main(Datum arg) pg_attribute_noreturn();

#endif /* TQ_PROCESS_H */

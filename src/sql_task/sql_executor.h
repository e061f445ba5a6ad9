/*
 * sql_executor.h
 *		The process that runs SQL tasks of one role.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SQL_EXECUTOR_H
#define TQ_SQL_EXECUTOR_H

#include "base/compat.h"

/* Name of the entry point, for the postmaster. */
#define TQ_SQL_EXECUTOR_MAIN "tq_sql_executor_main"

extern PGDLLEXPORT void tq_sql_executor_main(Datum arg);

#endif /* TQ_SQL_EXECUTOR_H */

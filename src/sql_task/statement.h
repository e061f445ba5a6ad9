/*
 * statement.h
 *		Runs the statement of a SQL task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STATEMENT_H
#define TQ_STATEMENT_H

#include "base/compat.h"

#include "utils/jsonb.h"

extern Jsonb *tq_statement_run(Jsonb *payload, int64 limit, bool *begun);

#endif /* TQ_STATEMENT_H */

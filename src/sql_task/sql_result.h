/*
 * sql_result.h
 *		The result of a SQL task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SQL_RESULT_H
#define TQ_SQL_RESULT_H

#include "base/compat.h"

#include "tcop/cmdtag.h"
#include "tcop/dest.h"
#include "utils/jsonb.h"

extern DestReceiver *tq_sql_result_receiver(int64 limit);
extern Jsonb *tq_sql_result_finish(DestReceiver *receiver, CommandTag tag,
								   uint64 processed);

#endif /* TQ_SQL_RESULT_H */

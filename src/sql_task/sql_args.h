/*
 * sql_args.h
 *		The arguments of a SQL task, as parameters of its statement.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SQL_ARGS_H
#define TQ_SQL_ARGS_H

#include "base/compat.h"

#include "nodes/params.h"

#include "engine/sql_task.h"

extern ParamListInfo tq_sql_args_read(const char      *statement,
									  const TqSqlTask *sql, Oid **types);

#endif /* TQ_SQL_ARGS_H */

/*
 * sql_task.h
 *		SQL tasks: what a task must be for an executor to run it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SQL_TASK_H
#define TQ_SQL_TASK_H

#include "cache/queue.h"
#include "store/task.h"

/* The payload of a SQL task: either sql or call is given. */
typedef struct TqSqlTask
{
	char       *sql;
	char       *call;
	int         arg_count;
	JsonbValue *args;
} TqSqlTask;

extern void  tq_sql_task_read(Jsonb *payload, TqSqlTask *sql);
extern void  tq_sql_task_decide(const TqQueue *queue, TqTask *task,
								Jsonb *payload);
extern void  tq_sql_task_of_step(const TqQueue *queue, TqTask *task,
								 Jsonb *pattern);
extern void  tq_sql_task_refuse_merge(const TqQueue *queue, const TqTask *task,
									  int32 role_id);
extern int32 tq_sql_task_run_as(const TqTask *task);
extern const char *tq_sql_task_bar(Oid role);

#endif /* TQ_SQL_TASK_H */

/*
 * task_content.h
 *		The last error of a task, as current_user may see it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_CONTENT_H
#define TQ_TASK_CONTENT_H

#include "query/visibility.h"
#include "store/task.h"

extern bool tq_task_content_errors(TqVisibility *sight, TqTask *task,
								   Datum *errors, char **error, int *length);
extern bool tq_task_content_error(TqVisibility *sight, TqTask *task,
								  char **error, int *length);
extern bool tq_task_content_error_at(Datum errors, TimestampTz *at);

#endif /* TQ_TASK_CONTENT_H */

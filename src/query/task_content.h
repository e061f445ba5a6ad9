/*
 * task_content.h
 *		Contents of a task as readers see them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_CONTENT_H
#define TQ_TASK_CONTENT_H

#include "store/task.h"

extern bool tq_task_content_payload(TqTask *task, bool whole, Datum *payload);
extern void tq_task_content_last_error(Datum errors, char **error,
									   int *length);
extern bool tq_task_content_errors(TqTask *task, Datum *errors, char **error,
								   int *length);
extern bool tq_task_content_error(TqTask *task, char **error, int *length);
extern bool tq_task_content_error_at(Datum errors, TimestampTz *at);

#endif /* TQ_TASK_CONTENT_H */

/*
 * task_filter_read.h
 *		Reads a filter that a caller gives as a JSON object.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_FILTER_READ_H
#define TQ_TASK_FILTER_READ_H

#include "utils/jsonb.h"

#include "query/task_filter.h"

extern void   tq_task_filter_read(TqTaskFilter *filter, Jsonb *document);
extern Jsonb *tq_task_filter_fix_times(Jsonb *document);
extern void   tq_task_filter_read_word(TqTaskFilter *filter, const char **word,
									   const char *value);

#endif /* TQ_TASK_FILTER_READ_H */

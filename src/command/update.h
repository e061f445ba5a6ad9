/*
 * update.h
 *		Changes of the settings of a task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_UPDATE_H
#define TQ_UPDATE_H

#include "command/submission.h"
#include "store/table.h"

/* The settings to change; a setting that is named and null is removed. */
typedef struct TqChanges
{
	TqSubmission sub;
	bool         named[TQ_SUBMIT_COUNT];
	bool         null[TQ_SUBMIT_COUNT];
	bool         any;
	Jsonb       *payload;
} TqChanges;

extern void     tq_update_read(JsonbValue *entry, const char *list,
							   const char *others, TqChanges *changes);
extern TqQueue *tq_update_apply(TqTask *task, TqChanges *changes,
								TimestampTz *due_at);
extern bool     tq_update_write(TqCall *call, TqQueue *queue, TqTask *task,
								const TqChanges *changes, TimestampTz due_at,
								char **taken);

#endif /* TQ_UPDATE_H */

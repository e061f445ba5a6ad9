/*
 * archive.h
 *		Rows of finished tasks, found and taken out by SQL.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ARCHIVE_H
#define TQ_ARCHIVE_H

#include "store/table.h"
#include "store/task.h"

extern bool tq_archive_take(TqTask *task);
extern bool tq_archive_find(int64 task_id, TqTask *task);
extern bool tq_archive_find_any(TqCall *call, int64 task_id, TqTask *task);

#endif /* TQ_ARCHIVE_H */

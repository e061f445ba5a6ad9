/*
 * worker.h
 *		Worker names: each stands for a registration or a label.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WORKER_H
#define TQ_WORKER_H

#include "base/arg.h"
#include "base/code.h"
#include "base/spi.h"
#include "shared/metric.h"

/* A label that was not used for this long may be removed. */
#define TQ_LABEL_KEPT (2 * USECS_PER_HOUR)

/* Executors of SQL tasks have names that begin so. */
#define TQ_EXECUTOR_WORKER "taskq executor "

typedef struct TqWorker
{
	int32 worker_id;
	bool  registered;
	/* of a registered worker */
	Oid    role; /* InvalidOid if the role no longer exists */
	TqTags tags;
	bool   draining;
	int    max_running; /* 0: no limit */
	char **queues;      /* NULL: all queues */
	int    queue_count;
	int64  incarnation;
	uint64 generation; /* generation of announcements when it was read */
} TqWorker;

/* worker.c */
extern void   tq_worker_for_claim(const char *name, const int64 *incarnation,
								  TqWorker *worker);
extern void   tq_worker_registered(const char *name, const int64 *incarnation,
								   TqWorker *worker);
extern void   tq_worker_if_registered(const char *name, TqWorker *worker);
extern bool   tq_worker_is_new(const char *name);
extern bool   tq_worker_is_current(const TqWorker *worker);
extern char **tq_worker_queues(const TqWorker *worker, uint32 turn,
							   int *count);
extern TqWorkerState tq_worker_look(const char *name, bool may_read,
									TqWorker *worker);
extern int32 tq_worker_active(const char *name, const int64 *incarnation);
extern void  tq_worker_require_process(const char *name, int64 registered,
									   const int64 *incarnation);
extern bool  tq_worker_may_be(Oid role);
extern int32 tq_worker_draw_number(void);
extern char *tq_worker_name(int32 worker_id);
extern bool  tq_worker_end_row(TqStmt *stmt, const Datum *args, Datum *queues);
extern void  tq_worker_count(Datum queues, TqMetric metric);

#endif /* TQ_WORKER_H */

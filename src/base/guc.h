/*
 * guc.h
 *		The settings.  doc/reference describes their meaning and ranges.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_GUC_H
#define TQ_GUC_H

#include <math.h>

#include "base/compat.h"
#include "datatype/timestamp.h"

/* Upper limit of the settings for nested decisions and batches. */
#define TQ_GUC_MOST_NESTING 100

/* Upper limit of the setting for members of a batch. */
#define TQ_GUC_MOST_MEMBERS 100000

extern PGDLLIMPORT int    tq_guc_node_id;
extern PGDLLIMPORT bool   tq_guc_auto_create_queues;
extern PGDLLIMPORT double tq_guc_stale_threshold;    /* s */
extern PGDLLIMPORT double tq_guc_dead_threshold;     /* s */
extern PGDLLIMPORT double tq_guc_reaper_interval;    /* s */
extern PGDLLIMPORT double tq_guc_deadline_interval;  /* s */
extern PGDLLIMPORT int    tq_guc_retention_interval; /* s */
extern PGDLLIMPORT int    tq_guc_retention;          /* s */
extern PGDLLIMPORT int    tq_guc_retention_batch;
extern PGDLLIMPORT int    tq_guc_max_lanes;
extern PGDLLIMPORT int    tq_guc_max_workers;
extern PGDLLIMPORT int    tq_guc_max_running_tracked;
extern PGDLLIMPORT int    tq_guc_max_databases;
extern PGDLLIMPORT int    tq_guc_max_counters;
extern PGDLLIMPORT int    tq_guc_max_metrics;
extern PGDLLIMPORT int    tq_guc_max_wait; /* s */
extern PGDLLIMPORT int    tq_guc_max_decision_steps;
extern PGDLLIMPORT int    tq_guc_warn_decision_steps; /* 0: never */
extern PGDLLIMPORT int    tq_guc_max_decision_nesting;
extern PGDLLIMPORT int    tq_guc_warn_decision_nesting; /* 0: never */
extern PGDLLIMPORT int    tq_guc_max_batch_members;
extern PGDLLIMPORT int    tq_guc_max_dependency_results; /* kB */
extern PGDLLIMPORT int    tq_guc_max_catch_up;
extern PGDLLIMPORT int    tq_guc_max_executors;
extern PGDLLIMPORT double tq_guc_executor_idle_time; /* s */
extern PGDLLIMPORT int    tq_guc_max_examined;

extern void        tq_guc_init(void);
extern int64       tq_guc_heartbeat_interval(void);
extern const char *tq_guc_threshold_problem(void);

/* The value of a setting in seconds. */
static inline int64
tq_guc_usecs(double seconds)
{
	return (int64) rint(seconds * USECS_PER_SEC);
}

#endif /* TQ_GUC_H */

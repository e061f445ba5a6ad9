/*
 * task_filter.h
 *		A filter on tasks, and whether a row matches it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_FILTER_H
#define TQ_TASK_FILTER_H

#include "utils/jsonb.h"
#include "utils/jsonpath.h"

#include "base/arg.h"
#include "base/types.h"
#include "query/visibility.h"
#include "store/task.h"

#define TQ_STATE_BIT(state) (1 << (state))
#define TQ_STATES_LIVE                                                        \
	(TQ_STATE_BIT(TQ_STATE_PENDING) | TQ_STATE_BIT(TQ_STATE_BLOCKED) |        \
	 TQ_STATE_BIT(TQ_STATE_RUNNING) | TQ_STATE_BIT(TQ_STATE_SUSPENDED))

#define TQ_STATES_FINISHED                                                    \
	(((1 << (TQ_STATE_LAST + 1)) - 1) & ~((1 << TQ_STATE_DONE) - 1))

/* Times by which tasks can be selected. */
typedef enum TqFilterTime
{
	TQ_TIME_CREATED,
	TQ_TIME_FINISHED,
	TQ_TIME_RUN,
	TQ_TIME_CLAIMED,
	TQ_FILTER_TIMES
} TqFilterTime;

/* From inclusive, to exclusive. */
typedef struct TqTimeRange
{
	TimestampTz from; /* DT_NOBEGIN: open */
	TimestampTz to;   /* DT_NOEND: open */
} TqTimeRange;

/*
 * Search conditions; all that are given must match.  Conditions on the
 * contents of a task (payload, error, fingerprint) match only tasks of queues
 * whose contents the caller may read.
 */
typedef struct TqTaskFilter
{
	bool          nothing; /* conditions contradict each other */
	bool          all_queues;
	int32        *queues; /* sorted; unless all_queues */
	int           queue_count;
	TqVisibility *sight;     /* what the caller may see of contents */
	int           states;    /* TQ_STATE_BITs; 0: any */
	int           reasons;   /* bits of reasons; 0: any */
	const char   *reference; /* NULL: any; so are the next two */
	const char   *key;
	const char   *correlation_id;
	TqTags        tags; /* which a task must have */
	bool          by_worker;
	int32        *workers; /* sorted; registrations and labels of its name */
	int           worker_count;
	int64         workflow_id; /* 0: any */
	const char *template;      /* NULL: any */
	int64       *workflows;    /* sorted; of the template, unless too many */
	int          workflow_count;
	int32        priority_min;
	int32        priority_max;
	TqTimeRange  times[TQ_FILTER_TIMES];
	const char  *error;        /* part of the last error; NULL: any */
	const char  *fingerprint;  /* of the last error; NULL: any */
	JsonPath    *payload;      /* a predicate; NULL: any */
	Jsonb       *variables;    /* of the predicate: none */
	int64        recreated_as; /* 0: any; else excludes all others */
	const int64 *ids;          /* NULL: any */
	int          id_count;
	int64        from_id; /* as given; first and last include them */
	int64        to_id;
	int64        first; /* lowest id */
	int64        last;  /* highest id */
	bool         backward;
} TqTaskFilter;

extern void tq_task_filter_init(TqTaskFilter *filter);
extern void tq_task_filter_restrict(TqTaskFilter *filter, TqVisibility *sight);
extern void tq_task_filter_after(TqTaskFilter *filter, int64 task_id);
extern void tq_task_filter_states(TqTaskFilter *filter, int states);
extern bool tq_task_filter_is_in_place(const TqTaskFilter *filter,
									   const TqTaskFixed  *row);
extern bool tq_task_filter_may_run(const TqTaskFilter *filter,
								   int32               worker_id);
extern bool tq_task_filter_has_time(const TqTaskFilter *filter,
									TqFilterTime        time);
extern bool tq_task_filter_may_fit(const TqTaskFilter *filter,
								   const TqTaskFixed *row, bool *sure);
extern bool tq_task_filter_fits_task(const TqTaskFilter *filter, TqTask *task);

#endif /* TQ_TASK_FILTER_H */

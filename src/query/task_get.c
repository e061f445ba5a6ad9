/*
 * task_get.c
 *		Reading tasks: taskq_get, taskq_get_many, taskq_list, and functions
 *		that the filtered views call.
 *
 * query/task_page.c finds the tasks and query/task_info.c builds their rows;
 * rights are checked here.  A call uses a single snapshot, taken when it
 * begins.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/liveness.h"
#include "query/contents.h"
#include "query/task_filter.h"
#include "query/task_filter_read.h"
#include "query/task_get.h"
#include "query/task_info.h"
#include "query/task_page.h"
#include "query/task_search.h"
#include "query/visibility.h"
#include "shared/running.h"

#define MAX_ROWS 10000 /* of one page of taskq_list */

/* The column of taskq.listed_task that follows those of taskq.task_info. */
#define LIST_RESUME_AFTER TQ_INFO_WORKER_SEEN

PG_FUNCTION_INFO_V1(taskq_get);
PG_FUNCTION_INFO_V1(taskq_get_many);
PG_FUNCTION_INFO_V1(taskq_list);
PG_FUNCTION_INFO_V1(taskq_may_read);
PG_FUNCTION_INFO_V1(taskq_may_read_payload);
PG_FUNCTION_INFO_V1(taskq_may_observe);
PG_FUNCTION_INFO_V1(taskq_may_see_worker);
PG_FUNCTION_INFO_V1(taskq_task_progress);

/* A call that reads. */
typedef struct Look
{
	TqTaskPage *find;
	TqInfo      info;
} Look;

static TqStmt stmt_role_of_worker = {
	"SELECT r.oid FROM taskq.worker w JOIN taskq.known_role r USING (role_id)"
	" WHERE w.worker_id = $1",
	{INT4OID}};

static void  look_begin(Look *look);
static void  look_again(Look *look);
static void  look_end(Look *look);
static bool  may_see(Look *look, const TqTask *task);
static bool  has_submitted(const TqTask *task);
static bool  may_see_progress(int64 task_id, bool *words);
static bool  sees_workers(void);
static void  add_resume_row(ReturnSetInfo *result, int64 resume_after);
static int64 read_max_examined(FunctionCallInfo fcinfo);
static void  read_list_filter(FunctionCallInfo fcinfo, Look *look,
							  TqTaskFilter *filter);
static bool  has_right(int32 queue_id, TqRight right);

Datum
taskq_get(PG_FUNCTION_ARGS)
{
	int64  task_id = tq_arg_int8(fcinfo, 0, "task_id");
	Datum  values[TQ_SCAN_COLUMNS];
	bool   nulls[TQ_SCAN_COLUMNS];
	Datum  row;
	TqTask task;
	Look   look;

	look_begin(&look);
	if (!tq_task_page_find_one(look.find, task_id, &task) ||
		!may_see(&look, &task))
		tq_error_no_such_task(task_id);
	tq_task_info_row(&look.info, &task, values, nulls);
	row = tq_srf_row(fcinfo, values, nulls);
	look_end(&look);
	return row;
}

/*
 * Get the outcome of a task for a session that waits for it: for roles that
 * may read it, and for its submitter if that role may still submit to the
 * queue.  A task that has not finished has no result or error yet, and a done
 * task has no error.  Returns false if there is no such task; raises TQ002 or
 * 42501 if the caller may not see it.
 */
bool
tq_task_get_outcome(int64 task_id, TqTaskOutcome *outcome)
{
	Datum  values[TQ_SCAN_COLUMNS];
	bool   nulls[TQ_SCAN_COLUMNS];
	TqTask task;
	Look   look;
	bool   found;

	memset(outcome, 0, sizeof(*outcome));
	look_begin(&look);
	found = tq_task_page_find_one(look.find, task_id, &task);
	if (found)
	{
		if (has_submitted(&task))
			look.info.sight.all_words = look.info.sight.all_payload = true;
		else if (!may_see(&look, &task))
			tq_error_no_such_task(task_id);
		outcome->state = (TqState) task.f.state;
	}
	if (found && !TQ_STATE_IS_LIVE(task.f.state))
	{
		memset(look.info.wanted, false, sizeof(look.info.wanted));
		look.info.wanted[TQ_INFO_RESULT] = true;
		look.info.wanted[TQ_INFO_ERROR] = task.f.state != TQ_STATE_DONE;
		tq_task_info_row(&look.info, &task, values, nulls);
		outcome->has_result = !nulls[TQ_INFO_RESULT];
		if (outcome->has_result)
			outcome->result =
				PointerGetDatum(PG_DETOAST_DATUM_COPY(values[TQ_INFO_RESULT]));
		outcome->has_error = !nulls[TQ_INFO_ERROR];
		if (outcome->has_error)
			outcome->error =
				PointerGetDatum(PG_DETOAST_DATUM_COPY(values[TQ_INFO_ERROR]));
	}
	look_end(&look);
	return found;
}

/*
 * Returns rows in the order of the ids; a row of nulls for each id that does
 * not exist or is not visible.
 */
Datum
taskq_get_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext  row_context;
	Datum         *ids;
	int            count;
	Look           look;

	tq_srf_begin(fcinfo);
	if (PG_ARGISNULL(0))
		tq_error_required("task_ids");
	ids = tq_arg_array(fcinfo, 0, "task_ids", INT8OID, &count);
	look_begin(&look);
	row_context = AllocSetContextCreate(CurrentMemoryContext, "taskq row",
										ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < count; i++)
	{
		MemoryContext mine = MemoryContextSwitchTo(row_context);
		Datum         values[TQ_SCAN_COLUMNS];
		bool          nulls[TQ_SCAN_COLUMNS];
		TqTask        task;

		CHECK_FOR_INTERRUPTS();
		memset(nulls, true, sizeof(nulls));
		if (tq_task_page_find_one(look.find, DatumGetInt64(ids[i]), &task) &&
			may_see(&look, &task))
			tq_task_info_row(&look.info, &task, values, nulls);
		tq_srf_add(result, values, nulls);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(row_context);
	}
	look_end(&look);
	return (Datum) 0;
}

Datum
taskq_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int            max_rows = PG_ARGISNULL(3) ? 100 : PG_GETARG_INT32(3);
	MemoryContext  row_context;
	TqTaskSearch   search = {0};
	TqTaskFilter   filter;
	Look           look;

	tq_srf_begin(fcinfo);
	look_begin(&look);
	read_list_filter(fcinfo, &look, &filter);
	search.max = max_rows;
	search.max_examined = read_max_examined(fcinfo);
	if (max_rows < 1 || max_rows > MAX_ROWS)
		tq_error_invalid("max_rows",
						 psprintf("must be from 1 to %d", MAX_ROWS), NULL);
	if (!tq_arg_bool(fcinfo, 8, true))
	{
		look.info.wanted[TQ_INFO_PAYLOAD] = false;
		look.info.wanted[TQ_INFO_DATA] = false;
	}
	look.info.wanted[TQ_INFO_WORKER_SEEN] = false;
	row_context = AllocSetContextCreate(CurrentMemoryContext, "taskq row",
										ALLOCSET_DEFAULT_SIZES);
	if (tq_task_search_prepare(look.find, &filter))
		look_again(&look);
	tq_task_search_run(look.find, &filter, &search);
	for (int i = 0; i < search.count; i++)
	{
		MemoryContext mine = MemoryContextSwitchTo(row_context);
		Datum         values[TQ_SCAN_COLUMNS];
		bool          nulls[TQ_SCAN_COLUMNS];
		TqTask        task;

		CHECK_FOR_INTERRUPTS();
		tq_task_page_read(look.find, &search.found[i], &task);
		tq_task_info_row(&look.info, &task, values, nulls);
		tq_srf_add(result, values, nulls);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(row_context);
	}
	if (search.stopped)
		add_resume_row(result, search.resume_after);
	look_end(&look);
	return (Datum) 0;
}

/* The last row of a page that stopped early: where the next page begins. */
static void
add_resume_row(ReturnSetInfo *result, int64 resume_after)
{
	Datum values[TQ_SCAN_COLUMNS] = {0};
	bool  nulls[TQ_SCAN_COLUMNS];

	memset(nulls, true, sizeof(nulls));
	values[LIST_RESUME_AFTER] = Int64GetDatum(resume_after);
	nulls[LIST_RESUME_AFTER] = false;
	tq_srf_add(result, values, nulls);
}

/*
 * How many rows may be examined.  A call with neither a filter nor a limit
 * finds all tasks, as it did before there were filters.
 */
static int64
read_max_examined(FunctionCallInfo fcinfo)
{
	int64 max = PG_ARGISNULL(10) ? tq_guc_max_examined : PG_GETARG_INT64(10);

	if (max < 1)
		tq_error_invalid("max_examined", "must be at least 1", NULL);
	return PG_ARGISNULL(9) && PG_ARGISNULL(10) ? PG_INT64_MAX : max;
}

/*
 * Read the arguments of taskq_list, and determine which tasks the caller may
 * see.
 */
static void
read_list_filter(FunctionCallInfo fcinfo, Look *look, TqTaskFilter *filter)
{
	char   *state_word = tq_arg_keyword(fcinfo, 1, "state");
	TqState state;

	tq_task_filter_init(filter);
	tq_task_filter_restrict(filter, &look->info.sight);
	filter->reference = tq_arg_word(fcinfo, 4, "reference", TQ_MAX_KEY);
	filter->key = tq_arg_word(fcinfo, 5, "key", TQ_MAX_KEY);
	filter->backward = tq_arg_bool(fcinfo, 6, false);
	filter->correlation_id =
		tq_arg_word(fcinfo, 7, "correlation_id", TQ_MAX_KEY);
	if (!PG_ARGISNULL(2))
		tq_task_filter_after(filter, PG_GETARG_INT64(2));
	if (state_word != NULL)
	{
		if (!tq_state_parse(state_word, &state))
			tq_error_invalid("state", "is unknown",
							 psprintf("Allowed: %s.", tq_state_words()));
		tq_task_filter_states(filter, TQ_STATE_BIT(state));
	}
	if (!PG_ARGISNULL(0))
	{
		char    *name = tq_arg_name(fcinfo, 0, "queue", NULL);
		TqQueue *queue = tq_queue_find(name);

		if (queue == NULL)
			tq_error_no_such_queue(name);
		if (!look->info.sight.all)
			tq_role_require(queue, TQ_RIGHT_OBSERVE);
		filter->all_queues = false;
		filter->queues = palloc(sizeof(int32));
		filter->queues[0] = queue->queue_id;
		filter->queue_count = 1;
	}
	tq_task_filter_read(filter, tq_arg_jsonb(fcinfo, 9));
}

/* For views: may current_user see tasks of the queue? */
Datum
taskq_may_read(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!PG_ARGISNULL(0) &&
				   (has_right(PG_GETARG_INT32(0), TQ_RIGHT_OBSERVE) ||
					tq_role_is_monitor()));
}

/* For views: may current_user see their contents, without redaction? */
Datum
taskq_may_read_payload(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!PG_ARGISNULL(0) &&
				   has_right(PG_GETARG_INT32(0), TQ_RIGHT_READ) &&
				   tq_contents_redaction(PG_GETARG_INT32(0)) == NULL);
}

/* For views: may current_user see their messages? */
Datum
taskq_may_observe(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(!PG_ARGISNULL(0) &&
				   has_right(PG_GETARG_INT32(0), TQ_RIGHT_OBSERVE));
}

/* Has current_user the right on a queue, or (0) on all queues? */
static bool
has_right(int32 queue_id, TqRight right)
{
	TqQueue *queue;
	int      rights = 0;

	tq_queue_refresh();
	queue = tq_queue_by_id(queue_id);
	if (queue_id == 0)
		rights = tq_role_rights_all();
	else if (queue != NULL)
		rights = tq_role_rights(queue);
	return (rights & right) != 0;
}

/*
 * Return the progress of a running task: (progress, message); nulls if none
 * was reported or current_user may not see it.
 */
Datum
taskq_task_progress(PG_FUNCTION_ARGS)
{
	Datum  values[2] = {0};
	bool   nulls[2] = {true, true};
	bool   words = false;
	float4 progress;
	char   message[TQ_PROGRESS_MESSAGE + 1];

	if (!PG_ARGISNULL(0) && !PG_ARGISNULL(1) &&
		may_see_progress(PG_GETARG_INT64(0), &words) &&
		tq_liveness_read_progress(PG_GETARG_INT64(0), PG_GETARG_INT64(1),
								  &progress, message))
	{
		values[0] = Float4GetDatum(progress);
		nulls[0] = progress < 0;
		values[1] = CStringGetTextDatum(message);
		nulls[1] = !words || message[0] == '\0';
	}
	return tq_srf_row(fcinfo, values, nulls);
}

/*
 * For the view of workers: a role sees the workers of roles whose privileges
 * it has; observers of all queues and pg_monitor see all workers.
 */
Datum
taskq_may_see_worker(PG_FUNCTION_ARGS)
{
	Oid role;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	if (sees_workers())
		PG_RETURN_BOOL(true);
	role = tq_role_oid(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

/* Like the function above, by the number of the worker. */
bool
tq_task_get_sees_worker(int32 worker_id)
{
	Datum arg = Int32GetDatum(worker_id);
	Oid   role = InvalidOid;
	TqSpi spi;

	if (sees_workers())
		return true;
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_role_of_worker, &arg, NULL, 1) > 0)
	{
		bool isnull;

		role = DatumGetObjectId(tq_spi_get(0, 1, &isnull));
	}
	tq_spi_leave(&spi);
	return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}

static bool
sees_workers(void)
{
	return tq_role_is_monitor() ||
		   (tq_role_rights_all() & (TQ_RIGHT_OBSERVE | TQ_RIGHT_MANAGE)) != 0;
}

/* May current_user see the progress of the task? words: also the message? */
static bool
may_see_progress(int64 task_id, bool *words)
{
	Look   look;
	TqTask task;
	bool   may = false;

	look_begin(&look);
	if (tq_task_page_find_one(look.find, task_id, &task))
	{
		*words = tq_visibility_observes(&look.info.sight, task.f.queue_id);
		may = *words || look.info.sight.all;
	}
	look_end(&look);
	return may;
}

/* Read committed rows and the changes of this transaction. */
static void
look_begin(Look *look)
{
	tq_queue_refresh();
	tq_task_info_begin(&look->info);
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	look->find = tq_task_page_begin(GetActiveSnapshot());
}

/* Continue with a new snapshot; nothing has been read. */
static void
look_again(Look *look)
{
	PopActiveSnapshot();
	PushActiveSnapshot(GetTransactionSnapshot());
	look->find->snapshot = GetActiveSnapshot();
}

static void
look_end(Look *look)
{
	tq_task_page_end(look->find);
	PopActiveSnapshot();
}

/*
 * May current_user see the task?  Raises 42501 for a role with another right
 * on the queue.
 */
static bool
may_see(Look *look, const TqTask *task)
{
	TqQueue *queue = tq_queue_by_id(task->f.queue_id);

	if (queue == NULL)
		return false;
	if (look->info.sight.all ||
		tq_visibility_observes(&look->info.sight, task->f.queue_id))
		return true;
	if (tq_role_rights(queue) != 0)
		tq_error_task_right(task->f.task_id, TQ_RIGHT_OBSERVE);
	return false;
}

/* Did current_user submit the task, to a queue it may still submit to? */
static bool
has_submitted(const TqTask *task)
{
	TqQueue *queue = tq_queue_by_id(task->f.queue_id);
	Oid      role = tq_role_oid(task->f.submitted_by);

	return queue != NULL && OidIsValid(role) &&
		   has_privs_of_role(GetUserId(), role) &&
		   (tq_role_rights(queue) & TQ_RIGHT_SUBMIT) != 0;
}

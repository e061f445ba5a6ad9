/*
 * submit_list.c
 *		Many tasks in one call: taskq_submit_many, taskq_submit_tasks.
 *
 * Tasks are written in list order, so two lists with the same references could
 * wait for each other.  Locking all references of every list would make any
 * two lists wait.  Therefore a list with several references is first tried in
 * a savepoint that waits only briefly for each lock.  If that fails, the
 * savepoint is rolled back, the references are locked in one order
 * (name_lock.c), and the list is written after that.  This is repeated if a
 * task that the list changes has got another key.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/guc.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/place.h"
#include "base/srf.h"
#include "base/subxact.h"
#include "command/submission.h"
#include "command/submission_keys.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/key.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_submit_many);
PG_FUNCTION_INFO_V1(taskq_submit_tasks);

typedef enum WaitMode
{
	WAIT_FREELY,   /* at most one reference */
	WAIT_A_MOMENT, /* then give up with 55P03 */
	WAIT_IN_ORDER  /* after locking all references */
} WaitMode;

/* A list of objects. */
typedef struct TaskList
{
	Jsonb            *tasks;
	TqSubmissionKeys *keys;
	WaitMode          mode;
	int64            *ids; /* of created tasks, or 0 */
} TaskList;

/* Payloads of tasks that have all other arguments in common. */
typedef struct PayloadList
{
	FunctionCallInfo    fcinfo;
	const TqSubmission *sub; /* as read, before it is resolved */
	Datum              *payloads;
	int                 count;
	int64              *ids; /* likewise */
} PayloadList;

static void submit_payloads(void *arg);
static void return_ids(FunctionCallInfo fcinfo, const int64 *ids, int count);
static bool is_of_locks(int sqlstate);
static void submit_in_order(void *arg);
static void submit_tasks(void *arg);
static bool submit_entry(TqCall *call, const TaskList *list, JsonbValue *entry,
						 const TqSubmissionKey *key, int64 *task_id);

Datum
taskq_submit_many(PG_FUNCTION_ARGS)
{
	TqSubmission sub = {0};
	PayloadList  list = {fcinfo, &sub};

	tq_srf_begin(fcinfo);
	if (PG_ARGISNULL(TQ_SUBMIT_PAYLOAD))
		tq_error_required("payloads");
	list.payloads = tq_arg_array(fcinfo, TQ_SUBMIT_PAYLOAD, "payloads",
								 JSONBOID, &list.count);
	list.ids = MemoryContextAllocHuge(CurrentMemoryContext,
									  sizeof(int64) * (list.count + 1));
	tq_submission_read(fcinfo, &sub, NULL);
	if (tq_submit_may_move_key(&sub))
		tq_subxact_repeat(submit_payloads, &list);
	else
		submit_payloads(&list);
	return_ids(fcinfo, list.ids, list.count);
	return (Datum) 0;
}

static void
submit_payloads(void *arg)
{
	PayloadList  *list = arg;
	TqSubmission  sub = *list->sub;
	TqCall        call;
	TqPlace       place;
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "taskq_submit_many",
											  ALLOCSET_DEFAULT_SIZES);

	tq_call_begin(&call, "taskq_submit_many()");
	call.many = true;
	tq_key_settle_later(&call);
	tq_submission_resolve(list->fcinfo, &sub);
	tq_place_begin(&place, "payloads");
	for (int i = 0; i < list->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		place.index = i;
		MemoryContextSwitchTo(one);
		if (i > 0 && sub.reference != NULL)
			tq_snapshot_renew();
		/* the next task would delete it */
		if ((sub.insertion == TQ_INSERTION_DELETE && i < list->count - 1) ||
			!tq_submit_one(&call, &sub, DatumGetJsonbP(list->payloads[i]),
						   &list->ids[i]))
			list->ids[i] = 0;
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_place_end(&place);
	tq_call_end(&call);
	MemoryContextDelete(one);
}

/* An id that is 0 is returned as NULL. */
static void
return_ids(FunctionCallInfo fcinfo, const int64 *ids, int count)
{
	for (int i = 0; i < count; i++)
	{
		Datum value = Int64GetDatum(ids[i]);
		bool  isnull = ids[i] == 0;

		tq_srf_add((ReturnSetInfo *) fcinfo->resultinfo, &value, &isnull);
	}
}

/*
 * A list of objects, each with the arguments of taskq_submit as members.  All
 * or nothing: the first problem ends the call.
 */
Datum
taskq_submit_tasks(PG_FUNCTION_ARGS)
{
	TqSubmissionKeys keys;
	TaskList         list = {tq_arg_jsonb(fcinfo, 0), &keys};
	ErrorData       *error = NULL;

	tq_srf_begin(fcinfo);
	if (list.tasks == NULL)
		tq_error_required("tasks");
	if (!JB_ROOT_IS_ARRAY(list.tasks) || JB_ROOT_IS_SCALAR(list.tasks))
		tq_error_invalid("tasks", "must be a list of objects", NULL);
	tq_arg_check_list("tasks", JB_ROOT_COUNT(list.tasks));
	tq_submission_keys_read(list.tasks, &keys);
	list.ids = MemoryContextAllocHuge(CurrentMemoryContext,
									  sizeof(int64) * (keys.count + 1));
	if (keys.references > 1)
	{
		list.mode = WAIT_A_MOMENT;
		error = tq_subxact_run(submit_tasks, &list);
		if (error != NULL && !is_of_locks(error->sqlerrcode))
			ReThrowError(error);
		list.mode = WAIT_IN_ORDER;
		if (error != NULL)
			tq_subxact_repeat(submit_in_order, &list);
	}
	else if (keys.references > 0 && tq_queue_any_ordered())
		tq_subxact_repeat(submit_tasks, &list);
	else
		submit_tasks(&list);
	return_ids(fcinfo, list.ids, keys.count);
	return (Datum) 0;
}

/* Did the savepoint fail because it needs other locks, or must wait longer? */
static bool
is_of_locks(int sqlstate)
{
	return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ||
		   sqlstate == ERRCODE_T_R_DEADLOCK_DETECTED ||
		   sqlstate == ERRCODE_T_R_SERIALIZATION_FAILURE;
}

/* The keys are locked again by the call that needs them. */
static void
submit_in_order(void *arg)
{
	TaskList *list = arg;
	TqCall    call;

	tq_call_begin(&call, "taskq_submit_tasks()");
	tq_submission_keys_lock(&call, list->keys);
	tq_submission_keys_lock_references(&call, list->keys);
	tq_call_end(&call);
	submit_tasks(list);
}

static void
submit_tasks(void *arg)
{
	TaskList          *list = arg;
	JsonbIterator     *it;
	JsonbValue         entry;
	JsonbIteratorToken token;
	TqPlace            place;
	TqCall             call;
	MemoryContext      caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "taskq_submit_tasks",
											  ALLOCSET_DEFAULT_SIZES);
	int           level = 0;

	tq_call_begin(&call, "taskq_submit_tasks()");
	tq_key_settle_later(&call);
	if (list->mode == WAIT_IN_ORDER)
		tq_key_complete(&call);
	tq_submission_keys_lock(&call, list->keys);
	tq_key_complete(&call);
	if (list->mode == WAIT_A_MOMENT)
		level = tq_subxact_limit_waits();
	call.many = true;
	it = JsonbIteratorInit(&list->tasks->root);
	token = JsonbIteratorNext(&it, &entry, false);
	tq_place_begin(&place, "tasks");
	while ((token = JsonbIteratorNext(&it, &entry, true)) == WJB_ELEM)
	{
		int64 task_id = 0;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		if (!submit_entry(&call, list, &entry, &list->keys->all[place.index],
						  &task_id))
			task_id = 0;
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
		list->ids[place.index++] = task_id;
	}
	tq_place_end(&place);
	tq_call_end(&call);
	MemoryContextDelete(one);
	if (list->mode == WAIT_A_MOMENT)
		AtEOXact_GUC(true, level);
}

/*
 * Returns false if there is no id to return.  If a later entry would delete
 * the task of this entry, the entry is checked, but not written.
 */
static bool
submit_entry(TqCall *call, const TaskList *list, JsonbValue *entry,
			 const TqSubmissionKey *key, int64 *task_id)
{
	static const TqEntryKind kind = {"tasks"};

	LOCAL_FCINFO(inner, TQ_SUBMIT_COUNT);
	bool         named[TQ_SUBMIT_COUNT];
	TqSubmission sub = {0};

	InitFunctionCallInfoData(*inner, NULL, TQ_SUBMIT_COUNT, InvalidOid, NULL,
							 NULL);
	tq_submission_read_entry(inner, entry, &kind, named);
	tq_submission_read(inner, &sub, "default");
	tq_submission_resolve(inner, &sub);
	sub.holder_stays = list->mode == WAIT_IN_ORDER && !key->may_change;
	if (sub.reference != NULL)
		tq_snapshot_renew();
	return !key->deleted &&
		   tq_submit_one(call, &sub, tq_arg_jsonb(inner, TQ_SUBMIT_PAYLOAD),
						 task_id);
}

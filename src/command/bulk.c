/*
 * bulk.c
 *		End many attempts in one call: taskq_complete_many, taskq_decide_many,
 *		taskq_extend_many, taskq_complete_and_claim.
 *
 * Tasks are written in the order of their ids, so that two calls cannot
 * deadlock, and returned in the caller's order.  A problem with one task is
 * reported in its row.  With strict, any problem fails the call (TQ010): the
 * error names all problems and nothing is changed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/json.h"
#include "base/place.h"
#include "base/srf.h"
#include "command/claim.h"
#include "command/finish.h"
#include "engine/call.h"
#include "engine/failure.h"
#include "engine/key.h"
#include "engine/step.h"
#include "store/pkey_lookup.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_complete_many);
PG_FUNCTION_INFO_V1(taskq_decide_many);
PG_FUNCTION_INFO_V1(taskq_extend_many);
PG_FUNCTION_INFO_V1(taskq_complete_and_claim);

/* One task of a list. */
typedef struct Entry
{
	int         place; /* index in the caller's list */
	int64       task_id;
	int64       token;
	TqDecision *decision;
	int         problem; /* SQLSTATE, or 0 */
	TqState     state;   /* the new state */
	bool        cancel;  /* was the worker asked to stop? */
} Entry;

typedef struct EntryList
{
	const char *name;  /* name of the argument */
	Entry      *items; /* in id order */
	int         count;
	int         ahead; /* number of items prefetched */
} EntryList;

/*
 * Ids that are prefetched together are at most this far apart, and are at most
 * this number.
 */
#define MAX_GAP 8
#define MAX_AHEAD 64

static void    read_lists(FunctionCallInfo fcinfo, EntryList *list,
						  bool with_results);
static void    read_decisions(FunctionCallInfo fcinfo, EntryList *list);
static void    read_decision(JsonbValue *entry, Entry *item);
static void    check_decision(Entry *item, bool has_task, bool has_token,
							  const char *outcome);
static void    decide_and_tell(FunctionCallInfo fcinfo, const char *function,
							   EntryList *list, bool strict);
static void    decide_all(TqCall *call, EntryList *list);
static void    lock_ahead(TqCall *call, const EntryList *list);
static void    look_ahead(TqCall *call, EntryList *list, int at);
static int     count_problems(const EntryList *list);
static void    raise_conflict(const EntryList *list) pg_attribute_noreturn();
static void    raise_lease_lost(const EntryList *list) pg_attribute_noreturn();
static void    sort_items(EntryList *list);
static Entry **in_order(const EntryList *list);
static int     compare_items(const void *a, const void *b);

Datum
taskq_complete_many(PG_FUNCTION_ARGS)
{
	EntryList list;

	tq_srf_begin(fcinfo);
	read_lists(fcinfo, &list, true);
	decide_and_tell(fcinfo, "taskq_complete_many()", &list,
					tq_arg_bool(fcinfo, 3, false));
	return (Datum) 0;
}

Datum
taskq_decide_many(PG_FUNCTION_ARGS)
{
	EntryList list;

	tq_srf_begin(fcinfo);
	read_decisions(fcinfo, &list);
	decide_and_tell(fcinfo, "taskq_decide_many()", &list,
					tq_arg_bool(fcinfo, 1, true));
	return (Datum) 0;
}

Datum
taskq_extend_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64          lease = tq_arg_span(fcinfo, 2, "lease", 1, 0);
	MemoryContext  caller = CurrentMemoryContext;
	MemoryContext  one;
	EntryList      list;
	Entry        **items;
	TqCall         call;

	tq_srf_begin(fcinfo);
	read_lists(fcinfo, &list, false);
	one = AllocSetContextCreate(caller, "taskq_extend_many",
								ALLOCSET_DEFAULT_SIZES);
	tq_call_begin(&call, "taskq_extend_many()");
	for (int i = 0; i < list.count; i++)
	{
		Entry *item = &list.items[i];
		TqTask task;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		/* the same task again: read the row that this call has just written */
		if (i > 0 && item->task_id == list.items[i - 1].task_id)
			tq_snapshot_renew();
		look_ahead(&call, &list, i);
		item->problem = tq_finish_extend(&call, item->task_id, item->token,
										 lease, false, &task);
		item->cancel = item->problem == 0 && tq_failure_stop_asked(&task);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_call_end(&call);
	MemoryContextDelete(one);
	items = in_order(&list);
	for (int i = 0; i < list.count; i++)
	{
		Datum values[3];
		bool  nulls[3] = {false};

		values[0] = Int64GetDatum(items[i]->task_id);
		values[1] = BoolGetDatum(items[i]->problem == 0);
		nulls[2] = items[i]->problem != 0;
		values[2] = BoolGetDatum(items[i]->cancel);
		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}

Datum
taskq_complete_and_claim(PG_FUNCTION_ARGS)
{
	TqClaim   claim = {0};
	EntryList list;
	TqCall    call;

	tq_srf_begin(fcinfo);
	read_lists(fcinfo, &list, true);
	claim.queue_name = tq_arg_name(fcinfo, 3, "queue", "default");
	if (!PG_ARGISNULL(4))
		claim.worker_name = tq_arg_name(fcinfo, 4, "worker", NULL);
	claim.max_tasks = tq_claim_max_tasks(fcinfo, 5);
	claim.lease = tq_arg_span(fcinfo, 6, "lease", 1, 0);
	claim.tags_given = tq_arg_tags(fcinfo, 7, &claim.tags);

	tq_call_begin(&call, "taskq_complete_and_claim()");
	decide_all(&call, &list);
	if (count_problems(&list) > 0)
		raise_lease_lost(&list);
	tq_call_advance(&call);
	tq_call_renew(&call);
	tq_claim_run(&call, &claim, (ReturnSetInfo *) fcinfo->resultinfo);
	tq_call_end(&call);
	return (Datum) 0;
}

/* Read task_ids, tokens, and the results of completions. */
static void
read_lists(FunctionCallInfo fcinfo, EntryList *list, bool with_results)
{
	TqDecision *decisions;
	Datum      *ids;
	Datum      *tokens;
	Datum      *results = NULL;
	bool       *result_nulls = NULL;
	int         tokens_count;
	int         results_count;

	if (PG_ARGISNULL(0))
		tq_error_required("task_ids");
	if (PG_ARGISNULL(1))
		tq_error_required("tokens");
	ids = tq_arg_array(fcinfo, 0, "task_ids", INT8OID, &list->count);
	tokens = tq_arg_array(fcinfo, 1, "tokens", INT8OID, &tokens_count);
	if (tokens_count != list->count)
		tq_error_invalid("tokens", "must have as many elements as task_ids",
						 NULL);
	if (with_results && !PG_ARGISNULL(2))
	{
		ArrayType *array = PG_GETARG_ARRAYTYPE_P(2);

		if (ARR_NDIM(array) > 1)
			ereport(ERROR,
					(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
					 errmsg("results must be a one-dimensional array")));
		tq_arg_check_list("results",
						  ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)));
		deconstruct_array(array, JSONBOID, -1, false, TYPALIGN_INT, &results,
						  &result_nulls, &results_count);
		if (results_count != list->count)
			tq_error_invalid("results",
							 "must have as many elements as task_ids", NULL);
	}
	list->items = palloc0(sizeof(Entry) * (list->count + 1));
	decisions = palloc0(sizeof(TqDecision) * (list->count + 1));
	for (int i = 0; i < list->count; i++)
	{
		Entry *item = &list->items[i];

		item->place = i;
		item->task_id = DatumGetInt64(ids[i]);
		item->token = DatumGetInt64(tokens[i]);
		item->decision = &decisions[i];
		item->decision->outcome = TQ_FINISH_COMPLETE;
		if (results != NULL && !result_nulls[i])
			item->decision->result = DatumGetJsonbP(results[i]);
	}
	list->ahead = 0;
	list->name = "task_ids";
	sort_items(list);
}

static void
read_decisions(FunctionCallInfo fcinfo, EntryList *list)
{
	Jsonb             *doc = tq_arg_jsonb(fcinfo, 0);
	JsonbIterator     *it;
	JsonbValue         entry;
	JsonbIteratorToken token;
	TqPlace            place;

	if (doc == NULL)
		tq_error_required("decisions");
	if (!JB_ROOT_IS_ARRAY(doc) || JB_ROOT_IS_SCALAR(doc))
		tq_error_invalid("decisions", "must be a list of objects", NULL);
	tq_arg_check_list("decisions", JB_ROOT_COUNT(doc));
	list->items = palloc0(sizeof(Entry) * (JB_ROOT_COUNT(doc) + 1));
	list->count = list->ahead = 0;
	list->name = "decisions";
	tq_place_begin(&place, list->name);
	it = JsonbIteratorInit(&doc->root);
	token = JsonbIteratorNext(&it, &entry, false);
	while ((token = JsonbIteratorNext(&it, &entry, true)) == WJB_ELEM)
	{
		Entry *item = &list->items[list->count];

		CHECK_FOR_INTERRUPTS();
		item->place = place.index = list->count++;
		item->decision = palloc0(sizeof(TqDecision));
		item->decision->retryable = true;
		item->decision->retry_in = -1;
		read_decision(&entry, item);
	}
	tq_place_end(&place);
	sort_items(list);
}

/* Read one object of the list. */
static void
read_decision(JsonbValue *entry, Entry *item)
{
	static const char members[] =
		"task_id, token, outcome, result, keep, error, detail, retryable, "
		"retry_in, delay, reason";
	TqDecision        *decision = item->decision;
	JsonbIterator     *it;
	JsonbValue         key;
	JsonbValue         value;
	JsonbIteratorToken token;
	char              *outcome = NULL;
	bool               has_task = false;
	bool               has_token = false;

	if (!tq_json_is_object(entry))
		tq_error_invalid("decisions", "must be a list of objects", NULL);
	it = JsonbIteratorInit(entry->val.binary.data);
	token = JsonbIteratorNext(&it, &key, false);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);
		bool  given;

		token = JsonbIteratorNext(&it, &value, true);
		given = value.type != jbvNull;
		if (strcmp(name, "task_id") == 0)
		{
			has_task = given;
			item->task_id = given ? tq_json_int8(name, &value) : 0;
		}
		else if (strcmp(name, "token") == 0)
		{
			has_token = given;
			item->token = given ? tq_json_int8(name, &value) : 0;
		}
		else if (strcmp(name, "outcome") == 0)
			outcome = given ? tq_json_string(name, &value) : NULL;
		else if (strcmp(name, "result") == 0)
			decision->result = given ? JsonbValueToJsonb(&value) : NULL;
		else if (strcmp(name, "detail") == 0)
			decision->detail = given ? JsonbValueToJsonb(&value) : NULL;
		else if (strcmp(name, "error") == 0)
			decision->error = given ? tq_arg_cut(tq_json_string(name, &value),
												 TQ_MAX_ERROR_TEXT)
									: NULL;
		else if (strcmp(name, "reason") == 0)
			decision->message = given
									? tq_arg_cut(tq_json_string(name, &value),
												 TQ_MAX_ERROR_TEXT)
									: NULL;
		else if (strcmp(name, "retryable") == 0)
			decision->retryable = given ? tq_json_bool(name, &value) : true;
		else if (strcmp(name, "retry_in") == 0)
			decision->retry_in = given ? tq_json_span(name, &value) : -1;
		else if (strcmp(name, "delay") == 0)
			decision->delay = given ? tq_json_span(name, &value) : 0;
		else if (strcmp(name, "keep") == 0)
			decision->trace = !given                       ? TQ_TRACE_BY_QUEUE
							  : tq_json_bool(name, &value) ? TQ_TRACE_KEEP
														   : TQ_TRACE_NONE;
		else
			tq_error_invalid(psprintf("member \"%s\" of a decision", name),
							 "does not exist",
							 psprintf("Allowed: %s.", members));
	}
	check_decision(item, has_task, has_token, outcome);
}

/* Check which members the outcome requires and which it does not accept. */
static void
check_decision(Entry *item, bool has_task, bool has_token, const char *outcome)
{
	static const struct
	{
		const char  *word;
		TqFinishKind outcome;
	} outcomes[] = {{"complete", TQ_FINISH_COMPLETE},
					{"fail", TQ_FINISH_FAIL},
					{"suspend", TQ_FINISH_SUSPEND},
					{"filter", TQ_FINISH_FILTER},
					{"release", TQ_FINISH_RELEASE}};
	TqDecision *decision = item->decision;
	const char *stray = NULL;
	bool        fails;
	bool        completes;
	bool        releases;
	int         i;

	if (!has_task)
		tq_error_required("task_id of a decision");
	if (!has_token)
		tq_error_required("token of a decision");
	if (outcome == NULL)
		tq_error_required("outcome of a decision");
	for (i = 0; i < lengthof(outcomes); i++)
	{
		if (strcmp(outcomes[i].word, outcome) == 0)
			break;
	}
	if (i == lengthof(outcomes))
		tq_error_invalid("outcome", "is unknown",
						 "Allowed: complete, fail, suspend, filter, release.");
	decision->outcome = outcomes[i].outcome;
	fails = decision->outcome == TQ_FINISH_FAIL;
	completes = decision->outcome == TQ_FINISH_COMPLETE;
	releases = decision->outcome == TQ_FINISH_RELEASE;
	if (fails && decision->error == NULL)
		tq_error_required("error of a decision");
	if (!fails && decision->error != NULL)
		stray = "error";
	else if (!fails && decision->detail != NULL)
		stray = "detail";
	else if (!fails && !decision->retryable)
		stray = "retryable";
	else if (!fails && decision->retry_in >= 0)
		stray = "retry_in";
	else if (!completes && !releases && decision->result != NULL)
		stray = "result";
	else if (!completes && decision->trace != TQ_TRACE_BY_QUEUE)
		stray = "keep";
	else if (!releases && decision->delay > 0)
		stray = "delay";
	else if ((completes || fails) && decision->message != NULL)
		stray = "reason";
	if (stray != NULL)
		tq_error_invalid(psprintf("member \"%s\" of a decision", stray),
						 psprintf("has no meaning for outcome %s", outcome),
						 NULL);
	tq_finish_check_detail(decision->detail);
}

/*
 * End each attempt, and return (task_id, ok, error_code), and the new state if
 * the result has a column for it.
 */
static void
decide_and_tell(FunctionCallInfo fcinfo, const char *function, EntryList *list,
				bool strict)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Entry        **items;
	TqCall         call;

	tq_call_begin(&call, function);
	decide_all(&call, list);
	if (strict && count_problems(list) > 0)
		raise_conflict(list);
	tq_call_end(&call);
	items = in_order(list);
	for (int i = 0; i < list->count; i++)
	{
		Entry *item = items[i];
		bool   ok = item->problem == 0;
		Datum  values[4] = {Int64GetDatum(item->task_id), BoolGetDatum(ok)};
		bool   nulls[4] = {false, false, ok, !ok};

		if (ok)
			values[3] = CStringGetTextDatum(tq_state_name(item->state));
		else
			values[2] = CStringGetTextDatum(unpack_sql_state(item->problem));
		tq_srf_add(result, values, nulls);
	}
}

/* End each attempt as decided, and record the problems. */
static void
decide_all(TqCall *call, EntryList *list)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "taskq decisions",
											  ALLOCSET_DEFAULT_SIZES);
	TqPlace       place;

	lock_ahead(call, list);
	call->many = true;
	tq_place_begin(&place, list->name);
	for (int i = 0; i < list->count; i++)
	{
		Entry *item = &list->items[i];

		CHECK_FOR_INTERRUPTS();
		place.index = item->place;
		/*
		 * an earlier decision of the list has ended this task, or was invalid
		 */
		if (i > 0 && item->task_id == list->items[i - 1].task_id)
			tq_snapshot_renew();
		look_ahead(call, list, i);
		MemoryContextSwitchTo(one);
		item->problem = tq_finish_decide(call, item->task_id, item->token,
										 item->decision, false, &item->state);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_place_end(&place);
	MemoryContextDelete(one);
}

/* Lock all workflow instances, then all keys, before any task. */
static void
lock_ahead(TqCall *call, const EntryList *list)
{
	/* a task that is asked to stop and does not complete fails */
	static const TqInstanceLockKind locks[] = {
		[TQ_FINISH_COMPLETE] = TQ_FLOW_LOCK_END,
		[TQ_FINISH_FAIL] = TQ_FLOW_LOCK_FAILURE,
		[TQ_FINISH_FILTER] = TQ_FLOW_LOCK_FAILURE,
		[TQ_FINISH_RELEASE] = TQ_FLOW_LOCK_FAILURE,
		[TQ_FINISH_SUSPEND] = TQ_FLOW_LOCK_FAILURE};
	Size   room = list->count + 1;
	int64 *ids = palloc_extended(sizeof(int64) * room, MCXT_ALLOC_HUGE);
	int64 *tokens = palloc_extended(sizeof(int64) * room, MCXT_ALLOC_HUGE);
	TqInstanceLockKind *kinds =
		palloc_extended(sizeof(TqInstanceLockKind) * room, MCXT_ALLOC_HUGE);

	for (int i = 0; i < list->count; i++)
	{
		ids[i] = list->items[i].task_id;
		tokens[i] = list->items[i].token;
		kinds[i] = locks[list->items[i].decision->outcome];
	}
	if (list->count > 1)
		tq_step_hooks.moving_all(call, ids, tokens, kinds, list->count,
								 TQ_RIGHT_WORK);
	pfree(kinds);
	tq_key_lock_tasks(call, ids, tokens, list->count, TQ_RIGHT_WORK);
	pfree(tokens);
	pfree(ids);
}

/* Prefetch: tasks that were claimed together often have neighbouring ids. */
static void
look_ahead(TqCall *call, EntryList *list, int at)
{
	int last = at;

	if (at < list->ahead)
		return;
	while (last + 1 < list->count && last - at < MAX_AHEAD - 1 &&
		   (uint64) list->items[last + 1].task_id -
				   (uint64) list->items[last].task_id <=
			   MAX_GAP)
		last++;
	if (last > at)
		tq_pkey_lookup_prefetch(call, list->items[at].task_id,
								list->items[last].task_id);
	list->ahead = last + 1;
}

static int
count_problems(const EntryList *list)
{
	int count = 0;

	for (int i = 0; i < list->count; i++)
		count += list->items[i].problem != 0;
	return count;
}

/* Raise TQ010 with every problem, in the caller's order. */
static void
raise_conflict(const EntryList *list)
{
	Entry        **items = in_order(list);
	StringInfoData detail;
	int            count = 0;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "{\"problems\": [");
	for (int i = 0; i < list->count; i++)
	{
		if (items[i]->problem == 0)
			continue;
		appendStringInfo(&detail,
						 "%s{\"task_id\": " INT64_FORMAT
						 ", \"error_code\": \"%s\"}",
						 count++ > 0 ? ", " : "", items[i]->task_id,
						 unpack_sql_state(items[i]->problem));
	}
	appendStringInfoString(&detail, "]}");
	ereport(ERROR,
			(errcode(ERRCODE_TQ_CONFLICT),
			 errmsg("could not change %d of the listed tasks", count),
			 errdetail_internal("%s", detail.data),
			 errhint("Nothing was changed. Discard the work of tasks that are "
					 "no longer held.")));
}

/*
 * Raise the error of the first problem, for all tasks that have the same
 * problem.  No task of the list is changed.
 */
static void
raise_lease_lost(const EntryList *list)
{
	Entry        **items = in_order(list);
	StringInfoData detail;
	int            problem = 0;
	int            count = 0;

	for (int i = 0; i < list->count && problem != ERRCODE_TQ_LEASE_LOST; i++)
	{
		if (items[i]->problem == ERRCODE_TQ_LEASE_LOST || problem == 0)
			problem = items[i]->problem;
	}
	initStringInfo(&detail);
	appendStringInfoString(&detail, "{\"task_ids\": [");
	for (int i = 0; i < list->count; i++)
	{
		if (items[i]->problem == problem)
			appendStringInfo(&detail, "%s" INT64_FORMAT,
							 count++ > 0 ? ", " : "", items[i]->task_id);
	}
	appendStringInfoString(&detail, "]}");
	ereport(
		ERROR,
		(errcode(problem),
		 problem == ERRCODE_TQ_LEASE_LOST
			 ? errmsg_plural("claim on %d task is no longer valid",
							 "claims on %d tasks are no longer valid", count,
							 count)
		 : problem == ERRCODE_TQ_TOO_LARGE
			 ? errmsg_plural("%d result is too large",
							 "%d results are too large", count, count)
			 : errmsg_plural("cannot complete %d task",
							 "cannot complete %d tasks", count, count),
		 errdetail_internal("%s", detail.data),
		 problem == ERRCODE_TQ_TOO_LARGE
			 ? errhint("Nothing was done, and the tasks are still held. "
					   "Return smaller results, or fail the tasks.")
			 : errhint("Nothing was done. Discard the work of these tasks.")));
}

static void
sort_items(EntryList *list)
{
	qsort(list->items, list->count, sizeof(Entry), compare_items);
}

/* Return pointers to the items in the caller's order. */
static Entry **
in_order(const EntryList *list)
{
	Entry **items = palloc(sizeof(Entry *) * (list->count + 1));

	for (int i = 0; i < list->count; i++)
		items[list->items[i].place] = &list->items[i];
	return items;
}

static int
compare_items(const void *a, const void *b)
{
	const Entry *x = a;
	const Entry *y = b;

	if (x->task_id != y->task_id)
		return x->task_id < y->task_id ? -1 : 1;
	return x->place - y->place;
}

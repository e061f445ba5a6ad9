/*
 * operation_set.c
 *		Which tasks an operation takes.
 *
 * An operation takes the tasks of its queue that had been submitted before the
 * call, that match the filter when it comes to them, and that have been in
 * their state since before the call.  No list of them is kept; the row of a
 * task tells:
 *
 * - It was submitted before the call if its id is at most the largest one at
 *   the call and its created_at is not later than the call.
 * - A row that was last written by a transaction that had ended before the
 *   call (xid_before) has not changed since.  A restored copy has other
 *   transactions, which system_id tells; there only the times below count.
 * - A task that was claimed after the call (claimed_at) was not running, or
 *   has ended, since.
 * - A finished task has been so since finished_at, a suspended one since
 *   suspended_at, a running one since claimed_at.
 * - A pending task that was due before the call was waiting then: whatever
 *   makes a task pending again sets a later due time, except when its key
 *   releases it, which moves it from blocked to pending.
 * - A waiting task whose row has never been changed has its state since it was
 *   submitted.
 *
 * This leaves waiting tasks whose rows have changed since the call: blocked
 * ones, and those that are due after it.  Whether they were waiting at the
 * call is unknown.  An operation does not change them, but reports them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "utils/jsonb.h"
#include "utils/snapmgr.h"

#include "base/error.h"
#include "base/json.h"
#include "base/spi.h"
#include "base/types.h"
#include "operation/operation_set.h"
#include "query/task_filter.h"

#define IN(state) (1 << (state))
#define DEFAULT_WAITING (IN(TQ_STATE_PENDING) | IN(TQ_STATE_BLOCKED))

/* States of an operation whose filter names none; 0: it must. */
static const int default_states[] = {
	[TQ_ACTION_CANCEL] = DEFAULT_WAITING | IN(TQ_STATE_SUSPENDED) |
						 IN(TQ_STATE_RUNNING),
	[TQ_ACTION_RETRY] = IN(TQ_STATE_DEAD),
	[TQ_ACTION_RECREATE] = IN(TQ_STATE_DEAD),
	[TQ_ACTION_RESOLVE] = IN(TQ_STATE_DEAD),
	[TQ_ACTION_HOLD] = DEFAULT_WAITING,
	[TQ_ACTION_POISON] = IN(TQ_STATE_DEAD),
	[TQ_ACTION_UNPOISON] = IN(TQ_STATE_DEAD),
	[TQ_ACTION_DELETE] = 0};

static TqStmt stmt_live_xid = {
	"SELECT xmin FROM taskq.task WHERE task_id = $1", {INT8OID}};

static TqStmt stmt_finished_xid = {
	"SELECT xmin FROM taskq.archive WHERE task_id = $1", {INT8OID}};

static void read_filter(TqOperation *op, TqTaskFilter *filter);
static bool is_unchanged(const TqOperation *op, const TqTask *task);

/* Raise an error if the filter of a new operation is invalid. */
void
tq_operation_set_check(TqOperation *op)
{
	TqTaskFilter filter;

	read_filter(op, &filter);
}

static void
read_filter(TqOperation *op, TqTaskFilter *filter)
{
	tq_task_filter_init(filter);
	filter->all_queues = false;
	filter->queues = palloc(sizeof(int32));
	filter->queues[0] = op->queue_id;
	filter->queue_count = 1;
	op->states = default_states[op->action];
	if (op->filter != NULL)
	{
		JsonbIterator     *it = JsonbIteratorInit(&op->filter->root);
		JsonbValue         value;
		JsonbIteratorToken token;

		if (!JB_ROOT_IS_OBJECT(op->filter))
			tq_error_invalid("filter", "must be a JSON object", NULL);
		while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
		{
			char *name;

			if (token != WJB_KEY)
				continue;
			name = pnstrdup(value.val.string.val, value.val.string.len);
			(void) JsonbIteratorNext(&it, &value, true);
			if (strcmp(name, "state") == 0)
			{
				char   *word = tq_json_string(name, &value);
				TqState state;

				if (!tq_state_parse(word, &state))
					tq_error_invalid(
						"state", "is unknown",
						psprintf("Allowed: %s.", tq_state_words()));
				filter->state = state;
				op->states = IN(state);
			}
			else if (strcmp(name, "reference") == 0)
				filter->reference = tq_json_string(name, &value);
			else if (strcmp(name, "key") == 0)
				filter->key = tq_json_string(name, &value);
			else if (strcmp(name, "correlation_id") == 0)
				filter->correlation_id = tq_json_string(name, &value);
			else
				tq_error_invalid(
					"filter", psprintf("has an unknown member \"%s\"", name),
					"Allowed: state, reference, key, correlation_id.");
		}
	}
	if (op->states == 0)
		tq_error_invalid("filter", "must name a state for action delete",
						 NULL);
	if (op->filter == NULL || filter->state == TQ_STATE_NONE)
	{
		/* one state has an index */
		for (int i = 1; i <= TQ_STATE_LAST; i++)
		{
			if (op->states == IN(i))
				filter->state = i;
		}
	}
}

/*
 * Find the next tasks of an operation, at most max, with a new snapshot.  They
 * are read with tq_task_page_read() until the page is ended.
 */
void
tq_operation_set_page_begin(TqOperation *op, int max, TqOperationPage *page)
{
	TqTaskFilter filter;

	read_filter(op, &filter);
	filter.last = op->last_id;
	if (op->position != PG_INT64_MIN)
		tq_task_filter_after(&filter, op->position);
	PushActiveSnapshot(GetLatestSnapshot());
	page->find = tq_task_page_begin(GetActiveSnapshot());
	page->count = tq_task_page_find(page->find, &filter, max, &page->found);
	page->examined = page->count;
	page->last = page->count < max;
	page->reached = page->last ? op->last_id
							   : page->found[page->count - 1].task_id;
}

void
tq_operation_set_page_end(TqOperationPage *page)
{
	tq_task_page_end(page->find);
	PopActiveSnapshot();
}

/*
 * Read a task again, with a new snapshot.  Returns false if it does not match
 * the filter.
 */
bool
tq_operation_set_find(TqOperation *op, int64 task_id, TqTask *task)
{
	TqTaskFilter filter;
	TqTaskPage  *find;
	TqFound     *found;
	bool         matches;

	read_filter(op, &filter);
	filter.first = filter.last = task_id;
	PushActiveSnapshot(GetLatestSnapshot());
	find = tq_task_page_begin(GetActiveSnapshot());
	matches = tq_task_page_find(find, &filter, 1, &found) == 1;
	if (matches)
		tq_task_page_read(find, found, task);
	tq_task_page_end(find);
	PopActiveSnapshot();
	return matches;
}

/* Has a task that matches the filter been so since before the call? */
TqMembership
tq_operation_set_judge(const TqOperation *op, const TqTask *task)
{
	const TqTaskFixed *f = &task->f;
	bool               earlier = true;

	if ((op->states & IN(f->state)) == 0)
		return TQ_MEMBER_NO;
	switch ((TqState) f->state)
	{
		case TQ_STATE_PENDING:
			earlier = f->run_at <= op->called_at_dispatch || f->version == 1;
			break;
		case TQ_STATE_BLOCKED:
			earlier = f->version == 1;
			break;
		case TQ_STATE_RUNNING:
			break;
		case TQ_STATE_SUSPENDED:
			earlier = TQ_TASK_TIME(task, TQ_COL_SUSPENDED_AT, DT_NOBEGIN) <=
					  op->called_at;
			break;
		case TQ_STATE_DONE:
		case TQ_STATE_DEAD:
		case TQ_STATE_CANCELLED:
		case TQ_STATE_FILTERED:
		case TQ_STATE_REDUNDANT:
		case TQ_STATE_RECREATED:
			earlier = TQ_TASK_TIME(task, TQ_COL_FINISHED_AT, DT_NOBEGIN) <=
					  op->called_at;
			break;
	}
	if (f->created_at > op->called_at ||
		f->claimed_at > op->called_at_dispatch)
		return is_unchanged(op, task) ? TQ_MEMBER_YES : TQ_MEMBER_NO;
	if (earlier || is_unchanged(op, task))
		return TQ_MEMBER_YES;
	return f->state == TQ_STATE_PENDING || f->state == TQ_STATE_BLOCKED
			   ? TQ_MEMBER_UNKNOWN
			   : TQ_MEMBER_NO;
}

/* Was the row last written by a transaction that had ended at the call? */
static bool
is_unchanged(const TqOperation *op, const TqTask *task)
{
	Datum         id = Int64GetDatum(task->f.task_id);
	TransactionId xid = InvalidTransactionId;
	TqSpi         spi;
	uint64        next;
	uint64        full;

	if ((uint64) op->system_id != GetSystemIdentifier())
		return false;
	tq_spi_enter(&spi);
	if (tq_spi_look(task->archived ? &stmt_finished_xid : &stmt_live_xid, &id,
					NULL, 1) > 0)
	{
		bool isnull;

		xid = DatumGetTransactionId(tq_spi_get(0, 1, &isnull));
	}
	tq_spi_leave(&spi);
	if (!TransactionIdIsNormal(xid))
		return TransactionIdIsValid(xid); /* frozen, or not there */
	next = U64FromFullTransactionId(ReadNextFullTransactionId());
	full = (next & ~(uint64) PG_UINT32_MAX) | xid;
	if (full >= next)
		full -= (uint64) PG_UINT32_MAX + 1;
	return full < (uint64) op->xid_before;
}

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

#include "base/clock.h"
#include "base/error.h"
#include "base/spi.h"
#include "operation/operation_set.h"
#include "query/task_filter_read.h"
#include "query/task_search.h"
#include "query/visibility.h"

#define PAGE 1000                           /* tasks */
#define MAX_EXAMINED 5000                   /* rows, in one batch */
#define PAGE_AGE (10 * INT64CONST(1000000)) /* us, until it is found again */

#define DEFAULT_WAITING                                                       \
	(TQ_STATE_BIT(TQ_STATE_PENDING) | TQ_STATE_BIT(TQ_STATE_BLOCKED))

/* States of an operation whose filter names none; 0: it must. */
static const int default_states[] = {
	[TQ_ACTION_CANCEL] = DEFAULT_WAITING | TQ_STATE_BIT(TQ_STATE_SUSPENDED) |
						 TQ_STATE_BIT(TQ_STATE_RUNNING),
	[TQ_ACTION_RETRY] = TQ_STATE_BIT(TQ_STATE_DEAD),
	[TQ_ACTION_RECREATE] = TQ_STATE_BIT(TQ_STATE_DEAD),
	[TQ_ACTION_RESOLVE] = TQ_STATE_BIT(TQ_STATE_DEAD),
	[TQ_ACTION_HOLD] = DEFAULT_WAITING,
	[TQ_ACTION_POISON] = TQ_STATE_BIT(TQ_STATE_DEAD),
	[TQ_ACTION_UNPOISON] = TQ_STATE_BIT(TQ_STATE_DEAD),
	[TQ_ACTION_DELETE] = 0};

static TqStmt stmt_live_xid = {
	"SELECT xmin FROM taskq.task WHERE task_id = $1", {INT8OID}};

static TqStmt stmt_finished_xid = {
	"SELECT xmin FROM taskq.archive WHERE task_id = $1", {INT8OID}};

/*
 * The page that was found last, for the next batches of the operation: some
 * filters find their tasks in a large range of an index, which is read as a
 * whole.
 */
static struct
{
	int64   operation_id; /* 0: none */
	int64   found_at;     /* monotonic clock */
	TqFound found[PAGE];
	int     count;
	int64   reached;
	bool    last;
} kept;

static void read_filter(const TqOperation *op, TqTaskFilter *filter);
static void take_kept(const TqOperation *op, TqOperationPage *page);
static void search(const TqOperation *op, int64 until, TqOperationPage *page);
static bool is_unchanged(const TqOperation *op, const TqTask *task);

/*
 * Raise an error if the filter of a new operation is invalid for its role,
 * which is current_user.
 */
void
tq_operation_set_check(const TqOperation *op)
{
	TqTaskFilter filter;

	read_filter(op, &filter);
}

/*
 * A filter must not tell about the contents of tasks that the role cannot
 * read.
 */
static void
read_filter(const TqOperation *op, TqTaskFilter *filter)
{
	TqVisibility *sight = palloc(sizeof(TqVisibility));

	tq_task_filter_init(filter);
	tq_visibility_take(sight);
	tq_visibility_filter(sight, filter);
	filter->all_queues = false;
	filter->queues = palloc(sizeof(int32));
	filter->queues[0] = op->queue_id;
	filter->queue_count = 1;
	tq_task_filter_read(filter, op->filter);
	if ((filter->payload != NULL || filter->error != NULL ||
		 filter->fingerprint != NULL) &&
		!tq_visibility_reads(sight, op->queue_id))
		tq_error_no_right(op->queue, TQ_RIGHT_READ);
	if (filter->states != 0)
		return;
	if (default_states[op->action] == 0)
		tq_error_invalid("filter", "must name a state for action delete",
						 NULL);
	tq_task_filter_states(filter, default_states[op->action]);
}

/*
 * Find the next tasks of an operation, with a new snapshot, or continue with
 * those that an earlier batch has found.  until, on the monotonic clock, is
 * when the search should stop.
 */
void
tq_operation_set_page_begin(const TqOperation *op, int64 until,
							TqOperationPage *page)
{
	memset(page, 0, sizeof(*page));
	read_filter(op, &page->filter);
	page->filter.last = Min(page->filter.last, op->last_id);
	if (op->position != PG_INT64_MIN)
		tq_task_filter_after(&page->filter, op->position);
	PushActiveSnapshot(GetLatestSnapshot());
	page->find = tq_task_page_begin(GetActiveSnapshot());
	take_kept(op, page);
	if (!page->kept)
		search(op, until, page);
}

static void
take_kept(const TqOperation *op, TqOperationPage *page)
{
	int first = 0;

	if (op->operation_id != kept.operation_id ||
		tq_clock_monotonic() - kept.found_at > PAGE_AGE)
		return;
	while (first < kept.count && kept.found[first].task_id <= op->position)
		first++;
	/* an operation that was rolled back is before or behind the page */
	if (first == 0 || first == kept.count)
		return;
	page->kept = true;
	page->found = &kept.found[first];
	page->count = kept.count - first;
	page->reached = kept.reached;
	page->last = kept.last;
}

static void
search(const TqOperation *op, int64 until, TqOperationPage *page)
{
	TqTaskSearch result = {0};

	result.max = PAGE;
	result.max_examined = MAX_EXAMINED;
	result.until = until;
	tq_task_search_run(page->find, &page->filter, &result);
	page->found = result.found;
	page->count = result.count;
	page->examined = result.examined;
	page->last = !result.stopped && result.count < PAGE;
	page->reached = result.stopped ? result.resume_after
					: page->last   ? op->last_id
								   : result.found[result.count - 1].task_id;
	kept.operation_id = op->operation_id;
	kept.found_at = tq_clock_monotonic();
	memcpy(kept.found, result.found, sizeof(TqFound) * result.count);
	kept.count = result.count;
	kept.reached = page->reached;
	kept.last = page->last;
}

void
tq_operation_set_page_end(TqOperationPage *page)
{
	tq_task_page_end(page->find);
	PopActiveSnapshot();
}

/* Read a task of the page.  Returns false if it no longer matches. */
bool
tq_operation_set_page_read(TqOperationPage *page, int n, TqTask *task)
{
	if (!page->kept)
	{
		tq_task_page_read(page->find, &page->found[n], task);
		return true;
	}
	if (!tq_task_page_read_again(page->find, &page->found[n], task) &&
		!tq_task_page_find_one(page->find, page->found[n].task_id, task))
		return false;
	return tq_task_filter_fits_task(&page->filter, task);
}

/*
 * Read a task again, with a new snapshot.  Returns false if it does not match
 * the filter.
 */
bool
tq_operation_set_find(const TqTaskFilter *filter, int64 task_id, TqTask *task)
{
	TqTaskPage *find;
	bool        matches;

	PushActiveSnapshot(GetLatestSnapshot());
	find = tq_task_page_begin(GetActiveSnapshot());
	matches = tq_task_page_find_one(find, task_id, task) &&
			  tq_task_filter_fits_task(filter, task);
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

	switch ((TqState) f->state)
	{
		case TQ_STATE_PENDING:
			earlier = task->i.run_at <= op->called_at_dispatch ||
					  f->version == 1;
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
	if (task->i.created_at > op->called_at ||
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

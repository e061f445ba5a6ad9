/*
 * batch_progress.c
 *		The view taskq.batch_progress: the progress of batches.
 *
 * Unknown values are null.  The number of members is unknown until the batch
 * has ended.  The number of items done, and with it the rate, is unknown
 * unless checkpoints contain it or the engine has split the batch.  The
 * estimated end is unknown until a member is done.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "flow/instance/flow.h"
#include "flow/instance/flow_contents.h"
#include "flow/run/tally.h"
#include "query/contents.h"

PG_FUNCTION_INFO_V1(taskq_batch_rows);

/* Estimates beyond this are useless. */
#define MAX_ETA (100 * (double) DAYS_PER_YEAR * USECS_PER_DAY)

/* What is known about the members of a batch. */
typedef struct Progress
{
	int         members;
	int         done;
	int         failed;
	bool        has_items;
	Datum       items;
	TimestampTz begun_at;    /* 0: none has begun */
	TimestampTz finished_at; /* of the last member that has finished */
} Progress;

#define DOCUMENT(bit, part, column)                                           \
	"CASE WHEN m.large & " bit " <> 0"                                        \
	"     THEN (SELECT l.doc FROM taskq.large l"                              \
	"            WHERE l.task_id = m.task_id AND l.part = " part ")"          \
	"     ELSE m." column " END"
#define NUMBER(document, name)                                                \
	"CASE WHEN jsonb_typeof(" document " -> '" name "') = 'number'"           \
	"      AND (" document " -> '" name "')::numeric BETWEEN 0 AND 1e18"      \
	"     THEN (" document " -> '" name "')::numeric END"
#define COLUMNS                                                               \
	"task_id, step_id, state, reason, large, claimed_at, payload, checkpoint"

/*
 * The number of items comes from the checkpoint.  A member that its worker has
 * completed counts with at least all items of its part.  Invalid numbers count
 * as missing.
 */
static TqStmt stmt_members = {
	"SELECT m.step_id & 16383, count(*)::integer,"
	"  (count(*) FILTER (WHERE m.state IN"
	"   (" TQ_SQL_STATE_DONE ", " TQ_SQL_STATE_FILTERED ")))::integer,"
	"  (count(*) FILTER (WHERE m.state IN"
	"   (" TQ_SQL_STATE_DEAD ", " TQ_SQL_STATE_CANCELLED ","
	"    " TQ_SQL_STATE_REDUNDANT ")))::integer,"
	"  sum(greatest(" NUMBER(
		"d.checkpoint",
		"items") ","
				 "      CASE WHEN m.state = " TQ_SQL_STATE_DONE
				 " AND m.reason <> " TQ_SQL_REASON_MANUAL " THEN"
				 "      " NUMBER("d.payload", "end") " - " NUMBER(
					 "d.payload",
					 "start") "      END)),"
							  "  min(m.claimed_at) FILTER (WHERE m.claimed_at > '-infinity'),"
							  "  max(m.finished_at)"
							  " FROM (SELECT " COLUMNS
							  ", NULL::timestamptz AS finished_at"
							  "         FROM taskq.task WHERE workflow_id = $1 AND step_id > 16383"
							  "       UNION ALL"
							  "       SELECT " COLUMNS
							  ", finished_at FROM taskq.archive_keep"
							  "        WHERE workflow_id = $1 AND step_id > 16383) m,"
							  " LATERAL (SELECT " DOCUMENT(
								  "1", "0",
								  "payload") " AS payload,"
											 "  " DOCUMENT(
												 "16", "4",
												 "checkpoint") " AS checkpoint OFFSET 0) d"
															   " GROUP BY 1",
	{INT8OID}};

static bool      has_batch(const TqTemplate *template);
static Progress *read_members(const TqFlow *flow);
static void      add_row(ReturnSetInfo *result, const TqFlow *flow, int place,
						 const Progress *members);
static bool      may_read_items(const TqStep *step);
static bool put_rate(Datum *rate, const Progress *members, TimestampTz until);
static bool put_eta(Datum *eta, const Progress *members, TimestampTz now);

Datum
taskq_batch_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqTemplate *template;
	Progress  *members;
	TqStepRow *made;
	bool      *skipped;
	bool      *ended;
	int        count;
	TqFlow     flow;

	tq_srf_begin(fcinfo);
	tq_queue_refresh();
	if (PG_ARGISNULL(0) || !tq_flow_read(PG_GETARG_INT64(0), &flow) ||
		!has_batch(flow.template) || tq_flow_sight(flow.template) == 0)
		return (Datum) 0;
	template = flow.template;
	ended = palloc0(sizeof(bool) * (template->step_count + 1));
	count = tq_flow_steps(&flow, &made);
	for (int i = 0; i < count; i++)
	{
		int place = TQ_STEP_INDEX(made[i].step_id);

		ended[place] = made[i].state == TQ_STATE_DONE ||
					   made[i].state == TQ_STATE_FILTERED;
	}
	skipped = tq_tally_skipped(&flow, made, count);
	members = read_members(&flow);
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];
		bool          known;

		if (step->type != TQ_STEP_BATCH_WORKER ||
			skipped[step->parents.places[0]])
			continue;
		/* a failure may hold up the members even if their number is known */
		known = ended[step->parents.places[0]] &&
				(members[i].members > 0 || skipped[i]);
		add_row(result, &flow, i, known ? &members[i] : NULL);
	}
	return (Datum) 0;
}

static bool
has_batch(const TqTemplate *template)
{
	for (int i = 0; i < template->step_count; i++)
	{
		if (template->steps[i].type == TQ_STEP_BATCH_WORKER)
			return true;
	}
	return false;
}

/* By step index. */
static Progress *
read_members(const TqFlow *flow)
{
	int       count = flow->template->step_count;
	Progress *all = palloc0(sizeof(Progress) * (count + 1));
	Datum     arg = Int64GetDatum(flow->workflow_id);
	uint64    rows;
	TqSpi     spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_members, &arg, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		int       place = tq_spi_int4(i, 1, 0);
		Progress *one = &all[place];
		Datum     items;
		bool      isnull;

		if (place >= count)
			continue;
		one->members = tq_spi_int4(i, 2, 0);
		one->done = tq_spi_int4(i, 3, 0);
		one->failed = tq_spi_int4(i, 4, 0);
		items = tq_spi_get(i, 5, &isnull);
		one->has_items = !isnull;
		if (!isnull)
		{
			MemoryContext mine = MemoryContextSwitchTo(spi.caller);

			one->items = NumericGetDatum(DatumGetNumericCopy(items));
			MemoryContextSwitchTo(mine);
		}
		one->begun_at = tq_spi_time(i, 6, 0);
		one->finished_at = tq_spi_time(i, 7, 0);
	}
	tq_spi_leave(&spi);
	return all;
}

/*
 * Add the row of a batch if its queue may be observed. members is NULL if they
 * are not yet known.
 */
static void
add_row(ReturnSetInfo *result, const TqFlow *flow, int place,
		const Progress *members)
{
	const TqStep *step = &flow->template->steps[place];
	TimestampTz   now = tq_clock_wall();
	Datum         values[7] = {0};
	bool          nulls[7];

	if (!tq_flow_sees(step))
		return;
	memset(nulls, true, sizeof(nulls));
	values[0] = CStringGetTextDatum(step->name);
	nulls[0] = false;
	if (members != NULL)
	{
		values[1] = Int32GetDatum(members->members);
		values[2] = Int32GetDatum(members->done);
		values[3] = Int32GetDatum(members->failed);
		nulls[1] = nulls[2] = nulls[3] = false;
	}
	if (members != NULL && members->has_items && may_read_items(step))
	{
		bool over = members->done + members->failed == members->members;

		values[4] = members->items;
		nulls[4] = false;
		nulls[5] =
			!put_rate(&values[5], members, over ? members->finished_at : now);
	}
	if (members != NULL)
		nulls[6] = !put_eta(&values[6], members, now);
	tq_srf_add(result, values, nulls);
}

/* The number of items is computed from checkpoints and payloads. */
static bool
may_read_items(const TqStep *step)
{
	TqQueue *queue = tq_queue_find(step->queue);

	return (tq_flow_rights(step) & TQ_RIGHT_READ) != 0 &&
		   !tq_flow_contents_hides(
			   queue == NULL ? tq_contents_redaction_dropped()
							 : tq_contents_redaction(queue->queue_id),
			   "{\"items\": 0, \"start\": 0, \"end\": 0}");
}

/*
 * Computes the items per second since the first member began.  Returns false
 * if the rate is unknown.
 */
static bool
put_rate(Datum *rate, const Progress *members, TimestampTz until)
{
	Datum span;

	if (members->begun_at == 0 || until <= members->begun_at)
		return false;
	span = DirectFunctionCall2(
		numeric_div,
		NumericGetDatum(int64_to_numeric(until - members->begun_at)),
		NumericGetDatum(int64_to_numeric(USECS_PER_SEC)));
	*rate = DirectFunctionCall2(
		numeric_round, DirectFunctionCall2(numeric_div, members->items, span),
		Int32GetDatum(3));
	return true;
}

/* Assumes that the remaining members take as long as those that have ended. */
static bool
put_eta(Datum *eta, const Progress *members, TimestampTz now)
{
	int    ended = members->done + members->failed;
	int    left = members->members - ended;
	double span;

	if (members->begun_at == 0 || ended == 0 || left == 0 ||
		now <= members->begun_at)
		return false;
	span = (double) (now - members->begun_at) * left / ended;
	*eta = TimestampTzGetDatum(now + (int64) Min(span, MAX_ETA));
	return span <= MAX_ETA;
}

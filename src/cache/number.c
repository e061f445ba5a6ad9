/*
 * number.c
 *		Numbers of queues and roles.
 *
 * Columns store them in four bytes, and each new queue or role takes the next
 * number of a sequence, even if it is rolled back.  The sequence itself has
 * eight bytes and counts on.  Beyond the last number it maps to the numbers
 * from the first one on, and only numbers that nothing refers to are assigned
 * again.
 *
 * Dropping a queue leaves steps of workflows, which exist as long as their
 * instances, and rows of taskq.transition.  These tables have no index on the
 * queue: it would cost every change of a state more than the scans here, which
 * are not needed before 2^31 queues have been created.  Entries of a former
 * queue in shared memory are removed before its number is assigned again.
 *
 * Rows of roles are never removed, so a free number of a role is one whose
 * creation was rolled back.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/spi.h"
#include "cache/number.h"
#include "shared/counter.h"
#include "shared/metric.h"

static TqStmt stmt_next_queue = {"SELECT nextval('taskq.queue_id_seq')"};
static TqStmt stmt_next_role = {"SELECT nextval('taskq.role_id_seq')"};

static TqStmt stmt_is_queue = {
	"SELECT WHERE EXISTS (SELECT FROM taskq.queue WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.metric_minute WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.operation WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.archive WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.queue_grant WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.lane WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.key WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.finished_count WHERE queue_id = $1)"
	" OR EXISTS (SELECT FROM taskq.transition WHERE queue_id = $1)",
	{INT4OID}};

static TqStmt stmt_is_role = {"SELECT FROM taskq.role WHERE role_id = $1",
							  {INT4OID}};

static bool draw(TqStmt *next, TqStmt *is_used, int32 *number);

int32
tq_number_of_queue(void)
{
	int32 number;

	if (draw(&stmt_next_queue, &stmt_is_queue, &number))
	{
		tq_counter_free(TQ_OWNER_QUEUE, number);
		tq_metric_forget(number);
	}
	return number;
}

int32
tq_number_of_role(void)
{
	int32 number;

	(void) draw(&stmt_next_role, &stmt_is_role, &number);
	return number;
}

/* True if the number may have been assigned before. */
static bool
draw(TqStmt *next, TqStmt *is_used, int32 *number)
{
	for (;;)
	{
		int64 drawn;
		Datum arg;

		CHECK_FOR_INTERRUPTS();
		drawn = tq_spi_find_id(next, NULL);
		*number = (int32) ((drawn - 1) % PG_INT32_MAX + 1);
		if (drawn <= PG_INT32_MAX)
			return false;
		arg = Int32GetDatum(*number);
		if (!tq_spi_exists(is_used, &arg))
			return true;
	}
}

/*
 * number.c
 *		Numbers of queues and roles.
 *
 * Columns keep four bytes of them, and each one that is made takes the next
 * number of a sequence, also if it is rolled back.  The sequence itself has
 * eight bytes and counts on: behind the last number it stands for those from
 * the first one on, of which those are given out again that nothing refers to.
 *
 * Dropping a queue leaves steps of workflows, which stay as long as their
 * instances, and rows of taskq.transition.  These have no index on the queue:
 * that would cost every change of a state more than reading them costs here,
 * which happens for no queue before the first 2^31.  A former queue's entries
 * in shared memory, if there are some, are not those of the new one.
 *
 * Rows of roles stay for ever, so what is free was rolled back.
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

/* True: the number may have been given out before. */
static bool
draw(TqStmt *next, TqStmt *is_used, int32 *number)
{
	for (;;)
	{
		int64 drawn;
		Datum arg;
		TqSpi spi;

		CHECK_FOR_INTERRUPTS();
		tq_spi_enter(&spi);
		tq_spi_run(next, NULL, NULL, SPI_OK_SELECT, 0);
		drawn = tq_spi_int8(0, 1, 0);
		tq_spi_leave(&spi);
		*number = (int32) ((drawn - 1) % PG_INT32_MAX + 1);
		if (drawn <= PG_INT32_MAX)
			return false;
		arg = Int32GetDatum(*number);
		if (!tq_spi_exists(is_used, &arg))
			return true;
	}
}

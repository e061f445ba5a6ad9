/*
 * xact_mark.c
 *		The mark of a transaction that changes tasks, for who counts.
 *
 * It is entered before the first change, and left when all has been told; what
 * for is said at the head of shared/counter.c.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"

#include "shared/counter.h"
#include "xact/xact_mark.h"

/* The transaction's number and instance, entered before its first change. */
static TransactionId entered_xid = InvalidTransactionId;
static uint64        entered_instance = 0;

void
tq_xact_mark_enter(void)
{
	if (TransactionIdIsValid(entered_xid))
		return;
	entered_xid = GetTopTransactionId();
	entered_instance = tq_counter_enter(entered_xid);
}

/* The transaction is over, and all is told; cannot fail. */
void
tq_xact_mark_leave(void)
{
	if (TransactionIdIsValid(entered_xid))
		tq_counter_leave();
	entered_xid = InvalidTransactionId;
}

TransactionId
tq_xact_mark_xid(void)
{
	return entered_xid;
}

/* Of shared memory, when it was entered. */
uint64
tq_xact_mark_instance(void)
{
	return entered_instance;
}

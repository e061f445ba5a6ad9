/*
 * xact_mark.c
 *		The mark of a transaction that changes tasks.
 *
 * A transaction enters its number into its backend's mark before its first
 * change, and removes it when it has published everything (xact.c).  Code
 * that counts rows waits until no ended transaction has a mark; the head of
 * shared/counter.c says why.  The mark gives the transaction a number (xid)
 * if it had none.
 *
 * This file is below xact.c and metric_note.c, which both need it.  Leaving
 * cannot fail.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"

#include "shared/counter.h"
#include "xact/xact_mark.h"

/* The transaction's XID and instance, entered before its first change. */
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

/*
 * The transaction has ended, and everything has been published; cannot fail.
 */
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

/* The instance of shared memory when the mark was entered. */
uint64
tq_xact_mark_instance(void)
{
	return entered_instance;
}

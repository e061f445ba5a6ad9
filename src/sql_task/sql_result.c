/*
 * sql_result.c
 *		The result of a SQL task: {"command": "UPDATE 2", "rows": [{...}]}.
 *
 * Each row becomes text as it comes, so that a result that is too large ends
 * the statement early, and not when its rows have filled the memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "base/error.h"
#include "sql_task/sql_result.h"

typedef struct Receiver
{
	DestReceiver   base;
	int64          limit;
	TupleDesc      desc; /* of the rows; NULL: the statement returns none */
	MemoryContext  row_context;
	StringInfoData rows;
} Receiver;

static void begin(DestReceiver *self, int operation, TupleDesc desc);
static bool receive(TupleTableSlot *slot, DestReceiver *self);
static void end(DestReceiver *self);

/* A receiver that is allocated in the current context. */
DestReceiver *
tq_sql_result_receiver(int64 limit)
{
	Receiver *receiver = palloc0(sizeof(Receiver));

	receiver->base.receiveSlot = receive;
	receiver->base.rStartup = begin;
	receiver->base.rShutdown = end;
	receiver->base.rDestroy = end;
	receiver->base.mydest = DestTuplestore;
	receiver->limit = limit;
	receiver->row_context = AllocSetContextCreate(
		CurrentMemoryContext, "taskq row of a result", ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&receiver->rows);
	return &receiver->base;
}

static void
begin(DestReceiver *self, int operation, TupleDesc desc)
{
	Receiver *receiver = (Receiver *) self;

	/* a row that comes from an inlined function has other names */
	if (desc->natts > 0 || operation == CMD_SELECT)
		receiver->desc = BlessTupleDesc(CreateTupleDescCopy(desc));
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	Receiver     *receiver = (Receiver *) self;
	MemoryContext before = MemoryContextSwitchTo(receiver->row_context);
	bool          should_free;
	HeapTuple     tuple = ExecFetchSlotHeapTuple(slot, true, &should_free);
	text         *row;

	row = DatumGetTextPP(DirectFunctionCall1(
		row_to_json, heap_copy_tuple_as_datum(tuple, receiver->desc)));
	if (receiver->rows.len + (int64) VARSIZE_ANY_EXHDR(row) > receiver->limit)
		tq_error_max_payload("result",
							 receiver->rows.len + VARSIZE_ANY_EXHDR(row),
							 receiver->limit);
	if (receiver->rows.len > 0)
		appendStringInfoString(&receiver->rows, ", ");
	appendBinaryStringInfo(&receiver->rows, VARDATA_ANY(row),
						   VARSIZE_ANY_EXHDR(row));
	MemoryContextSwitchTo(before);
	MemoryContextReset(receiver->row_context);
	return true;
}

static void
end(DestReceiver *self)
{
}

/* The result, in the current context. */
Jsonb *
tq_sql_result_finish(DestReceiver *self, CommandTag tag, uint64 processed)
{
	Receiver      *receiver = (Receiver *) self;
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "{\"command\": \"%s", GetCommandTagName(tag));
	if (tag == CMDTAG_INSERT)
		appendStringInfoString(&text, " 0");
	if (command_tag_display_rowcount(tag))
		appendStringInfo(&text, " " UINT64_FORMAT, processed);
	appendStringInfoChar(&text, '"');
	if (receiver->desc != NULL)
		appendStringInfo(&text, ", \"rows\": [%s]", receiver->rows.data);
	appendStringInfoChar(&text, '}');
	return DatumGetJsonbP(
		DirectFunctionCall1(jsonb_in, CStringGetDatum(text.data)));
}

/*
 * id.c
 *		Task ids and fencing tokens, which are never reused.
 *
 * A client that was given an id or a token may continue to use it even if its
 * transaction was rolled back, was lost in a crash (synchronous_commit = off),
 * or never reached a promoted standby.  Therefore neither may be given out
 * again.
 *
 * Bounds.  No id above taskq.task_id_bound_seq and no token above
 * taskq.token_bound_seq has ever been used: the bound is raised first, by
 * 65,536 at a time, and its WAL is flushed.  All numbers whose use a crash can
 * lose are below the bound.
 *
 * Ids continue from the sequence, which a rollback does not reset; after a
 * crash they continue from the bound.  A crash is detected by the statistics
 * of the server, which are reset by a crash but not by a shutdown, and which
 * record when they were reset (taskq.crash_seq remembers that time).  If they
 * were reset by hand, or lost, some ids are skipped unnecessarily.
 *
 * Tokens continue from the bound after every start of the server, since the
 * tokens of claims that were rolled back are in no row, but only in memory
 * (shared/token_floor.c, whose number taskq.start_seq remembers).  Without
 * shared memory each session reserves some tokens for itself; if the last
 * token of a task came from another session, the session takes a token above
 * it.
 *
 * Timelines.  Servers that share a history, such as a promoted standby and a
 * primary that is still running, are on different timelines.  The promoted
 * server knows neither the last numbers of the old primary nor its bounds.  So
 * the first id on a new timeline jumps 2^24 above the last known id, which is
 * more than the old primary will use before it is stopped, and the tokens jump
 * 2^32 above their bound; several timelines jump several times as far.  A
 * token is also above (timeline - 1) * 2^20. taskq.timeline_seq holds the
 * timeline of the last jump.
 *
 * The numbers do not run out: a start takes 2^16 of 2^61 tokens and a crash at
 * most 2^16 of 2^43 ids, so one per second is possible for four years; a
 * timeline takes 2^32 and 2^24, which allows 500,000 promotions.
 *
 * Everything is remembered in sequences, because it must advance even if the
 * transaction rolls back.  A session checks once, when it needs its first id
 * or token: timeline and crash do not change during its life, and tokens lost
 * in a wipe are noticed by their number.  The first session after a start
 * advances the numbers under a lock on taskq.timeline_seq as an object (not as
 * a relation: setval keeps that lock to the end), which it releases
 * immediately.  That lock is the last one in the lock order.  The numbers are
 * advanced first, then flushed, and then the new start, timeline and crash are
 * recorded; if a crash loses a part of this, that part is repeated.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "storage/lmgr.h"

#include "base/catalog.h"
#include "base/guc.h"
#include "base/spi.h"
#include "engine/id.h"
#include "shared/token_floor.h"

#define ID_STEP (INT64CONST(1) << 16)    /* for the bound */
#define ID_JUMP (INT64CONST(1) << 24)    /* per timeline */
#define TOKEN_STEP (INT64CONST(1) << 16) /* for the bound, preloaded */
#define TOKEN_SHARE INT64CONST(1024)     /* per session, not preloaded */
#define TOKEN_SPAN (INT64CONST(1) << 20) /* per timeline, at least */

/* The remembered numbers, and the values with which they are compared. */
typedef struct Numbers
{
	int64 last_id;
	int64 id_bound;
	int64 token_bound;
	int64 timeline; /* 0: before the first task */
	int64 crash;
	int64 start;
	int64 timeline_now;
	int64 crash_now;
	int64 start_now; /* 0: not preloaded */
} Numbers;

/* The extension (base/catalog.c) that this session has checked. */
static uint64 settled_identity = 0;

/* The values found then, or raised since. */
static int64  id_bound = 0;
static uint64 settled_start = 0;
static int64  token_base = 0; /* tokens of this start are above */
static int64  token_bound = 0;

/* Not preloaded: the last token of this session's share, and its end. */
static int64 share_last = 0;
static int64 share_end = 0;

static TqStmt stmt_numbers = {
	"SELECT i.last_value, ib.last_value, tb.last_value, t.last_value,"
	"       c.last_value, s.last_value,"
	"       coalesce((extract(epoch FROM w.stats_reset) * 1000000)::bigint, 1)"
	"  FROM taskq.task_id_seq i, taskq.task_id_bound_seq ib,"
	"       taskq.token_bound_seq tb, taskq.timeline_seq t,"
	"       taskq.crash_seq c, taskq.start_seq s, pg_stat_wal w"};

#define SET_VALUE(seq)                                                        \
	{                                                                         \
		"SELECT setval('taskq." seq "', $1)",                                 \
		{                                                                     \
			INT8OID                                                           \
		}                                                                     \
	}

static TqStmt set_last_id = SET_VALUE("task_id_seq");
static TqStmt set_id_bound = SET_VALUE("task_id_bound_seq");
static TqStmt set_token_bound = SET_VALUE("token_bound_seq");
static TqStmt set_timeline = SET_VALUE("timeline_seq");
static TqStmt set_crash = SET_VALUE("crash_seq");
static TqStmt set_start = SET_VALUE("start_seq");

static void  settle(Oid sequence);
static void  read_numbers(Numbers *numbers);
static bool  is_settled(const Numbers *numbers);
static void  move_on(Numbers *numbers);
static void  raise_ids(Oid sequence, int64 id);
static void  raise_tokens(Oid sequence, int64 token);
static int64 next_of_share(Oid sequence, int64 above);
static void  begin_change(Oid sequence, TqSpi *spi, Numbers *numbers);
static void  end_change(Oid sequence, TqSpi *spi);
static void  set(TqStmt *stmt, int64 value);
static void  flush(void);

int64
tq_id_next(void)
{
	const TqCatalog *catalog = tq_catalog();
	int64            id;

	if (tq_catalog_identity() != settled_identity)
		settle(catalog->timeline_seq);
	id = nextval_internal(catalog->task_id_seq, false);
	if (id > id_bound)
		raise_ids(catalog->timeline_seq, id);
	return ((int64) tq_guc_node_id << TQ_ID_SEQUENCE_BITS) | id;
}

/* Return the range of ids that this server may give out. */
void
tq_id_range(Datum *lowest, Datum *highest)
{
	int64 base = (int64) tq_guc_node_id << TQ_ID_SEQUENCE_BITS;

	*lowest = Int64GetDatum(base);
	*highest =
		Int64GetDatum(base + (INT64CONST(1) << TQ_ID_SEQUENCE_BITS) - 1);
}

/* Return the token for the next claim of a task. */
int64
tq_id_next_token(int64 task_id, int64 previous)
{
	Oid    sequence = tq_catalog()->timeline_seq;
	uint64 start;
	int64  token;

	/* a token that a user has written by hand */
	if (previous < 0 || previous >= TQ_TOKEN_LAST)
		previous = 0;
	do
	{
		start = tq_token_floor_start();
		if (tq_catalog_identity() != settled_identity ||
			start != settled_start)
			settle(sequence);
		if (start == 0)
			return next_of_share(sequence, previous);
		token = tq_token_floor_draw(task_id, Max(previous, token_base));
	} while (start != tq_token_floor_start());
	if (token > token_bound)
		raise_tokens(sequence, token);
	return token;
}

/* Find out which numbers have been used, and continue above them. */
static void
settle(Oid sequence)
{
	TqSpi   spi;
	Numbers numbers;
	uint64  identity = tq_catalog_identity();
	bool    settled;

	tq_spi_enter(&spi);
	read_numbers(&numbers);
	settled = is_settled(&numbers);
	/* read again: they may have been read while they were being changed */
	if (settled)
		read_numbers(&numbers);
	tq_spi_leave(&spi);
	if (!settled)
	{
		begin_change(sequence, &spi, &numbers);
		if (!is_settled(&numbers))
			move_on(&numbers);
		end_change(sequence, &spi);
	}
	id_bound = numbers.id_bound;
	token_bound = numbers.token_bound;
	token_base = Max(token_bound - TOKEN_STEP, 0);
	share_last = share_end = 0;
	settled_start = (uint64) numbers.start_now;
	settled_identity = identity;
}

static void
read_numbers(Numbers *numbers)
{
	tq_spi_look(&stmt_numbers, NULL, NULL, 1);
	numbers->last_id = tq_spi_int8(0, 1, 0);
	numbers->id_bound = tq_spi_int8(0, 2, 0);
	numbers->token_bound = tq_spi_int8(0, 3, 0);
	numbers->timeline = tq_spi_int8(0, 4, 0);
	numbers->crash = tq_spi_int8(0, 5, 0);
	numbers->start = tq_spi_int8(0, 6, 0);
	numbers->timeline_now = (int64) GetWALInsertionTimeLine();
	numbers->crash_now = tq_spi_int8(0, 7, 1);
	numbers->start_now = (int64) tq_token_floor_start();
}

static bool
is_settled(const Numbers *numbers)
{
	return numbers->timeline == numbers->timeline_now &&
		   numbers->crash == numbers->crash_now &&
		   (numbers->start == numbers->start_now || numbers->start_now == 0);
}

/* Advance the numbers in the first session after a start; the lock is held. */
static void
move_on(Numbers *numbers)
{
	int64 id = numbers->last_id;
	int64 bound = numbers->token_bound;
	int64 timelines = 0;

	if (numbers->timeline != 0 && numbers->timeline != numbers->timeline_now)
		timelines = Max(numbers->timeline_now - numbers->timeline, 1);
	if (numbers->crash != numbers->crash_now)
		id = Max(id, numbers->id_bound);
	id += timelines * ID_JUMP;
	bound += timelines * TQ_TOKEN_JUMP;
	bound = Max(bound, (numbers->timeline_now - 1) * TOKEN_SPAN);
	if (numbers->start_now != 0 && numbers->start != numbers->start_now)
		bound += TOKEN_STEP;

	if (id != numbers->last_id)
		set(&set_last_id, id);
	if (bound != numbers->token_bound)
		set(&set_token_bound, bound);
	flush();
	numbers->token_bound = bound;
	set(&set_timeline, numbers->timeline_now);
	set(&set_crash, numbers->crash_now);
	if (numbers->start_now != 0)
		set(&set_start, numbers->start_now);
}

/* Raise the bound before the id is used. */
static void
raise_ids(Oid sequence, int64 id)
{
	TqSpi   spi;
	Numbers numbers;

	begin_change(sequence, &spi, &numbers);
	if (id > numbers.id_bound)
	{
		numbers.id_bound = (id / ID_STEP + 1) * ID_STEP;
		set(&set_id_bound, numbers.id_bound);
		flush();
	}
	end_change(sequence, &spi);
	id_bound = numbers.id_bound;
}

/* Raise the bound before the token is used. */
static void
raise_tokens(Oid sequence, int64 token)
{
	TqSpi   spi;
	Numbers numbers;

	begin_change(sequence, &spi, &numbers);
	if (token > numbers.token_bound)
	{
		numbers.token_bound = token + TOKEN_STEP;
		set(&set_token_bound, numbers.token_bound);
		flush();
	}
	end_change(sequence, &spi);
	token_bound = numbers.token_bound;
}

/* Without shared memory: take a token from this session's own share. */
static int64
next_of_share(Oid sequence, int64 above)
{
	share_last = Max(share_last, above) + 1;
	if (share_last > share_end)
	{
		TqSpi   spi;
		Numbers numbers;

		share_end = 0;
		begin_change(sequence, &spi, &numbers);
		share_last = Max(numbers.token_bound, above) + 1;
		set(&set_token_bound, share_last + TOKEN_SHARE);
		flush();
		end_change(sequence, &spi);
		share_end = share_last + TOKEN_SHARE;
	}
	return share_last;
}

/* Lock and read the current numbers, so that no other session changes them. */
static void
begin_change(Oid sequence, TqSpi *spi, Numbers *numbers)
{
	LockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
	tq_spi_enter(spi);
	read_numbers(numbers);
}

static void
end_change(Oid sequence, TqSpi *spi)
{
	tq_spi_leave(spi);
	UnlockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
}

static void
set(TqStmt *stmt, int64 value)
{
	Datum arg = Int64GetDatum(value);

	tq_spi_run(stmt, &arg, NULL, SPI_OK_SELECT, 0);
}

/* Make the changes durable, even if the transaction rolls back. */
static void
flush(void)
{
	XLogFlush(XactLastRecEnd);
}

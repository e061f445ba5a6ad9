/*
 * id.c
 *		Task ids and fencing tokens that are never given out twice.
 *
 * Whoever was given an id or a token may go on using it, though its
 * transaction has rolled back, was lost in a crash (synchronous_commit =
 * off), or never came to a promoted standby.  So neither may come again.
 *
 * Bounds.  No id above taskq.task_id_bound_seq and no token above
 * taskq.token_bound_seq has been given out: before one is, the bound is
 * raised, by 65,536 at a time, and its WAL flushed.  What a crash can
 * lose of numbers in use is below the bound.
 *
 * Ids go on from the sequence, which no roll-back takes back; after a crash
 * from the bound.  A crash is known by the statistics of the server: they
 * begin anew after one, but not after a shutdown, and say since when they
 * have counted (taskq.crash_seq remembers that).  When they were reset by
 * hand, or lost, some ids are left out for nothing.
 *
 * Tokens go on from the bound after every start of the server, since those
 * of claims that were rolled back stand in no row, but only in memory
 * (shared/token_floor.c, whose number taskq.start_seq remembers).  Where that
 * does not exist each session takes some tokens for itself; a task whose last
 * one came from another session takes one from above it.
 *
 * Timelines.  Servers that share a history, such as a promoted standby and a
 * primary that lives on, are on different timelines.  What the old one has
 * given out lately is not known to the new one, nor its bounds.  So the first
 * id on a new timeline jumps 2^24 above the last one known, which is more
 * than the old primary will give out before it is stopped, and the tokens
 * 2^32 above their bound; for several timelines as many times.  A token is
 * also above (timeline - 1) * 2^20.  taskq.timeline_seq holds the timeline of
 * the last jump.
 *
 * The numbers do not run out: a start takes 2^16 of 2^61 tokens and a crash at
 * most 2^16 of 2^43 ids, so one a second is good for four years; a timeline
 * takes 2^32 and 2^24, which is 500,000 promotions.
 *
 * All that is remembered is a sequence, because it must move on without
 * regard to what becomes of the transaction.  A session looks once, when it
 * needs its first id or token: timeline and crash stay what they are as long
 * as it lives, and tokens lost in a wipe are noticed by their number.  The
 * first session of a start moves on what must be, under a lock on
 * taskq.timeline_seq as an object (not as a relation: setval holds that to
 * the end), released at once.  That lock is the last one in the order of
 * locks.  First the numbers are moved, then that is flushed, then the new
 * start, timeline and crash are noted: whatever of that a crash loses is done
 * again.
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

#define SEQUENCE_BITS 43
#define ID_STEP (INT64CONST(1) << 16)    /* of the bound */
#define ID_JUMP (INT64CONST(1) << 24)    /* for a timeline */
#define TOKEN_STEP (INT64CONST(1) << 16) /* of the bound, preloaded */
#define TOKEN_SHARE INT64CONST(1024)     /* of a session, not preloaded */
#define TOKEN_SPAN (INT64CONST(1) << 20) /* a timeline's, at least */

/* What is remembered, and what is to be compared with it. */
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

/* The extension (base/catalog.c) for which this session has looked. */
static uint64 settled_identity = 0;

/* And what it has found, or raised since. */
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
	return ((int64) tq_guc_node_id << SEQUENCE_BITS) | id;
}

/* The ids that this server may give out. */
void
tq_id_range(Datum *lowest, Datum *highest)
{
	int64 base = (int64) tq_guc_node_id << SEQUENCE_BITS;

	*lowest = Int64GetDatum(base);
	*highest = Int64GetDatum(base + (INT64CONST(1) << SEQUENCE_BITS) - 1);
}

/* The token of the next claim of a task. */
int64
tq_id_next_token(int64 task_id, int64 previous)
{
	Oid    sequence = tq_catalog()->timeline_seq;
	uint64 start;
	int64  token;

	/* one that somebody has written by hand */
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

/* Learn what was given out before, and go on above it. */
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
	/* once more: they may have been read while they were moved */
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

/* The first session of a start; the lock is held. */
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

/* Before that id is given out. */
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

/* The same for a token. */
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

/* Without shared memory: a token of this session's own. */
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

/* Numbers as they are now, and nobody else changes them. */
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

/* What was set is on disk, whatever becomes of the transaction. */
static void
flush(void)
{
	XLogFlush(XactLastRecEnd);
}

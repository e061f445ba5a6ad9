/*
 * token_floor.c
 *		The last tokens drawn since the server's start.
 *
 * A claim that rolls back leaves no token in its task's row, but it may have
 * returned one to a client, which may never be notified of the rollback.  So
 * the next claim of the task must not draw the same token.  Each task has a
 * cell here, which it shares with tasks whose ids are 4096 apart: a token is
 * one more than the last one of its cell, and of its row.  Tokens are never
 * returned, so the end of a transaction has no effect.
 *
 * After a restart or a wipe, tokens must continue above all tokens drawn
 * before (engine/id.c).  This is done once for each number returned by
 * tq_token_floor_start().  A wipe changes that number before it empties a
 * cell: a token is valid if the number is still the same after it was drawn.
 *
 * Successive tasks are in different cache lines, since they are claimed at the
 * same time.  All variables are atomic: nothing waits, nothing fails.
 *
 * If the library is not in shared_preload_libraries there are no cells, and
 * the number of the start is 0.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#include "shared/session_end.h"
#include "shared/token_floor.h"

#define CELL_BITS 12
#define CELLS (1 << CELL_BITS)
#define CELLS_OF_LINE_BITS 3 /* a line has 64 bytes */

typedef struct Tokens
{
	pg_atomic_uint64 start; /* above 0 */
	pg_atomic_uint64 last[CELLS];
} Tokens;

static Tokens *tokens = NULL;

static pg_atomic_uint64 *cell_of(int64 task_id);

Size
tq_token_floor_size(void)
{
	return MAXALIGN(sizeof(Tokens));
}

/* Called after tq_session_end_init.  The caller holds AddinShmemInitLock. */
void
tq_token_floor_init(void)
{
	bool found;

	tokens = ShmemInitStruct("taskq tokens", tq_token_floor_size(), &found);
	if (found)
		return;
	/* with room above for any number of wipes */
	pg_atomic_init_u64(&tokens->start,
					   (uint64) tq_session_end_instance() >> 1 | 1);
	for (int i = 0; i < CELLS; i++)
		pg_atomic_init_u64(&tokens->last[i], 0);
}

/* Empty all cells, while other sessions draw tokens. */
void
tq_token_floor_wipe(void)
{
	if (tokens == NULL)
		return;
	tq_token_floor_renew();
	for (int i = 0; i < CELLS; i++)
		pg_atomic_write_u64(&tokens->last[i], 0);
}

/* From now on tokens are above all that were drawn before. */
void
tq_token_floor_renew(void)
{
	if (tokens != NULL)
		pg_atomic_fetch_add_u64(&tokens->start, 1); /* a full barrier */
}

/* The number of this start, or of the last wipe; 0 if not preloaded. */
uint64
tq_token_floor_start(void)
{
	return tokens == NULL ? 0 : pg_atomic_read_u64(&tokens->start);
}

/*
 * A token for a claim of the task, above the given one, which is not negative,
 * and above all that were drawn for it since this start.
 */
int64
tq_token_floor_draw(int64 task_id, int64 above)
{
	pg_atomic_uint64 *cell = cell_of(task_id);
	uint64            last = pg_atomic_read_u64(cell);
	uint64            token;

	Assert(above >= 0);
	do
	{
		token = Max(last, (uint64) above) + 1;
	} while (!pg_atomic_compare_exchange_u64(cell, &last, token));
	return (int64) token;
}

/* Databases start at different cells, since all of them count tasks from 1. */
static pg_atomic_uint64 *
cell_of(int64 task_id)
{
	uint32 n = (uint32) task_id + MyDatabaseId * 2654435761u;
	uint32 lines = CELLS >> CELLS_OF_LINE_BITS;

	n %= CELLS;
	return &tokens->last[(n % lines) << CELLS_OF_LINE_BITS | n / lines];
}

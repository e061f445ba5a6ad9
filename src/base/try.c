/*
 * try.c
 *		Parsing input, with its errors returned as a result.
 *
 * There is no savepoint: the work must not acquire anything that the end of a
 * transaction releases (locks, buffers, snapshots).  So the caller detoasts
 * values beforehand.  Work that needs more runs in tq_subxact_run().
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/error.h"
#include "base/try.h"

static bool is_about_input(int sqlerrcode);

/*
 * Run the work.  If it raises an error about the input, the error is returned
 * in the current memory context; otherwise NULL is returned.  Any other error
 * is thrown again: a cancel, a shutdown, out of memory, an internal error.
 */
ErrorData *
tq_try(void (*work)(void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData *volatile error = NULL;

	PG_TRY();
	{
		work(arg);
	}
	PG_CATCH();
	{
		if (!is_about_input(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	return error;
}

static bool
is_about_input(int sqlerrcode)
{
	int category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_TO_CATEGORY(ERRCODE_INVALID_PARAMETER_VALUE) ||
		   category == ERRCODE_TO_CATEGORY(ERRCODE_TQ_INVALID_OPTION) ||
		   category == ERRCODE_TO_CATEGORY(ERRCODE_PROGRAM_LIMIT_EXCEEDED) ||
		   sqlerrcode == ERRCODE_SYNTAX_ERROR ||
		   /* a variable named in a path */
		   sqlerrcode == ERRCODE_UNDEFINED_OBJECT ||
		   sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED;
}

/*
 * try.c
 *		Reading input whose errors are an answer.
 *
 * There is no savepoint: the work must acquire nothing that the end of a
 * transaction releases, no lock, buffer or snapshot.  A value that may be
 * toasted is therefore fetched before.  Work that does more runs in
 * tq_subxact_run().
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/error.h"
#include "base/try.h"

static bool is_about_input(int sqlerrcode);

/*
 * Do the work.  An error that says what is wrong with the input is returned,
 * in the current memory context; NULL when there is none.  Any other error is
 * thrown again: a cancel, a shutdown, out of memory, an internal error.
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
		   /* a variable that a path names */
		   sqlerrcode == ERRCODE_UNDEFINED_OBJECT ||
		   sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED;
}

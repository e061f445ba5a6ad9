/*
 * place.c
 *		The list entry that a call is processing, for the context of errors.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/place.h"

static void tell(void *arg);

/* The caller sets place->index before each entry. */
void
tq_place_begin(TqPlace *place, const char *list)
{
	place->list = list;
	place->index = 0;
	place->callback.callback = tell;
	place->callback.arg = place;
	place->callback.previous = error_context_stack;
	error_context_stack = &place->callback;
}

void
tq_place_end(TqPlace *place)
{
	error_context_stack = place->callback.previous;
}

static void
tell(void *arg)
{
	const TqPlace *place = arg;

	errcontext("entry %s[%d]", place->list, place->index);
}

/*
 * str.c
 *		Text that grows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/str.h"

/* appendStringInfo for a function that has such arguments itself. */
void
tq_str_append(StringInfo text, const char *format, va_list args)
{
	for (;;)
	{
		va_list again;
		int     needed;

		va_copy(again, args);
		needed = appendStringInfoVA(text, format, again);
		va_end(again);
		if (needed == 0)
			return;
		enlargeStringInfo(text, needed);
	}
}

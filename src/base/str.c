/*
 * str.c
 *		Growing text.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/str.h"

/* appendStringInfo for functions with a va_list. */
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

/*
 * health_report.c
 *		taskq_health(): functions that its checks share.
 *
 * A check writes sentences for operators into TqHealth.detail, which exists as
 * long as the check runs.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/str.h"
#include "diag/health_report.h"

static char *two_units(int64 seconds, int64 large, const char *large_name,
					   int64 small, const char *small_name);

/* Add a sentence. */
void
tq_health_say(TqHealth *health, const char *format, ...)
{
	StringInfo text = &health->detail;
	va_list    args;

	if (text->len > 0)
		appendStringInfoChar(text, ' ');
	va_start(args, format);
	tq_str_append(text, format, args);
	va_end(args);
}

/* Format a time span with its two largest units. */
char *
tq_health_span(int64 span)
{
	int64 seconds = Max(span, 0) / USECS_PER_SEC;

	if (seconds < 60)
		return psprintf(INT64_FORMAT " s", seconds);
	if (seconds < 3600)
		return two_units(seconds, 60, "min", 1, "s");
	if (seconds < 86400)
		return two_units(seconds, 3600, "h", 60, "min");
	return two_units(seconds, 86400, "d", 3600, "h");
}

static char *
two_units(int64 seconds, int64 large, const char *large_name, int64 small,
		  const char *small_name)
{
	int64 rest = seconds % large / small;

	if (rest == 0)
		return psprintf(INT64_FORMAT " %s", seconds / large, large_name);
	return psprintf(INT64_FORMAT " %s " INT64_FORMAT " %s", seconds / large,
					large_name, rest, small_name);
}

/*
 * check_report.c
 *		taskq_check(): functions that its parts share.
 *
 * Rows are added to the result of the SQL call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/builtins.h"

#include "base/srf.h"
#include "base/str.h"
#include "diag/check_report.h"

void
tq_check_report(ReturnSetInfo *result, const char *problem, const char *format,
				...)
{
	Datum          values[2];
	bool           nulls[2] = {false, false};
	StringInfoData detail;
	va_list        args;

	initStringInfo(&detail);
	va_start(args, format);
	tq_str_append(&detail, format, args);
	va_end(args);
	values[0] = CStringGetTextDatum(problem);
	values[1] = CStringGetTextDatum(detail.data);
	tq_srf_add(result, values, nulls);
	pfree(detail.data);
}

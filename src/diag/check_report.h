/*
 * check_report.h
 *		taskq_check(): functions that its parts share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECK_REPORT_H
#define TQ_CHECK_REPORT_H

extern void tq_check_report(ReturnSetInfo *result, const char *problem,
							const char *format, ...) pg_attribute_printf(3, 4);

#endif /* TQ_CHECK_REPORT_H */

/*
 * str.h
 *		Growing text.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STR_H
#define TQ_STR_H

#include "base/compat.h"

#include "lib/stringinfo.h"

extern void tq_str_append(StringInfo text, const char *format, va_list args)
	pg_attribute_printf(2, 0);

#endif /* TQ_STR_H */

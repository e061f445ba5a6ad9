/*
 * compare.h
 *		Order of numbers, for qsort and bsearch.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COMPARE_H
#define TQ_COMPARE_H

static inline int
tq_order_int32(const void *a, const void *b)
{
	int32 x = *(const int32 *) a;
	int32 y = *(const int32 *) b;

	return x < y ? -1 : x > y;
}

static inline int
tq_order_int64(const void *a, const void *b)
{
	int64 x = *(const int64 *) a;
	int64 y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

#endif /* TQ_COMPARE_H */

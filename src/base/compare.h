/*
 * compare.h
 *		Comparison of numbers, for qsort and bsearch.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COMPARE_H
#define TQ_COMPARE_H

static inline int
tq_compare_int64(int64 x, int64 y)
{
	return x < y ? -1 : x > y;
}

static inline int
tq_order_int32(const void *a, const void *b)
{
	return tq_compare_int64(*(const int32 *) a, *(const int32 *) b);
}

static inline int
tq_order_int64(const void *a, const void *b)
{
	return tq_compare_int64(*(const int64 *) a, *(const int64 *) b);
}

#endif /* TQ_COMPARE_H */

/*
 * array.h
 *		Arrays that grow while elements are added.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ARRAY_H
#define TQ_ARRAY_H

#define TQ_ARRAY_FIRST 16

/*
 * Make room for one more element.  An array that is NULL is made in the given
 * context, and stays there.
 */
#define TQ_ARRAY_RESERVE(array, count, room, context)                         \
	do                                                                        \
	{                                                                         \
		if ((array) == NULL)                                                  \
		{                                                                     \
			(room) = TQ_ARRAY_FIRST;                                          \
			(array) = MemoryContextAlloc(context, sizeof(*(array)) * (room)); \
		}                                                                     \
		else if ((count) >= (room))                                           \
		{                                                                     \
			(room) *= 2;                                                      \
			(array) = repalloc_huge(array, sizeof(*(array)) * (room));        \
		}                                                                     \
	} while (0)

#endif /* TQ_ARRAY_H */

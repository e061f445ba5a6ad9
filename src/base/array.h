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
 * Make room for element number count, which is less than TQ_ARRAY_FIRST beyond
 * the room.  If the array is NULL, it is allocated in the given context and
 * stays there; count must then be less than TQ_ARRAY_FIRST.  If the allocation
 * fails, array and room are unchanged.
 */
#define TQ_ARRAY_RESERVE(array, count, room, context)                         \
	do                                                                        \
	{                                                                         \
		if ((array) == NULL)                                                  \
		{                                                                     \
			(array) = MemoryContextAlloc(context,                             \
										 sizeof(*(array)) * TQ_ARRAY_FIRST);  \
			(room) = TQ_ARRAY_FIRST;                                          \
		}                                                                     \
		else if ((count) >= (room))                                           \
		{                                                                     \
			(array) = repalloc_huge(array, sizeof(*(array)) * (room) *2);     \
			(room) *= 2;                                                      \
		}                                                                     \
	} while (0)

#endif /* TQ_ARRAY_H */

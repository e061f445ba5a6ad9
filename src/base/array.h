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
 * Make room for element number count, which lies less than TQ_ARRAY_FIRST
 * beyond the room.  An array that is NULL, of which count must be small
 * enough, too, is made in the given context, and stays there.  The room
 * changes only when there is memory: an error leaves both as they were.
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

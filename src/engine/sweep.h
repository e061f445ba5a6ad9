/*
 * sweep.h
 *		How a duty goes through more than one batch of what is due.
 *
 * What somebody is at stays due, and would be the next batch again: it is
 * passed over, until the end is reached, so that however many of them keep
 * nobody else waiting.  Then all of it is looked at once more.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SWEEP_H
#define TQ_SWEEP_H

typedef struct TqSweep
{
	int  passed; /* of those that are due, from the first one on */
	bool more;   /* the last batch was full */
	bool busy;   /* somebody was at some of them */
} TqSweep;

/*
 * After a batch that was full or not, of which so many are left, since
 * somebody was at them (busy) or for another reason.  True: it was the last
 * one, and somebody was at some of all.
 */
static inline bool
tq_sweep_on(TqSweep *sweep, bool full, int left, bool busy)
{
	busy = busy || sweep->busy;
	sweep->more = full;
	sweep->busy = full && busy;
	sweep->passed = full ? sweep->passed + left : 0;
	return busy && !full;
}

#endif /* TQ_SWEEP_H */

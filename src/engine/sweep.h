/*
 * sweep.h
 *		How a duty processes more than one batch of due objects.
 *
 * An object that another transaction has locked stays due, and would be in the
 * next batch again.  It is skipped until the end is reached, so that any
 * number of them does not delay the others.  Then all of them are tried once
 * more.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SWEEP_H
#define TQ_SWEEP_H

typedef struct TqSweep
{
	int  passed; /* number of due objects to skip from the start */
	bool more;   /* the last batch was full */
	bool busy;   /* some of them were locked */
} TqSweep;

/*
 * Call after a batch; full says whether the batch was full, left is the number
 * of its objects that were not processed, and busy says whether some of these
 * were locked.  Returns true if it was the last batch and some object in any
 * batch was locked.
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

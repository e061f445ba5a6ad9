/*
 * backoff.c
 *		The delay before the next attempt of a failed task.
 *
 * The formulas, where attempt is the number of the failed attempt, from 1:
 *		exponential	least(2^attempt * base, cap)
 *		linear		least(attempt * base, cap)
 *		fixed		base
 *		list		the entry of the attempt, or the last entry
 * The result is multiplied by 1 + chance * jitter, which only lengthens the
 * delay and may exceed the cap.  The arithmetic uses double, which does not
 * overflow; the result is at most ten years.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <math.h>

#include "base/backoff.h"
#include "base/types.h"

/*
 * The delay in microseconds.  chance is a random number from 0 to 1.
 */
int64
tq_backoff_delay(const TqBackoff *backoff, int attempt, double chance)
{
	double delay = 0;

	if (attempt < 1)
		attempt = 1;
	switch (backoff->retry)
	{
		case TQ_RETRY_EXPONENTIAL:
			delay = Min(ldexp((double) backoff->base, Min(attempt, 1000)),
						(double) backoff->cap);
			break;
		case TQ_RETRY_LINEAR:
			delay = Min((double) attempt * (double) backoff->base,
						(double) backoff->cap);
			break;
		case TQ_RETRY_FIXED:
			delay = (double) backoff->base;
			break;
		case TQ_RETRY_LIST:
			if (backoff->list_length > 0)
				delay = (double) backoff
							->list[Min(attempt, backoff->list_length) - 1];
			break;
	}
	delay *= 1.0 + chance * backoff->jitter;
	if (!(delay > 0))
		return 0;
	return delay >= (double) TQ_MAX_SPAN ? TQ_MAX_SPAN : (int64) delay;
}

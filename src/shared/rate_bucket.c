/*
 * rate_bucket.c
 *		Token buckets of claims, for rates.
 *
 * Each queue with a rate has a bucket in its entry of the table of counters
 * (counter.c, which has the rules, and whose lock and spinlocks these
 * functions acquire).  It is empty at first, fills by rate.count in each
 * rate.per, and holds at most rate.count; a claim takes one token.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "shared/counter_table.h"
#include "shared/rate_bucket.h"

static bool   is_of_rate(const TqCounter *counter, const TqRate *rate);
static double level_at(const TqCounter *counter, const TqRate *rate,
					   int64 now);
static void   fill(TqCounter *counter, const TqRate *rate);

/*
 * The number of microseconds until a claim can take a token from the queue's
 * bucket; -1 if it has not begun to fill.
 */
int64
tq_rate_bucket_next(int32 queue_id, const TqRate *rate)
{
	double level;

	if (!tq_rate_bucket_tokens(queue_id, rate, &level))
		return -1;
	return level >= 1 ? 0
					  : (int64) ((1 - level) * rate->per / rate->count) + 1;
}

/*
 * Take one token from the queue's bucket; *taken_at must be passed to
 * tq_rate_bucket_put_back.  If it is NULL, only check, and take nothing.
 */
TqReservation
tq_rate_bucket_take(int32 queue_id, const TqRate *rate, int64 *taken_at)
{
	TqCounter    *counter;
	TqReservation answer = TQ_RESERVE_NO_ROOM;

	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find_or_make(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		answer = TQ_RESERVE_FULL;
		SpinLockAcquire(&counter->mutex);
		fill(counter, rate);
		if (counter->level >= 1)
			answer = TQ_RESERVE_DONE;
		if (answer == TQ_RESERVE_DONE && taken_at != NULL)
		{
			counter->level -= 1;
			*taken_at = counter->filled_at;
		}
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
	return answer;
}

/* The number of tokens in the bucket of a queue's rate; false if unknown. */
bool
tq_rate_bucket_tokens(int32 queue_id, const TqRate *rate, double *tokens)
{
	TqCounter *counter;
	bool       known = false;

	if (tq_counter_table == NULL)
		return false;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		known = is_of_rate(counter, rate);
		*tokens = level_at(counter, rate, tq_clock_monotonic());
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
	return known;
}

/*
 * A claim was not made, or was rolled back: restore the bucket as if the token
 * had not been taken.  If it has been full since, it would have been full
 * without the claim, too.  Cannot fail.
 */
void
tq_rate_bucket_put_back(int32 queue_id, int64 taken_at)
{
	TqCounter *counter;

	if (tq_counter_table == NULL)
		return;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		if (taken_at >= counter->full_at)
			counter->level = Min(counter->level + 1, counter->rate.count);
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
}

/* Was the bucket filled at this rate? */
static bool
is_of_rate(const TqCounter *counter, const TqRate *rate)
{
	return counter->rate.count == rate->count &&
		   counter->rate.per == rate->per;
}

/*
 * The current number of tokens; none if the bucket was filled at another rate.
 */
static double
level_at(const TqCounter *counter, const TqRate *rate, int64 now)
{
	double gained;

	if (!is_of_rate(counter, rate))
		return 0;
	gained = (double) (now - counter->filled_at) * rate->count / rate->per;
	return Min(counter->level + gained, rate->count);
}

/* Fill the bucket up to the current time; a changed rate empties it. */
static void
fill(TqCounter *counter, const TqRate *rate)
{
	int64 now = tq_clock_monotonic();
	bool  known = is_of_rate(counter, rate);

	counter->level = level_at(counter, rate, now);
	if (!known || counter->level >= rate->count)
		counter->full_at = now;
	counter->rate = *rate;
	counter->filled_at = now;
}

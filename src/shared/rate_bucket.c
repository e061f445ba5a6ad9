/*
 * rate_bucket.c
 *		Buckets of claims, for rates.
 *
 * Each queue with a rate has one in its entry of the table of counters
 * (counter.c, which has the rules, and whose lock and spinlocks these
 * functions take).  It is empty at first, fills by rate.count in each
 * rate.per, and holds rate.count at most; a claim takes one out.
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
 * In how many microseconds a claim can be taken out of the queue's bucket;
 * -1 when it has not begun to fill.
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
 * Take one claim out of the queue's bucket, which was empty at first;
 * *taken_at is to be given to tq_rate_bucket_put_back; NULL: only look, and
 * take nothing.
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

/* What is in the bucket of a queue's rate; false when it is not known. */
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
 * A claim was not made, or rolled back: the bucket is as if it had not been
 * taken.  When it has been full since, it would have been full without it,
 * too.  Cannot fail.
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

/* Has the bucket been filled at this rate? */
static bool
is_of_rate(const TqCounter *counter, const TqRate *rate)
{
	return counter->rate.count == rate->count &&
		   counter->rate.per == rate->per;
}

/*
 * What is in the bucket now: nothing under another rate than the one that
 * it was filled at.
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

/* Bring the bucket up to now; a changed rate empties it. */
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

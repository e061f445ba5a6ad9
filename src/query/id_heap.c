/*
 * id_heap.c
 *		The best few of many ids: a heap of bounded size.
 *
 * Tables and index ranges are read one after the other; each is left as soon
 * as its next id is worse than all ids kept so far.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/compare.h"
#include "query/id_heap.h"

static bool is_worse(const TqIdHeap *page, int64 a, int64 b);
static void sift_up(TqIdHeap *page, int i);
static void sift_down(TqIdHeap *page, int i);
static void swap(TqIdHeap *page, int i, int j);
static int  compare_rising(const void *a, const void *b);
static int  compare_falling(const void *a, const void *b);

void
tq_id_heap_init(TqIdHeap *page, int max, bool backward)
{
	memset(page, 0, sizeof(*page));
	page->max = max;
	page->backward = backward;
	page->room = Min(max, 64);
	page->rows = palloc(sizeof(TqFound) * page->room);
}

/* Would a task with this id be kept? */
bool
tq_id_heap_wants(const TqIdHeap *page, int64 task_id)
{
	return page->count < page->max ||
		   is_worse(page, page->rows[0].task_id, task_id);
}

void
tq_id_heap_add(TqIdHeap *page, const TqFound *found)
{
	if (page->count < page->max)
	{
		if (page->count == page->room)
		{
			page->room = Min(page->room * 2, page->max);
			page->rows =
				repalloc_huge(page->rows, sizeof(TqFound) * page->room);
		}
		page->rows[page->count] = *found;
		sift_up(page, page->count++);
		return;
	}
	page->dropped = true;
	if (is_worse(page, page->rows[0].task_id, found->task_id))
	{
		page->rows[0] = *found;
		sift_down(page, 0);
	}
}

/* Keep only ids from first to last. */
void
tq_id_heap_keep(TqIdHeap *page, int64 first, int64 last)
{
	int count = page->count;

	page->count = 0;
	for (int i = 0; i < count; i++)
	{
		if (page->rows[i].task_id < first || page->rows[i].task_id > last)
			continue;
		page->rows[page->count] = page->rows[i];
		sift_up(page, page->count++);
	}
}

/* Sort with the best first; it is no longer a heap. */
void
tq_id_heap_sort(TqIdHeap *page)
{
	qsort(page->rows, page->count, sizeof(TqFound),
		  page->backward ? compare_falling : compare_rising);
}

static bool
is_worse(const TqIdHeap *page, int64 a, int64 b)
{
	return page->backward ? a < b : a > b;
}

static void
sift_up(TqIdHeap *page, int i)
{
	while (i > 0 && is_worse(page, page->rows[i].task_id,
							 page->rows[(i - 1) / 2].task_id))
	{
		swap(page, i, (i - 1) / 2);
		i = (i - 1) / 2;
	}
}

static void
sift_down(TqIdHeap *page, int i)
{
	for (;;)
	{
		int worst = i;

		for (int child = 2 * i + 1; child <= 2 * i + 2; child++)
		{
			if (child < page->count &&
				is_worse(page, page->rows[child].task_id,
						 page->rows[worst].task_id))
				worst = child;
		}
		if (worst == i)
			return;
		swap(page, i, worst);
		i = worst;
	}
}

static void
swap(TqIdHeap *page, int i, int j)
{
	TqFound row = page->rows[i];

	page->rows[i] = page->rows[j];
	page->rows[j] = row;
}

static int
compare_rising(const void *a, const void *b)
{
	return tq_compare_int64(((const TqFound *) a)->task_id,
							((const TqFound *) b)->task_id);
}

static int
compare_falling(const void *a, const void *b)
{
	return compare_rising(b, a);
}

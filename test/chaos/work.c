/*
 * work.c
 *		What a worker does with its tasks, at random.
 *
 * A worker claims again and again; a sleeper sleeps in the server until there
 * are tasks, and is the only one to claim from its queues.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define OLD_TASKS 64 /* tasks that we no longer hold, to be tried again */

static Task old_tasks[OLD_TASKS];
static int  old_count = 0;

static void do_tasks(Task *tasks, int count, bool *die_now);
static bool do_together(Task *tasks, int *count);
static void do_task(const Task *task, bool *die_now);
static void take_time(const Task *task);
static void end_task(const Task *task, bool *die_now);
static void work_ms(int ms, bool with_heartbeats);
static void remember_task(const Task *task);
static void answer_late(void);

void
work(bool asleep)
{
	Task tasks[MAX_TASKS];
	bool die_now = false;
	int  idle_ms = 2;

	need_register = registers;
	while (!told_to("stop"))
	{
		int count;

		check_parent();
		draining = told_to("drain");
		ensure_connection();
		while (need_register && !told_to("stop"))
			register_worker();
		beat_if_due();
		if (need_register)
			continue;
		count = asleep ? sleep_and_claim(tasks) : claim(tasks);
		if (registers && !asleep && !draining && percent(1))
		{
			leave(); /* perhaps with tasks in hand */
			continue;
		}
		do_tasks(tasks, count, &die_now);
		if (die_now)
		{
			begin_op("die w=%s", name);
			_exit(3);
		}
		if (asleep)
			continue;
		if (!draining && percent(6))
			answer_late();
		idle_ms = count > 0                       ? 2
				  : idle_ms < (draining ? 4 : 20) ? idle_ms * 2
												  : idle_ms;
		if (count == 0)
			rest_ms(idle_ms);
	}
}

static void
do_tasks(Task *tasks, int count, bool *die_now)
{
	while (count > 1 && percent(draining ? 60 : 35))
	{
		if (do_together(tasks, &count))
			return;
	}
	for (int i = 0; i < count && !*die_now; i++)
		do_task(&tasks[i], die_now);
}

/*
 * All in one call; false if they, or the tasks that replaced them, are still
 * to be done.
 */
static bool
do_together(Task *tasks, int *count)
{
	int n = draw(10);

	if (!draining && percent(20))
		extend_many(tasks, *count);
	if (n < 5 || draining)
		return complete_many(tasks, *count);
	if (n < 8)
		return decide_many(tasks, *count);
	if (!complete_and_claim(tasks, count))
		return false;
	return *count == 0;
}

/* Do one task, somehow. */
static void
do_task(const Task *task, bool *die_now)
{
	if (draining)
	{
		complete(task, has_effect(task) ? END_COMMIT : END_AUTO);
		return;
	}
	take_time(task);
	/* not in another version than the known one */
	if (task->version == 0 && percent(6))
		extend(task);
	if (task->version == 0 && percent(3))
		checkpoint(task);
	end_task(task, die_now);
}

static void
take_time(const Task *task)
{
	if (bound && strcmp(task->queue, "tied") == 0)
		work_ms(150 + draw(400), true); /* so that they are killed with it */
	else if (percent(2))
		work_ms(900 + draw(900), percent(60)); /* too long for a lease */
	else if (percent(20))
		work_ms(20 + draw(120), true);
	else
		work_ms(draw(6), true);
}

static void
end_task(const Task *task, bool *die_now)
{
	int n = draw(1000);
	End end = has_effect(task) ? END_COMMIT : END_AUTO;

	if (n < 20)
	{
		/* rolled back: the task is still held */
		if (complete(task, END_ROLLBACK) != FAIL)
			return;
		complete(task, END_COMMIT);
	}
	else if (n < 30)
		complete(task, END_PREPARED_COMMIT);
	else if (n < 40)
	{
		complete(task, END_PREPARED_ROLLBACK);
		complete(task, END_COMMIT);
	}
	else if (n < 150)
	{
		fail(task);
		remember_task(task);
	}
	else if (n < 190)
	{
		release(task);
		remember_task(task);
	}
	else if (n < 205)
	{
		/* forgotten: a lease ends by itself, a registered worker says so */
		remember_task(task);
		need_register |= registers;
	}
	else if (n < 208)
		*die_now = true;
	else if (n < 230)
		complete_after_undo(task);
	else if (task->version > 0 && percent(70))
		complete_by_change(task);
	else
	{
		if (complete(task, end) == UNKNOWN && percent(70))
			complete(task, END_COMMIT);
		if (percent(4))
			remember_task(task);
	}
}

/* Work, with heartbeats if the worker sends any. */
static void
work_ms(int ms, bool with_heartbeats)
{
	int64_t until = now_us() + (int64_t) ms * 1000;
	int     left;

	while ((left = (int) ((until - now_us()) / 1000)) > 0)
	{
		check_parent();
		rest_ms(left < 100 ? left : 100);
		if (with_heartbeats)
			beat_if_due();
	}
}

static void
remember_task(const Task *task)
{
	old_tasks[old_count++ % OLD_TASKS] = *task;
}

/* An answer for a task that was released or lost: it must not count twice. */
static void
answer_late(void)
{
	const Task *task;

	if (old_count == 0)
		return;
	task = &old_tasks[draw(old_count < OLD_TASKS ? old_count : OLD_TASKS)];
	switch (draw(4))
	{
		case 0:
			fail(task);
			break;
		case 1:
			extend(task);
			break;
		default:
			complete(task, END_COMMIT);
	}
}

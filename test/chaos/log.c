/*
 * log.c
 *		Time, chance, and the log of a client.
 *
 * A line is one write() before and one after each operation, so that nothing
 * is lost when the process is killed:
 *
 *		B number t0 operation name=value ...
 *		E number t1 ok|fail|unknown name=value ...
 *
 * Notes are written between them (claim.c): what a claim returned for its
 * steps.
 *
 * Times are microseconds of the monotonic clock. An operation is a transaction,
 * or one call that commits by itself; for a call on a list there is an
 * operation for each task. "fail" means that it certainly did not happen: the
 * server refused it, or it was rolled back, or the connection was lost before
 * its commit was sent. "unknown": lost later. The checker uses these logs.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

static int      log_fd;
static long     op_number = 0;
static uint64_t chance;

static void write_line(const char *line, int length);

void
open_log(const char *file)
{
	log_fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		die("could not open the log", strerror(errno));
}

void
seed_chance(const char *seed)
{
	chance = strtoull(seed, NULL, 10) * 2 + 1;
	for (int i = 0; i < 10; i++)
		draw(2); /* near seeds become different */
}

int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void
rest_ms(int ms)
{
	poll(NULL, 0, ms);
}

int
draw(int below)
{
	chance ^= chance >> 12;
	chance ^= chance << 25;
	chance ^= chance >> 27;
	return (int) ((chance * UINT64_C(2685821657736338717)) >> 33) % below;
}

bool
percent(int n)
{
	return draw(100) < n;
}

/* The saboteur uses files as signals. */
bool
told_to(const char *what)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", control_dir, what);
	return access(path, F_OK) == 0;
}

long
begin_op(const char *format, ...)
{
	char    line[2 * TEXT];
	char    rest[TEXT];
	va_list args;
	int     length;

	va_start(args, format);
	vsnprintf(rest, sizeof(rest), format, args);
	va_end(args);
	length = snprintf(line, sizeof(line), "B %ld %" PRId64 " %s\n",
					  ++op_number, now_us(), rest);
	write_line(line, length);
	return op_number;
}

Outcome
end_op(long op, Outcome outcome, const char *format, ...)
{
	int64_t now = now_us();
	char    line[4 * TEXT];
	char    rest[3 * TEXT];
	va_list args;
	int     length;

	va_start(args, format);
	vsnprintf(rest, sizeof(rest), format, args);
	va_end(args);
	length = snprintf(line, sizeof(line), "E %ld %" PRId64 " %s%s %s\n", op,
					  now,
					  outcome == OK        ? "ok"
					  : outcome == UNKNOWN ? "unknown"
										   : "fail code=",
					  outcome == FAIL ? code : "", rest);
	write_line(line, length);
	return outcome;
}

/* Whole lines, about an operation that has ended */
void
write_notes(const char *lines, int length)
{
	if (length > 0)
		write_line(lines, length);
}

static void
write_line(const char *line, int length)
{
	if (write(log_fd, line, (size_t) length) != length)
		die("could not write the log", strerror(errno));
}

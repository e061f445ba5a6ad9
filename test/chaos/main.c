/*
 * main.c
 *		A client of the chaos test, one process each: a producer, a caller, a
 *		grouper, a starter or an attendant of workflows, a worker, a sleeper,
 *		or a session that holds a snapshot.
 *
 * It works at random, drawn from a seed, and writes what it does to a log of
 * its own (log.c).  README.md lists the operations.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "client.h"

const char *name;
const char *conninfo;
const char *control_dir;
const char *own_tags = "";
Words       own_queues;
Words       all_queues;
bool        registers = false;
bool        bound = false;
int         max_running = 0;
int         rate = 40;
int         heartbeat_ms = 250;

static const char *role = "";
static pid_t       parent;

static void read_options(int argc, char **argv);
static void split(char *text, Words *words);
static void hold_snapshot(int seconds);

int
main(int argc, char **argv)
{
	parent = getppid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	read_options(argc, argv);
	if (name == NULL || control_dir == NULL || conninfo == NULL)
		return 2;
	if (strcmp(role, "producer") == 0)
		produce();
	else if (strcmp(role, "caller") == 0)
		call_and_wait();
	else if (strcmp(role, "grouper") == 0)
		group_parts();
	else if (strcmp(role, "starter") == 0)
		start_workflows();
	else if (strcmp(role, "attendant") == 0)
		attend_workflows();
	else if (strcmp(role, "snapshot") == 0)
		hold_snapshot(rate);
	else
		work(strcmp(role, "sleeper") == 0);
	disconnect();
	return 0;
}

void
die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", name, what, why);
	exit(1);
}

/* End with the test. */
void
check_parent(void)
{
	if (getppid() != parent)
		exit(0);
}

static void
read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "r:n:l:s:d:c:q:a:t:m:k:R:b:")) != -1)
	{
		switch (option)
		{
			case 'r':
				role = optarg;
				break;
			case 'n':
				name = optarg;
				break;
			case 'l':
				open_log(optarg);
				break;
			case 's':
				seed_chance(optarg);
				break;
			case 'd':
				control_dir = optarg;
				break;
			case 'c':
				conninfo = optarg;
				break;
			case 'q':
				split(optarg, &own_queues);
				break;
			case 'a':
				split(optarg, &all_queues);
				break;
			case 't':
				own_tags = optarg;
				break;
			case 'm':
				max_running = atoi(optarg);
				break;
			case 'k':
				bound = strcmp(optarg, "bound") == 0;
				registers = bound || strcmp(optarg, "registered") == 0;
				break;
			case 'R':
				rate = atoi(optarg);
				break;
			case 'b':
				heartbeat_ms = atoi(optarg);
				break;
			default:
				exit(2);
		}
	}
}

static void
split(char *text, Words *words)
{
	for (char *word = strtok(text, ","); word != NULL;
		 word = strtok(NULL, ","))
	{
		if (words->count >= MAX_WORDS)
			die("too many words", word);
		words->word[words->count++] = word;
	}
}

/*
 * A session that keeps an old snapshot for that many seconds; another one when
 * the server has ended it.
 */
static void
hold_snapshot(int seconds)
{
	int64_t until = now_us() + (int64_t) seconds * 1000000;

	while (now_us() < until && !told_to("drain"))
	{
		long    op;
		Outcome outcome;

		ensure_connection();
		op = begin_op("snapshot");
		outcome = run(NULL, "BEGIN ISOLATION LEVEL REPEATABLE READ");
		if (outcome == OK)
			outcome = run(NULL, "SELECT count(*) FROM taskq.tasks");
		while (outcome == OK && now_us() < until && !told_to("drain"))
		{
			check_parent();
			rest_ms(200);
			outcome = run(NULL, "SELECT 1");
		}
		if (outcome == OK)
			outcome = run(NULL, "COMMIT");
		end_op(op, outcome, "-");
		if (outcome == FAIL)
			break;
	}
}

/*
 * main.c
 *		Searches all orders of events for a lost task.
 *
 *	model RESULT short|long [scenarios] [rules]
 *
 * Each scenario with all rules: nothing may be lost in any world that can be
 * reached.  Then with one rule taken out at a time: a task must be lost in
 * the scenario that is made for it, else the rule, or the model, is of no use.
 *
 * A world that was seen before, by its fingerprint of 128 bits, is not gone
 * into again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

/* the C library's own: nothing of the server's is linked */
#undef fprintf
#undef printf
#undef snprintf

#define DEPTH 200 /* more than all steps of all actors */

const Scenario *scenario = NULL;
Rule            without = RULE_NONE;

/* How a world was reached */
typedef struct Move
{
	int8 actor;
	int8 choice;
} Move;

/* A world on the way, and which of its moves is next */
typedef struct Frame
{
	World world;
	Move  next;
	Move  made;
	Step  step; /* what was made */
} Frame;

typedef struct Search
{
	Frame       *frames;
	int          depth;
	Fingerprint *seen;
	uint64       seen_size; /* a power of two */
	uint64       seen_count;
	uint64       known; /* worlds in which something is known to be dead */
	const char  *problem;
} Search;

static int passed = 0;
static int failed = 0;

static bool            search(Search *search);
static bool            enter(Search *search, const World *world);
static bool            next_move(Frame *frame);
static bool            put(Search *search, Fingerprint print);
static void            grow(Search *search);
static void            print_way(const Search *search);
static bool            asked_for(const char *word, int argc, char **argv);
static bool            is_enough(void);
static void            check_scenario(void);
static void            check_rule(void);
static const Scenario *find_scenario(const char *name);
static void            report(bool ok, const char *what);
static void            die(const char *why);

int
main(int argc, char **argv)
{
	FILE *result;

	if (argc < 3)
		die("usage: model RESULT short|long [scenarios] [rules]");
	for (int i = 0; i < scenario_count && asked_for("scenarios", argc, argv);
		 i++)
	{
		if (is_enough())
			break;
		scenario = &scenarios[i];
		if (!scenario->is_long || strcmp(argv[2], "long") == 0)
			check_scenario();
	}
	if (asked_for("rules", argc, argv))
	{
		for (without = RULE_NONE + 1; without < RULES; without++)
			check_rule();
	}

	result = fopen(argv[1], "w");
	if (result == NULL || fprintf(result, "%d %d 0\n", passed, failed) < 0 ||
		fclose(result) != 0)
		die("could not write the result");
	return failed > 0;
}

/* Was the word given, or no word at all? */
static bool
asked_for(const char *word, int argc, char **argv)
{
	for (int i = 3; i < argc; i++)
	{
		if (strcmp(argv[i], word) == 0)
			return true;
		if (strcmp(argv[i], "scenarios") != 0 && strcmp(argv[i], "rules") != 0)
			die("words are: scenarios, rules");
	}
	return argc == 3;
}

/* Of a mutant, one failure is. */
static bool
is_enough(void)
{
	const char *first = getenv("TASKQ_FIRST_FAILURE");

	return failed > 0 && first != NULL && *first != '\0';
}

/* With all rules no task is lost, and some ranges are recorded. */
static void
check_scenario(void)
{
	Search state = {0};
	char   what[200];
	bool   sound = search(&state);

	snprintf(what, sizeof(what),
			 "%s: nothing is lost (" UINT64_FORMAT
			 " worlds, something known in " UINT64_FORMAT ")",
			 scenario->name, state.seen_count, state.known);
	report(sound && state.known > 0, what);
	if (!sound)
		print_way(&state);
	free(state.frames);
	free(state.seen);
}

/* Without the rule a task is lost. */
static void
check_rule(void)
{
	Search      state = {0};
	const char *problem;
	char        what[200];

	scenario = find_scenario(rules[without].scenario);
	problem = search(&state) ? "nothing is lost" : state.problem;
	snprintf(what, sizeof(what),
			 "without %s: %s (%s, " UINT64_FORMAT " worlds)",
			 rules[without].name, problem, scenario->name, state.seen_count);
	report(strcmp(problem, "a task is lost") == 0, what);
	free(state.frames);
	free(state.seen);
}

static const Scenario *
find_scenario(const char *name)
{
	for (int i = 0; i < scenario_count; i++)
	{
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	}
	die("a rule names no scenario");
	return NULL;
}

/* false at the first world that is not sound; its way is in the frames. */
static bool
search(Search *search)
{
	World *first;
	bool   sound;

	search->frames = calloc(DEPTH, sizeof(Frame));
	search->seen_size = 1 << 16;
	search->seen = calloc(search->seen_size, sizeof(Fingerprint));
	first = calloc(1, sizeof(World));
	if (search->frames == NULL || search->seen == NULL || first == NULL)
		die("out of memory");
	world_begin(first);
	sound = enter(search, first);
	while (sound && search->depth > 0)
	{
		Frame *frame = &search->frames[search->depth - 1];
		Frame *next = frame + 1;

		if (!next_move(frame))
		{
			search->depth--;
			continue;
		}
		if (search->depth == DEPTH)
			die("a way is too long");
		next->made = frame->next;
		next->step = (Step) frame->world.actors[next->made.actor].step;
		next->world = frame->world;
		take_step(&next->world, next->made.actor, next->made.choice);
		frame->next.choice++;
		sound = enter(search, &next->world);
	}
	free(first);
	return sound;
}

/* Enter a world, unless it was seen; false if it is not sound. */
static bool
enter(Search *search, const World *world)
{
	Frame *frame = &search->frames[search->depth];

	if (!put(search, world_fingerprint(world)))
		return true;
	if (world_knows(world))
		search->known++;
	if (&frame->world != world)
		frame->world = *world;
	frame->next = (Move){0, 0};
	search->depth++;
	return world_sound(&frame->world, &search->problem);
}

/* Find the move to make next; false when all were made. */
static bool
next_move(Frame *frame)
{
	while (frame->next.actor < ACTORS)
	{
		if (frame->next.choice < choices(&frame->world, frame->next.actor))
			return true;
		frame->next.actor++;
		frame->next.choice = 0;
	}
	return false;
}

/* false when it was there before */
static bool
put(Search *search, Fingerprint print)
{
	uint64 at = print.a & (search->seen_size - 1);

	while (search->seen[at].a != 0 || search->seen[at].b != 0)
	{
		if (search->seen[at].a == print.a && search->seen[at].b == print.b)
			return false;
		at = (at + 1) & (search->seen_size - 1);
	}
	search->seen[at] = print;
	if (++search->seen_count > search->seen_size / 2)
		grow(search);
	return true;
}

static void
grow(Search *search)
{
	Fingerprint *old = search->seen;
	uint64       old_size = search->seen_size;

	search->seen_size *= 2;
	search->seen_count = 0;
	search->seen = calloc(search->seen_size, sizeof(Fingerprint));
	if (search->seen == NULL)
		die("out of memory");
	for (uint64 i = 0; i < old_size; i++)
	{
		if (old[i].a != 0 || old[i].b != 0)
			put(search, old[i]);
	}
	free(old);
}

static void
print_way(const Search *search)
{
	printf("# %s\n", search->problem);
	for (int i = 1; i < search->depth; i++)
		printf(
			"#   actor %d %s (choice %d)\n", search->frames[i].made.actor + 1,
			step_name(search->frames[i].step), search->frames[i].made.choice);
}

static void
report(bool ok, const char *what)
{
	printf("%s - %s\n", ok ? "ok" : "not ok", what);
	fflush(stdout);
	if (ok)
		passed++;
	else
		failed++;
}

static void
die(const char *why)
{
	fprintf(stderr, "model: %s\n", why);
	exit(2);
}

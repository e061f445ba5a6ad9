/*
 * model.h
 *		A small world in which claims and commits meet in every order.
 *
 * Some tasks, their rows as transactions see them, the dispatch index, the
 * table of dead ranges (src/shared/dead_range_core.c, compiled with small
 * numbers), and some actors.  An actor is a short program of steps; the
 * search runs them in all orders, and after each step checks for a lost task:
 * it could be claimed, it lies inside a dead range, and no actor is about to
 * publish its position.
 *
 * Positions in the index are slots, 1 to SLOTS - 1, in the index's order; the
 * clock says up to which slot tasks are due.  A slot belongs to one task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MODEL_H
#define TQ_MODEL_H

#include "base/compat.h"

#include "shared/dead_range_core.h"

#define TASKS 4
#define SLOTS 10
#define ACTORS 5
#define NO_ACTOR (-1)

/* A rule of the protocol that can be taken out. */
typedef enum Rule
{
	RULE_NONE,
	RULE_NUMBER,
	RULE_SPAN,
	RULE_CUT,
	RULE_AFTER_VISIBLE,
	RULE_COMMIT_LOWERS,
	RULE_ABORT_LOWERS,
	RULE_SAVEPOINT_LOWERS,
	RULE_LOCK_LOWERS,
	RULE_MOMENT_FIRST,
	RULE_OWN_SNAPSHOT,
	RULE_CLAIMABLE_ENDS,
	RULE_NOT_DUE_ENDS,
	RULE_LIMIT_ENDS,
	RULE_LATER_CUT,
	RULE_TOO_MANY,
	RULE_LEARN_POSITION,
	RULE_LOWER_POSITION,
	RULE_COMMIT_PREPARED,
	RULE_ROLLBACK_PREPARED,
	RULE_PREPARED_RESTART,
	RULE_PREPARED_NUMBER,
	RULE_BIRTH,
	RULE_EVICTION,
	RULE_WIPE,
	RULE_PRIORITY_ADDED,
	RULE_PRIORITY_LATER,
	RULE_PRIORITY_MANY,
	RULES
} Rule;

typedef enum RowState
{
	ROW_NONE, /* not there, or finished */
	ROW_PENDING,
	ROW_RUNNING
} RowState;

typedef struct Row
{
	uint8 state;
	uint8 slot;
	uint8 priority;
} Row;

typedef struct Task
{
	Row  row;     /* committed */
	Row  written; /* by the writer */
	int8 writer;  /* an actor that has written or locked the row */
} Task;

typedef enum Step
{
	STEP_INSERT,
	STEP_RETRY,
	STEP_LOCK,
	STEP_MOMENT,
	STEP_SNAPSHOT,
	STEP_PRIORITIES,
	STEP_LEARN_PRIORITIES,
	STEP_READ,
	STEP_WALK,
	STEP_LEARN,
	STEP_LEARN_END,
	STEP_END,
	STEP_PREPARED,
	STEP_LOWER,
	STEP_FORGET,
	STEP_TICK,
	STEP_EVICT,
	STEP_WIPE,
	STEP_RESTART,
	STEP_DONE
} Step;

typedef enum Kind
{
	KIND_NONE,
	KIND_SUBMIT,
	KIND_CLAIM,
	KIND_RETRY,
	KIND_LOCK,
	KIND_TICK,
	KIND_EVICT,
	KIND_WIPE,
	KIND_RESTART
} Kind;

/* How a transaction may end */
#define END_COMMIT 1
#define END_ABORT 2
#define END_SAVEPOINT 4 /* its work rolled back, the transaction continues */
#define END_PREPARED_COMMIT 8
#define END_PREPARED_ROLLBACK 16
#define END_BOTH (END_COMMIT | END_ABORT)
#define END_PREPARED (END_PREPARED_COMMIT | END_PREPARED_ROLLBACK)
#define ENDS 5

/* What an actor is to do. */
typedef struct Part
{
	Kind kind;
	int  ends;
	int  task;
	int  slot;     /* of SUBMIT, RETRY */
	int  priority; /* of SUBMIT */
	int  second;   /* of SUBMIT: another task with the next number; slot */
	int  want;     /* of CLAIM: tasks, or of TICK, WIPE: how often */
	int  refuses;  /* of CLAIM: a task that a limit keeps it from, + 1 */
	bool lifo;
	bool lists; /* asks for the lane's priorities first */
	bool moves; /* of RETRY: also a task that is pending, elsewhere */
	bool old;   /* its snapshot was taken before */
} Part;

typedef struct Scenario
{
	const char *name;
	bool        is_long; /* for LONG only */
	int         now;
	Row         rows[TASKS];
	Part        parts[ACTORS];
} Scenario;

/* What a rule says, and the scenario that must miss it */
typedef struct RuleName
{
	const char *name;
	const char *scenario;
} RuleName;

typedef struct Actor
{
	uint8         step;
	uint8         end;  /* how its transaction ends */
	uint16        owes; /* slots that it will lower */
	TqDeadRangeMoment moment;
	Row           snapshot[TASKS];
	uint8         priority; /* that it walks at; index of the list */
	uint8         priority_count;
	int16         priorities[TASKS];
	uint8         range_count;
	TqDeadRange       ranges[TQ_RANGES];
	uint8         at;    /* the slot checked last */
	uint8         first; /* the slots passed first and last; 0: none */
	uint8         last;
	bool          at_end; /* there was no further entry */
	uint8         taken;
} Actor;

typedef struct World
{
	uint8         now;
	bool          flagged; /* memory knows of prepared transactions */
	TqDeadRangeMoment number;
	Task          tasks[TASKS];
	uint8         entry[SLOTS]; /* of the index: task + 1 */
	uint8         entry_priority[SLOTS];
	Actor         actors[ACTORS];
	TqRangeTable  table;
} World;

typedef struct Fingerprint
{
	uint64 a;
	uint64 b;
} Fingerprint;

/* What is searched, and the rule that is taken out */
extern const Scenario *scenario;
extern Rule            without;

/* world.c */
extern void        world_begin(World *world);
extern bool        world_sound(const World *world, const char **problem);
extern bool        world_knows(const World *world);
extern Fingerprint world_fingerprint(const World *world);
extern TqPosition  position_of(int slot);
extern TqRangeKey  key_of(int priority);
extern bool        inside(const TqDeadRange *ranges, int count, int slot);

/* steps.c */
extern Step        first_step(const Part *part);
extern int         choices(const World *world, int actor);
extern void        take_step(World *world, int actor, int choice);
extern const char *step_name(Step step);

/* table.c: calls of the table, with a rule taken out or not */
extern void table_lower(World *world, int from, int to);
extern void table_learn(World *world, const Actor *actor,
						const TqDeadRange *range);
extern void table_learn_priorities(World *world, const Actor *actor);
extern void table_evict(World *world);
extern void table_wipe(World *world);
extern void table_forget(World *world);

/* scenarios.c */
extern const Scenario scenarios[];
extern const int      scenario_count;
extern const RuleName rules[RULES];

#endif /* TQ_MODEL_H */

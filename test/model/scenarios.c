/*
 * scenarios.c
 *		The small worlds that are searched, and the names of the rules.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "model.h"

#define PENDING(at)                                                           \
	{                                                                         \
		ROW_PENDING, at, 0                                                    \
	}
#define RUNNING(at)                                                           \
	{                                                                         \
		ROW_RUNNING, at, 0                                                    \
	}
#define SUBMIT(number, at, how)                                               \
	{                                                                         \
		.kind = KIND_SUBMIT, .task = (number), .slot = (at), .ends = (how)    \
	}
#define SUBMIT_AT(number, at, which)                                          \
	{                                                                         \
		.kind = KIND_SUBMIT, .task = (number), .slot = (at),                  \
		.priority = (which), .ends = END_COMMIT                               \
	}
#define CLAIM(count, how)                                                     \
	{                                                                         \
		.kind = KIND_CLAIM, .want = (count), .ends = (how)                    \
	}
#define CLAIM_LAST(count, how)                                                \
	{                                                                         \
		.kind = KIND_CLAIM, .want = (count), .ends = (how), .lifo = true      \
	}
#define CLAIM_BY_PRIORITY(count, how)                                         \
	{                                                                         \
		.kind = KIND_CLAIM, .want = (count), .ends = (how), .lists = true     \
	}
#define RETRY(number, at, how)                                                \
	{                                                                         \
		.kind = KIND_RETRY, .task = (number), .slot = (at), .ends = (how)     \
	}
#define LOCK(number)                                                          \
	{                                                                         \
		.kind = KIND_LOCK, .task = (number), .ends = END_BOTH                 \
	}

const RuleName rules[RULES] = {
	[RULE_NUMBER] = {"rule 1: lowers are numbered", "late commits"},
	[RULE_SPAN] = {"rule 1: a lower is remembered", "late commits"},
	[RULE_CUT] = {"rule 1: a lower is cut out of the ranges", "late commits"},
	[RULE_AFTER_VISIBLE] = {"rule 1: a lower comes after visibility",
							"late commits"},
	[RULE_COMMIT_LOWERS] = {"rule 2: a commit lowers new positions",
							"late commits"},
	[RULE_ABORT_LOWERS] = {"rule 2: an abort lowers old positions",
						   "aborts of claims"},
	[RULE_SAVEPOINT_LOWERS] = {"rule 2: a savepoint's abort lowers, too",
							   "savepoints"},
	[RULE_LOCK_LOWERS] = {"rule 2: who has locked a row lowers",
						  "locked and left"},
	[RULE_MOMENT_FIRST] = {"rule 3: the moment is read before the snapshot",
						   "late commits"},
	[RULE_OWN_SNAPSHOT] = {"rule 3: the snapshot is this claim's own",
						   "a snapshot from before"},
	[RULE_CLAIMABLE_ENDS] = {"rule 3: a range ends before what is claimable",
							 "aborts of claims"},
	[RULE_NOT_DUE_ENDS] = {"rule 3: a range ends before what is not due",
						   "due later"},
	[RULE_LIMIT_ENDS] = {"rule 3: a range ends before what a limit leaves",
						 "limits"},
	[RULE_LATER_CUT] = {"rule 3: later lowers are cut out", "retries"},
	[RULE_TOO_MANY] = {"rule 3: after too many lowers nothing is learned",
					   "many late commits"},
	[RULE_LEARN_POSITION] = {"rule 4: a position is learned, no clock reading",
							 "late commits"},
	[RULE_LOWER_POSITION] = {"rule 4: a position is lowered, no clock reading",
							 "late commits"},
	[RULE_COMMIT_PREPARED] = {"rule 5: COMMIT PREPARED forgets",
							  "prepared submissions"},
	[RULE_ROLLBACK_PREPARED] = {"rule 5: ROLLBACK PREPARED forgets",
								"prepared claims"},
	[RULE_PREPARED_RESTART] = {"rule 5: also after a restart",
							   "prepared over a restart"},
	[RULE_PREPARED_NUMBER] = {"rule 5: forgetting has a number",
							  "prepared claims"},
	[RULE_BIRTH] = {"rule 6: a lower without a cell is remembered",
					"late commits"},
	[RULE_EVICTION] = {"rule 6: an evicted cell is remembered", "eviction"},
	[RULE_WIPE] = {"rule 6: a wipe has a number", "a wipe"},
	[RULE_PRIORITY_ADDED] = {"rule 6: a lower adds its priority",
							 "priorities"},
	[RULE_PRIORITY_LATER] = {"rule 6: later priorities stay in the list",
							 "priorities"},
	[RULE_PRIORITY_MANY] = {"rule 6: too many priorities are not known",
							"many priorities"},
};

const Scenario scenarios[] = {
	{"late commits", .now = 9,
	 .parts = {SUBMIT(0, 1, END_BOTH), SUBMIT(1, 3, END_COMMIT),
			   CLAIM(1, END_BOTH), CLAIM(2, END_COMMIT)}},
	{"aborts of claims", .now = 9,
	 .rows = {PENDING(1), PENDING(3), PENDING(4)},
	 .parts = {CLAIM(1, END_BOTH), CLAIM(1, END_BOTH), CLAIM(2, END_BOTH)}},
	{"lifo", .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT(1, 4, END_BOTH), SUBMIT(2, 7, END_COMMIT),
			   CLAIM_LAST(1, END_BOTH), CLAIM_LAST(2, END_BOTH)}},
	{"savepoints", .now = 9, .rows = {PENDING(1), PENDING(2)},
	 .parts = {CLAIM(1, END_SAVEPOINT), CLAIM(1, END_SAVEPOINT | END_ABORT),
			   CLAIM(2, END_COMMIT)}},
	{"locked and left", .now = 9, .rows = {PENDING(1), PENDING(3)},
	 .parts = {LOCK(0), LOCK(1), CLAIM(2, END_BOTH), CLAIM(2, END_COMMIT)}},
	{"prepared claims", .now = 9, .rows = {PENDING(1), PENDING(3)},
	 .parts = {CLAIM(1, END_PREPARED), CLAIM(1, END_BOTH),
			   CLAIM(2, END_COMMIT)}},
	{"prepared submissions", .now = 9,
	 .parts = {SUBMIT(0, 2, END_PREPARED), SUBMIT(1, 5, END_BOTH),
			   CLAIM(1, END_COMMIT), CLAIM(2, END_BOTH)}},
	{"prepared over a restart", .now = 9, .rows = {PENDING(1), PENDING(3)},
	 .parts = {CLAIM(1, END_PREPARED),
			   SUBMIT(2, 2, END_PREPARED),
			   {.kind = KIND_RESTART},
			   CLAIM(2, END_BOTH)}},
	{"retries", .now = 9, .rows = {RUNNING(1), RUNNING(2)},
	 .parts = {RETRY(0, 4, END_BOTH), RETRY(1, 3, END_BOTH),
			   CLAIM(1, END_COMMIT), CLAIM(1, END_BOTH)}},
	{"a task that is moved", .now = 9, .rows = {PENDING(2), PENDING(4)},
	 .parts = {{.kind = KIND_RETRY,
				.task = 0,
				.slot = 6,
				.moves = true,
				.ends = END_BOTH | END_SAVEPOINT},
			   {.kind = KIND_RETRY,
				.task = 1,
				.slot = 1,
				.moves = true,
				.ends = END_BOTH},
			   CLAIM(1, END_BOTH),
			   CLAIM(2, END_COMMIT)}},
	{"a claim, its retry, a claim", .now = 9, .rows = {PENDING(1)},
	 .parts = {CLAIM(1, END_BOTH), RETRY(0, 4, END_BOTH), CLAIM(1, END_BOTH),
			   SUBMIT(1, 3, END_COMMIT)}},
	{"due later", .now = 3, .rows = {PENDING(2), PENDING(4), PENDING(6)},
	 .parts = {{.kind = KIND_TICK, .want = 3},
			   CLAIM(1, END_BOTH),
			   CLAIM(3, END_COMMIT),
			   SUBMIT(3, 5, END_COMMIT)}},
	{"limits", .now = 9, .rows = {PENDING(1), PENDING(2), PENDING(5)},
	 .parts =
		 {{.kind = KIND_CLAIM, .want = 2, .refuses = 2, .ends = END_COMMIT},
		  {.kind = KIND_CLAIM, .want = 1, .refuses = 1, .ends = END_BOTH},
		  CLAIM(1, END_BOTH)}},
	{"a snapshot from before", .now = 9,
	 .parts =
		 {SUBMIT(0, 1, END_COMMIT),
		  SUBMIT(1, 3, END_BOTH),
		  {.kind = KIND_CLAIM, .want = 1, .old = true, .ends = END_COMMIT},
		  CLAIM(1, END_BOTH)}},
	{"a bulk submission", .now = 9, .rows = {[2] = PENDING(2)},
	 .parts = {{.kind = KIND_SUBMIT,
				.task = 0,
				.slot = 1,
				.second = 4,
				.ends = END_BOTH},
			   SUBMIT(3, 6, END_COMMIT),
			   CLAIM(1, END_BOTH),
			   CLAIM(3, END_COMMIT)}},
	{"many late commits", .now = 9,
	 .parts = {SUBMIT(0, 1, END_COMMIT), SUBMIT(1, 4, END_COMMIT),
			   SUBMIT(2, 7, END_COMMIT), SUBMIT(3, 9, END_COMMIT),
			   CLAIM(1, END_COMMIT)}},
	{"eviction", .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT(1, 1, END_COMMIT),
			   SUBMIT(2, 3, END_COMMIT),
			   CLAIM_BY_PRIORITY(1, END_BOTH),
			   CLAIM_BY_PRIORITY(2, END_COMMIT),
			   {.kind = KIND_EVICT}}},
	{"a wipe", .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT(1, 1, END_COMMIT),
			   SUBMIT(2, 3, END_COMMIT),
			   CLAIM_BY_PRIORITY(1, END_BOTH),
			   CLAIM_BY_PRIORITY(2, END_COMMIT),
			   {.kind = KIND_WIPE}}},
	{"priorities", .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT_AT(1, 1, 1), SUBMIT_AT(2, 4, 0),
			   CLAIM_BY_PRIORITY(1, END_BOTH),
			   CLAIM_BY_PRIORITY(2, END_COMMIT)}},
	{"many priorities", .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT_AT(1, 1, 2), SUBMIT_AT(2, 4, 1),
			   CLAIM_BY_PRIORITY(1, END_COMMIT),
			   CLAIM_BY_PRIORITY(2, END_COMMIT)}},
	{"late commits of four", .is_long = true, .now = 9,
	 .parts = {SUBMIT(0, 1, END_COMMIT), SUBMIT(1, 3, END_BOTH),
			   SUBMIT(2, 6, END_COMMIT), CLAIM(1, END_BOTH),
			   CLAIM(2, END_BOTH)}},
	{"three claims and late commits", .is_long = true, .now = 9,
	 .rows = {PENDING(2)},
	 .parts = {SUBMIT(1, 1, END_COMMIT), SUBMIT(2, 5, END_COMMIT),
			   CLAIM(1, END_BOTH), CLAIM(1, END_BOTH), CLAIM(2, END_BOTH)}},
	{"lifo and fifo", .is_long = true, .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT(1, 1, END_BOTH), SUBMIT(2, 5, END_COMMIT),
			   CLAIM_LAST(1, END_BOTH), CLAIM(1, END_BOTH),
			   CLAIM_LAST(2, END_COMMIT)}},
	{"savepoints, locks and retries", .is_long = true, .now = 9,
	 .rows = {PENDING(1), RUNNING(3), PENDING(4)},
	 .parts = {CLAIM(1, END_SAVEPOINT | END_ABORT), RETRY(1, 6, END_BOTH),
			   LOCK(2), CLAIM(2, END_BOTH), CLAIM(1, END_BOTH)}},
	{"prepared, evicted and wiped", .is_long = true, .now = 9,
	 .rows = {PENDING(2), PENDING(3)},
	 .parts = {CLAIM(1, END_PREPARED | END_COMMIT),
			   SUBMIT(2, 1, END_PREPARED_COMMIT | END_COMMIT),
			   CLAIM(1, END_BOTH),
			   {.kind = KIND_EVICT},
			   {.kind = KIND_WIPE}}},
	{"two prepared over a restart", .is_long = true, .now = 9,
	 .rows = {PENDING(1), PENDING(3)},
	 .parts = {CLAIM(1, END_PREPARED),
			   SUBMIT(2, 2, END_PREPARED),
			   {.kind = KIND_RESTART},
			   CLAIM(1, END_BOTH),
			   CLAIM(2, END_BOTH)}},
	{"due later, with retries", .is_long = true, .now = 3,
	 .rows = {PENDING(2), RUNNING(4), PENDING(6)},
	 .parts = {{.kind = KIND_TICK, .want = 4},
			   CLAIM(1, END_BOTH),
			   CLAIM(2, END_BOTH),
			   RETRY(1, 5, END_BOTH),
			   SUBMIT(3, 3, END_COMMIT)}},
	{"priorities, evicted", .is_long = true, .now = 9, .rows = {PENDING(2)},
	 .parts = {SUBMIT_AT(1, 1, 1),
			   SUBMIT_AT(2, 4, 2),
			   CLAIM_BY_PRIORITY(1, END_BOTH),
			   CLAIM_BY_PRIORITY(2, END_BOTH),
			   {.kind = KIND_EVICT}}},
};

const int scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);

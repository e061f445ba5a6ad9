/*
 * client.h
 *		What the files of the client share.
 *
 * main.c reads the role of the process and runs it: a producer, a caller, a
 * grouper, a starter or an attendant of workflows, a worker, a sleeper, or a
 * session that holds a snapshot. produce.c, group.c, flow.c and work.c draw
 * what is done; calls.c and lists.c make the calls of a worker, claim.c claims
 * and waits; connect.c has the connection and transactions, log.c time, chance
 * and the log.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <libpq-fe.h>

#define TEXT 4096
#define MAX_TASKS 64 /* of one call */
#define MAX_WORDS 16

typedef enum
{
	OK,
	FAIL,
	UNKNOWN
} Outcome;

/* How the transaction of an operation shall end. */
typedef enum
{
	END_AUTO, /* one call that commits by itself */
	END_COMMIT,
	END_ROLLBACK,
	END_PREPARED_COMMIT,
	END_PREPARED_ROLLBACK
} End;

typedef struct Words
{
	char *word[MAX_WORDS];
	int   count;
} Words;

typedef struct Task
{
	int64_t task_id;
	int64_t token;
	int64_t version; /* 0: not known */
	char    queue[64];
	char    key[64]; /* of a step: w, its instance, a slash and its name */
} Task;

/* main.c: the role of this process */
extern const char    *name;
extern const char    *conninfo;
extern const char    *control_dir;
extern const char    *own_tags;
extern Words          own_queues;
extern Words          all_queues;
extern bool           registers;
extern bool           bound; /* to the connection */
extern int            max_running;
extern int            rate; /* transactions of a producer in a second */
extern int            heartbeat_ms;
extern void           check_parent(void);
extern _Noreturn void die(const char *what, const char *why);

/* log.c */
extern void    open_log(const char *file);
extern void    seed_chance(const char *seed);
extern int64_t now_us(void);
extern void    rest_ms(int ms);
extern int     draw(int below);
extern bool    percent(int n);
extern bool    told_to(const char *what);
extern long    begin_op(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
extern Outcome end_op(long op, Outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
extern void write_notes(const char *lines, int length);

/* connect.c */
extern const char *const end_word[];
extern char              code[16]; /* why the last statement failed */
extern bool              need_register;
extern void              ensure_connection(void);
extern void              disconnect(void);
extern Outcome           run(PGresult **result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
extern Outcome tx_begin(End end);
extern Outcome tx_end(End end, Outcome outcome);

/* produce.c */
extern End  draw_end(void);
extern void produce(void);
extern void call_and_wait(void);

/* group.c */
extern void group_parts(void);

/* flow.c */
extern bool is_step(const Task *task);
extern void draw_result(const char *key, char *json, size_t size);
extern void start_workflows(void);
extern void attend_workflows(void);

/* calls.c: of a worker, about itself or one task */
extern bool    draining;
extern bool    has_effect(const Task *task);
extern void    register_worker(void);
extern bool    beat_if_due(void);
extern void    leave(void);
extern Outcome complete(const Task *task, End end);
extern Outcome complete_after_undo(const Task *task);
extern Outcome complete_by_change(const Task *task);
extern Outcome fail(const Task *task);
extern Outcome release(const Task *task);
extern Outcome extend(const Task *task);
extern Outcome checkpoint(const Task *task);

/* lists.c: about several tasks; false if nothing was ended */
extern bool complete_many(const Task *tasks, int count);
extern bool decide_many(const Task *tasks, int count);
extern bool complete_and_claim(Task *tasks, int *count);
extern void extend_many(const Task *tasks, int count);

/* claim.c: its arguments, and its result */
#define CLAIMED                                                               \
	"task_id, token, attempt, max_attempts, priority,"                        \
	" coalesce('w' || workflow_id || '/' || step, payload->>'key'), queue"
#define NOTED                                                                 \
	", 0, replace(dependency_results::text, ' ', ''),"                        \
	" replace(payload::text, ' ', '')"
extern int  read_claim(PGresult *res, const char *queue, char *words,
					   size_t size, Task *tasks);
extern long begin_claim(const char *queue, int want, int lease_ms, int wait_ms,
						End end, const char *order);
extern void end_claim(long op, Outcome outcome, const char *words,
					  const char *dropped);
extern int  claim(Task *tasks);
extern int  sleep_and_claim(Task *tasks);

/* work.c */
extern void work(bool asleep);

#endif /* CLIENT_H */

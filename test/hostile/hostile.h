/*
 * hostile.h
 *		What the files of the program share.
 *
 * The program finds the extension's functions in the catalog, calls each with
 * hostile values in each argument, under settings and in transactions of many
 * kinds, and checks that nothing breaks.  README.md describes the checks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <libpq-fe.h>

/* A value of a type, as the text of a parameter or as an expression. */
typedef struct Value
{
	const char *name;
	const char *text;
	bool        literal;
} Value;

typedef struct Type
{
	const char  *name; /* as format_type tells it */
	const char  *sql;  /* qualified, for casts */
	const char  *good; /* a harmless expression */
	const Value *values;
	int          count;
} Type;

/* Places in documents that have members of known names. */
typedef struct Members
{
	const char        *function; /* LIKE is too much: a prefix */
	const char        *argument;
	const char        *form; /* of printf, with the member and its value */
	const char *const *names;
} Members;

typedef struct Arg
{
	char       *name;
	const Type *type;
	bool        optional;
	bool        inout;
} Arg;

typedef struct Function
{
	char *name; /* qualified */
	char *bare;
	bool  procedure;
	bool  contract; /* a function taskq_...; others serve the views */
	int   count;
	Arg  *args;
	int   calls;
	int   failures;
} Function;

/* A task that calls may name, or one that does not exist. */
typedef struct Context
{
	char *name;
	char *task_id;
	char *token;
	char *queue;
	bool  held; /* running under that token */
} Context;

/* One hostile value in one argument of one function. */
typedef struct Item
{
	Function   *function;
	int         arg; /* -1: none, a call with good values */
	const char *name;
	const char *text;
	bool        literal;
} Item;

typedef enum Mode
{
	MODE_SAVEPOINT, /* rolled back to it, then committed */
	MODE_BLOCK,
	MODE_AUTO, /* by itself, if it is known to fail */
	MODE_REPEATABLE,
	MODE_SERIALIZABLE,
	MODE_NESTED, /* the same again after a savepoint was rolled back */
	MODE_CURSOR,
	MODE_EXCEPTION, /* in a block of PL/pgSQL with a handler */
	MODE_PREPARED,
	MODE_READ_ONLY,
	MODE_DEFERRABLE,
	MODE_ABORTED,
	MODE_COUNT
} Mode;

typedef struct Outcome
{
	bool   ok;
	bool   lost; /* the connection */
	char   code[6];
	char   message[300];
	double ms;
	char  *answer; /* without times, and ids relative; to be freed */
} Outcome;

/* What else the settings of a session allow. */
typedef struct Allowance
{
	bool read_only;
	bool role;
	bool encoding;
	bool stack;
} Allowance;

typedef struct Session
{
	PGconn    *conn;
	char       database[64];
	Allowance  allow;
	const char *setup; /* told when a call fails */
} Session;

/* main.c */
extern const char *conninfo;
extern uint64_t    seed;
extern long        total_calls;
extern int         passed;
extern int         failed;
extern int         draw(int below);
extern double      now_ms(void);
extern char       *text_of(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
extern void die(const char *format, ...)
	__attribute__((format(printf, 1, 2), noreturn));
extern bool report(bool ok, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
extern void      open_session(Session *session, const char *database);
extern void      close_session(Session *session);
extern PGresult *must(PGconn *conn, const char *sql);
extern char     *ask(PGconn *conn, const char *sql);

/* catalog.c */
extern Function *functions;
extern int       function_count;
extern Context  *contexts;
extern int       context_count;
extern Item     *items;
extern int       item_count;
extern bool      only_required; /* no optional argument is given by chance */
extern void      read_catalog(PGconn *conn);
extern void      read_contexts(PGconn *conn);
extern void      make_items(void);
extern void      shuffle_items(void);
extern char     *fill(const char *value, const Context *context);
extern char     *call_text(PGconn *conn, const Item *item,
						   const Context *context, bool inlined);
extern const Context *pick_context(const Function *function);
extern const Context *context_named(const char *name);
extern int            argument_named(const Function *function,
									 const char *name);

/* values.c */
extern const Type   types[];
extern const int    type_count;
extern const Value  member_values[];
extern const int    member_value_count;
extern const Members members[];
extern const int    members_count;

/* settings.c */
typedef struct Level
{
	const char *set; /* the statement; NULL: as it is */
	bool        there;
} Level;

typedef struct Factor
{
	const char *name;
	int         count;
	Level       level[8];
} Factor;

extern Factor factors[];
extern const int factor_count;
extern void      probe_settings(void);
extern int       cover(int ***rows);
extern void      apply_levels(Session *session, const int *row);
extern char     *levels_text(const int *row);

/* call.c */
extern const char *const mode_names[];
extern void run_sql(Session *session, const char *sql, const char *param,
					Outcome *outcome);
extern void clear_outcome(Outcome *outcome);
extern void run_item(Session *session, Item *item, Mode mode);
extern void watched_item(Session *session, Item *item, Mode mode);
extern int64_t first_new_id;

/* watch.c */
extern void watch_open(const char *database);
extern void watch_close(void);
extern void watch_session(Session *session);
extern void watch_remember(Item *item, Mode mode, const char *sql);
extern void watch_look(void);
extern void watch_restore_progress(void);
extern void watch_rebase(void);
extern bool watch_server_is_up(void);

/* script.c, phases.c, memory.c */
extern void phase_nulls(void);
extern void phase_rows(bool with_script, bool with_calls);
extern void phase_huge(void);
extern void phase_encodings(void);
extern void phase_memory(void);
extern bool run_script(Session *session, const char *what);

#endif

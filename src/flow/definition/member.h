/*
 * member.h
 *		Reads and checks members of a definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MEMBER_H
#define TQ_MEMBER_H

#include "base/compat.h"

#include "nodes/pg_list.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"

#include "base/arg.h"
#include "flow/definition/problem.h"

/* Iterates over the members of an object. */
typedef struct TqMembers
{
	JsonbIterator *it;
	const char    *of;
	char          *name;
	char          *path;
} TqMembers;

extern void tq_member_list_begin(TqMembers *members, JsonbContainer *object,
								 const char *path);
extern bool tq_member_list_next(TqMembers *members, JsonbValue *value);

/*
 * for an invalid value these functions return NULL, the first word, 0 or
 * false, or omit the value
 */
extern char *tq_member_word(TqDefinitionProblems *problems, const char *path,
							const JsonbValue *value, int max);
extern char *tq_member_queue(TqDefinitionProblems *problems, const char *path,
							 const JsonbValue *value);

extern int tq_member_choice(TqDefinitionProblems *problems, const char *path,
							const JsonbValue *value, const char *const *words,
							int count);
extern int tq_member_integer(TqDefinitionProblems *problems, const char *path,
							 const JsonbValue *value, int min, int max);

extern bool tq_member_span(TqDefinitionProblems *problems, const char *path,
						   const JsonbValue *value, bool forever, int64 *span);
extern void tq_member_tags(TqDefinitionProblems *problems, const char *path,
						   const JsonbValue *value, TqTags *tags);

extern void tq_member_check_options(TqDefinitionProblems *problems,
									const char *path, Jsonb *options);

extern JsonPath *tq_member_path(TqDefinitionProblems *problems,
								const char *path, const JsonbValue *value,
								List **wanted);
extern Jsonb    *tq_member_pattern(TqDefinitionProblems *problems,
								   const char *path, JsonbValue *value,
								   List **wanted);

#endif /* TQ_MEMBER_H */

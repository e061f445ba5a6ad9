/*
 * value.h
 *		Values in definitions, and what paths select.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_VALUE_H
#define TQ_VALUE_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "utils/jsonb.h"
#include "utils/jsonpath.h"

#include "cache/options.h"

/* A double represents all integers up to this one exactly. */
#define TQ_LARGEST_WHOLE INT64CONST(9007199254740992)

extern bool      tq_value_whole(Numeric number, int64 *result);
extern bool      tq_value_span(const char *word, int64 *span);
extern bool      tq_value_time(const char *word, TimestampTz *time);
extern char     *tq_value_wrong_options(Jsonb *options);
extern bool      tq_value_option(TqOptions *options, const char *name,
								 JsonbValue *value);
extern JsonPath *tq_value_path(const char *word, char **wrong);
extern List     *tq_value_names(JsonPath *path, List *names);
extern List     *tq_value_paths(Jsonb *document);
extern bool      tq_value_like(char *pattern, char *word, bool *result,
							   char **wrong);
extern bool      tq_value_match(JsonPath *path, Jsonb *document, bool *result,
								char **wrong);
extern Jsonb    *tq_value_canonical(Jsonb *document);
extern Jsonb    *tq_value_fill(Jsonb *pattern, Jsonb *document, char **wrong);

#endif /* TQ_VALUE_H */

/*
 * arg.h
 *		Arguments of SQL functions, checked as the contract requires.
 *
 * A required argument that is null raises 22004, a bad value 22023, and a
 * value that is too long TQ009.  Results are in the current memory context.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ARG_H
#define TQ_ARG_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/jsonb.h"

typedef struct TqTags
{
	int    count;
	char **tags; /* sorted, without duplicates */
} TqTags;

extern char *tq_arg_name(FunctionCallInfo fcinfo, int n, const char *what,
						 const char *if_null);
extern char *tq_arg_word(FunctionCallInfo fcinfo, int n, const char *what,
						 int max);
extern char *tq_arg_message(FunctionCallInfo fcinfo, int n);
extern char *tq_arg_keyword(FunctionCallInfo fcinfo, int n, const char *what);
extern int64 tq_arg_int8(FunctionCallInfo fcinfo, int n, const char *what);
extern const int64 *tq_arg_int8_if_given(FunctionCallInfo fcinfo, int n,
										 int64 *value);
extern bool         tq_arg_bool(FunctionCallInfo fcinfo, int n, bool if_null);
extern int64  tq_arg_span(FunctionCallInfo fcinfo, int n, const char *what,
						  int64 min, int64 if_null);
extern int64  tq_arg_length(FunctionCallInfo fcinfo, int n, const char *what,
							int64 min, int64 if_null);
extern bool   tq_arg_time(FunctionCallInfo fcinfo, int n, const char *what,
						  TimestampTz *time);
extern Jsonb *tq_arg_jsonb(FunctionCallInfo fcinfo, int n);
extern bool   tq_arg_tags(FunctionCallInfo fcinfo, int n, TqTags *tags);
extern Datum *tq_arg_array(FunctionCallInfo fcinfo, int n, const char *what,
						   Oid element, int *count);
extern char **tq_arg_words(const Datum *values, int count, const char *list,
						   const char *what, int max);

extern void  tq_arg_check_list(const char *list, int64 count);
extern void  tq_arg_check_word(const char *word, const char *what, int max);
extern bool  tq_arg_word_is_valid(const char *word, int max);
extern int64 tq_arg_interval_span(Interval *interval, const char *what,
								  int64 min);
extern char *tq_arg_cut(const char *text, int max);
extern Datum tq_arg_tags_datum(const TqTags *tags);
extern bool  tq_arg_tags_read(Datum stored, TqTags *tags);
extern bool  tq_arg_tags_stored(Datum stored, TqTags *tags);
extern bool  tq_arg_tags_subset(const TqTags *some, const TqTags *all);
extern void  tq_arg_tags_sort(TqTags *tags);

#endif /* TQ_ARG_H */

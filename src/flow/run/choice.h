/*
 * choice.h
 *		Reads the results of decisions and batches.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHOICE_H
#define TQ_CHOICE_H

#include "flow/instance/flow_types.h"

/* The steps that a decision has chosen, or the members of a batch. */
typedef struct TqChoice
{
	TqStepList steps;
	int        member_count;
	Jsonb    **members; /* payloads of the members */
} TqChoice;

extern char  *tq_choice_read(const TqTemplate *template, int place,
							 Jsonb *result, TqChoice *choice);
extern char  *tq_choice_exceeds(const TqStep *step, const TqChoice *choice);
extern void   tq_choice_refuse(const TqStep *step, int64 task_id,
							   const char *wrong) pg_attribute_noreturn();
extern void   tq_choice_warn_wrong(const TqFlow *flow, const TqStep *step,
								   int64 task_id, const char *wrong);
extern void   tq_choice_note_large(List **all, const TqTemplate *template,
								   int place, int64 task_id);
extern void   tq_choice_warn(const TqFlow *flow, const List *all);
extern Jsonb *tq_choice_branches(const TqStep *step,
								 const TqTemplate *template, Jsonb *document,
								 char **wrong);

#endif /* TQ_CHOICE_H */

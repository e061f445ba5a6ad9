/*
 * submission_keys.h
 *		Keys and references in a list of tasks to submit.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBMISSION_KEYS_H
#define TQ_SUBMISSION_KEYS_H

#include "base/compat.h"

#include "utils/jsonb.h"

#include "base/types.h"
#include "store/table.h"

/* The key, reference and insertion of an entry. */
typedef struct TqSubmissionKey
{
	char       *queue_name;
	char       *key; /* or NULL */
	TqInsertion insertion;
	char       *reference;       /* or NULL */
	bool        may_change;      /* changes the task that has its reference */
	bool        may_be_kept_out; /* another task may have its reference */
	bool        deleted;         /* by a later entry */
} TqSubmissionKey;

typedef struct TqSubmissionKeys
{
	TqSubmissionKey *all;
	int              count;
	int              references; /* number of entries with a reference */
} TqSubmissionKeys;

extern void tq_submission_keys_read(Jsonb *list, TqSubmissionKeys *keys);
extern void tq_submission_keys_lock(TqCall                 *call,
									const TqSubmissionKeys *keys);
extern void tq_submission_keys_lock_references(TqCall                 *call,
											   const TqSubmissionKeys *keys);

#endif /* TQ_SUBMISSION_KEYS_H */

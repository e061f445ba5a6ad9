/*
 * submission_keys.h
 *		Keys of the entries of a list that is submitted.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBMISSION_KEYS_H
#define TQ_SUBMISSION_KEYS_H

#include "base/compat.h"

#include "utils/jsonb.h"

#include "base/types.h"
#include "store/table.h"

/* What an entry says of its key. */
typedef struct TqSubmissionKey
{
	char       *queue_name;
	char       *key; /* NULL: none */
	TqInsertion insertion;
	char       *reference;       /* NULL: none */
	bool        may_change;      /* the task that has its reference */
	bool        may_be_kept_out; /* another task may have its reference */
	bool        deleted;         /* by a later one */
} TqSubmissionKey;

typedef struct TqSubmissionKeys
{
	TqSubmissionKey *all;
	int              count;
	int              references; /* entries that have one */
} TqSubmissionKeys;

extern void tq_submission_keys_read(Jsonb *list, TqSubmissionKeys *keys);
extern void tq_submission_keys_lock(TqCall                 *call,
									const TqSubmissionKeys *keys);
extern void tq_submission_keys_lock_references(TqCall                 *call,
											   const TqSubmissionKeys *keys);

#endif /* TQ_SUBMISSION_KEYS_H */

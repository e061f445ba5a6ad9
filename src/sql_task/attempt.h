/*
 * attempt.h
 *		One attempt of a SQL task: its transactions.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ATTEMPT_H
#define TQ_ATTEMPT_H

#include "base/compat.h"

#include "utils/jsonb.h"

/* A task that this executor has claimed. */
typedef struct TqHeld
{
	int64  task_id; /* 0: none */
	int64  token;
	int64  time_limit; /* microseconds; 0: none */
	int64  max_result; /* bytes */
	Jsonb *payload;    /* or NULL */
} TqHeld;

/* The executor, and the queue in which it looks for tasks. */
typedef struct TqAttemptOf
{
	char *worker;
	int64 incarnation;
	int32 role_id;
	Oid   role;
	Oid   user; /* current user of a new session: a role can set it */
	int32 queue_id;
	struct MemoryContextData *context; /* for payloads */
} TqAttemptOf;

extern bool tq_attempt_first(const TqAttemptOf *of, TqHeld *held);
extern void tq_attempt_run(const TqAttemptOf *of, TqHeld *held);
extern bool tq_attempt_session_is_clean(const TqAttemptOf *of);

#endif /* TQ_ATTEMPT_H */

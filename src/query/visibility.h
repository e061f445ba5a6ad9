/*
 * visibility.h
 *		The queues whose tasks current_user may see.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_VISIBILITY_H
#define TQ_VISIBILITY_H

#include "base/redaction.h"

/* What current_user may see of the tasks of a queue, beside their columns. */
typedef struct TqContents
{
	bool               words;     /* messages and errors */
	bool               all;       /* the contents, */
	bool               whole;     /* without exception, */
	const TqRedaction *redaction; /* or but what this selects; NULL: nothing */
} TqContents;

/* The queues whose tasks current_user may see. */
typedef struct TqVisibility
{
	bool   all;         /* every task */
	bool   all_words;   /* and its messages and errors */
	bool   all_payload; /* and its contents */
	bool   all_whole;   /* the call hands them out: nothing is redacted */
	int32 *queues;      /* else those whose tasks it may observe, sorted */
	bool  *reads;       /* and whether it may read them */
	int    queue_count;

	/* kept by query/contents.c */
	MemoryContext context;
	MemoryContext redactions;  /* of asked; NULL: none yet */
	int32         asked_queue; /* the queue of the last task; 0: none */
	TqContents    asked;
	TqContents    letter; /* of the last task, if it is a dead letter */
} TqVisibility;

extern void tq_visibility_take(TqVisibility *sight);
extern void tq_visibility_open(TqVisibility *sight);
extern bool tq_visibility_observes(const TqVisibility *sight, int32 queue_id);
extern bool tq_visibility_reads(const TqVisibility *sight, int32 queue_id);

#endif /* TQ_VISIBILITY_H */

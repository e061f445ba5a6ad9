/*
 * change_set.h
 *		The entries of a change: loops over them, and search by task or name.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_SET_H
#define TQ_CHANGE_SET_H

#include "nodes/execnodes.h"

#include "command/submission.h"
#include "command/update.h"
#include "engine/key.h"
#include "engine/worker.h"
#include "store/table.h"

/* The lists of a call, in the order in which they are read. */
typedef enum TqPart
{
	TQ_PART_ADDS,
	TQ_PART_UPDATES,
	TQ_PART_DELETES,
	TQ_PART_DEPENDS,
	TQ_PART_DOC_ADDS,
	TQ_PART_DOC_UPDATES,
	TQ_PART_DOC_DELETES,
	TQ_PART_DOC_DEPENDS,
	TQ_PARTS,
	/* not given: a task that makes way for an added one */
	TQ_PART_MAKES_WAY = TQ_PARTS
} TqPart;

/*
 * Members of TQ010's DETAIL; the members of documents are present only if
 * documents are named.
 */
typedef enum TqChangeProblem
{
	TQ_PROBLEM_CHANGES,
	TQ_PROBLEM_DELETES,
	TQ_PROBLEM_DEPENDS,
	TQ_PROBLEM_OWNED,
	TQ_PROBLEM_COLLISIONS,
	TQ_PROBLEM_BUGS,
	TQ_PROBLEM_DOC_CHANGES,
	TQ_PROBLEM_DOC_DELETES,
	TQ_PROBLEM_DOC_DEPENDS,
	TQ_PROBLEM_DOC_OWNED,
	TQ_PROBLEM_DOC_COLLISIONS,
	TQ_PROBLEMS
} TqChangeProblem;

/* A document, as an entry names it. */
typedef struct TqDocument
{
	char  *space; /* its namespace; NULL: named by its id */
	char  *key;
	char  *secondary_key;
	bool   content_named;
	Jsonb *content; /* or NULL */
	/* as found and locked */
	bool        there;
	int         rights; /* in its namespace */
	int64       version;
	char       *worker; /* NULL: not held */
	TimestampTz lease_until;
} TqDocument;

/* An entry of a list. */
typedef struct TqEntry
{
	TqPart part;
	int    place;
	int64  id; /* of an add: the created task, or 0 */
	bool   has_version;
	int64  version;
	int64  lease; /* 0: none */
	bool   skip_existing;
	bool   locked; /* the row of a task is locked */
	/* of adds and updates of tasks */
	FunctionCallInfo inner; /* arguments of a submit */
	TqSubmission     sub;
	TqChanges       *changes;
	char            *brings; /* its own reference, to another queue */
	/* of documents */
	TqDocument *doc;
} TqEntry;

typedef struct TqChange
{
	TqCall        *call;
	char          *worker; /* its name */
	char          *reason; /* of a manual change, or NULL */
	TqWorker       who;    /* if the change claims something */
	TqEntry       *entries;
	int            count;
	bool           takes; /* some task gets a lease */
	TqEntry      **adds;
	int            add_count;
	TqEntry      **by_id; /* all other entries of tasks */
	int            by_id_count;
	TqKeyName     *keys; /* that are locked */
	int            key_count;
	TqEntry      **docs; /* likewise, of documents */
	int            doc_count;
	TqEntry      **doc_adds;
	int            doc_add_count;
	StringInfoData problems[TQ_PROBLEMS];
	bool           any_problem;
} TqChange;

typedef void (*TqChangeStep)(TqChange *change, TqEntry *entry);

extern const char *tq_change_part_name(TqPart part);
extern void tq_change_each(TqChange *change, TqEntry **entries, int count,
						   TqChangeStep step);
extern const TqEntry *tq_change_find(TqEntry *const *entries, int count,
									 int64 id);
extern int            tq_change_compare_ids(const void *a, const void *b);
extern char          *tq_change_reference(const TqEntry *entry);
extern void           tq_change_note_brought(TqChange *change);

#endif /* TQ_CHANGE_SET_H */

/*
 * redaction.h
 *		Replaces what jsonpaths select in a document by "[redacted]".
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_REDACTION_H
#define TQ_REDACTION_H

#include "base/compat.h"

#include "utils/jsonb.h"

#define TQ_REDACTION_ALLOWED                                                  \
	"a list of at most 100 jsonpaths such as \"$.customer.email\", of "       \
	"members, .*, .**, [n] and [*]"

typedef enum TqRedactionKind
{
	TQ_REDACT_KEY,         /* .name */
	TQ_REDACT_ANY_KEY,     /* .* */
	TQ_REDACT_ELEMENT,     /* [n] */
	TQ_REDACT_ANY_ELEMENT, /* [*] */
	TQ_REDACT_DEEP,        /* .** */
	TQ_REDACT_END          /* the end of a path: it selects the value */
} TqRedactionKind;

typedef struct TqRedactionStep
{
	TqRedactionKind kind;
	int32           index;  /* of an element */
	const char     *name;   /* of a member; not null-terminated */
	int             length; /* of the name */
} TqRedactionStep;

/* Paths, one after the other; each ends with TQ_REDACT_END. */
typedef struct TqRedaction
{
	int              count; /* steps of all paths */
	int              room;
	TqRedactionStep *steps;
	Jsonb           *list; /* as read; NULL: made of others */
} TqRedaction;

extern TqRedaction *tq_redaction_read(const JsonbValue *list);
extern TqRedaction *tq_redaction_make(void);
extern TqRedaction *tq_redaction_of_all(void);
extern TqRedaction *tq_redaction_copy(const TqRedaction *redaction);
extern void   tq_redaction_add(TqRedaction *redaction, const TqRedaction *more,
							   const TqRedactionStep *before, int count);
extern Jsonb *tq_redaction_apply(const TqRedaction *redaction, Jsonb *doc);

#endif /* TQ_REDACTION_H */

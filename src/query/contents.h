/*
 * contents.h
 *		The contents of tasks, as current_user may see them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CONTENTS_H
#define TQ_CONTENTS_H

#include "query/visibility.h"
#include "store/task.h"

extern bool tq_contents_get(TqVisibility *sight, TqTask *task, TqColumn column,
							Datum *value);
extern const TqRedaction *tq_contents_redaction(int32 queue_id);
extern const TqRedaction *tq_contents_redaction_of(Oid role, int32 queue_id);
extern const TqRedaction *tq_contents_redaction_dropped(void);
extern Jsonb *tq_contents_redact(const TqRedaction *redaction, Jsonb *doc);

#endif /* TQ_CONTENTS_H */

/*
 * flow_contents.h
 *		Contents of instances, as current_user may see them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FLOW_CONTENTS_H
#define TQ_FLOW_CONTENTS_H

#include "base/redaction.h"
#include "flow/definition/template_types.h"

extern const TqRedaction *tq_flow_contents_redaction(
	const TqTemplate *template);
extern bool tq_flow_contents_hides(const TqRedaction *redaction,
								   const char        *document);

#endif /* TQ_FLOW_CONTENTS_H */

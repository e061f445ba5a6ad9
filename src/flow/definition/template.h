/*
 * template.h
 *		Templates of workflows, as a session caches them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TEMPLATE_H
#define TQ_TEMPLATE_H

#include "flow/definition/template_types.h"

extern TqTemplate *tq_template_get(int32 template_id);
extern TqTemplate *tq_template_find(const char *space, const char *name,
									const char *version);
extern TqTemplate *tq_template_look(const char *space, const char *name,
									const char *version);

extern void tq_template_init(void);
extern void tq_template_missing(const char *space, const char *name,
								const char *version) pg_attribute_noreturn();

#endif /* TQ_TEMPLATE_H */
